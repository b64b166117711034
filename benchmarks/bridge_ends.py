"""A program behind `axbridge bridge`, and the bridge itself, ended in random ways: which motors are left powered.

The rigs and the policies take turns. Behind `hold` the motors stay on, but behind a bridge that was killed: its guard
makes them limp. An adapter that was pulled is put back after 0.3 s.

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
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.bridge_scenarios import rig_text, station

RIGS = {
    **dict.fromkeys(("ax", "x", "sts"), "park = { pan = 0.1, tilt = 0.1 }"),
    "bioloid": "park = { right_shoulder_swing = 0.6 }",
}
POLICIES = ("limp", "hold", "park")
ENDS = [(who, how) for who in ("program", "bridge") for how in ("SIGTERM", "SIGINT", "SIGKILL")]
ENDS += [("program", "exception"), ("program", "end"), ("adapter", "unplug")]
LONGEST = 10.0  # s
LASTS = 0.3  # s that what has been reached must last


def end(family: str, policy: str, who: str, how: str, folder: str) -> tuple[float, str]:
    """Seconds until the motors were as the policy wants them, and what is wrong."""
    act = {"exception": "fails", "end": "stays a second"}.get(how, "sways")
    text = rig_text(family, f'on_exit = "{policy}"\n{RIGS[family]}')
    with station(text, folder) as here, here.stack:
        program = here.client = here.begin(act, "ax" if family == "bioloid" else family)
        program.stdout.readline()
        if who != "program" or how.startswith("SIG"):
            time.sleep(random.uniform(0.0, 0.3))
        if who == "adapter":
            here.robot.unplug()
            time.sleep(0.3)
            here.robot.plug()
        elif how.startswith("SIG"):
            (program if who == "program" else here.bridge).send_signal(signal.Signals[how])
        else:
            program.wait()
        begun = time.monotonic()
        holds = policy == "hold" and (who, how) != ("bridge", "SIGKILL")

        def reached() -> bool:
            said = (who == "bridge" and here.bridge.poll() is not None) or any(
                n["rule"] == "exit" for n in here.notices
            )
            return said if holds else not here.robot.powered

        while not reached() and time.monotonic() < begun + LONGEST:
            time.sleep(0.002)
        seconds = time.monotonic() - begun
        time.sleep(LASTS)
        on = here.robot.powered
        if holds:
            return seconds, "" if on and reached() else f"does not hold: {on}"
        return seconds, f"left powered: {on}" if on else ""


def main() -> None:
    """Print times by end and policy, and what was wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ends", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    random.seed(given.seed)
    times, due, powered, wrong = defaultdict(list), [], 0, 0
    for turn in range(given.ends):
        due = due or random.sample(ENDS, len(ENDS))
        who, how = due.pop()
        family, policy = list(RIGS)[turn % len(RIGS)], POLICIES[turn // len(RIGS) % len(POLICIES)]
        with tempfile.TemporaryDirectory() as folder:
            seconds, fault = end(family, policy, who, how, folder)
        times[who, how, policy].append(seconds * 1e3)
        powered += fault.startswith("left")
        wrong += bool(fault)
        if fault:
            print(family, policy, who, how, fault, flush=True)
    for (who, how, policy), each in sorted(times.items()):
        print(f"{who:<8} {how:<10} {policy:<5} {len(each):3} times  {median(each):6.0f} ms, at most {max(each):6.0f}")
    print(f"{given.ends} ends, {powered} left powered, {wrong} wrong")


if __name__ == "__main__":
    main()
