"""RoboPlus page sets as moves, and moves as page sets: counts and angles, levels and slopes, 0 and None."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import UsageError
from axbridge.file_reading import printable
from axbridge.motion.joint_table import JointTable
from axbridge.motion.moves import Key, Move, Page, tracks
from axbridge.motion.mtn import IDS, PAGES, STEPS, MtnFile, MtnPage, MtnStep, in_sevens

_CENTRE = 512
_CYCLE = 0.008  # s: RoboPlus' controllers move their servos this often
_TOLERANCE = 1.0  # counts that a move of many samples may change when it is written with fewer
_FIRST = 1.0  # s: a taught move says nothing about the way to its first pose
_LEVEL = 5  # of servos nobody has said anything about
_BLANK = MtnPage()


def move_of(file: MtnFile, joints: JointTable) -> tuple[Move, list[str]]:
    """The pages of a file as a move that starts with its first page, and notes on what could not be kept.

    Empty pages are left out. Ids without a joint are, too.
    """
    known = {id_: name for id_, name in joints.names.items() if id_ < IDS and file.enable[id_]}
    notes = [
        f"id {id_} is on in the file and has no joint: left out"
        for id_ in range(1, IDS)
        if file.enable[id_] and id_ not in known
    ]
    if not known:
        raise UsageError("no servo of the file has a joint", "give the robot's rig, or a table with --joint ID=NAME")
    kept = {number for number, page in enumerate(file.pages, 1) if page != _BLANK}
    kept |= {number for page in file.pages for number in (page.next, page.exit) if number}
    pages = {str(number): _page_of(file.pages[number - 1], known, joints) for number in sorted(kept)}
    start = next((number for number, page in pages.items() if page.keys), None)
    if start is None:
        raise UsageError("no page of the file has steps", "give a page set with poses")
    return Move(start=start, pages=pages), notes


def _page_of(page: MtnPage, known: dict[int, str], joints: JointTable) -> Page:
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
            Key(
                positions={name: joints.calibrations[name].angle(step.positions[id_]) for id_, name in known.items()},
                time=float(step.play),
                pause=float(step.pause),
            )
            for step in page.steps
        ),
    )


def mtn_of(move: Move, joints: JointTable) -> tuple[MtnFile, list[str]]:
    """A move as a page set of version 1.01, and notes on what such a file cannot hold.

    A page of more than seven keys goes on on free pages (`in_sevens`); one of dense samples (``linear``) is first
    written with as few keys as keep it within one count.
    """
    ids = joints.ids
    for joint in move.joints:
        if not 1 <= ids.get(joint, 0) < IDS:
            raise UsageError(f"joint {joint!r} has no id from 1 to {IDS - 1}", "give a table with --joint ID=NAME")
    numbers = _numbers(move)
    pages = [_BLANK] * PAGES
    notes: list[str] = []
    for name, page in move.pages.items():
        page_notes, steps = _steps(name, page, move.joints, joints)
        notes += page_notes
        compliance = [_LEVEL] * IDS
        for joint, slope in page.slope.items():
            compliance[ids[joint]] = min(slope.bit_length() - 1, 7)
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
    on = {ids[joint] for joint in move.joints}
    file, more = in_sevens(MtnFile(enable=tuple(int(id_ in on) for id_ in range(IDS)), pages=tuple(pages)))
    return file, [*notes, *more]


def _numbers(move: Move) -> dict[str, int]:
    """A page number for every page: its own name where that is one."""
    numbers = {
        name: int(name) for name in move.pages if name.isascii() and name.isdigit() and str(int(name)) == name != "0"
    }
    numbers = {name: number for name, number in numbers.items() if number <= PAGES}
    others = [name for name in move.pages if name not in numbers]
    free = (number for number in range(1, PAGES + 1) if number not in numbers.values())
    for name in others:
        number = next(free, None)
        if number is None:
            raise UsageError(f"{len(move.pages)} pages, and {PAGES} are the most", "cut the move in parts")
        numbers[name] = number
    return numbers


def _steps(name: str, page: Page, every: tuple[str, ...], joints: JointTable) -> tuple[list[str], list[MtnStep]]:
    """Notes, and the page's steps."""
    if not page.keys:
        return [], []
    notes = [f"page {name!r}: {field} is not kept" for field in ("speed", "torque") if getattr(page, field)]
    if missing := [joint for joint in every if joint not in page.joints]:
        raise UsageError(
            f"page {name!r} does not say where {', '.join(missing)} should be",
            "a .mtn page says it for every servo: complete the page, or take the common joints alone",
        )
    ways = tracks(page)
    arrivals = np.cumsum([key.time + key.pause for key in page.keys]) - [key.pause for key in page.keys]
    counts = np.full((len(page.keys), IDS), float(_CENTRE))
    for joint in every:
        calibration = joints.calibrations[joint]
        id_ = joints.ids[joint]
        for row, time in enumerate(arrivals):
            count = calibration.goal(angle := ways[joint].at(float(time)))
            if not 0 <= count <= min(calibration.units.counts, 1023):
                raise UsageError(f"page {name!r}: {joint} at {angle:.2f} rad is beyond its servo", "correct that pose")
            counts[row, id_] = count
    times = [(key.pause, key.time) for key in page.keys]
    if len(page.keys) > STEPS and page.interpolation == "linear" and not any(key.pause for key in page.keys):
        kept = _thinned(arrivals, counts)
        notes.append(f"page {name!r}: {len(page.keys)} samples became {len(kept)} steps, within {_TOLERANCE:g} count")
        ticks = np.round(arrivals[kept] / _CYCLE)
        ways_there = np.diff(ticks, prepend=0.0)
        counts, times = counts[kept], [(0.0, way * _CYCLE) for way in ways_there.tolist()]
    if times[0][1] == 0:
        notes.append(f"page {name!r}: the way to its first pose takes {_FIRST:g} s, because 0 s would be a jump")
        times[0] = (times[0][0], _FIRST)
    times = [(pause, play or _CYCLE) for pause, play in times]
    return notes, [
        MtnStep(tuple(int(count) for count in row), _decimal(pause), _decimal(play))
        for row, (pause, play) in zip(counts.tolist(), times, strict=True)
    ]


def _thinned(times: FloatArray, rows: FloatArray) -> list[int]:
    """Rows, ascending, between which straight lines stay within the tolerance of all others (Douglas and Peucker 1973).

    Args:
        times: (n,), s.
        rows: (n, ids), counts.
    """
    kept = {0, len(times) - 1}
    open_ = [(0, len(times) - 1)]
    while open_:
        first, last = open_.pop()
        if last - first < 2:
            continue
        inner = slice(first + 1, last)
        share = ((times[inner] - times[first]) / (times[last] - times[first]))[:, None]
        line = rows[first] + (rows[last] - rows[first]) * share
        off = np.abs(rows[inner] - line).max(axis=1)
        worst = int(np.argmax(off))
        if off[worst] > _TOLERANCE:
            middle = first + 1 + worst
            kept.add(middle)
            open_ += [(first, middle), (middle, last)]
    return sorted(kept)


def _decimal(value: float) -> Decimal:
    return Decimal(repr(round(float(value), 3)))
