"""What a comparison found, in a sentence: which motion is off, which way, and what in a model that points to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from axbridge.comparison.comparison import Comparison
from axbridge.comparison.metrics import best_shift, deviation, resample
from axbridge.comparison.side_by_side import HOLE, ComparedSegment, Pair
from axbridge.recording.sample_quality import GAP

AGREES = 0.5  # degrees of RMSE: about two counts of an AX-12
LATE = 0.005  # s: less than a control cycle is no latency
FALLS = (0.02, 0.05)  # a fall is off by more than this, s, and by this share of it
_SUBJECTS = {
    "recorded": "the recording",
    "simulated": "the simulation",
    "goal": "the goal",
    "position": "the servo",
}
_NEAR = 2.0  # °, RMSE: steps that are farther apart do not agree, whatever is taken out


def headline(comparison: Comparison, beside: Comparison | None = None) -> str:
    """The comparison in a sentence or two; of many servos, the worst's."""
    pair = comparison.pairs[0]
    text = _sentence(comparison, pair)
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


def _sentence(comparison: Comparison, pair: Pair) -> str:
    """Falls first, then steps; what neither tells, the errors over all do."""
    first, second = (
        _SUBJECTS.get(label, f"the {label}" if " " in label and "," not in label else label)
        for label in comparison.labels
    )
    measured = [part for part in pair.parts if part.kind in {"fall", "step"} and part.results is not None]
    unjudged = _with_gaps(pair, measured) if measured else {}
    falls, steps = ([one for one in measured if one.kind == kind and one not in unjudged] for kind in ("fall", "step"))
    said = (_fall(comparison, falls, first, second), _step(comparison, pair, steps, second) if steps else "")
    text = "; ".join(filter(None, said)) + "." if any(said) else _over_all(pair, first, second)
    gaps = ", ".join(f"'{part.name}' ({gap:.2f} s)" for part, gap in unjudged.items())
    return f"{text} Not judged, as samples are missing: {gaps}." if gaps else text


def _over_all(pair: Pair, reference: str, other: str) -> str:
    rmse, shift = pair.plain.rmse, pair.shift
    if rmse < AGREES:
        return f"{other} agrees with {reference} to {rmse:.2f}°."
    if shift is not None and abs(shift) >= LATE and pair.aligned is not None and pair.aligned.rmse <= rmse / 2:
        return (
            f"{other} is {_ms(shift)} {_when(shift)} than {reference}; they agree to {pair.aligned.rmse:.1f}° once "
            "that is taken out."
        )
    return f"{other} is {rmse:.1f}° from {reference} (RMSE), and {pair.plain.worst:.0f}° at worst."


def _fall(comparison: Comparison, falls: Sequence[ComparedSegment], reference: str, other: str) -> str:
    """Which side falls earlier; a model is blamed for it, a servo never."""
    modelled = comparison.other.metadata.get("backend") == "sim"
    times = [tuple(map(float, part.results)) for part in falls if part.results is not None]
    ends = {(math.isfinite(a), math.isfinite(b)) for a, b in times}
    if ends == {(True, False)}:
        blame = ": its friction is too high" if modelled else ""
        return f"{other} does not fall all the way, {reference} does{blame}"
    if ends == {(False, True)}:
        return f"{other} falls all the way, {reference} does not" + (": its friction is too low" if modelled else "")
    both = [(a, b) for a, b in times if math.isfinite(a) and math.isfinite(b)]
    late = median(b - a for a, b in both) if both else 0.0
    if not both or abs(late) <= max(FALLS[0], FALLS[1] * median(a for a, _ in both)):
        return ""
    if not modelled:
        return f"{other} falls {_ms(late)} {_when(late)} than {reference}"
    how, wrong = ("early", "low") if late < 0 else ("late", "high")
    return f"{other} falls {_ms(late)} too {how}: its friction or its rotor inertia is too {wrong}"


def _step(comparison: Comparison, pair: Pair, steps: Sequence[ComparedSegment], other: str) -> str:
    """How far apart the steps alone are, as they are and with the best shift taken out."""
    both = pair.motions
    inside = np.zeros(len(both.time), dtype=bool)
    for part in steps:
        inside |= (both.time >= part.start) & (both.time < part.end)
    reference = np.where(inside, both.reference, np.nan)
    plain = deviation(reference, both.other)
    if not plain.samples:
        return ""
    if plain.rmse < AGREES:
        return f"steps agree to {plain.rmse:.1f}°"
    shift = best_shift(both.time, reference, both.other, comparison.limit)
    if shift is not None and abs(shift) >= LATE:
        track = comparison.other[pair.other_name]
        aligned = deviation(reference, resample(track.time, track.position, both.other_time + shift)).rmse
        if aligned <= plain.rmse / 2:
            lacks = f", which {other} lacks," if shift < 0 else ""
            how = f"agree to {aligned:.1f}°" if aligned < _NEAR else f"are {aligned:.1f}° apart even"
            return f"steps {how} once {_ms(shift)} of latency{lacks} are taken out"
    return f"steps are {plain.rmse:.1f}° apart"


def _with_gaps(pair: Pair, parts: Sequence[ComparedSegment]) -> dict[ComparedSegment, float]:
    """Parts into which a stretch without samples reaches, and how long it is, s."""
    both = pair.motions
    time = both.time[~np.isnan(both.reference) & ~np.isnan(both.other)]
    spaces = np.diff(time)
    long = max(HOLE, GAP * float(np.median(spaces))) if len(spaces) else math.inf
    reach = {part: spaces[(time[1:] > part.start) & (time[:-1] < part.end)].max(initial=0.0) for part in parts}
    return {part: float(gap) for part, gap in reach.items() if gap > long}


def _ms(seconds: float) -> str:
    return f"{abs(seconds) * 1e3:.0f} ms"


def _when(shift: float) -> str:
    return "earlier" if shift < 0 else "later"
