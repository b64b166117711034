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
    """What is shown of a robot."""

    time: float  # s on the robot's clock
    states: StepTable
    goals: Mapping[str, float]  # set-points, rad; NaN where a servo is limp or has none
    on: Mapping[str, bool]  # which motors are switched on
    base: LinkPose | None  # None: unknown, or bolted down
    ghost: Mapping[str, float]  # position of each simulated servo of a twin, rad
    lost: Mapping[str, str]  # what is wrong now, by servo; "" is the line
    causes: tuple[str, ...]  # why servos do not do as their models say, in words; beside a simulation alone
    rate: float  # steps a second
    wanted: float  # steps a second that were asked for, where steps are late; else 0
    late: int  # steps that were late so far
    cycle: float  # time that a bus cycle takes, ms
    packets: Mapping[str, tuple[int, int, int]]  # lost, damaged and late so far, by servo
    contacts: tuple[Contact, ...] = ()  # where a simulated robot touches the floor, and what pushes it there
    seen: float = field(default_factory=monotonic)  # when it was taken, monotonic


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
    now, then = (picture.goals, picture.on), (before.goals, before.on)
    if now != then and repr(now) != repr(then):  # NaN is like NaN
        return True
    if picture.base is not None and before.base is not None:
        places = np.concatenate(picture.base) - np.concatenate(before.base)
        if np.abs(places).max() > _STILL:
            return True
    names = list(picture.states)
    here, there = picture.states.column("position"), before.states.column("position")
    ghosts = _column(picture.ghost, names) - _column(before.ghost, names)
    return bool((np.abs(here - there) > least).any() or (np.abs(ghosts) > least).any())


def _column(by_name: Mapping[str, float], names: list[str]) -> FloatArray:
    return np.array([by_name.get(name, np.nan) for name in names], dtype=float)
