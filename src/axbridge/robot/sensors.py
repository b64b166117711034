"""Sensors of a robot, simulated ones and a real IMU: one sample a step, or None while the sensor is lost.

A new kind of sensor needs `read`, `trouble` and `close`, and a line in `_open_sensors` of `axbridge.robot.connection`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

import serial

from axbridge.clock import Clock, WallClock
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import SensorConfig
from axbridge.errors import PortError, RigError, UsageError
from axbridge.rotations import Quaternion, Vector, crossed, inverse, of_roll_pitch_yaw, product, roll_pitch_yaw, turned
from axbridge.sim.engine import Engine, LinkMotion

_MARK = b"#YPRAG="
_UNIT = 9.80665 / 256  # m/s² of an acceleration of 1
_STALE = 0.1  # s: five lines are missing
_START = 5.0  # s until the first line of a board that opening its port has reset
_START_OUTPUT = b"#o0\r#ox\r#o1\r"  # stop; angles, accelerations and rates as text; start
_REOPEN_INTERVAL = 0.5  # s between attempts to open a lost port
_WAIT = 0.1  # s; read time-out, so that the thread soon sees `close`
_MOST_BYTES = 200  # bytes of a line; longer input is no line


@dataclass(frozen=True)
class ImuSample:
    """Sample of an inertial measurement unit, in its own axes: x ahead, y to the left, z up."""

    time: float  # of the sample, s
    orientation: Quaternion  # in the world, x, y, z, w
    rates: Vector  # angular velocity, rad/s
    acceleration: Vector  # specific force, m/s²: at rest and upright 9.81 along z, in free fall 0

    @property
    def roll_pitch_yaw(self) -> Vector:
        """Return the rotation about x, y and z, rad; pitch is positive nose down."""
        return roll_pitch_yaw(self.orientation)


@dataclass(frozen=True)
class GpsSample:
    """Position in the world."""

    time: float  # s
    position: Vector  # m
    speed: Vector  # velocity, m/s


@dataclass(frozen=True)
class ForceSample:
    """Contact force on a link."""

    time: float  # s
    force: Vector  # in the sensor's axes, N
    touched: bool  # whether anything touches the link

    @property
    def pressed(self) -> float:
        """Return the force on the sensor's face, N; the face points along its x axis."""
        return max(0.0, -self.force[0])


@dataclass(frozen=True)
class DistanceSample:
    """Distance to the floor."""

    time: float  # s
    distance: float  # along the sensor's x axis, m; the sensor's range if the beam does not reach the floor


Sample = ImuSample | GpsSample | ForceSample | DistanceSample


class Sensor(Protocol):
    """A sensor that is read once a step; `read` must not block."""

    @property
    def trouble(self) -> str:
        """Return why `read` returns None now, and the remedy."""

    def read(self, zero: float) -> Sample | None:
        """Return the latest sample, or None; its time counts from `zero` on the backend's clock, s."""


class SimulatedSensor:
    """A sensor on a link of a simulated robot: the engine's values, with the rig's noise and bias.

    Forces are those of the engine's latest physics step. An acceleration is the mean since the previous sample.
    """

    trouble = ""  # never lost

    def __init__(self, rig: Rig, config: SensorConfig, engine: Engine, now: Callable[[], float], seed: int) -> None:
        assert rig.world is not None  # an engine needs a world
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
        """Return a sample taken now."""
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
        local = inverse(axes)
        push, spin = turned((x, y, z), local), turned(motion.spin, local)
        if config.orientation_noise:
            axes = product(axes, of_roll_pitch_yaw(*self._noisy((0.0, 0.0, 0.0), config.orientation_noise)))
        spin = _summed([self._noisy(spin, config.rate_noise), config.rate_bias])
        push = _summed([self._noisy(push, config.acceleration_noise), config.acceleration_bias])
        return ImuSample(time, axes, spin, push)

    def _place(self, motion: LinkMotion) -> Vector:
        return _summed([motion.place, turned(self._config.position, motion.turned)])

    def _speed(self, motion: LinkMotion) -> Vector:
        """Return the sensor's own velocity in the world, m/s."""
        return _summed([motion.speed, crossed(motion.spin, turned(self._config.position, motion.turned))])

    def _distance(self, height: float, down: float) -> float:
        """Return the distance, m, from `height` to a floor at z = 0 along a beam; `down` is the z of its direction."""
        farthest = self._config.range
        if not self._ground or down >= 0:
            return farthest
        distance = max(0.0, height / -down)
        return farthest if distance >= farthest else min(farthest, max(0.0, distance + self._gauss(self._config.noise)))

    def _noisy(self, values: Vector, deviation: float) -> Vector:
        x, y, z = (value + self._gauss(deviation) for value in values)
        return x, y, z

    def _gauss(self, deviation: float) -> float:
        return self._random.gauss(0.0, deviation) if deviation else 0.0


def _summed(vectors: list[Vector]) -> Vector:
    x = y = z = 0.0
    for a, b, c in vectors:
        x, y, z = x + a, y + b, z + c
    return x, y, z


class SerialImu:
    """An IMU on a serial line with the Razor AHRS firmware of SparkFun's 9DoF boards.

    It sends a line of text 50 times a second: ``#YPRAG=yaw,pitch,roll,ax,ay,az,gx,gy,gz``, in degrees, 1/256 of
    standard gravity and rad/s, in axes that point ahead, right and down. A separate thread reads the lines, so that no
    step waits. A lost port is opened again when it is back.
    """

    def __init__(self, port: str, baud: int, clock: Clock | None = None) -> None:
        self._port, self._baud, self._clock = port, baud, clock or WallClock()
        self._latest: ImuSample | None = None
        self._lost = ""
        self._first, self._ending = threading.Event(), threading.Event()
        line = self._opened()
        self._thread = threading.Thread(target=self._run, args=(line,), name=f"imu on {port}", daemon=True)
        self._thread.start()
        if not self._first.wait(_START):
            self.close()
            hint = "check its baud rate, and that it runs the Razor AHRS firmware"
            raise PortError(port, f"no line of an IMU has come within {_START:g} s", hint)

    @property
    def trouble(self) -> str:
        """Return why there is no sample."""
        return f"the IMU on {self._port} {self._lost or 'sends nothing any more'}"

    def read(self, zero: float) -> ImuSample | None:
        """Return the latest sample; None when it is older than 0.1 s."""
        latest = self._latest  # read once, because the thread replaces it
        if latest is None or self._clock.now() - latest.time > _STALE:
            return None
        return replace(latest, time=latest.time - zero)

    def close(self) -> None:
        """End the reading thread, which closes the port."""
        self._ending.set()
        self._thread.join()

    def _opened(self) -> Any:
        try:
            line = serial.serial_for_url(self._port, self._baud, timeout=_WAIT)
            line.write(_START_OUTPUT)
        except (OSError, ValueError) as failure:  # a SerialException is an OSError
            raise PortError(self._port, f"cannot be opened: {failure}", "check the sensor's port in the rig") from None
        return line

    def _run(self, line: Any) -> None:
        """Read lines until `close`, in the reading thread."""
        rest = b""
        while not self._ending.is_set():
            try:
                if line is None:
                    line = self._opened()
                    self._lost = ""
                *whole, rest = (rest + line.read(max(1, line.in_waiting))).split(b"\n")
            except (OSError, TypeError) as failure:  # pyserial raises TypeError for a port that was just closed
                self._lost = f"is lost: {failure.message if isinstance(failure, PortError) else failure}"
                if line is not None:
                    line.close()
                line, rest = None, b""
                self._ending.wait(_REOPEN_INTERVAL)
                continue
            rest = rest[-_MOST_BYTES:]
            for text in whole:
                if sample := parsed(text, self._clock.now()):
                    self._latest = sample
                    self._first.set()
        if line is not None:
            line.close()


def parsed(line: bytes, time: float) -> ImuSample | None:
    """Return a line as a sample; None if it is damaged or of another format."""
    if not line.startswith(_MARK):
        return None
    try:
        figures = [float(word) for word in line.removeprefix(_MARK).split(b",")]
    except ValueError:
        return None
    if len(figures) != 9 or not all(map(math.isfinite, figures)):
        return None
    yaw, pitch, roll = map(math.radians, figures[:3])
    ax, ay, az, gx, gy, gz = figures[3:]
    # The firmware negates accelerations, and its axes are rotated about x by half a turn.
    push = -ax * _UNIT, ay * _UNIT, az * _UNIT
    return ImuSample(time, of_roll_pitch_yaw(roll, -pitch, -yaw), (gx, -gy, -gz), push)
