"""What a servo reported last, in SI units."""

from __future__ import annotations

from dataclasses import dataclass

from axbridge.errors import ErrorFlag

__all__ = ["ServoState"]


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
    errors: ErrorFlag
