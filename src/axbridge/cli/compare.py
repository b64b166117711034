"""`axbridge compare`: two recordings, or a recording and the simulator, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from axbridge.cli.app import DONE, FAILED_CHECK, app, emit_json
from axbridge.cli.options import JsonOption
from axbridge.errors import UsageError


@app.command()
def compare(
    recording: Annotated[Path, typer.Argument(metavar="REAL.mcap", help="Measured against.")],
    other: Annotated[
        Path | None, typer.Argument(metavar="[SIM.mcap]", help="Measured; without it, the goals or the simulator.")
    ] = None,
    *,
    rig: Annotated[
        str | None, typer.Option("--rig", help="Simulate the recorded goals on this rig, and compare with that.")
    ] = None,
    params: Annotated[
        str | None, typer.Option("--params", metavar="PARAMS.toml", help="Servo model to use instead of the rig's.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="REPORT.html", help="Write the report.")] = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE.png", help="Write the picture.")] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option("--fail-if", metavar="METRIC>N", help="End with 1 where this holds, e.g. rmse>2; repeat."),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Say how far two motions are apart: errors plain and aligned, step response figures, a report."""
    from axbridge.compare import comparison as comparing
    from axbridge.compare import tables as report
    from axbridge.record.recording import open_recording

    if rig is not None and other is not None:
        raise UsageError("both a second recording and --rig are given", "give one of them")
    if params is not None and rig is None:
        raise UsageError("--params needs the rig they belong to", "add --rig")
    reference = open_recording(recording)
    if other is not None:
        found = comparing.compare(reference, open_recording(other), labels=_labels(recording, other))
    elif rig is not None:
        from axbridge.config.rig import Rig
        from axbridge.replay.simulate import simulate

        simulated = simulate(reference, Rig.load(rig), params)
        found = comparing.compare(reference, simulated, labels=("recorded", "simulated"))
    else:
        found = comparing.following(reference)
    failed = [line for condition in fail_if or () for line in comparing.check(found, condition)]
    if out is not None:
        report.write_html(found, out)
    if png is not None:
        report.write_png(found, png)
    if json:
        emit_json(comparing.summary(found) | {"failed": failed})
    else:
        print(report.table_text(report.deviation_table(found)))
        if table := report.response_table(found, found.pairs[0]):
            print("\n" + report.table_text(table))
        for path in (out, png):
            if path is not None:
                print(f"wrote {path}")
    for label, side in zip(found.labels, (found.reference, found.other), strict=True):
        if not side.complete:
            typer.echo(f"note: {label} was cut off; everything up to the cut was compared", err=True)
    for line in failed:
        typer.echo(f"failed: {line}", err=True)
    return FAILED_CHECK if failed else DONE


def _labels(first: Path, second: Path) -> tuple[str, str]:
    """The files' names, or with their folders where those are alike."""
    if first.stem != second.stem:
        return first.stem, second.stem
    return str(first), str(second)
