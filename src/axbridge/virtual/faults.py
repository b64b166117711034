"""Faults of lines, adapters, supplies and servos: a spec in words, and what it does to the bytes on a line.

``drop=0.01,late=0.01:40ms,echo,brownout@2s,overload:3@4s``: shares of packets, switches, and events with their time
after the spec was set. The same seed gives the same mishaps.
"""

from __future__ import annotations

import difflib
import random
import re
from dataclasses import dataclass

from axbridge.errors import UsageError

__all__ = ["EVENTS", "RATES", "SWITCHES", "Fault", "Mishaps", "parse_faults"]

RATES = {
    "drop": "packets lost",
    "corrupt": "packets with one bit turned over",
    "truncate": "packets cut short",
    "late": "replies that the adapter delivers late (late=0.01:40ms)",
    "duplicate": "replies delivered twice",
    "noise": "packets with junk bytes in front",
}
SWITCHES = {
    "echo": "the adapter returns what the host sends",
    "deaf": "servos burn EEPROM bytes that keep their value, too, and hear nothing meanwhile",
}
EVENTS = {
    "unplug": "the adapter is pulled, for good or a while (unplug:2s@5s)",
    "replug": "the adapter is back",
    "brownout": "the supply drops to 4 V for 0.2 s or a while (brownout:1s@2s)",
    "dead": "a servo dies (dead:3@4s)",
    "overload": "a servo shuts down by overload (overload:3@4s)",
    "overheat": "a servo reads 10 degC above its limit, for good or a while (overheat:3:10s)",
    "stuck": "a servo's position reading stands still, for good or a while (stuck:3:1s)",
    "collision": "a second servo with this id is on the bus (collision:3)",
}
_NEED_ID = {"dead", "overload", "overheat", "stuck", "collision"}
_TAKE_DURATION = {"unplug", "brownout", "overheat", "stuck"}
_LATE = 0.04  # s
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s)?")


@dataclass(frozen=True)
class Fault:
    """One item of a spec.

    Attributes:
        kind: Key of `RATES`, `SWITCHES` or `EVENTS`, or ``none``.
        share: Share of packets, 0..1, of a rate; 1 for a switch, 0 for one turned off (``echo=0``).
        id: Servo it strikes; None where it has none.
        duration: How long it lasts, or how late a reply is, s; None = its default.
        at: When it strikes, s after the spec was set.
    """

    kind: str
    share: float = 0.0
    id: int | None = None
    duration: float | None = None
    at: float = 0.0


def parse_faults(spec: str) -> tuple[Fault, ...]:
    """Read a fault spec.

    Args:
        spec: Items separated by commas: ``NAME=SHARE[:TIME]``, ``echo``, ``none``, ``NAME[:ID][:DURATION][@TIME]``.
            Times are seconds, or carry ``ms`` or ``s``.

    Raises:
        UsageError: an item is none of these; names the item and the valid choices.
    """
    return tuple(_parse_item(item.strip()) for item in spec.split(",") if item.strip())


def _parse_item(item: str) -> Fault:
    name = re.split(r"[=:@]", item, maxsplit=1)[0]
    rest = item[len(name) :]
    if name in SWITCHES or name == "none":
        if rest not in ({"", "=0", "=1"} if name in SWITCHES else {""}):
            raise _wrong(item, f"write {name}" + (f", or {name}=0 to end it" if name in SWITCHES else ""))
        return Fault(name, 0.0 if rest == "=0" else 1.0)
    if name in RATES:
        return _parse_rate(item, name, rest)
    if name in EVENTS:
        return _parse_event(item, name, rest)
    known = [*RATES, *SWITCHES, *EVENTS, "none"]
    close = difflib.get_close_matches(name, known, n=1)
    raise UsageError(
        f"fault {item!r}: {name!r} is not known",
        f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}",
    )


def _parse_rate(item: str, name: str, rest: str) -> Fault:
    share, _, time = rest.removeprefix("=").partition(":")
    try:
        value = float(share)
    except ValueError:
        value = -1.0
    if not rest.startswith("=") or not 0 <= value <= 1 or (time and name != "late"):
        raise _wrong(item, f"write {name}=SHARE, a share of packets from 0 to 1 (late=0.01:40ms says how late)")
    return Fault(name, value, duration=_seconds(item, time) if time else None)


def _parse_event(item: str, name: str, rest: str) -> Fault:
    before, at, when = rest.partition("@")
    parts = before.split(":")[1:] if before.startswith(":") else []
    usage = f"write {name}" + (":ID" if name in _NEED_ID else "") + ("[:DURATION]" if name in _TAKE_DURATION else "")
    if (before and not before.startswith(":")) or (at and not when):
        raise _wrong(item, f"{usage}[@TIME]")
    id_ = None
    if name in _NEED_ID:
        if not parts or not parts[0].isdigit() or int(parts[0]) > 253:
            raise _wrong(item, f"{usage}[@TIME], the id from 0 to 253")
        id_ = int(parts.pop(0))
    duration = _seconds(item, parts.pop(0)) if parts and name in _TAKE_DURATION else None
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


class Mishaps:
    """What the rates do to the bytes of one line.

    Args:
        seed: Of the dice.

    Attributes:
        shares: Share of packets by kind.
        late: How late a late reply is, s.
        echo: Whether the adapter returns what the host sends.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.shares: dict[str, float] = {}
        self.late = _LATE
        self.echo = False

    def set(self, fault: Fault) -> None:
        """Take over a rate, a switch, or ``none``."""
        if fault.kind == "none":
            self.shares.clear()
            self.echo = False
        elif fault.kind == "echo":
            self.echo = fault.share > 0
        else:
            self.shares[fault.kind] = fault.share
            if fault.kind == "late":
                self.late = _LATE if fault.duration is None else fault.duration
        self.shares = {kind: share for kind, share in self.shares.items() if share > 0}

    def damage(self, data: bytes) -> bytes:
        """Bytes as they arrive at the other end, in either direction; b"" when they are lost."""
        shares = self.shares
        if not shares or not data:
            return data
        dice = self._random
        if dice.random() < shares.get("drop", 0.0):
            return b""
        if dice.random() < shares.get("corrupt", 0.0):
            place = dice.randrange(len(data))
            data = data[:place] + bytes((data[place] ^ 1 << dice.randrange(8),)) + data[place + 1 :]
        if dice.random() < shares.get("truncate", 0.0):
            data = data[: dice.randrange(len(data))]
        if dice.random() < shares.get("noise", 0.0):
            data = dice.randbytes(dice.randint(1, 3)) + data
        return data

    def deliver(self, due: float, data: bytes) -> list[tuple[float, bytes]]:
        """A reply as the adapter hands it to the host: when, and what."""
        if not self.shares:
            return [(due, data)]
        data = self.damage(data)
        if not data:
            return []
        if self._random.random() < self.shares.get("late", 0.0):
            due += self.late
        copies = 2 if self._random.random() < self.shares.get("duplicate", 0.0) else 1
        return [(due, data)] * copies
