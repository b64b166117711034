"""A servo's position loop as one straight line, volts over the error, for simulators without a firmware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from axbridge.config.model import ServoModel
from axbridge.servo.columns import Command
from axbridge.servo.position_laws import felt


class LinearLoop(NamedTuple):
    """Volts = k_theta·error + k_integral·∫error - k_omega·speed, within ±limit; resistance is what the motor then has.

    Attributes:
        k_theta: V/rad.
        k_integral: V/(rad·s).
        k_omega: V·s/rad.
        limit: V.
        resistance: ohm.
    """

    k_theta: float
    k_integral: float
    k_omega: float
    limit: float
    resistance: float


def linear_loop(model: ServoModel, command: Sequence[float], count: float, supply: float) -> LinearLoop:
    """The line nearest to a servo's own law.

    The compliance law is full where margin and slope end; the line through the origin is full there, too. It has no
    margin, no punch and no lag. A winding whose resistance grows with the duty has that of full duty: most of a move
    is made at full duty, and of an AX-12's step that leaves least (`benchmarks/RESULTS.md` has the figures).
    """
    law, motor = model.controller, model.motor
    cap = float(felt(min(command[Command.TORQUE_LIMIT], 1.0), motor.dead_duty)) * supply
    resistance = motor.resistance + motor.resistance_per_duty
    if law.law == "state_feedback":
        return LinearLoop(law.k_theta, 0.0, law.k_omega, cap, resistance)
    if law.law == "compliance":
        slope = law.slope or 0.5 * (command[Command.SLOPE_CW] + command[Command.SLOPE_CCW])
        margin = 0.5 * (command[Command.MARGIN_CW] + command[Command.MARGIN_CCW])
        return LinearLoop(supply / (margin + slope), 0.0, 0.0, cap, resistance)
    gains = (
        law.p_duty * command[Command.P_GAIN], law.i_duty * command[Command.I_GAIN], law.d_duty * command[Command.D_GAIN]
    )  # fmt: skip
    proportional, integral, derivative = (gain * supply / count for gain in gains)
    return LinearLoop(proportional, integral, derivative, cap, resistance)
