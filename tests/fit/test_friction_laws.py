import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.recorded_runs import runs_of
from axbridge.fit.friction_laws import allowing_for, chosen_law, compare_laws, independent, richer_law
from axbridge.fit.least_squares import polish
from axbridge.fit.pipeline import fit_model
from axbridge.fit.prepare import prepare
from axbridge.fit.result import LawComparison, LawScore
from axbridge.fit.unknowns import FRICTION_LAWS, richer_than, space_of
from axbridge.recording.stored import write_recording
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts
from tests.fit.test_identify import RIG, ax12_truth, motion
from tests.support.warm import run

pytestmark = pytest.mark.slow


def several(**friction):
    """Return an AX-12 with this friction, and steps and falls of it."""
    row = ax12_truth()
    for name, value in friction.items():
        row[Param[name]] = value
    made = [motion(row, step=math.radians(angle), seed=k) for k, angle in enumerate((20, 60, 120, -45))]
    made += [motion(row, step=angle, fall=True, seed=5 + k) for k, angle in enumerate((1.2, 2.0, 0.9))]
    return row, [replace(run, path=Path(f"{k}.mcap")) for k, run in enumerate(made)]


def recordings(**friction):
    """Return these recordings, with a step and a fall held out."""
    _, made = several(STRIBECK_SPEED=0.4, **friction)
    return [*made[:3], *made[4:6]], [made[3], made[6]]


@pytest.mark.ci
@pytest.mark.parametrize("friction", [{}, {"COULOMB": 1e-4, "STRIBECK": 0.01, "LOAD": 0.25, "LOAD_STRIBECK": 0.3}])
def test_plain_friction_is_chosen_only_for_data_with_plain_friction(spread, monkeypatch, friction):
    two = {law: FRICTION_LAWS[law] for law in ("M1", "M4")}  # all six laws take three times as long
    monkeypatch.setattr("axbridge.fit.friction_laws.FRICTION_LAWS", two)
    fitted, held = recordings(**friction)
    fitting = partial(fit_model, starts=1, generations=60 if friction else 20)
    fit = compare_laws(partial(prepare, fitted, RIG, "ax12", held_out=held), fitting, budget=20, where=spread)
    plain, both = fit.laws.scores
    assert [(score.law, score.parameters) for score in (plain, both)] == [("M1", 7), ("M4", 11)]
    assert fit.laws.chosen == fit.friction
    assert plain.tied == (not friction)
    assert both.tied or not friction


@pytest.mark.ci
def test_the_command_shows_the_comparison_of_laws_in_all_outputs(tmp_path):
    fitted, held = recordings()
    for recording in (fitted[1], held[0]):
        write_recording(recording, tmp_path / recording.path.name)
    done = run(
        "identify", "1.mcap", "--holdout", "3.mcap", "--rig", "bench_arm", "--model", "ax12", "--friction", "compare",
        "--starts", "1", "--budget", "0.2s", "--out", "p.toml", "--html", "p.html", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    laws = {entry["law"]: entry for entry in result["friction_laws"]}
    assert list(laws) == ["M1", "M2", "M3", "M4", "M5", "M6"]
    assert [entry["parameters"] for entry in laws.values()] == [7, 9, 8, 11, 13, 14]
    assert laws[result["friction"]]["chosen"]
    assert f'law = "{result["friction"]}"' in (tmp_path / "p.toml").read_text()
    assert "friction laws; chosen" in (tmp_path / "p.html").read_text()


def score(law, parameters, held_out, behind, error, bic=0.0):
    return LawScore(law, parameters, 0.1, held_out, behind, error, bic)


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ([score("M1", 7, 0.30, 0.10, 0.02), score("M4", 11, 0.20, 0.0, 0.0), score("M6", 13, 0.21, 0.01, 0.02)], "M4"),
        ([score("M1", 7, 0.23, 0.03, 0.02), score("M4", 11, 0.20, 0.0, 0.0)], "M1"),
        ([score("M1", 7, 0.25, 0.05, 0.02), score("M4", 11, 0.20, 0.0, 0.0)], "M4"),
        ([score("M1", 7, math.nan, math.nan, 0.0, 5.0), score("M2", 9, math.nan, math.nan, 0.0, 3.0)], "M2"),
    ],
)
def test_the_tied_law_with_the_fewest_parameters_is_chosen(scores, chosen):
    assert chosen_law(scores) == chosen


def test_laws_that_the_data_do_not_separate_are_named():
    tied = LawComparison((score("M1", 7, 0.21, 0.01, 0.02), score("M4", 11, 0.20, 0.0, 0.0)), "M1", "")
    assert tied.note.startswith("the held-out recordings do not separate M1 from M4; hold out ")
    clear = LawComparison((score("M1", 7, 0.30, 0.10, 0.02), score("M4", 11, 0.20, 0.0, 0.0)), "M4", "")
    assert not clear.note


@pytest.mark.ci
def test_a_richer_law_starts_at_the_end_of_the_law_it_contains(spread):
    fitted, _ = recordings()
    truth = ax12_truth()
    problem = prepare(fitted, RIG, "ax12", friction="M4", near=truth)
    fit = fit_model(problem, starts=1, generations=1, budget=1, where=spread)
    runs = runs_of(fitted, RIG)
    true, result = (np.mean((rollouts(row[None], runs)[0] - runs.position) ** 2) for row in (truth, fit.row))
    assert result < 1.02 * true


def inside(fit, row, column):
    (result,) = (estimate for estimate in fit.estimates if estimate.unknown.column is column)
    return result.low <= row[column] <= result.high


@pytest.mark.ci
def test_intervals_with_a_richer_law_contain_friction_that_the_fits_law_lacks(spread):
    row, data = several(COULOMB=0.01, STRIBECK=0.02, STRIBECK_SPEED=0.2)
    problem = prepare(data, RIG, "ax12", near=ax12_truth())
    fit = fit_model(problem, starts=1, generations=1, budget=0, richer=False, where=spread)
    point = fit.space.point(fit.row)
    richer = richer_law(fit.space, "M1", runs_of(data, RIG), point, generations=100, seed=0, mapper=spread)
    assert not inside(fit, row, Param.ARMATURE)
    assert "may lie outside" in fit.condition
    wide = allowing_for(fit, richer)
    assert inside(wide, row, Param.COULOMB)
    assert inside(wide, row, Param.ARMATURE)
    assert wide.allowed == richer.law
    assert f"law M1 or {richer.law}" in wide.condition
    for narrow, wider in zip(fit.estimates, wide.estimates, strict=True):
        assert wider.low <= narrow.low < narrow.high <= wider.high
        assert narrow.value == wider.value
    assert "call for no law with more terms" in allowing_for(fit, None).condition


@pytest.mark.ci
def test_small_stiction_is_detected_if_errors_are_independent(monkeypatch):
    monkeypatch.setattr("axbridge.fit.friction_laws.richer_than", lambda _law: ("M2",))  # all five laws take longer
    _, data = several(COULOMB=0.01, STRIBECK=0.0015, STRIBECK_SPEED=0.3)
    runs, space = runs_of(data, RIG), space_of("ax12", "M1", ax12_truth())
    point = polish(space, runs, space.point(ax12_truth()))
    result = richer_law(space, "M1", runs, point, generations=1, seed=0, mapper=map)
    assert result is not None
    assert result.law == "M2"


@pytest.mark.parametrize("lasting", [1, 10])
def test_samples_with_correlated_errors_count_as_few(lasting):
    runs = runs_of(several()[1], RIG)
    count = len(runs.time)
    error = np.repeat(np.random.default_rng(1).normal(size=count // lasting), lasting)[:count]
    assert independent(runs, runs.position + error) == pytest.approx(count / lasting, rel=0.25)


@pytest.mark.parametrize(
    ("friction", "tried"),
    [({}, set()), ({"COULOMB": 0.01, "STRIBECK": 0.02, "STRIBECK_SPEED": 0.2}, {"M2", "M4"})],
    ids=["M1", "M2"],
)
def test_richer_laws_are_tried_only_if_the_residuals_suggest_them(friction, tried):
    _, data = several(**friction)
    runs, space, reports = runs_of(data, RIG), space_of("ax12", "M1", ax12_truth()), []

    def ends(_function, jobs):
        reports.append("tried")
        return [job.point for job in jobs]

    point = polish(space, runs, space.point(ax12_truth()))
    richer_law(
        space, "M1", runs, point, generations=1, seed=0, mapper=ends, report=lambda what, _: reports.append(what)
    )  # fmt: skip
    if tried:
        assert reports[1] == "tried"
        assert tried <= set(reports[0].removeprefix("richer friction laws: ").split(", "))
    else:
        assert reports == []


def test_the_law_with_all_terms_has_no_richer_one():
    assert richer_than("M6") == ()
    assert richer_than("M3") == ("M4", "M5", "M6")
    row, data = several()
    space = space_of("ax12", "M6", row)
    runs = runs_of(data[:1], RIG)
    assert richer_law(space, "M6", runs, space.point(row), generations=1, seed=0, mapper=map) is None
