"""A robot at one moment: what the step leaves behind for the page."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.rotations import LinkPose
from axbridge.sim.body.soles import Contact
from axbridge.state import StepTable

_STILL = 1e-3  # m, or of a quaternion: a base that has moved less has not moved
_CONTACTS = 16  # that are told, the strongest
_NOWHERE = (np.nan,) * 7


@dataclass(frozen=True)
class Picture:
    """What is shown of a robot.

    Attributes:
        time: S on the robot's clock.
        states: By servo.
        goals: Set-points, rad; NaN where a servo is limp or has none.
        on: Which motors are switched on.
        base: Where its base is; None: unknown, or bolted down.
        ghost: Position of each simulated servo of a twin, rad.
        lost: What is wrong now, by servo; "" is the line.
        causes: Why servos do not do as their models say, in words; beside a simulation alone.
        rate: Steps a second.
        wanted: Steps a second that were asked for, where steps are late; else 0.
        late: Steps that were late so far.
        cycle: Time that a bus cycle takes, ms.
        packets: Lost, damaged and late packets so far, by servo.
        contacts: Where a simulated robot touches the floor, and what pushes it there.
        seen: When it was taken, monotonic.
    """

    time: float
    states: StepTable
    goals: Mapping[str, float]
    on: Mapping[str, bool]
    base: LinkPose | None
    ghost: Mapping[str, float]
    lost: Mapping[str, str]
    causes: tuple[str, ...]
    rate: float
    wanted: float
    late: int
    cycle: float
    packets: Mapping[str, tuple[int, int, int]]
    contacts: tuple[Contact, ...] = ()
    seen: float = field(default_factory=monotonic)


def frame(picture: Picture) -> bytes:
    """What `web/page.js` draws: the time, float64; in float32 the base, columns, and contacts, six numbers each."""
    states, names = picture.states, list(picture.states)
    base = _NOWHERE if picture.base is None else (*picture.base[0], *picture.base[1])
    columns = [
        _column(picture.goals, names), states.column("position"), _column(picture.ghost, names),
        *map(states.column, ("load", "voltage", "temperature")), _column(picture.on, names),
    ]  # fmt: skip
    strongest = sorted(picture.contacts, key=lambda one: -float(np.linalg.norm(one.force)))[:_CONTACTS]
    touching = [number for one in strongest for number in (*one.point, *one.force)]
    return struct.pack("<d", picture.time) + np.concatenate((base, *columns, touching)).astype("<f4").tobytes()


def moved(picture: Picture, before: Picture, least: FloatArray) -> bool:
    """Whether a joint is elsewhere by `least`, rad or m, or more; or a base, goal or motor is not as it was."""
    if (picture.goals, picture.on) != (before.goals, before.on) and _others(picture) != _others(before):
        return True
    if picture.base is not None and before.base is not None:
        places = np.concatenate(picture.base) - np.concatenate(before.base)
        if np.abs(places).max() > _STILL:
            return True
    names = list(picture.states)
    here, there = picture.states.column("position"), before.states.column("position")
    ghosts = _column(picture.ghost, names) - _column(before.ghost, names)
    return bool((np.abs(here - there) > least).any() or (np.abs(ghosts) > least).any())


def _others(picture: Picture) -> tuple[str, str]:
    """Goals and motors, NaN like NaN."""
    return repr(picture.goals), repr(picture.on)


def _column(by_name: Mapping[str, float], names: list[str]) -> FloatArray:
    return np.array([by_name.get(name, np.nan) for name in names], dtype=float)
