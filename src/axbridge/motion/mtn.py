"""RoboPlus Motion files (`.mtn`, CM-510 and CM-530): small format errors give a warning, and are written correctly.

A file has 255 pages of at most seven steps, with values by servo id, 0 to 25 (id 0 is unused). Numbers keep their
digits, so that a correct file is written with the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import MoveError, UsageError, plural
from axbridge.file_reading import printable, reading, regular
from axbridge.files import write_whole
from axbridge.motion.moves import LONGEST, Key, Move, Page, tracks
from axbridge.units import Calibration

IDS = 26
PAGES = 255
STEPS = 7
_BOM = b"\xef\xbb\xbf"
_END = b"page_end"
_SMALLEST = Decimal("0.000001")  # time or speed except 0
_WHOLE = {"enable": 1, "motor_type": 255, "compliance": 7}  # highest number of these lines
_CENTRE, _MAX_COUNT = 512, 1023
_CYCLE = 0.008  # s: control period of RoboPlus controllers
_TOLERANCE = 1.0  # counts: largest change when a move of many samples is written with fewer steps
_FIRST_TIME = 1.0  # s to the first pose, if the move gives no time
_LEVEL = 5  # default compliance level


class MtnStep(NamedTuple):
    """One pose: counts by id, (26,), 0..1023; the pause after the motion, and its time, s, divided by the speed."""

    positions: tuple[int, ...]
    pause: Decimal
    play: Decimal


@dataclass(frozen=True)
class MtnPage:
    """One page; the defaults are an empty page. Page 0 means no page. `in_sevens` splits pages with too many steps."""

    name: str = ""
    compliance: tuple[int, ...] = (_LEVEL,) * IDS  # level n by id: compliance slope 2^n
    next: int = 0
    exit: int = 0  # the page that is played after a stop request
    repeat: int = 1
    speed: Decimal = Decimal("1.0")
    inertia: int = 32  # 1/128 s
    steps: tuple[MtnStep, ...] = ()


@dataclass(frozen=True)
class MtnFile:
    """The content of a file."""

    version: str = "1.01"  # or 1.00
    enable: tuple[int, ...] = (0,) * IDS  # by id: 1 if the robot has that servo
    motor_type: tuple[int, ...] | None = (0,) * IDS  # from version 1.01 on
    pages: tuple[MtnPage, ...] = (MtnPage(),) * PAGES
    warnings: tuple[str, ...] = field(default=(), compare=False)  # format errors that were tolerated

    def data(self, path: str | Path = "motion") -> bytes:
        """Return the bytes of the file; raise MoveError, which names `path`, for an invalid page."""
        lines = ["type=motion", f"version={self.version}", f"enable={_spaced(self.enable)}"]
        if self.motor_type is not None:
            lines.append(f"motor_type={_spaced(self.motor_type)}")
        for number, page in enumerate(self.pages, 1):
            reason, play = None, f"{page.next} {page.exit} {page.repeat} {page.speed}"
            if len(page.steps) > STEPS:
                reason = f"{len(page.steps)} steps, and {STEPS} are the most"
            elif "\n" in page.name or "\r" in page.name:
                reason = f"name {page.name!r} has more than one line"
            elif not (
                0 <= page.next <= PAGES and 0 <= page.exit <= PAGES and 1 <= page.repeat <= 255 and page.speed > 0
            ):
                reason = f"play_param {play} is out of range"
            if reason:
                raise MoveError(path, f"page {number}", reason, "correct that page")
            lines += ["page_begin", f"name={page.name}", f"compliance={_spaced(page.compliance)}"]
            lines.append(f"play_param={play} {page.inertia}")
            lines += [f"step={_spaced(step.positions)} {step.pause} {step.play}" for step in page.steps]
            lines.append("page_end")
        body = _BOM + "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        return body + checksum(body)


def checksum(body: bytes) -> bytes:
    """Return the inverted sum of all bytes up to the last ``page_end`` and its line end, high byte first."""
    return (~sum(body) & 0xFFFF).to_bytes(2, "big")


def parse_mtn(data: bytes, path: str | Path = "motion") -> MtnFile:
    """Parse the bytes of a file; common format errors become warnings, others raise MoveError."""
    end = data.rfind(_END)
    if b"type=motion" not in data[:64] or end < 0:
        raise MoveError(path, "", "is no RoboPlus motion", "its first line must be `type=motion`, and it needs pages")
    line_end = data.find(b"\n", end)
    cut = len(data) if line_end < 0 else line_end + 1
    body, rest = data[:cut], data[cut:]
    warnings: list[str] = []
    if not body.startswith(_BOM):
        warnings.append("no byte order mark at its start")
    if b"\r" in body:
        warnings.append("Windows' line ends")
    if line_end < 0:
        warnings.append("no line end and no checksum behind its last page")
    elif rest != checksum(body):
        warnings.append("no checksum" if not rest.strip() else "a wrong checksum, or something behind it")
    text = body.removeprefix(_BOM).decode("utf-8", "surrogateescape")
    return _Reader(path, warnings).file([line.rstrip("\r") for line in text.removesuffix("\n").split("\n")])


def load_mtn(path: str | Path) -> MtnFile:
    """Read a file; raise MoveError if it is invalid."""
    with reading(partial(MoveError, path, ""), "give a RoboPlus .mtn file"):
        return parse_mtn(regular(path).read_bytes(), path)


def save_mtn(file: MtnFile, path: str | Path) -> None:
    """Write a file completely or not at all."""
    write_whole(path, file.data(path))


def in_sevens(file: MtnFile) -> tuple[MtnFile, list[str]]:
    """Split pages of more than seven steps over free pages; return the new file and notes.

    The rounds of a repeated page are written one after the other, because only a single page can repeat. The parts of a
    round are linked by NEXT and by EXIT: after a stop request the round is completed, as before, then the page's own
    exit is played.
    """
    pages, notes = list(file.pages), []
    linked = {number for page in pages for number in (page.next, page.exit)}
    free = [n for n, page in enumerate(pages, 1) if not page.steps and not page.name and n not in linked]
    for number, page in enumerate(file.pages, 1):
        parts = [page.steps[first : first + STEPS] for first in range(0, len(page.steps), STEPS)]
        if len(parts) < 2:
            continue
        chain = [number, *free[: page.repeat * len(parts) - 1]]
        free = free[len(chain) - 1 :]
        if len(chain) < page.repeat * len(parts):
            rounds = f", {page.repeat} times" if page.repeat > 1 else ""
            why = f"page {number} has {len(page.steps)} steps{rounds}: too many for the free pages of {STEPS}"
            raise UsageError(why, "cut the move in parts")
        for place, (own, after) in enumerate(zip(chain, [*chain[1:], page.next], strict=True)):
            whole = (place + 1) % len(parts) == 0
            pages[own - 1] = replace(
                page,
                name="" if place else page.name,
                next=after,
                exit=page.exit if whole else after,
                repeat=1,
                steps=parts[place % len(parts)],
            )
        where = ", ".join(map(str, chain[1:]))
        notes.append(f"page {number} has {len(page.steps)} steps, and {STEPS} are the most: it continues on {where}")
    return replace(file, pages=tuple(pages)), notes


class _Reader:
    """Parses a file line by line."""

    def __init__(self, path: str | Path, warnings: list[str]) -> None:
        self._path, self._warnings = path, warnings
        self._line = 0
        self._commas = False  # whether numbers have decimal commas, as from a German or Spanish Windows

    def file(self, lines: Sequence[str]) -> MtnFile:
        """Return the content of the file, with empty pages up to 255."""
        head: dict[str, Any] = {"version": "1.00", "enable": (1,) * IDS, "motor_type": None}
        pages: list[dict[str, Any]] = []
        page: dict[str, Any] | None = None  # the present page
        for self._line, line in enumerate(lines, 1):
            key, _, value = line.partition("=")
            if line == "page_begin":
                if page is not None:
                    self._warnings.append(f"line {self._line}: page_begin within a page")
                page = {"steps": []}
                pages.append(page)
            elif line == "page_end":
                if page is None:
                    raise self._wrong("page_end without a page", "correct that line")
                page = None
            elif not line.strip():
                self._warnings.append(f"line {self._line} is empty")
            elif page is not None:
                self._read_in_page(page, key, value)
            elif key == "version":
                head[key] = value.strip().replace(",", ".")
                if head[key] != value:
                    self._warnings.append(f"version {value!r} is written {head[key]}")
                if head[key] not in {"1.00", "1.01"}:
                    raise self._wrong(f"version {value!r} is not known", "versions 1.00 and 1.01 can be read")
            elif key in {"enable", "motor_type"}:
                head[key] = self._whole(value.split(), IDS, 0, _WHOLE[key])
            elif key != "type":
                raise self._wrong(f"{key!r} is not known here", "correct that line")
        if page is not None:
            self._warnings.append(f"line {self._line}: page_end is missing")
        if len(pages) > PAGES:
            raise MoveError(self._path, "", f"has {len(pages)} pages", f"{PAGES} are the most")
        if len(pages) < PAGES:
            self._warnings.append(f"{plural(len(pages), 'page')}, not {PAGES}")
        if self._commas:
            self._warnings.append("decimal commas: 1,5 is read as 1.5")
        if head["version"] == "1.01" and head["motor_type"] is None:
            self._warnings.append("no line motor_type")
            head["motor_type"] = (0,) * IDS
        read = (MtnPage(**{**facts, "steps": tuple(facts["steps"])}) for facts in pages)
        complete = (*read, *(MtnPage(),) * (PAGES - len(pages)))
        return MtnFile(**head, pages=complete, warnings=tuple(self._warnings))

    def _read_in_page(self, page: dict[str, Any], key: str, value: str) -> None:
        parts = value.split()
        if key == "name":
            page[key] = value
        elif key == "compliance":
            page[key] = self._whole(parts, IDS, 0, _WHOLE[key])
        elif key == "play_param":
            if len(parts) != 5:
                raise self._wrong(f"play_param has {plural(len(parts), 'value')}", "use NEXT EXIT REPEAT SPEED INERTIA")
            page["next"], page["exit"] = self._whole(parts[:2], 2, 0, PAGES)
            (page["repeat"],) = self._whole(parts[2:3], 1, 1, 255)
            (page["inertia"],) = self._whole(parts[4:], 1, 0, 255)
            page["speed"] = self._decimal(parts[3], above=0)
        elif key == "step":
            if len(parts) != IDS + 2:
                raise self._wrong(f"a step has {plural(len(parts), 'value')}", f"write {IDS} positions, PAUSE and PLAY")
            positions = self._whole(parts[:IDS], IDS, 0, _MAX_COUNT)
            page["steps"].append(MtnStep(positions, self._decimal(parts[-2]), self._decimal(parts[-1])))
        else:
            raise self._wrong(f"{key!r} is not known in a page", "correct that line")

    def _whole(self, parts: Sequence[str], count: int, low: int, high: int) -> tuple[int, ...]:
        try:
            values = tuple(int(plain(part)) for part in parts)
        except ValueError as mistake:
            raise self._wrong(str(mistake), "write whole numbers") from mistake
        if len(values) != count:
            raise self._wrong(f"{plural(len(values), 'value')}, not {count}", "correct that line")
        if beyond := [value for value in values if not low <= value <= high]:
            raise self._wrong(f"{beyond[0]} is outside {low}..{high}", "correct that line")
        return values

    def _decimal(self, text: str, above: float = -1.0) -> Decimal:
        self._commas = self._commas or "," in text
        try:
            value = Decimal(plain(text).replace(",", "."))
        except (InvalidOperation, ValueError) as mistake:
            raise self._wrong(f"{text!r} is no number", "write seconds as 0.504") from mistake
        if not value.is_finite() or value < 0 or value <= above:
            raise self._wrong(f"{text} is no time or speed", "times are 0 or more, speeds more than 0")
        if value and not _SMALLEST <= value <= LONGEST:  # 1E+999999999 is a valid Decimal
            raise self._wrong(f"{text} is no time or speed", f"write {_SMALLEST} to {LONGEST:g}")
        return value

    def _wrong(self, message: str, hint: str) -> MoveError:
        return MoveError(self._path, f"line {self._line}", message, hint)


def plain(number: str) -> str:
    """Return the text of a number; raise ValueError for `1_0`, which only Python reads as 10."""
    if "_" in number:
        raise ValueError(f"{printable(number)!r} is no number")
    return number


def _spaced(values: tuple[int, ...]) -> str:
    return " ".join(map(str, values))


JointTable = Mapping[str, tuple[int, Calibration]]  # by joint: id and calibration of its servo


def joints_of(rig: Rig) -> JointTable:
    """Return the servos of a rig that have an id; raise UsageError if two have the same."""
    joints = {servo.name: (servo.id, rig.specs[servo.name].calibration) for servo in rig.servos if servo.id is not None}
    names: dict[int, str] = {}
    for name, (id_, _) in joints.items():
        if (other := names.setdefault(id_, name)) != name:
            why = f"{other} and {name} of rig {rig.name} have the same id {id_}"
            raise UsageError(why, "a RoboPlus file has one bus: give a rig with the servos of one")
    return joints


def move_of(file: MtnFile, joints: JointTable) -> tuple[Move, list[str]]:
    """Return the pages of a file as a move that starts with its first page, and notes on what was left out.

    Empty pages and ids without a joint are left out. Raises UsageError if no servo or no step remains.
    """
    known = {id_: name for name, (id_, _) in joints.items() if id_ < IDS and file.enable[id_]}
    jointless = (id_ for id_ in range(1, IDS) if file.enable[id_] and id_ not in known)
    notes = [f"id {id_} is on in the file and has no joint: left out" for id_ in jointless]
    if not known:
        raise UsageError("no servo of the file has a joint", "give the robot's rig")
    used = {number for number, page in enumerate(file.pages, 1) if page != MtnPage()}
    used |= {number for page in file.pages for number in (page.next, page.exit) if number}
    pages = {str(number): _page_of(file.pages[number - 1], known, joints) for number in sorted(used)}
    start = next((number for number, page in pages.items() if page.keys), None)
    if start is None:
        raise UsageError("no page of the file has steps", "give a page set with poses")
    return Move(start=start, pages=pages), notes


def _page_of(page: MtnPage, known: dict[int, str], joints: JointTable) -> Page:
    poses = [{name: joints[name][1].angle(step.positions[id_]) for id_, name in known.items()} for step in page.steps]
    return Page(
        name=printable(page.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")),
        interpolation="ramps",
        rate=float(page.speed),
        repeat=page.repeat,
        next=str(page.next) if page.next else None,
        exit=str(page.exit) if page.exit else None,
        slope={name: 2 ** page.compliance[id_] for id_, name in known.items()},
        inertia=page.inertia,
        keys=tuple(
            Key(positions=pose, time=float(step.play), pause=float(step.pause))
            for pose, step in zip(poses, page.steps, strict=True)
        ),
    )


def mtn_of(move: Move, joints: JointTable) -> tuple[MtnFile, list[str]]:
    """Return a move as a file of version 1.01, and notes on what such a file cannot store.

    A page of more than seven keys is split over free pages (`in_sevens`). A page of dense samples (``linear``) is first
    reduced to the fewest keys that keep it within one count. Raises UsageError for a move that does not fit.
    """
    ids = {joint: joints[joint][0] if joint in joints else 0 for joint in move.joints}
    for joint, id_ in ids.items():
        if not 1 <= id_ < IDS:
            raise UsageError(f"joint {joint!r} has no id from 1 to {IDS - 1}", "give the robot's rig")
    numbers = _numbers(move)
    pages = [MtnPage()] * PAGES
    notes: list[str] = []
    for name, page in move.pages.items():
        page_notes, steps = _steps(name, page, move.joints, joints)
        notes += page_notes
        compliance = [_LEVEL] * IDS
        for joint in page.slope.keys() & ids.keys():
            compliance[ids[joint]] = min(page.slope[joint].bit_length() - 1, 7)
        pages[numbers[name] - 1] = MtnPage(
            name=page.name,
            compliance=tuple(compliance),
            next=0 if page.next is None else numbers[page.next],
            exit=0 if page.exit is None else numbers[page.exit],
            repeat=page.repeat,
            speed=_decimal(page.rate),
            inertia=page.inertia,
            steps=tuple(steps),
        )
    enable = tuple(int(id_ in ids.values()) for id_ in range(IDS))
    file, split_notes = in_sevens(MtnFile(enable=enable, pages=tuple(pages)))
    return file, [*notes, *split_notes]


def _numbers(move: Move) -> dict[str, int]:
    """Return a page number for each page: its name if that is a page number, else a free one."""
    if len(move.pages) > PAGES:
        raise UsageError(f"{len(move.pages)} pages, and {PAGES} are the most", "cut the move in parts")
    own = {str(number): number for number in range(1, PAGES + 1)}
    free = (number for name, number in own.items() if name not in move.pages)
    return {name: own[name] if name in own else next(free) for name in move.pages}


def _steps(name: str, page: Page, every: tuple[str, ...], joints: JointTable) -> tuple[list[str], list[MtnStep]]:
    """Return notes, and the page's steps with values for all joints of the move."""
    if not page.keys:
        return [], []
    notes = [f"page {name!r}: {field} is not kept" for field in ("speed", "torque") if getattr(page, field)]
    if missing := [joint for joint in every if joint not in page.joints]:
        hint = "a .mtn page says it for every servo: complete the page, or take the common joints alone"
        raise UsageError(f"page {name!r} does not say where {', '.join(missing)} should be", hint)
    paths = tracks(page)
    arrivals = np.cumsum([key.time + key.pause for key in page.keys]) - [key.pause for key in page.keys]
    counts = np.full((len(page.keys), IDS), float(_CENTRE))
    for joint in every:
        id_, calibration = joints[joint]
        for row, time in enumerate(arrivals):
            count = calibration.goal(angle := paths[joint].at(float(time)))
            if not 0 <= count <= min(calibration.units.counts, _MAX_COUNT):
                raise UsageError(f"page {name!r}: {joint} at {angle:.2f} rad is beyond its servo", "correct that pose")
            counts[row, id_] = count
    times = [(key.pause, key.time) for key in page.keys]
    if len(page.keys) > STEPS and page.interpolation == "linear" and not any(key.pause for key in page.keys):
        kept = _thinned(arrivals, counts)
        notes.append(f"page {name!r}: {len(page.keys)} samples became {len(kept)} steps, within {_TOLERANCE:g} count")
        ticks = np.round(arrivals[kept] / _CYCLE)
        path_times = np.diff(ticks, prepend=0.0)
        counts, times = counts[kept], [(0.0, arrival * _CYCLE) for arrival in path_times.tolist()]
    elif page.interpolation != "ramps" and len(page.keys) > 1:
        notes.append(f"page {name!r}: {page.interpolation} ways between its poses become ramps")
    if times[0][1] == 0:
        notes.append(f"page {name!r}: its first pose is reached in {_FIRST_TIME:g} s, because 0 s would be a jump")
        times[0] = (times[0][0], _FIRST_TIME)
    times = [(pause, round(play, 3) or _CYCLE) for pause, play in times]  # 0 s is a jump
    rows = [tuple(map(int, row)) for row in counts.tolist()]
    return notes, [MtnStep(row, *map(_decimal, pair)) for row, pair in zip(rows, times, strict=True)]


def _thinned(times: FloatArray, rows: FloatArray) -> list[int]:
    """Return ascending indices of rows; lines between them are within `_TOLERANCE` of all (Douglas, Peucker 1973)."""
    chosen = {0, len(times) - 1}
    pending = [(0, len(times) - 1)]
    while pending:
        first, last = pending.pop()
        if last - first < 2:
            continue
        inner = slice(first + 1, last)
        share = ((times[inner] - times[first]) / (times[last] - times[first]))[:, None]
        line = rows[first] + (rows[last] - rows[first]) * share
        off = np.abs(rows[inner] - line).max(axis=1)
        worst = int(np.argmax(off))
        if off[worst] > _TOLERANCE:
            middle = first + 1 + worst
            chosen.add(middle)
            pending += [(first, middle), (middle, last)]
    return sorted(chosen)


def _decimal(value: float) -> Decimal:
    return Decimal(repr(round(float(value), 3)))
