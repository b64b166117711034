"""Experiments on simulated servos: their segments, refused options, and the servo's state at the end."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.comparison.comparison import compare
from axbridge.errors import UsageError
from axbridge.motion import experiments
from axbridge.motion.experiments import EXPERIMENTS, Options, check, conduct, step_and_fall
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.stored import open_recording

pytestmark = pytest.mark.slow


def conducted(path, name, options=None, rig="bench_arm", before=lambda robot: None, servo=None, **more):
    """Return the result, the recording, and torque enable and angle limits at the end of an experiment."""
    with axbridge.open(rig) as robot, Recorder(path, {}) as recorder:
        before(robot)
        done = conduct(name, robot, servo, recorder, options, **more)
        left = [robot[0].torque_enabled, robot[0].read("cw_angle_limit"), robot[0].read("ccw_angle_limit")]
    return done, open_recording(path), left


def test_a_recording_with_the_name_of_a_table_is_refused_before_anything_moves(tmp_path):
    with pytest.raises(UsageError, match=r"name it .*q\.mcap"):
        axbridge.record("step", "bench_arm", tmp_path / "q.csv")
    assert not list(tmp_path.iterdir())
    once = axbridge.record("step", "bench_arm", tmp_path / "q.mcap", tick_ms=np.float32(10), seed=np.int64(3))
    again = Options(source=tmp_path / "q.mcap")
    axbridge.record("replay", "bench_arm", tmp_path / "r.mcap", options=again, tick_ms=10)
    for seed in (-1, "x"):
        with pytest.raises(UsageError, match="a seed is a whole number"):
            axbridge.simulate(once, "bench_arm", engine="none", seed=seed)


def test_step_and_fall_is_recorded_with_its_segments(tmp_path):
    with axbridge.open("bench_arm") as robot, Recorder(tmp_path / "a.mcap", {}) as recorder:
        assert step_and_fall(robot, "shoulder", recorder)
    recording = open_recording(tmp_path / "a.mcap")
    assert [s.name for s in recording.segments] == ["rest", "step", "fall"]
    track = recording["shoulder"]
    assert len(track) == round(3.5 / 0.02) + 1
    assert track.command[-1] == pytest.approx(math.pi / 2)
    assert track.enabled.sum() == pytest.approx(100, abs=1)
    stepped = recording.segments[1].start
    assert track.time[track.command > 1].min() == pytest.approx(stepped, abs=0.02)
    parts = compare(recording, recording).pairs[0].parts
    assert 0.1 < parts[1].results[0].rise < 0.5
    assert parts[2].results[0] > 0.1


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_each_experiment_has_segments_and_ends_limp_with_unchanged_angle_limits(tmp_path, name):
    options = Options(angles=np.float32(0.5), duties=np.array([0.3, 1.0], np.float32), low=np.float32(0.5))
    done, recording, left = conducted(tmp_path / "a.mcap", name, options)
    assert (done.whole, left) == (True, [False, 0, 1023])
    assert recording.segments
    assert len(recording["shoulder"]) > 100


@pytest.mark.parametrize("name", ["step", "sine", "chirp", "sin-time-square", "replay"])
def test_a_limp_servo_moves_gently_to_the_start_before_the_recording(tmp_path, monkeypatch, name):
    monkeypatch.setattr("axbridge.robot.robot._STALE", -1.0)  # as on a busy computer: servos are read first
    moments = np.arange(0, 0.5, 0.02)
    source = Recording(Path("s.mcap"), {"horn": Track.of("horn", moments, command=np.full(25, 0.8))}, ())
    options = Options(angles=(0.8,), amplitude=0.5, duration=1.0, period=0.5, low=4.0, high=5.0, source=source)
    moved: list[tuple[float, float]] = []

    def move_away(robot):
        robot["horn"].goto(-0.9, 1.0)
        robot["horn"].torque_off()
        robot.observe(lambda _report, table: moved.append((robot.time, abs(table.column("velocity").item(0)))))

    done, recording, _ = conducted(tmp_path / "a.mcap", name, options, "bare_horn", move_away, tick_ms=20)
    assert done.whole
    assert recording["horn"].position[0] == pytest.approx(0.8 if name == "replay" else 0.0, abs=math.radians(2))
    speeds = [speed for time, speed in moved if time <= recording.start]
    assert math.radians(40) < max(speeds) < math.radians(75)  # 60°/s, and the resolution of Present Speed


def test_an_experiment_waits_limp_until_a_warm_servo_has_cooled(tmp_path, monkeypatch):
    for name, value in {"WARM": 20.0, "COOL": 10.0, "PATIENCE": 2.0}.items():
        monkeypatch.setattr(experiments, name, value)
    powered = []

    def watch(robot):
        robot.observe(lambda report, _table: report.requested > 100 and powered.append(robot[0].torque_enabled))

    done, recording, _ = conducted(tmp_path / "a.mcap", "step", Options(angles=(0.5,)), before=watch)
    assert done.whole
    assert [event.name for event in recording.events if event.name != "segment"] == ["cooling", "bus statistics"]
    assert powered == [False] * 4  # half a second each


def two_servos():
    """Return a tilt that follows a sine and goes limp, and a pan with a late step and unknown goals between others."""
    moments = np.arange(0, 4, 0.01)
    pan = np.where(moments < 2.0, 0.2, 0.8)
    pan[1::5] = math.nan
    limp = (moments < 2.5).astype(float)
    tracks = {
        "tilt": Track.of("tilt", moments, command=0.5 * np.sin(moments), torque_enabled=limp),
        "pan": Track.of("pan", moments, command=pan, torque_limit=np.where(moments < 1.0, math.nan, 0.5)),
    }
    events = (Event(0.0, "segment", {"name": "both"}), Event(2.0, "segment", {"name": "pan right", "servo": "pan"}))
    return Recording(Path("two.mcap"), tracks, events)


@pytest.mark.parametrize("tick_ms", [10.0, 1.0])
def test_a_replay_keeps_the_times_of_the_source_even_with_late_steps(tmp_path, tick_ms):
    source, limits = two_servos(), []
    done, recording, _ = conducted(
        tmp_path / "a.mcap", "replay", Options(source=source), "pan_tilt", tick_ms=tick_ms,
        before=lambda robot: robot.observe(lambda *_: limits.append(robot["pan"].available_torque)),
    )  # fmt: skip
    assert done.whole
    assert (done.late > 0.9 * done.steps) == (tick_ms == 1.0)  # shorter than the bus cycle
    assert set(recording) == {"pan", "tilt"}
    assert [(s.name, s.data.get("servo")) for s in recording.segments] == [("both", None), ("pan right", "pan")]
    begin = recording.segments[0].start
    assert recording.end - begin == pytest.approx(4.0, abs=0.03)
    assert recording.segments[1].start - begin == pytest.approx(2.0, abs=0.02)
    for name, track in source.items():
        again = recording[name]
        later = again.time > begin + 0.03
        moments = again.time[later]
        blank = np.isnan(track.command)
        goals = np.interp(moments - begin, track.time[~blank], track.command[~blank])
        known = again.enabled[later] & (np.abs(moments - begin - 2.0) > 0.05)
        np.testing.assert_allclose(again.command[later][known], goals[known], atol=0.011)
    limp = recording["tilt"].time[~recording["tilt"].enabled & (recording["tilt"].time > begin + 0.1)]
    assert limp.min() - begin == pytest.approx(2.5, abs=0.03)
    assert min(limits) == pytest.approx(0.5 * max(limits))


FAR = replace(two_servos(), tracks={"shoulder": Track.of("shoulder", np.arange(3.0), command=np.full(3, 3.0))})
SILENT = replace(two_servos(), tracks={"pan": Track.of("pan", np.arange(3.0), command=np.full(3, math.nan))})


@pytest.mark.parametrize(
    ("name", "servo", "options", "message"),
    [
        ("step", None, Options(angles=(math.radians(170),)), "170° is beyond the limits"),
        ("dance", None, Options(), "no experiment 'dance'"),
        ("replay", None, Options(), "needs a recording"),
        ("replay", None, Options(source=SILENT), "no commands"),
        ("replay", None, Options(source=FAR), "172° is beyond the limits of shoulder"),
        ("replay", None, Options(source=two_servos()), "this robot lacks: tilt, pan"),
        ("replay", "shoulder", Options(source=two_servos()), "has no servo 'shoulder'"),
    ],
)
def test_impossible_experiments_are_refused_before_any_motion(tmp_path, name, servo, options, message):
    with axbridge.open("bench_arm") as robot, Recorder(tmp_path / "a.mcap", {}) as recorder:
        with pytest.raises(UsageError, match=message):
            conduct(name, robot, servo, recorder, options)
        assert robot.time == 0
        assert not robot[0].torque_enabled


def test_a_replay_of_another_servo_needs_its_name_where_the_robot_has_several(tmp_path):
    source = Recording(Path("s.mcap"), {"horn": Track.of("horn", np.arange(3.0), command=np.full(3, 0.2))}, ())
    with axbridge.open("pan_tilt") as robot, Recorder(tmp_path / "a.mcap", {}) as recorder:
        with pytest.raises(UsageError, match=r"lacks: horn\n.* --servo pan or tilt"):
            conduct("replay", robot, None, recorder, Options(source=source))
        assert robot.time == 0
        assert conduct("replay", robot, "tilt", recorder, Options(source=source)).whole


def test_an_angle_beyond_a_stop_of_the_urdf_is_refused_though_the_rig_has_no_limits(tmp_path):
    beyond = Options(angles=(math.radians(150),))
    with axbridge.open("so101") as robot, Recorder(tmp_path / "a.mcap", {}) as recorder:
        with pytest.raises(UsageError, match="150° is beyond the limits of elbow_flex: -97° to 97°"):
            conduct("step", robot, "elbow_flex", recorder, beyond)
        assert robot.time == 0
    assert check("stall", robot, "elbow_flex", beyond) == ("elbow_flex",)  # it needs a stop


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"duration": 0.0}, "duration 0 s is not positive"),
        ({"amplitude": math.inf}, "amplitude inf is not finite"),
        ({"speed": -1.0}, "speed .* is negative"),
        ({"duties": (0.5, 1.5)}, "duty 1.5 is not above 0"),
        *(
            ({name: wrong}, "must be a number")
            for name, wrong in {"angles": "x", "duration": None, "amplitude": "x"}.items()
        ),
    ],
)
def test_invalid_option_values_are_refused(wrong, words):
    with pytest.raises(UsageError, match=words):
        Options(**wrong)


def test_a_periodic_motion_stays_within_the_limits_of_its_servo_unless_an_amplitude_is_given():
    for low, degrees in ((-6.4, 6), (-100, 60)):
        narrow = {"min_position": math.radians(low), "max_position": math.radians(120)}
        with axbridge.open(axbridge.Rig.load("bench_arm").with_servos(lambda servo, narrow=narrow: narrow)) as robot:
            assert math.degrees(Options().swing(robot[0])) == pytest.approx(degrees)
            assert Options(amplitude=0.5).swing(robot[0]) == 0.5
