"""Files say their format, and those of a newer axbridge are refused by name. See docs/formats.md."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

import axbridge
from axbridge.cli import app
from axbridge.cli import move as move_verb  # noqa: F401 - registers it
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.config.rig_schema import rig_schema
from axbridge.errors import AxBridgeError, MoveError, ProfileError, RecordingError, RigError
from axbridge.file_reading import check_format
from axbridge.motion.moves import Move
from axbridge.recording.recorder import Recorder
from axbridge.recording.step_format import EVENTS, packed_event
from axbridge.recording.stored import Message, MessageWriter, open_recording

ROOT = Path(__file__).parents[1]
BOW = ROOT / "examples" / "bow.json"
AX12 = partial(FirmwareProfile.load, "ax-12a")
NEWER = "is of format 2, and axbridge .* reads formats up to 1\n.*newer axbridge"


def rewritten(path, folder, old, new):
    text = path.read_text()
    assert old in text
    (folder / path.name).write_text(text.replace(old, new, 1))
    return folder / path.name


def test_a_newer_recording_is_refused_by_name_whole_or_cut_off(tmp_path):
    path = tmp_path / "new.mcap"
    for ends in (True, False):
        with path.open("wb") as stream:
            writer = MessageWriter(stream, {"recording_format": 2}, chunked=ends)
            writer.write(Message(EVENTS, packed_event({"time": 0.0, "name": "hello"}), 0))
            if ends:
                writer.finish()
        with pytest.raises(RecordingError, match=f"new.mcap: {NEWER}"):
            open_recording(path)


@pytest.mark.parametrize(
    ("file", "load", "error"),
    [
        ("hil_rigs/pan_tilt/pan_tilt.toml", Rig.load, RigError),
        ("firmware_profiles/ax-12a.toml", FirmwareProfile.load, ProfileError),
        ("firmware_profiles/models/ax12.toml", lambda path: ServoModel.load(path, AX12()), ProfileError),
    ],
)
def test_a_newer_toml_file_is_refused_by_name(tmp_path, file, load, error):
    newer = tmp_path / Path(file).name
    newer.write_text("format = 2\n" + (ROOT / file).read_text())
    with pytest.raises(error, match=f"{newer.name}: format: {NEWER}"):
        load(newer)


def test_a_rig_on_top_of_a_newer_one_is_refused_with_the_name_of_that_one(tmp_path):
    (tmp_path / "base.toml").write_text("format = 2\n")
    (tmp_path / "mine.toml").write_text('format = 1\nbase = "base.toml"\n')
    with pytest.raises(RigError, match=f"base.toml: format: {NEWER}"):
        Rig.load(tmp_path / "mine.toml")


def test_a_newer_move_is_refused_by_name(tmp_path):
    with pytest.raises(MoveError, match=f"bow.json: format: {NEWER}"):
        Move.load(rewritten(BOW, tmp_path, "axbridge-move-1", "axbridge-move-2"))


def test_a_newer_file_ends_a_command_with_two_lines(tmp_path, capsys):
    newer = rewritten(BOW, tmp_path, "axbridge-move-1", "axbridge-move-2")
    assert app.run(["move", "info", str(newer)]) == app.MISUSE
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 2)


@pytest.mark.parametrize("number", [0, -1, True, "2", 1.0, None, [1]])
def test_what_is_no_number_of_a_format_is_refused(number):
    with pytest.raises(AxBridgeError, match="no number of a format"):
        check_format(number, AxBridgeError)


def test_a_recording_says_its_format_in_the_file_and_not_among_its_facts(tmp_path):
    with Recorder(tmp_path / "new.mcap", {"backend": "sim"}) as recorder:
        recorder.event(0.0, "hello")
    assert b"recording_format" in (tmp_path / "new.mcap").read_bytes()
    assert open_recording(tmp_path / "new.mcap").metadata == {"backend": "sim"}


def test_files_that_say_format_1_are_read(tmp_path):
    for file, load in (
        ("hil_rigs/pan_tilt/pan_tilt.toml", Rig.load),
        ("firmware_profiles/models/ax12.toml", lambda path: ServoModel.load(path, AX12())),
    ):
        path = tmp_path / Path(file).name
        shutil.copytree((ROOT / file).parent, tmp_path, dirs_exist_ok=True)
        path.write_text("format = 1\n" + (ROOT / file).read_text())
        load(path)
    assert rig_schema()["properties"]["format"]["const"] == 1


def test_json_that_a_verb_prints_says_its_form_first(capsys):
    assert app.run(["move", "info", str(BOW), "--json"]) == app.DONE
    document = json.loads(capsys.readouterr().out)
    assert next(iter(document.items())) == ("format", "axbridge-move-info-1")


def test_every_form_of_json_is_on_its_page():
    source = Path(axbridge.__file__).parent
    text = "".join(path.read_text() for path in (source / "cli").glob("*.py"))
    forms = set(re.findall(r'\b(?:emit_json|report)\(\s*"([^"]+-1)"', text))
    verbs = re.findall(r"@_verb\(.*\)\s*def (\w+)", text)
    forms |= {f"servo-{verb.replace('_', '-')}-1" for verb in verbs}
    assert len(forms) > 30
    page = (Path(__file__).parents[1] / "docs" / "formats.md").read_text()
    assert {form for form in forms if f"`axbridge-{form}`" not in page} == set()
