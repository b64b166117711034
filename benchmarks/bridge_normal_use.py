"""Normal use through `axbridge bridge` with all rules: every notice is an intervention without a reason.

A Bioloid walks by dynamixel-sdk. With a Python that has LeRobot (see bridge_transparency.py), its SO-101 follower is
connected, which writes its configuration and switches the motors on, and then follows smooth motions at 30 Hz. That
configuration is in the EEPROM before, as in an arm that LeRobot has set up. A correction of the goal at torque-on has a
reason, and is not counted: both robots sink while their motors are off.

    .venv/bin/python benchmarks/bridge_normal_use.py --minutes 30 [--lerobot PYTHON_WITH_LEROBOT]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bridge_transparency import STUBS
from tests.support.bridge_scenarios import Station, rig_text, station

FOLLOWER = """
import json, math, sys, time
from pathlib import Path
from lerobot.robots.so_follower import SO101Follower, SO101FollowerConfig
port, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
names = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
one = {"drive_mode": 0, "homing_offset": 0, "range_min": 1000, "range_max": 3100}
(folder / "arm.json").write_text(json.dumps({name: {"id": n, **one} for n, name in enumerate(names, 1)}))
follower = SO101Follower(SO101FollowerConfig(port=port, id="arm", calibration_dir=folder))
follower.connect()
if not seconds:
    follower.disconnect()
    sys.exit()
print("running", flush=True)
here, begun, cycles = follower.get_observation(), time.monotonic(), 0
while (passed := time.monotonic() - begun) < seconds:
    sway = 8.0 * min(passed / 3, 1.0)
    ways = {name: sway * math.sin(passed * (0.8 + 0.2 * number)) for number, name in enumerate(here)}
    follower.send_action({name: place + ways[name] for name, place in here.items()})
    follower.get_observation()
    cycles += 1
    time.sleep(max(begun + cycles / 30 - time.monotonic(), 0.0))
follower.disconnect()
print(cycles, "cycles")
"""


def watched(name: str, here: Station, program: subprocess.Popen[str], until: float) -> int:
    """Print each notice until the program ends or until `until`; return the number of notices without a reason."""
    known, begun = 0, time.monotonic()
    while program.poll() is None and time.monotonic() < until:
        time.sleep(1.0)
        notices = [one for one in here.notices if one["rule"] not in {"exit", "torque on"}]
        for notice in notices[known:]:
            print(f"{name} after {time.monotonic() - begun:.0f} s: {notice}", flush=True)
        known = len(notices)
        print(f"{name}: {time.monotonic() - begun:.0f} s, {known} notices", end="\r", file=sys.stderr, flush=True)
    if program.poll():
        sys.exit(f"{name} ended with an error after {time.monotonic() - begun:.0f} s; {known} notices until then")
    return known


def walk(seconds: float, folder: str) -> int:
    """A Bioloid's walk; the number of notices."""
    with station(rig_text("bioloid", ""), folder) as here, here.stack:
        program = here.begin("walks", "bioloid")
        assert program.stdout is not None
        assert program.stdout.readline(), "the program has ended itself"
        return watched("walk", here, program, time.monotonic() + seconds)


def follow(python: str, seconds: float, folder: str) -> int:
    """LeRobot's follower; the number of notices."""
    env = os.environ | {"PYTHONPATH": str(STUBS), "HOME": folder}
    follower = [python, "-c", FOLLOWER]
    with station('base = "so101"\nname = "arm"\n', folder, lambda robot: set_up(follower, robot.port, folder)) as here:
        command = [*follower, here.port, folder, str(seconds)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=env, text=True) as program:
            assert program.stdin is not None
            program.stdin.write("\n\n")  # ENTER: the file's calibration
            program.stdin.flush()
            return watched("lerobot", here, program, time.monotonic() + seconds + 60.0)


def set_up(follower: list[str], port: str, folder: str) -> None:
    """Let LeRobot write calibration and configuration, before the bridge is there."""
    env = os.environ | {"PYTHONPATH": str(STUBS), "HOME": folder}
    subprocess.run([*follower, port, folder, "0"], env=env, input="\n\n", text=True, check=True)


def main() -> None:
    """Count the notices."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=30.0, help="of each program")
    options.add_argument("--lerobot", help="a Python with LeRobot")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"walk: {walk(given.minutes * 60, folder)} notices in {given.minutes:g} min", flush=True)
    if given.lerobot:
        with tempfile.TemporaryDirectory() as folder:
            notices = follow(given.lerobot, given.minutes * 60, folder)
            print(f"lerobot: {notices} notices in {given.minutes:g} min", flush=True)


if __name__ == "__main__":
    main()
