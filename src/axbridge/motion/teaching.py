"""Teach by hand: move soft joints by hand while the others hold, and record the motion or single poses."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import UsageError
from axbridge.motion.moves import Key, Move, Page
from axbridge.robot.robot import Robot
from axbridge.robot.watch import Watch
from axbridge.servo import checks
from axbridge.state import ServoState, StepReport

_REST = 0.0105  # rad, two counts of an AX-12: a smaller change counts as rest
_DRAG = 0.1  # rad: largest distance between a stiff joint and its goal
_MARGIN = 0.1  # s of rest that remain at both ends
_WIDTH = 0.06  # s: standard deviation of the smoothing
_DIGITS = 4  # decimal places of an angle in rad: 0.006°


@dataclass(frozen=True)
class Taught:
    """A taught move, and its changes from the samples; times in s, angles in rad."""

    move: Move  # one page of samples
    trimmed: float  # removed time of rest
    smoothed: float  # largest change of an angle by smoothing
    smoothed_rms: float  # root mean square of the changes by smoothing
    clipped: Mapping[str, float]  # by joint: largest angle beyond its limits, which was clipped


def chosen(robot: Robot, joints: Collection[str] | None) -> tuple[str, ...]:
    """Return the joints in the robot's order; all for None. Raises UnknownServo."""
    if joints is None:
        return tuple(robot)
    for name in joints:
        robot[name]
    return tuple(name for name in robot if name in joints)


@contextmanager
def soft(robot: Robot, joints: Collection[str] | None = None, stiffness: float = 0.0) -> Iterator[tuple[str, ...]]:
    """Make joints soft inside the block, while the others hold; `stiffness` is their share of the torque, 0 = off."""
    if not 0 <= checks.number(stiffness, "a stiffness") <= 1:
        raise UsageError(f"a stiffness of {stiffness:g} is not between 0 and 1", "0 is limp, 1 all the torque")
    names, servos = chosen(robot, joints), robot.driven()
    for name, servo in servos.items():  # these first, so that the robot does not sink when the others go limp
        if name not in names and not servo.torque_enabled:
            servo.torque_on()
    torques = {name: robot[name].available_torque for name in names}
    goals: dict[str, float] = {}

    def follow(_report: StepReport, states: Mapping[str, ServoState]) -> None:
        # the goal follows the joint at a distance: the joint carries its load, but a hand can move it
        for name in (other for other in goals if robot[other].torque_enabled):
            position = states[name].position
            goals[name] = _within(robot, name, min(max(goals[name], position - _DRAG), position + _DRAG))
            servos[name].set_position(goals[name])

    for name in names:
        if stiffness:
            robot[name].set_available_torque(stiffness * robot[name].max_torque)
            servos[name].torque_on()
            goals[name] = robot[name].target_position
        else:
            servos[name].torque_off()
    leave = robot.observe(follow)
    try:
        yield names
    finally:
        leave()
    for name in names:
        if not robot.stopped:
            servos[name].torque_on()
        robot[name].set_available_torque(torques[name])


def pose_key(robot: Robot, joints: Sequence[str]) -> Key:
    """Return the present pose as a key that is reached in one second."""
    positions = {joint: round(_within(robot, joint, robot[joint].position), _DIGITS) for joint in joints}
    return Key(positions=positions, time=1.0)


class Capture:
    """Records the motion of soft joints; the samples before a failure can still become a move."""

    def __init__(self, robot: Robot, joints: Sequence[str]) -> None:
        self._robot = robot
        self._angles: dict[str, list[tuple[float, float]]] = {joint: [] for joint in joints}

    def run(self, until: Callable[[float], bool]) -> None:
        """Step the robot and record until `until`, with the elapsed s, returns True, or until `Robot.stop`."""
        robot, watch = self._robot, Watch(self._robot)
        start = robot.time
        leave = robot.observe(self._sample)
        try:
            while not (robot.stopped or until(robot.time - start)):
                if robot.step() == -1:
                    raise UsageError("the robot was closed while it was taught")
                watch.check()
        finally:
            leave()

    def taught(self) -> Taught:
        """Return the move at even times, without rest at its ends, smoothed, within the limits."""
        return move_of(self._robot, self._angles)

    def _sample(self, _report: StepReport, states: Mapping[str, ServoState]) -> None:
        for joint, samples in self._angles.items():
            state = states[joint]
            if not samples or state.time > samples[-1][0]:  # else the servo did not answer
                samples.append((state.time, state.position))


def move_of(robot: Robot, recorded: Mapping[str, Sequence[tuple[float, float]]]) -> Taught:
    """Return samples (s, rad) by joint as a move at even times, without rest, smoothed, within the joints' limits."""
    period = robot.basic_time_step / 1000
    first = max((samples[0][0] for samples in recorded.values() if samples), default=0.0)
    last = min((samples[-1][0] for samples in recorded.values() if samples), default=0.0)
    if last - first < 2 * period:
        raise UsageError("nothing was recorded", "move a joint between the two keys")
    clock = np.arange(first, last + 1e-9, period)
    raw = np.array([np.interp(clock, *np.array(samples).T) for samples in recorded.values()]).T
    begin, end = _moving(raw, round(_MARGIN / period))
    raw = raw[begin:end]
    even = _smooth(raw, _WIDTH / period)
    limits = np.array([(robot[joint].min_position, robot[joint].max_position) for joint in recorded])
    within = np.clip(even, limits[:, 0], limits[:, 1])
    beyond = np.abs(even - within).max(axis=0)
    poses = (dict(zip(recorded, row, strict=True)) for row in within.round(_DIGITS).tolist())
    keys = tuple(Key(positions=pose, time=period if n else 0.0) for n, pose in enumerate(poses))
    return Taught(
        Move(pages={"1": Page(keys=keys, interpolation="linear")}),
        (len(clock) - len(raw)) * period,
        float(np.abs(even - raw).max()),
        math.sqrt(float(np.mean((even - raw) ** 2))),
        {joint: far for joint, far in zip(recorded, beyond.tolist(), strict=True) if far > _REST},
    )


def teach(robot: Robot, seconds: float, joints: Collection[str] | None = None, stiffness: float = 0.0) -> Taught:
    """Record the motion of soft joints by hand for `seconds`, or until `Robot.stop`; then the robot holds its pose.

    `joints` become soft, None = all; `stiffness` is their share of the torque, 0 = off.

    Raises:
        UsageError: nothing moved, or an argument out of range.
        UnknownServo: the robot has no such joint.
        BusError: a servo failed or was lost.
    """
    end = checks.number(seconds, "a time") - 1e-9
    with soft(robot, joints, stiffness) as names:
        capture = Capture(robot, names)
        capture.run(lambda passed: not passed < end)  # NaN ends it, too
    return capture.taught()


def _within(robot: Robot, joint: str, angle: float) -> float:
    return min(max(angle, robot[joint].min_position), robot[joint].max_position)


def _moving(rows: FloatArray, margin: int) -> tuple[int, int]:
    """Return first and end index of the samples with motion, with `margin` more samples on both sides."""
    started = np.abs(rows - rows[0]).max(axis=1) > _REST
    unfinished = np.abs(rows - rows[-1]).max(axis=1) > _REST
    if not started.any():
        raise UsageError("nothing moved", "move a joint by hand between the two keys; is it one of those chosen?")
    begin = int(np.argmax(started))
    end = len(rows) - int(np.argmax(unfinished[::-1])) if unfinished.any() else len(rows)
    return max(begin - margin, 0), min(max(end, begin + 1) + margin, len(rows))


def _smooth(rows: FloatArray, width: float) -> FloatArray:
    """Return each column smoothed with a Gaussian of `width` samples; both ends keep their values."""
    reach = min(math.ceil(3 * width), len(rows) - 1)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    weights /= weights.sum()
    padded = np.pad(rows, ((reach, reach), (0, 0)), mode="reflect", reflect_type="odd")
    return np.array([np.convolve(column, weights, mode="valid") for column in padded.T]).T
