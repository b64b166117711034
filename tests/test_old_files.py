"""Files that an earlier axbridge wrote open for ever; those of a newer one are refused by name. See docs/formats.md."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.cli import app
from axbridge.cli import compare as compare_verb  # noqa: F401 - registers it
from axbridge.cli import info as info_verb  # noqa: F401
from axbridge.cli import move as move_verb  # noqa: F401
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.config.rig_schema import rig_schema
from axbridge.errors import AxBridgeError, MoveError, ProfileError, RecordingError, RigError
from axbridge.moves.moves import Move
from axbridge.reading import check_format
from axbridge.recording.mcap_file import Entry, RecordWriter
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording

OLD = Path(__file__).parent / "old_files" / "v0_1_0"
AX12 = partial(FirmwareProfile.load, "ax-12a")
NEWER = "is of format 2, and axbridge .* reads formats up to 1\n.*newer axbridge"


def test_a_recording_of_0_1_0_opens():
    found = open_recording(OLD / "step.mcap")
    shoulder = found["shoulder"]
    assert found.complete
    assert found.metadata["versions"]["axbridge"] == "0.1.0"
    assert [segment.name for segment in found.segments] == ["rest", "step to 20°", "step back from 20°"]
    assert len(shoulder.time) == 201
    assert np.rad2deg(shoulder.position.max()) == pytest.approx(19.6, abs=0.1)
    assert len(found.cycles["late_ms"]) == 200


def test_a_recording_of_0_1_0_that_was_cut_off_opens(tmp_path):
    shutil.copy(OLD / "crashed.mcap", tmp_path)
    found = open_recording(tmp_path / "crashed.mcap")
    assert not found.complete
    assert len(found["shoulder"].time) == 20


def test_a_recording_of_0_1_0_is_simulated(capsys):
    assert app.run(["compare", str(OLD / "step.mcap"), "--rig", "bench_arm", "--json"]) == app.DONE
    assert json.loads(capsys.readouterr().out)["mae_deg"] < 0.5


def test_parameters_of_0_1_0_are_a_model():
    model = ServoModel.load(OLD / "my_servo.toml", AX12())
    assert model.provenance.startswith("axbridge 0.1.0 identify, seed 0: fitted to 1 recordings")
    assert model.controller.law == "compliance"
    assert model.motor.gear_ratio == 254


def test_a_move_of_0_1_0_is_a_move():
    move = Move.load(OLD / "bow.json")
    assert move.format == "axbridge-move-1"
    assert (len(move.joints), move.duration) == (18, pytest.approx(3.5))


def test_a_rig_of_0_1_0_is_a_rig():
    rig = Rig.load(OLD / "my_head" / "my_head.toml")
    assert [servo.name for servo in rig.servos] == ["pan", "tilt"]
    assert rig.urdf_path().is_file()


def test_a_profile_of_0_1_0_is_a_profile():
    profile = FirmwareProfile.load(OLD / "my_profile.toml")
    assert (profile.name, profile.registers["return_delay_time"].initial) == ("my-ax", 100)


# ---- newer ones


def rewritten(path, folder, old, new):
    text = path.read_text()
    assert old in text
    (folder / path.name).write_text(text.replace(old, new, 1))
    return folder / path.name


def test_a_newer_recording_is_refused_by_name_whole_or_cut_off(tmp_path):
    path = tmp_path / "new.mcap"
    for ends in (True, False):
        with path.open("wb") as stream:
            writer = RecordWriter(stream, {"recording_format": 2})
            writer.write(Entry("/servo/knee", {"time": 0.0, "position": 0.1}))
            if ends:
                writer.finish()
        with pytest.raises(RecordingError, match=f"new.mcap: {NEWER}"):
            open_recording(path)


@pytest.mark.parametrize(
    ("file", "load", "error"),
    [
        ("my_head/my_head.toml", Rig.load, RigError),
        ("my_profile.toml", FirmwareProfile.load, ProfileError),
        ("my_servo.toml", lambda path: ServoModel.load(path, AX12()), ProfileError),
    ],
)
def test_a_newer_toml_file_is_refused_by_name(tmp_path, file, load, error):
    newer = tmp_path / Path(file).name
    newer.write_text("format = 2\n" + (OLD / file).read_text())
    with pytest.raises(error, match=f"{newer.name}: format: {NEWER}"):
        load(newer)


def test_a_rig_on_top_of_a_newer_one_is_refused_with_the_name_of_that_one(tmp_path):
    (tmp_path / "base.toml").write_text("format = 2\n")
    (tmp_path / "mine.toml").write_text('format = 1\nbase = "base.toml"\n')
    with pytest.raises(RigError, match=f"base.toml: format: {NEWER}"):
        Rig.load(tmp_path / "mine.toml")


def test_a_newer_move_is_refused_by_name(tmp_path):
    with pytest.raises(MoveError, match=f"bow.json: format: {NEWER}"):
        Move.load(rewritten(OLD / "bow.json", tmp_path, "axbridge-move-1", "axbridge-move-2"))


def test_a_newer_file_ends_a_command_with_two_lines(tmp_path, capsys):
    newer = rewritten(OLD / "bow.json", tmp_path, "axbridge-move-1", "axbridge-move-2")
    assert app.run(["move", "info", str(newer)]) == app.MISUSE
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 2)


@pytest.mark.parametrize("number", [0, -1, True, "2", 1.0, None, [1]])
def test_what_is_no_number_of_a_format_is_refused(number):
    with pytest.raises(AxBridgeError, match="no number of a format"):
        check_format(number, AxBridgeError)


# ---- what is written says its format


def test_a_recording_says_its_format_in_the_file_and_not_among_its_facts(tmp_path):
    with Recorder(tmp_path / "new.mcap", {"backend": "sim"}) as recorder:
        recorder.event(0.0, "hello")
    assert b"recording_format" in (tmp_path / "new.mcap").read_bytes()
    assert open_recording(tmp_path / "new.mcap").metadata == {"backend": "sim"}


def test_files_that_say_format_1_are_read(tmp_path):
    for file, load in (
        ("my_head/my_head.toml", Rig.load),
        ("my_servo.toml", lambda path: ServoModel.load(path, AX12())),
    ):
        path = tmp_path / Path(file).name
        shutil.copytree((OLD / file).parent, tmp_path, dirs_exist_ok=True)
        path.write_text("format = 1\n" + (OLD / file).read_text())
        load(path)
    assert rig_schema()["properties"]["format"]["const"] == 1


def test_json_that_a_verb_prints_says_its_form_first(capsys):
    assert app.run(["info", str(OLD / "step.mcap"), "--json"]) == app.DONE
    document = json.loads(capsys.readouterr().out)
    assert next(iter(document.items())) == ("format", "axbridge-info-1")


def test_every_form_of_json_is_on_its_page():
    source = Path(axbridge.__file__).parent
    text = "".join(path.read_text() for path in (source / "cli").glob("*.py"))
    forms = set(re.findall(r'emit_json\(\s*"([^"]+)"', text))
    assert len(forms) > 10
    page = (Path(__file__).parents[1] / "docs" / "format-json.md").read_text()
    assert {form for form in forms if f"`axbridge-{form}`" not in page} == set()
