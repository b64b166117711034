"""A program behind `axbridge bridge`, and the bridge itself, ended in random ways: which motors are left powered.

The ends take turns with rigs and policies; those of one rig and policy have the same robot. Behind `hold` the motors
stay on, but behind a bridge that was killed: its guard makes them limp. An adapter that was pulled is put back after
0.3 s.

    .venv/bin/python benchmarks/bridge_ends.py --ends 20
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))
from axbridge.testing import serve
from tests.support.bridge_scenarios import Station, bridged, rig_text

RIGS = {
    **dict.fromkeys(("ax", "x", "sts"), "park = { pan = 0.1, tilt = 0.1 }"),
    "bioloid": "park = { right_shoulder_swing = 0.6 }",
}
POLICIES = ("limp", "hold", "park")
ENDS = [(who, how) for who in ("program", "bridge") for how in ("SIGTERM", "SIGINT", "SIGKILL")]
ENDS += [("program", "exception"), ("program", "end"), ("adapter", "unplug")]
LONGEST = 10.0  # s
LASTS = 0.3  # s that what has been reached must last


def end(here: Station, family: str, policy: str, who: str, how: str) -> tuple[float, str]:
    """Seconds until the motors were as the policy wants them, and what is wrong."""
    act = {"exception": "fails", "end": "stays a second"}.get(how, "sways")
    robot = here.robot
    here.notices.clear()
    with here.stack:
        program = here.client = here.begin(act, family)
        program.stdout.readline()
        if who != "program" or how.startswith("SIG"):
            time.sleep(random.uniform(0.0, 0.3))
        if who == "adapter":
            robot.unplug()
            time.sleep(0.3)
            robot.plug()
        elif how.startswith("SIG"):
            (program if who == "program" else here.bridge).send_signal(signal.Signals[how])
        else:
            program.wait()
        begun = time.monotonic()
        holds = policy == "hold" and (who, how) != ("bridge", "SIGKILL")

        def over() -> bool:
            if who == "bridge":
                return here.bridge.poll() is not None
            return any(notice["rule"] == "exit" for notice in here.notices)

        def reached() -> bool:
            return over() if holds else not robot.powered

        wait(reached, begun + LONGEST)
        seconds = time.monotonic() - begun
        wait(over, begun + LONGEST)  # what it says of this program is not about the next
        time.sleep(LASTS)
        on = robot.powered
        if holds:
            return seconds, "" if on and reached() else f"does not hold: {on}"
        return seconds, f"left powered: {on}" if on else ""


def wait(reached: Callable[[], bool], until: float) -> None:
    """Wait until it is so, or for too long."""
    while not reached() and time.monotonic() < until:
        time.sleep(0.002)


def ended(family: str, policy: str, ends: list[tuple[str, str]]) -> Iterator[tuple[str, str, float, str]]:
    """One robot for all these ends, and one bridge until it is ended: who, how, seconds, and what is wrong."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        rig = Path(folder, "rig.toml")
        rig.write_text(rig_text(family, f'on_exit = "{policy}"\n{RIGS[family]}'))
        robot, here = held.enter_context(serve(rig, timing="wire")), None
        for who, how in ends:
            if here is None or here.bridge.poll() is not None:
                here = held.enter_context(bridged(robot, rig))
            yield who, how, *end(here, family, policy, who, how)
            for id_ in robot.powered:
                robot.write(id_, "torque_enable", 0)


def main() -> None:
    """Print times by end and policy, and what was wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ends", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    random.seed(given.seed)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    rigs = [(family, policy) for policy in POLICIES for family in RIGS]
    due = [end for _ in range(-(-given.ends // len(ENDS))) for end in random.sample(ENDS, len(ENDS))][: given.ends]
    times, powered, wrong, done = defaultdict(list), 0, 0, 0
    for number, (family, policy) in enumerate(rigs):
        for who, how, seconds, fault in ended(family, policy, due[number :: len(rigs)]):
            done += 1
            print(f"{done} of {given.ends}: {family} {policy} {who} {how}  {fault}", flush=True)
            times[who, how, policy].append(seconds * 1e3)
            powered += fault.startswith("left")
            wrong += bool(fault)
    for (who, how, policy), each in sorted(times.items()):
        print(f"{who:<8} {how:<10} {policy:<5} {len(each):3} times  {median(each):6.0f} ms, at most {max(each):6.0f}")
    print(f"{given.ends} ends, {powered} left powered, {wrong} wrong")


if __name__ == "__main__":
    main()
