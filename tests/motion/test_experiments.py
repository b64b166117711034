"""Experiments on a servo that follows its goal with a lag: a fake with behaviour."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.comparison.comparison import compare
from axbridge.errors import ErrorFlag, UsageError
from axbridge.motion.experiments import EXPERIMENTS, Options, check, conduct, step_and_fall
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.stored import open_recording
from axbridge.state import SERVO_ROW, Goals, ServoState, StepReport, StepTable


class LaggingServo:
    """First-order lag of 0.1 s towards the goal; swings back to 0 when limp."""

    min_position, max_position, max_velocity, max_torque = -2.6, 2.6, 6.0, 1.5

    def __init__(self):
        self.position, self.goal, self.driven, self.temperature = 0.0, math.nan, False, 30.0
        self.speed, self.torque, self.duty = self.max_velocity, self.max_torque, math.nan
        self.registers = {"cw_angle_limit": 0, "ccw_angle_limit": 1023, "moving_speed": 0, "torque_enable": 0}
        self.capabilities = {"wheel": "emulated"}
        self.sample(0.0)

    def sample(self, time):
        self.state = ServoState(time, self.position, 0.0, math.nan, 0.0, 11.0, self.temperature, ErrorFlag(0))

    def read(self, register):
        return self.registers[register]

    def write(self, register, value):
        self.registers[register] = value

    @property
    def goals(self):
        return Goals(self.goal, self.speed, self.torque / self.max_torque, self.duty, self.driven)

    def set_position(self, position):
        self.goal, self.duty = position, math.nan

    def set_duty(self, duty):
        self.registers["ccw_angle_limit"] = 0
        self.goal, self.duty, self.driven = math.nan, duty, True

    def restore(self):
        self.registers["ccw_angle_limit"] = 1023
        self.driven = False

    def set_velocity(self, speed):
        self.speed = speed

    def set_available_torque(self, torque):
        self.torque = torque

    def torque_on(self):
        self.driven = True

    def torque_off(self):
        self.driven = False


class LaggingRobot(dict):
    def __init__(self, stop_at=math.inf, names=("shoulder",)):
        super().__init__({name: LaggingServo() for name in names})
        self.time, self.stop_at, self.observers = 0.0, stop_at, []

    @property
    def table(self):
        rows = np.full(len(self), math.nan, SERVO_ROW)
        for row, servo in zip(rows, self.values(), strict=True):
            for name in ("time", "position", "velocity", "load", "voltage", "temperature"):
                row[name] = getattr(servo.state, name)
            row["errors"], row["power"] = 0, 0.5
        return StepTable({name: row for row, name in enumerate(self)}, [ErrorFlag] * len(self), rows)

    def observe(self, observer):
        self.observers.append(observer)
        return lambda: self.observers.remove(observer)

    def step(self, ms):
        if self.time + ms / 1000 > self.stop_at:
            return -1
        return self.move(ms, ms, 0.0)

    def goto(self, pose, duration):
        for name, place in pose.items():
            self[name].torque_on()
            self[name].set_position(place)
        return all(self.step(20.0) != -1 for _ in range(round(duration / 0.02)))

    def move(self, ms, took, late):
        """A step of `ms` that lasts `took` ms, counted from where the robot's clock stands with its tick `late` ms."""
        self.time += ms / 1000
        for servo in self.values():
            target = servo.goal if servo.driven and not math.isnan(servo.goal) else 0.0
            servo.position += (target - servo.position) * took / 100
            servo.temperature -= 0.0 if servo.driven else 0.1
            servo.sample(self.time)
        sampled = {name: servo.state.time for name, servo in self.items()}
        report = StepReport(ms, took, self.time - ms / 1000 - late / 1000, sampled, late=late)
        for observer in tuple(self.observers):
            observer(report, self.table)
        return late


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


@pytest.mark.parametrize("name", list(EXPERIMENTS))
@pytest.mark.slow
def test_every_experiment_ends_limp_with_named_parts_and_the_servo_as_it_was(tmp_path, name):
    done, servo, found = conducted(tmp_path / "a.mcap", name)
    assert done.whole
    assert not servo.driven
    assert found.segments
    assert len(found["shoulder"]) > 100
    assert (servo.registers["cw_angle_limit"], servo.registers["ccw_angle_limit"]) == (0, 1023)


@pytest.mark.parametrize("name", ["step", "sine", "chirp", "sin-time-square", "replay"])
def test_a_limp_servo_goes_softly_to_where_an_experiment_begins_before_it_is_recorded(tmp_path, name):
    moments = np.arange(0, 0.5, 0.02)
    source = Recording(Path("s.mcap"), {"horn": Track.of("horn", moments, command=np.full(25, 0.8))}, ())
    options = Options(angles=(0.8,), amplitude=0.5, duration=1.0, period=0.5, low=4.0, high=5.0, source=source)
    begins = 0.8 if name == "replay" else 0.0
    with axbridge.open("bare_horn") as robot, Recorder(tmp_path / "a.mcap", {}) as recorder:
        robot["horn"].goto(-0.9, 1.0)
        robot["horn"].torque_off()
        moved: list[tuple[float, float]] = []
        robot.observe(lambda _report, table: moved.append((robot.time, abs(table.column("velocity").item(0)))))
        assert conduct(name, robot, "horn", recorder, options, tick_ms=20).whole
    found = open_recording(tmp_path / "a.mcap")
    assert found["horn"].position[0] == pytest.approx(begins, abs=math.radians(2))
    speeds = [speed for time, speed in moved if time <= found.start]
    assert math.radians(40) < max(speeds) < math.radians(75)  # 60°/s, and the steps in which a servo reports its speed


def test_late_steps_neither_slow_the_motion_down_nor_shorten_the_recording(tmp_path):
    class Late(LaggingRobot):
        def step(self, ms):
            return self.move(ms, ms + 5.0, 5.0)

    done, _, found = conducted(tmp_path / "a.mcap", "step", Options(angles=(0.5,)), Late())
    track = found["shoulder"]
    assert np.median(np.diff(track.time)) == pytest.approx(0.015, abs=1e-6)
    assert found.segments[1].start == pytest.approx(1.0, abs=0.02)
    assert found.end == pytest.approx(1.0 + 2 * 1.5, abs=0.05)
    assert done.late == done.steps
    assert np.ptp(found.cycles["time"][:-1] - track.time[1:-1]) < 1e-9  # one clock


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
    assert [s.name for s in again.segments] == [s.name for s in source.segments]
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


def two_servos(path="two.mcap"):
    """A knee that follows a sine and goes limp half-way, a hip that steps late and leaves blanks between its goals."""
    moments = np.arange(0, 4, 0.01)
    hip = np.where(moments < 2.0, 0.2, 0.8)
    hip[1::5] = math.nan
    tracks = {
        "knee": Track.of("knee", moments, command=0.5 * np.sin(moments), torque_enabled=(moments < 2.5).astype(float)),
        "hip": Track.of("hip", moments, command=hip, torque_limit=np.where(moments < 1.0, math.nan, 0.5)),
    }
    events = (Event(0.0, "segment", {"name": "both"}), Event(2.0, "segment", {"name": "hip up", "servo": "hip"}))
    return Recording(Path(path), tracks, events)


class LateRobot(LaggingRobot):
    """Every step takes half as long again."""

    def step(self, ms):
        return self.move(ms, 1.5 * ms, ms / 2)


@pytest.mark.parametrize("kind", [LaggingRobot, LateRobot])
def test_a_replay_plays_every_servo_in_the_sources_time(tmp_path, kind):
    robot = kind(names=("hip", "knee", "toe"))
    source = two_servos()
    with Recorder(tmp_path / "a.mcap", {}) as recorder:
        done = conduct("replay", robot, None, recorder, Options(source=source))
    found = open_recording(tmp_path / "a.mcap")
    assert done.whole
    assert set(found) == {"hip", "knee"}
    assert [(s.name, s.data.get("servo")) for s in found.segments] == [("both", None), ("hip up", "hip")]
    began = found.segments[0].start
    assert found.end - began == pytest.approx(4.0, abs=0.03)
    assert found.segments[1].start - began == pytest.approx(2.0, abs=0.02)
    for name, track in source.items():
        again = found[name]
        moments = again.time[again.time > began + 0.03]
        blank = np.isnan(track.command)
        wanted = np.interp(moments - began, track.time[~blank], track.command[~blank])
        known = again.enabled[again.time > began + 0.03] & (np.abs(moments - began - 2.0) > 0.05)
        np.testing.assert_allclose(again.command[again.time > began + 0.03][known], wanted[known], atol=0.011)
    limp = found["knee"].time[~found["knee"].enabled]
    assert limp.min() - began == pytest.approx(2.5, abs=0.02)
    assert found["hip"].enabled[:-1].all()
    assert robot["hip"].torque == pytest.approx(0.75)


def test_a_replay_is_refused_where_the_robot_lacks_a_servo_or_cannot_reach(tmp_path):
    source = two_servos()
    with pytest.raises(UsageError, match="this robot lacks: hip"):
        check("replay", LaggingRobot(names=("knee",)), None, Options(source=source))
    assert check("replay", LaggingRobot(names=("knee",)), "knee", Options(source=source)) == ("knee",)
    with pytest.raises(UsageError, match="has no servo 'toe'"):
        check("replay", LaggingRobot(names=("knee", "toe")), "toe", Options(source=source))
    stiff = LaggingRobot(names=("hip", "knee"))
    stiff["hip"].max_position = 0.5
    with pytest.raises(UsageError, match="46° is beyond the limits of hip"):
        check("replay", stiff, None, Options(source=source))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"duration": 0.0}, "must be positive"),
        ({"low": math.nan}, "must be positive"),
        ({"amplitude": math.inf}, "must be numbers"),
        ({"speed": -1.0}, "speed not negative"),
        ({"duties": (0.5, 1.5)}, "a duty must be above 0"),
    ],
)
def test_numbers_that_no_experiment_can_take_are_refused(wrong, said):
    with pytest.raises(UsageError, match=said):
        Options(**wrong)


def test_a_periodic_motion_stays_within_the_limits_of_its_servo_unless_an_amplitude_is_given():
    narrow = LaggingRobot()["shoulder"]
    narrow.min_position, narrow.max_position = math.radians(-6.4), math.radians(120)
    assert math.degrees(Options().swing(narrow)) == pytest.approx(6)
    assert Options(amplitude=0.5).swing(narrow) == 0.5
    narrow.min_position = -math.inf
    assert math.degrees(Options().swing(narrow)) == pytest.approx(60)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("step", Options(angles=(math.radians(170),)), "170° is beyond the limits"),
        ("duty", Options(), "cannot turn endlessly, as duty needs it"),
        ("dance", Options(), "no experiment 'dance'"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_moves(tmp_path, name, options, said):
    robot = LaggingRobot()
    robot["shoulder"].capabilities = {"wheel": "unsupported"}
    with pytest.raises(UsageError, match=said):
        conducted(tmp_path / "a.mcap", name, options, robot)
    assert not robot["shoulder"].driven
