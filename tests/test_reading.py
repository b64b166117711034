"""Whatever goes wrong while a file is read is one error that names it; nothing in it steers a terminal."""

from functools import partial

import pytest

from axbridge.errors import AxBridgeError, RecordingError, RigWarning, UsageError
from axbridge.reading import controls, printable, reading


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


@pytest.mark.parametrize("known", [UsageError("two", "lines"), RigWarning("odd"), KeyboardInterrupt()])
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
