"""`axbridge view`: show a robot live on a page in the browser, or play recordings on it."""

from __future__ import annotations

import math
import os
import webbrowser
from functools import partial
from pathlib import Path
from time import sleep
from typing import Annotated

from axbridge import Rig, simulate
from axbridge.cli.app import note
from axbridge.cli.exit import early_end, stopping
from axbridge.cli.options import WRITES, Where, check_needs, names_rig, opened, verb
from axbridge.cli.progress import progress
from axbridge.errors import PortError, UsageError, require
from axbridge.files import write_whole
from axbridge.recording.provenance import origin_in_words, rig_of
from axbridge.robot.calibration import rig_of_scan
from axbridge.robot.open import open_robot
from axbridge.view.page import attach
from axbridge.view.replay import replay_page
from axbridge.view.web_server import WebServer

_LONGEST_SLEEP = 4e6  # s, 46 days; some systems refuse more
_FIRST_FREE = "Port of the page; default: the first free one from 8080."


@verb("--rig bioloid")
def view(
    recordings: Annotated[
        list[Path] | None, "Play recordings again, beside each other; or show a rig.", "RECORDING.mcap…|RIG"
    ] = None,
    *,
    rig: Annotated[str | None, "The robot; with a recording: also show a simulation."] = None,
    where: Where,
    out: Annotated[Path | None, "Recordings, as a page without a server.", "PAGE.html", WRITES] = None,
    page_port: Annotated[int | None, _FIRST_FREE, {"min": 0, "max": 65535}] = None,
    host: Annotated[str, "Of the page; one that others reach needs a token."] = "127.0.0.1",
    open_: bool = True,
    duration: Annotated[float, "0: until Ctrl-C.", {"min": 0.0}] = 0.0,
    seed: int = 0,
) -> None:
    """Show a robot live in the browser and move it from there: sliders, poses, moves, curves.

    A real robot stays limp until you switch it on in the page. The space bar and the red button switch every motor off.
    With recordings, the page plays them beside each other, or one beside a simulation of it.
    """
    paths = list(recordings or ())
    if rig is None and paths and names_rig(paths[-1]):  # the word --rig may be left out
        rig = str(paths.pop())
    if out is not None and out.suffix not in ("", ".html"):
        raise UsageError(f"{out}: recordings are shown as a page", "name it .html")
    if paths:
        replay = _replay(paths, rig, where.model, where.engine)
        if out is None:
            with early_end(lambda _: "stopped: the page is closed"):
                _serve(replay, paths[0].name, page_port, host, duration or math.inf, browser=open_)
        else:
            write_whole(out, replay)
            print(f"wrote {out}")
        return
    require("the page", "websockets")
    backend, port = where.chosen, where.port
    if out is not None:
        raise UsageError("--out is for recordings", "give one; `axbridge record` makes one")
    if where.model is not None and backend == "real":
        raise UsageError("--model is of a simulation", "add --backend twin to see it beside the robot")
    if rig is None:
        try:
            with progress("asking which servos are on the line"):
                loaded, backend = rig_of_scan("what answers", port or os.environ.get("AXBRIDGE_PORT")), "real"
        except PortError as error:
            if port is not None:
                raise
            hint = f"{error.hint}; or show a simulated robot: `axbridge view bench_arm`"
            raise PortError("auto", error.message, hint) from error
    else:
        loaded = where.rig(rig)
    realtime = True if backend == "sim" else None
    with stopping(loaded, lambda: "the page is closed"):
        with progress("opening the robot"):
            robot = open_robot(loaded, backend, port=port, seed=seed, realtime=realtime)
        note(f"{loaded.name}: {origin_in_words(robot.origin)}")
        with robot:
            if backend == "sim":  # a simulation cannot hurt anyone
                for servo in robot.values():
                    servo.torque_on()
            page = attach(robot, port=page_port, host=host, browser=open_, say=partial(print, flush=True))
            page.run(duration or math.inf)  # the robot closes the page after its motors are off


def _replay(paths: list[Path], rig: str | None, model: str | None, engine: str | None) -> str:
    if len(paths) > 1 and rig is not None:
        raise UsageError("both several recordings and --rig are given", "give one of them")
    check_needs(rig, model=model, engine=engine)
    with progress("reading") as show:
        recordings = [opened(path) for path in paths]
        if rig is None:
            return replay_page(rig_of(recordings[0]), recordings)
        show("simulating")
        robot = Rig.load(rig)
        simulated = simulate(recordings[0], robot, model, engine=engine)
        return replay_page(robot, [*recordings, simulated], [paths[0].name, "simulated"])


def _serve(page: str, name: str, page_port: int | None, host: str, seconds: float, *, browser: bool) -> None:
    server = WebServer(page_port, host, f"{name} – axbridge")
    server.page = page
    try:
        print(f"page: {server.url}", flush=True)  # a program may wait for the line in a pipe
        if browser:
            webbrowser.open(server.url)
        sleep(min(seconds, _LONGEST_SLEEP))
    finally:
        server.stop()
