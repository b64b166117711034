"""Recordings in short parts."""

from dataclasses import replace

import numpy as np
import pytest

from axbridge.comparison.recorded_runs import runs_of
from axbridge.fit.intervals import uncertainty
from axbridge.fit.residuals import parts, speeds
from axbridge.fit.search import Job, losses
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import Regime
from tests.fit.test_identify import RIG, ax12_data, ax12_space, ax12_truth


@pytest.fixture(scope="module")
def runs():
    return runs_of(ax12_data(ax12_truth()), RIG)  # three steps and a fall, 1.5 s each


def test_parts_together_are_the_recordings(runs):
    cut = parts(runs, lengths=(1.0,))
    assert cut.recordings == 2 * runs.recordings
    np.testing.assert_array_equal(cut.position, runs.position)
    assert np.ptp(cut.time[cut.start[0] : cut.start[1]]) == pytest.approx(0.75, abs=0.02)


def test_each_length_has_all_the_parts(runs):
    short, long, both = parts(runs, lengths=(0.4,)), parts(runs, lengths=(1.0,)), parts(runs, lengths=(0.4, 1.0))
    assert both.recordings == short.recordings + long.recordings
    np.testing.assert_array_equal(both.position, np.concatenate((short.position, long.position)))
    np.testing.assert_array_equal(both.supply, np.concatenate((short.supply, long.supply)))
    assert np.diff([both.time[a] for a in both.start[:4]]).max() < 0.4


def test_the_truth_predicts_parts_from_what_was_measured_at_their_start(runs):
    cut = parts(runs)
    error = np.degrees(np.abs(rollouts(ax12_truth()[None], cut)[0] - cut.position))
    assert cut.means(error).max() < 1.0  # noise and whole counts at the start of each


def test_speeds_are_the_slopes_of_the_positions(runs):
    time = runs.time
    swing = runs._replace(position=np.sin(3 * time))
    found = speeds(swing)
    wanted = 3 * np.cos(3 * time)
    for a, b in zip(runs.start[:-1], runs.start[1:], strict=True):
        np.testing.assert_allclose(found[a + 4 : b - 4], wanted[a + 4 : b - 4], atol=0.06)


def test_an_arm_that_is_held_is_in_no_part(runs):
    held = runs._replace(driven=np.where(runs.time < 0.3, Regime.HELD, runs.driven))
    assert parts(held).time.min() >= 0.3
    assert parts(runs._replace(driven=np.full(len(runs.time), Regime.HELD))) is None


def test_parts_are_fitted_in_place_of_the_recordings():
    row = ax12_truth()
    space, runs = ax12_space(), runs_of(ax12_data(row)[:2], RIG)
    point = np.full((1, len(space)), 0.4)
    job = Job(space, runs, seed=0, generations=1, parts=parts(runs))
    whole = replace(job, parts=None).cost(point, 1e-3)[0]
    assert whole == pytest.approx(losses(space, runs, point).mean())
    by_length = np.average(losses(space, parts(runs), point)[0], weights=parts(runs).compared)
    assert job.cost(point, 1e-3)[0] == pytest.approx(by_length)
    assert job.cost(point, 1e-3)[0] != pytest.approx(whole, rel=1e-6)  # each part begins where the arm was measured


def test_a_slip_that_a_fit_counts_squared_makes_its_intervals_wider(runs):
    row, space = ax12_truth(), ax12_space()
    exact = parts(runs._replace(position=rollouts(row[None], runs)[0]))
    since = exact.time - np.repeat(exact.time[exact.start[:-1]], np.diff(exact.start))
    slipped = exact.position + np.radians(0.8) * (abs(since - 0.2) < 0.03)  # below `HUBER`, far above the other errors
    plain, wide = (uncertainty(space, one, space.point(row)).share for one in (exact, exact._replace(position=slipped)))
    assert (wide > 1.5 * plain).sum() > len(space) / 2
