"""Read files of other programs: each failure while reading becomes an error that names the file."""

from __future__ import annotations

import errno
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from axbridge import __version__
from axbridge.errors import AxBridgeError, Remedy

FORMAT = 1  # version of recordings, TOML files and moves; docs/formats.md says which changes raise it

# Characters that move a terminal's cursor, set its colour or ring its bell, or reverse the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile(r"[\t\n]")
_LONGEST = 200  # characters: longest text from a file or a library that a message shows


def snake_case(words: str) -> str:
    """Return the words of a file or an e-manual as a name: ``Goal Position`` becomes ``goal_position``."""
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


@contextmanager
def reading(error: Callable[[str, str], AxBridgeError], hint: str) -> Iterator[None]:
    """Turn each exception that a library raises about a damaged or hostile file into `error(text, hint)`."""
    try:
        yield
    except (AxBridgeError, Warning, NameError, AttributeError, ImportError, AssertionError):
        raise  # the last four are errors of the program, not of the file
    except UnicodeDecodeError as failure:
        raise error(f"is no text: {failure}", "save it as UTF-8") from failure
    except Exception as failure:
        if isinstance(failure, OSError) and failure.strerror is not None:  # of the operating system
            raise error(failure.strerror, "check the name and its permissions") from failure
        raise error(_failure_in_words(failure), hint) from failure


def _failure_in_words(failure: Exception) -> str:
    if isinstance(failure, JSONDecodeError):
        return f"is no JSON: {failure}" if failure.doc else "is empty"
    if isinstance(failure, KeyError):
        return f"has no {printable(failure)[:_LONGEST]}"
    if isinstance(failure, RecursionError):
        return "is nested too deeply"
    if isinstance(failure, MemoryError):
        return "needs more memory than there is"
    # Python's ValueError for a number with thousands of digits, too
    if isinstance(failure, OverflowError) or "integer string conversion" in str(failure):
        return "has a number that is too large"
    message = printable(next(iter(str(failure).splitlines()), ""))[:_LONGEST]
    return f"is damaged: {message or type(failure).__name__}"


_CAD = Remedy("rig new", "NAME", urdf="FILE", profile="PROFILE", says="export a URDF from the CAD program: {}")
_KINDS = (  # pattern of the first bytes as text (bytes that are no UTF-8: \ufffd), kind, hint; the first match decides
    (r"\ufffdMCAP0", "a recording",
     Remedy("record", "replay", source="FILE", rig="RIG", says="repeat its motion: {}; `info` shows what it holds")),
    ("version https://git-lfs", "a pointer of Git LFS, not the file itself", "run: git lfs pull"),
    ("#VRML", "a world or robot of Webots", "describe the robot in a rig: docs/webots.md"),
    (r"<(.*<)?(robot\b.*xacro|xacro:)", "a xacro file", "expand it to a URDF: xacro FILE > robot.urdf"),
    (r"<(.*<)?robot\b", "a URDF", _CAD.within("make a rig of it: {}; docs/rigs.md")),
    (r"<(.*<)?mujoco\b", "a model of MuJoCo (MJCF)",
     Remedy("rig new", "NAME", mjcf="FILE", servo="PROFILE", says="make a rig of it: {}")),
    (r"<(.*<)?sdf\b", "a model of Gazebo (SDF)", "give the URDF that it was made from"),
    (r"(?i)<(!doctype )?html\b", "a web page", "download the file itself, not its page"),
    (r"(?i)\[(type info|unit info|control table)\]", "a control table of ROBOTIS (.model)",
     Remedy("profile from-model", "FILE", says="make a profile of it: {}")),
    (r"\{.*\"(controllers|motorgroups)\"\s*:", "a robot of pypot", "describe the robot in a rig: docs/migrate.md"),
    (r"\{.*\"calib_mode\"\s*:", "a calibration of LeRobot in its layout before 2025, of which the servos hold nothing",
     Remedy("import", "DATASET", "FILE.mcap", unit="deg", calibration="THIS.json",
            says="serve without it; its data set: {}")),
    (r"\{.*\"range_min\"\s*:", "a calibration of LeRobot",
     Remedy("import", "DATASET", "FILE.mcap", unit="normalised", calibration="THIS.json", says="give it to {}")),
    (r"\{[^\n]*\}\s*\n\s*\{", "JSON Lines, a document in each line", "make a CSV file of it"),
    ("PAR1", "a Parquet file", "give the folder of the LeRobot dataset that it is from; of another table, a .csv"),
    ("#ROSBAG", "a bag of ROS 1", Remedy("import", "FILE.csv", "FILE.mcap", says="export its joint states as CSV: {}")),
    ("SQLite format 3", "a database (SQLite), such as a bag of ROS 2", "ros2 bag convert: to MCAP"),
    (r"PK\x03\x04", "a zip archive, as of Excel or NumPy", "unpack it, or save it as CSV"),
    (r"\x1f\ufffd", "packed (gzip)", "unpack it: gunzip FILE"),
    (r"\ufffdNUMPY", "an array of NumPy", "save it as CSV, with a header: numpy.savetxt"),
    (r"\ufffdPNG|GIF8|\ufffd{3}.{3}JFIF|%PDF", "a picture or a PDF", "give a data file"),
    (r"solid\b|ISO-10303-21", "a CAD model or a mesh", _CAD),
    (r"\ufffd\ufffd(.\x00|\x00.)", "text in UTF-16", "save it as UTF-8"),
)  # fmt: skip
_BEGINNING = 4096  # bytes that are matched against the marks


def refuse_other_kind(path: Path | str, error: Callable[[str, str], AxBridgeError], *, but: str = "") -> None:
    """Raise an error that names the kind of file when it is one of `_KINDS`, except the kind described as `but`."""
    with regular(path).open("rb") as stream:
        begin = stream.read(_BEGINNING).decode("utf-8-sig", errors="replace").lstrip(" \t\r\n")
    for mark, kind, hint in _KINDS:
        if re.match(mark, begin, re.DOTALL):
            if kind != but:
                raise error(f"is {kind}", hint)
            return


def regular(path: Path | str) -> Path:
    """Return the path of a regular file; raise OSError for others: reading a pipe or a device may never end."""
    mode = Path(path).stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise OSError(errno.EINVAL, f"is {kind}, and no file", str(path))
    return Path(path)


_MISFITS = {  # by pydantic's error type
    "bool": "must be true or false",
    "dict": "must be a table",
    "finite_number": "must be a finite number",
    "float": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int": "must be a whole number",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list": "must be a list",
    "literal_error": "must be {expected}",
    "mapping": "must be a table",
    "model": "must be a table",
    "string": "must be a text",
    "string_too_short": "must have at least one character",
    "too_long": "must have at most {max_length} values",
    "too_short": "must have at least {min_length} values",
    "tuple": "must be a list",
}


def misfit_in_words(misfit: Mapping[str, Any]) -> str:
    """Return a message about a wrong value, from an item of pydantic's `ValidationError.errors()`."""
    kind = misfit["type"]
    template = _MISFITS.get(kind) or _MISFITS.get(kind.partition("_")[0])
    if template is None:
        message = str(misfit["msg"]).removeprefix("Value error, ")
        return f"{message[:1].lower()}{message[1:]}"
    limits = misfit.get("ctx", {}).items()
    return template.format(
        **{name: int(limit) if isinstance(limit, float) and limit.is_integer() else limit for name, limit in limits}
    )


def check_format(value: object, error: Callable[[str, str], AxBridgeError]) -> None:
    """Raise an error when a file's format is newer than this axbridge, or is not a whole number from 1 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise error(f"{printable(repr(value))[:_LONGEST]} is no number of a format", f"write {FORMAT}, or leave it out")
    if value > FORMAT:
        hint = "install a newer axbridge: pip install --upgrade axbridge"
        raise error(f"is of format {value}, and axbridge {__version__} reads formats up to {FORMAT}", hint)


def controls(text: str) -> bool:
    """Return whether a text has control characters of a terminal; tabs and line ends do not count."""
    return _CONTROL.search(text) is not None


def printable(text: object, *, lines: bool = False) -> str:
    r"""Return a text with its terminal control characters escaped, as in ``\x1b``; with `lines`, keep \t and \n."""
    shown = _CONTROL.sub(_escaped, str(text))
    return shown if lines else _BREAKS.sub(_escaped, shown)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
