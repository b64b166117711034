"""Files for Foxglove's 3D panel, read back with MCAP's own reader."""

import json
import math
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from mcap.reader import make_reader

import axbridge
from axbridge.cli.app import run
from axbridge.config.rig import Rig
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Recording, Track
from axbridge.recording.stored import write_recording

for verb in ("convert", "import_"):
    import_module(f"axbridge.cli.{verb}")


def read(path):
    """Messages by topic: schema name, log time, body."""
    found = {}
    with path.open("rb") as stream:
        for schema, channel, message in make_reader(stream).iter_messages():
            found.setdefault(channel.topic, []).append((schema.name, message.log_time, json.loads(message.data)))
    return found


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(rig, **more):
    """A recording of a rig whose servos are sampled a little after each other."""
    time = np.arange(0, 1, 0.02)
    tracks = {
        servo.name: Track.of(servo.name, time + 0.001 * place, position=0.1 * place + time, torque=0 * time + 0.2)
        for place, servo in enumerate(rig.servos)
    }
    return Recording(Path("x.mcap"), tracks, metadata=describe(rig, backend="sim"), **more)


def test_the_robot_and_its_joints_are_in_the_file(desk, capsys):
    rig = Rig.load("pan_tilt")
    recording = write_recording(recorded(rig), "head.mcap")
    assert run(["convert", "head.mcap", "show.mcap"]) == 0
    assert "wrote show.mcap: 100 joint states" in capsys.readouterr().out
    found = read(desk / "show.mcap")
    ((schema, first, body),) = found["/robot_description"]
    assert schema == "std_msgs/String"
    assert ET.fromstring(body["data"]).get("name") == "pan_tilt"
    names = {joint["name"] for _, _, states in found["/joint_states"] for joint in states["joints"]}
    assert names == {servo.joint for servo in rig.servos}
    schema, logged, body = found["/joint_states"][50]
    assert schema == "foxglove.JointStates"
    stamp = body["timestamp"]
    assert stamp["sec"] * 10**9 + stamp["nsec"] == logged
    assert logged - first == pytest.approx(0.5e9, abs=1e3)
    assert body["joints"] == [{"name": "pan", "position": pytest.approx(0.5), "effort": pytest.approx(0.2)}]
    assert axbridge.open_recording("head.mcap").metadata["recorded"][:10] in str(np.datetime64(first, "ns"))
    assert recording.complete


def test_a_walk_has_its_base_in_the_world(desk):
    cycles = {"time": np.array([0.0, 0.5]), **{f"base_{key}": np.array([0.1, 0.2]) for key in "xyz"}}
    cycles |= {"base_roll": np.zeros(2), "base_pitch": np.zeros(2), "base_yaw": np.array([0.0, math.pi / 2])}
    write_recording(recorded(Rig.load("bioloid"), cycles=cycles), "walk.mcap")
    assert run(["convert", "walk.mcap", "show.mcap"]) == 0
    schema, _, body = read(desk / "show.mcap")["/tf"][1]
    assert schema == "foxglove.FrameTransform"
    assert (body["parent_frame_id"], body["child_frame_id"]) == ("world", "torso")
    assert body["translation"] == {"x": 0.2, "y": 0.2, "z": 0.2}
    half = pytest.approx(math.sqrt(0.5))
    assert body["rotation"] == {"x": 0, "y": 0, "z": half, "w": half}


def test_an_import_is_shown_on_the_rig_that_is_named(desk, capsys):
    assert run(["import", "sample:xl330", "log.mcap"]) == 0
    assert run(["convert", "log.mcap", "show.mcap"]) == 2
    assert "name its rig with --rig" in capsys.readouterr().err
    assert run(["convert", "log.mcap", "show.mcap", "--rig", "pan_tilt"]) == 2
    assert "no servo of log.mcap (pendulum) is one of the rig's (pan, tilt)" in capsys.readouterr().err
    assert not (desk / "show.mcap").exists()
    assert run(["convert", "log.mcap", "show.mcap", "--rig", "xl330_pendulum"]) == 0
    assert len(read(desk / "show.mcap")["/joint_states"]) == 1499


def test_a_recording_is_not_replaced_by_its_own_picture(desk, capsys):
    write_recording(recorded(Rig.load("pan_tilt")), "head.mcap")
    assert run(["convert", "head.mcap", "head.mcap", "--force"]) == 2
    assert "both read and to be written" in capsys.readouterr().err
