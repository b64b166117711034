"""Which causes a twin names: a served arm that differs from its model on purpose, seen through the bus.

    python benchmarks/twin_causes.py [--runs N] [--minutes M] [--only WORDS] [--json]

Each run serves an arm, moves its twin from pose to pose, and notes what is named until the time is over. A hit is the
right cause within a second of the moment from which it can be seen: the first command, or the fault. `stale model` is
what is left when three seconds of motion fit no other cause, so it cannot be named within a second. Last, the right
model moves at random for M minutes, where every alarm is a false one. Do not run it on a busy machine: a served arm
that stands still for a moment differs from its twin.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import axbridge
from axbridge.config.model import to_toml
from axbridge.config.rig import Rig
from axbridge.robot.twin.residuals import REMEDIES

SERVO = "shoulder"
POSES = 1.1, -1.2, 1.4, -1.5, 1.25  # rad: far from hanging down, so that there is a load to compare
SOON = 1.0  # s
MASS = 8.0  # of the bench arm's bar: 1 kg, so that the servo holds 0.65 N·m, two fifths of what it can


@dataclass(frozen=True)
class Case:
    """One difference between the arm and its model.

    Attributes:
        name: In words.
        expected: What is to be named.
        mass: Of the bar, over the model's.
        volts: Of the supply, over the model's.
        stop: Upper hard stop, rad.
        model: Changes to the servo model of the arm, by table.
        fault: Typed into the server two seconds after the start.
        seconds: How long a run takes.
        soon: Within what time the cause is to be named, s.
    """

    name: str
    expected: str
    mass: float = 1.0
    volts: float = 0.0
    stop: float | None = None
    model: dict[str, dict[str, float]] = field(default_factory=dict)
    fault: str = ""
    seconds: float = 3.0
    soon: float = SOON


CASES = (
    Case("load +30 %", "extra load", mass=1.3),
    Case("load -30 %", "missing load", mass=0.7),
    Case("load gone", "missing load", mass=0.05),
    Case("overload", "fault", fault="overload:1", seconds=4.0),
    Case("blocked by a hard stop", "blocked", stop=0.4),
    Case("supply -2 V", "weak supply", volts=-2.0),
    Case("supply -2 V and load +30 %", "weak supply", volts=-2.0, mass=1.3),
    Case("too hot", "overheating", fault="overheat:1", seconds=4.0),
    Case(
        "friction that grows with speed", "stale model", model={"friction": {"viscous": 0.03}}, seconds=15.0, soon=15.0
    ),
    Case("twice the rotor's inertia", "stale model", model={"motor": {"armature": 0.0164}}, seconds=15.0, soon=15.0),
    Case("commands act 40 ms later", "stale model", model={"sensor": {"latency_ms": 60.0}}, seconds=15.0, soon=15.0),
)


RIGHT = Case("none", "")


def made(case: Case, folder: Path) -> tuple[Path, Path]:
    """The arm's rig and its servo model, as files: a bench arm with the AX-12 as real ones move."""
    folder.mkdir()
    rig = Rig.load("bench_arm")
    heavy = MASS * case.mass
    text = re.sub(r'mass value="([\d.]+)"', lambda found: f'mass value="{heavy * float(found[1])}"', rig.urdf_text())
    (folder / "bench_arm.urdf").write_text(text)
    toml = rig.path.read_text().replace("supply_voltage = 9.6", f"supply_voltage = {11.1 + case.volts}")
    if case.stop is not None:
        toml = toml.replace("max_stop = 2.617", f"max_stop = {case.stop}")
    (folder / "arm.toml").write_text(toml)
    right = rig.with_model("ax12")
    model = right.specs[right.servos[0].name].model
    tables = {table: getattr(model, table).model_copy(update=changes) for table, changes in case.model.items()}
    (folder / "servo.toml").write_text(to_toml(model.model_copy(update=tables)))
    return folder / "arm.toml", folder / "servo.toml"


@contextmanager
def beside(case: Case, seed: int) -> Iterator[tuple[axbridge.Robot, Callable[[str], None]]]:
    """The twin of a served arm that differs from its model as the case says, and a way to strike that arm."""
    with tempfile.TemporaryDirectory() as folder:
        right, model = made(RIGHT, Path(folder, "right"))
        with (
            served(*made(case, Path(folder, "arm")), seed) as (port, strike),
            axbridge.open(Rig.load(right).with_model(str(model)), backend="twin", port=port, seed=seed + 100) as robot,
        ):
            yield robot, strike


@contextmanager
def served(rig: Path, model: Path, seed: int) -> Iterator[tuple[str, Callable[[str], None]]]:
    """The arm on a port, and a way to strike it with faults."""
    command = [sys.executable, "-m", "axbridge", "serve", str(rig), "--model", str(model), "--seed", str(seed)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:

        def strike(fault: str) -> None:
            assert server.stdin is not None
            server.stdin.write(f"{fault}\n")
            server.stdin.flush()

        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[1], strike
        finally:
            server.terminate()


def run(case: Case, seed: int) -> list[tuple[float, str]]:
    """What was named, with the time since it could be seen, s."""
    dice, named, since, until = random.Random(seed), [], 0.0, 0.0
    poses = dice.sample(POSES, len(POSES))
    if case.stop is not None:
        poses.sort(reverse=True)  # first beyond the stop
    with beside(case, seed) as (robot, strike):
        while robot.time < case.seconds:
            if robot.time >= until:
                until += 2.5 if case.soon == SOON else dice.uniform(0.6, 1.4)
                robot[SERVO].set_position(poses[0])
                poses = [*poses[1:], poses[0]]
            if case.fault and not since and robot.time > 2.0:
                since = robot.time
                strike(case.fault)
            robot.step()
            named += [(robot.time - since, event.kind) for event in robot.last_step.events]
    return named


def wander(minutes: float, seed: int, told: Callable[[str], None]) -> list[tuple[float, str]]:
    """What is named beside the right model, in motion of all kinds."""
    dice, named, until, say = random.Random(seed), [], 0.0, 0.0
    with beside(RIGHT, seed) as (robot, _):
        servo = robot[SERVO]
        while robot.time < 60 * minutes:
            if robot.time >= until:
                until = robot.time + dice.uniform(0.2, 2.5)
                servo.set_velocity(dice.choice((0.5, 2.0, servo.max_velocity)))
                servo.set_position(dice.uniform(-1.6, 1.6))
            robot.step()
            named += [(robot.time, event.kind) for event in robot.last_step.events]
            if robot.time >= say:
                say = robot.time + 30.0
                alarms = [(round(when, 1), cause) for when, cause in named if cause in REMEDIES]
                told(f"right model: {robot.time / 60:.1f} of {minutes:g} minutes, alarms: {alarms}")
    return [(when, cause) for when, cause in named if cause in REMEDIES]


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--runs", type=int, default=5)
    words.add_argument("--minutes", type=float, default=10.0)
    words.add_argument("--only", default="")
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()

    def told(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    rows = []
    for case in CASES:
        if asked.only not in case.name:
            continue
        hits, others, times = 0, Counter[str](), []
        for seed in range(asked.runs):
            named = run(case, seed)
            first = min((when for when, cause in named if cause == case.expected and when >= 0), default=math.inf)
            hits += first <= case.soon
            times += [first] if math.isfinite(first) else []
            others.update({cause for _, cause in named if cause in REMEDIES and cause != case.expected})
            told(f"{case.name}, run {seed + 1} of {asked.runs}: {named}")
        rows.append({
            "difference": case.name, "cause": case.expected, "runs": asked.runs, "hits": hits,
            "misses": asked.runs - hits, "false": dict(others), "median_s": median(times) if times else None,
        })  # fmt: skip
    alarms = wander(asked.minutes, 1, told) if asked.minutes else []
    if asked.json:
        print(json.dumps({"causes": rows, "right_model_minutes": asked.minutes, "right_model_alarms": alarms}))
        return
    print("| difference | cause | hits | misses | false alarms | named after (median) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        false = ", ".join(f"{cause} {count}" for cause, count in row["false"].items()) or "none"
        after = "-" if row["median_s"] is None else f"{row['median_s']:.2f} s"
        print(f"| {row['difference']} | `{row['cause']}` | {row['hits']} | {row['misses']} | {false} | {after} |")
    print(f"| none, {asked.minutes:g} minutes of motion at random | none | | | {len(alarms)} | |")


if __name__ == "__main__":
    main()
