"""Bytes received when frames overlap on one wire: it is high when idle, and each driver can only pull it low."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from axbridge.bus.protocols.packet import BITS_PER_BYTE

_OVERSAMPLING = 16  # samples per bit, as in a UART


class Transmission(NamedTuple):
    """Bytes on the wire without gaps: start of the first start bit, s, and bits per second."""

    start: float
    data: bytes
    baud: float

    @property
    def end(self) -> float:
        """End of the last stop bit, s."""
        return self.start + len(self.data) * BITS_PER_BYTE / self.baud


def overlay(frames: list[Transmission], baud: float) -> list[Transmission]:
    """Return frames as a receiver at `baud` gets them; overlapping frames become their wired AND."""
    received: list[Transmission] = []
    group: list[Transmission] = []
    for frame in sorted(frames, key=lambda f: f.start):
        if group and frame.start >= max(other.end for other in group):
            received.append(_merge(group, baud))
            group = []
        group.append(frame)
    received.append(_merge(group, baud))
    return [frame for frame in received if frame.data]


def _merge(group: list[Transmission], baud: float) -> Transmission:
    if len(group) == 1:
        return group[0]
    start = group[0].start
    rate = baud * _OVERSAMPLING
    length = round((max(frame.end for frame in group) - start) * rate) + 2 * BITS_PER_BYTE * _OVERSAMPLING
    level = np.ones(length, dtype=bool)
    for frame in group:
        bits = np.unpackbits(np.frombuffer(frame.data, dtype=np.uint8), bitorder="little").reshape(-1, 8)
        framed = np.hstack([np.zeros((len(bits), 1)), bits, np.ones((len(bits), 1))]).astype(bool).ravel()
        edges = np.round(((frame.start - start) + np.arange(len(framed) + 1) / frame.baud) * rate).astype(int)
        level[edges[0] : edges[-1]] &= np.repeat(framed, np.diff(edges))
    return Transmission(start, _receive(level), baud)


def _receive(level: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bytes:
    """Return the bytes that a UART samples: each bit in its middle, counted from the falling edge of the start bit."""
    data = bytearray()
    position = 0
    middles = (np.arange(1, 9) * _OVERSAMPLING) + _OVERSAMPLING // 2
    frame = BITS_PER_BYTE * _OVERSAMPLING
    while position + frame < len(level):
        low = np.flatnonzero(~level[position:])
        if not len(low):
            break
        edge = position + int(low[0])
        if edge + frame > len(level):
            break
        data.append(int(np.packbits(level[edge + middles], bitorder="little")[0]))
        position = edge + frame - _OVERSAMPLING // 2
        if not level[position]:  # framing error: the line is low at the stop bit
            rise = np.flatnonzero(level[position:])
            if not len(rise):
                break
            position += int(rise[0])
    return bytes(data)
