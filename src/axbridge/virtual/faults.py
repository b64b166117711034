"""Faults of lines, adapters, supplies and servos: one table with the spec syntax, start and end of each.

``drop=0.01,late=0.01:40ms,echo,brownout@2s,overload:3@4s``: shares of packets, switches, and events with their time
after the spec was set. The same seed gives the same mishaps. ``drop#3:read:5`` strikes only the third read of servo 5,
and ``dead:3#10`` the tenth packet; these faults strike the same packet on any machine. ``drop``, ``corrupt`` and
``truncate`` strike the instruction packet unless it is a read; for a read they strike the status packet. ``status`` in
the place of an instruction counts status packets. A new fault is an entry of `FAULTS`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from axbridge.arrays import FloatArray
from axbridge.bus.protocols.v1 import MAX_ID
from axbridge.config.registers import Instruction
from axbridge.errors import UsageError
from axbridge.virtual.line import STATUS, Line
from axbridge.virtual.mishaps import Fault, Turn
from axbridge.virtual.servo import VirtualServo

_BROWNOUT = 2.5  # V: below the reset voltage of every profile
_INSTRUCTIONS = {STATUS, *(instruction.name.lower() for instruction in Instruction)}
_TIME = r"(?:\d+(?:\.\d+)?)(?:ms|s)?"


@dataclass(frozen=True)
class Targets:
    """Lines, servos and supply that faults act on."""

    lines: Collection[Line]  # lines whose bytes are damaged
    servos: Collection[VirtualServo]  # servos of the rig
    supply: FloatArray  # V, (servos,): supply of each motor, written by faults
    rated_supply: FloatArray  # V, (servos,): supply without faults
    copy_of: Callable[[VirtualServo], VirtualServo]  # makes a second servo with the same registers, without a motor
    now: Callable[[], float]  # s


Act = Callable[[Targets, Fault], None]


@dataclass(frozen=True)
class FaultKind:
    """One fault of a spec."""

    example: str  # the word in a spec
    says: str  # description for the docs
    start: Act  # starts the fault; also called for a rate or switch that is turned off (share 0)
    end: Act  # ends an event; a fault without an id applies to every servo
    form: Literal["rate", "switch", "event"] = "event"  # share of packets; on or off; at a time
    of_servo: bool = False  # the event needs an id
    lasts: bool = False  # the event may have a duration, or the rate a delay
    usually: float | None = None  # default duration, s; None: permanent

    def grammar(self, *, counted: bool = False) -> tuple[str, str]:
        """Return the syntax after the fault's name, as a pattern and in words.

        With `counted`, the syntax of a fault that strikes a packet by its number.
        """
        duration = rf"(?::(?P<duration>{_TIME}))?" if self.lasts else ""
        if counted and self.form != "event":
            return duration, "#NUMBER[:INSTRUCTION][:ID], as drop#3:read:5"
        if self.form == "switch":
            return "(?:=(?P<share>[01]))?", ", with =0 to end it"
        if self.form == "rate":
            share = r"=(?P<share>0?\.\d+|\d(?:\.\d+)?(?:e-\d+)?)"
            return share + duration, "=SHARE, a share of packets from 0 to 1 (late=0.01:40ms says how late)"
        id_, words = (r":(?P<id>\d+)", ":ID") if self.of_servo else ("", "")
        words += "[:DURATION]" * self.lasts + "[@TIME or #NUMBER]" + ", the id from 0 to 253" * self.of_servo
        return f"{id_}{duration}(?:@(?P<at>{_TIME}))?", f"{words}, times as 40ms or 2s"


# ---- actions


def _nothing(targets: Targets, fault: Fault) -> None:
    """Do nothing: this event needs no end."""


def _set_share(targets: Targets, fault: Fault) -> None:
    for line in targets.lines:
        line.mishaps.set(fault)


def _rate(example: str, says: str, *, lasts: bool = False) -> FaultKind:
    return FaultKind(example, says, _set_share, _set_share, "rate", lasts=lasts)


def _set_rewrite(targets: Targets, fault: Fault) -> None:
    for servo in targets.servos:
        servo.writes_unchanged = fault.share > 0


def _each_line(act: Callable[[Line], None]) -> Act:
    def strike(targets: Targets, fault: Fault) -> None:
        for line in targets.lines:
            act(line)

    return strike


def _brown_out(targets: Targets, fault: Fault) -> None:
    targets.supply[:] = _BROWNOUT


def _restore_supply(targets: Targets, fault: Fault) -> None:
    targets.supply[:] = targets.rated_supply


def _struck(targets: Targets, fault: Fault) -> Iterator[VirtualServo]:
    return (servo for servo in targets.servos if fault.id is None or servo.id == fault.id)


def _each(act: Callable[..., None], *given: bool) -> Act:
    def strike(targets: Targets, fault: Fault) -> None:
        for servo in _struck(targets, fault):
            act(servo, targets.now(), *given)

    return strike


def _servo(example: str, says: str, act: Callable[..., None], *, lasts: bool = False) -> FaultKind:
    return FaultKind(example, says, _each(act, True), _each(act, False), of_servo=True, lasts=lasts)


def _add_copy(targets: Targets, fault: Fault) -> None:
    for servo in _struck(targets, fault):
        next(line for line in targets.lines if servo in line.servos).add(targets.copy_of(servo))


def _remove_copies(targets: Targets, fault: Fault) -> None:
    for line in targets.lines:
        for copy in [servo for servo in line.servos if servo not in targets.servos]:
            line.remove(copy)


_PLUG = _each_line(Line.plug)
FAULTS: Mapping[str, FaultKind] = {
    "drop": _rate("drop=0.01", "packets are lost"),
    "corrupt": _rate("corrupt=0.01", "one bit is flipped"),
    "truncate": _rate("truncate=0.01", "the end is missing"),
    "noise": _rate("noise=0.01", "one to three junk bytes come first"),
    "late": _rate("late=0.01:40ms", "the adapter delivers a reply late", lasts=True),
    "duplicate": _rate("duplicate=0.01", "the adapter delivers a reply twice"),
    "echo": FaultKind("echo", "the adapter returns what the host sends", _set_share, _set_share, "switch"),
    "deaf": FaultKind(
        "deaf", "servos also rewrite EEPROM bytes that keep their value, and receive nothing meanwhile",
        _set_rewrite, _set_rewrite, "switch",
    ),
    "unplug": FaultKind(
        "unplug:2s@5s", "the adapter is unplugged; without a time, until the end", _each_line(Line.unplug), _PLUG,
        lasts=True,
    ),
    "replug": FaultKind("replug@7s", "the adapter comes back under the same link", _PLUG, _nothing),
    "brownout": FaultKind(
        "brownout:1s@2s", "the supply drops to 2.5 V, for 0.2 s without a time: servos reset", _brown_out,
        _restore_supply, lasts=True, usually=0.2,
    ),
    "power-cycle": FaultKind(
        "power-cycle@3s", "every servo is switched off and on again", _each(VirtualServo.power_cycle), _nothing
    ),
    "wrong-id": _servo(
        "wrong-id:3", "servo 3 has the next id, as after a mistake with set-id",
        VirtualServo.shift_id,
    ),
    "dead": _servo(
        "dead:3@4s", "servo 3 has no power: no replies and no torque until `none`, then it starts with its RAM reset",
        VirtualServo.cut_power,
    ),
    "overload": FaultKind(
        "overload:3@4s",
        "servo 3 shuts down by overload, until its torque limit is written again; of Protocol 2.0, until a reboot",
        _each(VirtualServo.overload), _nothing, of_servo=True,
    ),
    "overheat": _servo(
        "overheat:3:10s", "servo 3 reads 10 °C above its limit", VirtualServo.overheat, lasts=True
    ),
    "stuck": _servo(
        "stuck:3:1s", "servo 3's position reading is frozen",
        VirtualServo.freeze_position, lasts=True,
    ),
    "collision": FaultKind(
        "collision:3", "a second servo with id 3 is on the bus", _add_copy, _remove_copies, of_servo=True
    ),
}  # fmt: skip


# ---- the spec


def parse_faults(spec: str) -> tuple[Fault, ...]:
    """Parse a fault spec."""
    if not isinstance(spec, str):
        raise UsageError(f"faults are given as text, not {spec!r}", 'write "drop=0.05"')
    return tuple(_parse_item(item.strip()) for item in spec.split(",") if item.strip())


def _parse_item(item: str) -> Fault:
    name = re.split(r"[=:@#]", item, maxsplit=1)[0]
    if item == "none":
        return Fault(item, 1.0)
    if name not in FAULTS:
        known = [*FAULTS, "none"]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}"
        raise UsageError(f"fault {item!r}: {name!r} is not known", hint)
    kind, (what, counted, packet) = FAULTS[name], item.partition("#")
    pattern, words = kind.grammar(counted=bool(counted))
    match = re.fullmatch(pattern, what[len(name) :])
    facts = match.groupdict() if match else {}
    share = float(facts.get("share") or kind.form == "switch")
    id_ = int(facts["id"]) if facts.get("id") else None
    turn = _parse_turn(packet) if counted else None
    if not match or share > 1.0 or (id_ or 0) > MAX_ID or (counted and (turn is None or facts.get("at"))):
        raise UsageError(f"fault {item!r} is not complete or has too much", f"write {name}{words}")
    return Fault(name, share, id_, _seconds(facts.get("duration")), _seconds(facts.get("at")) or 0.0, turn)


def _parse_turn(text: str) -> Turn | None:
    """Parse a packet number such as ``3:read:5``; return None if the text is not valid."""
    match = re.fullmatch(r"([1-9]\d{0,8})(?::([a-z_]+))?(?::(\d+))?", text)
    if not match or (match[2] or STATUS) not in _INSTRUCTIONS or int(match[3] or 0) > MAX_ID:
        return None
    return Turn(int(match[1]), match[2] or "", int(match[3]) if match[3] else None)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    return float(text.removesuffix("ms")) * 1e-3 if text.endswith("ms") else float(text.removesuffix("s"))
