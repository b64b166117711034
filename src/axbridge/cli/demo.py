"""`axbridge demo`: compare a servo with its published model and with a model identified from its recordings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

import axbridge
from axbridge import Rig, open_recording, simulate
from axbridge.cli.app import note
from axbridge.cli.options import MEASURED, Result, RigOption, verb
from axbridge.cli.progress import Show, progress
from axbridge.cli.serve import served
from axbridge.comparison.comparison import compare, lacks, summary
from axbridge.comparison.html import write_html
from axbridge.comparison.page import command_html, table_text
from axbridge.comparison.png import write_png
from axbridge.comparison.tables import deviation_table, headline, response_tables
from axbridge.comparison.walks import sides_of
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import AxBridgeError, BusError, Remedy, install, require
from axbridge.files import check_new, claimed
from axbridge.fit import identify, write_params
from axbridge.jit import COMPILED, LIGHTEN
from axbridge.motion.experiments import step_and_fall
from axbridge.motion.gait import Gait, can_walk
from axbridge.motion.walking import WalkOutcome, walk
from axbridge.recording.provenance import origin_in_words
from axbridge.recording.robot_recorder import recording_of
from axbridge.recording.sample_logs import load
from axbridge.robot.open import open_robot
from axbridge.testing.servo_bus import ServoBus, serve

SHOWN, TAUGHT = 90.0, 65.0  # degrees; step and fall to compare; step and fall to identify from
TRIES = 4  # a recording has gaps when this computer is too busy to run the virtual bus in time
_FILES = ("sim.mcap", "identified.toml", "identified.mcap", "report.html", "report.png")
STARTS, BUDGET = 2, 8.0  # starting points of the fit; s


@verb("--out my-demo")
def demo(
    *,
    out: Annotated[Path, "A folder for all of it.", "FOLDER"] = Path("axbridge-demo"),
    rig: RigOption = "bench_arm",
    engine: str | None = None,
    port: str | None = None,
    seed: int = 0,
    open_: bool = False,
    force: bool = False,
) -> Result:
    """Move a servo, simulate the same with two models, and show how far apart they are.

    The servo steps to 90 degrees, then the arm falls. Without --port it is a virtual servo on a pseudo-terminal, driven
    by the code that drives real ones. One model is the published one. The other is identified from this servo, if the
    rig has one and numba is installed. A robot with legs, such as the rig bioloid, walks instead, in the simulator.
    """
    require("the demo", "scipy", "cma", "matplotlib")
    loaded = Rig.load(rig).with_engine(engine)
    walks = port is None and can_walk(loaded)
    names = _WALK_FILES.values() if walks else (*_recordings(port), *_FILES)
    check_new(*(out / name for name in names), force=force)
    with claimed(out):
        if walks:
            result = _demo_walk(loaded, rig, out, seed)
        else:
            hardware = serve(rig, timing="wire", seed=seed, engine=engine) if port is None else nullcontext(None)
            result = _demo_arm(loaded, rig, out, port, hardware, seed)
    if open_:
        typer.launch(str((out / "report.html").resolve()))
    return result


def _demo_arm(
    loaded: Rig, rig: str, out: Path, port: str | None, hardware: AbstractContextManager[ServoBus | None], seed: int
) -> Result:
    config = loaded.servos[0]
    record = partial(_record, config.name, seed)
    alone = len(loaded.servos) == 1
    teaches = alone and COMPILED  # without compiled kernels a fit takes hours
    shown, taught = (out / path for path in _recordings(port))
    kind = shown.stem
    files = {kind: shown, "sim": out / "sim.mcap"}
    measured, published = "servo" if port else _virtual(loaded, config), loaded.specs[config.name].model.name
    # the recording names the model behind the pseudo-terminal; a rig of real servos has none
    behind = served(loaded) if port is None else loaded
    # while the servo's process compiles its kernels on a new machine, this process compiles those of the fit
    fit_code = Thread(target=_compile, args=(served(loaded),), daemon=True)
    with progress(f"starting the {measured}") as show:
        if teaches:
            fit_code.start()
        with hardware as bus:
            device = bus.port if bus is not None else port
            if teaches:
                fit_code.join()
            for path, angle in ((shown, SHOWN), (taught, TAUGHT))[: 1 + teaches]:
                for _ in range(TRIES if port is None else 1):
                    try:
                        record(loaded, "real", path, angle, device, behind, show=show)
                    except BusError:
                        if port is not None:
                            raise
                        lacking = "the virtual servo did not answer"
                        continue
                    facts = open_recording(path)[config.name].facts()
                    lacking = f"{path} lacks {facts.longest_gap:.2f} s" if facts.gaps else ""
                    if not lacking:
                        break
                if lacking and port is None:
                    why = f"this computer was too busy: {lacking}, so no figure is right"
                    raise BusError(why, f"{LIGHTEN}, and run it again, with --force")
    with progress(f"starting the simulator, {published}") as show:
        record(loaded, "sim", files["sim"], SHOWN, show=show)
    real = open_recording(files[kind])
    before = compare(real, open_recording(files["sim"]), labels=(measured, published))
    after = None
    if teaches:
        files |= {"model": out / "identified.toml", "identified": out / "identified.mcap"}
        with progress("identifying a model"):
            law = MEASURED if "cw_compliance_slope" in loaded.specs[config.name].profile.registers else "pendulum-servo"
            fit = identify([taught], loaded, law, starts=STARTS, budget=BUDGET, seed=seed, richer=False)
            write_params(fit, files["model"])
        with progress("starting the simulator, identified model") as show:
            record(loaded.with_model(str(files["model"])), "sim", files["identified"], SHOWN, show=show)
        after = compare(real, open_recording(files["identified"]), labels=(measured, "identified"))
    files |= {"report": out / "report.html", "picture": out / "report.png"}
    with progress("writing the report"):
        title = f"{loaded.name}: {measured}, and {'two models' if after else 'a model'} of it"
        write_html(before, files["report"], title, beside=after)
        write_png(before, files["picture"], title, beside=after)
    acts = (before,) if after is None else (before, after)
    note(*(line for act in acts for line in lacks(act)))
    lines = [headline(before, after)]
    for table in (deviation_table(*acts), *response_tables(before, before.pairs[0], after)):
        lines += ["", table_text(table)]
    third = ["", f"The third act, a model identified from recordings, needs numba: {install('numba')}"]
    if teaches:
        compared = Remedy("compare", taught, rig=rig, model=files["model"])
    else:
        compared = Remedy("compare", files[kind], files["sim"])
    commands = [Remedy("info", files[kind]), compared, Remedy("serve", rig, link="/tmp/arm")]  # noqa: S108
    lines += _ending(files, commands, third if alone and not COMPILED else [])
    more = {"identified": summary(after)} if after is not None else {}
    return Result({**summary(before), **more, "files": {name: str(path) for name, path in files.items()}}, lines)


def _compile(rig: Rig) -> None:
    """Compile the kernels that a fit uses to simulate a recording."""
    with suppress(AxBridgeError):  # the fit will report it
        simulate(load("xl330"), rig)


def _ending(files: dict[str, Path], commands: Sequence[str], lacking: Sequence[str] = ()) -> list[str]:
    listed = [f"{name:<10} {path}" for name, path in files.items()]
    return ["", *listed, *lacking, "", "next:", *(f"  {command}" for command in commands)]


def _recordings(port: str | None) -> list[str]:
    kind = "virtual" if port is None else "real"
    return [f"{kind}.mcap", f"{kind}-{TAUGHT:.0f}.mcap"]


def _record(
    servo: str, seed: int, rig: Rig, backend: str, path: Path, angle: float, port: str | None = None,
    behind: Rig | None = None, *, show: Show,
) -> None:  # fmt: skip
    """Record the paper's experiment: step to `angle` degrees and fall; the metadata names the models of `behind`."""
    with (
        axbridge.open(rig, backend=backend, port=port, seed=seed) as robot,
        recording_of(robot, path, behind or rig, seed=seed, experiment="step and fall") as recorder,
    ):
        side = origin_in_words(robot.origin)
        step_and_fall(
            robot, servo, recorder, target=math.radians(angle),
            progress=lambda part, share: show(f"{side}: step to {angle:.0f}° and fall, {part}", share),
        )  # fmt: skip


def _virtual(rig: Rig, servo: ServoConfig) -> str:
    if servo.drive != "dynamixel":
        return "virtual servo"
    profile = rig.specs[servo.name].profile
    return f"virtual {'AX-12' if profile.units_name == 'ax' else profile.name.upper()}"


_WALK_FILES = {"recording": "walk.mcap", "report": "report.html", "picture": "report.png"}
_STEPS = 6
_MODELS = "ax12", "lima2009"  # the virtual robot's model, and a different one for its simulation


def _demo_walk(rig: Rig, name: str, out: Path, seed: int) -> Result:
    """Record a walk of a virtual robot, simulate it with another model, and write the report."""
    own = rig.specs[rig.dynamixels[0].name].model.name
    other = next(model for model in _MODELS if model != own)
    gait, files = Gait(steps=_STEPS), {what: out / file for what, file in _WALK_FILES.items()}
    recorded = files["recording"]
    commands = [Remedy("info", recorded), Remedy("view", recorded)]
    commands += [Remedy("compare", recorded, rig=name, model=other), Remedy("walk", rig=name, steps=12)]
    commands.append(Remedy("serve", name, link="/tmp/robot"))  # noqa: S108
    with progress("starting the simulator") as show, open_robot(rig, "sim", seed=seed) as robot:
        about = {"seed": seed, "experiment": "walk", "gait": asdict(gait)}
        with recording_of(robot, files["recording"], rig, **about) as recorder:
            outcome = walk(robot, gait, recorder, progress=lambda part, share: show(f"{robot.name}: {part}", share))
    with progress("simulating") as show:
        walked = open_recording(files["recording"])
        simulated = simulate(walked, rig, other)
        show("writing the report")
        labels, title = (f"virtual robot, {own}", f"simulated, {other}"), _headline(rig, outcome)
        comparison = compare(walked, simulated, labels=labels, same_clock=True)
        more = ["<h2>Go on with</h2>", *map(command_html, commands)]
        write_html(comparison, files["report"], title, walks=sides_of(comparison), more=more)
        write_png(comparison, files["picture"], title)
    facts = {**asdict(outcome), "files": {key: str(path) for key, path in files.items()}}
    return Result(facts, [title, *_ending(files, commands)], form="demo-walk-1")


def _headline(rig: Rig, outcome: WalkOutcome) -> str:
    if outcome.fell:
        return f"{rig.name}, simulated, fell after {outcome.seconds:.1f} s."
    ahead, tilt = (outcome.distance or 0.0) * 100, math.degrees(outcome.tilt or 0.0)
    return (
        f"{rig.name}, simulated, walks {_STEPS} steps: {ahead:.1f} cm in {outcome.seconds:.1f} s "
        f"({outcome.planned * 100:.0f} cm planned), and tilts by {tilt:.0f}° at most."
    )
