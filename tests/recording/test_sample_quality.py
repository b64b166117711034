"""What is odd about recorded columns is said, with its likely cause; what is sound raises no word."""

import math

import numpy as np
import pytest

from axbridge.recording.recording import Track, in_order
from axbridge.recording.sample_quality import findings, sample_facts

TIME = np.arange(0, 5, 0.01)
MOTION = 0.8 * np.sin(3 * TIME)


def test_a_sound_motion_raises_no_word():
    assert findings("knee", TIME, {"position": MOTION, "command": MOTION, "velocity": np.gradient(MOTION, TIME)}) == []


def with_value(values, index, value):
    changed = np.array(values, dtype=float)
    changed[index] = value
    return changed


@pytest.mark.parametrize(
    ("time", "columns", "severity", "what", "cause"),
    [
        (np.concatenate((TIME, TIME)), {}, "error", "jumps back, at sample 500 from 4.99 s to 0 s", "two motions"),
        (np.where(TIME > 2, TIME + 1e4, TIME), {}, "error", "no sample for 10000", "clock that was set"),
        (np.where(TIME > 2, TIME + 3, TIME), {}, "warning", "no sample for 3.01 s before sample 201", "did not answer"),
        (np.arange(500) * 10.0, {}, "warning", "one sample every 10 s", "milliseconds read as seconds"),
        (np.arange(500) * 10000.0, {}, "warning", "one sample every 10000 s", "microseconds read as seconds"),
        (TIME * 1e-3, {}, "warning", "one sample every 10 µs", "seconds read as milliseconds"),
        (np.round(TIME, 1), {}, "warning", "have the time of the one before", "too few digits"),
        (with_value(TIME, 7, math.nan), {}, "error", "the time of sample 7", "broken line"),
        (TIME, {"position": 90 * np.sin(TIME)}, "warning", "5157°", "degrees read as radians"),
        (TIME, {"command": 90 * np.sin(TIME)}, "warning", "command goes up to", "degrees read as radians"),
        (TIME, {"velocity": 300 * np.cos(TIME)}, "warning", "velocity goes up to", "rpm read as rad/s"),
        (TIME, {"position": with_value(MOTION, 9, math.inf)}, "error", "infinite, at sample 9", "division by zero"),
        (TIME, {"position": np.full(500, math.nan)}, "warning", "not one position is known", "never answered"),
        (TIME, {"position": with_value(MOTION, 9, 2.0)}, "warning", "jumps 2 times", "corrupt reading"),
    ],
)
def test_what_is_odd_is_said_with_its_likely_cause(time, columns, severity, what, cause):
    steady = np.zeros(len(time))
    found = findings("knee", time, {"position": steady} | columns)
    assert [(finding.servo, finding.severity) for finding in found] == [("knee", severity)]
    assert what in found[0].what
    assert cause in found[0].cause
    assert found[0].remedy


def test_a_wheel_that_turns_past_its_sensor_does_not_jump():
    turning = np.mod(6 * TIME, 5.2)
    assert findings("wheel", TIME, {"position": turning, "duty": np.full(500, 0.5)}) == []
    assert findings("wheel", TIME, {"position": turning})[0].what.startswith("the position jumps 5 times")


def test_facts_tell_gaps_jumps_and_the_range():
    time = np.array([*np.arange(0, 1, 0.02), *np.arange(1.5, 2, 0.02), 3.0])
    position = np.where((time > 1.6) & (time < 1.7), 3.0, 0.1 * np.sin(time))
    facts = sample_facts(time, {"position": position, "load": time, "voltage": time * math.nan})
    assert (facts.samples, facts.gaps, facts.jumps) == (len(time), 2, 2)
    assert (facts.longest_gap, facts.longest_gap_at) == pytest.approx((1.02, 1.98))
    assert facts.first_jump_at == pytest.approx(1.62)
    assert (facts.lowest, facts.highest) == (0.0, 3.0)
    assert facts.columns == ("position", "load")
    none = Track.of("knee", np.empty(0))
    assert (none.facts().samples, none.facts().columns, none.facts().rate) == (0, (), 0.0)
    assert findings("knee", none.time, none.columns) == []


def test_samples_of_one_time_become_one_and_keep_the_newest_command():
    time, columns = in_order(
        np.array([0.0, 0.1, 0.1, 0.2]),
        {
            "command": np.array([0.0, 0.0, 1.0, 1.0]),
            "commanded": np.array([0.01, 0.11, 0.13, 0.21]),
            "position": np.array([0.0, 0.5, math.nan, 0.6]),
        },
    )
    np.testing.assert_array_equal(time, [0.0, 0.1, 0.2])
    np.testing.assert_array_equal(columns["command"], [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(columns["position"], [0.0, 0.5, 0.6])
    np.testing.assert_array_equal(columns["commanded"], [0.01, 0.13, 0.21])
    _, repeated = in_order(np.zeros(3), {"command": np.array([0, 1, 1.0]), "commanded": np.array([0.1, 0.2, 0.3])})
    np.testing.assert_array_equal(repeated["commanded"], [0.2])  # with an old sample: when it was first sent
