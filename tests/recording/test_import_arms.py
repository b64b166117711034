"""Import of arms' motions: episodes of LeRobot datasets, and folders with goals and states."""

import csv
import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import axbridge
from axbridge.cli.app import run
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.recording.import_arms import import_arm_folder, is_arm_folder
from axbridge.recording.provenance import rig_of
from tests.support.lerobot_dataset import write_dataset

FRAMES = 40
SWEEP = np.linspace(-90, 90, FRAMES)
CALIBRATION = {  # in LeRobot's layout
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
def test_the_given_episode_becomes_a_recording(desk, version, capsys):
    write_dataset(desk / "set", [episode(), episode(5.0), episode(7.0)], version=version)
    assert run(["import", "set", "out.mcap", "--episode", "1", "--unit", "deg"]) == 0
    output = capsys.readouterr()
    assert "out.mcap: 2 servos, 80 samples, 1.3 s" in output.out
    assert "gripper.pos is left out" in output.err
    recording = axbridge.open_recording("out.mcap")
    assert list(recording) == ["shoulder_pan", "elbow_flex"]
    track = recording["shoulder_pan"]
    assert track.time == pytest.approx(np.arange(FRAMES) / 30, abs=1e-6)
    assert np.degrees(track.position) == pytest.approx(SWEEP + 5.0, abs=1e-4)
    assert np.degrees(track.command) == pytest.approx(SWEEP + 6.0, abs=1e-4)
    output = recording.metadata["lerobot"]
    assert output | {"dataset": "set", "episode": 1, "robot_type": "so101_follower", "fps": 30} == output
    assert output["unit"]["elbow_flex.pos"] == "deg from the middle of the calibrated range"
    assert len(recording.metadata["source_sha256"]) == 64
    assert [segment.name for segment in recording.segments] == ["episode 1"]


def test_values_are_converted_by_the_calibration_or_axbridges_own_unit(desk, capsys):
    write_dataset(desk / "ours", [episode()], robot="axbridge")
    assert run(["import", "ours", "ours.mcap"]) == 0
    recording = axbridge.open_recording("ours.mcap")
    assert list(recording) == ["shoulder_pan", "elbow_flex", "gripper"]
    assert np.degrees(recording["gripper"].position[-1]) == pytest.approx(100)
    write_dataset(desk / "set", [episode()])
    counts = {}
    for unit in ("normalised", "deg"):
        words = ("--unit", unit, "--calibration", "arm.json", "--force")
        assert run(["import", "set", "out.mcap", *words]) == 0
        recording = axbridge.open_recording("out.mcap")
        output = capsys.readouterr().err
        assert "shoulder_pan has a range of 360°, almost a turn: it may have been led across the end" in output
        assert output.count("almost a turn") == 1
        counts[unit] = {name: recording[name].position / (math.tau / 4096) + 2048 for name in recording}
    # LeRobot, `_normalize`: (counts - min) / (max - min) * 200 - 100, negative where drive_mode is set; a gripper to 100
    normalised = counts["normalised"]
    assert (normalised["shoulder_pan"] - 0) / 4095 * 200 - 100 == pytest.approx(SWEEP, abs=1e-4)
    assert -((normalised["elbow_flex"] - 1000) / 2000 * 200 - 100) == pytest.approx(0.5 * SWEEP, abs=1e-4)
    assert (normalised["gripper"] - 2048) / 1000 * 100 == pytest.approx(np.linspace(0, 100, FRAMES), abs=1e-4)
    # LeRobot's degrees count from the middle of the servo
    assert (counts["deg"]["elbow_flex"] - 2000) * 360 / 4095 == pytest.approx(0.5 * SWEEP, abs=1e-4)


EARLY = {  # as LeRobot wrote it until 2025
    "homing_offset": [-2000, 1000, -1900],
    "drive_mode": [0, 1, 0],
    "start_pos": [2010, 990, 2020],
    "end_pos": [3024, -24, 3020],
    "calib_mode": ["DEGREE", "DEGREE", "LINEAR"],
    "motor_names": list(CALIBRATION),
}


@pytest.mark.parametrize("arm", ["", "main_"])
def test_values_are_converted_by_a_calibration_from_before_2025(desk, arm, said):
    write_dataset(desk / "set", [episode()], names=[f"{arm}{name}" for name in CALIBRATION])
    (desk / "arm.json").write_text(json.dumps(EARLY))
    assert run(["import", "set", "out.mcap", "--unit", "deg", "--calibration", "arm.json"]) == 0
    recording = axbridge.open_recording("out.mcap")
    pan, elbow, gripper = (recording[name].position / (math.tau / 4096) + 2048 for name in recording)
    # LeRobot, `apply_calibration`, with raw counts
    assert (pan - 2000) / 2048 * 180 == pytest.approx(SWEEP, abs=1e-4)
    assert (-elbow + 1000) / 2048 * 180 == pytest.approx(0.5 * SWEEP, abs=1e-4)
    assert (gripper - 2020) / (3020 - 2020) * 100 == pytest.approx(np.linspace(0, 100, FRAMES), abs=1e-4)
    again = ("import", "set", "two.mcap", "--calibration", "arm.json", "--unit")
    words = "wrote degrees with a calibration from before 2025\n--unit deg"
    assert words in said(*again, "normalised", code=2)
    wrong = {"drive_mode": [0]}, {"calib_mode": ["RADIAN"] * 3}
    for change, why in zip(wrong, ("has lists of different lengths", "is none of LeRobot's: calib_mode"), strict=True):
        (desk / "arm.json").write_text(json.dumps(EARLY | change))
        assert f"arm.json: {why}" in said(*again, "deg", code=2)


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
def test_missing_units_and_calibrations_are_requested(desk, words, why, said):
    write_dataset(desk / "set", [episode()])
    assert why in said("import", *words, code=2)
    assert not (desk / "out.mcap").exists()


def test_other_layouts_wrong_shapes_and_incomplete_files_are_named(desk, capsys):
    def refused():
        assert run(["import", "set", "out.mcap", "--unit", "deg"]) == 2
        assert not (desk / "out.mcap").exists()
        return capsys.readouterr().err

    info = write_dataset(desk / "set", [episode()]) / "meta" / "info.json"
    text = info.read_text()
    info.write_text(text.replace("v3.0", "v1.6"))
    assert "is of version v1.6" in refused()
    features = json.loads(text)
    features["features"]["action"]["names"] = ["shoulder_pan.pos"]
    info.write_text(json.dumps(features))
    assert "action is of another shape" in refused()
    info.write_text(text)
    data = next((desk / "set").glob("data/*/*.parquet"))
    data.write_bytes(data.read_bytes()[:-8])  # the end of the file is written at its close
    assert f"{data.relative_to(desk)}" in (output := refused())
    assert "a killed LeRobot leaves half a file" in output


JOINTS = ("pan", "lift", "gripper")
ARM = Rig.model_validate({
    "name": "arm",
    "servo": [{"name": name, "joint": name, "id": k, "min_stop": -0.2, "max_stop": 1.8} for k, name in enumerate(JOINTS)],
})  # fmt: skip
MS = 1e3  # µs


def write(folder, goals, states, *, packed=False):
    """Write a folder of rows (time in µs, positions) in SAGE's layout."""
    folder.mkdir(exist_ok=True)
    rest = {"control.csv": [], "state_motor.csv": [[0.0] * 3, [0.1] * 3]}
    for (name, more), rows in zip(rest.items(), (goals, states), strict=True):
        path = folder / (f"{name}.gz" if packed else name)
        with (gzip.open if packed else open)(path, "wt", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["type", "timestamp", "positions", *("velocities", "torques")[: len(more)]])
            writer.writerows(["X", time, json.dumps(values), *map(json.dumps, more)] for time, values in rows)
    return folder


GOALS = [(20 * MS * k, [0.1 * k, 0.0, 0.5]) for k in range(4)]
STATES = [(20 * MS * k, [0.1 * k - 0.05, 0.01, 0.25]) for k in range(4)]


@pytest.mark.parametrize("packed", [False, True])
def test_goals_are_sent_one_by_one_before_the_servos_are_read(tmp_path, packed):
    folder = write(tmp_path / "wave", GOALS, STATES, packed=packed)
    assert is_arm_folder(folder)
    recording = import_arm_folder(folder, ARM)
    assert recording.metadata["experiment"] == "wave"
    for place, name in enumerate(JOINTS):
        track = recording[name]
        np.testing.assert_allclose(track.commanded - 0.02 * np.arange(4), 0.4e-3 * (place + 0.5))
        np.testing.assert_allclose(track.time - 0.02 * np.arange(4), 0.4e-3 * (3 + 3 * place + 0.5))
    np.testing.assert_allclose(recording["pan"].command, [0.0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(recording["pan"].position, [-0.05, 0.05, 0.15, 0.25])
    np.testing.assert_allclose(recording["gripper"].command, 0.8)  # a share of its range
    np.testing.assert_allclose(recording["gripper"].position, 0.3)
    late = [(time + 7 * MS, values) for time, values in STATES[:3:2]]  # the last goal before each state
    track = import_arm_folder(write(tmp_path / "late", GOALS, late), ARM)["pan"]
    np.testing.assert_allclose(track.command, [0.0, 0.2])
    np.testing.assert_allclose(track.commanded, [0.2e-3, 40.2e-3])


@given(values=st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=2, max_size=20))
def test_numbers_are_imported_unchanged(tmp_path_factory, values):
    rows = [(20 * MS * k, row) for k, row in enumerate(values)]
    recording = import_arm_folder(write(tmp_path_factory.mktemp("arm"), rows, rows), ARM)
    for place, track in enumerate(recording[name] for name in JOINTS[:2]):
        np.testing.assert_array_equal(track.position, [row[place] for row in values])
        np.testing.assert_array_equal(track.command, track.position)


@pytest.mark.parametrize(
    ("goals", "states", "message"),
    [
        (GOALS, [], "holds no samples"),
        (GOALS, [STATES[0], (20 * MS, [0.1])], "line 3 has 1 joint, the rig 3"),
        (GOALS, [STATES[0], ("soon", [0.0] * 3)], "line 3 has no time and numbers"),
        (GOALS, [STATES[0], (20 * MS, ["a", 0, 0])], "line 3 has no time and numbers"),
        (GOALS, [STATES[0], (20 * MS, None)], "line 3 has no time and numbers"),
        (GOALS, [STATES[0], (20 * MS, [float("nan"), 0, 0])], "a number that is not finite"),
        (GOALS, STATES[::-1], "time stamps that do not rise"),
        (GOALS[1:], STATES, "has a state before the first goal"),
    ],
)
def test_an_invalid_folder_is_refused_with_a_reason(tmp_path, goals, states, message):
    with pytest.raises(RecordingError, match=message):
        import_arm_folder(write(tmp_path / "wave", goals, states), ARM)


def test_the_verb_takes_names_and_the_grippers_range_from_the_rig(desk, capsys, said):
    six = [(time, [0.1, 0.2, 0.3, 0.4, 0.5, 1.0]) for time, _ in GOALS]
    folder = write(desk / "wave", six, six)
    assert run(["import", "wave", "out.mcap", "--rig", "koch"]) == 0
    assert "6 servos, 24 samples" in capsys.readouterr().out
    recording = axbridge.open_recording("out.mcap")
    assert rig_of(recording).name == "koch"  # so that later verbs need no --rig
    assert set(recording.metadata["models"]) == set(recording)
    assert recording["gripper"].position[0] == pytest.approx(1.8)
    assert recording["wrist_roll"].position[0] == pytest.approx(0.5)
    assert "--rig so101" in said("import", "wave", "other.mcap", code=2)
    (folder / "control.csv").unlink()
    refused = said("import", "wave", "other.mcap", "--rig", "koch", code=2)
    assert "neither meta/info.json nor control.csv" in refused


@pytest.mark.slow
def test_degrees_read_as_radians_give_one_warning_with_the_option_for_datasets(desk, capsys):
    write_dataset(desk / "set", [episode()])
    assert run(["import", "set", "out.mcap", "--unit", "rad"]) == 0
    err = capsys.readouterr().err
    assert (err.count("degrees read as radians"), err.count("import it with --unit deg")) == (1, 1)
    assert "--column position" not in err
