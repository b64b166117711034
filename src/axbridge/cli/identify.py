"""`axbridge identify`: fit a servo model to recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from axbridge.cli.app import DONE, FAILED_CHECK, app, note, report
from axbridge.cli.options import ForceOption, JsonOption, RigOption, SeedOption, opened, seconds, servo_of, shared
from axbridge.cli.progress import progress
from axbridge.comparison.metrics import parse_condition
from axbridge.comparison.page import table_text
from axbridge.config.rig import Rig
from axbridge.errors import UsageError, install, require
from axbridge.files import check_new
from axbridge.fit.html import estimate_table, law_table, score_table, write_page
from axbridge.fit.pipeline import CONDITIONS, check
from axbridge.fit.pipeline import identify as fit_to
from axbridge.fit.result import Fit, summary, write_params
from axbridge.jit import COMPILED


@app.command(epilog="falls.mcap sine.mcap --rig bench_arm --model ax12 --out my_servo.toml")
def identify(
    recordings: Annotated[list[Path], typer.Argument(metavar="REC.mcap...", help="Recordings to fit.")],
    *,
    rig: RigOption,
    model: Annotated[
        str,
        shared(
            "--model",
            "To begin with: a model of the servo's law (`axbridge list models`), a file, or pendulum-servo.",
            metavar="NAME|FILE",
        ),
    ],
    out: Annotated[Path | None, shared("--out", "The parameters.", metavar="PARAMS.toml")] = None,
    method: Annotated[str | None, typer.Option(help="cma, or grid: the paper's scans (lima2009).")] = None,
    servo: Annotated[list[str] | None, shared("--servo", "Of a robot; repeat for one model of several.")] = None,
    friction: Annotated[str | None, typer.Option(help="M1 to M6; compare: try all, take the best.")] = None,
    holdout: Annotated[
        list[Path] | None, typer.Option(metavar="REC.mcap", help="To test the model with, never fitted; repeat.")
    ] = None,
    again: Annotated[list[Path] | None, shared("--again", "Of one held out; repeat.")] = None,
    free: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Search this parameter, too: motor.torque_constant …; repeat."),
    ] = None,
    starts: Annotated[int, typer.Option(min=1, help="Number of random points to begin at, at most.")] = 12,
    budget: Annotated[str, typer.Option(help="How much to simulate: what two cores do in such a time.")] = "150s",
    executor: Annotated[str | None, shared("--executor")] = None,
    html: Annotated[Path | None, typer.Option(metavar="PAGE.html", help="Write a page that shows the fit.")] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REC.mcap=bar:KG,M,M", help="A balanced bar (mass, length, width), or inertia:KGM2; repeat."
        ),
    ] = None,
    fail_if: Annotated[list[str] | None, shared("--fail-if", "Of mae, rmse, held_out_mae, held_out_rmse, °.")] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Test the fit on simulated data whose values are known. Without --out.")
    ] = False,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
) -> int:
    """Fit a servo model to recordings, and say how sure each parameter is."""
    if prove and out is not None:
        raise UsageError("--prove fits simulated data: it gives no model", "leave --out out")
    if not prove and out is None:
        raise UsageError("--out is missing", "add --out PARAMS.toml")
    check_new(out, html, force=force, sources=(*recordings, *(holdout or ()), *(again or ()), rig))
    for condition in fail_if or ():
        parse_condition(condition, CONDITIONS)  # before the fit, which takes minutes
    kept = {path.resolve() for path in holdout or ()}
    require("fitting a model", "scipy", "cma")
    if not COMPILED:
        note(f"numba is not here, so this takes hours instead of minutes; {install('numba')}")
    robot = Rig.load(rig)
    names = [servo_of(robot, name).name for name in servo or ()]
    with progress("reading", quiet=json) as show:
        fit = fit_to(
            [opened(path) for path in recordings if path.resolve() not in kept], robot, model,
            method=method, friction=friction, servo=names or None, loads=load or (), starts=starts,
            held_out=[opened(path) for path in holdout or ()], free=free or (), seed=seed, report=show,
            again=[opened(path) for path in again or ()], budget=seconds(budget), where=executor, prove=prove,
            before=None if json else lambda lines: note(*lines, kind="before"),
        )  # fmt: skip
    failed = [failure for condition in fail_if or () for failure in check(fit, condition)]
    if not prove and fit.verdict.worse:
        worse = " and ".join(fit.verdict.worse)
        failed.append(f"it predicts worse than {worse}: begin with another --model, or --free")
    facts = summary(fit) | {"out": None if out is None else str(out), "failed": failed}
    report("identify-1", facts, _in_words(fit), json=json)  # before writing: a full disk must not lose the result
    if out is not None:
        write_params(fit, out)
    if html is not None:
        with progress("writing the report", quiet=json):
            write_page(fit, html)
    lines = [f"wrote {path}" for path in (out, html) if path is not None]
    lines += [] if out is None else [f"next: axbridge compare {recordings[0]} --rig {rig} --model {out}"]
    for line in () if json else lines:
        print(line)
    note(*failed, kind="failed")
    return FAILED_CHECK if failed else DONE


def _in_words(fit: Fit) -> list[str]:
    lines = [table_text(estimate_table(fit)), "", table_text(score_table(fit)), ""]
    laws, facts = fit.laws, summary(fit)
    lines += [] if laws is None else [table_text(law_table(laws)), ""]
    text = f"mean absolute error {facts['mae_deg']:.2f}°"
    if facts["held_out_mae_deg"] is not None:
        text += f", held out {facts['held_out_mae_deg']:.2f}°"
    lines += [f"{text}; {fit.rollouts} simulations in {fit.seconds:.0f} s"]
    lines += [f"verdict: {fit.verdict}"] if fit.truth is None else []
    notes = (fit.condition, *([laws.note] if laws is not None and laws.note else ()), *fit.warnings)
    return [*lines, *(f"note: {note}" for note in notes)]
