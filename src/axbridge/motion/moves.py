"""Poses and moves as data: what people teach, file, change and share. Angles are rad, times s.

A move is pages of key poses with times; most moves have one page, a RoboPlus set has many. On disk it is JSON.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from axbridge import minimum_jerk
from axbridge.arrays import FloatArray
from axbridge.config.toml_tables import Misfit, TomlTable, validate
from axbridge.errors import MoveError, Remedy, UsageError, plural
from axbridge.file_reading import check_format, reading, refuse_other_kind, regular
from axbridge.files import write_whole, writing

FARTHEST = 1e4  # rad or m: no joint goes as far
LONGEST = 1e6  # s, eleven days: no move lasts as long
Signs = Mapping[str, tuple[str, float]]  # joint -> the joint that mirrors it, and 1 or -1

_RAMPS_A_SECOND = 128  # ROBOTIS counts INERTIA in 1/128 s
_GRID = 0.02  # s between samples where two moves with other times are blended
_FORMAT = re.compile("axbridge-move-([1-9][0-9]{0,5})")
_SCHEMA = Remedy("move schema", says="see {}")
MOST = 1_000_000  # poses of a page: five hours at 20 ms


# ---- the way between key poses: four laws; all but ``ramps`` stay in the range between two neighbouring knots
#
# * ``linear``: a straight line, as Webots plays motions and as dense samples want it.
# * ``minimum-jerk``: every knot is a rest, and the way between two of them the smoothest.
# * ``cubic``: the joint runs on through a knot when its direction stays, and rests where it turns (Fritsch and Carlson
#   1980, "Monotone piecewise cubic interpolation", with the harmonic mean of Fritsch and Butland 1984).
# * ``ramps``: the speed changes evenly for a given time, then it stays; the joint runs on through a knot at full speed
#   when its direction stays. So ROBOTIS' player of the ROBOTIS-OP plays the same kind of pages (`Action.cpp` of its
#   framework). Where a slow way follows a fast one, the joint goes too far, and comes back.

Law = Literal["linear", "minimum-jerk", "cubic", "ramps"]


class JointPath:
    """One joint's way through its knots: their times, s, rising, and positions, rad, (n,) each.

    With ``ramps`` the speed changes so long in each interval, (n - 1,) or one for all, s; at most half of the interval.
    """

    def __init__(
        self, law: Law, times: Sequence[float], positions: Sequence[float], ramps: Sequence[float] | float = 0.0
    ) -> None:
        self.law, self.times, self.positions = law, list(times), list(positions)
        durations = np.diff(times)
        self._ramps = np.minimum(np.broadcast_to(ramps, durations.shape), durations / 2).tolist()
        self._slopes = [0.0] * len(self.times)
        if law == "ramps":
            self._slopes = _passed(durations.tolist(), np.diff(positions).tolist(), self._ramps)
        elif law == "cubic":
            self._slopes = _slopes(np.array(times), np.array(positions)).tolist()

    def at(self, time: float) -> float:
        """Position at `time`, s, rad; held before the first knot and after the last."""
        place = bisect_right(self.times, time)
        if place == 0:
            return self.positions[0]
        if place == len(self.times):
            return self.positions[-1]
        begin, duration = self.times[place - 1], self.times[place] - self.times[place - 1]
        start, end = self.positions[place - 1 : place + 1]
        out, into = self._slopes[place - 1 : place + 1]
        if self.law == "ramps":
            return start + _ramped(end - start, duration, self._ramps[place - 1], out, into, time - begin)
        share = (time - begin) / duration
        if self.law == "cubic":
            rest = 1 - share
            correction = share * rest * (out * rest - into * share)
            return start + (end - start) * (share * share * (3 - 2 * share)) + duration * correction
        return start + (end - start) * (share if self.law == "linear" else minimum_jerk.eased(share))

    def peak_speeds(self) -> FloatArray:
        """Highest speed between each two knots, (n - 1,), rad/s."""
        mean: FloatArray = np.diff(self.positions) / np.diff(self.times)
        if self.law in _PEAKS:
            return np.abs(mean) * _PEAKS[self.law]
        out, into = np.array(self._slopes[:-1]), np.array(self._slopes[1:])
        if self.law == "ramps":
            durations = np.diff(self.times)
            ramps = zip(mean * durations, durations, self._ramps, out, into, strict=True)
            return np.array([max(abs(ramp[3]), abs(_steady(*ramp))) for ramp in ramps])
        # The speed is a parabola in the share s of the time: out + 2 a s + 3 b s²; its top is at s = -a / 3b.
        a, b = 3 * mean - 2 * out - into, out + into - 2 * mean
        curved = np.abs(b) > 1e-12
        top = np.clip(np.divide(-a, 3 * b, out=np.zeros_like(a), where=curved), 0.0, 1.0)
        inner = np.abs(out + 2 * a * top + 3 * b * top * top)
        peaks: FloatArray = np.maximum(inner, np.maximum(np.abs(out), np.abs(into)))
        return peaks


_PEAKS: dict[Law, float] = {"linear": 1.0, "minimum-jerk": minimum_jerk.PEAK}


def _steady(distance: float, duration: float, ramp: float, out: float, into: float) -> float:
    """The speed between the ramps, rad/s: it ends there, or goes on where the joint runs through the knot (`into`)."""
    return (distance - out * ramp / 2) / (duration - (ramp / 2 if into else ramp))


def _passed(durations: list[float], distances: list[float], ramps: list[float]) -> list[float]:
    """Speed at each knot, (n,), rad/s: each interval begins with the speed that the one before ended with."""
    speeds = [0.0]
    for number, (duration, distance, ramp) in enumerate(zip(durations, distances, ramps, strict=True)):
        on = number + 1 < len(distances) and distance * distances[number + 1] > 0
        speeds.append(_steady(distance, duration, ramp, speeds[-1], 1.0) if on else 0.0)
    return speeds


def _ramped(distance: float, duration: float, ramp: float, out: float, into: float, passed: float) -> float:
    """The way made in a time `passed`, s, of an interval that begins at speed `out`, rad/s."""
    steady = _steady(distance, duration, ramp, out, into)
    first, last = min(passed, ramp), max(0.0, passed - (duration - ramp))
    travelled = out * first + steady * (passed - first)
    if ramp:
        travelled += (steady - out) * first**2 / (2 * ramp)
        travelled -= 0.0 if into else steady * last**2 / (2 * ramp)
    return travelled


def _slopes(times: FloatArray, positions: FloatArray) -> FloatArray:
    """Speed of a cubic at each knot, (n,), rad/s; 0 at both ends and where the direction changes."""
    slopes = np.zeros(len(times))
    durations = np.diff(times)
    mean = np.diff(positions) / durations
    before, after = mean[:-1], mean[1:]
    weight_before = durations[:-1] + 2 * durations[1:]
    weight_after = 2 * durations[:-1] + durations[1:]
    on = before * after > 1e-18  # not 0 alone: the mean below divides by both
    slopes[1:-1][on] = (weight_before[on] + weight_after[on]) / (
        weight_before[on] / before[on] + weight_after[on] / after[on]
    )
    return slopes


# ---- poses, pages, moves


class Key(TomlTable):
    """A key pose and the way to it."""

    # by joint, as the rig's servos are called; one that is absent goes on to the next pose that names it
    positions: dict[str, Annotated[float, Field(ge=-FARTHEST, le=FARTHEST)]] = Field(min_length=1)
    time: float = Field(ge=0, le=LONGEST)  # what the way from the key before takes
    pause: float = Field(default=0.0, ge=0, le=LONGEST)  # what the robot waits here
    name: str = ""  # for people


class Page(TomlTable):
    """Key poses in their order, and how they are played."""

    keys: tuple[Key, ...] = ()
    name: str = ""  # for people
    interpolation: Law = "minimum-jerk"
    rate: float = Field(default=1.0, ge=1e-6, le=1e6)  # times and pauses are divided by it
    repeat: int = Field(default=1, ge=1, le=1_000_000)  # how often the page is played before `next`
    next: str | None = None  # page that follows; None = the end
    exit: str | None = None  # page that follows when somebody asks for the end, then that page's own exit
    # highest speed, rad/s, by joint; one that is absent may do what its servo can
    speed: dict[str, Annotated[float, Field(ge=1e-6)]] = {}
    torque: dict[str, Annotated[float, Field(ge=0)]] = {}  # highest torque, N·m, by joint; likewise
    slope: dict[str, Annotated[int, Field(ge=1, le=254)]] = {}  # compliance slope register by joint; absent = as it is
    inertia: int = Field(default=32, ge=0)  # of ``ramps``: how long a joint speeds up and slows down, in 1/128 s

    @property
    def joints(self) -> tuple[str, ...]:
        """The joints that its keys name, in the order in which they come up."""
        return tuple(dict.fromkeys(joint for key in self.keys for joint in key.positions))

    @property
    def duration(self) -> float:
        """Of one round, with the way to the first key, s."""
        return sum(key.time + key.pause for key in self.keys) / self.rate

    @property
    def ramp(self) -> float:
        """How long a joint speeds up and slows down in ``ramps``, s; no rate changes it."""
        return self.inertia / _RAMPS_A_SECOND


class Move(TomlTable):
    """Pages, and where to start."""

    format: Literal["axbridge-move-1"] = "axbridge-move-1"
    start: str = "1"
    pages: dict[str, Page] = Field(min_length=1)  # by name; RoboPlus' names are the numbers 1 to 255

    def __repr__(self) -> str:
        return f"<Move of {plural(len(self.pages), 'page')}, from {self.start!r}: {self.duration:.2f} s>"

    __str__ = __repr__

    @model_validator(mode="after")
    def _check_links(self) -> Move:
        known = ", ".join(list(self.pages)[:10])
        if self.start not in self.pages:
            raise Misfit("start", f"there is no page {self.start!r}", f"pages: {known}")
        for name, page in self.pages.items():
            for link in ("next", "exit"):
                target = getattr(page, link)
                if target is not None and target not in self.pages:
                    raise Misfit(f"pages.{name}.{link}", f"there is no page {target!r}", f"pages: {known}")
        return self

    # ---- files

    @classmethod
    def parse(cls, text: str, path: str | Path = "move") -> Move:
        """Read the text of a JSON file.

        Raises:
            MoveError: no JSON, or no move; names the key.
        """
        with reading(partial(MoveError, path, ""), _SCHEMA):
            try:
                document = json.loads(text)
            except json.JSONDecodeError as mistake:
                raise MoveError(path, "", f"is no JSON: {mistake}", "correct the line named") from mistake
            if not isinstance(document, dict):
                raise MoveError(path, "", "holds no move", _SCHEMA)
            if newer := _FORMAT.fullmatch(str(document.get("format"))):
                check_format(int(newer[1]), partial(MoveError, path, "format"))
            return validate(cls, document, Path(path), MoveError, _SCHEMA)

    @classmethod
    def load(cls, path: str | Path) -> Move:
        """Read a JSON file.

        Raises:
            MoveError: unreadable, or as `parse`.
        """
        with reading(partial(MoveError, path, ""), _SCHEMA):
            refuse_other_kind(path, partial(MoveError, path, ""))
            return cls.parse(regular(path).read_text(encoding="utf-8-sig"), path)

    def text(self) -> str:
        """The JSON file: one line a key pose, so that people can edit it and see what changed."""
        document = self.model_dump(exclude_defaults=True)
        pages = {name: self._page_text(page) for name, page in document["pages"].items()}
        body = ",\n".join(f"    {_json(name)}: {text}" for name, text in pages.items())
        return (
            f'{{\n  "format": {_json(self.format)},\n  "start": {_json(self.start)},\n  "pages": {{\n{body}\n  }}\n}}\n'
        )

    @staticmethod
    def _page_text(page: Mapping[str, Any]) -> str:
        lines = [f"      {_json(field)}: {_json(value)}" for field, value in page.items() if field != "keys"]
        keys = ",\n".join(f"        {_json(key)}" for key in page.get("keys", ()))
        lines.append(f'      "keys": [\n{keys}\n      ]' if keys else '      "keys": []')
        return "{\n" + ",\n".join(lines) + "\n    }"

    def save(self, path: str | Path) -> None:
        """Write the JSON file, whole or not at all.

        Raises:
            RecordingError: it cannot be written.
        """
        with writing(path):
            write_whole(path, self.text())

    # ---- what is in it

    @property
    def joints(self) -> tuple[str, ...]:
        """Every joint that a page names."""
        return tuple(dict.fromkeys(joint for page in self.pages.values() for joint in page.joints))

    @property
    def duration(self) -> float:
        """From the start page on, with repeats, s; inf when the pages lead back to themselves."""
        names, loop = self.chain(self.start)
        return math.inf if loop else sum(self.pages[name].duration * self.pages[name].repeat for name in names)

    def find(self, page: str) -> str:
        """The page that is meant by its key in `pages`, or by the name it has for people.

        Raises:
            UsageError: none, or several.
        """
        if page in self.pages:
            return page
        called = [key for key, p in self.pages.items() if p.name.strip() == page.strip()]
        if len(called) == 1:
            return called[0]
        if called:
            raise UsageError(f"{len(called)} pages are called {page!r}", f"choose one of {', '.join(called)}")
        there = [f"{key} {p.name}".strip() for key, p in self.pages.items() if p.name or p.keys]
        raise UsageError(f"the move has no page {page!r}", f"pages: {', '.join(there[:20])}")

    def chain(self, start: str, link: Literal["next", "exit"] = "next") -> tuple[tuple[str, ...], str | None]:
        """The pages from `start` on by `link`, each once; and the page the last one leads back to (None: the end)."""
        names: list[str] = []
        name: str | None = start
        while name is not None and name not in names:
            names.append(name)
            name = getattr(self.pages[name], link)
        return tuple(names), name

    def rounds(self, start: str) -> Iterator[str]:
        """The pages of `chain`, each as often as it repeats."""
        for name in self.chain(start)[0]:
            for _ in range(self.pages[name].repeat):
                yield name

    @property
    def single(self) -> Page:
        """The whole move as one page at rate 1, without repeats.

        Raises:
            UsageError: it never ends, is too long, or its pages differ in interpolation, speed, torque or slope.
        """
        names, loop = self.chain(self.start)
        if loop is not None:
            raise UsageError(f"the move goes on for ever: page {loop!r} comes again", "work on its pages one by one")
        pages = [self.pages[name] for name in names if self.pages[name].keys]
        if not pages:
            raise UsageError("the move has no poses", "give its start a page with poses")
        first = pages[0]
        for page in pages[1:]:
            for setting in ("interpolation", "speed", "torque", "slope"):
                if getattr(page, setting) != getattr(first, setting):
                    raise UsageError(f"its pages differ in {setting}", "work on its pages one by one")
        if sum(self.pages[name].repeat * len(self.pages[name].keys) for name in names) > MOST:
            raise UsageError(f"the move has more than {MOST} poses with its repeats", "work on its pages one by one")
        keys = [
            key.model_copy(update={"time": key.time / page.rate, "pause": key.pause / page.rate})
            for page in (self.pages[name] for name in self.rounds(self.start))
            for key in page.keys
        ]
        return first.model_copy(update={"keys": tuple(keys), "rate": 1.0, "repeat": 1, "next": None, "exit": None})

    # ---- changed moves

    def scaled(self, factor: float) -> Move:
        """The same move in `factor` times the time.

        Raises:
            UsageError: a factor that is not positive and finite.
        """
        if not 0 < factor < math.inf:
            raise UsageError(f"a factor of {factor:g} is not positive and finite", "2 is twice as long")
        return self._with_pages(lambda page: page.model_copy(update={"rate": page.rate / factor}))

    def only(self, joints: Collection[str]) -> Move:
        """Without all other joints; times stay.

        Raises:
            UsageError: the move has no such joint, or nothing is left.
        """
        strange = sorted(set(joints) - set(self.joints))
        if strange or not joints:
            raise UsageError(
                f"the move has no joint {', '.join(strange) or 'left'}", f"it has: {', '.join(self.joints)}"
            )
        return self._with_pages(lambda page: _restricted(page, joints))

    def mirrored(self, signs: Signs) -> Move:
        """What the left side did the right side does, and the other way round.

        Args:
            signs: By joint: its partner and the sign of the angle, see `axbridge.motion.mirror.signs`. Joints that are
                not named keep their angles.
        """

        def partner(joint: str) -> tuple[str, float]:
            return signs.get(joint, (joint, 1.0))

        def mirror(key: Key) -> Key:
            sides = ((*partner(joint), angle) for joint, angle in key.positions.items())
            return key.model_copy(update={"positions": {joint: sign * angle for joint, sign, angle in sides}})

        return self._with_pages(lambda page: _with_keys(page, map(mirror, page.keys), lambda joint: partner(joint)[0]))

    def reversed(self) -> Move:
        """Backwards, as one page. The way to the first pose takes as long as the way to the first pose did.

        Raises:
            UsageError: as `single`.
        """
        page = self.single
        times = [key.time for key in page.keys]
        times = [times[0], *times[:0:-1]]
        keys = [key.model_copy(update={"time": time}) for key, time in zip(page.keys[::-1], times, strict=True)]
        return Move(pages={"1": page.model_copy(update={"keys": tuple(keys)})})

    def then(self, other: Move) -> Move:
        """This move and then `other`; pages keep their settings. The new pages are numbered from 1.

        Raises:
            UsageError: this move never ends.
        """
        own, loop = self.chain(self.start)
        if loop is not None:
            raise UsageError(f"the move goes on for ever: page {loop!r} comes again", "nothing can come after it")
        names = {("a", name): str(n) for n, name in enumerate(self.pages, 1)}
        names |= {("b", name): str(n) for n, name in enumerate(other.pages, 1 + len(self.pages))}
        pages = {}
        for side, move in (("a", self), ("b", other)):
            for name, page in move.pages.items():
                after = None if page.next is None else names[side, page.next]
                if side == "a" and name == own[-1]:
                    after = names["b", other.start]
                leave = None if page.exit is None else names[side, page.exit]
                pages[names[side, name]] = page.model_copy(update={"next": after, "exit": leave})
        return Move(start=names["a", self.start], pages=pages)

    def blended(self, other: Move, share: float) -> Move:
        """Between this move (share 0) and another one (share 1), as one page.

        Key by key where both have as many; else both are sampled every 20 ms over their lengths.

        Raises:
            UsageError: as `single`; a share outside 0..1, or other joints.
        """
        if not 0 <= share <= 1:
            raise UsageError(f"a share of {share:g} is not between 0 and 1", "0.5 is half and half")
        one, two = self.single, other.single
        if set(one.joints) != set(two.joints):
            raise UsageError("the moves have different joints", "take what they share: `only`")
        if len(one.keys) != len(two.keys) or any(
            a.positions.keys() != b.positions.keys() for a, b in zip(one.keys, two.keys, strict=True)
        ):
            one, two = _sampled(one, two, share)
        keys = tuple(
            a.model_copy(
                update={
                    "positions": {j: _mix(a.positions[j], b.positions[j], share) for j in a.positions},
                    "time": _mix(a.time, b.time, share),
                    "pause": _mix(a.pause, b.pause, share),
                }
            )
            for a, b in zip(one.keys, two.keys, strict=True)
        )
        return Move(pages={"1": one.model_copy(update={"keys": keys})})

    def _with_pages(self, change: Callable[[Page], Page]) -> Move:
        return self.model_copy(update={"pages": {name: change(page) for name, page in self.pages.items()}})


def tracks(page: Page) -> dict[str, JointPath]:
    """Every joint's way by its own keys, at rate 1; time 0 is the page's start."""
    knots: dict[str, tuple[list[float], list[float]]] = {}
    time = 0.0
    for key in page.keys:
        time += key.time
        for moment in (time, time + key.pause) if key.pause else (time,):
            for joint, position in key.positions.items():
                times, positions = knots.setdefault(joint, ([], []))
                if times and moment <= times[-1]:  # a way that takes no time
                    positions[-1] = position
                    continue
                times.append(moment)
                positions.append(position)
        time += key.pause
    return {joint: JointPath(page.interpolation, *lists, page.ramp) for joint, lists in knots.items()}


def _restricted(page: Page, joints: Collection[str]) -> Page:
    """Only these joints; the time of a key that names none of them goes to the next one."""
    keys: list[Key] = []
    waited = 0.0
    for key in page.keys:
        positions = {joint: angle for joint, angle in key.positions.items() if joint in joints}
        if positions:
            keys.append(key.model_copy(update={"positions": positions, "time": key.time + waited}))
            waited = 0.0
        else:
            waited += key.time + key.pause
    return _with_keys(page, keys, lambda joint: joint if joint in joints else "")


def _with_keys(page: Page, keys: Iterable[Key], renamed: Callable[[str], str]) -> Page:
    """Other keys, and what the page sets for joints by their new names; an empty one leaves it out."""
    settings = {
        field: {renamed(joint): value for joint, value in getattr(page, field).items() if renamed(joint)}
        for field in ("speed", "torque", "slope")
    }
    return page.model_copy(update={"keys": tuple(keys), **settings})


def _sampled(one: Page, two: Page, share: float) -> tuple[Page, Page]:
    """Both as dense pages with as many keys."""
    count = max(2, math.ceil(_mix(one.duration, two.duration, share) / _GRID) + 1)
    if count > MOST:
        raise UsageError(f"between these moves there are {count} poses, and {MOST} are the most", "make them shorter")
    pages = []
    for page in (one, two):
        paths = tracks(page)
        start = page.keys[0].time
        step = (page.duration - start) / (count - 1)
        keys = tuple(
            Key(positions={j: path.at(start + n * step) for j, path in paths.items()}, time=step if n else start)
            for n in range(count)
        )
        pages.append(page.model_copy(update={"keys": keys, "interpolation": "linear"}))
    return pages[0], pages[1]


def _mix(one: float, two: float, share: float) -> float:
    return (1 - share) * one + share * two


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
