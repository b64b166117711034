"""A simulated world that follows real servos in time; its limp joints follow theirs."""

from __future__ import annotations

import math

from axbridge.bus.cycle import rows_of
from axbridge.robot.drives.dynamixel import DynamixelDrive
from axbridge.robot.samples import Samples, Scales
from axbridge.virtual.world import World

_BY_HAND = math.radians(0.6)  # a limp joint this far from its twin takes the twin along
_LONGEST = 5.0  # s that the simulation catches up with: a program that was stopped for an hour does not wait as long


class Shadow:
    """The twins of real servos.

    Attributes:
        world: As given.
        lag: The real servos' clock minus simulated time, s; NaN before the first `follow`.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.lag = math.nan

    def follow(self, now: float) -> None:
        """Let the world go on to this moment of the real servos' clock, s; it begins at the first one."""
        behind = now - self.world.now()
        self.lag = behind if math.isnan(self.lag) else max(self.lag, behind - _LONGEST)
        self.world.sleep_until(now - self.lag)

    def table(self, scales: Scales, start: float) -> Samples:
        """What the twins of these servos measure now; `start` is when time began, on the real servos' clock, s."""
        return scales.table(rows_of(map(self.world.sample, scales.servos)), start - self.lag)

    def follow_limp(self, drive: DynamixelDrive, position: float, twin: float) -> None:
        """Put the twin of a limp joint where that is (rad), if it is elsewhere: no model knows hands and gravity."""
        if abs(position - twin) > _BY_HAND:
            self.place(drive, position)

    def place(self, drive: DynamixelDrive, position: float) -> None:
        """Put a twin there, rad, at rest."""
        self.world.place(drive.config.name, drive.config.direction * position)

    def shut_down(self, name: str) -> None:
        """Let a twin switch itself off, as its servo has."""
        twin = self.world.servos[name]
        if not twin.alarms.tripped:
            twin.overload(self.world.now())
