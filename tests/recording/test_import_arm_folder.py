"""Folders with goals and states of an arm: each joint has the times at which it was sent and read."""

import csv
import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axbridge.cli import app
from axbridge.cli import import_ as import_verb  # noqa: F401 - registers it
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.recording.import_arm_folder import import_arm_folder, is_arm_folder
from axbridge.recording.provenance import rig_of
from axbridge.recording.stored import open_recording

JOINTS = ("pan", "lift", "gripper")
ARM = Rig.model_validate({
    "name": "arm",
    "servo": [{"name": name, "joint": name, "id": k, "min_stop": -0.2, "max_stop": 1.8} for k, name in enumerate(JOINTS)],
})  # fmt: skip
MS = 1e3  # µs


def write(folder, goals, states, *, packed=False):
    """A folder of rows (time in µs, positions), as SAGE writes them."""
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
def test_goals_go_out_one_after_the_other_and_then_servos_are_read(tmp_path, packed):
    folder = write(tmp_path / "wave", GOALS, STATES, packed=packed)
    assert is_arm_folder(folder)
    found = import_arm_folder(folder, ARM)
    assert found.metadata["experiment"] == "wave"
    for place, name in enumerate(JOINTS):
        track = found[name]
        np.testing.assert_allclose(track.commanded - 0.02 * np.arange(4), 0.4e-3 * (place + 0.5))
        np.testing.assert_allclose(track.time - 0.02 * np.arange(4), 0.4e-3 * (3 + 3 * place + 0.5))
    np.testing.assert_allclose(found["pan"].command, [0.0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(found["pan"].position, [-0.05, 0.05, 0.15, 0.25])
    np.testing.assert_allclose(found["gripper"].command, 0.8)  # a share of its range
    np.testing.assert_allclose(found["gripper"].position, 0.3)


def test_a_state_belongs_to_the_goal_before_it(tmp_path):
    late = [(time + 7 * MS, values) for time, values in STATES[:3:2]]
    track = import_arm_folder(write(tmp_path / "wave", GOALS, late), ARM)["pan"]
    np.testing.assert_allclose(track.command, [0.0, 0.2])
    np.testing.assert_allclose(track.commanded, [0.2e-3, 40.2e-3])


@given(values=st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=2, max_size=20))
def test_numbers_arrive_as_they_were_written(tmp_path_factory, values):
    rows = [(20 * MS * k, row) for k, row in enumerate(values)]
    found = import_arm_folder(write(tmp_path_factory.mktemp("arm"), rows, rows), ARM)
    for place, track in enumerate(found[name] for name in JOINTS[:2]):
        np.testing.assert_array_equal(track.position, [row[place] for row in values])
        np.testing.assert_array_equal(track.command, track.position)


@pytest.mark.parametrize(
    ("goals", "states", "message"),
    [
        (GOALS, [], "holds no samples"),
        (GOALS, [STATES[0], (20 * MS, [0.1])], "line 3 has 1 joints, the rig 3"),
        (GOALS, [STATES[0], ("soon", [0.0] * 3)], "line 3 has no time and numbers"),
        (GOALS, [STATES[0], (20 * MS, ["a", 0, 0])], "line 3 has no time and numbers"),
        (GOALS, [STATES[0], (20 * MS, None)], "line 3 has no time and numbers"),
        (GOALS, [STATES[0], (20 * MS, [float("nan"), 0, 0])], "a number that is not finite"),
        (GOALS, STATES[::-1], "time stamps that do not rise"),
        (GOALS[1:], STATES, "has a state before the first goal"),
    ],
)
def test_a_folder_that_makes_no_sense_is_refused_in_words(tmp_path, goals, states, message):
    with pytest.raises(RecordingError, match=message):
        import_arm_folder(write(tmp_path / "wave", goals, states), ARM)


def test_the_verb_takes_names_and_the_grippers_range_from_the_rig(tmp_path, capsys):
    six = [(time, [0.1, 0.2, 0.3, 0.4, 0.5, 1.0]) for time, _ in GOALS]
    folder = write(tmp_path / "wave", six, six)
    assert app.run(["import", str(folder), str(tmp_path / "out.mcap"), "--rig", "koch"]) == 0
    assert "6 servos, 24 samples" in capsys.readouterr().out
    found = open_recording(tmp_path / "out.mcap")
    assert rig_of(found).name == "koch"  # so that it is shown and compared without being named again
    assert set(found.metadata["models"]) == set(found)
    assert found["gripper"].position[0] == pytest.approx(1.8)
    assert found["wrist_roll"].position[0] == pytest.approx(0.5)
    assert app.run(["import", str(folder), str(tmp_path / "other.mcap")]) == 2
    assert "--rig so101" in capsys.readouterr().err
    (folder / "control.csv").unlink()
    assert app.run(["import", str(folder), str(tmp_path / "other.mcap"), "--rig", "koch"]) == 2
    assert "neither meta/info.json nor control.csv" in capsys.readouterr().err
