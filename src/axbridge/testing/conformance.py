"""Test how a program that drives servos behaves under faults: one fault per run, on virtual servos.

The program is run unchanged, and judged by its exit status, the numbers that it prints, and the motors that it leaves
on. So it should move something, print the values that it reads, and end.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from axbridge.bus.protocols.packet import BROADCAST
from axbridge.errors import Remedy, UsageError
from axbridge.file_reading import printable
from axbridge.files import write_whole
from axbridge.testing.servo_bus import LoggedPacket, ServoBus, Timing, serve

GOES_ON, REPORTS, WRONG, LEFT_ON, HANGS = "goes on", "reports", "wrong value", "motor left on", "hangs"
BAD = {WRONG, LEFT_ON, HANGS}  # harmful outcomes
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_SHARE = 0.02  # allowed relative difference of a number from the clean runs
_LEAST, _COUNT = 0.02, 2.0  # smallest allowed difference of numbers, and of whole numbers
_SLOWER, _MORE = 4.0, 5.0  # a program hangs after this many times the clean run's time plus this many s
_LONGEST = 300.0  # s: a program that runs longer without a fault is taken for one that does not end


@dataclass(frozen=True)
class Case:
    """One fault: a spec of `axbridge.testing.ServoBus.inject`, and registers to set in all servos before the run.

    In a spec, numbers of the clean run are filled in: ``{answer}`` of the middle status packet, ``{next}`` of the one
    after it, ``{write}`` of the middle write, ``{packet}`` of the middle instruction packet. ``{id}`` is the servo with
    the most status packets.
    """

    name: str
    spec: str = ""
    before: Mapping[str, int] = field(default_factory=dict)


CASES = (
    Case("an answer is lost", "drop#{answer}:status"),
    Case("two answers are lost", "drop#{answer}:status,drop#{next}:status"),
    Case("a write is lost", "drop#{write}:write"),
    Case("a write is damaged", "corrupt#{write}:write"),
    Case("an answer is damaged", "corrupt#{answer}:status"),
    Case("an answer is cut off", "truncate#{answer}:status"),
    Case("junk comes before an answer", "noise#{answer}:status"),
    Case("an answer is 40 ms late", "late:40ms#{answer}:status"),
    Case("an answer is 0.5 s late", "late:500ms#{answer}:status"),
    Case("an answer comes twice", "duplicate#{answer}:status"),
    Case("every answer comes twice", "duplicate=1"),
    Case("the adapter echoes", "echo"),
    Case("5 % of the packets are lost", "drop=0.05"),
    Case("5 % of the packets are damaged", "corrupt=0.05"),
    Case("a servo is dead from the start", "dead:{id}"),
    Case("a servo dies", "dead:{id}#{packet}"),
    Case("an overload is latched at the start", "overload:{id}"),
    Case("a servo shuts down by overload", "overload:{id}#{packet}"),
    Case("a servo overheats", "overheat:{id}#{packet}"),
    Case("the supply browns out", "brownout:300ms#{packet}"),
    Case("the servos are switched off and on", "power-cycle#{packet}"),
    Case("a servo has another id", "wrong-id:{id}"),
    Case("two servos have the same id", "collision:{id}"),
    Case("the adapter is unplugged for 1 s", "unplug:1s#{packet}"),
    Case("the adapter is unplugged", "unplug#{packet}"),
    Case("the EEPROM is locked", before={"lock": 1}),
    Case("torque is still on at the start", before={"torque_enable": 1}),
    Case("writes are not acknowledged", before={"status_return_level": 1}),
)


@dataclass(frozen=True)
class Ran:
    """Result of one run of the program."""

    code: int | None  # exit status; None: it was killed
    numbers: tuple[float, ...]  # numbers in its output
    said: str  # last line on stderr, else on stdout
    seconds: float
    powered: tuple[int, ...]  # ids of motors that were left on
    packets: tuple[LoggedPacket, ...]


@dataclass(frozen=True)
class Finding:
    """Behaviour of the program under a fault."""

    case: str
    outcome: str  # GOES_ON, REPORTS, WRONG, LEFT_ON or HANGS
    packet: str  # the first packet with a fault
    note: str  # the program's last line, if it did not go on
    seconds: float


def check_driver(
    command: Sequence[str],
    rig: str | Path,
    *,
    timing: Timing = "none",
    seed: int = 0,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[Finding]:
    """Run a program with each fault of `CASES` that the rig's servos can have; the first finding is without a fault.

    Args:
        command: The program and its arguments, with ``{port}`` for the port.
        rig: Rig of the virtual servos.
        timing: See `axbridge.testing.serve`.
        seed: Seed of random faults.
        report: Called with the name of each case before it is run.

    Raises:
        UsageError: no ``{port}``, no such program, or it fails or does not end without a fault.
        PortError: the servos cannot be served.
    """
    if not any("{port}" in word for word in command):
        raise UsageError("the command does not say where the port goes", "write {port} in its place")
    with serve(rig, timing=timing, seed=seed) as bus:
        report("no fault")
        bus.reset(timing=timing, seed=seed)
        first = _run(bus, command, _LONGEST)
        if first.code != 0 or not _answering(first.packets):
            why = "it sends no instruction to a servo, or none answers"
            if first.code != 0:
                hangs = f"does not end in {_LONGEST:.0f} s"
                why = "without a fault it " + (hangs if first.code is None else f"ends with {first.code}")
                why += f": {first.said}" if first.said else ""
            raise UsageError(f"{command[0]}: {why}", Remedy("serve", rig, says="let it work first on what {} shows"))
        bus.reset(timing=timing, seed=seed)
        clean = first, _run(bus, command, _LONGEST)
        yield Finding("no fault", LEFT_ON if first.powered else GOES_ON, "", "", first.seconds)
        known = bus.registers(_asked_most(first.packets))
        for case in CASES:
            if set(case.before) <= set(known):
                report(case.name)
                bus.reset(timing=timing, seed=seed)
                for name, value in case.before.items():
                    for servo in set(_answering(first.packets)):
                        bus.write(servo, name, value)
                bus.inject(_filled(case.spec, first.packets))
                ran = _run(bus, command, first.seconds * _SLOWER + _MORE)
                yield _judged(case, ran, clean)


def write_junit(findings: Sequence[Finding], path: Path, name: str) -> None:
    """Write findings as a JUnit file: a harmful outcome is a failure."""
    suite = ET.Element("testsuite", name=name, tests=str(len(findings)))
    suite.set("failures", str(sum(run.outcome in BAD for run in findings)))
    for run in findings:
        case = ET.SubElement(suite, "testcase", classname=name, name=run.case, time=f"{run.seconds:.3f}")
        if run.outcome in BAD:  # XML cannot have the control characters of a coloured traceback
            failure = ET.SubElement(case, "failure", message=run.outcome)
            failure.text = f"{run.packet}\n{printable(run.note)}"
        ET.SubElement(case, "system-out").text = run.outcome
    write_whole(path, ET.tostring(suite, encoding="utf-8", xml_declaration=True))


def _run(bus: ServoBus, command: Sequence[str], patience: float) -> Ran:
    """Run the program on the bus as it is; kill it after `patience`, s."""
    words = [word.replace("{port}", bus.port) for word in command]
    began = time.monotonic()
    try:
        program = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as failure:
        raise UsageError(f"{words[0]}: {failure.strerror}", "give a program that can be run") from failure
    with program:
        try:
            out, err = program.communicate(timeout=patience)
            code: int | None = program.returncode
        except BaseException as failure:  # also for a signal: else the program outlives this process
            os.killpg(program.pid, signal.SIGKILL)  # with its child processes
            if not isinstance(failure, subprocess.TimeoutExpired):
                raise
            (out, err), code = program.communicate(), None
    lines = [line for line in (err.strip() or out.strip()).splitlines() if line.strip()]
    return Ran(
        code,
        tuple(map(float, _NUMBER.findall(out))),
        lines[-1].strip() if lines else "",
        time.monotonic() - began,
        tuple(bus.powered),
        tuple(bus.packets),
    )


def _filled(spec: str, packets: Sequence[LoggedPacket]) -> str:
    answers = [packet for packet in packets if packet.kind == "status"]
    instructions = [packet for packet in packets if packet.kind != "status"]
    writes = [packet for packet in instructions if "write" in packet.kind]
    answer = max(len(answers) // 2, 1)
    return spec.format(
        answer=answer, next=answer + 1, write=max(len(writes) // 2, 1), packet=max(len(instructions) // 2, 1),
        id=_asked_most(packets),
    )  # fmt: skip


def _asked_most(packets: Sequence[LoggedPacket]) -> int:
    ids = _answering(packets)
    return max(ids, key=ids.count)


def _answering(packets: Sequence[LoggedPacket]) -> list[int]:
    """Return the id of each status packet of a single servo; the shared answer to a fast read is left out."""
    return [packet.id for packet in packets if packet.kind == "status" and packet.id != BROADCAST]


def _judged(case: Case, ran: Ran, clean: Sequence[Ran]) -> Finding:
    number, struck = next(((n, hit) for n, hit in enumerate(ran.packets, 1) if hit.fault), (0, None))
    packet = "" if struck is None else f"{number}: {struck.kind} of {struck.id}"
    if ran.code is None:
        outcome = HANGS
    elif ran.powered and not case.spec.startswith("unplug#"):  # else it cannot switch off
        outcome = LEFT_ON
    elif ran.code != 0:
        outcome = REPORTS
    else:
        outcome = GOES_ON if _alike(ran.numbers, clean) else WRONG
    return Finding(case.name, outcome, packet, "" if outcome == GOES_ON else ran.said, ran.seconds)


def _alike(numbers: Sequence[float], clean: Sequence[Ran]) -> bool:
    """Return whether numbers agree with the clean runs within the tolerances and the runs' own difference."""
    first, second = (ran.numbers for ran in clean)
    if not len(numbers) == len(first) == len(second):
        return False
    for number, expected, other in zip(numbers, first, second, strict=True):
        least = _COUNT if all(float(value).is_integer() for value in (number, expected, other)) else _LEAST
        if abs(number - expected) > max(least, _SHARE * abs(expected), 3 * abs(expected - other)):
            return False
    return True
