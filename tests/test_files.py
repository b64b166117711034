"""Output files that are whole or not there."""

from pathlib import Path

import pytest

from axbridge.files import write_whole


def test_a_file_that_cannot_be_finished_leaves_what_was_there(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(TypeError):
        write_whole(path, 3)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_named():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_whole("/dev/full", "text")
