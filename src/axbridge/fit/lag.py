"""What was found of delay and lag of each joint (`axbridge.replay.lag`), as a table, a document and a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from axbridge.files import unwritable, write_whole
from axbridge.replay.lag import Lags
from axbridge.report.page import Table

__all__ = ["lag_table", "lags_document", "write_lags"]


def lag_table(found: Lags) -> Table:
    """Joint by joint."""

    def span(values: tuple[float, float, float]) -> str:
        return "{:.0f} ({:.0f} to {:.0f})".format(*(1e3 * value for value in values))

    rows = tuple(
        (one.name, span(one.delay), span(one.lag), span(one.total), f"{math.degrees(one.offset):+.2f}",
         f"{one.before:.2f}", f"{one.after:.2f}")
        for one in found.joints
    )  # fmt: skip
    header = ("joint", "delay, ms (95 %)", "lag, ms (95 %)", "both, ms (95 %)", "offset °", "goal MAE °", "model MAE °")
    return Table(f"goals {'on lines' if found.ramped else 'held'} from one to the next", header, rows)


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
        for key, (value, low, high) in (("delay_ms", one.delay), ("lag_ms", one.lag)):
            lines.append(f"{key} = {1e3 * value:.1f}  # 95 %: {1e3 * low:.1f} to {1e3 * high:.1f}")
        lines.append(f"offset_deg = {math.degrees(one.offset):.2f}")
        lines.append(f"mae_deg = {one.after:.2f}")
    try:
        write_whole(path, "\n".join(lines) + "\n")
    except OSError as failure:
        raise unwritable(path, failure) from failure
