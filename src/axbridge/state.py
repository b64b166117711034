"""What a servo reported last, in SI units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from axbridge.errors import ErrorFlag, HardwareError

__all__ = ["UNKNOWN", "Goals", "ServoState", "Truth"]


class Truth(NamedTuple):
    """What only a simulation knows of a servo; NaN where nobody knows.

    Attributes:
        position: rad, joint side: the joint itself, before sensor and rounding.
        torque: N·m, joint side, positive towards larger angles: what the joint felt, after gear loss and friction,
            with the spring, damper and static friction that its rig lays beside the servo.
    """

    position: float
    torque: float


class Goals(NamedTuple):
    """The last commands of a servo, on the joint's side, after checks, clipping and multiplier. NaN = does not apply.

    Attributes:
        position: Goal, rad; NaN before the first, and in any other control than of position.
        speed: Limit of the approach, rad/s; 0 holds still.
        torque: Largest torque allowed, as a share of the servo's largest, 0..1.
        duty: Duty of open-loop turning, -1..1.
        enabled: Whether the motor is switched on.
    """

    position: float
    speed: float
    torque: float
    duty: float
    enabled: bool


UNKNOWN = Truth(math.nan, math.nan)


@dataclass(frozen=True)
class ServoState:
    """One sample of a servo. Values not read yet are NaN.

    Attributes:
        time: When the servo took the sample, s on the robot's clock.
        position: rad, joint side.
        velocity: rad/s, measured by the servo.
        torque: N·m, estimated from load, speed and supply by the motor model (AX-12 have no current sensor).
        load: -1..1, the duty the servo's firmware reports as Present Load.
        voltage: V.
        temperature: °C.
        errors: Error byte of the latest reply.
    """

    time: float
    position: float
    velocity: float
    torque: float
    load: float
    voltage: float
    temperature: float
    errors: ErrorFlag | HardwareError
