"""What a robot runs on: buses, a clock, and how to let go of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from axbridge.bus.base import Bus
from axbridge.clock import Clock
from axbridge.physics.engine import Pose
from axbridge.physics.engines.ideal_joints import IdealBank

__all__ = ["REAL", "REMOTE", "SIMULATION", "Backend", "BackendName", "FloatingBase", "Pose"]

BackendName = Literal["real", "sim", "twin"]
SIMULATION, REAL, REMOTE = 0, 1, 2  # Robot.mode, Webots' numbers


@dataclass(frozen=True)
class FloatingBase:
    """The base link of a simulated robot that stands free: where it is, and a hand that puts it somewhere.

    Positions are those of the link's centre of mass.

    Attributes:
        start: Where the rig put it.
        pose: Where it is now.
        place: Puts it somewhere, at rest.
    """

    start: Pose
    pose: Callable[[], Pose]
    place: Callable[[Pose], None]


@dataclass(frozen=True)
class Backend:
    """Everything below a robot.

    Attributes:
        name: ``real``, ``sim`` or ``twin``.
        mode: 0 simulation, 1 real, 2 remote (a networked port).
        clock: Wall time or simulated time; its `sleep_until` is how a robot waits.
        buses: By the rig's names.
        close: Releases ports and worlds; may be called twice.
        ideal: Simulation only: the joints without a Dynamixel, when the rig has any.
        energy: Simulation only: what the motors of the buses have drawn since the start, J: the integral of U·i.
        truth: Simulation only: angle, rad, and torque, N·m, of a servo's shaft (by its name) at a time of `clock`.
        shadows: Twin only: by bus, what gives the simulated bus as of now.
        base: Simulation and twin: the simulated base, when it is not bolted down.
    """

    name: BackendName
    mode: int
    clock: Clock
    buses: Mapping[str, Bus]
    close: Callable[[], None]
    ideal: IdealBank | None = None
    energy: Callable[[], float] | None = None
    truth: Callable[[str, float], tuple[float, float]] | None = None
    shadows: Mapping[str, Callable[[], Bus]] = field(default_factory=dict)
    base: FloatingBase | None = None
