"""`axbridge sweep`: simulate a robot with many values of its parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from axbridge.cli.app import DONE, FAILED_CHECK, note
from axbridge.cli.options import WRITES, Result, RigArgument, lined_up, verb
from axbridge.cli.progress import progress
from axbridge.config.rig import Rig
from axbridge.files import write_whole
from axbridge.learn.sweep import Figures, causes, header, parse_axes
from axbridge.learn.sweep import sweep as measured


@verb("bench_arm --over latency=0:40:5 --metric step.overshoot")
def sweep(
    rig: RigArgument,
    *,
    over: Annotated[list[str], "friction=0.02,0.05 or latency=0:40:5 (5 values); repeat.", "NAME=VALUES"],
    metric: Annotated[str, "walk, step or fall, or one figure of them: walk.distance."] = "step",
    engine: str | None = None,
    executor: str | None = None,
    out: Annotated[Path | None, "The table.", "FILE.csv", WRITES] = None,
    seed: int = 0,
) -> Result:
    """Try every combination of values in simulation, on all cores or a cluster, and print a figure of each."""
    axes = parse_axes(over)
    with progress("starting workers") as show:
        rows = measured(
            Rig.load(rig).with_engine(engine), axes, metric, seed=seed, where=executor,
            report=lambda done, of: show(f"{done} of {of} robots", done / of),
        )  # fmt: skip
    note(*causes(rows, metric))

    def report() -> Iterator[str]:
        yield from lined_up(_table(rows, "{:.4g}"), str.rjust)
        if out is not None:
            write_whole(out, "".join(",".join(cells) + "\n" for cells in _table(rows, "{!r}")))
            yield f"wrote {out}"

    unknown = all(any(map(math.isnan, row.values())) for row in rows)
    return Result({"rig": rig, "metric": metric, "rows": rows}, report(), FAILED_CHECK if unknown else DONE)


def _table(rows: list[Figures], form: str) -> list[list[str]]:
    return [list(map(header, rows[0])), *([form.format(value) for value in row.values()] for row in rows)]
