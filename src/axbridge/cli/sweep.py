"""`axbridge sweep`: simulate a robot with many values of its parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from axbridge.cli.app import app, report
from axbridge.cli.options import EngineOption, ForceOption, JsonOption, RigArgument, SeedOption, lined_up, shared
from axbridge.cli.progress import progress
from axbridge.config.rig import Rig
from axbridge.files import check_new, write_whole
from axbridge.learn.sweep import Figures, header, parse_axes
from axbridge.learn.sweep import sweep as measured


@app.command(epilog="bench_arm --over latency=0:40:5 --metric step.overshoot")
def sweep(
    rig: RigArgument,
    over: Annotated[
        list[str], typer.Option(metavar="NAME=VALUES", help="friction=0.02,0.05 or latency=0:40:5 (5 values); repeat.")
    ],
    metric: Annotated[str, typer.Option(help="walk, step or fall, or one figure of them: walk.distance.")] = "step",
    engine: EngineOption = None,
    executor: Annotated[str | None, shared("--executor")] = None,
    out: Annotated[Path | None, shared("--out", "The table.", metavar="FILE.csv")] = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Try every combination of values in simulation, on all cores or a cluster, and print a figure of each."""
    check_new(out, force=force)
    axes = parse_axes(over)
    with progress("starting workers", quiet=json) as show:
        rows = measured(
            Rig.load(rig).with_engine(engine), axes, metric, seed=seed, where=executor,
            report=lambda done, of: show(f"{done} of {of} robots", done / of),
        )  # fmt: skip
    if out is not None:
        write_whole(out, "".join(",".join(cells) + "\n" for cells in _table(rows, "{!r}")))
    lines = [*lined_up(_table(rows, "{:.4g}"), str.rjust), *([] if out is None else [f"wrote {out}"])]
    report("sweep-1", {"rig": rig, "metric": metric, "rows": rows}, lines, json=json)


def _table(rows: list[Figures], form: str) -> list[list[str]]:
    return [list(map(header, rows[0])), *([form.format(value) for value in row.values()] for row in rows)]
