"""Experiments on a servo that follows its goal with a lag: a fake with behaviour."""

import math

import pytest

from axbridge.compare import compare
from axbridge.errors import ErrorFlag
from axbridge.experiments import step_and_fall
from axbridge.recorder import Recorder
from axbridge.recording import open_recording
from axbridge.state import ServoState


class LaggingServo:
    """First-order lag of 0.1 s towards the goal; swings back to 0 when limp."""

    def __init__(self):
        self.position, self.goal, self.driven = 0.0, 0.0, False
        self.report(0.0)

    def report(self, time):
        self.state = ServoState(time, self.position, 0.0, math.nan, 0.0, 11.0, 30.0, ErrorFlag(0))

    def set_position(self, position):
        self.goal = position

    def torque_on(self):
        self.driven = True

    def torque_off(self):
        self.driven = False


class LaggingRobot(dict):
    def __init__(self, stop_at=math.inf):
        super().__init__(shoulder=LaggingServo())
        self.time, self.stop_at = 0.0, stop_at

    def step(self, ms):
        self.time += ms / 1000
        if self.time > self.stop_at:
            return -1
        for servo in self.values():
            target = servo.goal if servo.driven else 0.0
            servo.position += (target - servo.position) * ms / 100
            servo.report(self.time)
        return 0.0


def record(path, robot):
    with Recorder(path, {"experiment": "step_and_fall"}) as recorder:
        done = step_and_fall(robot, "shoulder", recorder)
    return done, open_recording(path)


def test_step_and_fall_is_recorded_with_its_parts(tmp_path):
    done, found = record(tmp_path / "a.mcap", LaggingRobot())
    assert done
    assert [s.name for s in found.segments] == ["rest", "step", "fall"]
    track = found["shoulder"]
    assert len(track) == round(3.5 / 0.02) + 1
    assert track.command[-1] == pytest.approx(math.pi / 2)
    assert track.enabled.sum() == 100
    stepped = found.segments[1].start
    assert track.time[track.command > 1].min() == pytest.approx(stepped)  # a goal belongs to the time it is sent
    step = compare(found, found).pairs[0].parts[1].steps[0]
    assert step.rise == pytest.approx(
        0.1 * math.log(9), rel=0.15
    )  # coarse steps are a little quicker than the lag they approximate
    assert compare(found, found).pairs[0].parts[2].falls[0] > 0.1


def test_a_robot_that_asks_to_stop_ends_the_experiment(tmp_path):
    done, found = record(tmp_path / "a.mcap", LaggingRobot(stop_at=1.0))
    assert not done
    assert found.complete
    assert found.end == pytest.approx(1.0, abs=0.03)
