"""`axbridge identify`: fit a servo model to recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from axbridge.cli.app import DONE, FAILED_CHECK, QUIET, note
from axbridge.cli.options import WRITES, Result, RigOption, opened, seconds, servo_of, verb
from axbridge.cli.progress import progress
from axbridge.comparison.metrics import parse_condition
from axbridge.comparison.page import table_text
from axbridge.config.rig import Rig
from axbridge.errors import Remedy, UsageError, install, require
from axbridge.fit.html import estimate_table, law_table, score_table, write_page
from axbridge.fit.pipeline import CONDITIONS, check
from axbridge.fit.pipeline import identify as fit_to
from axbridge.fit.result import Fit, summary, write_params
from axbridge.jit import COMPILED
from axbridge.recording.provenance import check_different

_BEGIN = "To begin with: a model of the servo's law (`axbridge list models`), a file, or pendulum-servo."
_BAR = "A balanced bar (mass, length, width), or inertia:KGM2; repeat."


@verb("falls.mcap sine.mcap --rig bench_arm --model ax12 --out my_servo.toml")
def identify(
    recordings: Annotated[list[Path], "Recordings to fit.", "REC.mcap..."],
    *,
    rig: RigOption,
    model: Annotated[str, _BEGIN, "NAME|FILE"],
    out: Annotated[Path | None, "The parameters.", "PARAMS.toml", WRITES] = None,
    method: Annotated[str | None, "cma, or grid: the paper's scans (lima2009)."] = None,
    servo: Annotated[list[str] | None, "Of a robot; repeat for one model of several."] = None,
    friction: Annotated[str | None, "M1 to M6; compare: try all, take the best."] = None,
    holdout: Annotated[list[Path] | None, "To test the model with, never fitted; repeat.", "REC.mcap"] = None,
    again: Annotated[list[Path] | None, "Of one held out; repeat."] = None,
    free: Annotated[list[str] | None, "Search this parameter, too: motor.torque_constant …; repeat.", "NAME"] = None,
    starts: Annotated[int, "Largest number of random start points.", {"min": 1}] = 12,
    budget: Annotated[str, "Amount of simulation, as computing time of two cores."] = "150s",
    executor: str | None = None,
    html: Annotated[Path | None, "Write a page that shows the fit.", "PAGE.html", WRITES] = None,
    load: Annotated[list[str] | None, _BAR, "REC.mcap=bar:KG,M,M"] = None,
    fail_if: Annotated[list[str] | None, "Of mae, rmse, held_out_mae, held_out_rmse, °."] = None,
    prove: Annotated[bool, "Test the fit on simulated data whose values are known. Without --out."] = False,
    seed: int = 0,
) -> Result:
    """Fit a servo model to recordings, and say how sure each parameter is."""
    if prove and out is not None:
        raise UsageError("--prove fits simulated data: it gives no model", "leave --out out")
    if not prove and out is None:
        raise UsageError("--out is missing", "add --out PARAMS.toml")
    for condition in fail_if or ():
        parse_condition(condition, CONDITIONS)  # before the fit, which takes minutes
    kept = {path.resolve() for path in holdout or ()}
    require("fitting a model", "scipy", "cma")
    if not COMPILED:
        note(f"numba is not here, so this takes hours instead of minutes; {install('numba')}")
    robot = Rig.load(rig)
    names = [servo_of(robot, name).name for name in servo or ()]
    with progress("reading") as show:
        fitted = [opened(path) for path in recordings if path.resolve() not in kept]
        held_out, repeats = ([opened(path) for path in paths or ()] for paths in (holdout, again))
        check_different([*fitted, *held_out, *repeats])
        fit = fit_to(
            fitted, rig, model,
            method=method, friction=friction, servo=names or None, loads=load or (), starts=starts,
            held_out=held_out, free=free or (), seed=seed, report=show,
            again=repeats, budget=seconds(budget), where=executor, prove=prove,
            before=None if QUIET.get() else lambda lines: note(*lines, kind="before"),
        )  # fmt: skip
    failed = [failure for condition in fail_if or () for failure in check(fit, condition)]
    if not prove and fit.verdict.worse:
        worse = " and ".join(fit.verdict.worse)
        failed.append(f"it predicts worse than {worse}: begin with another --model, or --free")
    facts = summary(fit) | {"out": None if out is None else str(out), "failed": failed}
    note(*failed, kind="failed")

    def report() -> Iterator[str]:
        yield from _in_words(fit)
        for path, write in ((out, write_params), (html, write_page)):
            if path is not None:
                with progress("writing the report"):
                    write(fit, path)
                yield f"wrote {path}"
        if out is not None:
            yield f"next: {Remedy('compare', recordings[0], rig=rig, model=out)}"

    return Result(facts, report(), FAILED_CHECK if failed else DONE)


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
