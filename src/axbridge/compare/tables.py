"""What a comparison says, as rows of text, and the page and the picture that show it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from axbridge.compare.comparison import Comparison, Pair
from axbridge.compare.metrics import StepResponse
from axbridge.files import replacing, unwritable, write_whole
from axbridge.record.recording import Recording

__all__ = ["Table", "deviation_table", "provenance_table", "response_table", "table_text", "write_html", "write_png"]


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


_STEP_ROWS = (
    ("delay", "delay", "ms", 1e3, 0),
    ("rise", "rise time 10-90 %", "ms", 1e3, 0),
    ("overshoot", "overshoot", "°", 1, 2),
    ("settling", "settling time", "ms", 1e3, 0),
    ("steady_state_error", "steady-state error", "°", 1, 2),
)


def deviation_table(comparison: Comparison) -> Table:
    """Errors by servo, worst first, as they are and with the lateness taken out."""
    header = ("servo", "MAE °", "RMSE °", "MSE deg²", "worst °", "later by ms", "RMSE ° aligned", "MSE deg² aligned")
    rows = [
        (
            pair.name,
            *(_number(value, 2) for value in (pair.plain.mae, pair.plain.rmse, pair.plain.mse, pair.plain.worst)),
            _number(pair.shift * 1e3, 1),
            _number(pair.aligned.rmse, 2),
            _number(pair.aligned.mse, 2),
        )
        for pair in comparison.pairs
    ]
    return Table(f"{comparison.labels[1]} against {comparison.labels[0]}", header, tuple(rows))


def response_table(comparison: Comparison, pair: Pair) -> Table | None:
    """Figures of steps, falls and chirps of one servo on both sides; None when there are none."""
    rows: list[tuple[str, ...]] = []
    several = sum(bool(part.steps or part.falls or part.chirps) for part in pair.parts) > 2
    for part in pair.parts:
        prefix = f"{part.name}: " if several else ""
        if part.steps:
            rows += [
                (f"{prefix}{text}, {unit}", *(_number(_value(step, key) * factor, digits) for step in part.steps))
                for key, text, unit, factor, digits in _STEP_ROWS
            ]
        if part.falls and not all(math.isnan(fall) for fall in part.falls):
            rows.append((f"{prefix}fall to 5°, ms", *(_number(fall * 1e3, 0) for fall in part.falls)))
        if part.chirps:
            rows.append((f"{prefix}bandwidth (-3 dB), Hz", *(_number(chirp.bandwidth, 2) for chirp in part.chirps)))
            middle = math.sqrt(part.chirps[0].frequency[0] * part.chirps[0].frequency[-1])
            phases = (float(np.interp(middle, chirp.frequency, chirp.phase)) for chirp in part.chirps)
            rows.append((f"{prefix}phase at {middle:.2g} Hz, °", *(_number(phase, 1) for phase in phases)))
    for part in pair.parts:
        error = part.deviation
        if error.samples:
            label = f"RMSE {'/ MSE ' if not several else ''}in {part.name}, °" + ("" if several else " / deg²")
            text = _number(error.rmse, 2) + ("" if several else f" / {_number(error.mse, 2)}")
            rows.append((label, "", text))
    if not any(part.steps or part.falls or part.chirps for part in pair.parts):
        return None
    return Table(f"{pair.name}: response", ("", *comparison.labels), tuple(rows))


def provenance_table(comparison: Comparison) -> Table:
    """Where both recordings come from."""
    sides = (comparison.reference, comparison.other)
    facts = [_facts(side) for side in sides]
    keys = list(dict.fromkeys(key for fact in facts for key in fact))
    return Table(
        "Where it comes from",
        ("", *comparison.labels),
        tuple((key, *(fact.get(key, "") for fact in facts)) for key in keys),
    )


def parameter_table(comparison: Comparison) -> Table | None:
    """Model parameters of both sides that are recorded, servo by servo (the worst's); None when there are none."""
    pair = comparison.pairs[0]
    columns = [
        _flat(recording.metadata.get("models", {}).get(name, {}))
        for recording, name in ((comparison.reference, pair.name), (comparison.other, pair.other_name))
    ]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    if not keys:
        return None
    rows = tuple((key, *(column.get(key, "") for column in columns)) for key in keys)
    return Table(f"{pair.name}: model parameters", ("", *comparison.labels), rows)


def table_text(table: Table) -> str:
    """A table for the terminal: columns lined up."""
    lines = [table.header, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join((first, *rest)).rstrip()

    return "\n".join((table.title, *(line(cells) for cells in lines)))


def write_html(comparison: Comparison, path: Path | str, title: str = "") -> None:
    """Write the report as one self-contained page.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    from axbridge.compare.html import page

    try:
        write_whole(path, page(comparison, title or _title(comparison)))
    except OSError as failure:
        raise unwritable(path, failure) from failure


def write_png(comparison: Comparison, path: Path | str, title: str = "") -> None:
    """Write the picture of the report.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    from axbridge.compare.png import draw

    try:
        with replacing(path) as temporary:
            draw(comparison, temporary, title or _title(comparison))
    except OSError as failure:
        raise unwritable(path, failure) from failure


def _title(comparison: Comparison) -> str:
    rig = comparison.reference.metadata.get("rig") or comparison.other.metadata.get("rig") or {}
    experiment = str(comparison.reference.metadata.get("experiment", "")).replace("_", " ")
    what = ", ".join(part for part in (rig.get("name", ""), experiment) if part)
    sides = f"{comparison.labels[1]} against {comparison.labels[0]}"
    return f"{what}: {sides}" if what else sides


def _facts(recording: Recording) -> dict[str, str]:
    meta = recording.metadata
    facts = {
        "file": recording.path.name + ("" if recording.complete else " (cut off)"),
        "backend": meta.get("backend", ""),
        "experiment": meta.get("experiment", ""),
        "recorded": meta.get("recorded", ""),
        "rig": (meta.get("rig") or {}).get("name", ""),
        "seed": meta.get("seed", ""),
        "source": meta.get("source", ""),
        "profiles": ", ".join(f"{name} {digest}" for name, digest in meta.get("profiles", {}).items()),
        "models": ", ".join(
            sorted({f"{model.get('name', '')} {model.get('hash', '')}" for model in meta.get("models", {}).values()})
        ),
        "versions": ", ".join(f"{name} {number}" for name, number in meta.get("versions", {}).items()),
    }
    return {key: str(value) for key, value in facts.items() if value not in ("", None)}


def _flat(model: dict[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in model.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        elif key not in {"description", "provenance", "hash"}:
            found[prefix + key] = f"{value:.6g}" if isinstance(value, float) else str(value)
    return found


def _value(step: StepResponse, key: str) -> float:
    return float(getattr(step, key))


def _number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"
