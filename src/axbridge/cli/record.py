"""`axbridge record`: an experiment on a servo, real or simulated, into a recording."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axbridge.cli.app import app
from axbridge.cli.options import BackendOption, PortOption, RigOption, SeedOption
from axbridge.errors import UsageError

if TYPE_CHECKING:
    from axbridge.config.rig import Rig
    from axbridge.record.experiments import Options


@app.command()
def record(
    experiment: Annotated[
        str,
        typer.Argument(
            help="step, fall, sine, chirp, sin-time-square, lift-and-drop, duty, stall, torque-speed, replay, "
            "or protocol: the set a good identification needs, one file each."
        ),
    ],
    *,
    rig: RigOption,
    backend: BackendOption = "sim",
    port: PortOption = None,
    servo: Annotated[str | None, typer.Option("--servo", help="Which servo of the rig; default: the first.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.mcap", help="Default: EXPERIMENT.mcap.")] = None,
    angle: Annotated[list[float] | None, typer.Option("--angle", help="Of steps and falls, degrees; repeat.")] = None,
    amplitude: Annotated[float, typer.Option(help="Of periodic motions, degrees.")] = 60.0,
    speed: Annotated[float, typer.Option(help="Limit of the approach, rad/s; 0 = none.")] = 0.0,
    slope: Annotated[int, typer.Option(help="Compliance slope register for steps; 0 = as it is.")] = 0,
    period: Annotated[float, typer.Option(help="Of a sine, s.")] = 4.0,
    low: Annotated[float, typer.Option(help="Lowest frequency of a chirp, Hz.")] = 0.1,
    high: Annotated[float, typer.Option(help="Highest frequency of a chirp, Hz.")] = 3.0,
    duration: Annotated[float, typer.Option(help="Of the motion, or of each part, s.")] = 1.5,
    duty: Annotated[list[float] | None, typer.Option("--duty", help="0..1; repeat.")] = None,
    source: Annotated[Path | None, typer.Option("--source", help="Recording that replay repeats.")] = None,
    tick: Annotated[float, typer.Option("--tick", help="Control period, ms.")] = 10.0,
    seed: SeedOption = 0,
) -> None:
    """Run an experiment and record every sample, command and segment."""
    from axbridge.config.rig import Rig
    from axbridge.record.experiments import EXPERIMENTS, PROTOCOL, Options
    from axbridge.record.recording import open_recording

    if experiment not in {*EXPERIMENTS, "protocol"}:
        raise UsageError(f"there is no experiment {experiment!r}", f"experiments: {', '.join(EXPERIMENTS)}, protocol")
    if min(tick, duration, period, low, high) <= 0:
        raise UsageError("tick, duration, period and frequencies must be positive", "correct the option")
    if not all(0 < value <= 1 for value in duty or ()):
        raise UsageError("a duty must be above 0 and at most 1", "write --duty 0.5")
    chosen = Options()
    options = Options(
        angles=tuple(math.radians(value) for value in angle) if angle else chosen.angles,
        amplitude=math.radians(amplitude),
        speed=speed,
        period=period,
        low=low,
        high=high,
        duration=duration,
        slope=slope,
        duties=tuple(duty) if duty else chosen.duties,
        source=open_recording(source) if source is not None else None,
    )
    loaded = Rig.load(rig)
    target = out or Path(f"{experiment}.mcap")
    if experiment == "protocol":
        jobs = [(name, target.with_name(f"{target.stem}-{label}.mcap"), o) for label, name, o in PROTOCOL]
    else:
        jobs = [(experiment, target, options)]
    with _progress() as told:
        for name, path, job in jobs:
            whole = _record(loaded, backend, port, servo, seed, name, path, job, tick, told)
            print(f"wrote {path}" + ("" if whole else " (the robot stopped before the end)"))


def _record(
    rig: Rig,
    backend: str,
    port: str | None,
    servo: str | None,
    seed: int,
    name: str,
    path: Path,
    options: Options,
    tick: float,
    told: Callable[[str, float], None],
) -> bool:
    from axbridge.record.experiments import conduct
    from axbridge.record.provenance import describe
    from axbridge.record.recorder import Recorder
    from axbridge.robot.open import open_robot

    with open_robot(rig, backend, port=port, seed=seed) as robot:
        which = servo or next(iter(robot))
        if which not in robot:
            raise UsageError(f"rig {rig.name} has no servo {which!r}", f"it has: {', '.join(robot)}")
        facts = describe(rig, backend=robot.backend, seed=seed, experiment=name, tick_ms=tick)
        with Recorder(path, facts) as recorder:
            whole = conduct(name, robot, which, recorder, options, tick_ms=tick, told=told)
            recorder.event(robot.time, "bus statistics", **robot.bus_statistics)
            return whole


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """What is under way, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _name, _share: None
        return
    with console.status("starting") as status:
        yield lambda name, share: status.update(f"{name} {share:.0%}")
