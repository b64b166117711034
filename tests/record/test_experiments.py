"""Experiments on a servo that follows its goal with a lag: a fake with behaviour."""

import math
from dataclasses import replace

import numpy as np
import pytest

from axbridge.compare.comparison import compare
from axbridge.errors import ErrorFlag, UsageError
from axbridge.record.experiments import EXPERIMENTS, Options, conduct, step_and_fall
from axbridge.record.recorder import Recorder
from axbridge.record.recording import open_recording
from axbridge.robot.state import UNKNOWN, ServoState


class LaggingServo:
    """First-order lag of 0.1 s towards the goal; swings back to 0 when limp."""

    min_position, max_position, max_torque, power = -2.6, 2.6, 1.5, 0.5
    truth = UNKNOWN

    def __init__(self):
        self.position, self.goal, self.driven, self.temperature = 0.0, 0.0, False, 30.0
        self.registers = {"cw_angle_limit": 0, "ccw_angle_limit": 1023, "moving_speed": 0}
        self.sample(0.0)

    def sample(self, time):
        self.state = ServoState(time, self.position, 0.0, math.nan, 0.0, 11.0, self.temperature, ErrorFlag(0))

    def read(self, register):
        return self.registers[register]

    def write(self, register, value):
        self.registers[register] = value

    def set_position(self, position):
        self.goal = position

    def set_velocity(self, speed):
        self.speed = speed

    def set_available_torque(self, torque):
        self.torque = torque

    def torque_on(self):
        self.driven = True

    def torque_off(self):
        self.driven = False


class LaggingRobot(dict):
    last_step = None

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
            servo.temperature -= 0.0 if servo.driven else 0.1
            servo.sample(self.time)
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
    step = compare(found, found).pairs[0].parts[1].results[0]
    assert step.rise == pytest.approx(
        0.1 * math.log(9), rel=0.15
    )  # coarse steps are a little quicker than the lag they approximate
    assert compare(found, found).pairs[0].parts[2].results[0] > 0.1


def test_a_robot_that_asks_to_stop_ends_the_experiment(tmp_path):
    done, found = record(tmp_path / "a.mcap", LaggingRobot(stop_at=1.0))
    assert not done
    assert found.complete
    assert found.end == pytest.approx(1.0, abs=0.03)


def conducted(path, name, options=None, robot=None):
    robot = robot or LaggingRobot()
    with Recorder(path, {}) as recorder:
        done = conduct(name, robot, "shoulder", recorder, options)
    return done, robot["shoulder"], open_recording(path)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "replay"])
def test_every_experiment_ends_limp_with_named_parts_and_the_servo_as_it_was(tmp_path, name):
    done, servo, found = conducted(tmp_path / "a.mcap", name)
    assert done
    assert not servo.driven
    assert found.segments
    assert len(found["shoulder"]) > 100
    assert (servo.registers["cw_angle_limit"], servo.registers["ccw_angle_limit"]) == (0, 1023)


def test_a_goal_is_recorded_with_the_time_it_was_sent(tmp_path):
    _, _, found = conducted(tmp_path / "a.mcap", "step", Options(angles=(0.5,)))
    start = next(s.start for s in found.segments if s.data.get("target") == 0.5)
    track = found["shoulder"]
    assert track.command[np.searchsorted(track.time, start - 1e-6)] == 0.5
    assert track.position[np.searchsorted(track.time, start - 1e-6)] == 0.0


def test_late_steps_do_not_shorten_the_recording(tmp_path):
    class Late(LaggingRobot):
        def step(self, ms):
            super().step(ms + 5.0)
            self.time -= 0.005  # the robot's clock counts the periods asked for
            return 5.0

    _, _, found = conducted(tmp_path / "a.mcap", "step", Options(angles=(0.5,)), Late())
    track = found["shoulder"]
    assert np.median(np.diff(track.time)) == pytest.approx(0.015, abs=1e-6)
    assert found.segments[1].start == pytest.approx(1.5, abs=0.01)


def test_a_chirp_measures_the_bandwidth(tmp_path):
    _, _, found = conducted(tmp_path / "a.mcap", "chirp", Options(amplitude=0.5, low=0.3, high=4.0, duration=20.0))
    chirp = compare(found, found).pairs[0].parts[0].results[0]
    assert chirp.bandwidth == pytest.approx(1 / (2 * math.pi * 0.1), rel=0.2)


def test_angles_out_of_reach_are_refused_before_anything_moves(tmp_path):
    robot = LaggingRobot()
    with pytest.raises(UsageError, match="170° is beyond the limits"):
        conducted(tmp_path / "a.mcap", "step", Options(angles=(math.radians(170),)), robot)
    assert not robot["shoulder"].driven


def test_a_warm_servo_is_left_to_cool(tmp_path):
    robot = LaggingRobot()
    robot["shoulder"].temperature = 61.0
    robot["shoulder"].sample(0.0)
    _, servo, found = conducted(tmp_path / "a.mcap", "step", Options(angles=(0.5,)), robot)
    assert [event.name for event in found.events if event.name != "segment"] == ["cooling"]
    assert servo.temperature <= 50.0


def test_a_replay_repeats_commands_falls_and_parts(tmp_path):
    _, _, source = conducted(tmp_path / "a.mcap", "lift-and-drop", Options(angles=(0.5,)))
    _, _, again = conducted(tmp_path / "b.mcap", "replay", Options(source=source))
    assert [s.name for s in again.segments] == ["approach", *(s.name for s in source.segments)]
    pair = compare(source, again).pairs[0]
    assert pair.plain.worst < 1.0


def test_a_replay_without_a_source_or_commands_is_refused(tmp_path):
    with pytest.raises(UsageError, match="needs a recording"):
        conducted(tmp_path / "a.mcap", "replay")
    _, _, source = conducted(tmp_path / "b.mcap", "duty", Options(duties=(0.5,)))
    track = source["shoulder"]
    silent = replace(source, tracks={"shoulder": replace(track, command=np.full(len(track), math.nan))})
    with pytest.raises(UsageError, match="no commands"):
        conducted(tmp_path / "c.mcap", "replay", Options(source=silent))


def test_an_unknown_experiment_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no experiment 'dance'"):
        conducted(tmp_path / "a.mcap", "dance")
