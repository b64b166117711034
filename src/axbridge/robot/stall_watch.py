"""Joints that push hard and do not move: named, and left a share of their torque before that hurts them.

A motor that pushes so hard would turn if it could: at what speed, its model says. A joint below a tenth of that for as
long as no start takes is blocked. It gets its torque back, softly, when it no longer needs all of what it is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from axbridge.errors import warn
from axbridge.robot.connection import Connection
from axbridge.robot.drives.dynamixel import DynamixelDrive
from axbridge.robot.drives.shaft_speed import speed_under
from axbridge.robot.joint import Joint
from axbridge.state import BusEvent

_HARD = 0.6  # load; a servo that is to press for long, as a gripper, has a torque limit below it
_STANDS = 0.1  # of the speed without a load
_LASTS = 0.2  # s; the first 0.05 s of a start look the same
_EASED = 0.9  # of the torque that it is left


@dataclass
class _Watched:
    joint: Joint
    share: float
    still: float  # rad/s
    since: float | None = None  # when it began to push without moving, or to need less than it is left, s
    side: float = 0.0  # the load that it was blocked with; 0: it is not

    def blocked(self, load: float) -> bool:
        """Whether this sample is one of a joint that is blocked."""
        if self.side:
            return load * self.side > 0.0 and abs(load) >= _EASED * self.share
        return abs(load) >= _HARD and abs(self.joint.sample("velocity")) < self.still


class StallWatch:
    """Looks after each exchange at the servos of a rig whose `[safety] stall`, or whose profile, wants it."""

    def __init__(self, connection: Connection, joints: Mapping[str, Joint]) -> None:
        self._connection = connection
        self.events: tuple[BusEvent, ...] = ()  # that the latest exchange has shown
        wanted = connection.rig.safety.stall
        self._watched: dict[str, _Watched] = {}
        for name, joint in joints.items():
            drive = joint.drive
            if isinstance(drive, DynamixelDrive):
                share = drive.profile.protection.stall if wanted is None else wanted
                free = speed_under(drive.steady, _HARD, drive.profile.electrics.nominal_voltage, 0.0)
                if share < 1.0:
                    self._watched[name] = _Watched(joint, share, _STANDS * free)

    @property
    def blocked(self) -> list[str]:
        """Who is left a share of its torque now."""
        return [name for name, one in self._watched.items() if one.side]

    def update(self) -> None:
        """Take in the latest samples."""
        self.events = ()
        for name, one in self._watched.items():
            time, load = one.joint.sample("time"), one.joint.sample("load")
            if not one.joint.torque_enabled or one.blocked(load) == bool(one.side):
                one.since = None
            elif one.since is None:
                one.since = time
            if one.since is None or time - one.since < _LASTS:
                continue
            one.since, one.side = None, 0.0 if one.side else load
            self._connection.cap(name, one.share if one.side else None)
            if one.side:
                self.events += (BusEvent("blocked", name),)
                warn(
                    f"servo {name!r} is blocked: it pushes with {abs(load):.0%} of its torque, and stands; "
                    f"it has {one.share:.0%} until its goal or what blocks it gives way"
                )
