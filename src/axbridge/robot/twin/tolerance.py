"""How far a servo may be from its simulated twin before anything is wrong: as far as its model and its loop say."""

from __future__ import annotations

import math

from axbridge.config.model import ServoModel
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.robot.twin.residuals import Allowance, Residuals
from axbridge.servo.columns import Command
from axbridge.virtual.servo import loop_row

_USUAL_ERROR = math.radians(1.0)  # rad, root mean square, of a model that says nothing of its own
_USUAL_SHARE = 0.2  # of a held load, likewise
_LEAST_ERROR, _LEAST_SHARE = math.radians(0.5), 0.15  # better than this no model is believed to be
_OFF, _WRONG = 4.0, 2.5  # so many times the error it may stand off for a moment, and be off in all of its motion
_STEPS = 1.2  # of its loop's output that two servos may differ by without a cause


def allowance(rig: Rig, servo: ServoConfig, model: ServoModel) -> Allowance:
    """What is allowed to a Dynamixel of a rig beside this model of it: by held-out error and intervals, if it has them.

    Where the loop sees whole counts, friction lets the same servo hold the same load with one step more or less. What
    the joints of a robot that stands free hold depends on how it stands, which no servo can tell: there it is any load.
    """
    worth, dead = model.prediction, model.motor.dead_duty
    error = _USUAL_ERROR if worth.held_out_error is None else max(worth.held_out_error, _LEAST_ERROR)
    share = _USUAL_SHARE if worth.load_share is None else max(worth.load_share, _LEAST_SHARE)
    step = _loop_step(rig, servo, model) / (1.0 - dead) if model.sensor.quantised else 0.0
    if rig.world is not None and not rig.world.fixed_base:
        step = math.inf
    return Allowance(_OFF * error, _WRONG * error, share, _STEPS * step, dead)


def residuals_of(rig: Rig) -> Residuals:
    """To watch the Dynamixels of a rig beside their models.

    Raises:
        RigError, ProfileError: a model of the rig is wrong.
    """
    return Residuals({servo.name: allowance(rig, servo, rig.model_of(servo)) for servo in rig.dynamixels})


def _loop_step(rig: Rig, servo: ServoConfig, model: ServoModel) -> float:
    """Duty that the loop adds for one count more of error."""
    profile, law = rig.profile_of(servo), model.controller
    row = loop_row(profile, servo.zero, servo.registers)
    if law.law == "compliance":
        slope = law.slope or max(row[Command.SLOPE_CW], profile.units.position)
        return (1.0 - (law.punch if law.punch >= 0 else row[Command.PUNCH])) * profile.units.position / slope
    return law.p_duty * row[Command.P_GAIN] if law.law == "pid" else 0.0
