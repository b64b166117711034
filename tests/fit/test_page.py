"""The page of a fit shows every recording, and what the fit leaves of it; its JSON has null where nothing is known."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from axbridge.cli.app import emit_json
from axbridge.config.rig import Rig
from axbridge.fit import identify
from axbridge.fit.html import residual_panel, trace_panels, write_page
from axbridge.fit.params_file import summary
from axbridge.sim.runs import Regime
from tests.fit.test_identify import ax12_data, ax12_truth
from tests.support.made_once import made_once

pytestmark = pytest.mark.slow

RIG = Rig.load("bench_arm")


@pytest.fixture(scope="module")
def fit(request, tmp_path_factory):
    return made_once(tmp_path_factory, "fit_of_a_page", lambda _: fitted_with(request.getfixturevalue("spread")))


def fitted_with(spread):
    short = (replace(one, tracks={"shoulder": one["shoulder"].between(0.0, 0.45)}) for one in ax12_data(ax12_truth()))
    step, *others = short
    fitted = [replace(others[k % 3], path=step.path.with_name(f"fitted-{k}.mcap")) for k in range(13)]
    held = [replace(step, path=step.path.with_name("unseen.mcap"))]
    return identify(fitted, RIG, "ax12", held_out=held, starts=1, generations=2, budget=1.0, richer=False, where=spread)


def test_residuals_are_what_the_measurement_has_more_than_the_simulation_as_on_the_live_page(fit):
    traces = trace_panels(fit)
    residuals = [residual_panel(trace) for trace in traces]
    assert len(residuals) == 14
    for trace, residual, score in zip(traces, residuals, fit.scores, strict=True):
        measured, simulated = trace.curves
        (left,) = residual.curves
        np.testing.assert_allclose(simulated.y + left.y, measured.y)
        assert np.mean(np.abs(left.y)) == pytest.approx(score.mae, rel=0.05)


def test_what_was_followed_is_not_shown_as_simulated(fit):
    driven = fit.runs.driven.copy()
    driven[5:20] = Regime.FOLLOWED
    followed = replace(fit, runs=fit.runs._replace(driven=driven))
    measured, simulated = trace_panels(followed)[0].curves
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(simulated.y)), np.arange(5, 20))
    assert not np.isnan(measured.y).any()


def test_the_page_has_every_recording_and_its_residual(fit, tmp_path):
    write_page(fit, tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text()
    assert page.count("residual, °") == 14
    assert "<figcaption>unseen: " in page


def test_json_has_null_where_a_score_is_not_known(fit, capsys):
    scores = [
        replace(score, chance=math.nan, perfect=math.nan, lagging=math.nan, floor=math.nan) for score in fit.scores
    ]
    emit_json("identify-1", summary(replace(fit, scores=tuple(scores))))

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    for found, score in zip(
        json.loads(capsys.readouterr().out, parse_constant=refuse)["recordings"], fit.scores, strict=True
    ):
        assert found["mae"] == score.mae
        assert [found[key] for key in ("chance", "perfect", "lagging", "floor")] == [None] * 4
