"""What a sensor is to a robot: one sample a step, or None while it is lost. And the simulated ones.

A sensor of your own needs `read`, `trouble` and `close`, and a line in `_open_sensors` of `axbridge.robot.connection`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from axbridge.config.rig import Rig
from axbridge.config.rig_tables import SensorConfig
from axbridge.errors import RigError, UsageError
from axbridge.rotations import Quaternion, Vector, crossed, inverse, of_roll_pitch_yaw, product, roll_pitch_yaw, turned
from axbridge.sim.engine import Engine, LinkMotion


@dataclass(frozen=True)
class ImuSample:
    """What an inertial measurement unit tells, in its own axes: x ahead, y to the left, z up."""

    time: float  # when it was taken, s
    orientation: Quaternion  # how it is turned in the world, x, y, z, w
    rates: Vector  # how fast it turns, rad/s
    acceleration: Vector  # what it is pushed with, m/s²: at rest and upright 9.81 along z, in free fall nothing

    @property
    def roll_pitch_yaw(self) -> Vector:
        """How it is turned about x, y and z, rad; pitch is positive nose down."""
        return roll_pitch_yaw(self.orientation)


@dataclass(frozen=True)
class GpsSample:
    """Where something is in the world."""

    time: float  # s
    position: Vector  # m
    speed: Vector  # m/s


@dataclass(frozen=True)
class ForceSample:
    """What pushes a link."""

    time: float  # s
    force: Vector  # in the sensor's axes, N
    touched: bool  # whether anything touches the link

    @property
    def pressed(self) -> float:
        """What presses on the sensor's face, which looks along its x axis, N."""
        return max(0.0, -self.force[0])


@dataclass(frozen=True)
class DistanceSample:
    """How far the floor is."""

    time: float  # s
    distance: float  # along the sensor's x axis, m; its range where there is none


Sample = ImuSample | GpsSample | ForceSample | DistanceSample


class Sensor(Protocol):
    """Something that is asked once a step; it must not keep the step waiting."""

    @property
    def trouble(self) -> str:
        """Why `read` gives None now, and what repairs it."""

    def read(self, zero: float) -> Sample | None:
        """The latest sample, None while there is none; its time counts from `zero` on the backend's clock, s."""


class SimulatedSensor:
    """A sensor on a link of a simulated robot: what the engine knows, with the rig's noise and bias.

    Forces are those of the engine's latest physics step. An acceleration is the mean since the sample before.
    """

    trouble = ""  # it is never lost

    def __init__(self, rig: Rig, config: SensorConfig, engine: Engine, now: Callable[[], float], seed: int) -> None:
        assert rig.world is not None  # without one no engine was built
        self._config, self._engine, self._now = config, engine, now
        self._link = config.link or next(iter(engine.poses()))
        self._mounted = of_roll_pitch_yaw(*config.rotation)
        self._gravity, self._ground = rig.world.gravity, rig.world.ground
        self._random = Random(f"{seed} {config.name}")
        try:
            self._before = engine.motion(self._link)
        except UsageError as failure:
            key = f"sensor.{config.name}.link"
            raise RigError(rig.path, key, failure.message, failure.hint) from None
        self._moved = self._speed(self._before)
        self._faster: Vector = (0.0, 0.0, 0.0)

    def read(self, zero: float) -> Sample:
        """A sample taken now."""
        motion, time = self._engine.motion(self._link), self._now() - zero
        axes = product(motion.turned, self._mounted)
        kind, noise = self._config.kind, self._config.noise
        if kind == "imu":
            return self._imu(motion, axes, time)
        if kind == "gps":
            return GpsSample(time, self._noisy(self._place(motion), noise), self._speed(motion))
        if kind == "distance":
            return DistanceSample(time, self._distance(self._place(motion)[2], turned((1.0, 0.0, 0.0), axes)[2]))
        here = [contact.force for contact in self._engine.contacts() if contact.link == self._link]
        force = turned(_summed(here), inverse(axes))
        return ForceSample(time, self._noisy(force, noise), bool(here))

    def _imu(self, motion: LinkMotion, axes: Quaternion, time: float) -> ImuSample:
        config, passed, speed = self._config, motion.time - self._before.time, self._speed(motion)
        if passed > 0:
            x, y, z = ((new - old) / passed for new, old in zip(speed, self._moved, strict=True))
            self._faster = x, y, z
            self._before, self._moved = motion, speed
        x, y, z = (gain - fall for gain, fall in zip(self._faster, self._gravity, strict=True))
        push, spin = turned((x, y, z), inverse(axes)), turned(motion.spin, inverse(axes))
        orientation = axes
        if config.orientation_noise:
            orientation = product(axes, of_roll_pitch_yaw(*self._noisy((0.0, 0.0, 0.0), config.orientation_noise)))
        return ImuSample(
            time,
            orientation,
            _summed([self._noisy(spin, config.rate_noise), config.rate_bias]),
            _summed([self._noisy(push, config.acceleration_noise), config.acceleration_bias]),
        )

    def _place(self, motion: LinkMotion) -> Vector:
        return _summed([motion.place, turned(self._config.position, motion.turned)])

    def _speed(self, motion: LinkMotion) -> Vector:
        """Of the sensor itself, in the world, m/s."""
        return _summed([motion.speed, crossed(motion.spin, turned(self._config.position, motion.turned))])

    def _distance(self, height: float, down: float) -> float:
        """To a floor at z = 0, along a beam whose direction has this z."""
        farthest = self._config.range
        if not self._ground or down >= 0:
            return farthest
        way = max(0.0, height / -down)
        return farthest if way >= farthest else min(farthest, max(0.0, way + self._gauss(self._config.noise)))

    def _noisy(self, values: Vector, deviation: float) -> Vector:
        x, y, z = values
        return x + self._gauss(deviation), y + self._gauss(deviation), z + self._gauss(deviation)

    def _gauss(self, deviation: float) -> float:
        return self._random.gauss(0.0, deviation) if deviation else 0.0


def _summed(vectors: list[Vector]) -> Vector:
    x, y, z = (sum(parts) for parts in zip((0.0, 0.0, 0.0), *vectors, strict=True))
    return x, y, z
