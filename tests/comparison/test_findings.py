"""The sentence says what was found, and blames a model's friction for what only friction does."""

import math
import re
from pathlib import Path

import numpy as np

from axbridge.comparison.comparison import compare, following
from axbridge.comparison.findings import headline
from axbridge.recording.recording import Event, Recording, Track
from tests.comparison.test_metrics import recording

TIME = np.arange(0, 4, 0.01)


def bench(*, late=0.0, seconds=0.6, rest=0.0, top=90, backend="sim"):
    """A step to 90° at 0.5 s that ends at `top`, and a fall from 2 s on, of `seconds`, that ends at `rest`, degrees."""
    rising = np.interp(TIME, [0.5 + late, 0.75 + late], [0, top])
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
    assert "ms too early: its friction or its rotor inertia is too low; steps agree to 0." in text
    assert "once 38 ms of latency, which the simulation lacks, are taken out." in text


def test_steps_that_are_far_apart_do_not_agree_whatever_is_taken_out():
    text = said(bench(late=0.15), bench(top=96))
    assert re.search(r"teps are [5-7]\.\d° apart even once 1\d\d ms of latency, which the simulation lacks,", text)


def test_a_slow_fall_is_blamed_on_friction_or_inertia():
    assert "too late: its friction or its rotor inertia is too high;" in said(bench(), bench(seconds=0.9))


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
    assert headline(waves(0.0, 0.003)).startswith("The servo agrees with the goal to 0.")


def waves(late, off):
    """A servo that follows a sine so much later, s, and at another frequency."""
    track = Track.of("a", TIME, position=np.sin((3 + off) * (TIME - late)), command=np.sin(3 * TIME))
    return following(Recording(Path("s.mcap"), {"a": track}))


def test_late_motions_without_steps_are_said_to_be_late():
    text = headline(waves(0.065, 0.0))
    assert text.startswith("The servo is 65 ms later than the goal; they agree to 0.")
    assert text.endswith("once that is taken out.")


def test_motions_that_differ_in_shape_are_said_to_be_apart():
    assert re.fullmatch(r"The servo is \d+\.\d° from the goal \(RMSE\), and \d+° at worst\.", headline(waves(0.0, 2.0)))
    assert re.fullmatch(r"Steps are \d+\.\d° apart\.", said(bench(), bench(late=0.5)))


def test_of_many_servos_the_worst_is_named():
    tracks = {name: recording().tracks["a"] for name in "abc"}
    worse = {**tracks, "b": recording(lag=0.03).tracks["a"]}
    text = headline(compare(Recording(Path("x"), tracks), Recording(Path("y"), worse)))
    assert text.startswith("Half of the 3 servos are within 0.0° (RMSE). The worst is b: ")
