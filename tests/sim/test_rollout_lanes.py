"""Rollouts side by side give what each gives alone, whatever its law, friction and course."""

import math

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.fit.unknowns import FRICTION_LAWS, space_of
from axbridge.replay.simulate import packed
from axbridge.servo.branch_free import decayed, erf, sine
from axbridge.servo.columns import Command, Param, Passive
from axbridge.sim import rollout_lanes as lanes
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import FOLLOWED, FREE, HELD, JOINT_MODE, Runs


def recordings():
    """Six, of steps and sines, with all that may happen in one: see the comments."""
    rng = np.random.default_rng(5)
    samples, facts, drives = [], [], []
    for number in range(6):
        n = 60 + 13 * number
        time = np.concatenate(([0.0], np.cumsum(rng.uniform(0.002, 0.012, n - 1))))
        goal = np.repeat(rng.uniform(-1.5, 1.5, n), 20)[:n] if number % 2 else 1.2 * np.sin(9 * time)
        driven, limit, duty, cap = np.ones(n), np.zeros(n), np.full(n, JOINT_MODE), np.ones(n)
        limit[n // 2 :] = 1.5  # rad/s
        drive = FREE.copy()
        if number == 0:
            cap[20:30], cap[30:40] = 0.0, 0.5
        if number == 2:  # spring, damper, friction and stops
            drive[:] = 0.05, 0.002, 0.01, -0.8, 0.9
        if number == 3:  # held, and let go of
            driven[:15], driven[40:60] = HELD, 0.0
        if number == 4:  # not seen, also at the end
            driven[30:40], driven[-3:] = FOLLOWED, FOLLOWED
        if number == 5:  # wheel mode
            duty[20:50], duty[50:70] = 0.4, -0.9
        samples.append(
            (time, time + rng.uniform(-1e-3, 1e-3), goal, driven, limit, duty, cap, 0.2 * np.cos(time), limit)
        )
        facts.append((9.6 + 0.3 * number, 7e-4 * (1 + number), 0.08 * (1 + 0.3 * number), 0.1 * number,
                      math.nan if number % 2 else 45.0))  # fmt: skip
        drives.append(drive)
    settings = np.zeros((6, len(Command)))
    settings[:, [Command.SLOPE_CW, Command.SLOPE_CCW, Command.P_GAIN]] = 0.2, 0.1, 400
    settings[:, [Command.MARGIN_CW, Command.MARGIN_CCW, Command.PUNCH]] = 0.005, 0.01, 0.03
    start = np.cumsum([0, *(len(part[0]) for part in samples)]).astype(np.int64)
    columns = [np.concatenate(parts) for parts in zip(*samples, strict=True)]
    return Runs(start, *columns, *(np.array(values) for values in zip(*facts, strict=True)), np.array(drives), settings)


def sets(model, law, count, **values):
    rig = Rig.load("bench_arm")
    base = packed(rig.model_of(rig.servos[0], "lima2009" if model == "lima2009" else "ax12"), rig)
    base[[Param.RESISTANCE_PER_DUTY, Param.RESISTANCE_PER_KELVIN, Param.OFFSET]] = 2.0, 0.004, 0.01
    if model == "pendulum-servo":
        base[[Param.LAW, Param.P_DUTY, Param.I_DUTY, Param.D_DUTY]] = 2, 4e-5, 1e-5, 1e-7
    for name, value in values.items():
        base[Param[name]] = value
    space = space_of(model, law, base)
    return space.sets(np.random.default_rng(1).uniform(0.1, 0.9, (count, len(space))))


def one_by_one(params, runs, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(lanes, "fits", lambda *_: False)
        return rollouts(params, runs)


@pytest.mark.parametrize("law", FRICTION_LAWS)
@pytest.mark.parametrize("model", ["lima2009", "ax12", "pendulum-servo"])
def test_side_by_side_is_as_one_by_one(model, law, monkeypatch):
    runs, params = recordings(), sets(model, law, 7)
    assert lanes.fits(params, runs.settings)
    off = np.abs(rollouts(params, runs) - one_by_one(params, runs, monkeypatch))
    assert off.max() < 1e-10


@pytest.mark.parametrize("values", [{"INDUCTANCE": 0.0}, {"NOISE": 0.0}, {"QUANTISED": 0.0, "NOISE": 0.0}])
def test_what_a_model_leaves_out_is_left_out_side_by_side_too(values, monkeypatch):
    runs, params = recordings(), sets("ax12", "M4", 3, **values)
    assert lanes.fits(params, runs.settings)
    assert np.abs(rollouts(params, runs) - one_by_one(params, runs, monkeypatch)).max() < 1e-10


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (Param.BACKLASH, 0.02),
        (Param.PERIOD, 0.01),
        (Param.SPEED_FILTER, 0.05),
        (Param.MAX_CURRENT, 1.5),
        (Param.CURRENT_STEP, 0.1),
        (Param.STRIBECK_EXPONENT, 2.0),
        (Param.LAW, 2.0),
    ],
)
def test_a_set_that_lanes_cannot_run_is_told_apart(column, value):
    params = sets("ax12", "M4", 3)
    params[1, column] = value
    assert not lanes.fits(params, recordings().settings)


@pytest.mark.parametrize("side_by_side", [True, False])
def test_a_law_that_does_not_exist_is_an_error_and_not_another_law(side_by_side):
    params = sets("ax12", "M4", 3, LAW=7, MAX_CURRENT=0.0 if side_by_side else 1e6)
    assert lanes.fits(params, recordings().settings) == side_by_side
    with pytest.raises(ValueError, match="position law"):
        rollouts(params, recordings())


def test_a_goal_acceleration_is_told_apart_too():
    settings = recordings().settings
    settings[2, Command.ACCELERATION] = 5.0
    assert not lanes.fits(sets("ax12", "M1", 1), settings)


@pytest.mark.parametrize("count", [1, 2, 9, 17])
def test_any_number_of_sets_and_recordings_fills_the_lanes(count):
    runs, params = recordings(), sets("pendulum-servo", "M4", 17)
    every = rollouts(params, runs)
    for chosen in ([0], [1, 4], [5, 3, 2]):
        part = runs.only(chosen)
        columns = np.concatenate([np.arange(runs.start[m], runs.start[m + 1]) for m in chosen])
        assert np.abs(rollouts(params[:count], part) - every[:count, columns]).max() < 1e-10


def test_a_motion_that_is_lost_stays_lost_and_disturbs_nobody():
    runs, params = recordings(), sets("lima2009", "M1", 4)
    params[2, Param.ARMATURE] = -8e-4  # less than nothing, on the first arm
    positions, undisturbed = rollouts(params, runs), rollouts(params[[0, 1, 3]], runs)
    first = positions[2, : runs.start[1]]
    lost = np.flatnonzero(first == 1e3)
    assert len(lost)
    assert np.all(first[lost[0] :] == 1e3)
    assert np.abs(positions[[0, 1, 3]] - undisturbed).max() < 1e-10


def test_no_sets_and_no_samples_are_no_trouble():
    runs = recordings()
    assert rollouts(sets("ax12", "M1", 1)[:0], runs).shape == (0, len(runs.time))
    assert rollouts(sets("ax12", "M1", 2), runs.only([])).shape == (2, 0)


def test_the_stops_end_a_swing():
    runs = recordings()
    runs = runs._replace(passive=np.where(np.arange(len(Passive)) == Passive.HIGH, 0.3, FREE) * np.ones((6, 1)))
    assert rollouts(sets("ax12", "M1", 2), runs).max() == pytest.approx(0.31)  # the sensor's offset is 0.01


def test_the_series_are_as_exact_as_their_numbers():
    x = np.concatenate((np.linspace(0.0, 60.0, 5001), np.logspace(-12, 0, 500)))
    assert [decayed(value) for value in x] == pytest.approx(-np.expm1(-x), rel=1e-15, abs=0)
    x = np.linspace(-20.0, 20.0, 5001)
    assert np.abs([sine(value) for value in x] - np.sin(x)).max() < 3e-15
    assert abs(sine(999.0) - math.sin(999.0)) < 2e-13
    x = np.linspace(-4.0, 4.0, 5001)
    assert [erf(value) for value in x] == pytest.approx([math.erf(value) for value in x], rel=1e-14)
