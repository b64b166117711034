"""`axbridge compare`: two recordings, or a recording and the simulator, side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axbridge.cli.app import DONE, FAILED_CHECK, app, emit_json
from axbridge.cli.options import EngineOption, JsonOption
from axbridge.cli.progress import progress
from axbridge.errors import UsageError
from axbridge.reading import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from axbridge.comparison.comparison import Comparison
    from axbridge.config.rig import Rig
    from axbridge.recording.recording import Recording


@app.command()
def compare(
    recording: Annotated[Path, typer.Argument(metavar="REAL.mcap", help="Measured against.")],
    other: Annotated[
        Path | None, typer.Argument(metavar="SIM.mcap", help="Measured; without it, the goals or the simulator.")
    ] = None,
    *,
    rig: Annotated[
        str | None, typer.Option("--rig", help="Simulate the recorded goals on this rig, and compare with that.")
    ] = None,
    params: Annotated[
        str | None,
        typer.Option("--model", "--params", metavar="NAME|FILE.toml", help="Servo model to use instead of the rig's."),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            "--beside",
            metavar="THIRD.mcap|MODEL",
            help="Of walks: a third one in the same pictures; with --rig also a servo model to simulate it with.",
        ),
    ] = None,
    engine: EngineOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="REPORT.html", help="Write the report.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay/--no-replay", help="Show the motion in the report, where the robot has a body.")
    ] = True,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE.png", help="Write the picture.")] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="METRIC>N",
            help="Exit code 1 if this is true (rmse>2), or if not all was compared; repeat.",
        ),
    ] = None,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="With --fail-if: accept servos and parts that were not compared.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Say how far apart two motions are, in figures and in a report.

    --engine simulates the recorded goals with that engine, on the rig that was recorded unless --rig names one.
    """
    from axbridge.comparison import comparison as comparing
    from axbridge.comparison import tables as report
    from axbridge.comparison.findings import headline
    from axbridge.comparison.html import write_html
    from axbridge.comparison.png import write_png
    from axbridge.comparison.walk_html import walk_headline, walk_table
    from axbridge.comparison.walks import document, sides_of
    from axbridge.files import check_new
    from axbridge.recording.recording import open_recording
    from axbridge.report.page import table_text

    if other is not None and (rig is not None or engine is not None):
        raise UsageError("both a second recording and something to simulate are given", "give one of them")
    if params is not None and rig is None:
        raise UsageError("--model needs the rig whose servos have it", "add --rig")
    check_new(out, png, force=True, sources=(recording, other, rig, params, beside))
    with progress("reading", quiet=json) as show:
        reference = open_recording(recording)
        if rig is None and engine is not None:
            rig = _rig_of(reference)
        if other is not None:
            candidate = open_recording(other)
            found = comparing.compare(reference, candidate, labels=_labels(recording, other), progress=show)
        elif rig is not None:
            from axbridge.config.rig import Rig
            from axbridge.replay.simulate import simulate, visible

            loaded = Rig.load(rig)
            show("simulating")
            simulated = simulate(reference, loaded, params, engine=engine)
            found = comparing.compare(
                visible(reference, loaded), simulated, labels=("recorded", "simulated"), same_clock=True, progress=show
            )
        else:
            found = comparing.following(reference, progress=show)
        show("comparing")
        walks = sides_of(found, None if beside is None else _third(reference, beside, rig, engine, show))
        if beside is not None and not walks:
            raise UsageError(
                "--beside is for walks, and not all of these are walks", "record walks: axbridge walk --record"
            )
        if walks and params is not None:
            walks[1] = replace(walks[1], label=f"simulated, {Path(params).stem}")
        failed = [line for condition in fail_if or () for line in comparing.check(found, condition)]
        lacking = comparing.lacks(found)
        if fail_if and not allow_partial:
            failed += lacking
        motion = ""
        if out is not None and replay:
            show("drawing the replay")
            followed = other is None and rig is None
            sides = list(zip((found.reference, found.other), found.labels, strict=True))
            motion = _replay(sides[followed], sides[not followed], loaded if rig is not None else None)
        show("writing the report")
        if out is not None:
            write_html(found, out, walks=walks, replay=motion, progress=show)
        if png is not None:
            write_png(found, png)
    if json:
        emit_json(comparing.summary(found) | ({"walks": document(walks)} if walks else {}) | {"failed": failed})
    else:
        print(printable(walk_headline(walks) or headline(found), lines=True) + "\n")
        if walks:
            print(table_text(walk_table(walks)) + "\n")
        print(table_text(report.deviation_table(found)))
        for table in report.response_tables(found, found.pairs[0]):
            print("\n" + table_text(table))
        for path in (out, png):
            if path is not None:
                print(f"wrote {path}")
    for label, side, lines in zip(found.labels, (found.reference, found.other), found.doubts, strict=True):
        if side.flaw:
            typer.echo(f"note: {label} {side.flaw}", err=True)
        for line in lines:
            typer.echo(printable(f"note: {label}: {line}"), err=True)
    for line in lacking:
        if line not in failed:
            typer.echo(printable(f"note: {line}"), err=True)
    for line in failed:
        typer.echo(printable(f"failed: {line}"), err=True)
    if lacking and fail_if and not allow_partial:
        typer.echo("--allow-partial lets pass what is not compared", err=True)
    return FAILED_CHECK if failed else DONE


def _third(
    reference: Recording, beside: str, rig: str | None, engine: str | None, show: Callable[[str], None]
) -> Comparison:
    """The reference compared with a third walk: a recording, or the reference's goals simulated with another model."""
    from axbridge.comparison import comparison as comparing
    from axbridge.recording.recording import open_recording

    if rig is None or Path(beside).suffix == ".mcap":
        third = open_recording(Path(beside))
        return comparing.compare(reference, third, labels=("", Path(beside).stem))
    from axbridge.config.rig import Rig
    from axbridge.replay.simulate import simulate

    show("simulating the third")
    third = simulate(reference, Rig.load(rig), beside, engine=engine)
    return comparing.compare(reference, third, labels=("", f"simulated, {Path(beside).stem}"), same_clock=True)


def _replay(solid: tuple[Recording, str], ghost: tuple[Recording, str], rig: Rig | None) -> str:
    """The report's replay of two recordings and their labels; empty where there is no body or nothing to see it with.

    Args:
        solid: What was measured.
        ghost: Drawn translucent.
        rig: The robot; None: as the recording says.
    """
    from axbridge.errors import RecordingError, RigError
    from axbridge.view.replay_page import has_body, replay_html

    embodied = has_body(solid[0]) if rig is None else rig.world is not None
    if not embodied:
        return ""
    try:
        return replay_html(solid[0], ghost[0], (solid[1], ghost[1]), rig)
    except (RecordingError, RigError, UsageError) as reason:
        typer.echo(f"note: the report has no replay: {reason}", err=True)
        return ""


def _rig_of(recording: Recording) -> str:
    """Name of the rig that was recorded."""
    name = recording.metadata.get("rig", {}).get("name")
    if not name:
        raise UsageError(f"{recording.path} does not say which rig it is of", "name it with --rig")
    return str(name)


def _labels(first: Path, second: Path) -> tuple[str, str]:
    """The files' names, or with their folders where those are alike."""
    if first.stem != second.stem:
        return first.stem, second.stem
    return str(first), str(second)
