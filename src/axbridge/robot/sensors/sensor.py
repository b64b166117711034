"""What a sensor is to a robot, and what it tells: one sample a step, or None while it is lost.

A sensor of your own needs `read`, `trouble` and `close`, and a line in `axbridge.robot.sensors.open_sensors`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from axbridge.rotations import Quaternion, Vector, roll_pitch_yaw


@dataclass(frozen=True)
class ImuSample:
    """What an inertial measurement unit tells, in its own axes: x ahead, y to the left, z up.

    Attributes:
        time: When it was taken, s.
        orientation: How it is turned in the world, x, y, z, w.
        rates: How fast it turns, rad/s.
        acceleration: What it is pushed with, m/s²: at rest and upright 9.81 along z, in free fall nothing.
    """

    time: float
    orientation: Quaternion
    rates: Vector
    acceleration: Vector

    @property
    def roll_pitch_yaw(self) -> Vector:
        """How it is turned about x, y and z, rad; pitch is positive nose down."""
        return roll_pitch_yaw(self.orientation)


@dataclass(frozen=True)
class GpsSample:
    """Where something is.

    Attributes:
        time: When it was there, s.
        position: In the world, m.
        speed: In the world, m/s.
    """

    time: float
    position: Vector
    speed: Vector


@dataclass(frozen=True)
class ForceSample:
    """What pushes a link.

    Attributes:
        time: When, s.
        force: In the sensor's axes, N.
        touched: Whether anything touches the link.
    """

    time: float
    force: Vector
    touched: bool

    @property
    def pressed(self) -> float:
        """What presses on the sensor's face, which looks along its x axis, N."""
        return max(0.0, -self.force[0])


@dataclass(frozen=True)
class DistanceSample:
    """How far the floor is.

    Attributes:
        time: When, s.
        distance: Along the sensor's x axis, m; its range where there is none.
    """

    time: float
    distance: float


Sample = ImuSample | GpsSample | ForceSample | DistanceSample


class Sensor(Protocol):
    """Something that is asked once a step; it must not keep the step waiting."""

    @property
    def trouble(self) -> str:
        """Why `read` gives None now, and what repairs it."""

    def read(self, zero: float) -> Sample | None:
        """The latest sample; None while there is none, or none that is new enough to go by.

        Args:
            zero: Where the sample's time counts from, on the clock of the robot's backend, s.
        """
