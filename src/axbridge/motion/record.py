"""`axbridge.record`: a robot is opened, one experiment is done, and everything is in a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.files import check_new
from axbridge.motion.experiments import Conducted, Options, Progress, check, conduct, unseen
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot

if TYPE_CHECKING:
    from axbridge.robot.robot import Robot


_TOO_LONG = 1.25  # a cycle that takes longer than this many ticks is refused; below, the lateness is reported


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
    """Do an experiment with one servo of a robot, and record every sample, command and segment.

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
        backend: As of `axbridge.open`; likewise `port` and `seed`.
        port: See there.
        servo: Which; by default the first, and in a replay all that its source has.
        options: What may be chosen about it.
        tick_ms: Control period; the rig's `basic_time_step_ms` when not given.
        seed: See `axbridge.open`.
        force: Replace a file that is there.

    Raises:
        UsageError: no such experiment or servo, an angle out of its reach, or a file that is there.
        RigError, ProfileError: the rig or something it names is wrong.
        BusError: a servo does not answer.
    """
    path = Path(out)
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
    """Check, then record one experiment; what came of it. Arguments and errors as of `record`."""
    period = period_of(rig, tick_ms)
    with open_robot(rig, backend, port=port, seed=seed) as robot:
        check(experiment, robot, servo, options)
        _check_tick(robot, period)
        facts = describe(rig, backend=robot.backend, seed=seed, experiment=experiment, tick_ms=period)
        with Recorder(path, facts) as recorder, robot:  # the robot ends first: no motor waits for the disk
            done = conduct(experiment, robot, servo, recorder, options, tick_ms=period, progress=progress)
            recorder.event(robot.time + done.slipped, "bus statistics", **robot.bus_statistics)
    return done


def period_of(rig: Rig, tick_ms: float | None) -> float:
    """The control period, ms: by default the rig's."""
    if tick_ms is not None and not 0 < tick_ms < math.inf:
        raise UsageError("tick, duration, period and frequencies must be positive", "correct the option")
    return rig.robot.basic_time_step_ms if tick_ms is None else tick_ms


def _check_tick(robot: Robot, tick: float) -> None:
    """Refuse a control period that the bus cannot keep: its cycle was timed when the robot was opened."""
    times = [bus["cycle"]["p50"] * 1e3 for bus in robot.bus_statistics.values()]
    longest = max((time for time in times if not math.isnan(time)), default=0.0)
    if longest <= _TOO_LONG * tick:
        return
    for _ in range(4):  # the first cycle may have had a hiccup: look again
        robot.exchange()
        longest = min(longest, robot.last_step.actual)
    if longest > _TOO_LONG * tick:
        servos = "its servo" if len(robot) == 1 else f"its {len(robot)} servos"
        raise UsageError(
            f"a tick of {tick:g} ms is too short: the bus takes {longest:.1f} ms to serve {servos}",
            f"choose --tick {math.ceil(longest / 5) * 5}ms or more",
        )
