"""Faults of lines, adapters, supplies and servos, one entry each in one table: its words, what it does, how it heals.

``drop=0.01,late=0.01:40ms,echo,brownout@2s,overload:3@4s``: shares of packets, switches, and events with their time
after the spec was set. The same seed gives the same mishaps. A new fault is an entry of `FAULTS`; the table in
docs/virtual-bus.md is made of it (`table`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from axbridge.arrays import FloatArray
from axbridge.errors import UsageError
from axbridge.virtual.line import Line
from axbridge.virtual.mishaps import Fault
from axbridge.virtual.servo import VirtualServo

_BROWNOUT = 4.0  # V
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s)?")


@dataclass(frozen=True)
class Scene:
    """What faults strike.

    Attributes:
        lines: Those that faults of bytes strike.
        servos: Those of the rig.
        supply: V, (servos,): what feeds each motor, to be written.
        rated_supply: As long as nothing is wrong.
        twin_of: Makes a second servo with one's registers, and no motor.
        now: The time, s.
    """

    lines: Collection[Line]
    servos: Collection[VirtualServo]
    supply: FloatArray
    rated_supply: FloatArray
    twin_of: Callable[[VirtualServo], VirtualServo]
    now: Callable[[], float]


Act = Callable[[Scene, Fault], None]
Form = Literal["rate", "switch", "event"]


@dataclass(frozen=True)
class FaultKind:
    """What one word of a spec means.

    Attributes:
        form: ``rate``: a share of packets; ``switch``: on or off; ``event``: at a time, perhaps for a while.
        example: The word in a spec.
        says: What happens, for the docs.
        start: Begins it; also a rate or switch that is turned off (its share is 0).
        end: Heals it. A fault without an id means every servo.
        of_servo: An event that needs an id.
        lasts: An event whose length may be given.
        usually: How long it lasts when no length is given, s; None = for good.
        timed: Whether a time may stand behind a rate.
    """

    form: Form
    example: str
    says: str
    start: Act
    end: Act
    of_servo: bool = False
    lasts: bool = False
    usually: float | None = None
    timed: bool = False


# ---- what they do


def _nothing(scene: Scene, fault: Fault) -> None:
    """It passes without help."""


def _set_share(scene: Scene, fault: Fault) -> None:
    for line in scene.lines:
        line.mishaps.set(fault)


def _end_share(scene: Scene, fault: Fault) -> None:
    _set_share(scene, Fault(fault.kind))


def _rate(example: str, says: str, *, timed: bool = False) -> FaultKind:
    return FaultKind("rate", example, says, _set_share, _end_share, timed=timed)


def _set_deaf(scene: Scene, fault: Fault) -> None:
    for servo in scene.servos:
        servo.burns_all = fault.share > 0


def _end_deaf(scene: Scene, fault: Fault) -> None:
    _set_deaf(scene, Fault(fault.kind))


def _unplug(scene: Scene, fault: Fault) -> None:
    for line in scene.lines:
        line.unplug()


def _plug(scene: Scene, fault: Fault) -> None:
    for line in scene.lines:
        line.plug()


def _brown_out(scene: Scene, fault: Fault) -> None:
    scene.supply[:] = _BROWNOUT


def _restore_supply(scene: Scene, fault: Fault) -> None:
    scene.supply[:] = scene.rated_supply


def _struck(scene: Scene, fault: Fault) -> Iterator[VirtualServo]:
    return (servo for servo in scene.servos if fault.id is None or servo.id == fault.id)


def _each(act: Callable[[VirtualServo, float], None]) -> Act:
    """Do this to each servo that is struck, at this time."""

    def strike(scene: Scene, fault: Fault) -> None:
        for servo in _struck(scene, fault):
            act(servo, scene.now())

    return strike


def _add_twin(scene: Scene, fault: Fault) -> None:
    for servo in _struck(scene, fault):
        next(line for line in scene.lines if servo in line.servos).add(scene.twin_of(servo))


def _remove_twins(scene: Scene, fault: Fault) -> None:
    for line in scene.lines:
        for twin in [servo for servo in line.servos if servo not in scene.servos]:
            line.remove(twin)


FAULTS: Mapping[str, FaultKind] = {
    "drop": _rate("drop=0.01", "packets are lost"),
    "corrupt": _rate("corrupt=0.01", "one bit is turned over"),
    "truncate": _rate("truncate=0.01", "the end is missing"),
    "noise": _rate("noise=0.01", "one to three junk bytes come first"),
    "late": _rate("late=0.01:40ms", "the adapter delivers a reply late", timed=True),
    "duplicate": _rate("duplicate=0.01", "the adapter delivers a reply twice"),
    "echo": FaultKind("switch", "echo", "the adapter returns what the host sends", _set_share, _end_share),
    "deaf": FaultKind(
        "switch",
        "deaf",
        "servos burn EEPROM bytes that keep their value, too, and hear nothing meanwhile",
        _set_deaf,
        _end_deaf,
    ),
    "unplug": FaultKind(
        "event", "unplug:2s@5s", "the adapter is pulled; without a time it stays so", _unplug, _plug, lasts=True
    ),
    "replug": FaultKind("event", "replug@7s", "the adapter comes back under the same link", _plug, _nothing),
    "brownout": FaultKind(
        "event",
        "brownout:1s@2s",
        "the supply drops to 4 V, for 0.2 s without a time: servos reset",
        _brown_out,
        _restore_supply,
        lasts=True,
        usually=0.2,
    ),
    "dead": FaultKind(
        "event", "dead:3@4s", "servo 3 dies", _each(VirtualServo.die), _each(VirtualServo.revive), of_servo=True
    ),
    "overload": FaultKind(
        "event",
        "overload:3@4s",
        "servo 3 shuts down by overload, until its torque limit is written again; of Protocol 2.0, until a reboot",
        _each(VirtualServo.overload),
        _nothing,
        of_servo=True,
    ),
    "overheat": FaultKind(
        "event",
        "overheat:3:10s",
        "servo 3 reads 10 °C above its limit",
        _each(VirtualServo.overheat),
        _each(VirtualServo.cool),
        of_servo=True,
        lasts=True,
    ),
    "stuck": FaultKind(
        "event",
        "stuck:3:1s",
        "servo 3's position reading stands still",
        _each(VirtualServo.stick),
        _each(VirtualServo.unstick),
        of_servo=True,
        lasts=True,
    ),
    "collision": FaultKind(
        "event", "collision:3", "a second servo with id 3 is on the bus", _add_twin, _remove_twins, of_servo=True
    ),
}


def table() -> str:
    """The faults as the Markdown table of docs/virtual-bus.md."""
    rows = [f"| `{kind.example}` | {kind.says} |" for kind in FAULTS.values()]
    return "\n".join(["| item | what happens |", "| --- | --- |", *rows, "| `none` | all of that ends |"])


# ---- the spec


def parse_faults(spec: str) -> tuple[Fault, ...]:
    """Read a fault spec."""
    return tuple(_parse_item(item.strip()) for item in spec.split(",") if item.strip())


def _parse_item(item: str) -> Fault:
    name = re.split(r"[=:@]", item, maxsplit=1)[0]
    rest = item[len(name) :]
    kind = FAULTS.get(name)
    if kind is None and name != "none":
        known = [*FAULTS, "none"]
        close = difflib.get_close_matches(name, known, n=1)
        raise UsageError(
            f"fault {item!r}: {name!r} is not known",
            f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}",
        )
    if kind is None:
        if rest:
            raise _wrong(item, "write none")
        return Fault(name, 1.0)
    if kind.form == "switch":
        if rest not in {"", "=0", "=1"}:
            raise _wrong(item, f"write {name}, or {name}=0 to end it")
        return Fault(name, 0.0 if rest == "=0" else 1.0)
    return _parse_rate(item, name, rest, kind) if kind.form == "rate" else _parse_event(item, name, rest, kind)


def _parse_rate(item: str, name: str, rest: str, kind: FaultKind) -> Fault:
    share, _, time = rest.removeprefix("=").partition(":")
    try:
        value = float(share)
    except ValueError:
        value = -1.0
    if not rest.startswith("=") or not 0 <= value <= 1 or (time and not kind.timed):
        raise _wrong(item, f"write {name}=SHARE, a share of packets from 0 to 1 (late=0.01:40ms says how late)")
    return Fault(name, value, duration=_seconds(item, time) if time else None)


def _parse_event(item: str, name: str, rest: str, kind: FaultKind) -> Fault:
    before, at, when = rest.partition("@")
    parts = before.split(":")[1:] if before.startswith(":") else []
    usage = f"write {name}" + (":ID" if kind.of_servo else "") + ("[:DURATION]" if kind.lasts else "")
    if (before and not before.startswith(":")) or (at and not when):
        raise _wrong(item, f"{usage}[@TIME]")
    id_ = None
    if kind.of_servo:
        if not parts or not parts[0].isdigit() or int(parts[0]) > 253:
            raise _wrong(item, f"{usage}[@TIME], the id from 0 to 253")
        id_ = int(parts.pop(0))
    duration = _seconds(item, parts.pop(0)) if parts and kind.lasts else None
    if parts:
        raise _wrong(item, f"{usage}[@TIME]")
    return Fault(name, id=id_, duration=duration, at=_seconds(item, when) if when else 0.0)


def _seconds(item: str, text: str) -> float:
    match = _TIME.fullmatch(text)
    if match is None:
        raise _wrong(item, f"{text!r} is no time: write 40ms or 2s")
    return float(match[1]) * (1e-3 if match[2] == "ms" else 1.0)


def _wrong(item: str, hint: str) -> UsageError:
    return UsageError(f"fault {item!r} is not complete or has too much", hint)
