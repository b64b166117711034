"""Takes the screenshots of docs/images: the live page, a comparison's page, and a session of verify and of calibrate.

    python -m tools.make_screenshots [live] [report] [verify] [calibrate]

All of them without a name. It needs chromium. Robots are served on pseudo-terminals; a scripted hand
(`tests.support.hand`) turns their joints, and answers what verify and calibrate ask.
"""

from __future__ import annotations

import base64
import html
import io
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

import axbridge
from axbridge.comparison.comparison import compare
from axbridge.comparison.html import write_html
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import copy_rig
from axbridge.motion.files import load_move
from tests.support.browser import browsing
from tests.support.hand import led

OUT = Path(__file__).resolve().parents[1] / "docs" / "images"
_MOST = 200_000  # bytes of a picture
_WIDE, _HIGH = 1200, 1100  # px of a window
_TURNED = 0.6  # rad: where the hand turns a joint of verify
_BENT = 1.0  # rad: how far the hips of a robot that bows are
_SEEN = 12.0  # s until the live page is drawn and its curves have something to show
_TERMINAL = (
    "<style>body{{margin:0;background:#14171c}}pre{{margin:0;padding:18px 22px;color:#d8dee9;font:15px/1.45 monospace;"
    "white-space:pre-wrap;display:inline-block;max-width:1120px}}b{{color:#8fd18b;font-weight:normal}}</style><pre>{}</pre>"
)


def keep(data: bytes, name: str) -> None:
    """Save a screenshot with as many colours as fit."""
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    for colours in (256, 128, 64, 32):
        picture.quantize(colours, dither=Image.Dither.NONE).save(OUT / name, optimize=True)
        if (OUT / name).stat().st_size < _MOST:
            break
    print(f"{name}: {picture.width} x {picture.height}, {(OUT / name).stat().st_size / 1000:.0f} kB")


def shot(tab: Any, selector: str = "body") -> bytes:
    """What is seen of the page, down to the end of an element."""
    ends = "b => ({width: Math.min(b.right, innerWidth), height: Math.min(b.bottom, innerHeight)})"
    clip = tab.run(f"({ends})(document.querySelector({selector!r}).getBoundingClientRect())")
    return base64.b64decode(
        tab.call("Page.captureScreenshot", format="png", clip={"x": 0, "y": 0, "scale": 1, **clip})["data"]
    )


def picture_of(page: Path, name: str, folder: Path, selector: str = "body") -> None:
    """A screenshot of a page that lies in a file."""
    with browsing(folder, _WIDE, _HIGH) as opened:
        tab = opened(page.as_uri())
        tab.settle()
        keep(shot(tab, selector), name)


def session(verb: list[str], answers: Mapping[str, Callable[[re.Match[str]], str]]) -> str:
    """What a verb prints whose questions are answered: by a pattern, what is done then, and the key."""
    command = [sys.executable, "-m", "axbridge", *verb]
    said = ""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            for pattern, act in answers.items():
                if found := re.search(pattern, line):
                    process.stdin.write(act(found))
                    process.stdin.flush()
                    break
    return said


def terminal(command: str, said: str, name: str, folder: Path) -> None:
    """A picture of a terminal."""
    page = folder / f"{name}.html"
    page.write_text(_TERMINAL.format(f"<b>$ {html.escape(command)}</b>\n{html.escape(said)}"), encoding="utf-8")
    picture_of(page, name, folder, "pre")


def report(folder: Path) -> None:
    """A real log of a pendulum beside the simulator."""
    from axbridge import samples

    recording = samples.load("xl330")
    found = compare(
        recording, simulate(recording, Rig.load("xl330_pendulum").with_model("xl330")), labels=("measured", "simulated")
    )
    write_html(found, folder / "report.html")
    picture_of(folder / "report.html", "report.png", folder)


def live(folder: Path) -> None:
    """A Bioloid on its live page while it bows."""
    move, _ = load_move("sample:bow")
    with axbridge.open("bioloid", realtime=True, engine="mujoco") as robot, browsing(folder, _WIDE, _HIGH) as opened:
        page = robot.view(port=0, open=False)
        tab = opened(f"{page.url}#servo=left_hip_swing")
        seen = threading.Event()

        def bow() -> None:
            while not seen.is_set():
                axbridge.play(robot, move)

        program = threading.Thread(target=bow)
        program.start()
        time.sleep(_SEEN)
        while robot["left_hip_swing"].position < _BENT:
            time.sleep(0.02)
        keep(tab.picture(), "live.png")
        seen.set()
        program.join()


def verify(folder: Path) -> None:
    """Verify of a head whose tilt is mirrored: the page that it writes."""
    real = copy_rig(Rig.load("pan_tilt"), folder / "built")[0]
    quick = re.sub(r"(?m)^(id = \d+)$", r"\1\nregisters = { return_delay_time = 0 }", real.read_text())
    real.write_text(re.sub(r'(name = "tilt"(?:.*\n)*?id = 2)\b', r"\1\ndirection = -1", quick))
    rows = {servo.name: row for row, servo in enumerate(Rig.load(real).servos)}
    with led(real, "none", "own") as (port, tell):

        def level(_: re.Match[str]) -> str:
            tell("all 0.0")
            return " "

        def turned(found: re.Match[str]) -> str:
            tell(f"{rows[found[1]]} {_TURNED}")
            return " "

        session(
            [*f"verify --rig pan_tilt --port {port} --quick --only line,joints --out".split(), str(folder / "v")],
            {
                "goes on, q ends|y does it, s leaves it out": lambda _: "y",
                "hold every joint at 0°": level,
                r" of \d+: turn (\w+) \(id": turned,
                "any other key goes on": lambda _: " ",
            },
        )
    picture_of(folder / "v" / "verify.html", "verify.png", folder)


def calibrate(folder: Path) -> None:
    """Calibration of a head whose tilt has another id, zero and direction."""
    mine = copy_rig(Rig.load("pan_tilt"), folder / "my_head")[0]
    real = copy_rig(Rig.load("pan_tilt"), folder / "real")[0]
    real.write_text(real.read_text().replace("id = 2", "id = 9\nzero = 390\ndirection = -1"))
    row = -1
    with led(real) as (port, tell):

        def to(*angles: float) -> Callable[[re.Match[str]], str]:
            def led_there(_: re.Match[str]) -> str:
                for angle in angles:
                    tell(f"{row} {angle}")
                    tell("seen")
                return " "

            return led_there

        def turned(found: re.Match[str]) -> str:
            nonlocal row
            row += 1
            return to(0.6)(found)

        said = session(
            ["calibrate", "--rig", str(mine), "--port", port],
            {
                "  1 turn it": turned,
                "  2 bring it": to(0.0),
                "  3 lead it": to(-1.0, 0.8),
                r"write it\?": lambda _: "y",
            },
        )
    said = said.replace(f"{folder}/", "").replace(port, "/dev/ttyUSB0")
    terminal("axbridge calibrate --rig my_head --port /dev/ttyUSB0", said, "calibrate.png", folder)


def main() -> None:
    """Take the pictures that the command line names, or all."""
    known = {"live": live, "report": report, "verify": verify, "calibrate": calibrate}
    for name in sys.argv[1:] or known:
        with tempfile.TemporaryDirectory() as folder:
            known[name](Path(folder))


if __name__ == "__main__":
    main()
