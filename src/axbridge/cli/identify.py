"""`axbridge identify`: recordings into a model that predicts them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axbridge.cli.app import DONE, FAILED_CHECK, app, emit_json
from axbridge.cli.ending import unharmed
from axbridge.cli.options import ForceOption, JsonOption, RigOption, SeedOption, shared
from axbridge.cli.progress import Show, progress
from axbridge.errors import UsageError

if TYPE_CHECKING:
    from axbridge.fit.search import Outcome


@app.command()
@unharmed()
def identify(
    recordings: Annotated[list[Path], typer.Argument(metavar="REC.mcap...", help="What is fitted.")],
    *,
    rig: RigOption = "",
    model: Annotated[
        str,
        shared(
            "--model",
            "pendulum-servo, ax12, lima2009; or lag: delay and lag of each joint, without a rig.",
            metavar="NAME",
        ),
    ],
    out: Annotated[Path, shared("--out", "The parameters.", metavar="PARAMS.toml")],
    method: Annotated[str | None, typer.Option("--method", help="cma, or grid: the paper's scans (lima2009).")] = None,
    servo: Annotated[
        str | None,
        shared("--servo", "Of a robot: what it carries comes from the recorded motion of all."),
    ] = None,
    friction: Annotated[
        str | None, typer.Option("--friction", help="M1 to M6; compare: try all, take the best.")
    ] = None,
    holdout: Annotated[
        list[Path] | None,
        typer.Option("--holdout", metavar="REC.mcap", help="Recording to test the model with, never fitted; repeat."),
    ] = None,
    starts: Annotated[int, typer.Option("--starts", min=1, help="Independent searches, at most.")] = 8,
    budget: Annotated[
        str,
        typer.Option("--budget", help="How much to simulate: what two cores do in about 90s, 2m. No clock is asked."),
    ] = "150s",
    executor: Annotated[str | None, shared("--executor")] = None,
    ks_pairs: Annotated[
        Path | None,
        typer.Option("--ks-pairs", metavar="FILE.csv", help="grid: columns speed (motor, rad/s), volts (open)."),
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="REPORT.html", help="Write a report.")] = None,
    png: Annotated[Path | None, shared("--png")] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REC.mcap=bar:KG,M,M",
            help="A balanced bar (mass, length, width) that a recording's servo turned, or inertia:KGM2; repeat.",
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        shared("--fail-if", "mae, rmse, held_out_mae or held_out_rmse, degrees: rmse>2."),
    ] = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
) -> int:
    """Fit a servo model to recordings, and say how sure each parameter is."""
    from axbridge.comparison.comparison import parse_condition
    from axbridge.config.rig import Rig
    from axbridge.files import check_new
    from axbridge.fit import fit as fitting
    from axbridge.fit import friction_laws as laws
    from axbridge.fit import lima2009 as paper
    from axbridge.fit import params_file as output
    from axbridge.fit.html import ends_text, estimate_table, law_table, score_table, write_page
    from axbridge.fit.loads import loaded_with
    from axbridge.fit.png import write_picture
    from axbridge.fit.unknowns import FRICTION_LAWS
    from axbridge.jit import COMPILED
    from axbridge.recording.recording import open_recording
    from axbridge.replay.joint_load import joint_of_robot
    from axbridge.report.page import table_text

    check_new(out, report, png, force=force, sources=(*recordings, *(holdout or ()), ks_pairs, rig or None))
    if model == "lag":
        if any((report, png, fail_if, holdout, servo, friction, method, load, executor)):
            raise UsageError("--model lag takes --out, --json and nothing else", "leave the other options out")
        return _lags(recordings, out, json=json)
    if not rig:
        raise UsageError("--rig is missing: what the servo moves", "name it; without one there is --model lag")
    for condition in fail_if or ():
        parse_condition(condition, fitting.CONDITIONS)  # a mistake in it should not cost a fit
    loaded = Rig.load(rig)
    kept = {path.resolve() for path in holdout or ()}
    held = [open_recording(path) for path in holdout or ()]
    fitted = [open_recording(path) for path in recordings if path.resolve() not in kept]
    fitted, held = loaded_with(load or [], fitted, held)
    if servo is not None:
        with progress(f"working out what {servo} carries", quiet=json):
            carried, loaded = joint_of_robot([*fitted, *held], loaded, servo)
        fitted, held = carried[: len(fitted)], carried[len(fitted) :]
    if not fitted:
        raise UsageError("every recording is held out", "leave some to fit")
    if friction == "compare" and len(fitted) + len(held) < 2:
        raise UsageError("one recording does not tell friction laws apart", "give more, some of them with --holdout")
    if not COMPILED:
        typer.echo(
            "note: numba is not here, so this takes hours instead of minutes; python -m pip install numba", err=True
        )
    line = paper.ks_line(ks_pairs) if ks_pairs is not None else None
    surfaces: tuple[paper.Surface, ...] = ()
    compared: laws.LawComparison | None = None
    if _by_grid(model, method, friction):
        if executor is not None:
            raise UsageError("the paper's scans run in this process", "leave --executor out, or use --method cma")
        with progress("scanning the paper's grid", quiet=json):
            fit, surfaces = paper.paper_procedure(fitted, loaded, line=line, held_out=held, seed=seed)
    elif friction == "compare":
        with progress("searching", quiet=json, steadily=True) as show:
            fit, compared = laws.compare_laws(
                fitted, loaded, model, held_out=held, starts=starts, budget=_seconds(budget), seed=seed, where=executor,
                report=_searching(show, starts, len(FRICTION_LAWS)),
            )  # fmt: skip
    else:
        with progress("searching", quiet=json, steadily=True) as show:
            fit = fitting.identify(
                fitted,
                loaded,
                model,
                friction=friction,
                held_out=held,
                starts=starts,
                budget=_seconds(budget),
                seed=seed,
                where=executor,
                report=_searching(show, starts),
            )
    output.write_params(fit, out)  # first: a report that cannot be written must not cost the fit
    with progress("writing the report", quiet=json):
        if report is not None:
            write_page(fit, loaded, report, line=line, surfaces=surfaces, laws=compared)
        if png is not None:
            write_picture(fit, loaded, png, compared)
    failed = [found for condition in fail_if or () for found in fitting.check(fit, condition)]
    if json:
        emit_json(output.summary(fit, compared) | {"out": str(out), "failed": failed})
        return _ended(failed)
    print(table_text(estimate_table(fit)))
    print("\n" + table_text(score_table(fit)))
    if compared is not None:
        print("\n" + table_text(law_table(compared)))
    facts = output.summary(fit)
    text = f"\nmean absolute error {facts['mae_deg']:.2f}°"
    if held:
        text += f", held out {facts['held_out_mae_deg']:.2f}°"
    print(f"{text}; {fit.rollouts} rollouts in {fit.seconds:.0f} s")
    if chance := ends_text(fit):
        print(chance)
    for warning in (fit.condition, *([compared.note] if compared is not None and compared.note else ()), *fit.warnings):
        print(f"note: {warning}")
    for path in (out, report, png):
        if path is not None:
            print(f"wrote {path}")
    return _ended(failed)


def _lags(recordings: list[Path], out: Path, *, json: bool) -> int:
    """Delay and lag of the joints of one recording."""
    from axbridge.fit.lag import lag_table, lags_document, write_lags
    from axbridge.recording.recording import open_recording
    from axbridge.replay.lag import lags
    from axbridge.report.page import table_text

    if len(recordings) != 1:
        raise UsageError("--model lag takes one recording", "give one")
    with progress("reading", quiet=json) as show:
        found = lags(open_recording(recordings[0]), show)
    write_lags(found, out, source=recordings[0].name)
    if json:
        emit_json(lags_document(found) | {"out": str(out)})
        return DONE
    print(table_text(lag_table(found)))
    if found.still:
        print(f"\nhardly told to move: {', '.join(found.still)}")
    print(f"wrote {out}")
    return DONE


def _ended(failed: list[str]) -> int:
    for line in failed:
        typer.echo(f"failed: {line}", err=True)
    return FAILED_CHECK if failed else DONE


def _searching(show: Show, starts: int, laws: int = 1) -> Callable[[str, Outcome | None], None]:
    """What shows a fit: the best error of what it is at, and the share of its starts that are done."""
    from axbridge.fit.search import SHARPENED

    total = laws * (starts + SHARPENED) + laws - 1  # all laws but the first begin near a simpler one, too
    best: dict[str, float] = {}  # stages, starts and sharpening minimise different errors
    done = 0

    def report(stage: str, outcome: Outcome | None) -> None:
        nonlocal done
        if outcome is None:
            show(stage)
            return
        best[stage] = min(best.get(stage, float("inf")), outcome.loss)
        done += stage.endswith(("start", "sharpened"))
        show(f"{stage}: best {best[stage]:.2f}°,", min(1.0, done / total))

    return report


def _by_grid(model: str, method: str | None, friction: str | None) -> bool:
    """Whether the paper's scans are asked for: by default for its model."""
    chosen = method or ("grid" if model == "lima2009" else "cma")
    if chosen not in {"grid", "cma"}:
        raise UsageError(f"there is no method {chosen!r}", "choose grid or cma")
    if chosen == "grid" and (model != "lima2009" or friction not in {None, "M1"}):
        raise UsageError("the grid is the paper's: model lima2009, friction M1", "use --method cma for the others")
    return chosen == "grid"


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|min)?", text)
    if match is None:
        raise UsageError(f"{text!r} is no time", "write 90s or 2m")
    return float(match[1]) * (60 if match[2] in {"m", "min"} else 1)
