"""Whatever goes wrong while a file is read is one error that names it; nothing in it steers a terminal."""

import os
import socket
from functools import partial

import numpy as np
import pytest

from axbridge.config import toml_tables
from axbridge.config.rig import filled
from axbridge.config.urdf import read_mesh, read_tree
from axbridge.errors import AxBridgeError, ProfileError, RecordingError, RigWarning, UsageError
from axbridge.export.bam import from_bam
from axbridge.file_reading import controls, printable, reading
from axbridge.fit.lima2009 import ks_line
from axbridge.learn.randomise import Parameters
from axbridge.motion.files import load_move
from axbridge.recording.import_lerobot import import_dataset
from axbridge.recording.import_logs import import_log
from axbridge.recording.stored import open_recording
from tests.support.lerobot_dataset import write_dataset


def nested():
    return nested()


def failing(failure):
    raise failure


@pytest.mark.parametrize(
    ("raises", "said"),
    [
        (b"\xff".decode, "is no text: "),
        (nested, "is nested too deeply"),
        (lambda: int("9" * 5000), "has a number that is too large"),
        (lambda: float(10**400), "has a number that is too large"),
        (lambda: {}["mass"], "has no 'mass'"),
        (lambda: failing(MemoryError()), "needs more memory than there is"),
        (lambda: failing(TypeError("no \x1b[31m\nsecond line")), r"makes no sense: no \x1b[31m"),
        (lambda: failing(StopIteration()), "makes no sense: StopIteration"),
        (lambda: failing(ValueError("x" * 5000)), "makes no sense: " + "x" * 200),
        (lambda: failing(OSError("page header failed\nat byte 9")), "makes no sense: page header failed"),
        (lambda: failing(FileNotFoundError(2, "No such file", "inner")), "No such file"),
    ],
)
def test_whatever_a_library_raises_becomes_one_error_that_names_the_file(raises, said):
    with pytest.raises(RecordingError) as caught, reading(partial(RecordingError, "run.mcap"), "record it again"):
        raises()
    first, hint = str(caught.value).splitlines()
    assert first == f"run.mcap: {said}" or (said.endswith(": ") and first.startswith(f"run.mcap: {said}"))
    assert hint
    assert caught.value.__cause__ is not None  # for --debug


@pytest.mark.parametrize(
    "known", [UsageError("two", "lines"), RigWarning("odd"), KeyboardInterrupt(), NameError("x"), AttributeError("y")]
)
def test_what_a_reader_says_itself_and_what_is_no_mistake_of_the_file_passes(known):
    with pytest.raises(type(known)) as caught, reading(AxBridgeError, ""):
        raise known
    assert caught.value is known


def test_control_characters_are_shown_as_what_they_are():
    text = "a\x1b[31mred\x07 \x9b \u202e é ° 名\tb\nc\ud800"
    assert controls(text)
    assert printable(text) == r"a\x1b[31mred\x07 \x9b \u202e é ° 名\tb\nc\ud800"
    assert printable(text, lines=True).endswith("\tb\nc\\ud800")
    assert not controls(printable(text))
    assert not controls("two\nlines\tof text")


def read_dataset(path):
    """A LeRobot dataset in which the file of that name is what lies at the path."""
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
    "points.csv": ks_line,
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
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, monkeypatch, kind, name):
    path = tmp_path / (f"odd{name}" if name.startswith(".") else name)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(tmp_path)  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")  # of which there is no end
    else:
        path.mkdir()
    with pytest.raises(AxBridgeError, match=r"is a (folder|pipe, a socket or a device), and no file\n"):
        READERS[name](path)
