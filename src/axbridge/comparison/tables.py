"""Present a comparison as a sentence, as tables, and as panels for its page and picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from axbridge.arrays import BoolArray, FloatArray
from axbridge.comparison.comparison import Comparison, shift_text
from axbridge.comparison.metrics import MEASURES, Deviation, best_shift, deviation, holes, resample
from axbridge.comparison.page import Curve, Panel, Table
from axbridge.comparison.side_by_side import Pair
from axbridge.recording.provenance import origin_in_words
from axbridge.recording.recording import Recording, Track

AGREES = 0.5  # degrees of RMSE: about two counts of an AX-12
LATE = 0.005  # s: a smaller shift, less than a control cycle, is not reported as latency
FALLS = (0.02, 0.05)  # falls differ if by more than this, s, and by more than this share of the fall's time
_SUBJECTS = {
    "recorded": "the recording",
    "simulated": "the simulation",
    "goal": "the goal",
    "position": "the servo",
}
_FEW = 6  # most servos whose errors are listed one by one
_MOST_RMSE = 2.0  # °, RMSE: motions with larger errors do not agree, even without the shift


def headline(comparison: Comparison, beside: Comparison | None = None) -> str:
    """Return the comparison in a sentence or two; with many servos, about the servo with the largest error."""
    pair = comparison.pairs[0]
    text = _sentence(comparison, pair)
    if len(comparison.pairs) > 1:
        errors = sorted((pair.plain.rmse, pair.name) for pair in comparison.pairs)
        each = ", ".join(f"{name} {error:.1f}°" for error, name in errors)
        each = each if len(errors) <= _FEW else f"{median(error for error, _ in errors):.1f}° (median)"
        text = f"RMSE: {each}. The worst is {pair.name}: {text}"
    elif text.startswith(("the ", "steps ")):
        text = text[0].upper() + text[1:]
    if beside is None:
        return text
    rmse, beside_rmse = pair.plain.rmse, beside.pairs[0].plain.rmse
    return f"{text} RMSE: {comparison.labels[1]} {rmse:.2f}°, {beside.labels[1]} {beside_rmse:.2f}°."


def _sentence(comparison: Comparison, pair: Pair) -> str:
    """Return a sentence about falls, then steps; about the overall errors if neither differs."""
    articles = ("the " if " " in label and "," not in label else "" for label in comparison.labels)
    first, second = (_SUBJECTS.get(label, the + label) for the, label in zip(articles, comparison.labels, strict=True))
    both = pair.motions
    gaps = holes(both.time[~np.isnan(both.reference) & ~np.isnan(both.other)])
    falls, inside, unjudged = [], np.zeros(len(both.time), dtype=bool), []
    for part in pair.parts:
        if part.kind not in {"fall", "step"} or part.results is None:
            continue
        if widths := [end - begin for begin, end in gaps if end > part.start and begin < part.end]:
            unjudged.append(f"'{part.name}' ({max(widths):.2f} s)")
        elif part.kind == "fall":
            falls.append((float(part.results[0]), float(part.results[1])))
        else:
            inside |= (both.time >= part.start) & (both.time < part.end)
    sentences = _fall(comparison, falls, first, second), _agreement(comparison, pair, "steps", second, inside)
    overall = () if any(sentences) else (_agreement(comparison, pair, f"{first} and {second}", second, ~inside),)
    text = "; ".join(filter(None, (*sentences, *overall))) + "."
    return f"{text} Not judged, as samples are missing: {', '.join(unjudged)}." if unjudged else text


def _fall(comparison: Comparison, falls: Sequence[tuple[float, float]], reference: str, other: str) -> str:
    """Return which side falls earlier; for a simulation also which model parameter is probably wrong."""
    modelled = comparison.other.metadata.get("backend") == "sim"
    ends = {(math.isfinite(a), math.isfinite(b)) for a, b in falls}
    if ends == {(True, False)}:
        return f"{other} does not fall all the way, {reference} does" + ": its friction is too high" * modelled
    if ends == {(False, True)}:
        return f"{other} falls all the way, {reference} does not" + ": its friction is too low" * modelled
    both = [(a, b) for a, b in falls if math.isfinite(a) and math.isfinite(b)]
    late = median(b - a for a, b in both) if both else 0.0
    if not both or abs(late) <= max(FALLS[0], FALLS[1] * median(a for a, _ in both)):
        return ""
    if not modelled:
        return f"{other} falls {_ms(late)} {'earlier' if late < 0 else 'later'} than {reference}"
    how, wrong = ("early", "low") if late < 0 else ("late", "high")
    return f"{other} falls {_ms(late)} too {how}: its friction or its rotor inertia is too {wrong}"


def _agreement(comparison: Comparison, pair: Pair, subject: str, other: str, inside: BoolArray) -> str:
    """Return the error `inside`, as it is and with the best shift removed; "" without samples."""
    both = pair.motions
    reference = np.where(inside, both.reference, np.nan)
    plain = deviation(reference, both.other)
    if not plain.samples:
        return ""
    if plain.rmse < AGREES:
        return f"{subject} agree to {plain.rmse:.2f}°"
    shift = best_shift(both.time, reference, both.other, comparison.limit)
    if shift is not None and abs(shift) >= LATE:
        track = comparison.other[pair.other_name]
        aligned = deviation(reference, resample(track.time, track.position, both.other_time + shift)).rmse
        if aligned <= plain.rmse / 2:
            how = f"agree to {aligned:.1f}°" if aligned < _MOST_RMSE else f"are {aligned:.1f}° apart even"
            if shift > 0:
                return f"{subject} {how} if {other} is moved {_ms(shift)} earlier"
            return f"{subject} {how} if a delay of {_ms(shift)} is added to {other}"
    return f"{subject} are {plain.rmse:.1f}° apart (RMSE), {plain.worst:.0f}° at worst"


def _ms(seconds: float) -> str:
    return f"{abs(seconds) * 1e3:.0f} ms"


def deviation_table(*comparisons: Comparison) -> Table:
    """Return each candidate's errors by servo, largest first, as they are and aligned."""
    header = ("servo", "MAE °", "RMSE °", "MSE deg²", "worst °", "shift", "RMSE ° aligned", "MSE deg² aligned")
    rows = [
        (
            pair.name if len(comparisons) == 1 else f"{pair.name}, {side.labels[1]}",
            *(_number(value, 2) for value in (pair.plain.mae, pair.plain.rmse, pair.plain.mse, pair.plain.worst)),
            shift_text(side, pair),
            *(("-", "-") if pair.aligned is None else (_number(pair.aligned.rmse, 2), _number(pair.aligned.mse, 2))),
        )
        for side in comparisons
        for pair in side.pairs
    ]
    names = " and ".join(side.labels[1] for side in comparisons)
    return Table(f"{names} against {comparisons[0].labels[0]}", header, tuple(rows))


def response_tables(comparison: Comparison, pair: Pair, beside: Comparison | None = None) -> list[Table]:
    """Return a table for each kind of segment of one servo: all sides' figures and errors."""
    labels, pairs = [*comparison.labels], [pair]
    if beside is not None:
        labels.append(beside.labels[1])
        pairs.append(next(other for other in beside.pairs if other.name == pair.name))
    tables: dict[str, Table] = {}
    for part, *others in zip(*(each.parts for each in pairs), strict=True):
        if not part.deviation.samples:
            continue
        kind, figures = (part.kind, MEASURES[part.kind].rows) if part.results is not None else ("", ())
        results = [*(part.results or ()), *(other.results[1] for other in others if other.results is not None)]
        cells = [
            [_number(row.value(result, results[0]) * row.factor, row.digits) for result in results] for row in figures
        ]
        errors = [part.deviation, *(other.deviation for other in others)]
        cells += [[_number(error.rmse, 2) for error in errors], [_number(error.mse, 2) for error in errors]]
        what = f"{kind}, {' / '.join(labels)}" if kind else "other parts"
        header = (kind or "part", *(f"{row.text}, {row.unit}" for row in figures), "RMSE °", "MSE deg²")
        table = tables.get(kind, Table(f"{pair.name}: {what}", header, ()))
        tables[kind] = replace(table, rows=(*table.rows, (part.name, *map(" / ".join, cells))))
    return sorted(tables.values(), key=lambda table: table.header[0] == "part")


def errors_beside(*comparisons: Comparison) -> dict[str, tuple[Deviation, ...]]:
    """Return the errors while torque is on, by servo: perfect servo, delay and lag, then each model."""
    simpler, errors_of = comparisons[0].baselines, {}
    for pair in comparisons[0].pairs:
        models = [other_pair for other in comparisons for other_pair in other.pairs if other_pair.name == pair.name]
        if pair.name in simpler and len(models) == len(comparisons):
            errors = []
            for motions in (model.motions for model in models):
                driven = np.where(np.isnan(motions.command), np.nan, motions.reference)
                errors.append(deviation(driven, motions.other))
            errors_of[pair.name] = (*simpler[pair.name], *errors)
    return errors_of


def beside_table(errors: Mapping[str, Sequence[Deviation]], *comparisons: Comparison) -> Table | None:
    """Return `errors_beside` as a table; None when it is empty."""
    rows = tuple((servo, *(f"{off.mae:.2f} / {off.rmse:.2f}" for off in every)) for servo, every in errors.items())
    header = ("servo", "perfect servo", "delay and lag", *(other.labels[1] for other in comparisons))
    return Table("MAE / RMSE while driven, °, beside simpler models", header, rows) if rows else None


def provenance_table(*comparisons: Comparison) -> Table:
    """Return the origin of each recording; all comparisons have the same reference."""
    columns = [_facts(side) for side in (comparisons[0].reference, *(side.other for side in comparisons))]
    keys = dict.fromkeys(key for column in columns for key in column)
    rows = tuple((key, *(column.get(key, "") for column in columns)) for key in keys)
    header = ("", comparisons[0].labels[0], *(side.labels[1] for side in comparisons))
    return Table("Where it comes from", header, rows)


def _torque(track: Track) -> FloatArray:
    return np.where(np.isnan(track.true_torque), track.torque, track.true_torque)


_MORE: tuple[tuple[str, Callable[[Track], FloatArray]], ...] = (
    ("torque, N·m", _torque),
    ("power at the shaft, W", lambda track: _torque(track) * track.velocity),
    ("electrical power, W", lambda track: track.power),
    ("load, %", lambda track: track.load * 100),
)  # further quantities, drawn when at least one side has them


def panels_of(
    comparison: Comparison, pair: Pair, *, beside: Comparison | None = None, everything: bool = True
) -> list[Panel]:
    """Return one servo's panels: positions, error, and with `everything` the further recorded quantities."""
    both, following = pair.motions, comparison.labels[0] == "goal"
    label, other = comparison.labels[1], comparison.other[pair.other_name]
    # (colour, label, track, track's times, common times, positions)
    sides = [("other", label, other, both.other_time, both.time, both.other)]
    errors = [(both, "", "error")]
    if not following:
        measured = "reference" if beside is None else "fitted"  # pale and wide: a candidate may cover it
        track = comparison.reference[pair.name]
        sides.insert(0, (measured, comparison.labels[0], track, both.reference_time, both.time, both.reference))
    if beside is not None:
        second = next(other for other in beside.pairs if other.name == pair.name)
        third, name = second.motions, beside.labels[1]
        sides.append(("third", name, beside.other[second.other_name], third.other_time, third.time, third.other))
        errors = [(both, label, "other"), (third, name, "third")]
    lines = [
        Curve(time, np.degrees(position), name, colour, width={"fitted": 5.0, "reference": 3.4}.get(colour, 1.7))
        for colour, name, _, _, time, position in sides
    ]
    goal = both.reference if following else both.command
    if not np.isnan(goal).all():  # wide and pale, so that it is visible below the motions
        lines.insert(0, Curve(both.time, np.degrees(goal), "goal", "command", width=4.0, held=True))
    marks = tuple((part.start, part.name) for part in pair.parts if part.deviation.samples)
    apart = [Curve(m.time, np.degrees(m.other - m.reference), name, colour, width=1.2) for m, name, colour in errors]
    panels = [Panel(tuple(lines), "time, s", "position, °", share=3.0, marks=marks)]
    panels.append(Panel(tuple(apart), "time, s", "error, °", share=1.2))
    for title, value in _MORE if everything else ():
        more = tuple(
            Curve(time, values, "" if following else name, colour, width=1.5)
            for colour, name, track, at, time, _ in sides
            if not np.isnan(values := resample(track.time, value(track), at)).all()
        )
        if more:
            panels.append(Panel(more, "time, s", title, share=1.2))
    return panels


def title_of(comparison: Comparison) -> str:
    """Return the title: rig, experiment and the names of both sides."""
    rig = comparison.reference.metadata.get("rig") or comparison.other.metadata.get("rig") or {}
    experiment = str(comparison.reference.metadata.get("experiment", "")).replace("_", " ")
    what = ", ".join(part for part in (rig.get("name", ""), experiment) if part)
    sides = f"{comparison.labels[1]} against {comparison.labels[0]}"
    return f"{what}: {sides}" if what else sides


def _facts(recording: Recording) -> dict[str, str]:
    meta = recording.metadata
    models = {f"{model.get('name', '')} {model.get('hash', '')}".strip() for model in meta.get("models", {}).values()}
    facts = {
        "file": recording.path.name + (f" ({recording.flaw})" if recording.flaw else ""),
        "backend": origin_in_words(meta),
        "experiment": meta.get("experiment", ""),
        "recorded": str(meta.get("recorded", "")).replace("T", " ").replace("+00:00", " UTC"),
        "rig": (meta.get("rig") or {}).get("name", ""),
        "seed": meta.get("seed", ""),
        "source": meta.get("source", ""),
        "profiles": ", ".join(f"{name} {digest}" for name, digest in meta.get("profiles", {}).items()),
        "models": ", ".join(sorted(models)),
        "versions": ", ".join(f"{name} {number}" for name, number in meta.get("versions", {}).items()),
    }
    return {key: str(value) for key, value in facts.items() if value not in ("", None)}


def _number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no "-0.00"
