"""Step 1: adapter and line. Nothing moves, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from axbridge.bus.diagnose import look_at_adapter, look_at_loss, no_answer, ranges, strangers
from axbridge.bus.handshake import ExpectedBus, Finding, measure_latency, name_of
from axbridge.bus.scan import scan
from axbridge.verify.outcome import Measured


def look_at_lines(lines: Sequence[ExpectedBus], reads: int, progress: Callable[[str], None]) -> Measured:
    """Look at each line: its adapter, who answers, and how many of so many reads are lost or wrong.

    Raises:
        PortError: a port cannot be opened, or is lost.
    """
    facts: dict[str, Any] = {"lines": []}
    words: list[str] = []
    findings: list[Finding] = []
    for line in lines:
        with line.open() as bus:
            about: dict[str, Any] = {"baud": line.baud}
            facts["lines"].append(about)
            findings += look_at_adapter(bus, about)
            progress("looking for servos")
            started = time.monotonic()
            answer = scan(bus)
            about |= {"scan_s": time.monotonic() - started, "answering": len(answer)}
            findings += strangers(answer, line.servos)
            heard = {servo.id for servo in answer if not servo.mute}
            there = {servo.id: name_of(servo) for servo in line.servos if servo.id in heard}
            timer = "" if about["latency_timer_ms"] is None else f", latency timer {about['latency_timer_ms']} ms"
            timer += ", low-latency mode" if about["low_latency"] else ""
            echo = "returns what is sent (stripped)" if about["echo"] else "no echo"
            words.append(f"{about['adapter']} adapter at {line.baud} baud{timer}; {echo}")
            words.append(f"servos {ranges([servo.id for servo in answer]) or 'none'}, found in {about['scan_s']:.2f} s")
            if not there:
                findings.append(no_answer(bus, progress))
                continue
            about["latency_ms"] = 1e3 * measure_latency(bus, list(there))
            progress(f"reading {reads} times")
            findings += look_at_loss(bus, there, reads, about)
            lost = sum(about["loss"].values()) / len(about["loss"])
            about |= {"reads": reads, "lost": lost}
            words.append(f"{reads} reads: {lost:.2%} lost, {about['wrong']} wrong")
    return Measured(facts, words, findings)
