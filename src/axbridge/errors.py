"""All errors that axbridge raises itself.

::

    AxBridgeError                      cause and next step, in one or two lines
    ├── UsageError(ValueError)         a wrong argument or a wrong order of calls
    │   └── UnknownServo(KeyError)     the robot has no servo of that name; name
    ├── ProfileError                   a firmware profile or model file; path, key
    ├── RigError                       a rig file or its URDF; path, key
    ├── RecordingError                 a recording or log; path
    ├── MoveError                      a file of poses and moves; path, key
    ├── UnsupportedOperation           the servo or backend does not support the operation
    ├── SimulationDiverged             the simulated motion is no longer finite; joint, time
    └── BusError                       a fault between the host and the servos
        ├── BusTimeout(TimeoutError)   no complete reply in time; id
        ├── CorruptPacket              bytes came, but no valid reply; id, data
        ├── ServoFault                 the servo refused, or answered with error bits; id, flags
        └── PortError(OSError)         the port cannot be opened or was lost; port

The command line maps them to exit codes: 3 for a `BusError`, 2 for the others.
"""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from enum import IntFlag
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class _Bits(IntFlag):
    @property
    def words(self) -> list[str]:
        """Return the names of the set bits, lowest first."""
        return [flag.name.lower().replace("_", " ") for flag in type(self) if flag in self and flag.name]

    def describe(self) -> str:
        """Return the names of the set bits, lowest first; "none" if no bit is set."""
        return ", ".join(self.words) or "none"


class ErrorFlag(_Bits):
    """The error byte of a Protocol 1.0 status packet (e-manual, "Protocol 1.0", Error)."""

    INPUT_VOLTAGE = 0x01
    ANGLE_LIMIT = 0x02
    OVERHEATING = 0x04
    RANGE = 0x08
    CHECKSUM = 0x10
    OVERLOAD = 0x20
    INSTRUCTION = 0x40


class StatusError(int):
    """The error byte of a Protocol 2.0 status packet (e-manual, "Protocol 2.0", Error)."""

    RESULT, INSTRUCTION, CRC, RANGE, LENGTH, LIMIT, ACCESS = range(1, 8)
    _WORDS = (
        "",
        "instruction failed",
        "unknown instruction",
        "damaged instruction packet",
        "a value outside the register's range",
        "too few bytes for the register",
        "a value outside the servo's limits",
        "no such register, read only, or EEPROM while torque is on",
    )

    @property
    def number(self) -> int:
        """Return the error number of the instruction; 0: no error."""
        return self & 0x7F

    @property
    def alert(self) -> bool:
        """Return whether Hardware Error Status is not 0."""
        return bool(self & 0x80)

    def describe(self) -> str:
        """Return the error in words; "none" without an error."""
        words = self._WORDS[self.number] if self.number < len(self._WORDS) else f"error {self.number}"
        parts = [words] if words else []
        return ", ".join([*parts, "a hardware error"] if self.alert else parts) or "none"


class HardwareError(_Bits):
    """Hardware Error Status and Shutdown of Protocol 2.0 servos (e-manual, XL330, Shutdown)."""

    INPUT_VOLTAGE = 0x01
    OVERHEATING = 0x04
    ENCODER = 0x08
    ELECTRICAL_SHOCK = 0x10
    OVERLOAD = 0x20


class FeetechError(_Bits):
    """The error byte of a Feetech servo's status packet (SMS/STS memory table, Status)."""

    INPUT_VOLTAGE = 0x01
    ENCODER = 0x02
    OVERHEATING = 0x04
    OVERCURRENT = 0x08
    OVERLOAD = 0x20


ServoFlags = ErrorFlag | HardwareError | FeetechError
"""Alarm flags of a servo, by its protocol."""


class ControlWarning(UserWarning):
    """A set-point was clipped or refused, or a function is emulated; the message names the consequence."""


def warn(message: str) -> None:
    """Issue a `ControlWarning` with the line of the first caller outside axbridge."""
    level, frame = 2, sys._getframe(1)  # noqa: SLF001 - the interpreter has no public function for it
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("axbridge."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ControlWarning, stacklevel=level)


class RigWarning(UserWarning):
    """A rig or its URDF is usable but implausible; the message names the value and the consequence."""


def as_word(value: object) -> str:
    """Return a value as one word of a command; double quotes hold it together in each system's shell."""
    text = str(value)
    return f'"{text}"' if re.search(r"[][\s&();'|<>*?#]", text) else text


class Remedy(str):
    """A hint that is one `axbridge` command, or a sentence with one; as a string it is the text of the hint.

    Args:
        verb: Subcommand, such as ``servo write``.
        words: Positional arguments: an id, a register, a value, a file.
        says: Sentence with ``{}`` in the place of the command; if empty, the text is the command alone.
        options: Options by name (``port="COM3"``); None, empty and False are omitted, True gives the name alone, a list
            repeats it.
    """

    __slots__ = ("options", "says", "verb", "words")
    verb: str
    words: tuple[object, ...]
    says: str
    options: dict[str, Any]

    def __new__(cls, verb: str, *words: object, says: str = "", **options: Any) -> Remedy:  # noqa: D102
        chosen = {name: value for name, value in options.items() if value not in (None, "") and value is not False}
        texts = [
            f"--{name.replace('_', '-')}{'' if one is True else f' {as_word(one)}'}"
            for name, value in chosen.items()
            for one in (value if isinstance(value, list) else [value])
        ]
        command = " ".join(("axbridge", verb, *map(as_word, words), *texts))
        remedy = super().__new__(cls, says.replace("{}", f"`{command}`") if says else command)
        remedy.verb, remedy.words, remedy.says, remedy.options = verb, words, says, chosen
        return remedy

    def __getnewargs_ex__(self) -> tuple[tuple[object, ...], dict[str, Any]]:  # pickled by worker processes
        return (self.verb, *self.words), {"says": self.says, **self.options}

    def within(self, says: str, **more: Any) -> Remedy:
        """Return the same command in another sentence, with `more` options."""
        return Remedy(self.verb, *self.words, says=says, **self.options, **more)


class _Kind(type):
    # Untyped, so that type checkers use the types of `__init__`.
    def __call__(cls, *args, **facts):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN003, ANN204
        """Make an error; return an argument of this class unchanged: gymnasium calls `type(error)(error)`."""
        return args[0] if len(args) == 1 and type(args[0]) is cls else super().__call__(*args, **facts)


class AxBridgeError(Exception, metaclass=_Kind):
    """Base class of all axbridge errors.

    Args:
        message: Cause, in one line.
        hint: Next step, in one line; may be empty.

    `remedy` is the command in the hint, as data; None if the hint has no command or several.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        self.remedy = hint if isinstance(hint, Remedy) else None
        super().__init__(f"{message}\n{hint}" if hint else message)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (type(self), self.args, self.__dict__)  # pickled by worker processes

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


def _unpickled(kind: type[AxBridgeError], args: tuple[object, ...], facts: dict[str, object]) -> AxBridgeError:
    """Restore an error without its constructor, whose arguments may not be in `args`."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class UsageError(AxBridgeError, ValueError):
    """An argument is out of range, or calls are in the wrong order."""


class RobotStopped(AxBridgeError):
    """The user has switched off all motors; no motor may be switched on until `Robot.resume`."""


class UnknownServo(UsageError, KeyError):
    """The robot has no servo of that name; carries `name`."""

    def __init__(self, name: str, message: str, hint: str = "") -> None:
        self.name = name
        super().__init__(message, hint)


class _FileError(AxBridgeError):
    mistakes: tuple[_FileError, ...] = ()  # the listed mistakes, if there are several

    def __init__(self, path: Path | str, key: str, message: str, hint: str = "") -> None:
        self.path: Path = Path(path)
        self.key = key
        prefix = [] if self.path == Path() else [str(path)]  # objects made in a program have no file
        super().__init__(": ".join([*prefix, *([key] if key else []), message]), hint)

    @classmethod
    def of(cls, path: Path | str, errors: Iterable[_FileError]) -> _FileError:
        """Return one error for all mistakes: the mistake itself, or a list with one line for each."""
        parts = [part for error in errors for part in (getattr(error, "mistakes", ()) or (error,))]
        mistakes = tuple({str(part): part for part in parts}.values())
        if len(mistakes) == 1:
            return mistakes[0]
        lines = "".join("\n  " + str(mistake).replace("\n", "; ") for mistake in mistakes)
        error = cls(path, "", f"{len(mistakes)} mistakes:{lines}", cls._next_step(path))
        error.mistakes = mistakes
        return error

    @staticmethod
    def _next_step(path: Path | str) -> str:  # noqa: ARG004 - of a rig
        """Return the hint of an error with several mistakes."""
        return "correct them"


class ProfileError(_FileError):
    """A firmware profile or model file that cannot be used; carries `path` and `key`."""


class RigError(_FileError):
    """A rig file, or the URDF it names, that cannot be used; carries `path` and `key`."""

    @staticmethod
    def _next_step(path: Path | str) -> str:
        return Remedy("rig check", path, says="correct them; {} checks again")


class MoveError(_FileError):
    """A move file (JSON, ``.mtn``) that cannot be used or written; carries `path` and `key`."""


class RecordingError(AxBridgeError):
    """A recording or log that cannot be read or written; carries `path`."""

    def __init__(self, path: Path | str, message: str, hint: str = "") -> None:
        self.path: Path = Path(path)
        super().__init__(f"{path}: {message}", hint)


class UnsupportedOperation(AxBridgeError):
    """The servo or backend does not support the operation; see `Servo.capabilities`."""


class SimulationDiverged(AxBridgeError):
    """The simulated motion is no longer finite; carries `joint` and `time` (s)."""

    def __init__(self, joint: str, time: float, hint: str = "") -> None:
        self.joint = joint
        self.time = time
        super().__init__(
            f"the simulation of joint {joint!r} diverged at t = {time:.3f} s",
            hint or "check the link's inertia and the model's parameters, or take a smaller world.time_step_ms",
        )


class BusError(AxBridgeError):
    """A fault between the host and the servos."""


class BusTimeout(BusError, TimeoutError):
    """No complete reply within the deadline; carries `id`."""

    def __init__(self, id: int, hint: str = "", message: str = "") -> None:
        self.id = id
        super().__init__(
            message or f"servo {id} did not answer",
            hint or Remedy("scan", says="check power, wiring, id and baud rate: {} lists what answers"),
        )


class CorruptPacket(BusError):
    """The received bytes are no valid reply of the servo; carries `id` and `data`."""

    def __init__(self, id: int, data: bytes, hint: str = "") -> None:
        self.id = id
        self.data = data
        super().__init__(
            f"servo {id}: reply damaged ({data.hex(' ') or 'empty'})",
            hint or Remedy("doctor", says="check the cable and that no two servos share this id: {} measures the loss"),
        )


class ServoFault(BusError):
    """The servo refused an instruction, or answered with error bits; carries `id` and `flags`.

    `message` names the refused operation. `flags` are a `StatusError` or the protocol's flags; a plain integer becomes
    an `ErrorFlag`. `hardware` is the Hardware Error Status behind the alert of a `StatusError`, if it was read.
    """

    def __init__(
        self, id: int, flags: int, hint: str = "", message: str = "", hardware: HardwareError | None = None
    ) -> None:
        self.id = id
        self.flags: ServoFlags | StatusError = (
            flags if isinstance(flags, ServoFlags | StatusError) else ErrorFlag(flags)
        )
        cause = f": {hardware.describe()}" if hardware else ""
        reported = f"reports {self.flags.describe()}{cause} (0x{flags:02x})"
        if message and flags:
            hint = hint.within(f"it {reported}; {hint.says}") if isinstance(hint, Remedy) else f"it {reported}; {hint}"
        super().__init__(f"servo {id} {message or reported}", hint)


class PortError(BusError, OSError):
    """The port cannot be opened, or was lost; carries `port`."""

    def __init__(self, port: str, message: str, hint: str = "") -> None:
        self.port = port
        super().__init__(message if port == "auto" else f"{port}: {message}", hint)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the hint of an error about an unknown name: "did you mean 'step'? ", or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}? " if close else ""


_EXTRAS = {  # extra of `pyproject.toml` that installs each optional package
    "pybullet": "sim", "mujoco": "sim", "scipy": "fit", "cma": "fit", "matplotlib": "plot", "trimesh": "plot",
    "numba": "fast", "websockets": "view", "gymnasium": "learn", "distributed": "dask", "pyarrow": "parquet",
    "pandas": "pandas", "rosbags": "ros2",
}  # fmt: skip


def install(*packages: str) -> str:
    """Return the command that installs the extras with these packages."""
    extras = ",".join(dict.fromkeys(_EXTRAS[package] for package in packages))
    return f'python -m pip install "axbridge[{extras}]"'


def require(what: str, *packages: str) -> None:
    """Check that the packages that `what` needs are installed.

    Raises:
        UnsupportedOperation: one is missing; the message has the command that installs it.
    """
    missing = [name for name in packages if sys.modules.get(name) is None and find_spec(name) is None]
    if missing:
        raise UnsupportedOperation(f"{what} needs {listed(missing, len(missing))}: {install(*missing)}")


def plural(count: int, noun: str) -> str:
    """Return the number with its noun: ``1 servo``, ``2 servos``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def listed(items: Sequence[str], most: int) -> str:
    """Return the first `most` items, separated by commas, and the number of the others."""
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
