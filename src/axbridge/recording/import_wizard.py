"""Import graph exports of ROBOTIS' Dynamixel Wizard 2; errors in them are described by notes.

An export is text: ``DYNAMIXEL Graph,2``, the servo's name and model number, ``ItemCount``, a line for each item (name,
colour, numbers), a header, and rows of register values. Its clock has a resolution of 16 ms, within which a servo at
60 rpm turns by 5.8 degrees.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import RecordingError, UsageError
from axbridge.file_reading import printable
from axbridge.recording.imported import Columns, Warned, recording_of
from axbridge.recording.recording import Event, Recording
from axbridge.units import Calibration

GRID = 0.016  # s: resolution of the clock
POLL = 0.020  # s: period of the Wizard's polls
JITTER = 1.5e-3  # s: remaining error, measured on steady motions of seven recordings (0.5 to 1.6 ms)
SLACK = 0.002  # s: largest distance of a stamp from the grid: stamps are rounded to milliseconds twice
MOST = 0.9  # least share of stamps on the grid
_WIDTH = 0.7e-3  # s: standard deviation of the polls' period, with rounding to milliseconds
_SKIPS = _LATE = 0.05  # share of polls that are skipped, or late by any time
_LONG = 0.2  # s: largest delay of a late poll, about
_EVEN = -0.8  # mean log-likelihood of a step: seven recordings have -0.5 to -0.7, uneven polls below -0.9
_WITHIN = np.arange(0.5e-3, GRID, 1e-3)  # s: possible times of a sample within its step

FIRST = "DYNAMIXEL Graph"  # start of an export
_VERSION = "2"
_PROFILES = ("ax-12a", "ax-12w", "ax-18a", "mx-28")  # one of each model number and control table
_ALIASES = {"present_velocity": "present_speed", "present_input_voltage": "present_voltage"}
_REST_COUNTS = 4  # a servo that moves less is at rest
_STILL = 0.25  # s: least time of rest between two motions
_REACTION_TIME = 0.030  # s from a command to the motion: 17 to 50 ms on real AX-12s
_START_ERROR = 0.030  # s: possible error of that, including the stamps' error
_DAMAGED, _CUT = "the file is damaged; export it again", "the file is cut off; export it again"


class GivenGoal(NamedTuple):
    """A goal of the servo that is not in the export."""

    counts: int | None = None  # Goal Position; None = the servo's final position
    time: float | None = None  # on the export's clock, s; None = shortly before the first motion


class _Export(NamedTuple):
    """Content of a file: register values (n, items) at `time` (n,), s, and notes on its errors."""

    path: Path
    profile: FirmwareProfile
    servo: str
    registers: tuple[str, ...]
    time: FloatArray
    values: FloatArray
    notes: tuple[str, ...]


def parse_goal(text: str) -> GivenGoal:
    """Parse ``500@1.86`` (counts, and s on the export's clock), ``500@1860ms``, ``500@auto``, ``500``, or ``auto``."""
    if text == "auto":
        return GivenGoal()
    match = re.fullmatch(r"(\d+)(?:@(?:auto|(\d+(?:\.\d*)?)(s|ms)?))?", text)
    if match is None:
        hint = "write COUNTS@SECONDS as in 500@1.86, COUNTS@auto to estimate the time, or auto"
        raise UsageError(f"{text!r} is no goal", hint)
    counts, number, unit = match.groups()
    return GivenGoal(int(counts), None if number is None else float(number) * (1e-3 if unit == "ms" else 1.0))


def wizard_recording(
    path: Path, text: str, servo: str, goal: GivenGoal | None = None, warned: Warned = lambda _finding: None
) -> Recording:
    """Return an export as a recording of one servo; 0 rad is the middle of its range, as a rig's default."""
    export = _read(path, text)
    columns, notes = _in_si(export)
    facts: dict[str, Any] = {}
    events: tuple[Event, ...] = ()
    notes = [*export.notes, *notes]
    if "command" in columns:
        if goal is not None:
            raise UsageError(f"{path} has the Goal Position", "leave --goal out")
    elif goal is not None:
        columns["command"], columns["commanded"], facts["goal"], events, goal_notes = _commands(export, goal, servo)
        notes += goal_notes
    else:
        hint = "give --goal COUNTS@SECONDS, COUNTS@auto or auto"
        notes.append(f"the goal was not exported, so nothing can be simulated: {hint}")
    if on_grid(export.time):
        poll = restored(export.time).poll
        facts["stamps"] = {"grid_s": GRID, "poll_s": None if math.isnan(poll) else poll}
        meaning = f" and are kept; fits restore the times of samples every {poll * 1e3:.0f} ms"
        meaning = ": each is up to that much too early" if math.isnan(poll) else meaning
        notes.append(f"the stamps lie on a {GRID * 1e3:.0f} ms grid{meaning}")
    samples = Columns({"time": export.time, **columns})
    return recording_of(
        path, {servo: samples}, "step" if events else "log", warned, events=events,
        servo_model=export.servo, profile=export.profile.name, notes=notes, **facts,
    )  # fmt: skip


def _read(path: Path, text: str) -> _Export:
    lines = [line.strip() for line in text.lstrip().splitlines()]
    version = lines[0].partition(",")[2].strip()
    if version != _VERSION:
        why = f"is a graph export of version {version or '?'}"
        raise RecordingError(path, why, f"version {_VERSION} is known: that of Wizard 2")
    name, _, number = _line(path, lines, 1, "the servo's name and model number").rpartition(",")
    if not name or not number.strip().isdigit():
        raise RecordingError(path, f"line 2: {lines[1]!r} is no servo", "it should say, for instance, AX-12A,12")
    profiles = {(candidate := FirmwareProfile.load(known)).model_number: candidate for known in _PROFILES}
    if int(number) not in profiles:
        known = ", ".join(f"{candidate.name} ({key})" for key, candidate in sorted(profiles.items()))
        why = f"is of a servo {name.strip()} of model number {number.strip()}, whose registers are not known"
        raise RecordingError(path, why, f"known: {known}")
    profile = profiles[int(number)]
    key, _, count = _line(path, lines, 2, "ItemCount").partition(",")
    if key != "ItemCount" or not count.strip().isdigit() or int(count) < 1:
        raise RecordingError(path, f"line 3: {lines[2]!r} is no ItemCount", _DAMAGED)
    items = [_item(path, k, _line(path, lines, k, "an item")) for k in range(3, 3 + int(count))]
    headers = [cell.strip() for cell in _line(path, lines, 3 + int(count), "the header").split(",")]
    if headers[0] != "Time[ms]" or headers[1:] != items or len(set(items)) < len(items):
        why = f"line {4 + int(count)}: the columns are {', '.join(headers)}; the items are {', '.join(items)}"
        raise RecordingError(path, printable(why), _DAMAGED)
    time, values, notes = _rows(path, lines[4 + int(count) :], 5 + int(count), items)
    registers = tuple(_ALIASES.get(item, item) for item in (item.lower().replace(" ", "_") for item in items))
    return _Export(path, profile, name.strip(), registers, time, values, notes)


def _line(path: Path, lines: Sequence[str], index: int, what: str) -> str:
    if index >= len(lines) or not lines[index]:
        raise RecordingError(path, f"line {index + 1}: {what} is missing", _CUT)
    return lines[index]


def _item(path: Path, index: int, line: str) -> str:
    """Return the item's name. After the colour are three numbers, 0, 1, 0 in all known exports: the 1 is the scale."""
    name, *rest = (cell.strip() for cell in line.split(","))
    try:
        _, _, scale, offset = rest[0], *(float(number) for number in rest[1:4])
    except (IndexError, ValueError) as failure:
        raise RecordingError(path, f"line {index + 1}: {line!r} is no item", _DAMAGED) from failure
    if scale != 1.0 or offset != 0.0:
        drawn = f"line {index + 1}: {name} was drawn with scale {scale:g} and offset {offset:g}"
        why = f"{drawn}, and the file does not say whether the numbers include that"
        raise RecordingError(path, why, "set scale 1 and offset 0 in the Wizard's graph and export it again")
    return name


def _rows(
    path: Path, lines: Sequence[str], first: int, items: Sequence[str]
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return times (n,), s, and values (n, items) of the valid rows in order, and notes on the others."""
    good = {k: row for k, line in enumerate(lines) if (row := _numbers(line, len(items) + 1)) is not None}
    numbers = list(good)
    rising = [numbers[k] for k in _rising([row[0] for row in good.values()])]
    if len(rising) < 2:
        raise RecordingError(path, "holds no samples", "the file is cut off or damaged; export it again")
    others = set(range(len(lines))).difference(rising)
    dropped = [f"line {first + k}: {lines[k]!r}" for k in sorted(others) if lines[k]]
    if len(dropped) > len(rising):
        raise RecordingError(path, f"has {len(dropped)} garbled rows and {len(rising)} good ones", _DAMAGED)
    table = np.array([good[k] for k in rising])
    noun, more = "row" if len(dropped) == 1 else "rows", ", ..." if len(dropped) > 5 else ""
    notes = [f"dropped {len(dropped)} garbled {noun}: {', '.join(dropped[:5])}{more}"] if dropped else []
    return table[:, 0] * 1e-3, table[:, 1:], tuple(notes)


def _numbers(line: str, count: int) -> list[float] | None:
    """Return a row's numbers; an empty cell is NaN. None for an invalid row: missing cells, no time, no number."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != count or not cells[0] or not any(cells[1:]):
        return None
    try:
        row = [float(cell) if cell else math.nan for cell in cells]
    except ValueError:
        return None
    return row if all(math.isfinite(v) for v, cell in zip(row, cells, strict=True) if cell) and row[0] >= 0 else None


_Chain = tuple[int, "_Chain | None"]  # an index, and those before it


def _rising(stamps: Sequence[float]) -> list[int]:
    """Return the longest rising subsequence (indices): a stamp with a wrong digit must not exclude all later ones."""
    last: list[float] = []  # for each length, the last stamp of the best subsequence ...
    chains: list[_Chain] = []  # ... and its indices
    for k, stamp in enumerate(stamps):
        place = bisect_left(last, stamp)
        if last[place : place + 1] != [stamp]:  # of two equal stamps the first is kept
            chain: _Chain = (k, chains[place - 1] if place else None)
            last[place : place + 1], chains[place : place + 1] = [stamp], [chain]
    run, rest = [], chains[-1] if chains else None
    while rest is not None:
        index, rest = rest
        run.append(index)
    return run[::-1]


def _in_si(export: _Export) -> tuple[dict[str, FloatArray], list[str]]:
    """Return the columns of a track in SI units, and notes on registers that are left out."""
    units = export.profile.units
    scale = Calibration(units, units.middle, 1)
    meaning = {
        "present_position": ("position", scale.angle),
        "goal_position": ("command", scale.angle),
        "present_speed": ("velocity", lambda raw: scale.speed(int(raw)) if raw >= 0 else raw * units.speed),
        "present_load": ("load", lambda raw: scale.load(int(raw)) if raw >= 0 else raw / units.full_scale),
        "present_voltage": ("voltage", lambda raw: raw * units.voltage),
        "present_temperature": ("temperature", float),
        "torque_enable": ("torque_enabled", float),
        "moving_speed": ("speed_limit", lambda raw: raw * units.speed),
        "torque_limit": ("torque_limit", lambda raw: raw / units.full_scale),
    }
    if "present_position" not in export.registers:
        why = f"has no Present Position, only {', '.join(export.registers)}"
        raise RecordingError(export.path, why, "add it to the Wizard's graph")
    values, others = {}, []
    for register, raw in zip(export.registers, export.values.T, strict=True):
        if register in meaning:
            column, value_of = meaning[register]
            values[column] = np.array([math.nan if math.isnan(value) else value_of(value) for value in raw])
        else:
            others.append(register.replace("_", " "))
    return values, [f"left out, as a recording has no place for it: {', '.join(others)}"] if others else []


def _commands(
    export: _Export, goal: GivenGoal, servo: str
) -> tuple[FloatArray, FloatArray, dict[str, Any], tuple[Event, ...], list[str]]:
    """Return commands (n,), rad, send times (n,), s, facts, events and notes for a servo that moved to one goal."""
    position = export.values[:, export.registers.index("present_position")]
    known = np.flatnonzero(~np.isnan(position))
    time, position = export.time[known], position[known]
    units, top = export.profile.units, export.profile.units.counts
    scale = Calibration(units, (top + 1) // 2, 1)
    counts, when = goal
    if counts is not None and counts > top:
        raise UsageError(f"{counts} is beyond the range of an {export.profile.name}", f"goals go up to {top}")
    notes = []
    if counts is None:
        if np.ptp(position[-5:]) > _REST_COUNTS:
            raise UsageError("the export ends while the servo moves, so its final position is not known", _GIVE_GOAL)
        counts = round(float(np.median(position[-5:])))
        notes.append(f"the goal is estimated as {counts} counts, where it came to rest: it may be off by a few counts")
    moves = _moves(time, position)
    if when is None:
        if len(moves) != 1:
            why = f"the export has {len(moves)} motions, so the time of the goal cannot be estimated"
            raise UsageError(why, _GIVE_GOAL)
        when = moves[0] - _REACTION_TIME
        estimate = f"{when:.3f} s, {_REACTION_TIME * 1e3:.0f} ms before the first motion"
        notes.append(f"the goal's time is estimated as {estimate}, ±{_START_ERROR * 1e3:.0f} ms")
    elif not time[0] <= when <= time[-1]:
        raise UsageError(f"{when:g} s is not in the export", f"it goes from {time[0]:g} to {time[-1]:g} s")
    before = round(float(np.median(position[time <= max(when, time[0])][-9:])))
    ends = {"start": scale.angle(before), "target": scale.angle(counts)}
    command = np.where(export.time >= when, ends["target"], ends["start"])
    facts = {
        "counts": counts, "time_s": when,
        "counts_estimated": goal.counts is None, "time_estimated": goal.time is None,
    }  # fmt: skip
    segment = {"name": "step", "kind": "step", "servo": servo, **ends}
    sent = np.where(export.time >= when, when, np.nan)
    return command, sent, facts, (Event(when, "segment", segment),), notes


_GIVE_GOAL = "give the goal and its time: --goal COUNTS@SECONDS"


def _moves(time: FloatArray, position: FloatArray) -> list[float]:
    """Return the start of each motion, s: the middle between the last sample at rest and the next one."""
    times = []
    rest, since, moving = position[0], time[0], False
    for k in range(1, len(time)):
        if abs(position[k] - rest) > _REST_COUNTS:
            if not moving:
                times.append(float(time[k - 1] + time[k]) / 2)
            moving, rest, since = True, position[k], time[k]
        elif moving and time[k] - since >= _STILL:
            moving, rest = False, position[k]
    return times


class Stamps(NamedTuple):
    """Restored time stamps of a recording."""

    time: FloatArray  # times of the samples, s, (n,); strictly increasing
    poll: float  # their period, s; NaN = uneven, then `time` is the middle of each stamp's step
    spread: float  # standard deviation of the remaining error of `time`, s


def on_grid(time: FloatArray) -> bool:
    """Return whether stamps (n,), s, are on a grid of `GRID`."""
    return len(time) >= 10 and bool(np.mean(np.abs(time - GRID * np.round(time / GRID)) <= SLACK) >= MOST)


def restored(time: FloatArray) -> Stamps:
    """Return the times of samples from their stamps on the grid, (n,), s, strictly increasing.

    The polls are even except for occasional late or skipped ones, and each is within its stamp's step. A hidden Markov
    model, with states 1 ms apart within each step, is run forwards and backwards. Its mean is the time of a sample,
    except for a few milliseconds common to all samples.
    """
    steps = GRID * np.round(time / GRID)
    chains = [_chain(gap) for gap in np.diff(steps)]
    ahead, evidence = [np.full(len(_WITHIN), 1 / len(_WITHIN))], 0.0
    for chain in chains:
        forward = ahead[-1] @ chain
        evidence += math.log(forward.sum())
        ahead.append(forward / forward.sum())
    if evidence < _EVEN * max(1, len(chains)):
        return Stamps(_ascending(steps + GRID / 2), math.nan, GRID / math.sqrt(12.0))
    behind, within = np.ones(len(_WITHIN)), np.empty(len(time))
    for k in range(len(time) - 1, -1, -1):
        share = ahead[k] * behind
        within[k] = share @ _WITHIN / share.sum()
        if k:
            behind = chains[k - 1] @ behind
            behind /= behind.sum()
    return Stamps(_ascending(steps + within), POLL, JITTER)


def _chain(gap: float) -> FloatArray:
    """Return the likelihood of each state after each state of the step `gap` seconds before, (n, n)."""
    apart = gap + _WITHIN[None] - _WITHIN[:, None]
    errors = ((apart - polls * POLL) / _WIDTH for polls in (1, 2))
    even, skipped = (np.exp(-0.5 * e**2) / (_WIDTH * math.sqrt(2 * math.pi)) for e in errors)
    late = np.where(apart > POLL / 4, 1 / _LONG, 1e-9)
    density: FloatArray = ((1 - _SKIPS - _LATE) * even + _SKIPS * skipped + _LATE * late) * (_WITHIN[1] - _WITHIN[0])
    return density


def _ascending(time: FloatArray) -> FloatArray:
    """Return the times with differences of at least a millisecond."""
    apart = 1e-3 * np.arange(len(time))
    rising: FloatArray = np.maximum.accumulate(time - apart) + apart
    return rising
