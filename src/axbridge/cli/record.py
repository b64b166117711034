"""`axbridge record`: an experiment on a servo, real or simulated, into a recording."""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from axbridge.arrays import FloatArray
from axbridge.cli import options as opt
from axbridge.cli.app import app, note, report
from axbridge.cli.exit import interruptible
from axbridge.cli.progress import progress
from axbridge.comparison.png import save
from axbridge.config.rig import Rig
from axbridge.errors import UsageError, nearest
from axbridge.files import check_new
from axbridge.motion.experiments import NAMES, PROTOCOL, Options, check, conduct, period_of, recorded
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording, Track
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot


@app.command()
def record(
    experiment: Annotated[
        str,
        typer.Argument(
            help="step, fall, sine, chirp, sin-time-square, lift-and-drop, duty, stall, torque-speed, replay, "
            "or protocol: all that a good identification needs, one file for each experiment."
        ),
    ],
    *,
    rig: opt.RigOption,
    backend: opt.BackendOption = "sim",
    engine: opt.EngineOption = None,
    model: opt.ModelOption = None,
    port: opt.PortOption = None,
    servo: Annotated[
        str | None, opt.shared("--servo", "Default: the rig's first, in replay all that the source has.")
    ] = None,
    out: Annotated[Path | None, opt.shared("--out", "Default: EXPERIMENT.mcap.", metavar="FILE.mcap")] = None,
    angle: Annotated[
        list[float] | None, typer.Option("--angle", help="Angle of steps and falls, degrees; repeat.")
    ] = None,
    amplitude: Annotated[
        float | None,
        typer.Option(help="Amplitude of periodic motions, degrees; default: 60, or less if a limit is nearer."),
    ] = None,
    speed: Annotated[float, typer.Option(help="Highest speed of steps, °/s; 0: no limit.")] = 0.0,
    slope: Annotated[int, typer.Option(help="Compliance slope register for steps; 0: do not change it.")] = 0,
    period: Annotated[float, opt.shared("--period", "Of a sine.")] = 4.0,
    low: Annotated[float, typer.Option(help="Lowest frequency of a chirp, Hz.")] = 0.1,
    high: Annotated[float, typer.Option(help="Highest frequency of a chirp, Hz.")] = 3.0,
    duration: Annotated[float, opt.shared("--duration", "The motion, or each part of it.")] = 1.5,
    duty: Annotated[list[float] | None, typer.Option("--duty", help="Duty of the motor, 0..1; repeat.")] = None,
    source: Annotated[Path | None, typer.Option("--source", help="Recording that replay repeats.")] = None,
    tick: Annotated[
        str | None,
        typer.Option("--tick", metavar="TIME", help="Control period, such as 10ms; default: that of the rig."),
    ] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Move nothing; draw the goals into FILE.png.")] = False,
    seed: opt.SeedOption = 0,
    force: opt.ForceOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Run an experiment and record every sample, command and segment.

    First the servo goes gently, at 60°/s or slower, to where the experiment begins; then it moves at full speed.
    """
    if experiment not in {*NAMES, "protocol"}:
        hint = nearest(experiment, [*NAMES, "protocol"])
        raise UsageError(f"there is no experiment {experiment!r}", f"{hint}experiments: {', '.join(NAMES)}, protocol")
    period_ms = None if tick is None else 1e3 * opt.short_time("--tick", tick)
    loaded = Rig.load(rig).with_engine(engine).with_model(model)
    servo = servo and opt.servo_of(loaded, servo).name
    if loaded.comes_along and loaded.name == "bench_arm" and backend != "sim" and not (dry or _is_virtual(port)):
        note("rig bench_arm swings a bar; a servo that carries nothing is rig bare_horn")
    chosen = Options()
    options = Options(
        angles=tuple(math.radians(value) for value in angle) if angle else chosen.angles,
        amplitude=None if amplitude is None else math.radians(amplitude),
        speed=math.radians(speed),
        period=period,
        low=low,
        high=high,
        duration=duration,
        slope=slope,
        duties=tuple(duty) if duty else chosen.duties,
        source=open_recording(source) if source is not None else None,
    )
    if dry and json:
        raise UsageError("--dry-run draws a picture, and prints for people", "leave --json out")
    target = (out if dry else opt.named_mcap(out)) or Path(f"{experiment}.mcap")
    if experiment == "protocol":
        jobs = [(name, target.with_name(f"{target.stem}-{label}.mcap"), o) for label, name, o in PROTOCOL]
    else:
        jobs = [(experiment, target, options)]
    if dry:
        jobs = [(name, path.with_suffix(".png"), job) for name, path, job in jobs]
    check_new(*(path for _, path, _ in jobs), force=force, sources=(source,))
    if dry:
        for name, picture, job in jobs:
            _dry_run(loaded, servo, seed, name, job, period_ms, picture)
        return
    written = []
    for name, path, job in jobs:
        with interruptible(path, loaded), progress("opening the robot", quiet=json) as show:
            done = recorded(
                loaded, name, path, job, backend=backend, port=port, servo=servo, tick_ms=period_ms, seed=seed,
                progress=show,
            )  # fmt: skip
        written.append({"experiment": name, "path": str(path), **asdict(done)})
        if done.late > done.steps / 10:
            late = f"{done.late} of {done.steps} steps were late, by {done.slipped / done.late * 1e3:.1f} ms on average"
            note(f"{late}; the motion kept its time, and the recording says when each sample was taken")
        if not json:
            print(f"wrote {path}" + ("" if done.whole else " (the robot stopped before the end)"))
    report("record-1", {"recordings": written}, (), json=json)


def _is_virtual(port: str | None) -> bool:
    """Whether a port is a pseudo-terminal, which moves no real servo."""
    return port is not None and Path(port).resolve().parent == Path("/dev/pts")


def _dry_run(
    rig: Rig, servo: str | None, seed: int, name: str, options: Options, tick: float | None, picture: Path
) -> None:
    """Try an experiment on the simulator, say what its parts are, and draw its goals. No real servo hears of it."""
    period = period_of(rig, tick)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dry.mcap"
        with open_robot(rig, "sim", seed=seed) as robot:
            check(name, robot, servo, options)
            with Recorder(path, {}) as recorder:
                conduct(name, robot, servo, recorder, options, tick_ms=period)
        recording = open_recording(path)
        _print_parts(recording)
        _draw(recording, name, picture)
    print(f"dry run: no servo moved; the goals are drawn in {picture}")


def _print_parts(recording: Recording) -> None:
    """A line a segment: when, what, and between which goals."""
    for segment in recording.segments:
        spans = []
        for servo in recording:
            part = recording[servo].between(segment.start, segment.end)
            goals, duty = _goals(part)
            spans += [f"{servo} {_span(goals)}°"] if np.isfinite(goals).any() else []
            spans += [f"{servo} {_span(duty)} % duty"] if np.isfinite(duty).any() else []
        print(f"{segment.start:6.2f} s  {segment.name:<20} {', '.join(spans) or 'limp'}")


def _goals(track: Track) -> tuple[FloatArray, FloatArray]:
    """Goals, degrees, and duties of a wheel, per cent, (n,) each; NaN where there is none: a limp servo has no goal."""
    turns = np.isfinite(track.duty)
    goals = np.where(track.enabled & ~turns, np.degrees(track.command), np.nan)
    return goals, np.where(track.enabled & turns, 100 * track.duty, np.nan)


def _span(values: FloatArray) -> str:
    low, high = f"{np.nanmin(values):.0f}", f"{np.nanmax(values):.0f}"
    return low if low == high else f"{low} to {high}"


def _draw(recording: Recording, name: str, picture: Path) -> None:
    from matplotlib.figure import Figure  # which takes its time

    figure = Figure(figsize=(8, 4), dpi=120, layout="constrained")
    axes = figure.subplots()
    units = set()
    for servo in recording:
        for values, unit in zip(_goals(recording[servo]), ("°", "% duty"), strict=True):
            if np.isfinite(values).any():
                axes.step(recording[servo].time, values, where="post", label=f"{servo}, {unit}")
                units.add(unit)
    for segment in recording.segments:
        axes.axvline(segment.start, color="0.85", zorder=0)
    goal, title = f"goal, {' or '.join(sorted(units)) or '°'}", f"{name}: goals, tried on the simulator"
    axes.set(xlabel="time, s", ylabel=goal, title=title)
    if units:
        axes.legend()
    save(figure, picture)
