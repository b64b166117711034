"""What a comparison found, in a sentence: which motion is off, which way, and what in a model that points to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.comparison.comparison import Comparison
from axbridge.comparison.metrics import best_shift, deviation, resample
from axbridge.comparison.side_by_side import HOLE, ComparedSegment, Pair
from axbridge.recording.sample_quality import GAP

AGREES = 0.5  # degrees of RMSE: about two counts of an AX-12
LATE = 0.005  # s: less than a control cycle is no latency
FALLS = (0.02, 0.05)  # a fall is off by more than this, s, and by this share of it
RISES = (0.01, 0.05)  # likewise a step's rise time
RESTS = 1.0  # degrees between two places of rest that friction explains
_SUBJECTS = {
    "recorded": "the recording",
    "simulated": "the simulation",
    "goal": "the goal",
    "position": "the servo",
}


@dataclass(frozen=True)
class Findings:
    """How one servo's motions differ; None = there is none of that kind, or it is not known."""

    rmse: float  # of all, degrees
    worst: float  # largest error, degrees
    shift: float | None = None  # how much later the other is, s
    aligned: float | None = None  # RMSE with the shift taken out, degrees
    falls: float | None = None  # how much later the other has fallen, s: the median
    falling: float | None = None  # how long the reference falls, s: the median
    # how much further from hanging down the other comes to rest after a fall, degrees: the median; None where an arm
    # swings past the bottom
    hangs: float | None = None
    never: str = ""  # which side does not fall all the way where the other one does: `reference`, `other`, or neither
    step_shift: float | None = None  # how much later the other is in the steps alone, s
    steps: float | None = None  # RMSE in the steps, degrees
    steps_aligned: float | None = None  # RMSE in the steps with `step_shift` taken out, degrees
    rises: float | None = None  # how much longer the other takes to rise, s: the median
    rising: float | None = None  # how long the reference takes, s: the median
    # steps and falls that are left out, as samples are missing in them: name and longest gap, s
    unjudged: tuple[tuple[str, float], ...] = ()


def findings_of(comparison: Comparison, pair: Pair) -> Findings:
    """Measure how one servo's motions differ."""
    measured = [part for part in pair.parts if part.kind in {"fall", "step"} and part.results is not None]
    unjudged = _with_gaps(pair, measured) if measured else {}
    falls = [part for part in measured if part.kind == "fall" and part not in unjudged]
    times = [tuple(map(float, part.results)) for part in falls if part.results is not None]
    both = [(a, b) for a, b in times if math.isfinite(a) and math.isfinite(b)]
    ends = {(math.isfinite(a), math.isfinite(b)) for a, b in times}
    never = "other" if ends == {(True, False)} else "reference" if ends == {(False, True)} else ""
    steps = [part for part in measured if part.kind == "step" and part not in unjudged]
    rises = [tuple(result.rise for result in part.results) for part in steps if part.results is not None]
    rises = [(a, b) for a, b in rises if math.isfinite(a) and math.isfinite(b)]
    shift, plain, aligned = _within(comparison, pair, steps) if steps else (None, None, None)
    return Findings(
        pair.plain.rmse,
        pair.plain.worst,
        pair.shift,
        None if pair.aligned is None else pair.aligned.rmse,
        falls=_median(b - a for a, b in both),
        falling=_median(a for a, _ in both),
        hangs=_median(_hangs(pair, part) for part in falls),
        never=never,
        step_shift=shift,
        steps=plain,
        steps_aligned=aligned,
        rises=_median(b - a for a, b in rises),
        rising=_median(a for a, _ in rises),
        unjudged=tuple((part.name, gap) for part, gap in unjudged.items()),
    )


def headline(comparison: Comparison, beside: Comparison | None = None) -> str:
    """The comparison in a sentence or two; of many servos, the worst's."""
    pair = comparison.pairs[0]
    first, second = (_SUBJECTS.get(label, f"the {label}" if " " in label else label) for label in comparison.labels)
    modelled = comparison.other.metadata.get("backend") == "sim"
    text = _sentence(findings_of(comparison, pair), first, second, modelled=modelled)
    if len(comparison.pairs) > 1:
        usual = median(pair.plain.rmse for pair in comparison.pairs)
        half = f"Half of the {len(comparison.pairs)} servos are within {usual:.1f}° (RMSE)."
        text = f"{half} The worst is {pair.name}: {text}"
    elif text.startswith(("the ", "steps ")):
        text = text[0].upper() + text[1:]
    if beside is None:
        return text
    one, other = pair.plain.rmse, beside.pairs[0].plain.rmse
    return f"{text} RMSE: {comparison.labels[1]} {one:.2f}°, {beside.labels[1]} {other:.2f}°."


def _sentence(found: Findings, reference: str, other: str, *, modelled: bool) -> str:
    text = _judged(found, reference, other, modelled=modelled)
    gaps = ", ".join(f"'{name}' ({gap:.2f} s)" for name, gap in found.unjudged)
    return f"{text} Not judged, as samples are missing: {gaps}." if gaps else text


def _judged(found: Findings, reference: str, other: str, *, modelled: bool) -> str:
    """Falls first, then steps; what neither tells, the errors over all do."""
    fall = _fall(found, reference, other, modelled=modelled)
    step = _step(found, reference, other)
    if fall or step:
        return "; ".join(part for part in (fall, step) if part) + "."
    if found.rmse < AGREES:
        return f"{other} agrees with {reference} to {found.rmse:.2f}°."
    late = found.shift is not None and abs(found.shift) >= LATE
    if late and found.shift is not None and found.aligned is not None and found.aligned <= found.rmse / 2:
        return (
            f"{other} is {_ms(found.shift)} {_when(found.shift)} than {reference}; they agree to {found.aligned:.1f}° "
            f"once that is taken out."
        )
    return f"{other} is {found.rmse:.1f}° from {reference} (RMSE), and {found.worst:.0f}° at worst."


def _fall(found: Findings, reference: str, other: str, *, modelled: bool) -> str:
    if found.never == "other":
        return f"{other} does not fall all the way, {reference} does" + (_blame("high") if modelled else "")
    if found.never == "reference":
        return f"{other} falls all the way, {reference} does not" + (_blame("low") if modelled else "")
    if found.falls is None or found.falling is None:
        return ""
    if abs(found.falls) <= max(FALLS[0], FALLS[1] * found.falling):
        return ""
    early = found.falls < 0
    how = f"too {'early' if early else 'late'}" if modelled else f"{_when(found.falls)} than {reference}"
    text = f"{other} falls {_ms(found.falls)} {how}"
    if not modelled:
        return text
    # an arm that rests higher is held by more friction; one that rests as high is only slower
    rests = found.hangs is not None and (found.hangs < -RESTS if early else found.hangs > RESTS)
    return text + _blame("low" if early else "high", certain=rests)


def _blame(which: str, *, certain: bool = True) -> str:
    return f": its friction {'' if certain else 'or its rotor inertia '}is too {which}"


def _step(found: Findings, reference: str, other: str) -> str:
    if found.steps is None:
        return ""
    shift, aligned = found.step_shift, found.steps_aligned
    if found.steps < AGREES:
        return f"steps agree to {found.steps:.1f}°"
    if shift is not None and aligned is not None and abs(shift) >= LATE and aligned <= found.steps / 2:
        if shift < 0:
            return f"steps agree to {aligned:.1f}° once {_ms(shift)} of latency, which {other} lacks, are taken out"
        return f"steps agree to {aligned:.1f}° once {_ms(shift)} of latency are taken out"
    slower, usual = found.rises or 0.0, found.rising or 0.0
    if abs(slower) > max(RISES[0], RISES[1] * usual):
        return f"{other} takes {_ms(slower)} {'less' if slower < 0 else 'more'} than {reference} for a step"
    return f"steps are {found.steps:.1f}° apart"


def _with_gaps(pair: Pair, parts: Sequence[ComparedSegment]) -> dict[ComparedSegment, float]:
    """Parts into which a stretch without samples reaches, and how long it is, s."""
    both = pair.motions
    time = both.time[~np.isnan(both.reference) & ~np.isnan(both.other)]
    spaces = np.diff(time)
    long = max(HOLE, GAP * float(np.median(spaces))) if len(spaces) else math.inf
    reach = {part: spaces[(time[1:] > part.start) & (time[:-1] < part.end)].max(initial=0.0) for part in parts}
    return {part: float(gap) for part, gap in reach.items() if gap > long}


def _within(
    comparison: Comparison, pair: Pair, parts: Sequence[ComparedSegment]
) -> tuple[float | None, float | None, float | None]:
    """In some parts alone: how much later the other is, s, and the RMSE as it is and with that taken out, degrees."""
    both = pair.motions
    inside = np.zeros(len(both.time), dtype=bool)
    for part in parts:
        inside |= (both.time >= part.start) & (both.time < part.end)
    reference = np.where(inside, both.reference, np.nan)
    plain = deviation(reference, both.other)
    if not plain.samples:
        return None, None, None
    shift = best_shift(both.time, reference, both.other, comparison.limit)
    if shift is None:
        return None, plain.rmse, None
    track = comparison.other[pair.other_name]
    moved: FloatArray = resample(track.time, track.position, both.other_time + shift)
    return shift, plain.rmse, deviation(reference, moved).rmse


def _hangs(pair: Pair, part: ComparedSegment) -> float:
    """How much further from hanging down the other ends a fall, degrees.

    NaN where an arm swings past the bottom: its momentum has brought it there, and that says nothing of friction.
    """
    both = pair.motions
    inside = np.flatnonzero((both.time >= part.start) & (both.time < part.end))
    for side in (both.reference[inside], both.other[inside]):
        above = side * np.sign(side[:1])
        if (above < -math.radians(RESTS)).any():
            return math.nan
    last = inside[-max(3, len(inside) // 10) :]
    a, b = (np.abs(side[last]) for side in (both.reference, both.other))
    known = ~np.isnan(a) & ~np.isnan(b)
    return math.degrees(float(np.mean((b - a)[known]))) if known.any() else math.nan


def _median(values: Iterable[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return median(known) if known else None


def _ms(seconds: float) -> str:
    return f"{abs(seconds) * 1e3:.0f} ms"


def _when(shift: float) -> str:
    return "earlier" if shift < 0 else "later"
