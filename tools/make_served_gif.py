"""Makes docs/images/served.gif: Feetech's own SDK moves an SO-101 that is not there, on a line that loses packets.

    python -m tools.make_served_gif

The program runs in a process of its own; the served bus says where the joints are.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

import axbridge
from axbridge.config.rig import Rig
from axbridge.testing import serve
from tools.robot_png import draw_robot, extent

OUT = Path(__file__).resolve().parents[1] / "docs" / "images" / "served.gif"
RATE = 10  # pictures a second
SIZE, DPI = (8.0, 3.6), 100  # inches, pixels an inch
COLOURS = 48
FAULTS = "drop=0.01"
PROGRAM = """\
import sys, time
from scservo_sdk import PacketHandler, PortHandler

port, servos = PortHandler(sys.argv[1]), PacketHandler(0)
port.openPort()
port.setBaudRate(1_000_000)
POSES = [(2048, 1500, 2700, 2500), (2700, 1800, 2300, 2048),
         (1400, 1800, 2300, 2048), (2048, 2048, 2048, 2048)]
for pose in POSES:
    for id, goal in enumerate(pose, 1):
        servos.write2ByteTxRx(port, id, 42, goal)
    time.sleep(1.5)
    lost = servos.read2ByteTxRx(port, 1, 56)[1]
    print(servos.getTxRxResult(lost), flush=True)
for id in range(1, 5):
    servos.write1ByteTxRx(port, id, 40, 0)
"""


def motion() -> list[tuple[dict[str, float], str]]:
    """Where the joints are, rad, and what the program has said, `RATE` times a second while it runs."""
    seen, said = [], ""
    with serve("so101", faults=FAULTS, timing="wire") as bus:
        program = subprocess.Popen([sys.executable, "-c", PROGRAM, bus.port], stdout=subprocess.PIPE)
        assert program.stdout is not None
        os.set_blocking(program.stdout.fileno(), False)
        began = time.monotonic()
        while program.poll() is None:
            said += (program.stdout.read() or b"").decode()
            seen.append((bus.positions, said))
            time.sleep(max(0.0, began + len(seen) / RATE - time.monotonic()))
        if program.returncode:
            raise SystemExit("the program failed: run it again on a computer that does nothing else")
    return seen


def main() -> None:
    """Write the animation."""
    rig = Rig.load("so101")
    shapes = rig.shapes("visual")
    seen = motion()
    with axbridge.open(rig) as robot:
        assert robot.simulation is not None
        engine = robot.simulation.engine
        assert engine is not None
        moments = []
        for positions, _ in seen:
            for joint, name in enumerate(robot):
                engine.place_joint(joint, positions[name])
            moments.append(dict(engine.poses()))
    window = extent(shapes, moments)
    pictures = []
    for poses, (_, said) in zip(moments, seen, strict=True):
        figure = Figure(figsize=SIZE, dpi=DPI, facecolor="white")
        served = f"$ axbridge serve so101 --faults {FAULTS}\nready: /dev/pts/3"
        for height, text, colour in (
            (0.97, served, "#1f6f43"),
            (0.86, PROGRAM.replace(", flush=True", ""), "#22303f"),
            (0.26, f"$ python wave.py /dev/pts/3\n{said}", "#1f6f43"),
        ):
            figure.text(0.02, height, text, family="monospace", size=7.5, va="top", color=colour)
        draw_robot(figure.add_axes((0.55, 0.02, 0.44, 0.96)), shapes, poses, window)
        stream = io.BytesIO()
        figure.savefig(stream, format="png")
        pictures.append(Image.open(stream).convert("P", palette=Image.Palette.ADAPTIVE, colors=COLOURS))
    first, *others = pictures
    first.save(OUT, save_all=True, append_images=others, duration=1000 // RATE, loop=0, optimize=True)
    print(f"{OUT}: {len(pictures)} pictures, {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
