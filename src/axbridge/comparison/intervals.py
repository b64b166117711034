"""The recorded times of a robot's goals and samples, cut into spans that a simulation can go through one by one.

A loop is late now and then, and takes its time between samples and goals. A servo that is asked 1 ms later reports
another load. So goals act when they acted, and samples are of the moments they were taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.recording.recording import Track


class Span(NamedTuple):
    """A span of time.

    Attributes:
        begin: s.
        end: s.
        goals: Whether goals had been sent at its beginning, or it is the first.
    """

    begin: float
    end: float
    goals: bool


def sent_at(track: Track) -> FloatArray:
    """When each goal of a track had been sent, s, (n,); with its sample where nobody wrote it down."""
    return np.where(np.isnan(track.commanded), track.time, track.commanded)


def spans(tracks: Iterable[Track], together: float, past: float) -> list[Span]:
    """Spans from the first sample or goal to behind the last, without a gap."""
    tracks = list(tracks)
    sampled = np.unique(np.concatenate([track.time for track in tracks]))
    moments = _moments(np.unique(np.concatenate([sent_at(track) for track in tracks])), together)
    last = max(float(sampled[-1]), moments[-1]) + past / 2
    edges = [*moments, last] if moments[0] <= sampled[0] else [float(sampled[0]), *moments, last]
    found = []
    for begin, end in pairwise(edges):
        goals, start = True, begin
        while start < end:
            first = np.searchsorted(sampled, start)
            early = float(sampled[first]) if first < len(sampled) else end
            cut = min(end, max(early, start) + past)
            found.append(Span(start, cut, goals))
            goals, start = False, cut
    return found


def _moments(sent: FloatArray, together: float) -> list[float]:
    """When goals went out, s."""
    found: list[float] = []
    first = -np.inf
    for time in sent.tolist():
        if time - first > together:
            found.append(time)
            first = time
        else:
            found[-1] = time
    return found
