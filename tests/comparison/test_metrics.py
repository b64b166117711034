"""Metrics on motions whose figures are known, and baselines: a perfect servo, and joints with a delay and a lag."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.comparison import check, compare, following, summary
from axbridge.comparison.lag import apart, baseline, baselines, check_repeat, lag_of, lags
from axbridge.comparison.metrics import best_shift, deviation, fall_time, frequency_response, step_response
from axbridge.errors import RecordingError, UsageError
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Event, Recording, Track

TIME = np.arange(0, 3, 0.01)


def second_order(time, zeta=0.5, wn=20.0):
    """Unit step response of a second-order system; overshoot exp(-πζ/√(1-ζ²))."""
    time = np.maximum(time, 0)
    wd = wn * math.sqrt(1 - zeta**2)
    return 1 - np.exp(-zeta * wn * time) * (np.cos(wd * time) + zeta * wn / wd * np.sin(wd * time))


def test_deviation_in_degrees():
    found = deviation(np.radians([0.0, 0, 0, math.nan]), np.radians([1.0, -1, 2, 5]))
    assert (found.mae, found.mse, found.worst, found.samples) == pytest.approx((4 / 3, 2, 2, 3))
    assert found.rmse == pytest.approx(math.sqrt(2))


def test_a_step_response_of_a_known_system():
    time = np.arange(-0.5, 3, 0.001)
    found = step_response(time, 1.5 * second_order(time - 0.1), target=1.52, commanded=0.1)
    assert found.overshoot == pytest.approx(math.degrees(1.5) * math.exp(-math.pi * 0.5 / math.sqrt(0.75)), rel=0.01)
    assert found.rise == pytest.approx(1.64 / 20, rel=0.02)  # 10-90 % at ζ = 0.5: 1.64/ωn
    assert found.steady_state_error == pytest.approx(math.degrees(0.02), abs=0.01)
    assert 0 < found.delay < 0.02
    assert found.settling == pytest.approx(0.4, abs=0.05)


def test_a_command_between_two_samples_starts_the_motion_there():
    time = np.arange(0, 2, 0.02)
    found = step_response(time, np.interp(time, [0.511, 0.611], [0.0, 1.0]), 1.0, commanded=0.511)
    assert found.delay == pytest.approx(math.radians(1) * 0.1, abs=5e-4)
    still = step_response(TIME, np.zeros(len(TIME)), target=1.0, commanded=0.0)
    assert math.isnan(still.rise)
    assert still.steady_state_error == pytest.approx(math.degrees(1.0))


@pytest.mark.parametrize("lag", [-0.05, 0.0, 0.0137, 0.08])
def test_alignment_finds_the_lag(lag):
    assert best_shift(TIME, np.sin(3 * TIME), np.sin(3 * (TIME - lag))) == pytest.approx(lag, abs=2e-4)


def test_fall_time():
    assert fall_time(TIME, np.maximum(0, math.radians(90) - math.radians(100) * (TIME - 1)), 1.0) == pytest.approx(0.85)


def test_bandwidth_and_phase_of_a_first_order_lag():
    time = np.arange(0, 20, 0.005)
    command = np.sin(2 * math.pi * (0.2 * time + (5 - 0.2) / 40 * time**2))
    position = np.zeros_like(command)
    for i in range(1, len(time)):
        position[i] = position[i - 1] + 0.005 * (command[i - 1] - position[i - 1]) * 2 * math.pi * 2.0  # corner at 2 Hz
    found = frequency_response(time, command, position, 0.3, 5.0)
    assert found.bandwidth == pytest.approx(2.0, abs=0.3)
    assert found.phase[np.argmin(abs(found.frequency - 2))] == pytest.approx(-45, abs=6)


def recording(lag=0.0, offset=0.0, scale=1.0, name="a"):
    time = TIME + offset
    position = scale * 1.5 * second_order(TIME - 0.5 - lag, 0.9)
    command = np.where(TIME >= 0.5, 1.5, 0.0)
    events = (
        Event(offset, "segment", {"name": "rest"}),
        Event(0.5 + offset, "segment", {"name": "step", "kind": "step", "target": 1.5}),
    )
    return Recording(Path(f"{name}.mcap"), {name: Track.of(name, time, position=position, command=command)}, events)


def test_a_lag_is_told_apart_from_an_error():
    found = compare(recording(), recording(lag=0.03, offset=7.0, name="b"))  # one servo each, whatever its name
    pair = found.pairs[0]
    assert pair.name == "a"
    assert pair.shift == pytest.approx(0.03, abs=1e-3)
    assert pair.plain.rmse > 2
    assert pair.aligned.rmse < 0.1
    assert [part.name for part in pair.parts] == ["rest", "step"]
    first, second = pair.parts[1].results
    assert second.delay - first.delay == pytest.approx(0.03, abs=1e-3)


def test_a_condition_holds_or_not():
    found = compare(recording(), recording(scale=1.1))
    assert check(found, "rmse>2")
    assert not check(found, "rmse > 200")
    assert not check(found, "shift>0.1")
    assert check(found, "aligned_mae>=0.5")[0].startswith("a: aligned_mae")
    for wrong in ("rmse", "colour>2", "rmse>x", "rmse=2"):
        with pytest.raises(UsageError, match="no condition"):
            check(found, wrong)


def test_a_summary_is_json_with_the_worst_joint_first():
    first, second = recording(name="a"), recording(name="b")
    bad = recording(name="b", scale=1.3)
    both = Recording(Path("x"), first.tracks | second.tracks)
    other = Recording(Path("y"), first.tracks | bad.tracks)
    found = summary(compare(both, other))
    assert list(found["servos"]) == ["b", "a"]
    assert found["servos"]["a"]["deviation"]["mae"] == 0


def test_following_compares_goals_with_positions_and_what_has_nothing_to_compare_is_refused():
    assert following(recording()).pairs[0].plain.rmse > 1
    two = Recording(Path("two.mcap"), {**recording(name="a").tracks, **recording(name="b").tracks})
    with pytest.raises(RecordingError, match="none of the servos"):
        compare(two, recording(name="c"))
    silent = Recording(Path("x"), {"a": Track.of("a", TIME, position=np.sin(TIME))})
    with pytest.raises(RecordingError, match="no commands"):
        following(silent)


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


def told(*tracks):
    return Recording(Path("walk.mcap"), {track.name: track for track in tracks}, (), {}, describe(backend="imported"))


@pytest.mark.parametrize("ramped", [False, True])
def test_delay_and_lag_of_each_joint_are_found(ramped):
    still = Track.of("neck", np.arange(0, 30, 0.05), command=np.zeros(600), position=np.zeros(600))
    knee = joint("knee", 0.05, 0.06, ramped=ramped)
    gap, limp = (knee.time > 12) & (knee.time < 12.5), (knee.time > 20) & (knee.time < 20.5)  # these are left out
    position = np.where(gap, np.nan, np.where(limp, 2.0, knee.position))
    torn = replace(knee, position=position, torque_enabled=np.where(limp, 0.0, 1.0))
    found = lags(told(torn, still, joint("hip", 0.03, 0.1, ramped=ramped, seed=1)))
    assert set(found) == {"knee", "hip"}
    for one, delay, lag in zip(found.values(), (0.05, 0.03), (0.06, 0.1), strict=True):
        assert one.ramped == ramped
        assert one.delay + one.lag == pytest.approx(delay + lag, abs=0.01)
        assert math.degrees(one.offset) == pytest.approx(0.5, abs=0.1)


def test_a_robot_that_was_not_told_to_move_has_no_baselines():
    still = told(Track.of("neck", np.arange(0, 30, 0.05), command=np.zeros(600), position=np.zeros(600)))
    assert baselines(still) == {}
    with pytest.raises(RecordingError, match="has no goal that moves"):
        lags(still)


def test_what_was_found_of_several_recordings_predicts_another():
    first, second, other = (joint("knee", 0.05, 0.06, ramped=False, seed=seed) for seed in (0, 1, 5))
    lag = lag_of([first, second])
    perfect, lagging = baseline(other, lag)
    assert lagging.mae < 0.3
    assert perfect.mae > 2.0
    assert baselines(told(other))["knee"][1].rmse == pytest.approx(lagging.rmse, abs=0.05)
    assert lag_of([Track.of("knee", np.arange(30.0), position=np.zeros(30))]) is None


def test_a_repeat_has_the_same_goals_and_is_as_far_off_as_it_is():
    knee, hip = joint("knee", 0.05, 0.1, ramped=False, seed=1), joint("hip", 0.05, 0.1, ramped=False, seed=2)
    off = replace(knee, time=knee.time + 3.0, position=knee.position + math.radians(0.4))
    repeat = told(off, replace(hip, time=hip.time + 3.0))
    check_repeat(told(knee, hip), repeat)
    assert apart(knee, repeat) == (pytest.approx(0.0, abs=1e-6), pytest.approx(0.4))
    assert math.isinf(apart(replace(knee, name="ankle"), repeat)[0])
    with pytest.raises(UsageError, match="no repeat"):
        check_repeat(told(knee, hip), told(off, replace(joint("hip", 0.05, 0.1, ramped=False, seed=3))))
    with pytest.raises(UsageError, match="no repeat"):
        check_repeat(told(knee), told(hip))
