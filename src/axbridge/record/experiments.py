"""Experiments: drive one servo through a motion and record everything, the same on copper and in simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from axbridge.errors import UsageError
from axbridge.record.experiment_run import Drivable, Run, Stopped
from axbridge.record.recorder import Recorder
from axbridge.record.recording import Recording

__all__ = ["EXPERIMENTS", "PROTOCOL", "Options", "conduct", "step_and_fall"]


@dataclass(frozen=True)
class Options:
    """What may be chosen about an experiment; each takes what it needs. Angles in rad, times in s.

    Attributes:
        angles: Of steps and falls.
        amplitude: Of periodic motions, around 0 rad.
        speed: Limit of the approach in steps, rad/s; 0 = none.
        period: Of a sine.
        low: Lowest frequency of a chirp, Hz.
        high: Highest.
        duration: Of a periodic motion, or of each part of the others.
        slope: Compliance slope register of both directions for steps; 0 = as it is.
        duties: Of wheel mode and stall, 0..1.
        source: Recording whose commands `replay` repeats.
    """

    angles: tuple[float, ...] = (math.pi / 2,)
    amplitude: float = math.radians(60)
    speed: float = 0.0
    period: float = 4.0
    low: float = 0.1
    high: float = 3.0
    duration: float = 1.5
    slope: int = 0
    duties: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    source: Recording | None = None


def conduct(
    name: str,
    robot: Drivable,
    servo: str,
    recorder: Recorder,
    options: Options | None = None,
    *,
    tick_ms: float = 10.0,
    told: Callable[[str, float], None] = lambda _name, _share: None,
) -> bool:
    """Run one experiment of `EXPERIMENTS`.

    Args:
        name: Which.
        robot: The robot.
        servo: Which of its servos.
        recorder: Takes every sample, and a ``segment`` event at the start of each part.
        options: What may be chosen.
        tick_ms: Control period.
        told: Called with each segment's name and the share of it that is done.

    Returns:
        False when the robot asked to stop before the end.

    Raises:
        UsageError: no such experiment, or an angle out of the servo's reach.
        BusError: the servo does not answer.
    """
    if name not in EXPERIMENTS:
        raise UsageError(f"there is no experiment {name!r}", f"experiments: {', '.join(EXPERIMENTS)}")
    run = Run(robot, servo, recorder, tick_ms, told)
    try:
        EXPERIMENTS[name](run, options or Options())
        run.note()
    except Stopped:
        return False
    finally:
        run.end_turning()
    run.let_go()
    return True


def step_and_fall(
    robot: Drivable,
    servo: str,
    recorder: Recorder,
    *,
    start: float = 0.0,
    target: float = math.pi / 2,
    rest: float = 0.5,
    hold: float = 1.5,
    fall: float = 1.5,
    tick_ms: float = 20.0,
) -> bool:
    """The experiment of Lima et al. 2009: rest at `start`, step to `target`, hold, torque off, fall.

    Args:
        robot: The robot.
        servo: Which of its servos.
        recorder: Takes every sample, and a ``segment`` event at the start of each part.
        start: rad.
        target: rad.
        rest: Time at `start` before the step, s.
        hold: Time of the step, s.
        fall: Time after torque off, s.
        tick_ms: Control period.

    Returns:
        False when the robot asked to stop before the end.
    """
    run = Run(robot, servo, recorder, tick_ms)
    try:
        run.goal(start)
        run.segment("rest", rest, kind="rest")
        run.goal(target)
        run.segment("step", hold, kind="step", start=start, target=target)
        run.let_go()
        run.segment("fall", fall, kind="fall", start=target)
        run.note()
    except Stopped:
        return False
    return True


def _step(run: Run, options: Options) -> None:
    """Rest at 0, step to each angle, and back."""
    run.check(*options.angles)
    if options.slope:
        run.set_register("cw_compliance_slope", options.slope)
        run.set_register("ccw_compliance_slope", options.slope)
    if options.speed:
        run.limit_speed(options.speed)
    run.goal(0.0)
    run.segment("rest", 1.0, kind="rest")
    for angle in options.angles:
        run.cool()
        run.goal(angle)
        run.segment(f"step to {math.degrees(angle):.0f}°", options.duration, kind="step", start=0.0, target=angle)
        run.goal(0.0)
        back = f"step back from {math.degrees(angle):.0f}°"
        run.segment(back, options.duration, kind="step", start=angle, target=0.0)


def _fall(run: Run, options: Options) -> None:
    """Go to each angle gently, hold, let go."""
    angles = options.angles if len(options.angles) > 1 else tuple(math.radians(a) for a in (45, 90, 135))
    run.check(*angles)
    for angle in angles:
        run.cool()
        begin = run.servo.state.position
        run.segment("lift", 1.5, _rise(begin, angle, 1.2), kind="lift")
        run.let_go()
        run.segment(f"fall from {math.degrees(angle):.0f}°", options.duration, kind="fall", start=angle)


def _sine(run: Run, options: Options) -> None:
    run.check(options.amplitude, -options.amplitude)
    duration = max(options.duration, 2 * options.period)
    turn = 2 * math.pi / options.period
    run.segment("sine", duration, lambda t: options.amplitude * math.sin(turn * t), kind="sine")


def _chirp(run: Run, options: Options) -> None:
    """Frequency rises evenly from `low` to `high` Hz."""
    run.check(options.amplitude, -options.amplitude)
    duration = max(options.duration, 4 / options.low)
    rate = (options.high - options.low) / duration

    def motion(t: float) -> float:
        return options.amplitude * math.sin(2 * math.pi * (options.low * t + rate * t * t / 2))

    run.segment("chirp", duration, motion, kind="chirp", low=options.low, high=options.high)


def _sin_time_square(run: Run, options: Options) -> None:
    run.check(options.amplitude, -options.amplitude)
    duration = max(options.duration, 6.0)
    run.segment("sin t²", duration, lambda t: options.amplitude * math.sin(t * t), kind="sine")


def _lift_and_drop(run: Run, options: Options) -> None:
    """Lift slowly to each angle, hold, drop."""
    run.check(*options.angles)
    for angle in options.angles:
        run.cool()
        begin = run.servo.state.position
        run.segment("lift", 2.0, _rise(begin, angle, 2.0), kind="lift")
        run.segment("hold", 1.0, kind="hold", start=angle, target=angle)
        run.let_go()
        run.segment("fall", max(options.duration, 2.0), kind="fall", start=angle)


def _rise(start: float, end: float, duration: float) -> Callable[[float], float]:
    """From one angle to another at even speed, rad over s."""
    return lambda t: start + (end - start) * min(1.0, t / duration)


def _duty(run: Run, options: Options) -> None:
    """Wheel-mode steps of duty, both ways; the arm must be free to turn round."""
    for duty in options.duties:
        for sign in (1, -1):
            run.cool()
            run.turn(sign * duty)
            run.segment(f"duty {sign * duty:+.0%}", options.duration, kind="duty", duty=sign * duty)
            run.turn(0.0)
            run.segment("coast", 0.5, kind="coast")


def _stall(run: Run, options: Options) -> None:
    """Push against a stop, or the arm's own weight, with torque limits in steps."""
    angle = options.angles[0]
    run.check(angle)
    run.limit_torque(options.duties[0])
    run.goal(angle)
    for duty in options.duties:
        run.cool()
        run.limit_torque(duty)
        run.goal(angle)
        run.segment(f"limit {duty:.0%}", options.duration, kind="stall", limit=duty, target=angle)
    run.limit_torque(1.0)


def _torque_speed(run: Run, options: Options) -> None:
    """Spin up from rest to full duty and stop: torque is inertia times acceleration at every speed."""
    for sign in (1, -1):
        for duty in options.duties:
            run.cool()
            run.turn(0.0)
            run.segment("rest", 1.0, kind="rest")
            run.turn(sign * duty)
            run.segment(f"spin up {sign * duty:+.0%}", options.duration, kind="duty", duty=sign * duty)


def _replay(run: Run, options: Options) -> None:
    """Repeat the commands of a recording of one servo, or of the servo of this name."""
    if options.source is None:
        raise UsageError("replay needs a recording to repeat", "give --source REC.mcap")
    recording = options.source
    track = recording.get(run.name) or next(iter(recording.values()))
    if np.isnan(track.command).all():
        raise UsageError(f"{recording.path} holds no commands", "give a recording that does")
    run.check(float(np.nanmin(track.command)), float(np.nanmax(track.command)))
    run.goal(float(track.command[0]))
    run.segment("approach", 1.0, kind="approach")
    started = run.robot.time - float(track.time[0])
    edges = track.time[np.flatnonzero(np.diff(track.enabled.astype(int))) + 1].tolist()
    segments = [segment for segment in recording.segments if segment.data.get("servo", track.name) == track.name]
    marks = sorted({float(track.time[0]), *edges, *(s.start for s in segments), float(track.time[-1])})

    def motion(_t: float) -> float:
        index = int(np.searchsorted(track.time, run.robot.time - started + 1e-9, side="right")) - 1
        return float(track.command[max(index, 0)])

    for begin, end in pairwise(marks):
        if end + started - run.robot.time <= 0:
            continue
        part = next((s for s in reversed(segments) if s.start <= begin + 1e-9), None)
        facts = {key: value for key, value in part.data.items() if key not in {"name", "servo"}} if part else {}
        driven = bool(track.enabled[min(int(np.searchsorted(track.time, begin)), len(track) - 1)])
        if not driven:
            run.let_go()
        name = part.name if part else "replay"
        facts.setdefault("kind", "replay")
        run.segment(name, end + started - run.robot.time, motion if driven else None, **facts)


EXPERIMENTS: dict[str, Callable[[Run, Options], None]] = {
    "step": _step,
    "fall": _fall,
    "sine": _sine,
    "chirp": _chirp,
    "sin-time-square": _sin_time_square,
    "lift-and-drop": _lift_and_drop,
    "duty": _duty,
    "stall": _stall,
    "torque-speed": _torque_speed,
    "replay": _replay,
}


def _degrees(*angles: float) -> tuple[float, ...]:
    return tuple(math.radians(angle) for angle in angles)


PROTOCOL: Sequence[tuple[str, str, Options]] = (
    ("falls", "fall", Options(angles=_degrees(45, 90, 135), duration=2.0)),
    ("steps", "step", Options(angles=_degrees(20, 45, 90, -60, 120))),
    ("slow-steps", "step", Options(angles=_degrees(60, -90), speed=1.5, duration=2.5)),
    ("sine", "sine", Options(amplitude=math.radians(80), period=6.0, duration=12.0)),
    ("chirp", "chirp", Options(amplitude=math.radians(30), low=0.3, high=3.0, duration=12.0)),
    ("lift-and-drop", "lift-and-drop", Options(angles=_degrees(60, -110))),
    ("sin-time-square", "sin-time-square", Options(duration=6.0)),
)  # what a good identification needs, one recording each: (name, experiment, options)
