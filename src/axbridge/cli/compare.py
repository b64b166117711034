"""`axbridge compare`: compare two recordings, or a recording with its simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from axbridge import Recording, Rig, open_recording
from axbridge.cli.app import DONE, FAILED_CHECK, note
from axbridge.cli.options import MODELS, WRITES, Result, check_needs, names_rig, servo_of, shared, verb
from axbridge.cli.progress import Show, progress
from axbridge.comparison import tables
from axbridge.comparison.comparison import METRICS, Comparison, check, following, lacks, summary
from axbridge.comparison.comparison import compare as compare_recordings
from axbridge.comparison.html import write_html
from axbridge.comparison.lag import check_repeat
from axbridge.comparison.metrics import parse_condition
from axbridge.comparison.page import table_text
from axbridge.comparison.png import write_png
from axbridge.comparison.simulate import simulate, visible
from axbridge.comparison.walks import WalkSide, document, is_walk, sides_of, walk_headline, walk_table
from axbridge.errors import UsageError, require
from axbridge.file_reading import printable
from axbridge.recording.provenance import check_different, rig_of

_WALKS = "a second --model or --beside is for walks, and not all of these are walks"
_KINDS = {"sim": "simulated", "real": "real", "twin": "real", "imported": "imported"}
_OTHER = "A recording, or a rig: see --rig. Default: the recorded goals."
_MODEL = shared("--model", f"{MODELS}; for walks you can give two.", "--params")
_OUT = shared("--out", "A page, or a picture; repeat for both.", "--html", metavar="FILE.html|FILE.png")


@verb("real.mcap --rig bench_arm --out report.html")
def compare(
    recording: Annotated[Path, "The recording to compare with.", "REAL.mcap"],
    other: Annotated[Path | None, _OTHER, "SIM.mcap|RIG"] = None,
    *,
    rig: Annotated[str | None, "The recorded goals are simulated on it, to compare with."] = None,
    model: Annotated[list[str] | None, _MODEL] = None,
    beside: Annotated[Path | None, "A third recording of a walk.", "THIRD.mcap"] = None,
    again: Path | None = None,
    engine: str | None = None,
    servo: Annotated[str | None, "Compare this one only."] = None,
    out: Annotated[list[Path] | None, _OUT, WRITES] = None,
    fail_if: Annotated[list[str] | None, "Also 1 if something could not be compared."] = None,
    allow_partial: Annotated[bool, "With --fail-if: accept what was not compared."] = False,
) -> Result:
    """Compare two motions: print how far apart they are, and write a page or a picture.

    --engine simulates the recorded goals, on the rig that was recorded unless --rig names one.
    """
    if rig is None and names_rig(other):
        rig, other = str(other), None
    if other is not None and (rig is not None or engine is not None):
        raise UsageError("both a second recording and something to simulate are given", "give one of them")
    check_needs(rig, model=model)
    for condition in fail_if or ():
        parse_condition(condition, METRICS)  # before the simulation
    first, *more = model or [""]  # "": the rig's model
    if len(more) + (beside is not None) > 1:
        raise UsageError("a picture holds three walks at most", "give a second --model, or --beside")
    if any(path.suffix not in {".html", ".png"} for path in out or ()):
        raise UsageError("a comparison is written as a page or a picture", "name it .html or .png")
    require("a comparison", "scipy", *(["matplotlib"] if any(path.suffix == ".png" for path in out or ()) else []))
    with progress("reading") as show:
        reference = open_recording(recording)
        floor = None
        if again is not None:
            repeat = open_recording(again)
            check_different([reference, repeat])
            check_repeat(reference, repeat)
            floor = compare_recordings(reference, repeat, labels=("recorded", "repeat"))
        if rig is None and engine is not None:
            name = reference.metadata.get("rig", {}).get("name")
            if not name:
                raise UsageError(f"{reference.path} does not say which rig it is of", "name it with --rig")
            rig = str(name)
        loaded = None if rig is None else Rig.load(rig)
        if (more or beside is not None) and not (is_walk(reference) and servo is None):
            raise UsageError(_WALKS, "record walks: axbridge walk --record")
        result = _compared(reference, other, loaded, first or None, engine, show)
        third = _compared(reference, None, loaded, more[0], engine, show) if more else None
        if beside is not None:
            third = replace(_compared(reference, beside, None, None, None, show), labels=("", beside.stem))
        show("comparing")
        if servo is not None:
            result = _of_servo(result, servo)
        walks = sides_of(result, third) if servo is None else []
        if third is not None and not walks:
            raise UsageError(_WALKS, "record walks: axbridge walk --record")
        failed = [line for condition in fail_if or () for line in check(result, condition)]
        lacking = lacks(result)
        if fail_if and not allow_partial:
            failed += lacking
        facts, lines = _in_words(result, floor, walks)
    note(*result.doubts)
    note(*(line for line in lacking if line not in failed))
    note(*failed, kind="failed")
    if lacking and fail_if and not allow_partial:
        typer.echo("--allow-partial lets pass what is not compared", err=True)

    def report() -> Iterator[str]:
        yield from lines
        for path in out or ():
            with progress("writing the report") as show:
                if path.suffix == ".png":
                    write_png(result, path)
                else:
                    write_html(result, path, again=floor, walks=walks, progress=show)
            yield f"wrote {path}"

    return Result(facts | {"failed": failed}, report(), FAILED_CHECK if failed else DONE)


def _of_servo(result: Comparison, servo: str) -> Comparison:
    recorded = result.reference
    is_name = servo in recorded or not recorded.metadata.get("rig")  # else it may be an id
    name = servo if is_name else servo_of(rig_of(recorded), servo).name
    pairs = tuple(pair for pair in result.pairs if pair.name == name)
    if not pairs:
        why = result.missing.get(name, "it was not recorded")
        there = ", ".join(pair.name for pair in result.pairs)
        raise UsageError(f"{name} cannot be compared: {why}", f"there are: {there}")
    return replace(result, pairs=pairs, missing={})


def _compared(
    reference: Recording, other: Path | None, rig: Rig | None, model: str | None, engine: str | None, show: Show
) -> Comparison:
    """Compare the reference with its simulation on the rig, else with the other recording, else with its own goals."""
    if rig is not None:
        show("simulating")
        simulated = simulate(reference, rig, model, engine=engine)
        labels = ("recorded", f"simulated, {model}" if model and is_walk(reference) else "simulated")
        return compare_recordings(visible(reference, rig), simulated, labels=labels, same_clock=True, progress=show)
    if other is None:
        return following(reference, progress=show)
    measured = open_recording(other)
    return compare_recordings(reference, measured, labels=_labels(reference, measured), progress=show)


def _in_words(result: Comparison, floor: Comparison | None, walks: list[WalkSide]) -> tuple[dict[str, Any], list[str]]:
    sides = (result,) if floor is None else (result, floor)
    errors = tables.errors_beside(*sides)
    names = ("perfect_servo", "delay_and_lag", "model", "repeat")
    simpler = {
        servo: {name: {"mae": error.mae, "rmse": error.rmse} for name, error in zip(names, beside, strict=False)}
        for servo, beside in errors.items()
    }
    figures = summary(result) | ({"walks": document(walks)} if walks else {}) | {"while_driven": simpler}
    lines = [printable(walk_headline(walks) or tables.headline(result), lines=True), ""]
    lines += [table_text(walk_table(walks)), ""] if walks else []
    lines.append(table_text(tables.deviation_table(result)))
    beside = tables.beside_table(errors, *sides)
    for table in (*([] if beside is None else [beside]), *tables.response_tables(result, result.pairs[0])):
        lines += ["", table_text(table)]
    return figures, lines


def _labels(first: Recording, second: Recording) -> tuple[str, str]:
    """Return labels such as ``bench_arm, real`` and ``bench_arm, simulated``; equal labels get the file names."""
    kinds = _kind(first), _kind(second)
    if kinds[0] != kinds[1]:
        return kinds
    alike = first.path.stem == second.path.stem
    left, right = (f"{side.path if alike else side.path.stem} ({kinds[0]})" for side in (first, second))
    return left, right


def _kind(recording: Recording) -> str:
    rig = recording.metadata.get("rig") or {}
    name = rig.get("name") or recording.metadata.get("source") or recording.path.stem
    kind = _KINDS.get(str(recording.metadata.get("backend")), "recorded")
    served = kind == "real" and recording.metadata.get("servos") == "virtual"
    return f"{name}, {'virtual servos' if served else kind}"
