"""A robot at one moment: what the step leaves behind for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from axbridge.rotations import LinkPose
from axbridge.sim.body.soles import Contact
from axbridge.state import ServoState


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
    states: Mapping[str, ServoState]
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
