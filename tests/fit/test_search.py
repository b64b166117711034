from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from axbridge.comparison.recorded_runs import runs_of
from axbridge.fit.intervals import uncertainty
from axbridge.fit.residuals import parts
from axbridge.fit.search import KEPT, SHARPENED, WAVE, Job, StartOutcome, best_of_both, climb, losses, opened, search
from axbridge.fit.unknowns import Space
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import Regime
from tests.fit.test_identify import RIG, ax12_data, ax12_space, ax12_truth


@pytest.fixture(scope="module")
def runs():
    return runs_of(ax12_data(ax12_truth()), RIG)


def only(*columns):
    """The truth with these unknowns alone."""
    space = ax12_space()
    return Space(tuple(unknown for unknown in space.unknowns if unknown.column in columns), space.base)


def ahead(width):
    """Does so many jobs at a time, as so many processes would."""

    def mapper(function, jobs):
        left = iter(jobs)
        while several := list(islice(left, width)):
            yield from [function(job) for job in several]

    return mapper


@pytest.mark.parametrize("budget", [1e-6, 0.05])
def test_how_far_a_search_goes_does_not_depend_on_the_machine(runs, budget):
    job = Job(only(Param.EFFICIENCY, Param.ARMATURE), runs.only([1]), seed=2, generations=3, loss="huber")
    found = [search(job, ahead(width), starts=6, budget=budget) for width in (2, 5)]
    few, many = ([(outcome.seed, outcome.loss, outcome.rollouts) for outcome in one] for one in found)
    assert few == many


def test_all_starts_are_made_and_the_best_are_searched_on(runs):
    told = []
    job = Job(only(Param.EFFICIENCY, Param.LATENCY), runs.only([1]), seed=1, generations=3, loss="huber")
    found = search(job, map, starts=WAVE + 2, budget=1e6, report=lambda what, _: told.append(what))
    assert [what for what in told if ":" not in what] == [
        f"starts 1 to {WAVE} of {WAVE + 2}", f"starts {WAVE + 1} to {WAVE + 2} of {WAVE + 2}",
        f"searching on from the best {KEPT}", f"sharpening the best {SHARPENED}",
    ]  # fmt: skip
    assert [outcome.searched for outcome in found].count(True) == KEPT + SHARPENED
    assert [outcome.loss for outcome in found] == sorted(outcome.loss for outcome in found)


def test_a_climb_from_anywhere_ends_near_the_truth(runs):
    space = only(Param.EFFICIENCY, Param.ARMATURE, Param.LATENCY)
    ends = [climb(Job(space, runs, seed, 0, loss="huber", step=2e-3)) for seed in range(3)]
    truth = space.point(ax12_truth())
    assert min(np.abs(end.point - truth).max() for end in ends) < 0.05


def test_whole_recordings_choose_among_ends_that_fit_the_parts_alike(runs):
    space = ax12_space()
    job = Job(space, runs, seed=0, generations=1, parts=parts(runs))
    true = space.point(ax12_truth())
    off = true.copy()
    off[[unknown.column for unknown in space.unknowns].index(Param.COULOMB)] += 0.25
    whole = losses(space, runs, np.array([true, off])).mean(axis=1)
    assert whole[0] < 0.8 * whole[1]
    ends = [StartOutcome(0.50, off, 1, 1), StartOutcome(0.51, true, 1, 2)]
    assert [end.seed for end in best_of_both(job, ends)] == [2, 1]
    assert [end.seed for end in best_of_both(job, [replace(ends[0], loss=0.001), ends[1]])] == [1, 2]


@pytest.mark.slow
def test_a_joint_without_armature_is_found_though_the_logarithm_of_an_armature_is_searched():
    truth = ax12_truth()
    truth[[Param.ARMATURE, Param.BACKLASH]] = 0.0  # a rotor that turns on its own needs an inertia
    space = only(Param.ARMATURE, Param.EFFICIENCY)
    space.base[Param.BACKLASH] = 0.0
    job = Job(space, runs_of(ax12_data(truth), RIG), 0, 40, loss="huber")
    found = search(job, map, starts=1, budget=1.0)
    before = job.space.sets(found[0].point[None])[0]
    space, ends = opened(job, found, map)
    after = space.sets(ends[0].point[None])[0]
    assert before[Param.ARMATURE] == pytest.approx(3e-4, rel=0.05)
    assert after[Param.ARMATURE] < 5e-5
    off, near = (abs(row[Param.EFFICIENCY] - truth[Param.EFFICIENCY]) for row in (before, after))
    assert near < off / 3


def test_a_joint_with_armature_is_searched_no_further(runs):
    job = Job(only(Param.ARMATURE, Param.EFFICIENCY), runs, 0, 20, loss="huber")
    found = search(job, map, starts=1, budget=1.0)
    space, ends = opened(job, found, map)
    assert space is job.space
    assert ends is found


def test_parts_together_are_the_recordings(runs):
    cut = parts(runs, lengths=(1.0,))
    assert cut.recordings == 2 * runs.recordings
    np.testing.assert_array_equal(cut.position, runs.position)
    assert np.ptp(cut.time[cut.start[0] : cut.start[1]]) == pytest.approx(0.75, abs=0.02)
    short, both = parts(runs, lengths=(0.4,)), parts(runs, lengths=(0.4, 1.0))  # of each length all the parts
    assert both.recordings == short.recordings + cut.recordings
    np.testing.assert_array_equal(both.position, np.concatenate((short.position, cut.position)))


def test_the_truth_predicts_parts_from_what_was_measured_at_their_start(runs):
    cut = parts(runs)
    error = np.degrees(np.abs(rollouts(ax12_truth()[None], cut)[0] - cut.position))
    assert cut.means(error).max() < 1.0  # noise and whole counts at the start of each


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
