"""What only a simulation knows, in its recordings: where the joint is, and the torque it feels."""

import math

import numpy as np
import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.motion.experiments import Options, conduct
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from tests.support.waiting import run

pytestmark = pytest.mark.slow

COUNT = math.radians(300) / 1023
LOAD = 0.1263 * 9.81 * 0.0654  # N·m: the arm of bench_arm, held level


def recorded(path, robot, servo="shoulder"):
    with Recorder(path, {}) as recorder:
        conduct("step", robot, servo, recorder, Options(angles=(math.pi / 2,), duration=2.0))
    return open_recording(path)


@pytest.mark.parametrize("direction", [1, -1])
def test_a_simulated_step_has_the_joint_itself_and_the_torque_it_felt(tmp_path, direction):
    with axbridge.open(Rig.load("bench_arm").with_servos(lambda _: {"direction": direction})) as robot:
        found = recorded(tmp_path / "step.mcap", robot)
    track, step = found["shoulder"], next(s for s in found.segments if s.data.get("target", 0) > 1)
    assert np.isfinite(track.true_torque).all()
    off = np.abs(track.true_position - track.position)
    assert off.max() < 1.01 * COUNT  # also while it moves: both are of the time of the sample
    assert np.abs(track.velocity).max() * 0.001 > COUNT / 2  # a millisecond off would be seen
    assert off.max() > 0.1 * COUNT  # and it is not the reading
    still = track.between(step.end - 0.3, step.end)
    assert still.true_torque == pytest.approx(LOAD * np.sin(still.true_position), rel=0.01)
    assert track.true_torque.max() > 1.5 * LOAD  # as the arm starts


def test_an_ideal_joint_is_what_it_says(tmp_path):
    with axbridge.open(Rig.load("bench_arm").with_servos(lambda _: {"drive": "ideal", "id": None})) as robot:
        servo = robot["shoulder"]
        servo.set_position(math.pi / 2)
        run(robot, 3.0)
        assert servo.truth == (servo.position, servo.torque)
        assert servo.truth.torque == pytest.approx(LOAD, rel=0.05)


def test_a_servo_that_was_last_heard_long_ago_has_no_truth_to_its_sample():
    with axbridge.open("bench_arm") as robot:
        assert math.isfinite(robot["shoulder"].truth.torque)
        robot.simulation.inject("drop=1")
        robot.step(20)
        assert "shoulder" in robot.last_step.errors
        robot.step(50)
        assert math.isnan(robot["shoulder"].truth.torque)
