"""Baselines: a perfect servo, and joints with a delay and a lag."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.lag import apart, baseline, baselines, check_repeat, lag_of, lags
from axbridge.errors import RecordingError, UsageError
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Recording, Track


def joint(name, delay, lag, *, ramped, period=0.05, offset=0.5, seed=0):
    """A joint that goes to a new goal every second, by the closed solution for steps and lines, read in 0.3° steps."""
    time = np.arange(0.0, 30.0, period)
    rng = np.random.default_rng(seed)
    goals = np.radians(rng.uniform(-40, 40, 30))
    command = goals[np.minimum(time.astype(int), 29)]
    fine = np.arange(-1.0, 30.0, 1e-3)
    if ramped:
        last = np.floor((np.arange(30) + 1 - 1e-9) / period) * period
        knots = np.concatenate([(k, end) for k, end in enumerate(last)])
        values = np.repeat(np.concatenate(([0.0], goals)), 2)[1:-1]
        goal = np.interp(fine - delay, knots, values)
    else:
        goal = np.where(fine < delay, 0.0, goals[np.clip(np.floor(fine - delay).astype(int), 0, 29)])
    path = np.zeros(len(fine))
    for k in range(1, len(fine)):
        path[k] = path[k - 1] + (goal[k] - path[k - 1]) * (1 - math.exp(-1e-3 / lag))
    position = np.degrees(np.interp(time, fine, path)) + offset + rng.normal(0, 0.1, len(time))
    return Track.of(name, time, command=command, position=np.radians(0.3 * np.round(position / 0.3)))


def recording(*tracks):
    return Recording(Path("walk.mcap"), {track.name: track for track in tracks}, (), {}, describe(backend="imported"))


@pytest.mark.parametrize("ramped", [False, True])
def test_delay_and_lag_of_each_joint_are_found(ramped):
    still = Track.of("neck", np.arange(0, 30, 0.05), command=np.zeros(600), position=np.zeros(600))
    knee = joint("knee", 0.05, 0.06, ramped=ramped)
    gap, limp = (knee.time > 12) & (knee.time < 12.5), (knee.time > 20) & (knee.time < 20.5)  # these are left out
    position = np.where(gap, np.nan, np.where(limp, 2.0, knee.position))
    torn = replace(knee, position=position, torque_enabled=np.where(limp, 0.0, 1.0))
    found = lags(recording(torn, still, joint("hip", 0.03, 0.1, ramped=ramped, seed=1)))
    assert set(found) == {"knee", "hip"}
    for one, delay, lag in zip(found.values(), (0.05, 0.03), (0.06, 0.1), strict=True):
        assert one.ramped == ramped
        assert one.delay + one.lag == pytest.approx(delay + lag, abs=0.01)
        assert math.degrees(one.offset) == pytest.approx(0.5, abs=0.1)


def test_a_robot_that_was_not_told_to_move_has_no_baselines():
    still = recording(Track.of("neck", np.arange(0, 30, 0.05), command=np.zeros(600), position=np.zeros(600)))
    assert baselines(still) == {}
    with pytest.raises(RecordingError, match="has no goal that moves"):
        lags(still)


def test_what_was_found_of_several_recordings_predicts_another():
    first, second, other = (joint("knee", 0.05, 0.06, ramped=False, seed=seed) for seed in (0, 1, 5))
    lag = lag_of([first, second])
    perfect, lagging = baseline(other, lag)
    assert lagging.mae < 0.3
    assert perfect.mae > 2.0
    assert baselines(recording(other))["knee"][1].rmse == pytest.approx(lagging.rmse, abs=0.05)
    assert lag_of([Track.of("knee", np.arange(30.0), position=np.zeros(30))]) is None


def test_a_repeat_has_the_same_goals_and_is_as_far_off_as_it_is():
    knee, hip = joint("knee", 0.05, 0.1, ramped=False, seed=1), joint("hip", 0.05, 0.1, ramped=False, seed=2)
    off = replace(knee, time=knee.time + 3.0, position=knee.position + math.radians(0.4))
    repeat = recording(off, replace(hip, time=hip.time + 3.0))
    check_repeat(recording(knee, hip), repeat)
    assert apart(knee, repeat) == (pytest.approx(0.0, abs=1e-6), pytest.approx(0.4))
    assert math.isinf(apart(replace(knee, name="ankle"), repeat)[0])
    with pytest.raises(UsageError, match="no repeat"):
        check_repeat(recording(knee, hip), recording(off, replace(joint("hip", 0.05, 0.1, ramped=False, seed=3))))
    with pytest.raises(UsageError, match="no repeat"):
        check_repeat(recording(knee), recording(hip))
