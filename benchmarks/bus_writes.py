"""What a write does and says: status return level x mishap x kind of write; prints a Markdown table.

`python benchmarks/bus_writes.py`: each case is a command (or a robot with a wheel) on a pseudo-terminal of its own. Its
servo is deaf for 6 ms after each EEPROM byte, also after one that keeps its value.

It fails on a surprise: a write that arrived and is repeated, a value that is not there, a wheel left behind.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import axbridge
from axbridge.bus.protocols.packet import Packet
from axbridge.cli.app import run
from axbridge.config.registers import Instruction
from tests.support.pty_line import PtyLine

import_module("axbridge.cli.servo")

_BURN = 0.006  # s a byte
_CW_LIMIT, _LEVEL, _LED, _DELAY, _LOCK = 6, 16, 25, 5, 47
MISHAPS = ("fine", "acknowledgement lost", "reply lost", "locked")


def trouble(line: PtyLine, mishap: str, address: int) -> Callable[[Packet], str]:
    """Drop the first acknowledgement of a write to `address`, or the first reply to a read behind it."""
    dropped = []

    def fate(packet: Packet) -> str:
        wanted = Instruction.WRITE if mishap == "acknowledgement lost" else Instruction.READ
        if mishap in {"acknowledgement lost", "reply lost"} and packet.code == wanted and count(line, address):
            dropped.append(packet)
        return "drop" if dropped == [packet] else "ok"

    return fate


def command(*arguments: str) -> Callable[[PtyLine], int]:
    """A case that is a command."""
    return lambda line: run(["servo", *arguments, "--port", line.port])


def wheel(line: PtyLine) -> int:
    """A case that is a robot: turn endlessly, end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with axbridge.open("bench_arm", backend="real", port=line.port) as robot:
                robot["shoulder"].set_position(math.inf)
                robot["shoulder"].set_velocity(1.0)
                for _ in range(3):
                    robot.step(20)
                assert bytes(line.tables[1][_CW_LIMIT : _CW_LIMIT + 4]) == bytes(4)
        except axbridge.AxBridgeError as error:
            print(f"axbridge: {error}", file=sys.stderr)
            return 3
    return 0


CASES: dict[str, tuple[Callable[[PtyLine], int], int, Callable[[PtyLine], Any], Any]] = {
    "RAM": (command("write", "1", "led", "1"), _LED, lambda line: line.tables[1][_LED], 1),
    "EEPROM": (command("write", "1", "return_delay_time", "7"), _DELAY, lambda line: line.tables[1][_DELAY], 7),
    "set-id": (command("set-id", "1", "9"), 3, lambda line: min(line.tables), 9),
    "wheel": (wheel, _CW_LIMIT, lambda line: bytes(line.tables[1][6:10]).hex(" "), "00 00 ff 03"),
}


def main() -> int:
    """Run every case."""
    surprises = 0
    print("| level | mishap | write | packets sent | exit | in the servo | said |\n| - | - | - | - | - | - | - |")
    for level in (0, 1, 2):
        for mishap in MISHAPS:
            for kind, (act, address, look, wanted) in CASES.items():
                code, sent, held, said = attempt(level, mishap, act, address, look)
                # a servo at level 0 answers no read: it is to be made to answer first, and gets nothing
                refused = level == 0 or (mishap == "locked" and kind != "RAM")
                expected = 0 if refused else 2 if kind == "wheel" else 1
                landed = held == wanted if not refused or kind == "wheel" else held != wanted
                odd = sent != expected or not landed
                surprises += odd
                print(
                    f"| {level} | {mishap} | {kind} | {sent} | {code} | {held} | {said} |"
                    + (" SURPRISE" if odd else "")
                )
    print(f"\nsurprises: {surprises}; ", end="")
    with PtyLine((1,)) as line:
        line.burn, line.tables[1][_LEVEL] = _BURN, 1
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            codes = [command("write", "1", "return_delay_time", str(value))(line) for value in range(1, 9)]
        sent = count(line, _DELAY)
    print(f"level 1: {codes.count(0)} of 8 EEPROM writes, {sent} packets")
    return 1 if surprises or codes.count(0) != 8 or sent != 8 else 0


def attempt(
    level: int, mishap: str, act: Callable[[PtyLine], int], address: int, look: Callable[[PtyLine], Any]
) -> tuple[int, int, Any, str]:
    """Exit code, write packets to `address`, what the servo holds, and what was said."""
    said, errors = io.StringIO(), io.StringIO()
    with PtyLine((1,)) as line:
        line.mishap = trouble(line, mishap, address)
        line.burn = _BURN
        line.tables[1][_LEVEL] = level
        line.tables[1][_LOCK] = int(mishap == "locked")
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            code = act(line)
        text = (said.getvalue() + errors.getvalue()).replace(line.port, "PORT").strip().replace("\n", "; ")
        return code, count(line, address), look(line), text


def count(line: PtyLine, address: int) -> int:
    """Write packets to `address` that reached the line."""
    return sum(code == Instruction.WRITE and params[0] == address for _, code, params, _ in line.heard)


sys.exit(main())
