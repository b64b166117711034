"""`axbridge view`: the live page of a robot, real or simulated."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from axbridge.cli.app import app
from axbridge.cli.options import BackendOption, PortOption, RigOption, SeedOption
from axbridge.cli.progress import progress


@app.command()
def view(
    *,
    rig: RigOption,
    backend: BackendOption = "sim",
    port: PortOption = None,
    page_port: Annotated[
        int | None, typer.Option("--page-port", min=0, max=65535, help="Of the page; default: a free one from 8080 on.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to serve it on; any other than this machine's own needs a token.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
    seconds: Annotated[float, typer.Option("--seconds", min=0.0, help="Stop after this time; 0 = at Ctrl-C.")] = 0.0,
    seed: SeedOption = 0,
) -> None:
    """Show a robot live in the browser and move it from there: sliders, poses, moves, registers, curves.

    A real robot stays limp until somebody switches it on. The space bar and the red button switch every motor off.
    """
    from axbridge.config.rig import Rig
    from axbridge.robot.open import open_robot
    from axbridge.view.attach import attach

    loaded = Rig.load(rig)
    realtime = True if backend == "sim" else None
    with progress("opening the robot"):
        robot = open_robot(loaded, backend, port=port, seed=seed, realtime=realtime)
    with robot:
        if backend == "sim":  # nobody gets hurt
            for servo in robot.values():
                servo.torque_on()
        page = attach(robot, port=page_port, host=host, browser=browser, told=_print_now)
        page.run(seconds or math.inf)  # the page is closed with the robot, after its motors are off


def _print_now(text: str) -> None:
    """On stdout at once, for whoever waits for the line in a pipe."""
    print(text, flush=True)
