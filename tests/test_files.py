"""Output files that are whole or not there."""

from pathlib import Path

import pytest

from axbridge.errors import UsageError
from axbridge.files import claim, claimed, release, write_whole


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


def test_a_name_may_be_as_long_as_the_system_takes(tmp_path):
    longest = tmp_path / f"{'é' * 125}.html"  # 255 bytes
    write_whole(longest, "text")
    assert [file.name for file in tmp_path.iterdir()] == [longest.name]


def test_a_folder_is_one_programs_until_it_is_done(tmp_path):
    folder = tmp_path / "deep" / "demo"
    twice = pytest.raises(UsageError, match=r"another program is writing into .*demo\ngive another")
    with claimed(folder), twice, claimed(folder):
        pass
    with claimed(folder):
        assert folder.is_dir()


def test_a_claim_is_of_what_has_the_name_now(tmp_path):
    path = tmp_path / "run.mcap"
    with path.open("xb") as mine:
        path.unlink()
        path.touch()  # somebody was quicker
        with pytest.raises(BlockingIOError):
            claim(path, mine)
        theirs = claim(path)
        with pytest.raises(BlockingIOError):
            claim(path)
        release(theirs)
