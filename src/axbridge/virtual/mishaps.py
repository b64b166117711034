"""What faults of a line do to its bytes: each packet, in either direction, meets those that the dice choose."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_LATE = 0.04  # s


class Turn(NamedTuple):
    """A packet by its place in the order: the `number`-th (from 1) of those that match, since the spec was set."""

    number: int
    instruction: str = ""  # small letters; `status`: an answer; `read` and `write`: also those to several; "": any
    id: int | None = None  # of the servo that is asked, or answers; None: any


@dataclass(frozen=True)
class Fault:
    """One item of a spec."""

    kind: str  # key of `axbridge.virtual.faults.FAULTS`, or "none"
    share: float = 0.0  # of packets, 0..1, of a rate; 1 for a switch, 0 for one turned off ("echo=0")
    id: int | None = None  # servo it strikes
    duration: float | None = None  # how long it lasts, or how late a reply is, s; None = its default
    at: float = 0.0  # when it strikes, s after the spec was set
    turn: Turn | None = None  # the packet that it strikes, instead of a share or a time


def _invert_bit(data: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(data))
    return data[:place] + bytes((data[place] ^ 1 << dice.randrange(8),)) + data[place + 1 :]


DAMAGE: Mapping[str, Callable[[bytes, random.Random], bytes]] = {  # they strike a packet in this order
    "drop": lambda _data, _dice: b"",
    "corrupt": _invert_bit,
    "truncate": lambda data, dice: data[: dice.randrange(len(data))],
    "noise": lambda data, dice: dice.randbytes(dice.randint(1, 3)) + data,
}

RATES = {*DAMAGE, "late", "duplicate"}  # what strikes a share of packets, or one


class Mishaps:
    """What the rates do to the bytes of one line."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.shares: dict[str, float] = {}  # of packets, by kind
        self.late: float = _LATE  # s
        self.echo: bool = False  # whether the adapter returns what the host sends

    def set(self, fault: Fault) -> None:
        """Take over a rate, or the adapter's echo."""
        if fault.kind == "echo":
            self.echo = fault.share > 0
            return
        self.shares.pop(fault.kind, None)
        if fault.share > 0:
            self.shares[fault.kind] = fault.share
        if fault.kind == "late":
            self.late = _LATE if fault.duration is None else fault.duration

    def damage(self, data: bytes) -> bytes:
        """Bytes as they arrive at the other end, in either direction; b"" when they are lost."""
        shares = self.shares
        if not shares or not data:
            return data
        dice = self._random
        for name, damage in DAMAGE.items():
            if dice.random() < shares.get(name, 0.0):
                data = damage(data, dice)
                if name == "drop":
                    break
        return data

    @staticmethod
    def strike(fault: Fault, due: float, data: bytes) -> list[tuple[float, bytes]]:
        """A reply that this fault strikes, as the host gets it; the same reply is struck in the same way."""
        if fault.kind in DAMAGE:
            damaged = DAMAGE[fault.kind](data, random.Random(f"{fault} {data.hex()}"))
            return [(due, damaged)] if damaged else []
        if fault.kind == "late":
            return [(due + (_LATE if fault.duration is None else fault.duration), data)]
        return [(due, data)] * 2

    def deliver(self, due: float, data: bytes) -> list[tuple[float, bytes]]:
        """A reply as the adapter hands it to the host: when, and what."""
        data = self.damage(data)
        if not data:
            return []
        if self._random.random() < self.shares.get("late", 0.0):
            due += self.late
        copies = 2 if self._random.random() < self.shares.get("duplicate", 0.0) else 1
        return [(due, data)] * copies
