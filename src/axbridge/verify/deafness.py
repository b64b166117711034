"""Step 5: how long a servo hears nothing after an EEPROM write. Nothing moves; one register is written."""

from __future__ import annotations

from typing import Any

from axbridge.bus.base import Reply
from axbridge.bus.commission import read_register, refuse_locked, write_register
from axbridge.bus.handshake import ExpectedBus, Finding, measure_latency, name_of
from axbridge.bus.serial import SerialBus
from axbridge.config.profile import Register
from axbridge.config.registers import ADDRESSES
from axbridge.verify.outcome import Measured

REGISTERS = {1: "alarm_led", 2: "moving_threshold"}  # nothing moves by them, nothing is protected by them
_ROUNDS = 4  # each writes it twice; their questions come at different moments
WRITES = 2 * _ROUNDS
_LONGEST = 0.1  # s: a servo that is deaf for longer does not come back
_FIRST, _STAGGER = 0.002, 0.0008  # s from a write to the first question


def look_at_deafness(line: ExpectedBus) -> Measured:
    """Write a register of the first servo, ask until it answers, and write it back; some times over.

    Raises:
        ServoFault: its EEPROM is locked.
        BusError: it does not answer any more; says how to write it back.
    """
    servo = line.servos[0]
    name = REGISTERS[servo.profile.protocol]
    register = servo.profile.register(name)
    with line.open() as bus:
        refuse_locked(bus, servo.id, servo.profile, name)
        measure_latency(bus, [servo.id])
        before = read_register(bus, servo.id, register)
        spared = write_register(bus, servo.id, servo.profile, name, before)
        try:
            spans = [
                _deaf_span(bus, servo.id, register, value, _FIRST + turn * _STAGGER)
                for turn in range(_ROUNDS)
                for value in (before ^ 1, before)
            ]
        finally:
            write_register(bus, servo.id, servo.profile, name, before)
    deaf = sorted(last for last, _ in spans)[-2]  # one answer that a busy computer missed says nothing
    facts: dict[str, Any] = {
        "servo": servo.name,
        "writes": WRITES,
        "spared": spared == 0,
        "deaf_ms": 1e3 * deaf,
        "heard_ms": 1e3 * max(deaf, sorted(heard for _, heard in spans)[1]),
        "waits_ms": 1e3 * servo.profile.timing.eeprom_wait(register.size),
    }
    span = f"{facts['deaf_ms']:.1f} to {facts['heard_ms']:.1f} ms after {_bytes(register)} of EEPROM"
    lines = [
        f"{name_of(servo)}: deaf for {span}; axbridge waits {facts['waits_ms']:g} ms",
        f"written {WRITES} times with another value; the value that was there {'not' if facts['spared'] else 'too'}",
    ]
    return Measured(facts, lines, judge_deafness(facts, name_of(servo), servo.id))


def _bytes(register: Register) -> str:
    return "one byte" if register.size == 1 else f"{register.size} bytes"


def _deaf_span(bus: SerialBus, id: int, register: Register, value: int, first: float) -> tuple[float, float]:
    """When it was asked in vain last, and when it was asked and answered, s after the write.

    Its acknowledgement is not waited for: while a servo owes answers, that of a write is one like the others.
    """
    place = int(ADDRESSES[bus.protocol(id).version].ID)
    bus.write(id, register.address, value.to_bytes(register.size, "little"), answered=False, deaf=0.0)
    started = bus.clock.now()
    bus.clock.sleep_until(started + first)
    last = 0.0
    while (asked := bus.clock.now() - started) < _LONGEST:
        if isinstance(bus.read_many([(id, place, 1)])[0], Reply):
            return last, asked
        last = asked
    return last, _LONGEST


def judge_deafness(facts: dict[str, Any], who: str, id: int) -> list[Finding]:
    """Whether axbridge waits long enough."""
    if not facts["deaf_ms"] or facts["deaf_ms"] < facts["waits_ms"]:
        return []
    problem = f"hears nothing for {facts['deaf_ms']:.1f} ms after an EEPROM write, and axbridge waits less"
    return [Finding(who, problem, "please send what this run found: see docs/verify.md", False, "deaf", id)]
