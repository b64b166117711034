"""Experiments: move a servo and record all samples, in the same way on real servos and in simulation."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from axbridge import minimum_jerk
from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import BusError, UsageError, warn
from axbridge.files import check_new, named_mcap
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording, Segment, Track
from axbridge.recording.robot_recorder import RobotRecorder, recording_of
from axbridge.recording.stored import open_recording, opened
from axbridge.robot.calibration import refuse_shut_down
from axbridge.robot.open import open_robot
from axbridge.robot.robot import Robot
from axbridge.robot.servo import Servo
from axbridge.robot.trajectory_time import TrajectoryTime
from axbridge.servo import checks

WARM, COOL = 60.0, 50.0  # degC: from the first temperature on, an experiment waits, limp, for the second
PATIENCE = 600.0  # s: longest wait for a servo to cool
_START_TOLERANCE = math.radians(1.0)  # a joint this close to the start position is not moved there
EEPROM_PAUSE_MS = 60.0  # a servo that changes to wheel mode writes its EEPROM and does not answer meanwhile
_TOO_LONG = 1.25  # ticks: a longer cycle is refused; below it, delays are reported
_AMPLITUDE = 60.0  # degrees, of periodic motions
_FREE = math.radians(280)  # a smaller range of a joint is not that of a servo alone (an AX has 300°)
_SQUARE = 6.0  # s: shortest sin t²
_GOALS = 4  # fewest goals in a cycle of a periodic motion
_PAUSE = 50.0  # ms: a step with a larger delay means that the program stood still

Progress = Callable[[str, float], None]  # gets the present activity, and its finished share, 0..1


class ExperimentEnded(Exception):
    """The experiment ends early."""


@dataclass(frozen=True)
class Conducted:
    """Result of an experiment."""

    whole: bool  # False when the robot was stopped before the end
    steps: int  # number of control periods
    late: int  # number of late control periods
    slipped: float  # sum of their delays, s
    unanswered: int  # number of recorded control periods in which a servo did not answer
    origin: Mapping[str, str]  # see `Robot.origin`


def _check_reach(servo: Servo, angles: Sequence[float], low: float, high: float) -> None:
    """Raise UsageError for angles beyond `low` and `high`, all in rad, before any motion."""
    for angle in angles:
        if not low - 1e-9 <= angle <= high + 1e-9:
            limits = f"{math.degrees(low):.0f}° to {math.degrees(high):.0f}°"
            why = f"{math.degrees(angle):.0f}° is beyond the limits of {servo.name}: {limits}"
            raise UsageError(why, "choose smaller angles, or widen its limits and stops in the rig")


class ExperimentRun:
    """A running experiment, recorded by `log`, in control periods of `tick_ms`."""

    def __init__(
        self, robot: Robot, log: RobotRecorder, names: Sequence[str], tick_ms: float, progress: Progress
    ) -> None:
        self.robot, self.log, self.tick_ms, self.progress = robot, log, tick_ms, progress
        with self._unrecorded():  # it may read the servos, and they may be anywhere
            self.servos = {name: servo for name, servo in robot.driven().items() if name in names}
        self.wheels: set[str] = set()  # servos in wheel mode
        self._trajectory = TrajectoryTime()

    @property
    def time(self) -> float:
        """Time of the motion, s, without the time in which replies were missing or the program stood still."""
        return self._trajectory.elapsed

    def approach(self, places: Mapping[str, float]) -> None:
        """Move servos gently to their start positions, rad by name, without a recording: they may be anywhere."""
        distances = {name: place - self.robot[name].state.position for name, place in places.items()}
        if all(abs(distance) <= _START_TOLERANCE for distance in distances.values()):
            return
        self.progress("going to the start", 0.0)
        speeds = {name: self.robot[name].max_velocity for name in places}
        duration = max(minimum_jerk.gentle(far, speeds[name]) for name, far in distances.items())
        with self._unrecorded():
            reached = self.robot.goto(places, duration)
        if not reached:
            self.step(self.tick_ms)  # ends the experiment if the robot was closed or stopped

    def turn(self, servo: Servo, duty: float) -> None:
        """Turn a servo endlessly at a duty of -1..1, open loop."""
        if servo.name not in self.wheels:
            self.wheels.add(servo.name)
            servo.set_duty(0.0)
            self.step(EEPROM_PAUSE_MS)
        servo.set_duty(duty)

    def cool(self, servo: Servo) -> None:
        """Wait with torque off until a warm servo has cooled, for at most `PATIENCE`."""
        if not servo.state.temperature >= WARM:
            return
        servo.torque_off()
        self.log.event("cooling", temperature=servo.state.temperature)
        until = self.log.time + PATIENCE
        while servo.state.temperature > COOL and self.log.time < until:
            self.step(500.0)
            self.progress(f"cooling, {servo.state.temperature:.0f} °C", 0.0)

    def segment(self, name: str, duration: float, motion: Callable[[float], None] | None = None, **facts: Any) -> None:
        """Run and record for `duration` s; call `motion(t)`, if given, before each step with the segment's time, s."""
        self.mark(name, **facts)
        begin, half = self.time, self.tick_ms * 0.5e-3
        while True:
            if motion is not None:
                motion(self.time - begin)
            self.advance()
            elapsed = self.time - begin
            self.progress(name, min(1.0, elapsed / duration) if duration > 0 else 1.0)
            if elapsed >= duration - half:
                return

    def mark(self, name: str, **facts: Any) -> None:
        """Record that a segment begins; `servo` is the only servo unless it is in `facts`."""
        if len(self.servos) == 1:
            facts = {"servo": next(iter(self.servos)), **facts}
        self.log.mark(name, **facts)

    def advance(self, ms: float | None = None) -> None:
        """Run one control period, or `ms`; raise the BusError when replies are missing for too long."""
        before = self.log.time
        if self.robot.step(ms or self.tick_ms) == -1:
            raise ExperimentEnded
        errors, late, now = self.robot.last_step.errors, self.robot.last_step.late, self.log.time
        missing = [errors[name] for name in self.servos if name in errors]
        pause = late / 1e3 if late > _PAUSE and not missing else 0.0
        self._trajectory.advance(now - before - pause, replied=not missing)
        if self._trajectory.expired:
            raise missing[0]

    def step(self, ms: float) -> None:
        """Step without a recording."""
        with self._unrecorded():
            self.advance(ms)

    @contextmanager
    def _unrecorded(self) -> Iterator[None]:
        self.log.paused = True
        try:
            yield
        finally:
            self.log.paused = False


def unseen(_what: str, _share: float) -> None:
    """Report no progress."""


_POSITIVE = {"duration": "s", "period": "s", "low": "Hz", "high": "Hz"}


def _positive(name: str, value: float, unit: str) -> float:
    value = checks.number(value, f"a {name}")
    if not 0 < value < math.inf:
        raise UsageError(f"{name} {value:g} {unit} is not positive and finite", "give another value")
    return value


@dataclass(frozen=True)
class Options:
    """Options of experiments, of which each uses some. Angles in rad, times in s; raises UsageError if invalid."""

    angles: tuple[float, ...] = ()  # of steps, falls, lifts and stalls; empty = 90°, for falls 45, 90 and 135°
    amplitude: float | None = None  # of periodic motions; None = 60°, or less within the servo's limits
    speed: float = 0.0  # speed limit in steps, rad/s; 0 = none
    period: float = 4.0  # of a sine
    low: float = 0.1  # frequencies of a chirp, Hz
    high: float = 3.0
    # of a periodic motion, or of each segment of the others; a sine has at least two periods, sin t² 6 s
    duration: float = 1.5
    duties: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)  # of wheel mode and stall, 0..1
    source: Recording | None = None  # recording whose commands `replay` repeats

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {name: _positive(name, getattr(self, name), unit) for name, unit in _POSITIVE.items()}
        checked["speed"] = checks.number(self.speed, "a speed")
        for name in ("angles", "duties"):  # also an array, or one number
            checked[name] = tuple(checks.number(value, f"one of the {name}") for value in np.ravel(getattr(self, name)))
        checked["amplitude"] = None if self.amplitude is None else checks.number(self.amplitude, "an amplitude")
        checked["source"] = None if self.source is None else opened(self.source)
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # because the object is frozen
        for name, value in (("amplitude", self.amplitude or 0.0), *(("angle", angle) for angle in self.angles)):
            if not math.isfinite(value):
                raise UsageError(f"{name} {value:g} is not finite", "give degrees")
        if not 0 <= self.speed < math.inf:
            raise UsageError(f"speed {math.degrees(self.speed):g}°/s is negative or not finite", "0: no limit")
        for value in self.duties:
            if not 0 < value <= 1:
                raise UsageError(f"duty {value:g} is not above 0 and at most 1", "write --duty 0.5")

    def swing(self, servo: Servo) -> float:
        """Return the amplitude for a servo, rad."""
        if self.amplitude is not None:
            return self.amplitude
        room = math.degrees(min(-servo.min_position, servo.max_position))
        return math.radians(math.floor(room) if 1.0 <= room < _AMPLITUDE else _AMPLITUDE)


def check(name: str, robot: Robot, servo: str | None = None, options: Options | None = None) -> tuple[str, ...]:
    """Return the servos of an experiment; raise UsageError if it is impossible, before any motion or recording."""
    if name not in NAMES:
        raise UsageError(f"there is no experiment {name!r}", f"experiments: {', '.join(NAMES)}")
    if servo is not None and servo not in list(robot):
        raise UsageError(f"this robot has no servo {servo!r}", f"it has: {', '.join(robot)}")
    options = options or Options()
    if name == "replay":
        return tuple(_sources(robot, servo, options))
    chosen = servo or next(iter(robot))
    experiment = EXPERIMENTS[name]
    low, high = robot[chosen].min_position, robot[chosen].max_position
    if not experiment.to_stop:
        stops = robot.rig.specs[chosen].stops
        low, high = max(low, stops[0]), min(high, stops[1])
    _check_reach(robot[chosen], experiment.angles(options, robot[chosen]), low, high)
    if experiment.registers is _WHEEL and high - low < _FREE:  # as a wheel it would hit its stops
        why = f"{chosen} goes from {math.degrees(low):.0f}° to {math.degrees(high):.0f}°, and a wheel turns round"
        raise UsageError(why, "take a servo that turns freely, with a rig that says so, as bare_horn")
    for register in experiment.registers:
        robot[chosen].read(register)
    return (chosen,)


def conduct(
    name: str,
    robot: Robot,
    servo: str | None,
    recorder: Recorder,
    options: Options | None = None,
    *,
    tick_ms: float = 10.0,
    progress: Progress = unseen,
) -> Conducted:
    """Run one experiment of `NAMES`; raise the errors of `check`, and BusError for a servo that fails."""
    options = options or Options()
    names = check(name, robot, servo, options)

    def motion(run: ExperimentRun) -> None:
        if name == "replay":
            _replay(run, _sources(robot, servo, options), options)
        else:
            EXPERIMENTS[name].motion(run, run.servos[names[0]], options)

    return _run(motion, robot, names, recorder, tick_ms, progress)


def step_and_fall(
    robot: Robot, servo: str, recorder: Recorder, *, target: float = math.pi / 2, progress: Progress = unseen
) -> bool:
    """Run the experiment of Lima et al. 2009 (rest, step to `target`, hold, fall); return whether it was completed."""

    def motion(run: ExperimentRun) -> None:
        arm = run.servos[servo]
        run.approach({servo: 0.0})
        arm.set_position(0.0)
        run.segment("rest", 0.5, kind="rest")
        arm.set_position(target)
        run.segment("step", 1.5, kind="step", start=0.0, target=target)
        arm.torque_off()
        run.segment("fall", 1.5, kind="fall", start=target)

    return _run(motion, robot, [servo], recorder, 20.0, progress).whole


def _run(
    motion: Callable[[ExperimentRun], None],
    robot: Robot,
    names: Sequence[str],
    recorder: Recorder,
    tick_ms: float,
    progress: Progress,
) -> Conducted:
    """Record a motion; afterwards its servos are limp, unless the robot was stopped during it."""
    log = RobotRecorder(robot, recorder, names)
    run = ExperimentRun(robot, log, names, tick_ms, progress)
    complete = False
    try:
        with suppress(ExperimentEnded), log:
            motion(run)
            complete = True
    finally:
        for name in () if robot.closed else run.wheels:
            try:  # back to joint mode, limp
                run.servos[name].restore()
            except BusError as failure:  # the motion's own error is raised; restore the other servos, too
                warn(f"servo {name!r} is not in joint mode again: {failure.message}")
    for servo in run.servos.values() if complete else ():
        servo.torque_off()
    return Conducted(complete, log.steps, log.late, log.slipped, log.unanswered, robot.origin)


def _step(run: ExperimentRun, arm: Servo, options: Options) -> None:
    """Rest at 0 rad, step to each angle and back."""
    run.approach({arm.name: 0.0})
    if options.speed:
        arm.set_velocity(options.speed)
    arm.set_position(0.0)
    run.segment("rest", 1.0, kind="rest")
    for angle in _angles(options):
        run.cool(arm)
        for start, target, part in ((0.0, angle, "step to"), (angle, 0.0, "step back from")):
            arm.set_position(target)
            name = f"{part} {math.degrees(angle):.0f}°"
            run.segment(name, options.duration, kind="step", start=start, target=target)


def _fall(run: ExperimentRun, arm: Servo, options: Options) -> None:
    """Move to each angle gently, hold, switch torque off."""
    for angle in _heights(options):
        run.cool(arm)
        run.segment("lift", 1.5, _ramp(arm, angle, 1.2), kind="lift")
        arm.torque_off()
        run.segment(f"fall from {math.degrees(angle):.0f}°", options.duration, kind="fall", start=angle)


def _swing(
    run: ExperimentRun, arm: Servo, options: Options, name: str, seconds: float,
    phase: Callable[[float], float], *, kind: str = "sine", **facts: float,
) -> None:  # fmt: skip
    """Move to both sides of 0: the amplitude times the sine of `phase` (rad) at each time (s)."""
    run.approach({arm.name: 0.0})
    size, goto = options.swing(arm), arm.set_position
    run.segment(name, seconds, lambda t: goto(size * math.sin(phase(t))), kind=kind, **facts)


def _sine(run: ExperimentRun, arm: Servo, options: Options) -> None:
    """Swing to both sides, for two periods or more."""
    seconds = max(options.duration, 2 * options.period)
    _swing(run, arm, options, "sine", seconds, lambda t: math.tau * t / options.period)


def _chirp(run: ExperimentRun, arm: Servo, options: Options) -> None:
    """Swing to both sides ever faster, for four periods of the lowest frequency or more."""
    low, high, seconds = options.low, options.high, max(options.duration, 4 / options.low)
    rate = (high - low) / seconds  # Hz/s
    _swing(
        run, arm, options, "chirp", seconds, lambda t: math.tau * (low * t + rate * t * t / 2),
        kind="chirp", low=low, high=high,
    )  # fmt: skip


def _square(run: ExperimentRun, arm: Servo, options: Options) -> None:
    """Swing to both sides as the sine of the squared time (s), for 6 s or more."""
    _swing(run, arm, options, "sin t²", max(options.duration, _SQUARE), lambda t: t * t)


def _lift_and_drop(run: ExperimentRun, arm: Servo, options: Options) -> None:
    """Lift slowly to each angle, hold, switch torque off."""
    for angle in _angles(options):
        run.cool(arm)
        run.segment("lift", 2.0, _ramp(arm, angle, 2.0), kind="lift")
        run.segment("hold", 1.0, kind="hold", start=angle, target=angle)
        arm.torque_off()
        run.segment("fall", max(options.duration, 2.0), kind="fall", start=angle)


def _duty(run: ExperimentRun, arm: Servo, options: Options) -> None:
    """Step the duty in wheel mode in both directions; the arm must be free to turn endlessly."""
    for duty in options.duties:
        for sign in (1, -1):
            run.cool(arm)
            run.turn(arm, sign * duty)
            run.segment(f"duty {sign * duty:+.0%}", options.duration, kind="duty", duty=sign * duty)
            run.turn(arm, 0.0)
            run.segment("coast", 0.5, kind="coast")


def _stall(run: ExperimentRun, arm: Servo, options: Options) -> None:
    """Push against a stop, or the arm's weight, with stepped torque limits, which also make the approach gentle."""
    angle = _angles(options)[0]
    for duty in options.duties:
        run.cool(arm)
        arm.set_available_torque(arm.max_torque * duty)
        arm.set_position(angle)
        run.segment(f"limit {duty:.0%}", options.duration, kind="stall", limit=duty, target=angle)
    arm.set_available_torque(arm.max_torque)


def _torque_speed(run: ExperimentRun, arm: Servo, options: Options) -> None:
    """Spin up from rest at each duty: torque is inertia times acceleration at each speed."""
    for sign in (1, -1):
        for duty in options.duties:
            run.cool(arm)
            run.turn(arm, 0.0)
            run.segment("rest", 1.0, kind="rest")
            run.turn(arm, sign * duty)
            run.segment(f"spin up {sign * duty:+.0%}", options.duration, kind="duty", duty=sign * duty)


def _ramp(arm: Servo, target: float, seconds: float) -> Callable[[float], None]:
    """Return a motion at constant speed from the present position to `target`, rad, in `seconds`."""
    begin = arm.state.position
    return lambda t: arm.set_position(begin + (target - begin) * min(1.0, t / seconds))


def _heights(options: Options, _servo: Servo | None = None) -> tuple[float, ...]:
    """Return the start angles of falls, rad."""
    return options.angles or tuple(math.radians(angle) for angle in (45, 90, 135))


def _angles(options: Options, _servo: Servo | None = None) -> tuple[float, ...]:
    """Return the angles of the other experiments, rad."""
    return options.angles or (math.pi / 2,)


def _sources(robot: Robot, servo: str | None, options: Options) -> dict[str, Track]:
    """Return the track to repeat for each servo, its own or the only one of both; UsageError if that is impossible."""
    recording = options.source
    if recording is None:
        raise UsageError("replay needs a recording to repeat", "give --source REC.mcap")
    if not recording:
        raise UsageError(f"{recording.path} holds no samples", "give a recording that does")
    if servo is not None:
        name = servo if servo in recording else next(iter(recording))
        if servo not in recording and len(recording) > 1:
            raise UsageError(f"{recording.path} has no servo {servo!r}", f"it has: {', '.join(recording)}")
        tracks = {servo: recording[name]}
    elif len(recording) == len(robot) == 1:
        tracks = {next(iter(robot)): next(iter(recording.values()))}
    else:
        if missing := [name for name in recording if name not in list(robot)]:
            hint = "replay on the rig it was recorded on, or one servo of it by --servo"
            if len(recording) == 1:
                hint = f"say which one repeats it: --servo {' or '.join(robot)}"
            raise UsageError(f"{recording.path} has servos that this robot lacks: {', '.join(missing)}", hint)
        tracks = dict(recording.items())
    commanded = {name: track for name, track in tracks.items() if not np.isnan(track.command).all()}
    if not commanded:
        raise UsageError(f"{recording.path} holds no commands", "give a recording that does")
    for name, track in commanded.items():
        ends = float(np.nanmin(track.command)), float(np.nanmax(track.command))
        _check_reach(robot[name], ends, robot[name].min_position, robot[name].max_position)
    return commanded


def _replay(run: ExperimentRun, tracks: Mapping[str, Track], options: Options) -> None:
    """Repeat the commands of a recording at their times, after a gentle approach to the start positions."""
    assert options.source is not None  # checked by `_sources`
    goals = {name: _goals(track) for name, track in tracks.items()}
    run.approach({name: float(own[0]) for name, own in goals.items() if tracks[name].enabled[0]})
    start = min(float(track.time[0]) for track in tracks.values())
    end = max(float(track.time[-1]) for track in tracks.values())
    half = run.tick_ms * 0.5e-3  # commands due within half a period are sent now
    parts = deque(_parts(options.source, {track.name: name for name, track in tracks.items()}))
    if not parts or parts[0].start > start + half:
        parts.appendleft(Segment("replay", start, end, {"kind": "replay"}))
    offset, limits = run.time - start, {name: [math.nan, math.nan] for name in tracks}
    while (now := run.time - offset) < end - half:
        while parts and parts[0].start <= now + half:
            part = parts.popleft()
            run.mark(part.name, **part.data)
        for name, track in tracks.items():
            index = max(int(np.searchsorted(track.time, now + half, side="right")) - 1, 0)
            _repeat(run.servos[name], track, index, float(goals[name][index]), limits[name])
        run.advance()
        run.progress("replay", (now - start) / (end - start))


def _parts(source: Recording, names: Mapping[str, str]) -> list[Segment]:
    """Return the source's segments without those of other servos; `names` maps its servos to the robot's."""
    parts = []
    for part in source.segments:
        facts = {"kind": "replay"} | {key: value for key, value in part.data.items() if key != "name"}
        if facts.get("servo") in names:
            facts["servo"] = names[facts["servo"]]
        elif "servo" in facts:
            continue
        parts.append(replace(part, data=facts))
    return parts


def _goals(track: Track) -> FloatArray:
    """Return the goals of a track, rad, (n,); an unknown one is the last known one."""
    known = np.flatnonzero(~np.isnan(track.command))
    latest = known[np.clip(np.searchsorted(known, np.arange(len(track)), side="right") - 1, 0, None)]
    return track.command[latest]


def _repeat(servo: Servo, track: Track, index: int, goal: float, limits: list[float]) -> None:
    """Set torque, goal and changed limits of a sample; `limits`: those set, of speed and torque."""
    if not track.enabled[index]:
        if servo.torque_enabled:
            servo.torque_off()
        return
    speed, torque = float(track.speed_limit[index]), float(track.torque_limit[index])
    if not math.isnan(speed) and speed != limits[0]:
        servo.set_velocity(speed)
    if not math.isnan(torque) and torque != limits[1]:
        servo.set_available_torque(servo.max_torque * torque)
    limits[:] = speed, torque
    servo.set_position(goal)


class Experiment(NamedTuple):
    """One experiment with one servo; its first line of documentation is that of `motion`."""

    motion: Callable[[ExperimentRun, Servo, Options], None]
    angles: Callable[[Options, Servo], tuple[float, ...]]  # goals that it needs, rad
    takes: tuple[str, ...]  # names of the options that it uses
    registers: tuple[str, ...] = ()  # that it needs
    fastest: Callable[[Options], float] = lambda _options: 0.0  # highest frequency of a periodic motion, Hz
    to_stop: bool = False  # whether it may drive the joint against a stop


def _both_ways(options: Options, servo: Servo) -> tuple[float, ...]:
    return options.swing(servo), -options.swing(servo)


_WHEEL = ("torque_enable",)  # of a Dynamixel

EXPERIMENTS: dict[str, Experiment] = {
    "step": Experiment(_step, lambda options, _servo: (0.0, *_angles(options)), ("angle", "speed", "duration")),
    "fall": Experiment(_fall, _heights, ("angle", "duration")),
    "sine": Experiment(_sine, _both_ways, ("angle", "period", "duration"), fastest=lambda o: 1 / o.period),
    "chirp": Experiment(
        _chirp, _both_ways, ("angle", "low", "high", "duration"), fastest=lambda o: max(o.low, o.high)
    ),
    "sin-time-square": Experiment(
        _square, _both_ways, ("angle", "duration"), fastest=lambda o: max(o.duration, _SQUARE) / math.pi
    ),
    "lift-and-drop": Experiment(_lift_and_drop, _angles, ("angle", "duration")),
    "duty": Experiment(_duty, lambda _options, _servo: (), ("duty", "duration"), _WHEEL),
    "stall": Experiment(
        _stall, lambda options, _servo: _angles(options)[:1], ("angle", "duty", "duration"), to_stop=True
    ),
    "torque-speed": Experiment(_torque_speed, lambda _options, _servo: (), ("duty", "duration"), _WHEEL),
}  # fmt: skip
NAMES = (*EXPERIMENTS, "replay")  # a replay may drive several servos


def _degrees(*angles: float) -> tuple[float, ...]:
    return tuple(map(math.radians, angles))


PROTOCOL: Sequence[tuple[str, str, Options]] = (
    ("falls", "fall", Options(angles=_degrees(45, 90, 135), duration=2.0)),
    ("steps", "step", Options(angles=_degrees(20, 45, 90, -60, 120))),
    ("slow-steps", "step", Options(angles=_degrees(60, -90), speed=1.5, duration=2.5)),
    ("sine", "sine", Options(amplitude=math.radians(80), period=6.0, duration=12.0)),
    ("chirp", "chirp", Options(amplitude=math.radians(30), low=0.3, high=3.0, duration=12.0)),
    ("lift-and-drop", "lift-and-drop", Options(angles=_degrees(60, -110))),
    ("sin-time-square", "sin-time-square", Options(duration=6.0)),
)  # the recordings for a good identification: (name, experiment, options)


def record(
    experiment: str,
    rig: str | Path | Rig,
    out: str | Path,
    *,
    backend: str | None = None,
    port: str | None = None,
    servo: str | None = None,
    options: Options | None = None,
    tick_ms: float | None = None,
    seed: int = 0,
    force: bool = False,
) -> Recording:
    """Run an experiment with one servo of a robot, and record each sample, command and segment.

    >>> import axbridge, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> step = axbridge.record("step", "bench_arm", f"{folder}/step.mcap")
    >>> print(f"{len(step.segments)} parts, up to {step['shoulder'].position.max():.1f} rad")
    3 parts, up to 1.6 rad

    Args:
        experiment: ``step``, ``fall``, ``sine``, ``chirp``, ``sin-time-square``, ``lift-and-drop``, ``duty``,
            ``stall``, ``torque-speed`` or ``replay``.
        rig: A name, a path, or a `Rig`.
        out: The recording, ``FILE.mcap``.
        backend: See `axbridge.open`.
        port: See `axbridge.open`.
        servo: The servo; by default the first one, and in a replay all servos of the source.
        options: Options of the experiment.
        tick_ms: Control period; by default the rig's `basic_time_step_ms`.
        seed: See `axbridge.open`.
        force: Whether to replace an existing file.

    Raises:
        UsageError: no such experiment or servo, an angle beyond its limits, an existing file, or one that is no .mcap.
        RigError, ProfileError: the rig, or a file that it names, is wrong.
        BusError: a servo does not answer, or has shut itself down.
    """
    path = Path(out)
    named_mcap(path)
    check_new(path, force=force)
    loaded = rig if isinstance(rig, Rig) else Rig.load(rig)
    recorded(loaded, experiment, path, options, backend=backend, port=port, servo=servo, tick_ms=tick_ms, seed=seed)
    return open_recording(path)


def recorded(
    rig: Rig,
    experiment: str,
    path: Path,
    options: Options | None = None,
    *,
    backend: str | None = None,
    port: str | None = None,
    servo: str | None = None,
    tick_ms: float | None = None,
    seed: int = 0,
    progress: Progress = unseen,
) -> Conducted:
    """Check and record one experiment, and return its result. Arguments and errors as for `record`."""
    period = _positive("tick", rig.robot.basic_time_step_ms if tick_ms is None else tick_ms, "ms")
    seed = checks.seed(seed)
    _check_frequency(experiment, options or Options(), period)
    with open_robot(rig, backend, port=port, seed=seed) as robot:
        for name in check(experiment, robot, servo, options):
            refuse_shut_down(robot, name)
        _check_tick(robot, period)
        with recording_of(robot, path, rig, seed=seed, experiment=experiment, tick_ms=period) as recorder:
            done = conduct(experiment, robot, servo, recorder, options, tick_ms=period, progress=progress)
    return done


def _check_frequency(experiment: str, options: Options, tick: float) -> None:
    """Raise UsageError for a periodic motion too fast for the control period: its goals would be those of another."""
    most = 1e3 / (_GOALS * tick)
    if experiment in EXPERIMENTS and (hertz := EXPERIMENTS[experiment].fastest(options)) > most:
        why = f"{hertz:g} Hz is too fast for a control period of {tick:g} ms, which gives few goals a cycle"
        raise UsageError(why, f"choose {most:g} Hz or less, or a shorter --tick")


def _check_tick(robot: Robot, tick: float) -> None:
    """Raise UsageError for a control period shorter than the bus cycle, which is measured when a robot is opened."""
    times = [bus["cycle"]["p50"] * 1e3 for bus in robot.bus_statistics.values()]
    cycle_ms = max((time for time in times if not math.isnan(time)), default=0.0)
    if cycle_ms <= _TOO_LONG * tick:
        return
    for _ in range(4):  # the first cycles may have been slow once: measure again
        robot.exchange()
        cycle_ms = min(cycle_ms, robot.last_step.actual)
    if cycle_ms > _TOO_LONG * tick:
        servos = "its servo" if len(robot) == 1 else f"its {len(robot)} servos"
        why = f"a tick of {tick:g} ms is too short: the bus takes {cycle_ms:.1f} ms to serve {servos}"
        raise UsageError(why, f"choose --tick {math.ceil(cycle_ms / 5) * 5}ms or more")
