"""Bags of ROS 2, read by two programs that know nothing of axbridge: rosbags, and Foxglove's decoder of ROS 2."""

import json
import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader

import axbridge
from axbridge.cli.app import run
from axbridge.config.rig import Rig
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.stored import write_recording
from axbridge.rotations import of_roll_pitch_yaw

for verb in ("convert", "import_"):
    import_module(f"axbridge.cli.{verb}")


def recorded(rig, **more):
    """A recording of a rig whose servos are sampled a little after each other."""
    time = np.arange(0, 1, 0.02)
    tracks = {
        servo.name: Track.of(servo.name, time + 0.001 * place, position=0.1 * place + time, torque=0 * time + 0.2)
        for place, servo in enumerate(rig.servos)
    }
    return Recording(Path("x.mcap"), tracks, metadata=describe(rig, backend="sim"), **more)


LIFT = ["import", "sample:xl330", "lift.mcap"]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def messages(bag):
    """What rosbags reads: (log time, message) by topic."""
    found = {}
    with AnyReader([Path(bag)]) as reader:
        for connection, logged, data in reader.messages():
            found.setdefault(connection.topic, []).append((logged, reader.deserialize(data, connection.msgtype)))
    return found


def test_positions_goals_and_torques_are_those_of_the_recording(desk, capsys):
    assert run(LIFT) == 0
    assert run(["convert", "lift.mcap", "bag", "--ros2"]) == 0
    assert "wrote bag: 1499 /joint_states, 1499 /joint_commands" in capsys.readouterr().out
    track, found = axbridge.open_recording("lift.mcap")["pendulum"], messages("bag")
    states = [state for _, state in found["/joint_states"]]
    assert {tuple(state.name) for state in states} == {("pendulum",)}
    assert np.array_equal([state.position[0] for state in states], track.position)
    assert np.array_equal([state.velocity[0] for state in states], track.velocity)
    assert np.array_equal([goal.position[0] for _, goal in found["/joint_commands"]], track.command)
    stamps = [state.header.stamp for state in states]
    times = np.array([stamp.sec * 10**9 + stamp.nanosec for stamp in stamps])
    assert times.tolist() == [logged for logged, _ in found["/joint_states"]]
    assert times - times[0] == pytest.approx((track.time - track.time[0]) * 1e9, abs=2)


def test_another_decoder_reads_the_same(desk):
    recording = recorded(Rig.load("pan_tilt"), events=(Event(0.2, "segment", {"name": "up"}),))
    write_recording(recording, "head.mcap")
    assert run(["convert", "head.mcap", "bag", "--ros2"]) == 0
    with Path("bag/bag.mcap").open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == "ros2"
        found = [(one.channel, one.decoded_message) for one in reader.iter_decoded_messages()]
    assert {channel.message_encoding for channel, _ in found} == {"cdr"}
    states = [message for channel, message in found if channel.topic == "/joint_states"]
    assert len(states) == 50
    assert states[25].name == ["pan", "tilt"]
    assert (list(states[25].position), list(states[25].effort)) == (
        pytest.approx([0.5, 0.6]),
        pytest.approx([0.2, 0.2]),
    )
    assert list(states[0].velocity) == []
    (event,) = [json.loads(message.data) for channel, message in found if channel.topic == "/events"]
    assert event == {"time": 0.2, "name": "segment", "data": {"name": "up"}}
    ((channel, robot),) = [pair for pair in found if pair[0].topic == "/robot_description"]
    assert '<robot name="pan_tilt"' in robot.data
    assert "durability: 1" in channel.metadata["offered_qos_profiles"]  # transient local: late subscribers get it


def test_a_walk_has_its_base_in_the_world(desk):
    cycles = {"time": np.array([0.0, 0.5]), **{f"base_{key}": np.array([0.1, 0.2]) for key in "xyz"}}
    cycles |= {"base_roll": np.zeros(2), "base_pitch": np.zeros(2), "base_yaw": np.array([0.0, math.pi / 2])}
    write_recording(recorded(Rig.load("bioloid"), cycles=cycles), "walk.mcap")
    assert run(["convert", "walk.mcap", "bag", "--ros2"]) == 0
    (_, message) = messages("bag")["/tf"][1]
    (pose,) = message.transforms
    assert (pose.header.frame_id, pose.child_frame_id) == ("world", "torso")
    turned = pose.transform.rotation
    assert (turned.x, turned.y, turned.z, turned.w) == pytest.approx(of_roll_pitch_yaw(0, 0, math.pi / 2))
    assert pose.transform.translation.z == 0.2


@pytest.mark.slow
def test_what_is_there_stays_unless_it_is_a_bag_and_force_is_given(desk, capsys):
    assert run(LIFT) == 0
    (desk / "notes").mkdir()
    (desk / "notes" / "mine.txt").write_text("mine")
    assert run(["convert", "lift.mcap", "notes", "--ros2", "--force"]) == 2
    assert "notes is already there, and is no bag" in capsys.readouterr().err
    assert (desk / "notes" / "mine.txt").read_text() == "mine"
    assert run(["convert", "lift.mcap", "bag", "--ros2"]) == 0
    assert run(["convert", "lift.mcap", "bag", "--ros2"]) == 2
    assert "replace it with --force" in capsys.readouterr().err
    assert run([*LIFT, "--to", "3", "--force"]) == run(["convert", "lift.mcap", "bag", "--ros2", "--force"]) == 0
    assert len(messages("bag")["/joint_states"]) < 800
    assert sorted(path.name for path in desk.iterdir()) == ["bag", "lift.mcap", "notes"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["bag.mcap", "--ros2"], "a bag of ROS 2 is a folder"),
        (["bag", "--ros2", "--wide"], "--wide is for tables"),
        (["bag", "--ros2", "--rate", "10"], "--rate is for a wide table"),
        (["lift.mcap/bag", "--ros2"], "cannot be written"),
    ],
)
@pytest.mark.slow
def test_what_makes_no_bag_is_refused_and_leaves_nothing(desk, capsys, words, why):
    assert run(LIFT) == 0
    assert run(["convert", "lift.mcap", *words]) in {2, 3}
    assert why in capsys.readouterr().err
    assert [path.name for path in desk.iterdir()] == ["lift.mcap"]
