"""Intervals when the friction law is wrong: they allow for a richer law where the recordings call for one, and not else."""

import math

import numpy as np
import pytest

from axbridge.comparison.recorded_runs import runs_of
from axbridge.fit.least_squares import polish
from axbridge.fit.pipeline import allowing_for, fit_model
from axbridge.fit.richer_laws import independent, richer_law
from axbridge.fit.unknowns import enriched, richer_than, space_of
from axbridge.servo.columns import Param
from tests.fit.test_identify import RIG, ax12_truth, motion

pytestmark = pytest.mark.slow


def recordings(**friction):
    """Steps and falls of an AX-12 with that friction."""
    row = ax12_truth()
    for name, value in friction.items():
        row[Param[name]] = value
    made = [motion(row, step=math.radians(angle), seed=k) for k, angle in enumerate((20, 60, 120, -45))]
    return row, [*made, *(motion(row, step=angle, fall=True, seed=5 + k) for k, angle in enumerate((1.2, 2.0, 0.9)))]


def inside(fit, row, column):
    (found,) = (estimate for estimate in fit.estimates if estimate.unknown.column is column)
    return found.low <= row[column] <= found.high


@pytest.mark.ci
def test_stiction_that_the_law_lacks_is_within_the_intervals_that_allow_for_it(spread):
    row, data = recordings(COULOMB=0.01, STRIBECK=0.02, STRIBECK_SPEED=0.2)
    fit = fit_model(data, RIG, "ax12", near=ax12_truth(), starts=1, generations=1, budget=0, richer=False, where=spread)
    point = fit.space.point(fit.row)
    richer = richer_law(fit.space, "M1", runs_of(data, RIG), point, generations=100, seed=0, spread=spread)
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
def test_a_little_more_friction_at_rest_is_seen_where_errors_do_not_last(monkeypatch):
    monkeypatch.setattr("axbridge.fit.richer_laws.richer_than", lambda _law: ("M2",))  # all five take longer
    _, data = recordings(COULOMB=0.01, STRIBECK=0.0015, STRIBECK_SPEED=0.3)
    runs, space = runs_of(data, RIG), space_of("ax12", "M1", ax12_truth())
    point = polish(space, runs, space.point(ax12_truth()))
    found = richer_law(space, "M1", runs, point, generations=1, seed=0, spread=map)
    assert found is not None
    assert found.law == "M2"


@pytest.mark.parametrize("lasting", [1, 10])
def test_samples_whose_errors_last_count_as_few(lasting):
    runs = runs_of(recordings()[1], RIG)
    count = len(runs.time)
    error = np.repeat(np.random.default_rng(1).normal(size=count // lasting), lasting)[:count]
    assert independent(runs, runs.position + error) == pytest.approx(count / lasting, rel=0.25)


@pytest.mark.parametrize(
    ("friction", "tried"),
    [({}, set()), ({"COULOMB": 0.01, "STRIBECK": 0.02, "STRIBECK_SPEED": 0.2}, {"M2", "M4"})],
    ids=["M1", "M2"],
)
def test_laws_are_tried_only_where_the_residuals_ask_for_them(friction, tried):
    _, data = recordings(**friction)
    runs, space, said = runs_of(data, RIG), space_of("ax12", "M1", ax12_truth()), []

    def ends(_function, jobs):
        said.append("tried")
        return [job.point for job in jobs]

    point = polish(space, runs, space.point(ax12_truth()))
    richer_law(
        space, "M1", runs, point, generations=1, seed=0, spread=ends, report=lambda what, _: said.append(what)
    )  # fmt: skip
    if tried:
        assert said[1] == "tried"
        assert tried <= set(said[0].removeprefix("richer friction laws: ").split(", "))
    else:
        assert said == []


def test_the_law_with_all_terms_has_no_richer_one():
    assert richer_than("M6") == ()
    assert richer_than("M3") == ("M4", "M5", "M6")
    row, data = recordings()
    space = space_of("ax12", "M6", row)
    runs = runs_of(data[:1], RIG)
    assert richer_law(space, "M6", runs, space.point(row), generations=1, seed=0, spread=map) is None


def test_a_richer_law_has_the_unknowns_of_the_model_and_its_own():
    plain = space_of("ax12", "M1", ax12_truth())
    assert {one.name for one in enriched(plain, "M2").unknowns} - {one.name for one in plain.unknowns} == {
        "friction.stribeck", "friction.stribeck_speed",
    }  # fmt: skip
