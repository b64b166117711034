"""Walking: a gait on a robot, on any backend, watched, measured and recorded.

The robot gets up slowly: torque rises while the joints go to the first pose of the walk. A simulated robot is held up
meanwhile, as by a hand, and put on its feet; a real one is for you to hold. Then it walks, as the gait says, without
looking at anything but faults. The simulation knows where the robot is; on a real one no servo can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from axbridge.errors import UsageError
from axbridge.motion.gait import Gait, Walk
from axbridge.motion.watch import Watch, hold_up
from axbridge.record.recorder import Recorder, wall_clock_of_zero
from axbridge.robot.robot import Robot
from axbridge.robot.simulation import Pose
from axbridge.robot.state import ServoState

__all__ = ["Outcome", "check", "walk"]

_RISE = 1.5  # s in which torque rises and the joints reach the first pose
_RISING_SPEED = 1.5  # rad/s, at most
_WEAK = 0.1  # share of the torque to begin with
_WAIT = {"sim": 0.5}  # s between the first pose and the first step
_WAIT_FOR_HANDS = 3.0  # where somebody has to put the robot on its feet
_AFTER = 0.6  # s on both feet before the motors go off
_TIPPED = math.radians(45)


@dataclass(frozen=True)
class Outcome:
    """How a walk went; None where nobody can tell (a real robot does not know where it is).

    Attributes:
        planned: How far the gait leads, m.
        seconds: From the first step to the last, or to the fall, s.
        energy: Electrical energy of all servos meanwhile by the motor models, J.
        distance: Forward from the first step on, m.
        sideways: To the left, m.
        turned: To the left, rad.
        tilt: Largest roll or pitch, rad.
        fell: Whether it tipped over.
    """

    planned: float
    seconds: float
    energy: float
    distance: float | None = None
    sideways: float | None = None
    turned: float | None = None
    tilt: float | None = None
    fell: bool | None = None

    @property
    def speed(self) -> float | None:
        """Mean speed forward, m/s."""
        return None if self.distance is None else self.distance / self.seconds


def walk(
    robot: Robot,
    gait: Gait,
    recorder: Recorder | None = None,
    *,
    told: Callable[[str], None] = lambda _text: None,
) -> Outcome:
    """Let a Bioloid get up and walk straight ahead; its motors are on when it ends.

    Args:
        robot: With the legs of the rig `bioloid`.
        gait: How.
        recorder: Takes every servo's samples, segments ``get up``, ``stand``, ``walk`` and ``end``, and in a simulation
            the way of the base in the cycles (``base_x``, ``base_y``, ``base_z``, m; ``base_roll``, ``base_pitch``,
            ``base_yaw``, rad).
        told: Called with what is being done now.

    Raises:
        UsageError: the gait needs angles or speeds that a servo of the robot does not reach.
        RigError: the rig has no such legs.
        BusError: a servo failed or got lost under way.
    """
    return _Walker(robot, Walk.of(robot.rig, gait), recorder, told).run()


def check(robot: Robot, gait: Gait) -> None:
    """Refuse a gait that the robot cannot walk, before anything moves and before a file is touched.

    Raises:
        UsageError, RigError: as `walk`.
    """
    _Walker(robot, Walk.of(robot.rig, gait), None, lambda _text: None)  # looks at every period


class _Walker:
    """One walk under way."""

    def __init__(self, robot: Robot, path: Walk, recorder: Recorder | None, told: Callable[[str], None]) -> None:
        self._robot, self._path, self._recorder, self._told = robot, path, recorder, told
        self._period = robot.basic_time_step / 1000
        servo_of = {config.joint: config.name for config in robot.rig.servos}
        self._names = {joint: servo_of[joint] for joint in path.angles(0.0) if joint in servo_of}
        self._goals: dict[str, float] = {}
        self._watch = Watch(robot)
        self._energy = 0.0
        self._tilt = 0.0
        self._check()

    def run(self) -> Outcome:
        """Get up, stand, walk, end."""
        self._get_up()
        self._hold("stand", _WAIT.get(self._robot.backend, _WAIT_FOR_HANDS))
        self._energy = self._tilt = 0.0
        began, start = self._robot.time, self._place()
        fell = self._walk()
        outcome = self._judge(self._robot.time - began, start, fell=fell)
        if not fell:
            self._hold("end", _AFTER)
        if self._recorder is not None:
            for name, state, columns in self._samples():
                self._recorder.record_state(name, state, **columns)
        return outcome

    def _check(self) -> None:
        """Look at every period of the walk before anything moves."""
        before: dict[str, float] = {}
        for tick in range(self._ticks(self._path.gait.duration) + 1):
            angles = self._path.angles(tick * self._period)
            for joint, angle in angles.items():
                if joint not in self._names:
                    raise UsageError(f"no servo of the rig drives {joint}", "walk with the rig bioloid")
                servo = self._robot[self._names[joint]]
                if not servo.min_position <= angle <= servo.max_position:
                    raise UsageError(
                        f"the gait needs {joint} at {angle:.2f} rad, beyond its limits "
                        f"{servo.min_position:.2f}..{servo.max_position:.2f}",
                        "take shorter or lower steps, or less sway",
                    )
                speed = abs(angle - before.get(joint, angle)) / self._period
                if speed > servo.max_velocity:
                    raise UsageError(
                        f"the gait needs {joint} to turn at {speed:.1f} rad/s, its servo does {servo.max_velocity:.1f}",
                        "take a longer period, or shorter and lower steps",
                    )
            before = angles

    def _ticks(self, seconds: float) -> int:
        return math.ceil(seconds / self._period - 1e-9)

    def _get_up(self) -> None:
        self._segment("get up")
        robot = self._robot
        pose = {config.name: config.position for config in robot.rig.servos if config.name in robot}
        pose |= {self._names[joint]: angle for joint, angle in self._path.angles(0.0).items()}
        ticks = self._ticks(_RISE)
        for tick in range(ticks):
            share = min(1.0, 1.5 * tick / ticks)  # the last third with all its torque
            for name, angle in pose.items():
                servo = robot[name]
                servo.set_available_torque(servo.max_torque * (_WEAK + (1 - _WEAK) * share))
                if tick == 0:
                    servo.set_velocity(min(_RISING_SPEED, servo.max_velocity))
                    servo.set_position(angle)
                    self._goals[name] = angle
            hold_up(robot, share)
            self._step()
        for name in pose:
            robot[name].set_velocity(robot[name].max_velocity)

    def _hold(self, name: str, seconds: float) -> None:
        self._segment(name)
        for _ in range(self._ticks(seconds)):
            self._step()

    def _walk(self) -> bool:
        """Walk; whether it fell."""
        self._segment("walk")
        gait = self._path.gait
        for tick in range(1, self._ticks(gait.duration) + 1):
            time = tick * self._period
            for joint, angle in self._path.angles(time).items():
                name = self._names[joint]
                self._robot[name].set_position(angle)
                self._goals[name] = angle
            self._step()
            self._energy += sum(servo.power for servo in self._robot.values()) * self._period
            self._told(f"walking, {time:.1f} of {gait.duration:.1f} s")
            roll, pitch, _ = self._attitude()
            self._tilt = max(self._tilt, abs(roll), abs(pitch))
            if self._tilt > _TIPPED and self._robot.backend == "sim":
                return True
        return False

    def _judge(self, seconds: float, start: tuple[float, float, float] | None, *, fell: bool) -> Outcome:
        planned = self._path.gait.distance
        end = self._place()
        if start is None or end is None:
            return Outcome(planned, seconds, self._energy)
        return Outcome(
            planned,
            seconds,
            self._energy,
            end[0] - start[0],
            end[1] - start[1],
            self._attitude()[2],
            self._tilt,
            fell or self._tilt > _TIPPED,
        )

    def _place(self) -> tuple[float, float, float] | None:
        base = self._base()
        return None if base is None else base[0]

    def _attitude(self) -> tuple[float, float, float]:
        """Roll, pitch and yaw of the base, rad; 0 where nobody knows."""
        base = self._base()
        return (0.0, 0.0, 0.0) if base is None else _euler(base[1])

    def _base(self) -> Pose | None:
        simulation = self._robot.simulation
        return None if simulation is None else simulation.base

    def _segment(self, name: str) -> None:
        self._told(name)
        if self._recorder is not None:
            self._recorder.event(self._robot.time, "segment", name=name)

    def _step(self) -> None:
        """One control period; record it; stop at the first sign of trouble."""
        robot = self._robot
        before = None if self._recorder is None else self._samples()
        late = robot.step()
        if late == -1:
            raise UsageError("the robot was closed while it walked")
        if self._recorder is not None and before is not None:
            for name, state, columns in before:
                self._recorder.record_state(name, state, commanded=robot.last_step.commanded, **columns)
            place, attitude = self._place(), self._attitude()
            where = {} if place is None else dict(zip(("base_x", "base_y", "base_z"), place, strict=True))
            if where:
                where |= dict(zip(("base_roll", "base_pitch", "base_yaw"), attitude, strict=True))
            self._recorder.cycle(robot.time, late_ms=late, **where)
        self._watch.look()

    def _samples(self) -> list[tuple[str, ServoState, dict[str, Any]]]:
        """Each servo's latest sample, beside it the goal that acts from now on."""
        zero = wall_clock_of_zero(self._robot.last_step.sampled.values())
        return [
            (
                name,
                servo.state,
                {
                    "truth": servo.truth,
                    "command": self._goals.get(name),
                    "torque_enabled": servo.torque_enabled,
                    "power": servo.power,
                    "logged": None if math.isnan(servo.state.time) else zero + round(servo.state.time * 1e9),
                },
            )
            for name, servo in self._robot.items()
        ]


def _euler(orientation: tuple[float, float, float, float]) -> tuple[float, float, float]:
    """Roll, pitch and yaw (about x, y, z; yaw first) of a quaternion x, y, z, w, rad."""
    x, y, z, w = orientation
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x))))
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return roll, pitch, yaw
