"""Files: reading errors name the file, newer formats are refused, and files are written completely or not at all."""

import json
import os
import shutil
import socket
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from axbridge.cli import app
from axbridge.config import toml_tables
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig, filled, rig_schema
from axbridge.config.urdf import read_mesh, read_tree
from axbridge.errors import AxBridgeError, MoveError, ProfileError, RecordingError, RigError, RigWarning, UsageError
from axbridge.export.bam import from_bam
from axbridge.file_reading import check_format, controls, printable, reading
from axbridge.files import check_new, check_writable, claim, claimed, release, write_whole
from axbridge.learn.randomise import Parameters
from axbridge.motion.files import load_move
from axbridge.motion.moves import Move
from axbridge.recording.import_arms import import_dataset
from axbridge.recording.import_logs import import_log
from axbridge.recording.recorder import Recorder
from axbridge.recording.step_format import EVENTS, packed_event
from axbridge.recording.stored import Message, MessageWriter, open_recording
from tests.support.lerobot_dataset import write_dataset


def nested():
    return nested()


def failing(failure):
    raise failure


@pytest.mark.parametrize(
    ("raises", "words"),
    [
        (b"\xff".decode, "is no text: "),
        (nested, "is nested too deeply"),
        (lambda: int("9" * 5000), "has a number that is too large"),
        (lambda: float(10**400), "has a number that is too large"),
        (lambda: {}["mass"], "has no 'mass'"),
        (lambda: failing(MemoryError()), "needs more memory than there is"),
        (lambda: failing(TypeError("no \x1b[31m\nsecond line")), r"is damaged: no \x1b[31m"),
        (lambda: json.loads(""), "is empty"),
        (lambda: json.loads("[1\n2]"), "is no JSON: Expecting ',' delimiter: line 2 column 1 (char 3)"),
        (lambda: failing(StopIteration()), "is damaged: StopIteration"),
        (lambda: failing(ValueError("x" * 5000)), "is damaged: " + "x" * 200),
        (lambda: failing(OSError("page header failed\nat byte 9")), "is damaged: page header failed"),
        (lambda: failing(FileNotFoundError(2, "No such file", "inner")), "No such file"),
    ],
)
def test_each_exception_of_a_library_becomes_an_error_that_names_the_file(raises, words):
    with pytest.raises(RecordingError) as caught, reading(partial(RecordingError, "run.mcap"), "record it again"):
        raises()
    first, hint = str(caught.value).splitlines()
    assert first == f"run.mcap: {words}" or (words.endswith(": ") and first.startswith(f"run.mcap: {words}"))
    assert hint
    assert caught.value.__cause__ is not None  # for --debug


@pytest.mark.parametrize(
    "failure", [UsageError("two", "lines"), RigWarning("odd"), KeyboardInterrupt(), NameError("x"), AttributeError("y")]
)
def test_errors_of_the_reader_itself_and_of_the_program_pass_unchanged(failure):
    with pytest.raises(type(failure)) as caught, reading(AxBridgeError, ""):
        raise failure
    assert caught.value is failure


def test_control_characters_are_shown_escaped():
    text = "a\x1b[31mred\x07 \x9b \u202e é ° 名\tb\nc\ud800"
    assert controls(text)
    assert printable(text) == r"a\x1b[31mred\x07 \x9b \u202e é ° 名\tb\nc\ud800"
    assert printable(text, lines=True).endswith("\tb\nc\\ud800")
    assert not controls(printable(text))
    assert not controls("two\nlines\tof text")


def read_dataset(path):
    """Read a LeRobot dataset with the file at this path as its calibration or its samples."""
    folder = path.parent / "dataset"
    write_dataset(folder, [(np.zeros((2, 3)), np.zeros((2, 3)))])
    if path.suffix == ".parquet":
        (samples,) = folder.glob("data/*/*.parquet")
        samples.unlink()
        samples.symlink_to(path)
        import_dataset(folder, unit="deg")
    else:
        import_dataset(folder, unit="normalised", calibration=path)


READERS = {
    ".mcap": open_recording,
    ".csv": import_log,
    ".json": load_move,
    ".mtn": load_move,
    ".motion": load_move,
    "bam.json": from_bam,
    "parameters.json": Parameters.load,
    ".toml": lambda path: toml_tables.read_toml(path, ProfileError),
    ".stl": read_mesh,
    ".urdf": partial(read_tree, fixed_base=True),
    "parameters.urdf": lambda path: filled(path, {}, path),
    "calibration.json": read_dataset,
    ".parquet": read_dataset,
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
@pytest.mark.parametrize("name", READERS)
def test_pipes_sockets_devices_and_folders_are_refused_without_waiting(tmp_path, monkeypatch, kind, name):
    path = tmp_path / (f"odd{name}" if name.startswith(".") else name)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")  # it has no end
    else:
        path.mkdir()
    with pytest.raises(AxBridgeError, match=r"is a (folder|pipe, a socket or a device), and no file\n"):
        READERS[name](path)


# ---- a file of another program is refused with its kind and a hint, by every reader

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"
URDF = '<robot name="a"><link name="b"/></robot>'
FILES = {
    "log.csv": (LFS, "a pointer of Git LFS", "git lfs pull"),
    "rig.toml": (LFS, "a pointer of Git LFS", "git lfs pull"),
    "arm.wbt": ("#VRML_SIM R2023b utf8\nWorldInfo {}\n", "a world or robot of Webots", "docs/webots.md"),
    "arm.urdf": (f'<?xml version="1.0"?>\n<!-- arm -->\n{URDF}', "a URDF", "axbridge rig new NAME --urdf"),
    "arm.xacro": (URDF.replace("name", "xmlns:xacro='x' name", 1), "a xacro file", "xacro FILE > robot.urdf"),
    "arm.xml": ('<mujoco model="a"><worldbody/></mujoco>', "a model of MuJoCo", "rig new NAME --mjcf"),
    "poppy.json": ('{"controllers": {}, "motors": {}}', "a robot of pypot", "docs/migrate.md"),
    "arm.json": ('{"a": {"id": 1, "range_min": 1, "range_max": 9}}', "a calibration of LeRobot", "--calibration"),
    "old.json": ('{"homing_offset": [1], "calib_mode": ["DEGREE"]}', "layout before 2025", "--unit deg --calibration"),
    "ax12.model": ("[type info]\nmodel_number 12\n", "a control table of ROBOTIS", "profile from-model"),
    "arm.sdf": ('<?xml version="1.0"?>\n<sdf version="1.9"/>', "a model of Gazebo", "the URDF"),
    "page.csv": ("<!DOCTYPE html>\n<html>", "a web page", "the file itself"),
    "log.jsonl": ('{"t": 0}\n{"t": 1}\n', "JSON Lines", "CSV"),
    "arm.stl": ("solid arm\nendsolid arm\n", "a CAD model or a mesh", "URDF"),
    "one.bag": (b"#ROSBAG V2.0\n\x45", "a bag of ROS 1", "axbridge import FILE.csv"),
    "two.db3": (b"SQLite format 3\0\x10", "such as a bag of ROS 2", "MCAP"),
    "log.parquet": (b"PAR1\x15\0", "a Parquet file", "LeRobot dataset"),
    "log.xlsx": (b"PK\x03\x04\x14\0", "a zip archive", "CSV"),
    "log.csv.gz": (b"\x1f\x8b\x08\0", "packed", "gunzip"),
    "log.npy": (b"\x93NUMPY\1\0", "an array of NumPy", "numpy.savetxt"),
    "log.png": (b"\x89PNG\r\n", "a picture", "data file"),
    "excel.csv": ("time\t1\n".encode("utf-16"), "text in UTF-16", "UTF-8"),
}


@pytest.mark.parametrize("read", [import_log, open_recording, Rig.load, load_move], ids=lambda read: read.__qualname__)
@pytest.mark.parametrize("name", FILES)
def test_the_error_for_a_file_of_another_program_names_its_kind_and_the_next_step(tmp_path, name, read):
    text, what, hint = FILES[name]
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(AxBridgeError, match=rf"(?s){name}: .*is .*{what}.*{hint}"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("play a.mcap bioloid", "a.mcap: is a recording"),
        ("move info a.mcap", "a.mcap: is a recording"),
        ("run a.mcap", "a.mcap is a recording, and no script"),
        ("run arm.urdf", "arm.urdf is a URDF, and no script"),
        ("export bam a.mcap --out x.json", "a.mcap: is a recording"),
        ("serve a.mcap", "is a recording"),
        ("import arm.json x.toml", "arm.json: is a calibration of LeRobot"),
        ("import lfs.mcap b.mcap", "lfs.mcap: is a pointer of Git LFS"),
        ("rig new x --urdf arm.xml --profile ax-12a", "arm.xml: is a model of MuJoCo"),
        ("rig new x --urdf a.mcap --profile ax-12a", "a.mcap: is a recording"),
        ("rig check arm.urdf", "axbridge rig new NAME --urdf"),
        ("rig new x --urdf arm.xml", "arm.xml: is a model of MuJoCo"),
        ("rig new x --mjcf arm.urdf --profile ax-12a", "arm.urdf: is a URDF"),
        ("profile from-model arm.urdf", "arm.urdf: is a URDF"),
    ],
)
def test_a_verb_refuses_a_file_for_another_verb_and_names_its_kind(typed, words, said, tmp_path):
    for name in ("arm.urdf", "arm.json", "arm.xml"):
        (tmp_path / name).write_text(FILES[name][0])
    (tmp_path / "a.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(99))
    (tmp_path / "lfs.mcap").write_text(LFS)
    assert words in said(*typed.split(), code=2)


@pytest.mark.parametrize("name", ["arm.xacro", "arm.xml", "log.csv", "arm.wbt"])
def test_a_robot_in_another_format_is_refused_as_the_urdf_of_a_rig(tmp_path, name):
    text, what, _ = FILES[name]
    (tmp_path / name).write_text(text)
    rig = tmp_path / "arm.toml"
    rig.write_text(f'name = "arm"\n[world]\nurdf = "{name}"\n[[servo]]\nname = "a"\njoint = "j"\nid = 1\n')
    with pytest.raises(AxBridgeError, match=f"is {what.split(' (')[0]}"):
        Rig.load(rig).urdf_text()


# ---- formats: docs/formats.md

ROOT = Path(__file__).parents[1]
BOW = ROOT / "examples" / "bow.json"
PAN_TILT = "hil_rigs/pan_tilt/pan_tilt.toml"
NEWER = "is of format 2, and axbridge .* reads formats up to 1\n.*newer axbridge"


def load_model(path):
    return ServoModel.load(path, FirmwareProfile.load("ax-12a"))


def test_a_recording_has_its_format_and_a_newer_recording_is_refused_by_name_whole_or_cut_off(tmp_path):
    path = tmp_path / "new.mcap"
    with Recorder(path, {"backend": "sim"}) as recorder:
        recorder.event(0.0, "hello")
    assert b"recording_format" in path.read_bytes()
    assert open_recording(path).metadata == {"backend": "sim"}
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
        (PAN_TILT, Rig.load, RigError),
        ("firmware_profiles/ax-12a.toml", FirmwareProfile.load, ProfileError),
        ("firmware_profiles/models/ax12.toml", load_model, ProfileError),
    ],
)
def test_a_toml_file_of_format_1_is_read_and_a_newer_file_is_refused_by_name(tmp_path, file, load, error):
    shutil.copytree((ROOT / file).parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "ours.toml").write_text("format = 1\n" + (ROOT / file).read_text())
    load(tmp_path / "ours.toml")
    (tmp_path / "newer.toml").write_text("format = 2\n" + (ROOT / file).read_text())
    with pytest.raises(error, match=f"newer.toml: format: {NEWER}"):
        load(tmp_path / "newer.toml")
    assert rig_schema()["properties"]["format"]["const"] == 1
    (tmp_path / "mine.toml").write_text('format = 1\nbase = "newer.toml"\n')
    with pytest.raises(RigError, match=f"newer.toml: format: {NEWER}"):
        Rig.load(tmp_path / "mine.toml")


def test_a_newer_move_is_refused_by_name_and_ends_a_command_with_two_lines(tmp_path, capsys):
    newer = tmp_path / "bow.json"
    newer.write_text(BOW.read_text().replace("axbridge-move-1", "axbridge-move-2"))
    with pytest.raises(MoveError, match=f"bow.json: format: {NEWER}"):
        Move.load(newer)
    assert app.run(["move", "info", str(newer)]) == app.MISUSE
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 2)


@pytest.mark.parametrize("number", [0, -1, True, "2", 1.0, None, [1]])
def test_an_invalid_format_number_is_refused(number):
    with pytest.raises(AxBridgeError, match="no number of a format"):
        check_format(number, AxBridgeError)


# ---- writing


def test_a_failed_write_leaves_the_old_file_unchanged(tmp_path):
    path = tmp_path / f"{'é' * 125}.html"  # 255 bytes, the system's longest name
    write_whole(path, "bef\udce9re")  # Python's form of a file name in Latin-1
    with pytest.raises(TypeError):
        write_whole(path, 3)
    assert path.read_text() == "bef?re"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_locked_for_other_programs_until_the_block_ends(tmp_path):
    folder = tmp_path / "deep" / "demo"
    twice = pytest.raises(UsageError, match=r"another program is writing into .*demo\ngive another")
    with claimed(folder), twice, claimed(folder):
        pass
    with claimed(folder):
        assert folder.is_dir()


def test_a_lock_is_refused_when_the_file_was_replaced(tmp_path):
    path = tmp_path / "run.mcap"
    with path.open("xb") as old_file:
        path.unlink()
        path.touch()  # another program replaces the file
        with pytest.raises(BlockingIOError):
            claim(path, old_file)
        lock = claim(path)
        with pytest.raises(BlockingIOError):
            claim(path)
        release(lock)


def test_a_disk_without_room_is_noticed_before_long_work_and_nothing_is_left(tmp_path):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))  # the system then refuses what is longer
    try:
        with pytest.raises(RecordingError, match=r"new\.mcap: cannot be written: .*\n.*free space"):
            check_writable(tmp_path / "deep" / "new.mcap")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    check_writable(tmp_path / "deep" / "new.mcap")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no devices in folders here")
def test_a_device_may_be_written_though_its_folder_may_not(monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(failing, PermissionError(13, "Permission denied")))
    check_writable("/dev/null")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(RecordingError, match="/dev/null: cannot be written: Permission denied"):
        check_writable("/dev/null")


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no open streams in folders here")
def test_what_is_written_to_an_open_stream_follows_what_its_file_holds(tmp_path):
    with (tmp_path / "all").open("wb") as stream:
        stream.write(b"head\n")
        stream.flush()
        path = f"/dev/fd/{stream.fileno()}"
        check_new(path, force=False)
        write_whole(path, "body\n")
        Recorder(path, {}).close()
    assert (tmp_path / "all").read_bytes().startswith(b"head\nbody\n\x89MCAP0")
