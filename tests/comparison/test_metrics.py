"""Metrics on motions whose figures are known."""

import math
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.comparison import check, compare, following, summary
from axbridge.comparison.metrics import best_shift, deviation, fall_time, frequency_response, step_response
from axbridge.errors import RecordingError, UsageError
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
