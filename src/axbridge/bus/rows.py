"""Samples of servos in register counts: one row for each servo, or columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from axbridge.bus.protocols.protocol import Protocol
from axbridge.units import from_sign_magnitude, sign_magnitude

UNREAD = -1  # torque limit that was not read, or of a servo on which an overload does not change it

Mask = npt.NDArray[np.bool_]


class RawState(NamedTuple):
    """One sample of a servo: register counts, with signed speed and load.

    Attributes:
        time: Time of the sample, s on the bus's clock; NaN before the first one.
        error: Alarm bits as of `Protocol.alarms`.
        torque_limit: Latest value read (one servo a cycle, in rotation); 0 after an overload shutdown. None if it is
            not known, or if the servo sets Torque Enable to 0 instead.
    """

    time: float
    position: int
    speed: int
    load: int
    voltage: int
    temperature: int
    error: int
    torque_limit: int | None = None


class Rows(dict[str, npt.NDArray[Any]]):
    """Columns of servos' samples by the names of `RawState`; an unknown torque limit is -1.

    `sent` has by protocol the rows of its servos, and the joined data of their usual reads. A column is decoded at its
    first use.
    """

    def __init__(
        self, known: Mapping[str, npt.NDArray[Any]], sent: Mapping[Protocol, tuple[list[int], bytes]] | None = None
    ) -> None:
        super().__init__(known)
        self._sent = sent or {}

    def __missing__(self, name: str) -> npt.NDArray[np.int64]:
        self[name] = column = np.empty(len(self["time"]), np.int64)
        for protocol, (rows, samples) in self._sent.items():
            column[slice(None) if len(self._sent) == 1 else rows] = decoded(protocol, samples, name)
        return column

    @classmethod
    def of(cls, samples: Iterable[RawState]) -> Rows:
        """Make a table of these samples."""
        rows = np.array([(*sample[:7], UNREAD) for sample in samples], float).reshape(-1, len(RawState._fields))
        columns = zip(RawState._fields, rows.T, strict=True)
        return cls({name: column if name == "time" else column.astype(int) for name, column in columns})

    @classmethod
    def unread(cls, count: int) -> Rows:
        """Make a table of `count` servos that were not read yet."""
        return cls.of([RawState(math.nan, *[0] * 6)] * count)


@lru_cache(maxsize=8)
def _format(protocol: Protocol) -> np.dtype[np.void]:
    names, formats, offsets = zip(*protocol.sample, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": protocol.usual[1]})


@lru_cache(maxsize=8)
def _signed(bit: int) -> npt.NDArray[np.int64]:
    """Return the values of all 16-bit words as magnitudes with this sign bit."""
    return from_sign_magnitude(np.arange(1 << 16), bit)


def decoded(protocol: Protocol, samples: bytes, name: str) -> npt.NDArray[np.int64]:
    """Decode a column from the concatenated data of usual reads."""
    column = np.frombuffer(samples, _format(protocol))[name]
    bit = protocol.sign_bits.get(name)
    return _signed(bit)[column] if bit else column


def replaced(protocol: Protocol, sample: bytes, name: str, value: int) -> bytes:
    """Return the data of a usual read with another value in one column."""
    kind, place, *_ = _format(protocol).fields[name]  # type: ignore[index]  # it has fields
    word = sign_magnitude(value, protocol.sign_bits[name]) if name in protocol.sign_bits else value
    data = word.to_bytes(kind.itemsize, protocol.byteorder, signed=word < 0)
    return sample[:place] + data + sample[place + kind.itemsize :]
