"""Import logs of other programs: BAM's JSON, Poppy's CSV, Dynamixel Wizard's graphs, any CSV with a column map."""

from __future__ import annotations

import csv
import json
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, FiniteFloat

from axbridge.arrays import FloatArray
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import RecordingError, UsageError, listed
from axbridge.file_reading import printable, reading, refuse_other_kind, regular
from axbridge.recording.import_wizard import FIRST, GivenGoal, wizard_recording
from axbridge.recording.imported import Column, Columns, Warned, recording_of
from axbridge.recording.provenance import validated
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
_KINDS = ANGLES, ("rad/s", "deg/s", "rpm"), ("s", "ms", "us", "ns"), ("V", "mV"), ("%",)  # of units
_UNITS_OF = {  # by field; the others have numbers alone
    **dict.fromkeys(("position", "command", "true_position"), _KINDS[0]),
    **dict.fromkeys(("velocity", "speed_limit"), _KINDS[1]),
    **dict.fromkeys(("time", "commanded"), _KINDS[2]),
    "voltage": _KINDS[3],
    **dict.fromkeys(("load", "duty", "torque_limit", "torque_enabled"), _KINDS[4]),
}
_FIRST_CHARACTERS = 1000  # of a file, from which its format is recognised
_JSON_OR_CSV = "give a JSON or CSV log"
_BETWEEN = 0.1  # s between two segments, whose clocks start at 0
_NO_ROWS = "give a CSV file with a header and at least one line"


_Map = Mapping[str, Column]  # by field of a recording


class _Table(NamedTuple):
    """A format of CSV files with the name of a servo in each row."""

    marks: frozenset[str]  # columns by which it is recognised
    columns: _Map
    by: str  # column of the servo's name
    parts: tuple[str, ...] = ()  # columns of the numbers of a segment, whose clock starts at 0; `walk` is of the first
    experiment: str = "log"
    whole: bool = True  # whether each file has all columns


_DEG = math.pi / 180
_TABLES = (
    _Table(
        frozenset({"joint", "position_deg"}),  # Poppy's walks
        {
            "time": Column("t_s"), "command": Column("target_deg", _DEG), "position": Column("position_deg", _DEG),
            "velocity": Column("speed_dps", _DEG), "load": Column("load_pct", 0.01), "voltage": Column("voltage_V"),
            "temperature": Column("temp_C"),
        },
        "joint", ("walk", "segment"), "walk",
    ),
    _Table(  # of axbridge
        frozenset({"servo", "time_s"}), {name: Column(header) for name, header in HEADERS.items()}, "servo", whole=False
    ),
)  # fmt: skip


def import_log(
    path: Path | str,
    *,
    columns: _Map | None = None,
    servo: str = "servo",
    walk: int | None = None,
    goal: GivenGoal | None = None,
    warned: Warned = lambda _finding: None,
) -> Recording:
    """Import a log of a known format, which is recognised from its content, or a CSV file with a map of its columns.

    `servo` names the servo of a log without names, `walk` is the only walk to import, `goal` one that the log lacks.
    Raises RecordingError for an invalid file, UsageError for an argument that does not suit the format.
    """
    path = Path(path)
    with (
        reading(partial(RecordingError, path), _JSON_OR_CSV),
        regular(path).open(encoding="utf-8-sig") as stream,
    ):
        refuse_other_kind(path, partial(RecordingError, path))
        begin = stream.read(_FIRST_CHARACTERS).lstrip()
        if "\0" in begin:
            raise RecordingError(path, "is a binary file of no known kind", _JSON_OR_CSV)
        stream.seek(0)
        is_graph, is_json = (columns is None and begin.startswith(marks) for marks in (FIRST, ("{", "[")))
        table = _Csv(path, stream)
        known = None
        if columns is None and not is_graph and not is_json:
            known = next((each for each in _TABLES if each.marks <= set(table.headers)), None)
        if walk is not None and (known is None or not known.parts):
            raise UsageError(f"{path} has no episodes", "leave --episode out")
        if goal is not None and not is_graph:
            raise UsageError(f"{path} is no graph export of Dynamixel Wizard", "leave --goal out")
        if is_graph:
            return wizard_recording(path, stream.read(), servo, goal, warned)
        if is_json:
            return _pendulum_recording(path, stream, servo, warned)
        if known is not None:
            columns = {key: c for key, c in known.columns.items() if known.whole or c.header in table.headers}
            tracks, events = table.columns({"": columns}, known.by, known.parts, walk)
            return recording_of(path, tracks, known.experiment, warned, columns, events)
        servos = {} if columns is not None else _own_wide(table.headers)
        if servos:
            columns = {k: c._replace(header=f"*.{HEADERS[k]}") for each in servos.values() for k, c in each.items()}
            columns["time"] = Column(HEADERS["time"])
        else:
            columns = _checked_map(path, table.headers, columns)
            servos = _by_servo(path, table.headers, columns, servo)
        tracks, events = table.columns(servos)
        if len(tracks) > 1:
            tracks = {name: _answered(samples) for name, samples in tracks.items()}
        return recording_of(path, tracks, "log", warned, columns, events)


def _own_wide(headers: Sequence[str]) -> dict[str, _Map]:
    """Return the columns of each servo in a wide table of axbridge; empty for another table."""
    fields = {header: key for key, header in HEADERS.items() if key != "time"}
    servos: dict[str, dict[str, Column]] = {}
    for header in headers:
        name, _, end = header.rpartition(".")
        if name and end in fields:
            servos.setdefault(name, {"time": Column(HEADERS["time"])})[fields[end]] = Column(header)
    return {**servos} if HEADERS["time"] in headers else {}


def _answered(samples: Columns) -> Columns:
    """Leave out the rows of a wide table that hold only other servos' values."""
    values = samples.values
    known = np.any([~np.isnan(column) for key, column in values.items() if key != "time"], axis=0)
    if known.all() or not known.any():
        return samples
    lines = np.flatnonzero(known).tolist()
    return Columns({key: column[known] for key, column in values.items()}, lambda index: samples.place(lines[index]))


def _checked_map(path: Path, headers: Sequence[str], columns: _Map | None) -> _Map:
    """Return the map of columns; RecordingError if it is needed and missing, or names nothing."""
    if not any(headers):
        raise RecordingError(path, "holds no samples", _NO_ROWS)
    if all(map(_is_decimal, filter(None, headers))) and not (columns and columns["position"].header in headers):
        hint = "write a name above each column, as time,position,command, and say what they are by --column"
        raise RecordingError(path, "has no header: its first line is numbers", hint)
    if columns is not None:
        return columns
    if {"Time[ms]", "Present Position"} <= set(headers):  # an export before version 2
        why = "is an older graph export of Dynamixel Wizard, which does not say the servo's model"
        hint = "--column time=Time[ms]:ms --column 'position=Present Position:counts' --profile NAME"
        raise RecordingError(path, why, hint)
    hint = "say what they are: --column time=HEADER:ms --column position=HEADER:deg --column command=HEADER:deg; "
    hint += "* in a header is the name of each servo: position=*_pos:deg"
    raise RecordingError(path, f"is of no known kind; its columns are {_named(headers)}", hint)


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
        if name in columns:
            raise UsageError(f"two columns are to be {name}", f"leave one --column {name}=… out")
        angle = name in {"position", "command", "true_position"}
        if angle and not of:
            of = unit or "rad"
        own = _UNITS_OF.get(name, ())
        if any(of in kind for kind in _KINDS) and of not in own:
            hint = f"units: {', '.join(own)}, or a factor" if own else "give a factor, or no unit"
            raise UsageError(f"{of!r} is no unit of {name}", hint)
        if of == COUNTS:
            units = FirmwareProfile.load(profile).units
            columns[name] = Column(header, units.position, units.middle)
        else:
            columns[name] = Column(header, _factor(of) or 1.0)
    for needed in ("time", "position"):
        if needed not in columns:
            raise UsageError(f"the column map has no {needed}", f"add --column {needed}=HEADER")
    return columns


def _by_servo(path: Path, headers: Sequence[str], columns: _Map, servo: str) -> dict[str, _Map]:
    """Return the columns of each servo; ``*`` in a header stands for the servo's name."""
    pattern = columns["position"].header
    if "*" not in pattern or pattern in headers:
        return {servo: columns}
    longer = [_naming(c.header) for c in columns.values() if "*" in c.header and len(c.header) > len(pattern)]
    own = [header for header in headers if not any(other.fullmatch(header) for other in longer)]
    names = [match[1] for match in map(_naming(pattern).fullmatch, own) if match]
    if not names:
        raise RecordingError(path, f"has no column like {pattern}", f"its columns are {_named(headers)}")
    return {
        name: {field: c._replace(header=c.header.replace("*", name)) for field, c in columns.items()} for name in names
    }


def _named(headers: Sequence[str]) -> str:
    return printable(listed(headers, most=20))


def _naming(header: str) -> re.Pattern[str]:
    """Return a pattern of headers with a servo's name in place of the first ``*``."""
    return re.compile("(.+)".join(map(re.escape, header.split("*", 1))))


def _factor(text: str) -> float | None:
    """Return the factor of a unit or number; None if the text is neither."""
    try:
        value = UNIT_FACTORS[text] if text in UNIT_FACTORS else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value != 0 else None


class _Csv:
    """A CSV file, read row by row: the separator is the header's, and lines that begin with # are comments.

    If the separator is not a comma, numbers may have decimal commas.
    """

    def __init__(self, path: Path, lines: IO[str]) -> None:
        self._path, self._line, self._comma = path, 0, False
        self._rows = self._cells(lines)

    def _cells(self, lines: IO[str]) -> Iterator[list[str]]:
        rows = self._without_notes(lines)
        first = next(rows, "")
        if mark := re.fullmatch(r"sep=(.)", first, re.IGNORECASE):  # a line of Excel's
            first = next(rows, "")
        usual = " " if len(first.split()) > 1 else ","
        separator = mark[1] if mark else next((char for char in "\t;,|" if char in first), usual)
        self._comma = separator != ","
        try:
            for row in csv.reader(chain([first], rows), delimiter=separator, skipinitialspace=True):
                yield [cell.strip() for cell in row]
        except csv.Error as failure:
            why = f"line {self._line}: {failure}"
            raise RecordingError(self._path, why, "give a CSV file with a header") from failure

    def _without_notes(self, lines: IO[str]) -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            self._line = number
            if line.strip() and not line.startswith("#"):
                yield line.strip(" \r\n")

    @cached_property
    def headers(self) -> list[str]:
        """The names of the columns; RecordingError if two are equal. Numbers if the file has no header."""
        headers = next(self._rows, [])
        for header, count in Counter(filter(None, headers)).items():
            if count > 1 and not all(map(_is_decimal, filter(None, headers))):
                why = f"line {self._line}: names the column {header!r} twice"
                raise RecordingError(self._path, why, "give each column a name of its own")
        return headers

    def columns(
        self, servos: Mapping[str, _Map], by: str = "", parts: Sequence[str] = (), walk: int | None = None
    ) -> tuple[dict[str, Columns], tuple[Event, ...]]:
        """Return the samples of each servo, and the segments' events.

        With `by`, the only map in `servos` applies to each name in that column. A row with new numbers in the columns
        `parts` starts a segment, and its clock continues that of the one before. `walk`: read only this `parts[0]`.
        """
        at = {header: place for place, header in enumerate(self.headers)}
        fields = [(servo, key, column) for servo, columns in servos.items() for key, column in columns.items()]
        for _, key, column in [*(("", part, Column(part)) for part in parts), *fields]:
            if column.header not in at:
                header, _, unit = column.header.rpartition(":")
                if header and header in at:
                    units = ", ".join(filter(None, (*UNIT_FACTORS, COUNTS)))
                    raise RecordingError(self._path, f"{unit!r} is no unit (of {key})", f"units: {units}, or a factor")
                why = f"has no column {column.header!r} (for {key})"
                raise RecordingError(self._path, why, f"its columns are {_named(self.headers)}")
        places = [at[column.header] for _, _, column in fields]
        samples: defaultdict[str, tuple[array[int], list[array[float]]]] = defaultdict(
            lambda: (array("q"), [array("d") for _ in fields])
        )
        events: list[Event] = []
        walks: dict[str, None] = {}
        offset, last, part = 0.0, 0.0, None
        for row in self._whole_rows():
            if parts:
                numbers = {header: row[at[header]] for header in parts}
                walks[number := numbers[parts[0]]] = None
                if walk is not None and number != str(walk):
                    continue
                if numbers != part:
                    part, offset = numbers, last + _BETWEEN if events else 0.0
                    name = " ".join(f"{header} {number}" for header, number in numbers.items())
                    events.append(Event(offset, "segment", {"name": name, **numbers}))
            if by and not row[at[by]]:
                why = f"line {self._line}: {by} is blank"
                raise RecordingError(self._path, why, "write the servo's name there, or remove that line")
            lines, arrays = samples[printable(row[at[by]]) if by else ""]
            lines.append(self._line)
            for (_, key, column), place, values in zip(fields, places, arrays, strict=True):
                value = self._number(row[place], column, blank=key != "time")
                if key == "time":
                    value = last = value + offset
                values.append(value)
        if walk is not None and not samples and walks:
            raise RecordingError(self._path, f"has no {parts[0]} {walk}", f"it has {', '.join(walks)}")
        if not samples:
            raise RecordingError(self._path, "holds no samples", _NO_ROWS)
        tracks: dict[str, Columns] = {}
        for name, (lines, arrays) in samples.items():
            for (servo, key, _), values in zip(fields, arrays, strict=True):
                track = tracks.setdefault(name if by else servo, Columns({}, _line_of(lines)))
                track.values[key] = np.frombuffer(values)
        return tracks, tuple(events)

    def _whole_rows(self) -> Iterator[list[str]]:
        """Yield the cells of each row, as many as headers; RecordingError for an invalid row."""
        count = len(self.headers)
        needed = max((place for place, header in enumerate(self.headers, 1) if header), default=0)
        for row in self._rows:
            if len(row) < needed:
                why = f"line {self._line}: has {len(row)} of {needed} cells"
                raise RecordingError(self._path, why, "correct or remove that line; the file may be cut off")
            if any(row[count:]):
                hint = "name every column, and write decimals with a point"
                raise RecordingError(self._path, f"line {self._line}: has more cells than the header", hint)
            yield row[:count] + [""] * (count - len(row))

    def _number(self, text: str, column: Column, *, blank: bool) -> float:
        """Return a cell in SI; NaN for an empty cell if `blank` allows it."""
        if not text and blank:
            return math.nan
        try:
            return (float(text.replace(",", ".") if self._comma else text) - column.zero) * column.factor
        except ValueError as failure:
            why = f"line {self._line}: {column.header} = {text!r} is no number"
            dated = re.search(r"\d:\d\d", text) is not None
            hint = "write dates and times of day as a number of s" if dated else "correct or remove that line"
            raise RecordingError(self._path, why, hint) from failure


def _line_of(lines: array[int]) -> Callable[[int], str]:
    return lambda index: f"line {lines[index]}"


def _is_decimal(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


_FULL_DUTY = 885.0  # PWM register value at which pendulum logs saturate
_PENDULUM = {
    "time": Column("timestamp"), "command": Column("goal_position"), "position": Column("position"),
    "velocity": Column("speed"), "load": Column("load", 1 / _FULL_DUTY), "voltage": Column("input_volts"),
    "temperature": Column("temp"), "torque_enabled": Column("torque_enable"),
}  # fmt: skip


class _PendulumSample(BaseModel):
    """A sample of a pendulum log: s, rad, rad/s, V, °C; the load is a signed word, logged as unsigned."""

    timestamp: FiniteFloat
    goal_position: FiniteFloat
    position: FiniteFloat
    speed: FiniteFloat
    input_volts: FiniteFloat
    temp: FiniteFloat
    torque_enable: FiniteFloat
    load: FiniteFloat


class _PendulumLog(BaseModel):
    """A pendulum log of BAM: kg, m, V, and the gain as a register."""

    mass: float = Field(gt=0, lt=1e6)
    length: float = Field(gt=0, lt=1e6)
    kp: int = Field(gt=0, lt=1_000_000)
    vin: float = Field(gt=0, lt=1e6)
    motor: Any = ""
    trajectory: Any = "log"
    entries: list[_PendulumSample] = Field(min_length=1)


def _pendulum_recording(path: Path, stream: IO[str], servo: str, warned: Warned) -> Recording:
    hint = "correct or remove that field or entry; BAM's pendulum logs are in SI units, kp is a register"
    log = validated(path, "is no pendulum log", _PendulumLog, json.load(stream), hint)
    values = {name: np.array([getattr(entry, c.header) for entry in log.entries]) for name, c in _PENDULUM.items()}
    values["load"] = np.where(values["load"] > 0x7FFF, values["load"] - 0x10000, values["load"]) / _FULL_DUTY
    values["commanded"] = values["time"] - _send_to_stamp(values["time"])
    return recording_of(
        path, {servo: Columns(values, "entries[{}]".format)}, str(log.trajectory), warned, _PENDULUM,
        pendulum=log.model_dump(include={"mass", "length", "kp", "vin"}),
        registers={servo: {"position_p_gain": log.kp}}, motor=str(log.motor),
    )  # fmt: skip


def _send_to_stamp(stamps: FloatArray) -> float:
    """Return the time from sending a goal to its stamp in a pendulum log, s; 0 if that is unknown.

    BAM's loop writes the goal, reads the servo, and stamps both with the middle of the read. The clock starts with the
    first loop, so the first stamp is that time, unless the log was cut or resampled evenly.
    """
    whole = len(stamps) > 1 and 0.0 < stamps[0] < stamps[1] - stamps[0]
    return float(stamps[0]) if whole else 0.0
