"""Controllers of served servos, ended at random moments in every way there is; prints JSON.

The robot hangs in the air: on the ground it would settle after the end, and bend the servos that hold. `--rig koch` has
an arm of X servos instead of the 18 AX-12s.

Each end opens it on a virtual bus with every motor on, and takes its turn of the policies limp, park and hold,
and of steps of 1, 8 and 20 ms. When the controller is dead, another client reads every servo: limp and park must have
left none with torque, hold each with the present position as its goal; behind a program that died at once the guard
must have left none with torque.

Signals: SIGTERM and SIGHUP, every fifth one while the controller still greets its
servos. What it says on stderr counts as an error, too. The time runs from the signal to the death of the controller,
which is when every servo has said that its torque is off, or that it holds.

Programs: those of `tests/support/ending_program.py`: threads, asyncio, concurrent.futures, multiprocessing; the end of
the script, exceptions, `sys.exit`, signals, `os._exit`. Notebooks: a kernel that is restarted or shut down while it
steps the robot, or while a thread in it does.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from jupyter_client.manager import start_new_kernel

import axbridge
from axbridge.bus.base import Bus
from axbridge.bus.serial import SerialBus
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.errors import PortError
from axbridge.robot import connection
from axbridge.units import Calibration
from axbridge.virtual.background import serving

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support import ending_program

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
POLICIES, STEPS = ("limp", "park", "hold"), (1, 8, 20)
SWING = 0.03  # rad, and no more on the way to the park pose: it takes its time
MOMENT = 0.25  # s in which the signal comes, once the controller runs
GREETING = 0.15  # s in which it comes during the handshake
PATIENCE = 1.0  # s: a busy machine may stop the virtual servos for a while
LONGEST = 30.0  # s that a program may take to end, on a busy machine
NEAR = {1: 3.0, 2: 11.0}  # degrees between goal and position of a servo that holds a load; X loops have no integral

CELL = """
import threading, time, warnings, axbridge
warnings.simplefilter("ignore")
robot = axbridge.open({rig!r}, backend="real", port={port!r}, safety={safety!r})
start = {{name: min(max(s.position, s.min_position + 0.03), s.max_position - 0.03) for name, s in robot.items()}}
def drive():
    count = 0
    while robot.step({step_ms}) != -1:
        count += 1
        for name, servo in robot.items():
            servo.set_position(start[name] + 0.03 * (-1) ** (count // 20))
"""
DRIVEN_BY = {
    "notebook": "for name, servo in robot.items(): servo.set_position(start[name])",
    "notebook's thread": "threading.Thread(target=drive, daemon=True).start(); time.sleep(0.2)",
}
KERNEL_ENDS = ("restart", "interrupt, restart", "shutdown", "kill")


def control(rig: str, port: str, way: dict[str, Any], pose: dict[str, float], ready: int) -> None:
    """The controller, in a forked child: it ends by a signal alone."""

    def greet(*arguments: Any, **options: Any) -> Any:
        os.write(ready, b"greeting\n")
        return handshake(*arguments, **options)

    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # whatever started this benchmark may ignore them
    handshake, connection.handshake = connection.handshake, greet
    safety = {"on_exit": way["policy"], "park": pose}
    with axbridge.open(rig, backend="real", port=port, safety=safety) as robot:
        for name, servo in robot.items():
            servo.set_position(pose[name])
        robot.step(way["step_ms"])
        os.write(ready, b"running\n")
        count = 0
        while True:
            count += 1
            for name, servo in robot.items():
                servo.set_position(pose[name] + SWING * (-1) ** (count // 20))
            robot.step(way["step_ms"])


def end(rig: str, port: str, number: int, way: dict[str, Any], pose: dict[str, float]) -> tuple[float, int, str] | str:
    """Let a controller end; the time it took, s, its exit status and what it said; or why it did not start."""
    reading, ready = os.pipe()
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            try:
                control(rig, port, way, pose, ready)
            except axbridge.AxBridgeError as failure:
                print(failure, file=sys.stderr, flush=True)
            finally:
                os._exit(9)
        os.close(ready)
        with os.fdopen(reading) as news:
            if not heard(news, "greeting" if way["handshake"] else "running"):
                os.waitpid(child, 0)
                said.seek(0)
                return said.read()
            time.sleep(random.uniform(0, GREETING if way["handshake"] else MOMENT))
            since = time.monotonic()
            os.kill(child, number)
            _, status = os.waitpid(child, 0)
            took = time.monotonic() - since
        said.seek(0)
        return took, os.waitstatus_to_exitcode(status), said.read()


def heard(news: TextIO, word: str) -> bool:
    """Read lines until that one; whether it came."""
    return any(line.strip() == word for line in iter(news.readline, ""))


def opened(port: str, rig: Rig) -> SerialBus:
    """The line of a robot, as soon as the guard of the dead controller has let it go."""
    until = time.monotonic() + 5
    while True:
        try:
            bus = SerialBus(port)
        except PortError:
            if time.monotonic() > until:
                raise
            time.sleep(0.002)
        else:
            bus.latency = PATIENCE
            bus.second = frozenset(s.id for s in rig.servos if s.id is not None and rig.profile_of(s).protocol == 2)
            return bus


def read(bus: Bus, profile: FirmwareProfile, id: int, name: str) -> int:
    """A register."""
    register = profile.register(name)
    return int.from_bytes(bus.read(id, register.address, register.size).data, "little", signed=register.signed)


def write(bus: Bus, profile: FirmwareProfile, id: int, name: str, value: int) -> None:
    """Set a register."""
    register = profile.register(name)
    bus.write(id, register.address, value.to_bytes(register.size, "little", signed=register.signed))


def switch_on(bus: Bus, rig: Rig) -> dict[str, float]:
    """Every motor on where it is, with all its torque, even if it had shut itself down. Positions, rad."""
    pose = {}
    for servo in rig.servos:
        assert servo.id is not None
        profile = rig.profile_of(servo)
        present = read(bus, profile, servo.id, "present_position")
        write(bus, profile, servo.id, "goal_position", present)
        if "torque_limit" in profile.registers:
            write(bus, profile, servo.id, "torque_limit", 1023)
        write(bus, profile, servo.id, "torque_enable", 1)
        low, high = servo.soft_limits
        angle = Calibration(profile.units, servo.zero, servo.direction).angle(present)
        pose[servo.name] = min(max(angle, low + SWING), high - SWING)
    return pose


def end_program(rig: str, port: str, way: dict[str, Any], safety: dict[str, Any]) -> str:
    """Let one of `ending_program` end; what is wrong with that."""
    how = way["end"]
    with ending_program.start(
        way["way"], how, way["step_ms"], rig=rig, backend="real", port=port, safety=safety
    ) as program:
        assert program.stdout is not None
        if program.stdout.readline() != "running\n":
            return program.communicate()[1]
        time.sleep(random.uniform(0, MOMENT))
        ending_program.tell(program, how)
        try:
            said = program.communicate(timeout=LONGEST)[1]
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            return f"did not end: {program.communicate()[1]}"
    return said if "powered" in said or (how in {"SIGTERM", "SIGHUP"} and "child" not in way["way"]) else ""


def end_kernel(rig: str, port: str, way: dict[str, Any], safety: dict[str, Any]) -> str:
    """Let a notebook's kernel end; what is wrong with that."""
    kernel, client = start_new_kernel()
    try:
        for cell in (CELL.format(rig=rig, port=port, safety=safety, step_ms=way["step_ms"]), DRIVEN_BY[way["way"]]):
            answer = client.execute_interactive(cell, timeout=LONGEST, output_hook=lambda _: None)
            if answer["content"]["status"] != "ok":
                return str(answer["content"])
        if way["way"] == "notebook":
            client.execute("drive()")
        time.sleep(random.uniform(0, MOMENT))
        if way["end"] == "interrupt, restart":
            kernel.interrupt_kernel()
        if way["end"] == "shutdown":
            kernel.shutdown_kernel()
        else:
            kernel.restart_kernel(now=way["end"] == "kill")
        return ""
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def look(bus: Bus, rig: Rig, policy: str) -> tuple[list[str], int]:
    """The servos that are not as the policy leaves them, and the farthest goal of those that hold, counts."""
    wrong, farthest = [], 0
    for servo in rig.servos:
        assert servo.id is not None
        profile = rig.profile_of(servo)
        ask = partial(read, bus, profile, servo.id)
        on, away, armed = ask("torque_enable"), 0, profile.protocol == 2 and ask("bus_watchdog") != 0
        if policy == "hold":
            away = abs(ask("goal_position") - ask("present_position"))
        farthest = max(farthest, away)
        if on != (policy == "hold") or away * profile.units.position > math.radians(NEAR[profile.protocol]) or armed:
            wrong.append(f"{servo.name}: torque {on}, {away} counts away, {'' if armed else 'not '}armed")
    return wrong, farthest


def hanging(folder: Path) -> str:
    """A Bioloid whose torso is held in the air, as a rig file in `folder`."""
    rig = folder / "hanging.toml"
    rig.write_text('base = "bioloid"\nname = "hanging"\n[world]\nfixed_base = true\nground = false\n')
    return str(rig)


def cases() -> list[dict[str, Any]]:
    """Every way of driving and ending, in a random order; signals in the handshake and after it are a tenth."""
    found = [{"way": way, "end": how} for way, ends in ending_program.WAYS.items() for how in ends]
    found += [{"way": way, "end": how} for way in DRIVEN_BY for how in KERNEL_ENDS]
    found += [{"way": "signals", "end": number.name} for number in SIGNALS] * (len(found) // 18)
    random.shuffle(found)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ends", type=int, default=20)
    parser.add_argument("--rig", default="bioloid")
    parser.add_argument("--way", help="this way of driving alone: signals, 'daemon thread', notebook, …")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    name = arguments.rig
    rig = Rig.load(name)
    times: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    wrong: list[Any] = []
    errors: list[str] = []
    unstarted: list[str] = []
    farthest = 0
    ways: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    due: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, serving(hanging(Path(folder)) if name == "bioloid" else name) as port:
        for turn in range(arguments.ends):
            due = due or [case for case in cases() if arguments.way in {None, case["way"]}]
            way: dict[str, Any] = {**due.pop(), "policy": POLICIES[turn % 3], "step_ms": STEPS[turn // 3 % 3]}
            with opened(port, rig) as bus:
                pose = switch_on(bus, rig)
            policy, lasts = way["policy"], True
            if way["way"] == "signals":
                number = signal.Signals[way["end"]]
                way["handshake"] = ways["signals"] % 5 == 0
                while isinstance(ended := end(name, port, number, way, pose), str):
                    unstarted.append(ended)  # a busy machine holds the virtual servos up
                    with opened(port, rig) as bus:
                        pose = switch_on(bus, rig)
                took, status, said = ended
                times[policy].append(took * 1e3)
                problem = f"status {status}: {said}" if said or status != -number else ""
            else:
                ending = end_kernel if way["way"] in DRIVEN_BY else end_program
                problem = ending(name, port, way, {"on_exit": policy, "park": pose})
                lasts = (
                    way["end"] != "kill" if way["way"] in DRIVEN_BY else ending_program.lasts(way["way"], way["end"])
                )
                policy = "limp" if lasts is False else policy
            with opened(port, rig) as bus:
                left, away = look(bus, rig, policy)
                if left and lasts is None:
                    left, away = look(bus, rig, "limp")
            farthest = max(farthest, away)
            ways[way["way"]] += 1
            ends[way["end"]] += 1
            if left:
                wrong.append({**way, "servos": left})
            if problem:
                errors.append(f"{way}: {problem}")
            if sys.stderr.isatty() or turn % 20 == 19:
                print(f"{turn + 1} ends, {len(wrong)} wrong, {len(errors)} errors", file=sys.stderr, flush=True)
    report = {
        "ends": arguments.ends,
        "driven by": ways,
        "ended by": ends,
        "left powered, or not holding": wrong,
        "errors": errors,
        "had to be started again": unstarted,
        "farthest_goal_when_holding_counts": farthest,
        "signal_ms": {
            policy: {"median": sorted(taken)[len(taken) // 2], "longest": max(taken)}
            for policy, taken in times.items()
            if taken
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
