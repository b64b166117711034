"""What was found of delay and lag of each joint (`axbridge.comparison.lag`), as a table, a document and a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from axbridge.comparison.lag import LONGEST, LagModel, Lags
from axbridge.comparison.page import Table
from axbridge.config import toml_tables
from axbridge.errors import ProfileError
from axbridge.files import write_whole, writing


def lag_table(found: Lags) -> Table:
    """Joint by joint."""

    def span(values: tuple[float, float, float]) -> str:
        return f"{1e3 * values[0]:.0f} ({_interval(values, 0)})"

    rows = tuple(
        (one.name, span(one.delay), span(one.lag), span(one.total), f"{math.degrees(one.offset):+.2f}",
         f"{one.before:.2f}", f"{one.after:.2f}")
        for one in found.joints
    )  # fmt: skip
    header = ("joint", "delay, ms (95 %)", "lag, ms (95 %)", "both, ms (95 %)", "offset °", "goal MAE °", "model MAE °")
    return Table(f"goals {'on lines' if found.ramped else 'held'} from one to the next", header, rows)


def _interval(values: tuple[float, float, float], digits: int) -> str:
    """From where to where, ms."""
    _, low, high = (1e3 * value for value in values)
    return f"{low:.{digits}f} or more" if math.isinf(high) else f"{low:.{digits}f} to {high:.{digits}f}"


def ends(found: Lags) -> list[str]:
    """Joints whose delay or lag is as long as the search goes, in words."""
    return [
        f"{one.name}: the {' and the '.join(one.ended)} ended at {1e3 * LONGEST:.0f} ms, as far as is searched: the "
        "joint is slower than that, or does something else than follow its goal"
        for one in found.joints
        if one.ended
    ]


def lags_document(found: Lags) -> dict[str, Any]:
    """The same as one JSON document."""
    return {
        "model": "lag",
        "goals": "lines" if found.ramped else "held",
        "joints": {
            one.name: {
                **{
                    f"{key}_ms": dict(zip(("value", "low", "high"), (1e3 * value for value in values), strict=True))
                    for key, values in (("delay", one.delay), ("lag", one.lag), ("both", one.total))
                },
                "ended": list(one.ended),
                "offset_deg": math.degrees(one.offset),
                "goal_mae_deg": one.before,
                "mae_deg": one.after,
            }
            for one in found.joints
        },
        "still": list(found.still),
    }


def write_lags(found: Lags, path: Path, *, source: str) -> None:
    """Write them as TOML, a table a joint; intervals stand as comments.

    Raises:
        RecordingError: it cannot be written; what was at `path` stays.
    """
    lines = [f"# delay and first-order lag of each joint, from {source}"]
    lines.append(f'goals = "{"lines" if found.ramped else "held"}"')
    for one in found.joints:
        lines += ["", f'[joint."{one.name}"]']
        for key, values in (("delay_ms", one.delay), ("lag_ms", one.lag)):
            lines.append(f"{key} = {1e3 * values[0]:.1f}  # 95 %: {_interval(values, 1)}")
        lines.append(f"offset_deg = {math.degrees(one.offset):.2f}")
        lines.append(f"mae_deg = {one.after:.2f}")
    with writing(path):
        write_whole(path, "\n".join(lines) + "\n")


def is_lags(path: Path) -> bool:
    """Whether a file is one of those: a TOML file with a table of joints."""
    return path.suffix == ".toml" and path.is_file() and "joint" in toml_tables.read_toml(path, ProfileError)


def read_lags(path: Path) -> LagModel:
    """Read what `write_lags` wrote.

    Raises:
        ProfileError: it cannot be read, or has a mistake.
    """
    return toml_tables.validate(LagModel, toml_tables.read_toml(path, ProfileError), path, ProfileError)
