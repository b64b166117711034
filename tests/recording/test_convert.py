"""Conversion of recordings: tables, data frames, and bags of ROS 2."""

import csv
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader

from axbridge import samples
from axbridge.cli.app import run
from axbridge.comparison.comparison import compare
from axbridge.config.rig import Rig
from axbridge.errors import UnsupportedOperation, UsageError
from axbridge.recording import convert
from axbridge.recording.convert import write_csv
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.stored import write_recording
from axbridge.recording.tables import rounded, wide_parts
from axbridge.rotations import of_roll_pitch_yaw


def columns(time, **values):
    return {"time": np.array(time, float), **{key: np.array(value, float) for key, value in values.items()}}


def test_gaps_are_not_interpolated_and_nothing_is_extrapolated():
    arm = columns([0.1, 0.2, 0.3, 0.4, 1.0, 1.1], position=[1, 2, 3, 4, 10, 11], command=[1, 1, 1, 1, 1, 1])
    leg = columns([0.0, 0.1, 1.2], position=[0, 0, 0], command=[0, 0, 0])
    ((time, table),) = wide_parts({"arm": arm, "leg": leg}, rate=10)
    assert len(time) == 13
    expected = [math.nan, 1, 2, 3, 4, *[math.nan] * 5, 10, 11, math.nan]
    np.testing.assert_allclose(table["arm", "position"], expected, atol=1e-9)
    assert np.isnan(table["arm", "command"]).tolist() == [True, *[False] * 11, True]
    ((time, table),) = wide_parts({"a": columns([0, 0.2], position=[1, 2]), "b": columns([0.1, 0.2], position=[3, 4])})
    assert time.tolist() == [0, 0.1, 0.2]  # without a rate each sample has a row
    np.testing.assert_array_equal(table["a", "position"], [1, math.nan, 2])
    np.testing.assert_array_equal(table["b", "position"], [math.nan, 3, 4])


def test_goals_are_held_and_an_error_between_two_rows_is_not_lost():
    arm = columns([0, 0.1, 0.2], position=[0, math.nan, 2], command=[5, 5, 7], torque_enabled=[1, 1, math.nan])
    ((time, table),) = wide_parts({"arm": arm | {"errors": np.array([0.0, 32, 4])}}, rate=5)
    np.testing.assert_allclose(time, [0, 0.2])
    assert [table["arm", key].tolist() for key in ("position", "command", "torque_enabled", "errors")] == [
        [0, 2], [5, 7], [1, 1], [0, 36]
    ]  # fmt: skip
    ((_, table),) = wide_parts({"arm": arm}, rate=20)
    np.testing.assert_allclose(table["arm", "position"], [0, 0.5, 1, 1.5, 2])
    assert table["arm", "command"].tolist() == [5, 5, 5, 5, 7]


def test_an_invalid_rate_is_refused_and_no_samples_give_an_empty_table(tmp_path):
    long = Recording(tmp_path / "x.mcap", {"a": Track.of("a", np.array([0.0, 1e9]))})
    with pytest.raises(UsageError, match=r"50 rows a second make 5e\+10 rows in 1e\+09 s\ngive a lower rate"):
        write_csv(long, tmp_path / "x.csv", wide=True, rate=50.0)
    assert not list(tmp_path.iterdir())
    for rate in (0, -1, math.nan, math.inf):
        with pytest.raises(UsageError, match="rate"):
            next(wide_parts({"a": columns([0, 1], position=[0, 1])}, rate))
    ((time, table),) = wide_parts({"a": columns([], position=[])}, 50)
    assert (len(time), len(table["a", "position"])) == (0, 0)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("position", 0.6135923151542565, "0.613592"),
        ("voltage", 11.100000000000001, "11.1"),
        ("errors", 36.0, "36"),
        ("temperature", 40.0, "40"),
        ("load", -1e-9, "0"),
        ("time", 1.7e9 + 0.0000015, "1700000000.000001"),
        ("torque", math.nan, ""),
    ],
)
def test_numbers_have_their_significant_digits(key, value, text):
    assert rounded(key, value) == text


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(rig, **more):
    """Return a recording of a rig whose servos are sampled shortly one after the other."""
    rig, t = Rig.load(rig), np.arange(0, 1, 0.02)
    tracks = {
        s.name: Track.of(s.name, t + 0.003 * k, position=0.1 * k + t, command=t, torque=0 * t + 0.2)
        for k, s in enumerate(rig.servos)
    }
    return Recording(Path("x.mcap"), tracks, metadata=describe(rig, backend="sim"), **more)


def test_convert_writes_a_wide_table_and_reports_its_output_separately(desk, capsys, said):
    write_recording(recorded("pan_tilt"), "two.mcap")
    assert run(["convert", "two.mcap", "two.csv", "--wide", "--rate", "50"]) == 0
    assert capsys.readouterr().out == "wrote two.csv: 2 servos, 50 rows at 50 Hz, 1.0 s\n"
    rows = list(csv.DictReader((desk / "two.csv").read_text().splitlines()))
    keys = ("command_rad", "position_rad", "torque_Nm")
    assert list(rows[0]) == ["time_s", *(f"{name}.{key}" for name in ("pan", "tilt") for key in keys)]
    assert (float(rows[10]["time_s"]), float(rows[10]["tilt.position_rad"])) == (0.2, 0.297)
    assert "add --wide" in said("convert", "two.mcap", "long.csv", "--rate", "50", code=2)
    command = [sys.executable, "-m", "axbridge", "convert", "two.mcap", "/dev/stdout", "--wide"]
    with (desk / "out.csv").open("w") as stream:
        process = subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (desk / "out.csv").read_text().startswith("time_s,")
    assert len((desk / "out.csv").read_text().splitlines()) == 101
    assert "2 servos, 100 rows" in process.stderr
    (desk / "cut.mcap").write_bytes((desk / "two.mcap").read_bytes()[:-1])
    assert run(["plot", "cut.mcap"]) == 0
    assert capsys.readouterr().err == "note: cut.mcap was cut off; everything up to the cut was read\n"


def test_a_recording_and_a_comparison_are_data_frames_with_pandas(monkeypatch):
    pandas = pytest.importorskip("pandas")
    recording = samples.load("xl330")
    frame = recording.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert (frame.index.name, len(frame)) == ("time_s", 1499)
    np.testing.assert_array_equal(frame["pendulum.position_rad"], recording["pendulum"].position)
    np.testing.assert_allclose(np.diff(recording.to_pandas(rate=50).index), 0.02)
    with pytest.raises(UsageError, match="a rate must be a number, not 'x'"):
        recording.to_pandas("x")
    two = recorded("pan_tilt")
    both = compare(two, two).to_pandas()
    assert sorted(both) == sorted(f"{n}.{k}_rad" for n in two for k in ("command", "reference", "other"))
    np.testing.assert_allclose(both["pan.reference_rad"].dropna(), both["pan.other_rad"].dropna(), atol=1e-9)
    monkeypatch.setitem(sys.modules, "pandas", None)
    for use in (two.to_pandas, compare(two, two).to_pandas):
        with pytest.raises(UnsupportedOperation, match=r"needs pandas: .* \"axbridge\[\w+\]\""):
            use()


@pytest.mark.parametrize("rate", [None, 37.0])
def test_a_wide_table_written_in_blocks_equals_one_written_at_once(tmp_path, monkeypatch, rate):
    random = np.random.default_rng(3)
    tracks = {}
    for name, start in (("a", 0.0), ("b", 0.3), ("c", 5.0)):
        time = start + np.cumsum(random.choice([0.01, 0.02, 0.5], 400))
        position = np.where(random.random(400) < 0.2, np.nan, np.sin(time))
        errors = np.where(random.random(400) < 0.1, 32.0, 0.0)
        tracks[name] = Track.of(name, time, position=position, errors=errors, command=np.round(position))
    recording = Recording(tmp_path / "x.mcap", {**tracks, "empty": Track.of("empty", np.empty(0))})
    write_csv(recording, tmp_path / "once.csv", wide=True, rate=rate)
    monkeypatch.setattr(convert, "_CELLS", 70)
    write_csv(recording, tmp_path / "pieces.csv", wide=True, rate=rate)
    assert (tmp_path / "pieces.csv").read_text() == (tmp_path / "once.csv").read_text()


LIFT = ["import", "sample:xl330", "lift.mcap"]


def messages(bag):
    """Return the messages that rosbags reads: (log time, message) by topic."""
    result = {}
    with AnyReader([Path(bag)]) as reader:
        for connection, logged, data in reader.messages():
            result.setdefault(connection.topic, []).append((logged, reader.deserialize(data, connection.msgtype)))
    return result


def test_two_decoders_read_the_messages_of_a_bag(desk, capsys):
    recording = recorded("pan_tilt", events=(Event(0.2, "segment", {"name": "up"}),))
    pan = replace(recording["pan"], velocity=np.cos(recording["pan"].time))
    write_recording(replace(recording, tracks={**recording.tracks, "pan": pan}), "head.mcap")
    assert run(["convert", "head.mcap", "bag", "--ros2"]) == 0
    assert "50 /joint_states, 50 /joint_commands" in capsys.readouterr().out
    bag, tilt = messages("bag"), recording["tilt"]
    states = [state for _, state in bag["/joint_states"]]
    assert {tuple(state.name) for state in states} == {("pan", "tilt")}
    for key in ("position", "velocity"):
        values = [getattr(state, key) for state in states]
        np.testing.assert_array_equal(values, np.stack((getattr(pan, key), getattr(tilt, key)), axis=1))
    assert [goal.position[0] for _, goal in bag["/joint_commands"]] == pan.command.tolist()
    stamps = [state.header.stamp for state in states]
    times = np.array([stamp.sec * 10**9 + stamp.nanosec for stamp in stamps])
    assert times.tolist() == [logged for logged, _ in bag["/joint_states"]]
    assert times - times[0] == pytest.approx(pan.time * 1e9, abs=2)
    with Path("bag/bag.mcap").open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == "ros2"
        decoded = {message.channel.topic: message for message in reader.iter_decoded_messages()}
    last = decoded["/joint_states"].decoded_message
    for key in ("name", "position", "effort"):
        assert list(getattr(last, key)) == list(getattr(states[-1], key))
    assert list(last.effort) == pytest.approx([0.2, 0.2])
    event = json.loads(decoded["/events"].decoded_message.data)
    assert event == {"time": 0.2, "name": "segment", "data": {"name": "up"}}
    robot = decoded["/robot_description"]
    assert '<robot name="pan_tilt"' in robot.decoded_message.data
    assert "durability: 1" in robot.channel.metadata["offered_qos_profiles"]  # transient local


def test_a_walk_has_the_pose_of_its_base(desk):
    cycles = {"time": np.array([0.0, 0.5]), **{f"base_{key}": np.array([0.1, 0.2]) for key in "xyz"}}
    cycles |= {"base_roll": np.zeros(2), "base_pitch": np.zeros(2), "base_yaw": np.array([0.0, math.pi / 2])}
    write_recording(recorded("bioloid", cycles=cycles), "walk.mcap")
    assert run(["convert", "walk.mcap", "bag", "--ros2"]) == 0
    bag = messages("bag")
    assert list(bag["/joint_states"][0][1].velocity) == []  # unknown
    (_, message) = bag["/tf"][1]
    (pose,) = message.transforms
    assert (pose.header.frame_id, pose.child_frame_id) == ("world", "torso")
    turned = pose.transform.rotation
    assert (turned.x, turned.y, turned.z, turned.w) == pytest.approx(of_roll_pitch_yaw(0, 0, math.pi / 2))
    assert pose.transform.translation.z == 0.2


@pytest.mark.slow
def test_only_an_existing_bag_is_replaced_and_only_with_force(desk, said):
    assert run(LIFT) == 0
    (desk / "notes").mkdir()
    (desk / "notes" / "mine.txt").write_text("mine")
    refused = said("convert", "lift.mcap", "notes", "--ros2", "--force", code=2)
    assert "notes is already there, and is no bag" in refused
    assert (desk / "notes" / "mine.txt").read_text() == "mine"
    assert run(["convert", "lift.mcap", "bag", "--ros2"]) == 0
    assert "replace it with --force" in said("convert", "lift.mcap", "bag", "--ros2", code=2)
    assert run([*LIFT, "--to", "3", "--force"]) == run(["convert", "lift.mcap", "bag", "--ros2", "--force"]) == 0
    assert len(messages("bag")["/joint_states"]) < 800
    assert sorted(path.name for path in desk.iterdir()) == ["bag", "lift.mcap", "notes"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["bow.bag", "--ros2"], "a bag of ROS 2 is a folder"),
        (["bag", "--ros2", "--wide"], "--wide is for tables"),
        (["bag", "--ros2", "--rate", "10"], "--rate is for a wide table"),
        (["lift.mcap/bag", "--ros2"], "cannot be written"),
    ],
)
@pytest.mark.slow
def test_an_impossible_bag_is_refused_and_leaves_no_file(desk, capsys, words, why):
    assert run(LIFT) == 0
    assert run(["convert", "lift.mcap", *words]) in {2, 3}
    assert why in capsys.readouterr().err
    assert [path.name for path in desk.iterdir()] == ["lift.mcap"]
