"""The sentence says what was found, and blames a model's friction for what only friction does."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.comparison import compare, following
from axbridge.comparison.findings import Findings, _sentence, findings_of, headline
from axbridge.recording.recording import Event, Recording, Track
from tests.comparison.test_metrics import recording

TIME = np.arange(0, 4, 0.01)


def bench(*, late=0.0, seconds=0.6, rest=0.0, backend="sim"):
    """A step to 90° at 0.5 s, and a fall from 2 s on that takes `seconds` and ends at `rest` degrees."""
    rising = np.interp(TIME, [0.5 + late, 0.75 + late], [0, 90])
    falling = np.interp(TIME, [2.0, 2.0 + seconds], [90, rest])
    position = np.radians(np.where(TIME < 2.0, rising, falling))
    command = np.where(TIME >= 0.5, math.pi / 2, 0.0)
    events = (
        Event(0.0, "segment", {"name": "rest", "kind": "rest"}),
        Event(0.5, "segment", {"name": "step", "kind": "step", "target": math.pi / 2}),
        Event(2.0, "segment", {"name": "fall", "kind": "fall", "start": math.pi / 2}),
    )
    track = Track.of("a", TIME, position=position, command=command, torque_enabled=(TIME < 2.0).astype(float))
    return Recording(Path("a.mcap"), {"a": track}, events, metadata={"backend": backend})


def said(real, other):
    return headline(compare(real, other, labels=("recorded", "simulated")))


def test_an_early_fall_and_steps_that_lack_latency_are_told():
    text = said(bench(late=0.038, rest=4.0), bench(seconds=0.4))
    assert text.startswith("The simulation falls 2")
    assert "ms too early: its friction is too low; steps agree to 0." in text
    assert "once 38 ms of latency, which the simulation lacks, are taken out." in text


def test_the_figures_are_those_of_the_motions():
    found = findings_of(both := compare(bench(late=0.038), bench(seconds=0.4)), both.pairs[0])
    # from 90 to 5 degrees at the speed of each fall
    assert found.falls == pytest.approx((0.4 - 0.6) * 85 / 90, abs=0.002)
    assert found.falling == pytest.approx(0.6 * 85 / 90, abs=0.002)
    assert found.hangs == pytest.approx(0.0, abs=0.01)
    assert found.step_shift == pytest.approx(-0.038, abs=0.001)
    assert found.steps > 5
    assert found.steps_aligned < 0.5
    assert found.rises == pytest.approx(0.0, abs=0.001)


def test_a_slow_fall_is_blamed_on_friction_alone_only_when_the_arm_rests_higher():
    assert "too late: its friction is too high;" in said(bench(), bench(seconds=0.9, rest=4.0))
    assert "too late: its friction or its rotor inertia is too high;" in said(bench(), bench(seconds=0.9))


def test_an_arm_that_swings_past_the_bottom_is_not_said_to_rest_there_by_friction():
    assert "too early: its friction or its rotor inertia is too low;" in said(bench(rest=-20.0), bench(seconds=0.3))


def test_an_arm_that_does_not_come_down_has_too_much_friction():
    text = said(bench(), bench(rest=30.0))
    assert text.startswith("The simulation does not fall all the way, the recording does: its friction is too high;")
    text = said(bench(rest=30.0), bench())
    assert text.startswith("The simulation falls all the way, the recording does not: its friction is too low;")


def test_a_servo_of_copper_is_not_blamed_for_its_friction():
    text = headline(compare(bench(), bench(seconds=0.4, backend="real"), labels=("monday", "friday")))
    assert text == "friday falls 189 ms earlier than monday; steps agree to 0.0°."


def test_a_step_in_which_samples_are_missing_is_named_and_not_judged():
    time = np.arange(0, 4, 0.01)
    events = tuple(
        Event(at, "segment", {"name": name, "kind": "step", "target": goal})
        for at, name, goal in ((0.5, "step to 90", math.pi / 2), (2.0, "step back", 0.0))
    )

    def steps(back, seen):
        position = np.radians(np.interp(time, [0.5, 0.75, back, back + 0.25], [0, 90, 90, 0]))
        command = np.where((time >= 0.5) & (time < 2.0), math.pi / 2, 0.0)
        track = Track.of("a", time[seen], position=position[seen], command=command[seen])
        return Recording(Path("a.mcap"), {"a": track}, events, metadata={"backend": "sim"})

    gap = (time > 2.05) & (time < 2.44)
    text = said(steps(2.3, ~gap), steps(2.0, time >= 0))
    assert text == "Steps agree to 0.0°. Not judged, as samples are missing: 'step back' (0.39 s)."


def test_motions_that_agree_are_said_to():
    assert said(recording(), recording()) == "Steps agree to 0.0°."
    assert _sentence(Findings(0.31, 1.0), "a", "b", modelled=True) == "b agrees with a to 0.31°."


def test_late_motions_without_steps_are_said_to_be_late():
    sine = np.sin(3 * TIME)
    track = Track.of("a", TIME, position=np.sin(3 * (TIME - 0.065)), command=sine)
    text = headline(following(Recording(Path("s.mcap"), {"a": track})))
    assert text.startswith("The servo is 65 ms later than the goal; they agree to 0.")
    assert text.endswith("once that is taken out.")


def test_motions_that_differ_in_shape_are_said_to_be_apart():
    found = Findings(6.14, 16.56, shift=-0.029, aligned=5.8)
    assert _sentence(found, "a", "b", modelled=True) == "b is 6.1° from a (RMSE), and 17° at worst."
    slow = replace(found, steps=3.0, step_shift=0.02, steps_aligned=2.5, rises=0.1, rising=0.2)
    assert _sentence(slow, "a", "b", modelled=True) == "b takes 100 ms more than a for a step."


def test_of_many_servos_the_worst_is_named():
    tracks = {name: recording().tracks["a"] for name in "abc"}
    worse = {**tracks, "b": recording(lag=0.03).tracks["a"]}
    text = headline(compare(Recording(Path("x"), tracks), Recording(Path("y"), worse)))
    assert text.startswith("Half of the 3 servos are within 0.0° (RMSE). The worst is b: ")
