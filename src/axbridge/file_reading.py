"""Files that somebody else wrote: whatever goes wrong while one is read becomes one error that names it."""

from __future__ import annotations

import errno
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from axbridge import __version__
from axbridge.errors import AxBridgeError

FORMAT = 1  # of recordings, TOML files and moves; docs/formats.md says what raises it

# What moves a terminal's cursor, colours it or rings its bell, and what turns the direction of a text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile(r"[\t\n]")
_LONGEST = 200  # characters of a foreign error's text that are shown


@contextmanager
def reading(error: Callable[[str, str], AxBridgeError], hint: str) -> Iterator[None]:
    """Turn whatever libraries raise about the content of a damaged or hostile file into one error."""
    try:
        yield
    except (AxBridgeError, Warning, NameError, AttributeError, ImportError, AssertionError):
        raise  # the last four are mistakes of a program, not of a file
    except UnicodeDecodeError as failure:
        raise error(f"is no text: {failure}", "save it as UTF-8") from failure
    except OSError as failure:
        if failure.strerror is None:  # a library's own, about the content
            raise error(_nonsense(failure), hint) from failure
        raise error(failure.strerror, "check the name and its permissions") from failure
    except OverflowError as failure:
        raise error("has a number that is too large", hint) from failure
    except KeyError as failure:
        raise error(f"has no {printable(failure)[:_LONGEST]}", hint) from failure
    except RecursionError as failure:
        raise error("is nested too deeply", hint) from failure
    except MemoryError as failure:
        raise error("needs more memory than there is", hint) from failure
    except Exception as failure:
        if "integer string conversion" in str(failure):  # what Python says about thousands of digits
            raise error("has a number that is too large", hint) from failure
        raise error(_nonsense(failure), hint) from failure


def _nonsense(failure: Exception) -> str:
    said = printable(next(iter(str(failure).splitlines()), ""))[:_LONGEST]
    return f"makes no sense: {said or type(failure).__name__}"


def regular(path: Path | str) -> Path:
    """The path of a file that ends: to read a pipe, a socket or a device may take for ever."""
    mode = Path(path).stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise OSError(errno.EINVAL, f"is {kind}, and no file", str(path))
    return Path(path)


def check_format(found: object, error: Callable[[str, str], AxBridgeError]) -> None:
    """Refuse a file of a format that is newer than this axbridge."""
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise error(f"{printable(repr(found))[:_LONGEST]} is no number of a format", f"write {FORMAT}, or leave it out")
    if found > FORMAT:
        hint = "install a newer axbridge: pip install --upgrade axbridge"
        raise error(f"is of format {found}, and axbridge {__version__} reads formats up to {FORMAT}", hint)


def controls(text: str) -> bool:
    """Whether a text has characters that would steer a terminal; tabs and line ends do not."""
    return _CONTROL.search(text) is not None


def printable(text: object, *, lines: bool = False) -> str:
    r"""A text from a file as it may be printed: characters that would steer a terminal as ``\x1b``."""
    shown = _CONTROL.sub(_escaped, str(text))
    return shown if lines else _BREAKS.sub(_escaped, shown)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
