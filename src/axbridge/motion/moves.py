"""Poses and moves as data that can be taught, stored, changed and shared. Angles are rad, times s.

A move has pages of key poses with times; most moves have one page, RoboPlus files have many. Its file is JSON.
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
from axbridge.files import write_whole
from axbridge.servo import checks

FARTHEST = 1e4  # rad or m: largest position of a joint
LONGEST = 1e6  # s, eleven days: longest time of a move
Signs = Mapping[str, tuple[str, float]]  # joint -> its mirrored joint, and the sign of the angle, 1 or -1

_GRID = 0.02  # s between samples when two moves with different times are blended
_RAMPS_A_SECOND = 128  # ROBOTIS' unit of INERTIA is 1/128 s
_FORMAT = re.compile("axbridge-move-([1-9][0-9]{0,5})")
_SCHEMA = Remedy("move schema", says="see {}")
MOST = 1_000_000  # poses of a page: five hours at 20 ms
_json = partial(json.dumps, ensure_ascii=False)


# ---- trajectories between key poses
#
# * ``linear``: a straight line, as Webots plays motions, and as dense samples need it.
# * ``minimum-jerk``: the joint rests at each knot; between two knots the trajectory is the smoothest.
# * ``cubic``: the joint passes a knot without a stop if its direction does not change, else it rests there (Fritsch and
#   Carlson 1980, "Monotone piecewise cubic interpolation", with the harmonic mean of Fritsch and Butland 1984).
# * ``ramps``: the speed changes linearly for a given time, then it is constant. The joint passes a knot at full speed
#   if its direction does not change. ROBOTIS' player of the ROBOTIS-OP plays the same kind of pages in this way
#   (`Action.cpp` of its framework). After a fast motion, a slow one overshoots and returns.

Law = Literal["linear", "minimum-jerk", "cubic", "ramps"]


class JointPath:
    """One joint's trajectory through knots: their ascending times, s, and positions, rad, (n,) each.

    `ramps` are the times, s, of the speed's change in each interval, (n - 1,) or one for all; at most half an interval.
    """

    def __init__(
        self, law: Law, times: Sequence[float], positions: Sequence[float], ramps: Sequence[float] | float = 0.0
    ) -> None:
        self.law, self.times, self.positions = law, list(times), list(positions)
        durations, distances = np.diff(times), np.diff(positions).tolist()
        longest = durations / 2 if law == "ramps" else 0 * durations  # a straight line has none
        self._ramps: list[float] = np.minimum(ramps, longest).tolist()
        # by interval: speed at its start and between its ramps, rad/s; whether its end is no stop
        self._speeds: list[tuple[float, float, bool]] = []
        self._slopes = _slopes(np.array(times), np.array(positions)) if law == "cubic" else np.zeros(0)
        out = 0.0
        for duration, distance, after, ramp in zip(
            durations.tolist(), distances, [*distances, 0.0][1:], self._ramps, strict=True
        ):
            on = distance * after > 0
            steady = (distance - out * ramp / 2) / (duration - (ramp / 2 if on else ramp))
            self._speeds.append((out, steady, on))
            out = steady if on else 0.0

    def at(self, time: float) -> float:
        """Return the position at `time` (s), rad; constant before the first knot and after the last."""
        place = bisect_right(self.times, time) - 1
        if place < 0 or place == len(self.times) - 1:
            return self.positions[max(place, 0)]
        start, passed = self.positions[place], time - self.times[place]
        duration = self.times[place + 1] - self.times[place]
        if self.law == "minimum-jerk":
            return start + (self.positions[place + 1] - start) * minimum_jerk.eased(passed / duration)
        if self.law == "cubic":
            share, rest = passed / duration, 1 - passed / duration
            out, into = self._slopes[place : place + 2]
            bend = float(duration * share * rest * (out * rest - into * share))
            return start + (self.positions[place + 1] - start) * share * share * (3 - 2 * share) + bend
        ramp, (out, steady, on) = self._ramps[place], self._speeds[place]
        first, last = min(passed, ramp), 0.0 if on else max(0.0, passed - (duration - ramp))
        bend = ((steady - out) * first**2 - steady * last**2) / (2 * ramp) if ramp else 0.0
        return start + out * first + steady * (passed - first) + bend

    def peak_speeds(self) -> FloatArray:
        """Return the highest speed in each interval between knots, (n - 1,), rad/s."""
        if self.law == "minimum-jerk":
            return minimum_jerk.PEAK * np.abs(np.diff(self.positions) / np.diff(self.times))
        if self.law == "cubic":
            return self._cubic_peaks()
        speeds = (
            (out if ramp else 0.0, steady) for ramp, (out, steady, _) in zip(self._ramps, self._speeds, strict=True)
        )
        return np.array([max(map(abs, pair)) for pair in speeds])

    def _cubic_peaks(self) -> FloatArray:
        mean, out, into = np.diff(self.positions) / np.diff(self.times), self._slopes[:-1], self._slopes[1:]
        # The speed is a parabola in the share s of the time: out + 2 a s + 3 b s²; its top is at s = -a / 3b.
        a, b = 3 * mean - 2 * out - into, out + into - 2 * mean
        curved = np.abs(b) > 1e-12
        top = np.clip(np.divide(-a, 3 * b, out=np.zeros_like(a), where=curved), 0.0, 1.0)
        inner = np.abs(out + 2 * a * top + 3 * b * top * top)
        peaks: FloatArray = np.maximum(inner, np.maximum(np.abs(out), np.abs(into)))
        return peaks


def _slopes(times: FloatArray, positions: FloatArray) -> FloatArray:
    """Return the speed at each knot with ``cubic``, (n,), rad/s; 0 at both ends and where the direction changes."""
    slopes = np.zeros(len(times))
    durations = np.diff(times)
    mean = np.diff(positions) / durations
    before, after = mean[:-1], mean[1:]
    weight_before = durations[:-1] + 2 * durations[1:]
    weight_after = 2 * durations[:-1] + durations[1:]
    on = before * after > 1e-18  # not > 0: the mean below divides by both
    inverse = weight_before[on] / before[on] + weight_after[on] / after[on]
    slopes[1:-1][on] = (weight_before[on] + weight_after[on]) / inverse
    return slopes


# ---- poses, pages, moves


class Key(TomlTable):
    """A key pose and the motion to it."""

    # by joint (name of the rig's servo); an absent joint moves on to the next pose that has it
    positions: dict[str, Annotated[float, Field(ge=-FARTHEST, le=FARTHEST)]] = Field(min_length=1)
    time: float = Field(ge=0, le=LONGEST)  # time of the motion from the previous key
    pause: float = Field(default=0.0, ge=0, le=LONGEST)  # time of rest in this pose
    name: str = ""  # for display


class Page(TomlTable):
    """Key poses in order, and the settings with which they are played."""

    keys: tuple[Key, ...] = ()
    name: str = ""  # for display
    interpolation: Law = "minimum-jerk"
    rate: float = Field(default=1.0, ge=1e-6, le=1e6)  # times and pauses are divided by it
    repeat: int = Field(default=1, ge=1, le=1_000_000)  # number of times that the page is played before `next`
    next: str | None = None  # page that follows; None = the end
    exit: str | None = None  # page that follows after a stop request, then that page's own exit
    # highest speed, rad/s, by joint; an absent joint has its servo's highest speed
    speed: dict[str, Annotated[float, Field(ge=1e-6)]] = {}
    torque: dict[str, Annotated[float, Field(ge=0)]] = {}  # highest torque, N·m, by joint
    slope: dict[str, Annotated[int, Field(ge=1, le=254)]] = {}  # Compliance Slope register by joint; absent = unchanged
    inertia: int = Field(default=32, ge=0)  # of ``ramps``: time of acceleration and of deceleration, in 1/128 s

    @property
    def joints(self) -> tuple[str, ...]:
        """The joints of its keys, in order of appearance."""
        return tuple(dict.fromkeys(joint for key in self.keys for joint in key.positions))

    @property
    def duration(self) -> float:
        """Duration of one round with the motion to the first key, s."""
        return sum(key.time + key.pause for key in self.keys) / self.rate

    @property
    def ramp(self) -> float:
        """Time of acceleration and of deceleration with ``ramps``, s, independent of the rate."""
        return self.inertia / _RAMPS_A_SECOND


class Move(TomlTable):
    """Pages, and the page at which the move starts."""

    format: Literal["axbridge-move-1"] = "axbridge-move-1"
    start: str = "1"
    pages: dict[str, Page] = Field(min_length=1)  # by key; RoboPlus' keys are the numbers 1 to 255

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
        """Return the move of a JSON text.

        Raises:
            MoveError: the text is not JSON, or not a move; the error names the key.
        """
        with reading(partial(MoveError, path, ""), _SCHEMA):
            document = json.loads(text)
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
        """Return the JSON text with one line for each key pose, which is easy to edit and to compare."""
        document = self.model_dump(exclude_defaults=True)
        pages = {name: self._page_text(page) for name, page in document["pages"].items()}
        body = ",\n".join(f"    {_json(name)}: {text}" for name, text in pages.items())
        head = f'  "format": {_json(self.format)},\n  "start": {_json(self.start)},\n'
        return f'{{\n{head}  "pages": {{\n{body}\n  }}\n}}\n'

    @staticmethod
    def _page_text(page: Mapping[str, Any]) -> str:
        lines = [f"      {_json(field)}: {_json(value)}" for field, value in page.items() if field != "keys"]
        keys = ",\n".join(f"        {_json(key)}" for key in page.get("keys", ()))
        lines.append(f'      "keys": [\n{keys}\n      ]' if keys else '      "keys": []')
        return "{\n" + ",\n".join(lines) + "\n    }"

    def save(self, path: str | Path) -> None:
        """Write the JSON file completely or not at all.

        Raises:
            RecordingError: it cannot be written.
        """
        write_whole(path, self.text())

    # ---- content

    @property
    def joints(self) -> tuple[str, ...]:
        """All joints of the pages."""
        return tuple(dict.fromkeys(joint for page in self.pages.values() for joint in page.joints))

    @property
    def duration(self) -> float:
        """Duration from the start page on, with repeats, s; inf when the pages form a loop."""
        names, loop = self.chain(self.start)
        return math.inf if loop else sum(self.pages[name].duration * self.pages[name].repeat for name in names)

    def find(self, page: str) -> str:
        """Return the key of a page, given by its key in `pages` or by its name.

        Raises:
            UsageError: there is no such page, or several.
        """
        if page in self.pages:
            return page
        matches = [key for key, p in self.pages.items() if p.name.strip() == page.strip()]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageError(f"{len(matches)} pages are called {page!r}", f"choose one of {', '.join(matches)}")
        names = [f"{key} {p.name}".strip() for key, p in self.pages.items() if p.name or p.keys]
        raise UsageError(f"the move has no page {page!r}", f"pages: {', '.join(names[:20])}")

    def chain(self, start: str, link: Literal["next", "exit"] = "next") -> tuple[tuple[str, ...], str | None]:
        """Return the pages from `start` on by `link`, each once, and the page at which they repeat (None: the end)."""
        names: list[str] = []
        name: str | None = start
        while name is not None and name not in names:
            names.append(name)
            name = getattr(self.pages[name], link)
        return tuple(names), name

    def rounds(self, start: str) -> Iterator[str]:
        """Yield the pages of `chain`, each one with its repeats."""
        for name in self.chain(start)[0]:
            for _ in range(self.pages[name].repeat):
                yield name

    @property
    def single(self) -> Page:
        """The complete move as one page at rate 1, with its repeats written out.

        Raises:
            UsageError: it never ends, is too long, or its pages differ in interpolation, speed, torque or slope.
        """
        names, loop = self.chain(self.start)
        if loop is not None:
            raise UsageError(f"the move never ends: page {loop!r} comes again", "work on its pages one by one")
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
        """Return the same move with all times multiplied by `factor`.

        Raises:
            UsageError: a factor that is not positive and finite.
        """
        if not 0 < checks.number(factor, "a factor") < math.inf:
            raise UsageError(f"a factor of {factor:g} is not positive and finite", "2 is twice as long")
        pages = {name: page.model_copy(update={"rate": page.rate / factor}) for name, page in self.pages.items()}
        return self.model_copy(update={"pages": pages})

    def only(self, joints: Collection[str]) -> Move:
        """Return the move of these joints alone, with unchanged times.

        Raises:
            UsageError: the move has no such joint, or no joint is given.
        """
        unknown = sorted(set(joints) - set(self.joints))
        if unknown or not joints:
            why = f"the move has no joint {', '.join(unknown) or 'left'}"
            raise UsageError(why, f"it has: {', '.join(self.joints)}")
        return self._renamed(lambda joint: (joint, 1.0) if joint in joints else None)

    def mirrored(self, signs: Signs) -> Move:
        """Return the move with left and right exchanged.

        Args:
            signs: By joint: its partner and the sign of the angle, see `axbridge.motion.mirror.signs`. Other joints
                keep their angles.
        """
        return self._renamed(lambda joint: signs.get(joint, (joint, 1.0)))

    def reversed(self) -> Move:
        """Return the move backwards, as one page. The time to its first pose stays the same.

        Raises:
            UsageError: as for `single`.
        """
        page = self.single
        times = [key.time for key in page.keys]
        times = [times[0], *times[:0:-1]]
        keys = [key.model_copy(update={"time": time}) for key, time in zip(page.keys[::-1], times, strict=True)]
        return Move(pages={"1": page.model_copy(update={"keys": tuple(keys)})})

    def then(self, other: Move) -> Move:
        """Return this move followed by `other`; pages keep their settings and are numbered from 1.

        Raises:
            UsageError: this move never ends.
        """
        own, loop = self.chain(self.start)
        if loop is not None:
            raise UsageError(f"the move never ends: page {loop!r} comes again", "nothing can come after it")
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
        """Return a mean of this move (share 0) and another one (share 1), as one page.

        Keys are blended one by one if their joints and interpolation are the same; else both are sampled each 20 ms.

        Raises:
            UsageError: as for `single`; a share outside 0..1, or different joints.
        """
        if not 0 <= checks.number(share, "a share") <= 1:
            raise UsageError(f"a share of {share:g} is not between 0 and 1", "0.5 is half and half")
        own_page, other_page = self.single, other.single
        if set(own_page.joints) != set(other_page.joints):
            raise UsageError("the moves have different joints", "take what they share: `only`")
        first, second = ([key.positions.keys() for key in page.keys] for page in (own_page, other_page))
        if first != second or own_page.interpolation != other_page.interpolation:
            own_page, other_page = _sampled(own_page, other_page, share)
        keys = []
        for a, b in zip(own_page.keys, other_page.keys, strict=True):
            positions = {joint: _mix(a.positions[joint], b.positions[joint], share) for joint in a.positions}
            times = {"time": _mix(a.time, b.time, share), "pause": _mix(a.pause, b.pause, share)}
            keys.append(a.model_copy(update={"positions": positions, **times}))
        return Move(pages={"1": own_page.model_copy(update={"keys": tuple(keys)})})

    def _renamed(self, to: Callable[[str], tuple[str, float] | None]) -> Move:
        """Return the move with `to(joint)`: new name and sign of the angles, or None to leave it out."""
        pages = {}
        for name, page in self.pages.items():
            keys: list[Key] = []
            waited = 0.0  # time of the keys without any joint: it is added to the next key's
            for key in page.keys:
                positions = {new[0]: new[1] * angle for joint, angle in key.positions.items() if (new := to(joint))}
                if positions:
                    keys.append(key.model_copy(update={"positions": positions, "time": key.time + waited}))
                waited = 0.0 if positions else waited + key.time + key.pause
            if keys and waited:  # the page lasts as long as before
                keys[-1] = keys[-1].model_copy(update={"pause": keys[-1].pause + waited})
            settings = {
                field: {new[0]: value for joint, value in getattr(page, field).items() if (new := to(joint))}
                for field in ("speed", "torque", "slope")
            }
            pages[name] = page.model_copy(update={"keys": tuple(keys), **settings})
        return self.model_copy(update={"pages": pages})


Knot = tuple[float, float, int]  # time, s; position, rad; number of the step that ends there


def knots_of(
    steps: Iterable[tuple[Mapping[str, float], float, float]], here: Mapping[str, float], begin: float
) -> dict[str, list[Knot]]:
    """Return each joint's knots from the pose `here` at `begin`, s, on; steps: pose, time, pause."""
    knots: dict[str, list[Knot]] = {joint: [(begin, angle, -1)] for joint, angle in here.items()}
    time = begin
    for number, (pose, duration, pause) in enumerate(steps):
        time += duration
        for joint, angle in pose.items():
            own = knots.setdefault(joint, [])
            for moment in (time, time + pause):
                if own and moment <= own[-1][0]:  # a motion or a pause with time 0, or too short for a float
                    own.pop()
                own.append((moment, angle, number))
        time += pause
    return knots


def tracks(page: Page) -> dict[str, JointPath]:
    """Return each joint's trajectory through its keys, at rate 1; time 0 is the page's start."""
    paths = {}
    for joint, own in knots_of(((key.positions, key.time, key.pause) for key in page.keys), {}, 0.0).items():
        times, angles, _ = zip(*own, strict=True)
        paths[joint] = JointPath(page.interpolation, times, angles, page.ramp)
    return paths


def _sampled(first: Page, second: Page, share: float) -> tuple[Page, Page]:
    """Return both as pages of dense samples with the same number of keys."""
    count = max(2, math.ceil(_mix(first.duration, second.duration, share) / _GRID) + 1)
    if count > MOST:
        raise UsageError(f"between these moves there are {count} poses, and {MOST} are the most", "make them shorter")
    pages = []
    for page in (first, second):
        paths, start = tracks(page), page.keys[0].time
        step = (page.duration - start) / (count - 1)
        poses = ({j: path.at(start + n * step) for j, path in paths.items()} for n in range(count))
        keys = tuple(Key(positions=pose, time=step if n else start) for n, pose in enumerate(poses))
        pages.append(page.model_copy(update={"keys": keys, "interpolation": "linear"}))
    return pages[0], pages[1]


def _mix(first: float, second: float, share: float) -> float:
    return (1 - share) * first + share * second
