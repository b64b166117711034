"""What servos drew between their samples, beside what the simulated motors really drew."""

import math
from dataclasses import replace

import numpy as np
import pytest

import axbridge
from axbridge.comparison.current_draw import drawn
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.stored import open_recording

pytestmark = pytest.mark.slow


def swung(path):
    """A recording of a light arm that follows a sine with a goal every 20 ms, and what it drew from 0.5 s on, J."""
    rig = axbridge.Rig.load("bench_arm").with_model("ax12")
    with (
        Recorder(path, describe(rig, backend="sim")) as recorder,
        axbridge.open(rig, "sim") as robot,
        RobotRecorder(robot, recorder),
    ):
        arm, drawn_by = robot["shoulder"], []
        arm.set_velocity(0.5)  # at first: a limit that is lifted is none, and the recording still has it
        arm.torque_on()
        for tick in range(75):
            if tick == 10:
                arm.set_velocity(arm.max_velocity)
            arm.set_position(0.6 * math.sin(2 * math.pi * tick * 0.02))
            robot.step(20)
            drawn_by.append(robot.simulation.energy())
    return open_recording(path), drawn_by[-1] - drawn_by[24]


def joules(found, begin, end):
    within = (found.time >= begin) & (found.time < end)
    return float(found.watt[within].sum() * 1e-3)


def sampled_joules(recording, begin, end):
    """As if a servo drew all the time what it drew at its samples."""
    parts = [track.between(begin, end) for track in recording.values()]
    return sum(float(np.nanmean(part.power)) for part in parts) * (end - begin)


def test_what_a_walk_drew_is_found(walked):
    (part,) = (part for part in walked.segments if part.name == "walk")
    true = next(event for event in walked.events if event.name == "walked").data["energy"]
    assert joules(drawn(walked), part.start, part.end) == pytest.approx(true, rel=0.08)


def test_what_a_light_arm_draws_between_its_samples_is_mostly_found(tmp_path):
    """It has come to its goal by the time it is asked: the samples say that it draws next to nothing."""
    recording, true = swung(tmp_path / "arm.mcap")
    assert sampled_joules(recording, 0.5, 1.5) < 0.2 * true
    assert joules(drawn(recording), 0.5, 1.5) == pytest.approx(true, rel=0.3)


def test_a_load_that_no_model_explains_is_followed_on_lines(tmp_path):
    recording, _ = swung(tmp_path / "arm.mcap")
    track = recording["shoulder"]
    steady = np.full(len(track), 0.5)  # whatever it is told
    odd = replace(track, load=steady, position=track.position * 0, velocity=track.velocity * 0, command=-track.command)
    motor = recording.metadata["models"]["shoulder"]["motor"]
    share = (0.5 - motor["dead_duty"]) / (1 - motor["dead_duty"])
    volts = share * float(np.median(track.voltage))
    watt = volts**2 / (motor["resistance"] + motor["resistance_per_duty"] * share)
    found = drawn(replace(recording, tracks={"shoulder": odd}))
    assert np.median(found.watt[500:]) == pytest.approx(watt, rel=0.25)


def test_without_a_model_the_recorded_power_counts_and_without_that_nothing(tmp_path):
    recording, _ = swung(tmp_path / "arm.mcap")
    bare = replace(recording, metadata={})
    found, power = drawn(bare), recording["shoulder"].power
    assert math.isnan(found.age)
    assert found.watt.max() == pytest.approx(np.nanmax(power), rel=0.1)
    track = replace(recording["shoulder"], power=power * np.nan)
    assert drawn(replace(bare, tracks={"shoulder": track})) is None
