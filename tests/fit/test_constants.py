"""Intervals of servos whose constants are not the model's."""

from dataclasses import replace

import numpy as np
import pytest

from axbridge.comparison.recorded_runs import runs_of
from axbridge.fit.intervals import _possible, allowing, held_in, in_words, uncertainty
from axbridge.fit.least_squares import polish
from axbridge.servo.columns import Param
from tests.fit.test_identify import RIG, ax12_data, ax12_space, ax12_truth

RESISTANCE = [Param.RESISTANCE, Param.RESISTANCE_PER_DUTY]


def test_what_a_fit_holds_is_named():
    space, runs = ax12_space(), runs_of(ax12_data(ax12_truth())[:1], RIG)
    held = held_in(space, runs)
    assert [one.name for one in held] == ["resistance", "torque constant", "dead duty", "lag", "supply"]
    assert in_words(held).startswith("resistance (±30%), torque constant (±30%)")
    carried = held_in(space, runs._replace(load=np.zeros((len(runs.time), 4))))
    assert [one.name for one in carried[5:]] == ["inertia carried", "weight carried"]


@pytest.mark.ci
@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_intervals_allow_for_a_winding_that_is_not_the_models(factor):
    truth = ax12_truth()
    truth[RESISTANCE] *= factor
    space, runs = ax12_space(), runs_of(ax12_data(truth), RIG)
    point = polish(space, runs, space.point(space.base), rounds=12)
    narrow = uncertainty(space, runs, point)
    wide, _ = allowing(narrow, space, runs, point, held_in(space, runs))
    names = [unknown.name for unknown in space.unknowns]
    torque = names.index("motor.efficiency")
    assert not narrow.low[torque] <= truth[Param.EFFICIENCY] <= narrow.high[torque]
    assert wide.low[torque] <= truth[Param.EFFICIENCY] <= wide.high[torque]
    assert (wide.low <= narrow.low).all()
    assert (wide.high >= narrow.high).all()
    right = replace(space, base=truth)  # what somebody says who knows the winding
    known = uncertainty(right, runs, polish(right, runs, point, rounds=12))
    assert wide.low[torque] <= (known.low[torque] + truth[Param.EFFICIENCY]) / 2
    assert wide.high[torque] >= (known.high[torque] + truth[Param.EFFICIENCY]) / 2
    friction = names.index("friction.coulomb")  # the fall tells it, and a limp motor has no winding
    assert wide.high[friction] - wide.low[friction] < 1.1 * (narrow.high[friction] - narrow.low[friction])


@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_a_torque_constant_that_is_not_the_models_is_wanted(factor):
    truth = ax12_truth()
    truth[Param.CONSTANT] *= factor
    space, runs = ax12_space(), runs_of(ax12_data(truth), RIG)
    point = polish(space, runs, space.point(space.base), rounds=12)
    _, found = allowing(uncertainty(space, runs, point), space, runs, point, held_in(space, runs))
    (wanted,) = (one for one in found if one.constant.name == "torque constant")
    assert wanted.factor == pytest.approx(factor, abs=0.05)


def test_a_constant_that_lowers_the_error_may_be_off_by_all_of_it_though_a_parabola_dips_before():
    """As of a servo with 30 % less resistance: with 30 % more the efficiency would have to be above 1."""
    assert _possible(np.array([-0.11, 0.0, 2.2])).min() == -1.0
    assert _possible(np.array([0.5, 0.0, 0.5])).max() < 0.4  # what the data contradict is not allowed for
