"""Two walks of one gait, beat by beat: when both got the same goals.

A control period that comes late makes a walk on a real bus longer than the same walk in a simulator. The gait counts
control periods, not seconds. So the periods of one number belong together.
"""

from __future__ import annotations

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.recording.recording import Recording


def walk_span(recording: Recording) -> tuple[float, float]:
    """When the walk in a recording began and ended, s; of one without such a part all of it."""
    walking = [part for part in recording.segments if part.name == "walk"]
    return (walking[0].start, walking[0].end) if walking else (recording.start, recording.end)


def beats(reference: Recording, other: Recording) -> FloatArray | None:
    """Times at which both got the same goals, s on the clock of each, (2, n).

    None where they are no walks of one gait, or of different numbers of control periods.
    """
    gait = reference.metadata.get("gait")
    if gait is None or gait != other.metadata.get("gait"):
        return None
    moments = []
    for recording in (reference, other):
        begin, end = walk_span(recording)
        at = np.asarray(recording.cycles.get("time", np.zeros(0)))
        moments.append(np.concatenate(([begin], at[(at > begin + 1e-6) & (at < end - 1e-6)])))
    return np.stack(moments) if 1 < len(moments[0]) == len(moments[1]) else None
