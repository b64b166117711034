"""Import logs of other programs: BAM's JSON, Poppy's CSV, Dynamixel Wizard's graphs, any CSV with a column map."""

from __future__ import annotations

import csv
import json
import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import RecordingError, UsageError
from axbridge.file_reading import printable, reading, refuse_other_kind, regular
from axbridge.recording.import_wizard import FIRST, GivenGoal, wizard_recording
from axbridge.recording.imported import Columns, Warned, recording_of
from axbridge.recording.recording import SERVO_FIELDS, Event, Recording
from axbridge.recording.tables import HEADERS
from axbridge.units import RPM

UNIT_FACTORS = {
    "": 1.0, "%": 0.01, "V": 1.0, "mV": 1e-3,
    "rad": 1.0, "deg": math.pi / 180,
    "rad/s": 1.0, "deg/s": math.pi / 180, "rpm": RPM,
    "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
}  # fmt: skip
COUNTS = "counts"
ANGLES = "rad", "deg", COUNTS
_POPPY = {
    "time": ("t_s", "s"),
    "command": ("target_deg", "deg"),
    "position": ("position_deg", "deg"),
    "velocity": ("speed_dps", "deg/s"),
    "load": ("load_pct", "%"),
    "voltage": ("voltage_V", "V"),
    "temperature": ("temp_C", ""),
}
_XL330 = {
    "time": "timestamp",
    "command": "goal_position",
    "position": "position",
    "velocity": "speed",
    "voltage": "input_volts",
    "temperature": "temp",
    "torque_enabled": "torque_enable",
}
_PENDULUM = ("mass", "length", "kp", "vin")  # fields of a pendulum log: kg, m, a register, V
_OLD_WIZARD = "Time[ms]"  # first column of the Wizard's exports before version 2
_FIRST_CHARACTERS = 1000  # of a file, from which its kind is recognised
_NO_ROWS = "give a CSV file with a header and at least one line"
_LARGEST = 1e6  # kg, m, V: largest value of a pendulum
_XL330_FULL_DUTY = 885.0  # PWM register value at which these logs saturate


class Column(NamedTuple):
    """A column of a CSV file, and its conversion to SI: (value - zero) · factor."""

    header: str
    factor: float
    zero: float = 0.0


def import_log(
    path: Path | str,
    *,
    columns: Mapping[str, Column] | None = None,
    servo: str = "servo",
    walk: int | None = None,
    goal: GivenGoal | None = None,
    warned: Warned = lambda _finding: None,
) -> Recording:
    """Import a log of a known kind, which is recognised from its content, or a CSV file with a map of its columns.

    `servo` names the servo of a log without names, `walk` is the only walk to import, `goal` one that the log lacks.
    Raises RecordingError for an invalid file, UsageError for an argument that does not suit the kind of log.
    """
    path = Path(path)
    with (
        reading(partial(RecordingError, path), "give a JSON or CSV log"),
        regular(path).open(encoding="utf-8-sig") as stream,
    ):
        refuse_other_kind(path, partial(RecordingError, path))
        begin = stream.read(_FIRST_CHARACTERS).lstrip()
        if "\0" in begin:
            raise RecordingError(path, "is a binary file of no known kind", "give a JSON or CSV log")
        stream.seek(0)
        if walk is not None and not {"joint", "position_deg"} <= set(begin.partition("\n")[0].strip().split(",")):
            raise UsageError(f"{path} has no episodes", "leave --episode out")
        if columns is None and begin.startswith(FIRST):
            return wizard_recording(path, stream.read(), servo, goal, warned)
        if goal is not None:
            raise UsageError(f"{path} is no graph export of Dynamixel Wizard", "leave --goal out")
        if columns is None and begin[:1] in {"{", "["}:
            return _pendulum_json(path, stream.read(), servo, warned)
        return _of_table(_Log(path, _Csv(path, stream), servo, walk, warned), columns)


class _Log(NamedTuple):
    """An open CSV file, and arguments of `import_log`."""

    path: Path
    table: _Csv
    servo: str
    walk: int | None
    warned: Warned


def _of_table(log: _Log, columns: Mapping[str, Column] | None) -> Recording:
    path, table, headers = log.path, log.table, log.table.headers
    if not any(headers):
        raise RecordingError(path, "holds no samples", _NO_ROWS)
    if not table.has_header and not (columns and columns["position"].header in headers):
        hint = "write a name above each column, as time,position,command, and say what they are by --column"
        raise RecordingError(path, "has no header: its first line is numbers", hint)
    if columns is not None:
        tracks = table.columns(_by_servo(path, headers, columns, log.servo))
        return recording_of(path, tracks, "log", log.warned, column_map=_map(columns))
    for known, read in _KINDS:
        if known <= set(headers):
            return read(log)
    if {_OLD_WIZARD, "Present Position"} <= set(headers):
        why = "is an older graph export of Dynamixel Wizard, which does not say the servo's model"
        hint = f"--column time={_OLD_WIZARD}:ms --column 'position=Present Position:counts' --profile NAME"
        raise RecordingError(path, why, hint)
    hint = "say what they are: --column time=HEADER:ms --column position=HEADER:deg --column command=HEADER:deg; "
    hint += "* in a header is the name of each servo: position=*_pos:deg"
    raise RecordingError(path, f"is of no known kind; its columns are {printable(', '.join(headers))}", hint)


def parse_columns(items: Sequence[str], unit: str | None = None, profile: str = "ax-12a") -> dict[str, Column] | None:
    """Return the column map of ``FIELD=HEADER[:UNIT]`` items, None without items; `unit` is the default of angles."""
    if unit is not None and unit not in ANGLES:
        raise UsageError(f"{unit!r} is no unit of an angle", f"units: {', '.join(ANGLES)}")
    if not items:
        if unit is not None:
            raise UsageError("--unit says what the columns of a CSV hold", "name them: --column position=HEADER")
        return None
    columns: dict[str, Column] = {}
    fields = ("time", *SERVO_FIELDS)
    for item in items:
        name, equals, rest = item.partition("=")
        header, colon, of = rest.rpartition(":")
        if not colon or (of != COUNTS and _factor(of) is None):  # the header itself may contain a colon
            header, of = rest, ""
        if not equals or not header:
            raise UsageError(f"{item!r} is no column", "write FIELD=HEADER or FIELD=HEADER:UNIT, e.g. position=pos:deg")
        if name not in fields:
            raise UsageError(f"{name!r} is no field of a recording", f"fields: {', '.join(fields)}")
        angle = name in {"position", "command"}
        if angle and not of:
            of = unit or "rad"
        if of == COUNTS and not angle:
            raise UsageError(f"{name} is not counted as angles are", f"units: {', '.join(filter(None, UNIT_FACTORS))}")
        if of == COUNTS:
            units = FirmwareProfile.load(profile).units
            columns[name] = Column(header, units.position, units.middle)
        else:
            columns[name] = Column(header, _factor(of) or 1.0)
    for needed in ("time", "position"):
        if needed not in columns:
            raise UsageError(f"the column map has no {needed}", f"add --column {needed}=HEADER")
    return columns


def _by_servo(
    path: Path, headers: Sequence[str], columns: Mapping[str, Column], servo: str
) -> dict[str, Mapping[str, Column]]:
    """Return the columns of each servo; ``*`` in a header stands for the servo's name."""
    pattern = columns["position"].header
    if "*" not in pattern or pattern in headers:
        return {servo: columns}
    closer = [_naming(c.header) for c in columns.values() if "*" in c.header and len(c.header) > len(pattern)]
    own = [header for header in headers if not any(other.fullmatch(header) for other in closer)]
    names = [match[1] for match in map(_naming(pattern).fullmatch, own) if match]
    if not names:
        raise RecordingError(path, f"has no column like {pattern}", f"its columns are {printable(', '.join(headers))}")
    return {
        name: {field: c._replace(header=c.header.replace("*", name)) for field, c in columns.items()} for name in names
    }


def _naming(header: str) -> re.Pattern[str]:
    """Return a pattern of headers with a servo's name in place of the first ``*``."""
    return re.compile("(.+)".join(map(re.escape, header.split("*", 1))))


def _factor(text: str) -> float | None:
    """Return the factor of a unit or number; None if the text is neither."""
    if text in UNIT_FACTORS:
        return UNIT_FACTORS[text]
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value != 0 else None


def _pendulum_json(path: Path, text: str, servo: str, warned: Warned) -> Recording:
    try:
        log = json.loads(text)
    except json.JSONDecodeError as failure:
        raise RecordingError(path, f"not valid JSON: {failure}", "the log may be cut off; copy it again") from failure
    if not isinstance(log, dict) or "entries" not in log:
        raise RecordingError(path, "has no field 'entries'", "give a pendulum log as BAM records them")
    for key in _PENDULUM:
        if not _is_number(log.get(key)):
            raise RecordingError(path, f"field {key!r} is missing or no number", "a pendulum log needs it")
        if not 0 < log[key] < _LARGEST or (key == "kp" and log[key] != int(log[key])):
            raise RecordingError(path, f"field {key!r} is {log[key]:g}", "correct it: kp is a register, the others SI")
    entries = log["entries"]
    if not isinstance(entries, list) or not entries:
        raise RecordingError(path, "field 'entries' holds no samples", "the log is empty; record it again")
    values = {name: _json_column(path, entries, key) for name, key in _XL330.items()}
    raw = _json_column(path, entries, "load")
    values["load"] = np.where(raw > 0x7FFF, raw - 0x10000, raw) / _XL330_FULL_DUTY  # a signed word, logged as unsigned
    values["commanded"] = values["time"] - _send_to_stamp(values["time"])
    samples = Columns(values, "entries[{}]".format)
    columns = {name: Column(key, 1.0) for name, key in _XL330.items()}
    columns["load"] = Column("load", 1 / _XL330_FULL_DUTY)
    return recording_of(
        path, {servo: samples}, str(log.get("trajectory", "log")), warned,
        pendulum={key: log[key] for key in _PENDULUM}, registers={servo: {"position_p_gain": int(log["kp"])}},
        motor=str(log.get("motor", "")), column_map=_map(columns),
    )  # fmt: skip


def _send_to_stamp(stamps: FloatArray) -> float:
    """Return the time from sending a goal to its stamp in a pendulum log, s; 0 if that is unknown.

    BAM's loop writes the goal, reads the servo, and stamps both with the middle of the read. The clock starts with the
    first loop, so the first stamp is that time, unless the log was cut or resampled evenly.
    """
    whole = len(stamps) > 1 and 0.0 < stamps[0] < stamps[1] - stamps[0]
    return float(stamps[0]) if whole else 0.0


def _json_column(path: Path, entries: list[Any], key: str) -> FloatArray:
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not _is_number(entry.get(key)):
            why = f"entries[{index}]: field {key!r} is missing or no number"
            raise RecordingError(path, why, "correct or remove that entry")
    column = np.array([float(entry[key]) for entry in entries])
    for wrong in np.flatnonzero(~np.isfinite(column)):
        why = f"{key} of sample {wrong} is not a finite number"
        raise RecordingError(path, why, "correct or remove that sample")
    return column


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _line_of(numbers: Sequence[int]) -> Callable[[int], str]:
    """Return a function that names a row by its line number in the file."""
    return lambda index: f"line {numbers[index]}"


class _Csv:
    """A CSV file, read row by row: the separator is the header's, and lines that begin with # are comments.

    If the separator is not a comma, numbers may have decimal commas.
    """

    def __init__(self, path: Path, lines: Iterable[str]) -> None:
        self._path, self._line = path, 0
        rows = self._without_notes(lines)
        first = next(rows, "")
        separator = next((char for char in "\t;," if char in first), " " if len(first.split()) > 1 else ",")
        self._comma = separator != ","
        self._reader = csv.reader(chain([first], rows), delimiter=separator, skipinitialspace=True)
        self.headers = [cell.strip() for cell in self._next() or ()]
        named = [header for header in self.headers if header]
        self._needed = max((place + 1 for place, header in enumerate(self.headers) if header), default=0)
        if self.has_header and (twice := next((header for header in named if named.count(header) > 1), None)):
            why = f"line {self._line}: names the column {twice!r} twice"
            raise RecordingError(path, why, "give each column a name of its own")

    def _without_notes(self, lines: Iterable[str]) -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            self._line = number
            if line.strip() and not line.startswith("#"):
                yield line.strip(" \r\n")

    def _next(self) -> list[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as failure:
            why = f"line {self._line}: {failure}"
            raise RecordingError(self._path, why, "give a CSV file with a header") from failure

    @property
    def has_header(self) -> bool:
        """Whether the first line has names, not numbers."""
        return not all(_is_decimal(header) for header in filter(None, self.headers))

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the cells of each row, as many as headers; RecordingError for an invalid row."""
        count, row = len(self.headers), None
        while (row := self._next()) is not None:
            if len(row) < self._needed:
                why = f"line {self._line}: has {len(row)} of {self._needed} cells"
                raise RecordingError(self._path, why, "correct or remove that line; the file may be cut off")
            if any(map(str.strip, row[count:])):
                hint = "name every column, and write decimals with a point"
                raise RecordingError(self._path, f"line {self._line}: has more cells than the header", hint)
            yield self._line, [cell.strip() for cell in row[:count]] + [""] * (count - len(row))

    def number(self, line: int, text: str, column: Column, *, blank: bool) -> float:
        """Return a cell in SI; NaN for an empty cell if `blank` allows it."""
        if not text and blank:
            return math.nan
        try:
            return (float(text.replace(",", ".") if self._comma else text) - column.zero) * column.factor
        except ValueError as failure:
            why = f"line {line}: {column.header} = {text!r} is no number"
            raise RecordingError(self._path, why, "correct or remove that line") from failure

    def columns(self, servos: Mapping[str, Mapping[str, Column]], by: str | None = None) -> dict[str, Columns]:
        """Return the columns of each servo; with `by`, the only map in `servos` applies to each name in column `by`."""
        for name, column in ((name, column) for its in servos.values() for name, column in its.items()):
            if column.header not in self.headers:
                header, _, unit = column.header.rpartition(":")
                if header in self.headers:
                    units = ", ".join(filter(None, (*UNIT_FACTORS, COUNTS)))
                    raise RecordingError(self._path, f"{unit!r} is no unit (of {name})", f"units: {units}, or a factor")
                why = f"has no column {column.header!r} (for {name})"
                raise RecordingError(self._path, why, f"its columns are {printable(', '.join(self.headers))}")
        at = {header: place for place, header in enumerate(self.headers)}
        its = next(iter(servos.values()))
        rows_of: dict[str, tuple[array[int], list[tuple[str, int, Column, array[float]]]]] = {}

        def begin(name: str, columns: Mapping[str, Column]) -> None:
            cells = [(key, at[column.header], column, array("d")) for key, column in columns.items()]
            rows_of[name] = array("q"), cells

        for name, columns in servos.items() if by is None else ():
            begin(name, columns)
        for line, row in self.rows():
            if by is None:
                names: Iterable[str] = rows_of
            else:
                name = printable(row[at[by]])
                if name not in rows_of:
                    begin(name, its)
                names = (name,)
            for name in names:
                lines, cells = rows_of[name]
                lines.append(line)
                for key, place, column, values in cells:
                    values.append(self.number(line, row[place], column, blank=key != "time"))
        if not any(len(lines) for lines, _ in rows_of.values()):
            raise RecordingError(self._path, "holds no samples", _NO_ROWS)
        tracks = {}
        for name, (lines, cells) in rows_of.items():
            arrays = {key: np.frombuffer(values) for key, _, _, values in cells}
            tracks[name] = Columns(arrays, _line_of(lines), its["time"].factor)
        return tracks


def _is_decimal(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _poppy(log: _Log) -> Recording:
    """Import Poppy walks: segments, whose clocks start at 0, are put one after the other and marked by events."""
    path, table, _, walk, warned = log
    columns = {name: Column(header, UNIT_FACTORS[unit]) for name, (header, unit) in _POPPY.items()}
    for needed in ("walk", "segment", *(column.header for column in columns.values())):
        if needed not in table.headers:
            raise RecordingError(path, f"has no column {needed!r}", "a Poppy walking log needs it")
    rows = [(line, dict(zip(table.headers, row, strict=True))) for line, row in table.rows()]
    walks = sorted({row["walk"] for _, row in rows}, key=lambda name: (len(name), name))
    if walk is not None and str(walk) not in walks:
        raise RecordingError(path, f"has no walk {walk}", f"it has {', '.join(walks)}")
    events: list[Event] = []
    samples: dict[str, list[tuple[int, dict[str, float]]]] = {}  # by joint: line number and values
    offset, last, part = 0.0, 0.0, ("", "")
    for line, row in rows:
        if walk is not None and row["walk"] != str(walk):
            continue
        cells = {key: (row[column.header], column) for key, column in columns.items()}
        values = {key: table.number(line, *cell, blank=key != "time") for key, cell in cells.items()}
        if (row["walk"], row["segment"]) != part:
            part = (row["walk"], row["segment"])
            offset = last + (0.1 if events else 0.0)
            name = f"walk {part[0]} segment {part[1]}"
            events.append(Event(offset, "segment", {"name": name, "walk": part[0], "segment": part[1]}))
        values["time"] = last = offset + values["time"]
        samples.setdefault(printable(row["joint"]), []).append((line, values))
    tracks = {}
    for joint, its in samples.items():
        lines, rows_of = zip(*its, strict=True)
        tracks[joint] = Columns({key: np.array([row[key] for row in rows_of]) for key in columns}, _line_of(lines))
    return recording_of(path, tracks, "walk", warned, events=tuple(events), column_map=_map(columns))


def _own(log: _Log) -> Recording:
    """Import axbridge's own tables, with a row for each servo and time."""
    columns = {name: Column(header, 1.0) for name, header in HEADERS.items() if header in log.table.headers}
    tracks = log.table.columns({"": columns}, "servo")
    return recording_of(log.path, tracks, "log", log.warned, column_map=_map(columns))


def _map(columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """Return a column map as metadata: header, factor and zero of each field."""
    return {name: column._asdict() for name, column in columns.items()}


_KINDS: tuple[tuple[set[str], Callable[[_Log], Recording]], ...] = (  # columns of each file of a kind, importer
    ({"joint", "position_deg"}, _poppy),
    ({"servo", "time_s"}, _own),
)
