"""Samples of servos in register counts, as one row per servo or as columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from axbridge.bus.protocols.protocol import FIRST, Protocol
from axbridge.units import from_sign_magnitude

UNREAD = -1  # torque limit that was not read, or that shows no overload in this family

Mask = npt.NDArray[np.bool_]


class RawState(NamedTuple):
    """One sample of a servo: register counts, speed and load with their signs.

    Attributes:
        time: Time of the sample, s on the bus's clock; NaN before the first.
        error: Alarms, as `Protocol.alarms`.
        torque_limit: Latest value (one servo is read per cycle), 0 after an overload shutdown. None if unknown, or if
            an overload clears Torque Enable instead.
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
    """Columns of several servos' samples, by the names of `RawState`; an unknown torque limit is -1.

    The replies are stored one after another; a column is decoded at its first use.
    """

    def __init__(self, known: Mapping[str, npt.NDArray[Any]], protocol: Protocol = FIRST, sent: bytes = b"") -> None:
        super().__init__(known)
        self._protocol, self._sent = protocol, sent

    def __missing__(self, name: str) -> npt.NDArray[np.int64]:
        self[name] = column = decoded(self._protocol, self._sent, name)
        return column

    @classmethod
    def of(cls, samples: Iterable[RawState]) -> Rows:
        """Return these samples as columns."""
        rows = np.array([(*sample[:7], UNREAD) for sample in samples], float).reshape(-1, len(RawState._fields))
        columns = zip(RawState._fields, rows.T, strict=True)
        return cls({name: column if name == "time" else column.astype(int) for name, column in columns})

    @classmethod
    def unread(cls, count: int) -> Rows:
        """Return columns of servos that were never read."""
        return cls.of([RawState(math.nan, *[0] * 6)] * count)


@lru_cache(maxsize=8)
def _format(protocol: Protocol) -> np.dtype[np.void]:
    names, formats, offsets = zip(*protocol.sample, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": protocol.usual[1]})


@lru_cache(maxsize=8)
def _signed(bit: int) -> npt.NDArray[np.int64]:
    """Return the values of all 16-bit words as sign-magnitude numbers with this sign bit."""
    return from_sign_magnitude(np.arange(1 << 16), bit)


def decoded(protocol: Protocol, samples: bytes, name: str) -> npt.NDArray[np.int64]:
    """Return a column of the data of usual reads, stored one after another."""
    column = np.frombuffer(samples, _format(protocol))[name]
    bit = protocol.sign_bits.get(name)
    return _signed(bit)[column] if bit else column.astype(np.int64)
