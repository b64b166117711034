"""Step 6: the motors are off after a program that held them was ended, by SIGTERM and by SIGKILL."""

from __future__ import annotations

import math
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from axbridge.bus.handshake import Expected, ExpectedBus, Finding, name_of
from axbridge.errors import BusError
from axbridge.verify.first_drive import powered
from axbridge.verify.outcome import Measured

_STARTS = 30.0  # s in which the child is there
_DIES = 10.0
_SNAPS = 3.0  # degrees: a motor that comes on where it is does not move so far


def look_at_endings(
    rig: str, lines: Sequence[ExpectedBus], port: str | None, progress: Callable[[str], None]
) -> Measured:
    """Let a child hold one servo, then all, and end it each time by each signal; then ask every servo.

    Args:
        rig: As the user calls it.
        lines: Its buses and servos.
        port: As the user gave it.
        progress: Told what is under way.

    Raises:
        BusError: the child could not hold them, or a line cannot be opened any more.
    """
    names = [servo.name for line in lines for servo in line.servos]
    numbers = [signal.SIGTERM]
    if hasattr(signal, "SIGKILL") and not any(line.port.startswith("rfc2217://") for line in lines):
        numbers.append(signal.SIGKILL)  # no guard can inherit such a port: see docs/safety.md
    facts: dict[str, Any] = {"endings": []}
    words = []
    for held in dict.fromkeys(((names[0],), tuple(names))):
        for number in numbers:
            what = held[0] if len(held) == 1 else f"{len(held)} servos"
            progress(f"{what}, {number.name}")
            (moved, sank), seconds, on = _ended(rig, lines, port, held, number)
            ending = {"signal": number.name, "servos": len(held), "moved_deg": moved, "sank_deg": sank, "on": on}
            facts["endings"].append({**ending, "seconds": seconds})
            left = f"still on: {', '.join(on)}" if on else f"off, as all servos say {seconds:.2f} s later"
            words.append(f"{number.name} with {what} on: {left}")
            if sank > _SNAPS:
                words.append(f"one sank by {sank:.0f}° under its load, at 20 % of its torque: hold it, and it does not")
            if on:
                return Measured(facts, words, judge_endings(facts, lines))
    return Measured(facts, words, judge_endings(facts, lines))


def _ended(
    rig: str, lines: Sequence[ExpectedBus], port: str | None, held: Sequence[str], number: signal.Signals
) -> tuple[tuple[float, float], float, list[str]]:
    """What came of one ending.

    Returns:
        How far a servo went to its goal when it came on, and how far one sank, degrees; how long after the signal all
        were known to be off, s; who was not.

    Raises:
        BusError: as `look_at_endings`.
    """
    command = [sys.executable, "-m", "axbridge.verify.holder", rig, port or "", ",".join(held)]
    with tempfile.TemporaryFile("w+") as said, _child(command, said) as child:
        assert child.stdout is not None
        ready = select.select([child.stdout], [], [], _STARTS)[0]
        line = child.stdout.readline() if ready else ""
        if not line:
            said.seek(0)
            words = " ".join(said.read().split()) or "it says nothing"
            raise BusError(f"the program that should hold the motors did not get so far: {words}", "try again")
        started = time.monotonic()
        child.send_signal(number)
        try:
            child.wait(_DIES)
        except subprocess.TimeoutExpired as still:
            raise BusError(f"the program that held the motors did not end by {number.name}", "try again") from still
        on = powered(lines)
        driven, sank = (math.degrees(float(part)) for part in line.split())
        return (driven, sank), time.monotonic() - started, on


@contextmanager
def _child(command: list[str], said: IO[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is dead after the block, whatever ends that; it is asked first, so that it switches motors off."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(_DIES)
                except subprocess.TimeoutExpired:
                    child.kill()


def looked_at_the_end(lines: Sequence[ExpectedBus], found: Measured) -> Measured:
    """What a step found, and whether its motors are off now that it has ended.

    Raises:
        PortError: a port cannot be opened.
    """
    on = powered(lines)
    servos = {servo.name: servo for line in lines for servo in line.servos}
    findings = [_on(servos[name], "its program had ended") for name in on]
    return Measured({**found.facts, "left_on": on}, found.lines, [*found.findings, *findings])


def judge_endings(facts: dict[str, Any], lines: Sequence[ExpectedBus]) -> list[Finding]:
    """Motors that stayed on, and motors that jumped when they came on."""
    servos = {servo.name: servo for line in lines for servo in line.servos}
    findings = [_on(servos[name], ending["signal"]) for ending in facts["endings"] for name in ending["on"]]
    for ending in facts["endings"]:
        if ending["moved_deg"] > _SNAPS:
            problem = f"moved by {ending['moved_deg']:.0f}° when torque came on"
            fix = "its goal was not where it stood: do this step again"
            findings.append(Finding(f"one of {ending['servos']}", problem, fix, False, "snap"))
    return findings


def _on(servo: Expected, after: str) -> Finding:
    problem = f"still had torque, or did not answer, after {after}"
    fix = "it was switched off now; until this is understood, keep a hand on the switch, and send what was found"
    return Finding(name_of(servo), problem, fix, True, "powered", servo.id)
