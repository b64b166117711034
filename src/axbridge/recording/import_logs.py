"""Logs of other programs into recordings: BAM's JSON, Poppy's CSV, Dynamixel Wizard's graphs, any CSV with a map."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import RecordingError, UsageError
from axbridge.file_reading import printable, reading, regular
from axbridge.recording.import_wizard import FIRST, GivenGoal, wizard_recording
from axbridge.recording.imported import Columns, Warned, recording_of
from axbridge.recording.recording import SERVO_FIELDS, Event, Recording
from axbridge.recording.tables import HEADERS
from axbridge.units import RPM

UNIT_FACTORS = {
    "": 1.0,
    "rad": 1.0,
    "deg": math.pi / 180,
    "rad/s": 1.0,
    "deg/s": math.pi / 180,
    "rpm": RPM,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "%": 0.01,
    "V": 1.0,
    "mV": 1e-3,
}
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
_LINE = "(line)"  # where each row's line number in the file is kept
_LARGEST = 1e6  # kg, m, V: no pendulum has more
_XL330_FULL_DUTY = 885.0  # raw PWM register at which these logs saturate


class Column(NamedTuple):
    """Where a value stands in a CSV file, and how it becomes SI: `zero` is taken off, then `factor` multiplies it."""

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
    """Read a log of a known kind; which kind is read off the file."""
    path = Path(path)
    with reading(partial(RecordingError, path), "give a JSON or CSV log"):
        text = regular(path).read_text(encoding="utf-8-sig")
        if columns is None and text.lstrip().startswith(FIRST):
            return wizard_recording(path, text, servo, goal, warned)
        if goal is not None:
            raise UsageError(f"{path} is no graph export of Dynamixel Wizard", "leave --goal out")
        if columns is None and text.lstrip()[:1] in {"{", "["}:
            return _pendulum_json(path, text, servo, warned)
        rows = _csv_rows(path, text)
        headers = [header for header in rows[0] if header != _LINE]
        if columns is not None:
            named = _by_servo(path, headers, columns, servo)
            mapped = {name: _mapped(path, rows, headers, its) for name, its in named.items()}
            return recording_of(path, mapped, "log", warned, column_map=_map(columns))
        if {"joint", "position_deg"} <= set(headers):
            return _poppy(path, rows, headers, walk, warned)
        if {"servo", "time_s"} <= set(headers):
            known = {name: Column(header, 1.0) for name, header in HEADERS.items() if header in headers}
            groups: dict[str, list[dict[str, str]]] = {}
            for row in rows:
                groups.setdefault(printable(row["servo"]), []).append(row)
            tracks = {name: _mapped(path, group, headers, known) for name, group in groups.items()}
            return recording_of(path, tracks, "log", warned, column_map=_map(known))
    hint = "say what they are: --column time=HEADER:ms --column position=HEADER:deg --column command=HEADER:deg; "
    hint += "* in a header is the name of each servo: position=*_pos:deg"
    raise RecordingError(path, f"is of no known kind; its columns are {', '.join(headers)}", hint)


def parse_columns(items: Sequence[str], unit: str | None = None, profile: str = "ax-12a") -> dict[str, Column] | None:
    """``FIELD=HEADER[:UNIT]`` items into a column map; None when there are none."""
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
        if not colon or (of != COUNTS and _factor(of) is None):  # a header may have a colon of its own
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
    """The columns of each servo: ``*`` in a header is the servo's name."""
    pattern = columns["position"].header
    before, star, after = pattern.partition("*")
    if not star or pattern in headers:
        return {servo: columns}
    names = [
        header[len(before) : len(header) - len(after)]
        for header in headers
        if header.startswith(before) and header.endswith(after) and len(header) > len(before) + len(after)
    ]
    if not names:
        raise RecordingError(path, f"has no column like {pattern}", f"its columns are {', '.join(headers)}")
    return {
        name: {field: one._replace(header=one.header.replace("*", name)) for field, one in columns.items()}
        for name in names
    }


def _factor(text: str) -> float | None:
    """What a unit, or a number, multiplies by; None where it is neither."""
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
    for key in ("mass", "length", "kp", "vin"):
        if not _is_number(log.get(key)):
            raise RecordingError(path, f"field {key!r} is missing or no number", "a pendulum log needs it")
        if not 0 < log[key] < _LARGEST or (key == "kp" and log[key] != int(log[key])):
            raise RecordingError(path, f"field {key!r} is {log[key]:g}", "correct it: kp is a register, the others SI")
    entries = log["entries"]
    if not isinstance(entries, list) or not entries:
        raise RecordingError(path, "field 'entries' holds no samples", "the log is empty; record it again")
    values = {name: _json_column(path, entries, key) for name, key in _XL330.items()}
    raw = _json_column(path, entries, "load")
    values["load"] = np.where(raw > 0x7FFF, raw - 0x10000, raw) / _XL330_FULL_DUTY  # a signed word, logged unsigned
    values["commanded"] = values["time"] - _earlier(values["time"])
    samples = Columns(values, [f"entries[{index}]" for index in range(len(entries))])
    facts = {key: log[key] for key in ("mass", "length", "kp", "vin")}
    return recording_of(
        path,
        {servo: samples},
        str(log.get("trajectory", "log")),
        warned,
        pendulum=facts,
        registers={servo: {"position_p_gain": int(log["kp"])}},
        motor=str(log.get("motor", "")),
        column_map={
            **_map({name: Column(key, 1.0) for name, key in _XL330.items()}),
            "load": Column("load", 1 / _XL330_FULL_DUTY)._asdict(),
        },
    )


def _earlier(stamps: FloatArray) -> float:
    """How long before each stamp of a pendulum log its goal went out, s; 0 where the log does not tell.

    BAM's loop writes the goal, reads the servo, and stamps both with the middle of the reading. The clock starts with
    the first turn, so the first stamp is that time, unless the log was cut or put on an even grid.
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


def _csv_rows(path: Path, text: str) -> list[dict[str, str]]:
    reader = csv.DictReader(text.splitlines(), restkey="(extra)", restval="")
    try:
        rows: list[dict[str, str]] = [{**row, _LINE: str(reader.line_num)} for row in reader]
    except csv.Error as failure:
        raise RecordingError(path, f"line {reader.line_num}: {failure}", "give a CSV file with a header") from failure
    if not rows:
        raise RecordingError(path, "holds no samples", "give a CSV file with a header and at least one line")
    return rows


def _numbers(path: Path, rows: Sequence[Mapping[str, str]], column: Column, *, blank: bool = True) -> FloatArray:
    values = np.full(len(rows), np.nan)
    for index, row in enumerate(rows):
        text = row.get(column.header) or ""
        if not text.strip() and blank:
            continue
        try:
            values[index] = (float(text) - column.zero) * column.factor
        except ValueError as failure:
            why = f"line {row[_LINE]}: {column.header} = {text!r} is no number"
            raise RecordingError(path, why, "correct or remove that line") from failure
    return values


def _mapped(
    path: Path, rows: Sequence[Mapping[str, str]], headers: Sequence[str], columns: Mapping[str, Column]
) -> Columns:
    for name, column in columns.items():
        if column.header not in headers:
            why = f"has no column {column.header!r} (for {name})"
            raise RecordingError(path, why, f"its columns are {', '.join(headers)}")
    if wrong := next((row for row in rows if any(map(str.strip, row.get("(extra)", ())))), None):
        hint = "name every column, and write decimals with a point"
        raise RecordingError(path, f"line {wrong[_LINE]}: has more cells than the header", hint)
    values = {name: _numbers(path, rows, column, blank=name != "time") for name, column in columns.items()}
    return Columns(values, [f"line {row[_LINE]}" for row in rows])


def _poppy(path: Path, rows: list[dict[str, str]], headers: list[str], walk: int | None, warned: Warned) -> Recording:
    """Walks are made of segments whose clocks start at 0; they are put one after the other, and named by events."""
    columns = {name: Column(header, UNIT_FACTORS[unit]) for name, (header, unit) in _POPPY.items()}
    for needed in ("walk", "segment", *(column.header for column in columns.values())):
        if needed not in headers:
            raise RecordingError(path, f"has no column {needed!r}", "a Poppy walking log needs it")
    found = sorted({row["walk"] for row in rows}, key=lambda name: (len(name), name))
    if walk is not None and str(walk) not in found:
        raise RecordingError(path, f"has no walk {walk}", f"it has {', '.join(found)}")
    events: list[Event] = []
    groups: dict[str, list[dict[str, str]]] = {}
    offset, last, part = 0.0, 0.0, ("", "")
    for row in rows:
        if walk is not None and row["walk"] != str(walk):
            continue
        time = float(_numbers(path, [row], columns["time"], blank=False)[0])
        if (row["walk"], row["segment"]) != part:
            part = (row["walk"], row["segment"])
            offset = last + (0.1 if events else 0.0)
            name = f"walk {part[0]} segment {part[1]}"
            events.append(Event(offset, "segment", {"name": name, "walk": part[0], "segment": part[1]}))
        last = offset + time
        groups.setdefault(printable(row["joint"]), []).append({**row, "t_s": repr(last)})
    tracks = {joint: _mapped(path, group, headers, columns) for joint, group in groups.items()}
    return recording_of(path, tracks, "walk", warned, events=tuple(events), column_map=_map(columns))


def _map(columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """A column map as metadata: where each field stood, and its factor to SI."""
    return {name: column._asdict() for name, column in columns.items()}
