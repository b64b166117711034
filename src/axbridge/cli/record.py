"""`axbridge record`: run an experiment on a real or simulated servo and record it."""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from axbridge.cli.app import note
from axbridge.cli.exit import early_end, interruptible
from axbridge.cli.options import Result, RigOption, Where, check_known, fit_of, opened, seconds, servo_of, verb
from axbridge.cli.progress import progress
from axbridge.comparison.comparison import following
from axbridge.comparison.png import write_png
from axbridge.errors import Remedy, UsageError, plural
from axbridge.files import check_new, named_mcap
from axbridge.motion.experiments import EXPERIMENTS, NAMES, PROTOCOL, Options, recorded
from axbridge.recording.provenance import origin_in_words
from axbridge.recording.stored import open_recording

_ANGLE = typer.Option("--angle", "--amplitude", help="Of steps and falls (repeat), or to each side, degrees.")


@verb("step --rig bench_arm --angle 45 --out step.mcap")
def record(
    experiment: Annotated[str, f"{', '.join(NAMES)}, or protocol: all that a good identification needs, a file each."],
    *,
    rig: RigOption,
    where: Where,
    servo: Annotated[str | None, "Default: the rig's first; replay: all recorded."] = None,
    out: Annotated[Path | None, "Default: EXPERIMENT.mcap.", "FILE.mcap"] = None,
    angle: Annotated[list[float] | None, _ANGLE] = None,
    speed: Annotated[float, "Highest speed of steps, °/s; 0: no limit."] = 0.0,
    period: Annotated[float, "Of a sine."] = 4.0,
    low: Annotated[float, "Lowest frequency of a chirp, Hz."] = 0.1,
    high: Annotated[float, "Highest frequency of a chirp, Hz."] = 3.0,
    duration: Annotated[float, "The motion, or each part of it; at least what `axbridge list experiments` says."] = 1.5,
    duty: Annotated[list[float] | None, "Duty of the motor, 0..1; repeat."] = None,
    source: Annotated[Path | None, "Recording that replay repeats."] = None,
    tick: Annotated[str | None, "Control period: 10ms; default: the rig's.", "TIME"] = None,
    dry_run: Annotated[bool, "Move nothing: draw a simulation of it into FILE.png."] = False,
    seed: int = 0,
    force: bool = False,
    json: bool = False,
) -> Result:
    """Run an experiment and record every sample, command and segment.

    First the servo goes gently, at 60°/s or slower, to where the experiment begins; then it moves at full speed.
    """
    check_known("experiment", [*NAMES, "protocol"], experiment)
    chosen = Options()
    figures = {"speed": speed, "period": period, "low": low, "high": high, "duration": duration}
    given = [name for name, value in figures.items() if value != getattr(chosen, name)]
    given += [name for name, value in (("angle", angle), ("duty", duty), ("source", source)) if value]
    used = EXPERIMENTS[experiment].takes if experiment in EXPERIMENTS else ("source",) * (experiment == "replay")
    if unused := [name for name in given if name not in used]:
        takes = ", ".join(f"--{option}" for option in used) or "no option of an experiment"
        raise UsageError(f"{experiment} makes no use of --{unused[0]}", f"leave it out; {experiment} takes {takes}")
    period_ms = None if tick is None else 1e3 * seconds(tick)
    if tick is not None and period_ms is not None and period_ms >= 1000:
        meant = "" if tick.endswith("s") else f"; write --tick {tick}ms if you mean milliseconds"
        raise UsageError(f"--tick {tick} is too long", f"it is less than 1 s{meant}")
    loaded, backend, port = where.rig(rig), where.chosen, where.port
    servo = servo and servo_of(loaded, servo).name
    served = port is not None and Path(port).resolve().parent == Path("/dev/pts")
    if loaded.comes_along and loaded.name == "bench_arm" and backend != "sim" and not (dry_run or served):
        note("rig bench_arm swings a bar; a servo that carries nothing is rig bare_horn")
    options = Options(
        angles=tuple(math.radians(value) for value in angle) if angle else chosen.angles,
        amplitude=math.radians(angle[0]) if angle else None,
        duties=tuple(duty) if duty else chosen.duties,
        source=opened(source) if source is not None else None,
        speed=math.radians(speed), period=period, low=low, high=high, duration=duration,
    )  # fmt: skip
    if dry_run and json:
        raise UsageError("--dry-run draws a picture, and prints for people", "leave --json out")
    target = (out if dry_run else named_mcap(out)) or Path(f"{experiment}.mcap")
    jobs, following_up = [(experiment, target, options)], Remedy("compare", target, rig=rig)
    if experiment == "protocol":
        jobs = [(name, target.with_name(f"{target.stem}-{label}.mcap"), o) for label, name, o in PROTOCOL]
        following_up = fit_of(loaded, servo or loaded.servos[0].name, *(path for _, path, _ in jobs), named=rig)
    if dry_run:
        jobs = [(name, path.with_suffix(".png"), job) for name, path, job in jobs]
    check_new(*(path for _, path, _ in jobs), force=force, sources=(source,))
    for name, picture, job in jobs if dry_run else ():
        with (
            early_end(lambda _: "stopped: no servo moved, and nothing was drawn"),
            tempfile.TemporaryDirectory() as folder,
            progress("trying it on the simulator") as show,
        ):
            tried = Path(folder, f"{name}.mcap")
            recorded(loaded, name, tried, job, servo=servo, tick_ms=period_ms, seed=seed, progress=show)
            write_png(following(open_recording(tried)), picture)
        note(f"dry run: no servo moved; what it would do is drawn in {picture}")
    written = []
    for name, path, job in () if dry_run else jobs:
        with interruptible(path, loaded), progress("opening the robot") as show:
            done = recorded(
                loaded, name, path, job, backend=backend, port=port, servo=servo, tick_ms=period_ms, seed=seed,
                progress=show,
            )  # fmt: skip
        written.append({"experiment": name, "path": str(path), **asdict(done)})
        if done.late > done.steps / 10:
            late = f"{done.late} of {done.steps} steps were late, by {done.slipped / done.late * 1e3:.1f} ms on average"
            note(f"{late}; the recording says when each sample was taken")
        if done.unanswered > done.steps / 50:
            lost = f"no answer in {done.unanswered} of {done.steps} steps: the recording has gaps"
            note(f"{lost}; look at plugs and supply, and for two servos with one id: {Remedy('doctor', port=port)}")
        if not json:
            saved = open_recording(path)
            most = max(map(len, saved.values()), default=0)  # the file has no samples of the motion to the start
            length = f"{saved.end - saved.start:.1f} s, {plural(most, 'sample')} of each servo"
            print(f"wrote {path}: {origin_in_words(done.origin)}, {length}", end="")
            print("" if done.whole else "; the robot stopped before the end, and the recording is whole up to there")
    if written and not json:
        print("next:", following_up)
    return Result({"recordings": written})
