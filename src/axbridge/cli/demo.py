"""`axbridge demo`: a servo, the published model of it, and the model that its own recordings give."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import axbridge
from axbridge.cli.app import app, emit_json
from axbridge.cli.demo_walk import WALK_FILES, demo_walk
from axbridge.cli.options import (
    EngineOption,
    ForceOption,
    JsonOption,
    ModelOption,
    PortOption,
    RigOption,
    SeedOption,
    servo_of,
    shared,
)
from axbridge.cli.progress import Show, progress
from axbridge.cli.serve import MEASURED, served
from axbridge.comparison.comparison import Comparison, compare, lacks, summary
from axbridge.comparison.findings import headline
from axbridge.comparison.html import write_html
from axbridge.comparison.page import table_text
from axbridge.comparison.png import write_png
from axbridge.comparison.tables import acts_table
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.files import check_new, claimed
from axbridge.fit import identify, write_params
from axbridge.jit import COMPILED
from axbridge.motion.experiments import step_and_fall
from axbridge.motion.gait import can_walk
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from axbridge.virtual.background import serving

TAUGHT = (35.0, 65.0)  # degrees: the steps and falls that the model is identified from; the one to 90 it never sees
TRIES = 3  # of a recording with a gap: the virtual bus is silent while this computer is too busy
TOO_BUSY = "this computer was too busy: {path} lacks {gap:.2f} s. Close other programs, and run it again"
_FILES = ("sim.mcap", "identified.toml", "identified.mcap", "report.html", "report.png")
STARTS, BUDGET = 2, 8.0  # searches, and s


@app.command()
def demo(
    *,
    out: Annotated[
        Path, shared("--out", "A folder for recordings, model, report and picture.", metavar="FOLDER")
    ] = Path("axbridge-demo"),
    rig: RigOption = "bench_arm",
    engine: EngineOption = None,
    model: ModelOption = None,
    port: PortOption = None,
    servo: Annotated[str | None, shared("--servo", "Default: the rig's first.")] = None,
    seed: SeedOption = 0,
    open_: Annotated[bool, shared("--open/--no-open")] = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Move a servo, simulate the same with two models, and show how far apart they are.

    The servo steps to 90 degrees, then the arm falls. Without --port it is a virtual servo on a pseudo-terminal, driven
    by the code that drives real ones.

    One model is the published one. The other is identified from this servo: from steps to 35 and 65 degrees, if the rig
    has one servo and numba is installed.

    A robot with legs, such as the rig bioloid, walks instead. It does so in the simulator;
    a page shows how its joints followed.
    """
    loaded = Rig.load(rig).with_engine(engine).with_model(model)
    servo = servo_of(loaded, servo).name if servo else loaded.servos[0].name
    walks = port is None and can_walk(loaded)
    names = WALK_FILES.values() if walks else (*_recordings(port), *_FILES)
    check_new(*(out / name for name in names), force=force)
    with claimed(out):
        if walks:
            demo_walk(loaded, rig, out, seed, open_page=open_, json=json)
        else:
            _demo_arm(loaded, rig, out, engine, port, servo, seed, open_page=open_, json=json)


def _demo_arm(
    loaded: Rig,
    rig: str,
    out: Path,
    engine: str | None,
    port: str | None,
    name: str,
    seed: int,
    *,
    open_page: bool,
    json: bool,
) -> None:
    """The demo of a servo; the options are the verb's."""
    record = partial(_record, name, seed)
    alone = len(loaded.servos) == 1
    teaches = alone and COMPILED  # as plain Python a fit takes hours
    first, *others = (out / path for path in _recordings(port))
    kind = first.stem
    files, taught = {kind: first, "sim": out / "sim.mcap"}, others if teaches else []
    config = next(one for one in loaded.servos if one.name == name)
    measured, published = _measured(loaded, config) if port is None else "servo", loaded.model_of(config).name
    # what moves behind the pseudo-terminal, which a recording of it names; a rig of real servos has none
    behind = served(loaded) if port is None else loaded
    options = ["--seed", str(seed), *(["--engine", engine] if engine else [])]
    hardware = serving(rig, *options) if port is None else nullcontext(port)
    with progress(f"starting the {measured}", quiet=json) as show, hardware as device:
        for path, angle in zip((files[kind], *taught), (90.0, *TAUGHT), strict=False):
            for _ in range(TRIES if port is None else 1):
                record(loaded, "real", path, angle, device, behind, show=show)
                if not (gap := _gap(path, name)):
                    break
            if gap and port is None:
                typer.echo(f"warning: {TOO_BUSY.format(path=path, gap=gap)}", err=True)
    with progress(f"starting the simulator, {published}", quiet=json) as show:
        record(loaded, "sim", files["sim"], 90.0, show=show)
    real = open_recording(files[kind])
    before = compare(real, open_recording(files["sim"]), labels=(measured, published))
    after = None
    if teaches:
        files |= {"model": out / "identified.toml", "identified": out / "identified.mcap"}
        with progress("identifying a model", quiet=json):
            write_params(_identified(loaded, taught, seed), files["model"])
        with progress("starting the simulator, identified model", quiet=json) as show:
            record(loaded.with_model(str(files["model"])), "sim", files["identified"], 90.0, show=show)
        after = compare(real, open_recording(files["identified"]), labels=(measured, "identified"))
    files |= {"report": out / "report.html", "picture": out / "report.png"}
    with progress("writing the report", quiet=json):
        title = f"{loaded.name}: {measured}, and {'two models' if after else 'a model'} of it"
        write_html(before, files["report"], title, beside=after)
        write_png(before, files["picture"], title, beside=after)
    if json:
        more = {"identified": summary(after)} if after is not None else {}
        emit_json("demo-1", {**summary(before), **more, "files": {name: str(path) for name, path in files.items()}})
    else:
        _tell(before, after)
        for file, path in files.items():
            print(f"{file:<10} {path}")
        if alone and not COMPILED:
            print("\nThe third act, a model identified from recordings, needs numba: pip install numba")
        _next(rig, files, kind, taught)
    if open_page:
        typer.launch(str(files["report"].resolve()))


def _recordings(port: str | None) -> list[str]:
    """Files of the servo's motions: the one that is compared, and those that the model is identified from."""
    kind = "virtual" if port is None else "real"
    return [f"{kind}.mcap", *(f"{kind}-{angle:.0f}.mcap" for angle in TAUGHT)]


def _record(
    servo: str,
    seed: int,
    rig: Rig,
    backend: str,
    path: Path,
    angle: float,
    port: str | None = None,
    behind: Rig | None = None,
    *,
    show: Show,
) -> None:
    """The paper's experiment: step to `angle` degrees and fall; the recording names the models of `behind`."""
    facts = describe(behind or rig, backend=backend, seed=seed, experiment="step and fall")
    with (
        axbridge.open(rig, backend=backend, port=port, seed=seed) as robot,
        Recorder(path, facts) as recorder,
        robot,  # motors are off before the recorder takes its time to compress
    ):
        side = "real" if backend == "real" else "simulated"
        step_and_fall(
            robot, servo, recorder, target=math.radians(angle),
            progress=lambda part, share: show(f"{side} {part} to {angle:.0f}°", share),
        )  # fmt: skip


def _gap(path: Path, servo: str) -> float:
    """The longest gap in a recording, s; 0 without any."""
    known = open_recording(path)[servo].facts()
    return known.longest_gap if known.gaps else 0.0


def _measured(rig: Rig, servo: ServoConfig) -> str:
    """What the servo behind the pseudo-terminal is called."""
    if servo.drive != "dynamixel":
        return "virtual servo"
    profile = rig.profile_of(servo)
    return f"virtual {'AX-12' if profile.units_name == 'ax' else profile.name.upper()}"


def _identified(rig: Rig, taught: list[Path], seed: int) -> Any:
    recordings = [open_recording(path) for path in taught]
    slopes = "cw_compliance_slope" in rig.profile_of(rig.servos[0]).registers
    model = MEASURED if slopes else "pendulum-servo"
    return identify(recordings, rig, model, starts=STARTS, budget=BUDGET, seed=seed, richer=False)


def _tell(before: Comparison, after: Comparison | None) -> None:
    """What was found, and the figures of all acts side by side."""
    acts = (before,) if after is None else (before, after)
    print(headline(before, after) + "\n")
    print(table_text(acts_table(acts)) + "\n")
    for line in (line for act in acts for line in lacks(act)):
        typer.echo(f"note: {line}", err=True)


def _next(rig: str, files: dict[str, Path], kind: str, taught: list[Path]) -> None:
    """Three commands to go on with."""
    print("\nnext:")
    print(f"  axbridge info {files[kind]}")
    if taught:
        print(f"  axbridge compare {taught[0]} --rig {rig} --model {files['model']}")
    else:
        print(f"  axbridge compare {files[kind]} {files['sim']}")
    print(f"  axbridge serve {rig} --link /tmp/arm")
