"""RoboPlus Motion files (`.mtn`, CM-510 and CM-530): read as they are found, written as they should be. No robot here.

A file has 255 pages of at most seven steps; values stand by servo id, 0 to 25 (nobody has id 0). Numbers keep their
digits, so that what was read well is written byte by byte as it was. The last two bytes are a checksum: the sum of all
bytes before, inverted, 16 bits, high byte first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path

from axbridge.errors import MoveError, UsageError
from axbridge.file_reading import reading, regular
from axbridge.files import write_whole, writing
from axbridge.motion.keyframes import LONGEST

IDS = 26
PAGES = 255
STEPS = 7
_BOM = b"\xef\xbb\xbf"
_TOP = 1023
_LEVELS = 7  # compliance 2^7 = 128
_END = b"page_end"
_LEAST = Decimal("0.000001")  # of a time or speed that is not 0


@dataclass(frozen=True)
class MtnStep:
    """One pose.

    Attributes:
        positions: Counts by id, (26,), 0..1023.
        pause: After the way, s.
        play: Of the way, s; both are divided by the page's speed.
    """

    positions: tuple[int, ...]
    pause: Decimal
    play: Decimal


@dataclass(frozen=True)
class MtnPage:
    """One page; as it stands here it is empty.

    Attributes:
        name: As in the file.
        compliance: Level n by id, (26,): compliance slope 2^n.
        next: Page that follows, 0 = none.
        exit: Page that is played when somebody asks for the end, 0 = none.
        repeat: How often the page is played.
        speed: Times are divided by it.
        inertia: How long a joint speeds up and slows down, in 1/128 s.
        steps: At most seven in a file that RoboPlus reads; see `in_sevens`.
    """

    name: str = ""
    compliance: tuple[int, ...] = (5,) * IDS
    next: int = 0
    exit: int = 0
    repeat: int = 1
    speed: Decimal = Decimal("1.0")
    inertia: int = 32
    steps: tuple[MtnStep, ...] = ()


@dataclass(frozen=True)
class MtnFile:
    """A page set.

    Attributes:
        version: ``1.00`` or ``1.01``.
        enable: Flag by id, (26,): whether the robot has that servo.
        motor_type: By id, (26,); from version 1.01 on.
        pages: 255; page 1 is the first.
        warnings: What was wrong in the file and did not hinder reading it.
    """

    version: str = "1.01"
    enable: tuple[int, ...] = (0,) * IDS
    motor_type: tuple[int, ...] | None = (0,) * IDS
    pages: tuple[MtnPage, ...] = (MtnPage(),) * PAGES
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def data(self, path: str | Path = "motion") -> bytes:
        """The file, byte by byte; an error names `path`."""
        lines = ["type=motion", f"version={self.version}", f"enable={_spaced(self.enable)}"]
        if self.motor_type is not None:
            lines.append(f"motor_type={_spaced(self.motor_type)}")
        for number, page in enumerate(self.pages, 1):
            _check(path, number, page)
            lines += [
                "page_begin",
                f"name={page.name}",
                f"compliance={_spaced(page.compliance)}",
                f"play_param={page.next} {page.exit} {page.repeat} {page.speed} {page.inertia}",
            ]
            lines += [f"step={_spaced(step.positions)} {step.pause} {step.play}" for step in page.steps]
            lines.append("page_end")
        if len(self.pages) != PAGES:
            raise MoveError(path, "", f"{len(self.pages)} pages, not {PAGES}", "fill up with empty pages")
        body = _BOM + "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        return body + checksum(body)


def checksum(body: bytes) -> bytes:
    """Of all bytes up to the last ``page_end`` and its line end."""
    return (~sum(body) & 0xFFFF).to_bytes(2, "big")


def parse_mtn(data: bytes, path: str | Path = "motion") -> MtnFile:
    """Read the bytes of a file; what files in the wild get wrong becomes a warning."""
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
    reader = _Reader(path, warnings)
    text = body.removeprefix(_BOM).decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        reader.take(number, line.rstrip("\r"))
    return reader.file()


def load_mtn(path: str | Path) -> MtnFile:
    """Read a file."""
    with reading(partial(MoveError, path, ""), "give a RoboPlus .mtn file"):
        return parse_mtn(regular(path).read_bytes(), path)


def save_mtn(file: MtnFile, path: str | Path) -> None:
    """Write a file, whole or not at all."""
    data = file.data(path)
    with writing(path):
        write_whole(path, data)


def in_sevens(file: MtnFile) -> tuple[MtnFile, list[str]]:
    """The same set without a page of more than seven steps, and notes: such a page goes on on free ones.

    A page that repeats is written out round by round, because only a single page can repeat. The parts of a round have
    each other as NEXT and as EXIT: who asks for the end gets the round whole, as before, and then the page's own exit.
    """
    pages, notes = list(file.pages), []
    led_to = {number for page in pages for number in (page.next, page.exit)}
    free = [n for n, page in enumerate(pages, 1) if not page.steps and not page.name and n not in led_to]
    for number, page in enumerate(file.pages, 1):
        parts = [page.steps[first : first + STEPS] for first in range(0, len(page.steps), STEPS)]
        if len(parts) < 2:
            continue
        chain = [number, *free[: page.repeat * len(parts) - 1]]
        free = free[len(chain) - 1 :]
        if len(chain) < page.repeat * len(parts):
            rounds = f", {page.repeat} times" if page.repeat > 1 else ""
            raise UsageError(
                f"page {number} has {len(page.steps)} steps{rounds}: too many for the free pages of {STEPS}",
                "cut the move in parts",
            )
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
        notes.append(f"page {number} has {len(page.steps)} steps, and {STEPS} are the most: it goes on on {where}")
    return replace(file, pages=tuple(pages)), notes


class _Reader:
    """Takes the lines of a file, one by one."""

    def __init__(self, path: str | Path, warnings: list[str]) -> None:
        self._path, self._warnings = path, warnings
        self._line = 0
        self._version = "1.00"
        self._enable = (1,) * IDS
        self._motor_type: tuple[int, ...] | None = None
        self._pages: list[MtnPage] = []
        self._open: dict[str, object] | None = None  # the page under way
        self._steps: list[MtnStep] = []
        self._commas = False  # numbers as a German or Spanish Windows writes them

    def take(self, number: int, line: str) -> None:
        self._line = number
        key, _, value = line.partition("=")
        if line == "page_begin":
            if self._open is not None:
                self._end_page("page_begin within a page")
            self._open, self._steps = {}, []
        elif line == "page_end":
            self._end_page("")
        elif not line.strip():
            self._warnings.append(f"line {number} is empty")
        elif self._open is not None:
            self._take_in_page(key, value)
        elif key == "version":
            self._version = value.strip().replace(",", ".")
            if self._version != value:
                self._warnings.append(f"version {value!r} is written {self._version}")
            if self._version not in {"1.00", "1.01"}:
                raise self._wrong(f"version {value!r} is not known", "versions 1.00 and 1.01 can be read")
        elif key == "enable":
            self._enable = self._whole(value, IDS, 0, 1)
        elif key == "motor_type":
            self._motor_type = self._whole(value, IDS, 0, 255)
        elif key != "type":
            raise self._wrong(f"{key!r} is not known here", "correct that line")

    def file(self) -> MtnFile:
        """All that was read; pages are filled up to 255."""
        if self._open is not None:
            self._end_page("page_end is missing")
        if len(self._pages) > PAGES:
            raise MoveError(self._path, "", f"has {len(self._pages)} pages", f"{PAGES} are the most")
        if len(self._pages) < PAGES:
            self._warnings.append(f"{len(self._pages)} page{'s' * (len(self._pages) != 1)}, not {PAGES}")
        if self._commas:
            self._warnings.append("decimal commas: 1,5 is read as 1.5")
        motor_type = self._motor_type
        if self._version == "1.01" and motor_type is None:
            self._warnings.append("no line motor_type")
            motor_type = (0,) * IDS
        filled = (*self._pages, *(MtnPage(),) * (PAGES - len(self._pages)))
        return MtnFile(self._version, self._enable, motor_type, filled, tuple(self._warnings))

    def _take_in_page(self, key: str, value: str) -> None:
        assert self._open is not None
        if key == "name":
            self._open["name"] = value
        elif key == "compliance":
            self._open["compliance"] = self._whole(value, IDS, 0, _LEVELS)
        elif key == "play_param":
            parts = value.split()
            if len(parts) != 5:
                raise self._wrong(f"play_param has {len(parts)} values", "write NEXT EXIT REPEAT SPEED INERTIA")
            self._open["next"], self._open["exit"] = self._whole(" ".join(parts[:2]), 2, 0, PAGES)
            (self._open["repeat"],) = self._whole(parts[2], 1, 1, 255)
            self._open["speed"] = self._decimal(parts[3], above=0)
            (self._open["inertia"],) = self._whole(parts[4], 1, 0, 255)
        elif key == "step":
            parts = value.split()
            if len(parts) != IDS + 2:
                raise self._wrong(f"a step has {len(parts)} values", f"write {IDS} positions, PAUSE and PLAY")
            positions = self._whole(" ".join(parts[:IDS]), IDS, 0, _TOP)
            self._steps.append(MtnStep(positions, self._decimal(parts[-2]), self._decimal(parts[-1])))
        else:
            raise self._wrong(f"{key!r} is not known in a page", "correct that line")

    def _end_page(self, trouble: str) -> None:
        if self._open is None:
            raise self._wrong("page_end without a page", "correct that line")
        if trouble:
            self._warnings.append(f"line {self._line}: {trouble}")
        self._pages.append(MtnPage(steps=tuple(self._steps), **self._open))  # type: ignore[arg-type]  # by key, above
        self._open = None

    def _whole(self, text: str, count: int, low: int, high: int) -> tuple[int, ...]:
        parts = text.split()
        try:
            values = tuple(int(part) for part in parts)
        except ValueError as mistake:
            raise self._wrong(str(mistake), "write whole numbers") from mistake
        if len(values) != count:
            raise self._wrong(f"{len(values)} values, not {count}", "correct that line")
        for value in values:
            if not low <= value <= high:
                raise self._wrong(f"{value} is outside {low}..{high}", "correct that line")
        return values

    def _decimal(self, text: str, above: float = -1.0) -> Decimal:
        self._commas = self._commas or "," in text
        try:
            value = Decimal(text.replace(",", "."))
        except InvalidOperation as mistake:
            raise self._wrong(f"{text!r} is no number", "write seconds as 0.504") from mistake
        if not value.is_finite() or value < 0 or value <= above:
            raise self._wrong(f"{text} is no time or speed", "times are 0 or more, speeds more than 0")
        if value and not _LEAST <= value <= LONGEST:  # 1E+999999999 is a Decimal
            raise self._wrong(f"{text} is no time or speed", f"write {_LEAST} to {LONGEST:g}")
        return value

    def _wrong(self, message: str, hint: str) -> MoveError:
        return MoveError(self._path, f"line {self._line}", message, hint)


def _check(path: str | Path, number: int, page: MtnPage) -> None:
    wrong = None
    if len(page.steps) > STEPS:
        wrong = f"{len(page.steps)} steps, and {STEPS} are the most"
    elif "\n" in page.name or "\r" in page.name:
        wrong = f"name {page.name!r} has more than one line"
    elif not (0 <= page.next <= PAGES and 0 <= page.exit <= PAGES and 1 <= page.repeat <= 255 and page.speed > 0):
        wrong = f"play_param {page.next} {page.exit} {page.repeat} {page.speed} is out of range"
    elif len(page.compliance) != IDS or not all(0 <= level <= _LEVELS for level in page.compliance):
        wrong = f"compliance needs {IDS} levels from 0 to {_LEVELS}"
    for step in page.steps:
        if len(step.positions) != IDS or not all(0 <= position <= _TOP for position in step.positions):
            wrong = f"a step needs {IDS} positions from 0 to {_TOP}"
        elif step.pause < 0 or step.play < 0:
            wrong = "a step has a negative time"
    if wrong:
        raise MoveError(path, f"page {number}", wrong, "correct that page")


def _spaced(values: tuple[int, ...]) -> str:
    return " ".join(map(str, values))
