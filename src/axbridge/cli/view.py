"""`axbridge view`: the live page of a robot, real or simulated; or a recording, seen again."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axbridge.cli.app import app
from axbridge.cli.exit import stopping
from axbridge.cli.options import BackendOption, EngineOption, PortOption, SeedOption, names_rig, shared
from axbridge.cli.progress import progress
from axbridge.errors import PortError, UsageError

if TYPE_CHECKING:
    from axbridge.recording.recording import Recording

_SIMULATED = "`axbridge view bench_arm`"


@app.command()
def view(
    recording: Annotated[
        Path | None, typer.Argument(metavar="RECORDING.mcap|RIG", help="Play a recording again; or show a rig.")
    ] = None,
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER.mcap|RIG", help="A second recording, or a rig: see --rig.")
    ] = None,
    *,
    rig: Annotated[
        str | None,
        shared("--rig", "The robot to show; with a recording: simulate it on this rig, and show that as a ghost."),
    ] = None,
    model: Annotated[str | None, shared("--model", "Default: the rig's.")] = None,
    engine: EngineOption = None,
    backend: BackendOption = "sim",
    port: PortOption = None,
    page_port: Annotated[
        int | None,
        typer.Option("--page-port", min=0, max=65535, help="Port of the page; default: the first free one from 8080."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address of the page; an address that other machines reach needs a token.")
    ] = "127.0.0.1",
    browser: Annotated[bool, shared("--open/--no-open")] = True,
    duration: Annotated[float, shared("--duration", "0: until Ctrl-C.", min=0.0)] = 0.0,
    seed: SeedOption = 0,
) -> None:
    """Show a robot live in the browser and move it from there: sliders, poses, moves, registers, curves.

    A real robot stays limp until you switch it on in the page. The space bar and the red button switch every motor off.
    With a recording, the page plays it, beside a second one or a simulation of it.
    """
    if rig is None and other is None and names_rig(recording):  # as everywhere, it needs no --rig
        recording, rig = None, str(recording)
    if rig is None and names_rig(other):
        other, rig = None, str(other)
    if recording is not None:
        _replay(recording, other, rig, model, engine, page_port, host, browser, duration or math.inf)
        return
    from axbridge.config.rig import Rig
    from axbridge.robot.calibration import rig_of_scan
    from axbridge.robot.open import open_robot
    from axbridge.view.attach import attach

    if model is not None and backend == "real":
        raise UsageError("--model is of a simulation", "add --backend twin to see it beside the robot")
    if rig is None:
        try:
            with progress("asking which servos are on the line"):
                loaded, backend = rig_of_scan("what answers", port), "real"
        except PortError as error:
            if port is not None:
                raise
            raise PortError("auto", error.message, f"{error.hint}; or show a simulated robot: {_SIMULATED}") from error
    else:
        loaded = Rig.load(rig).with_engine(engine).with_model(model)
    realtime = True if backend == "sim" else None
    with stopping(loaded, lambda: "the page is closed"):
        with progress("opening the robot"):
            robot = open_robot(loaded, backend, port=port, seed=seed, realtime=realtime)
        with robot:
            if backend == "sim":  # nobody gets hurt
                for servo in robot.values():
                    servo.torque_on()
            page = attach(robot, port=page_port, host=host, browser=browser, say=_print_now)
            page.run(duration or math.inf)  # the page is closed with the robot, after its motors are off


def _replay(
    path: Path,
    other: Path | None,
    rig: str | None,
    model: str | None,
    engine: str | None,
    page_port: int | None,
    host: str,
    browser: bool,
    seconds: float,
) -> None:
    from axbridge.comparison.simulate import simulate
    from axbridge.config.rig import Rig
    from axbridge.recording.provenance import rig_of
    from axbridge.recording.stored import open_recording
    from axbridge.view import web_server
    from axbridge.view.replay import Replay

    if other is not None and rig is not None:
        raise UsageError("both a second recording and --rig are given", "give one of them")
    for word, given in (("--model", model), ("--engine", engine)):
        if given is not None and rig is None:
            raise UsageError(f"{word} needs the rig that is simulated", "add --rig")
    with progress("reading") as show:
        first = open_recording(path)
        second: Recording | None = None if other is None else open_recording(other)
        for one in (first, second):
            if one is not None and one.flaw:
                typer.echo(f"note: {one.path} {one.flaw}", err=True)
        if rig is None:
            robot = rig_of(first)
        else:
            robot = Rig.load(rig)
            show("simulating")
            second = simulate(first, robot, model, engine=engine)
    server, url = web_server.start(page_port, host, f"{path.name} – axbridge")
    try:
        replay = Replay(server, robot, first, second)
        _print_now(f"page: {url}")
        if browser:
            import webbrowser

            webbrowser.open(url)
        replay.run(seconds)
    finally:
        web_server.stop(server)


def _print_now(text: str) -> None:
    """On stdout at once, for a program that waits for the line in a pipe."""
    print(text, flush=True)
