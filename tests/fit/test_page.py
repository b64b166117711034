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
from axbridge.fit.result import summary
from axbridge.sim.runs import Regime
from tests.fit.test_identify import ax12_data, ax12_truth

pytestmark = pytest.mark.slow

RIG = Rig.load("bench_arm")


@pytest.fixture(scope="module")
def fit(spread):
    short = (replace(one, tracks={"shoulder": one["shoulder"].between(0.0, 0.45)}) for one in ax12_data(ax12_truth()))
    step, *others = short
    held = [replace(step, path=step.path.with_name("unseen.mcap"))]
    return identify(others, RIG, "ax12", held_out=held, starts=1, generations=2, budget=1.0, richer=False, where=spread)


def test_residuals_are_what_the_measurement_has_more_than_the_simulation_as_on_the_live_page(fit, tmp_path):
    traces = trace_panels(fit)
    for trace, score in zip(traces, fit.scores, strict=True):
        measured, simulated = trace.curves
        (left,) = residual_panel(trace).curves
        np.testing.assert_allclose(simulated.y + left.y, measured.y)
        assert np.mean(np.abs(left.y)) == pytest.approx(score.mae, rel=0.05)
    write_page(fit, tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text()
    assert page.count("residual, °") == len(traces) == 4
    assert "<figcaption>unseen: " in page


def test_what_was_followed_is_not_shown_as_simulated(fit):
    driven = fit.runs.driven.copy()
    driven[5:20] = Regime.FOLLOWED
    followed = replace(fit, runs=fit.runs._replace(driven=driven))
    measured, simulated = trace_panels(followed)[0].curves
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(simulated.y)), np.arange(5, 20))
    assert not np.isnan(measured.y).any()


def test_json_has_null_where_a_score_is_not_known(fit, capsys):
    unknown = dict.fromkeys(("chance", "perfect", "lagging", "floor"), math.nan)
    scores = tuple(replace(score, **unknown) for score in fit.scores)
    emit_json("identify-1", summary(replace(fit, scores=scores)))
    text = capsys.readouterr().out
    assert "NaN" not in text
    for found, score in zip(json.loads(text)["recordings"], fit.scores, strict=True):
        assert found["mae"] == score.mae
        assert [found[key] for key in unknown] == [None] * 4
