"""Faults of a line: packets in either direction are damaged, lost or delayed at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_LATE = 0.04  # s


class Turn(NamedTuple):
    """A packet by its number, from 1, among the packets that match since the spec was set."""

    number: int
    instruction: str = ""  # lower case; `status`: a status packet; `read`, `write`: also group instructions; "": any
    id: int | None = None  # of the servo that the packet addresses, or that answers; None: any


@dataclass(frozen=True)
class Fault:
    """One fault of a parsed spec."""

    kind: str  # key of `axbridge.virtual.faults.FAULTS`, or "none"
    share: float = 0.0  # share of packets, 0..1, for a rate; 1 for a switch, 0 for a switch turned off ("echo=0")
    id: int | None = None  # id of the servo
    duration: float | None = None  # s: length of an event, or delay of a late reply; None: its default
    at: float = 0.0  # s after the spec was set
    turn: Turn | None = None  # the packet to strike, instead of a share or a time


def _invert_bit(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes((data[place] ^ 1 << rng.randrange(8),)) + data[place + 1 :]


DAMAGE: Mapping[str, Callable[[bytes, random.Random], bytes]] = {  # applied in this order
    "drop": lambda _data, _dice: b"",
    "corrupt": _invert_bit,
    "truncate": lambda data, rng: data[: rng.randrange(len(data))],
    "noise": lambda data, rng: rng.randbytes(rng.randint(1, 3)) + data,
}

RATES = {*DAMAGE, "late", "duplicate"}  # faults of a share of packets, or of one packet


class Mishaps:
    """Applies the rates to the bytes of one line."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.shares: dict[str, float] = {}  # of packets, by kind
        self.late: float = _LATE  # s
        self.echo: bool = False  # whether the adapter returns what the host sends

    def set(self, fault: Fault) -> None:
        """Set a rate, or the adapter's echo."""
        if fault.kind == "echo":
            self.echo = fault.share > 0
            return
        self.shares.pop(fault.kind, None)
        if fault.share > 0:
            self.shares[fault.kind] = fault.share
        if fault.kind == "late":
            self.late = _LATE if fault.duration is None else fault.duration

    def damage(self, data: bytes) -> bytes:
        """Return the bytes that arrive at the other end, in either direction; b"" if they are lost."""
        shares = self.shares
        if not shares or not data:
            return data
        rng = self._random
        for name, damage in DAMAGE.items():
            if rng.random() < shares.get(name, 0.0):
                data = damage(data, rng)
                if name == "drop":
                    break
        return data

    @staticmethod
    def strike(fault: Fault, due: float, data: bytes) -> list[tuple[float, bytes]]:
        """Return a reply struck by `fault`, as times and bytes; the same reply gets the same damage."""
        if fault.kind in DAMAGE:
            damaged = DAMAGE[fault.kind](data, random.Random(f"{fault} {data.hex()}"))
            return [(due, damaged)] if damaged else []
        if fault.kind == "late":
            return [(due + (_LATE if fault.duration is None else fault.duration), data)]
        return [(due, data)] * 2

    def deliver(self, due: float, data: bytes) -> list[tuple[float, bytes]]:
        """Return a reply as the adapter delivers it after random faults: times and bytes."""
        if not self.shares:
            return [(due, data)]
        data = self.damage(data)
        if not data:
            return []
        if self._random.random() < self.shares.get("late", 0.0):
            due += self.late
        copies = 2 if self._random.random() < self.shares.get("duplicate", 0.0) else 1
        return [(due, data)] * copies
