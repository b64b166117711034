"""Episodes of LeRobot datasets as recordings."""

import json
import math
import sys
from importlib import import_module

import numpy as np
import pytest

import axbridge
from axbridge.cli.app import run
from tests.support.lerobot_dataset import write_dataset

import_module("axbridge.cli.import_")

FRAMES = 40
SWEEP = np.linspace(-90, 90, FRAMES)
CALIBRATION = {  # as LeRobot writes it
    "shoulder_pan": {"id": 1, "drive_mode": 0, "homing_offset": 0, "range_min": 0, "range_max": 4095},
    "elbow_flex": {"id": 3, "drive_mode": 1, "homing_offset": 0, "range_min": 1000, "range_max": 3000},
    "gripper": {"id": 6, "drive_mode": 0, "homing_offset": 0, "range_min": 2048, "range_max": 3048},
}


def episode(offset=0.0):
    states = np.stack([SWEEP + offset, 0.5 * SWEEP, np.linspace(0, 100, FRAMES)], axis=1)
    return states, states + 1.0


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.json").write_text(json.dumps(CALIBRATION))
    return tmp_path


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.slow
def test_the_episode_that_is_named_becomes_a_recording(desk, version, capsys):
    write_dataset(desk / "set", [episode(), episode(5.0), episode(7.0)], version=version)
    assert run(["import", "set", "out.mcap", "--episode", "1", "--unit", "deg"]) == 0
    said = capsys.readouterr()
    assert "out.mcap: 2 servos, 80 samples, 1.3 s" in said.out
    assert "gripper.pos is left out" in said.err
    recording = axbridge.open_recording("out.mcap")
    assert list(recording) == ["shoulder_pan", "elbow_flex"]
    track = recording["shoulder_pan"]
    assert track.time == pytest.approx(np.arange(FRAMES) / 30, abs=1e-6)
    assert np.degrees(track.position) == pytest.approx(SWEEP + 5.0, abs=1e-4)
    assert np.degrees(track.command) == pytest.approx(SWEEP + 6.0, abs=1e-4)
    said = recording.metadata["lerobot"]
    assert (said["dataset"], said["episode"], said["robot_type"], said["fps"]) == ("set", 1, "so101_follower", 30)
    assert said["unit"]["elbow_flex.pos"] == "deg from the middle of the calibrated range"
    assert len(recording.metadata["source_sha256"]) == 64
    assert [segment.name for segment in recording.segments] == ["episode 1"]


def test_what_axbridge_recorded_needs_no_unit(desk):
    write_dataset(desk / "set", [episode()], robot="axbridge")
    assert run(["import", "set", "out.mcap"]) == 0
    recording = axbridge.open_recording("out.mcap")
    assert list(recording) == ["shoulder_pan", "elbow_flex", "gripper"]
    assert np.degrees(recording["gripper"].position[-1]) == pytest.approx(100)


def test_values_become_angles_by_the_calibration(desk):
    write_dataset(desk / "set", [episode()])
    counts = {}
    for unit in ("normalised", "deg"):
        words = ("--unit", unit, "--calibration", "arm.json", "--force")
        assert run(["import", "set", "out.mcap", *words]) == 0
        recording = axbridge.open_recording("out.mcap")
        counts[unit] = {name: recording[name].position / (math.tau / 4096) + 2048 for name in recording}
    # LeRobot, `_normalize`: (counts - min) / (max - min) * 200 - 100, negative where drive_mode is set; a gripper to 100
    found = counts["normalised"]
    assert (found["shoulder_pan"] - 0) / 4095 * 200 - 100 == pytest.approx(SWEEP, abs=1e-4)
    assert -((found["elbow_flex"] - 1000) / 2000 * 200 - 100) == pytest.approx(0.5 * SWEEP, abs=1e-4)
    assert (found["gripper"] - 2048) / 1000 * 100 == pytest.approx(np.linspace(0, 100, FRAMES), abs=1e-4)
    # LeRobot's degrees count from the middle of the servo
    assert (counts["deg"]["elbow_flex"] - 2000) * 360 / 4095 == pytest.approx(0.5 * SWEEP, abs=1e-4)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["set", "out.mcap"], "does not say in which unit"),
        (["set", "out.mcap", "--unit", "counts"], "no unit of a dataset"),
        (["set", "out.mcap", "--unit", "normalised"], "add --calibration"),
        (["set", "out.mcap", "--unit", "deg", "--episode", "9"], "has no episode 9\nit has 1, from 0 on"),
        (["set", "out.mcap", "--unit", "deg", "--calibration", "nothing.json"], "nothing.json"),
        (["set/data", "out.mcap"], "has neither meta/info.json nor control.csv"),
        (["arm.json", "out.mcap", "--calibration", "arm.json"], "is no dataset of LeRobot"),
    ],
)
def test_what_is_not_known_is_asked_for(desk, words, why, capsys):
    write_dataset(desk / "set", [episode()])
    assert run(["import", *words]) == 2
    assert why in capsys.readouterr().err
    assert not (desk / "out.mcap").exists()


def test_another_layout_and_a_lost_shape_are_named(desk, capsys):
    write_dataset(desk / "old", [episode()], version="v1.6")
    assert run(["import", "old", "out.mcap", "--unit", "deg"]) == 2
    assert "is of version v1.6" in capsys.readouterr().err
    write_dataset(desk / "odd", [episode()])
    info = json.loads((desk / "odd/meta/info.json").read_text())
    info["features"]["action"]["names"] = ["shoulder_pan.pos"]
    (desk / "odd/meta/info.json").write_text(json.dumps(info))
    assert run(["import", "odd", "out.mcap", "--unit", "deg"]) == 2
    assert "action is of another shape" in capsys.readouterr().err


def test_what_a_killed_recorder_left_is_named(desk, capsys):
    data = next(write_dataset(desk / "set", [episode()]).glob("data/*/*.parquet"))
    data.write_bytes(data.read_bytes()[:-8])  # it writes the end of the file when it closes it
    assert run(["import", "set", "out.mcap", "--unit", "deg"]) == 2
    said = capsys.readouterr().err
    assert str(data.relative_to(desk)) in said
    assert "a killed LeRobot leaves half a file" in said
    assert not (desk / "out.mcap").exists()


def test_without_pyarrow_it_says_how_to_get_it(desk, capsys, monkeypatch):
    write_dataset(desk / "set", [episode()])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert run(["import", "set", "out.mcap", "--unit", "deg"]) == 2
    assert "pip install pyarrow" in capsys.readouterr().err
