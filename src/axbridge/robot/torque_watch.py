"""Servos without the torque that they should have: named, and revived where they were without power.

Others stay limp. What the servos say is found out by the bus's cycle; what the program wants, each joint knows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from axbridge.errors import BusError, warn
from axbridge.robot.connection import Connection
from axbridge.robot.joint import Joint
from axbridge.state import BusEvent, Cause

_GONE = 1.0  # s after which a loss of power is no cause any more
_SOMEBODY = "something else than this program has switched it off"


class TorqueWatch:
    """Looks after each exchange."""

    def __init__(self, connection: Connection, joints: Mapping[str, Joint]) -> None:
        self._connection = connection
        self._joints = joints
        self._marked: tuple[frozenset[str], frozenset[str]] | None = None
        self._off: frozenset[str] = frozenset()
        self._why: dict[str, str] = {}
        self._quiet = False  # nobody was without torque in the latest exchange
        self._without: dict[str, float] = {}  # when they were without power, s on the robot's clock

    def update(self, time: float) -> None:
        """Revive, mark and say what the latest exchange has shown; `time` is the robot's, s."""
        connection, joints = self._connection, self._joints
        if self._quiet and not (connection.events or connection.torqueless):
            return
        wanted = {name for name, joint in joints.items() if joint.setpoints.enabled and not joint.dead}
        for name in connection.dark:
            with contextlib.suppress(BusError):  # again in the next step
                connection.revive(name, on=name in wanted)
        kept = connection.withheld
        off = kept | connection.taken
        limp = off | connection.dark
        if self._marked is None:
            self._off = kept  # that was said when it was opened
        if (limp, kept) != self._marked:
            self._marked = limp, kept
            for name, joint in joints.items():
                joint.limp, joint.withheld = name in limp, name in kept
        self._why |= {event.name: why for event in connection.events if (why := _reason(event))}
        before, self._off = self._off, off & (wanted | self._off)
        back = {event.name for event in connection.events if event.kind == "without power"} & wanted
        self._without |= dict.fromkeys(back | connection.dark & self._without.keys(), time)
        if back:
            who = "all servos" if len(back) == len(joints) else ", ".join(sorted(back))
            warn(f"without power until now: {who}; each starts from where it is, with little torque at first")
        for name in sorted(self._off - before):
            warn(f"servo {name!r} has no torque, and stays limp until recover(): {self._why.get(name, _SOMEBODY)}")
        self._quiet = not limp

    def causes(self, time: float) -> dict[str, list[Cause]]:
        """Why servos have no torque, or had none in the last second, by name; `time` as of `update`."""
        found: dict[str, list[Cause]] = {name: ["torque off"] for name in sorted(self._off)}
        for name, seen in self._without.items():
            if time - seen <= _GONE:
                found.setdefault(name, []).append("without power")
        return found


def _reason(event: BusEvent) -> str:
    """Why this leaves a servo limp; empty where it does not."""
    if event.kind == "fault":
        return f"it reports {event.flags.describe()}"
    return {"limit": "it was beyond a limit of its rig", "torque off": _SOMEBODY}.get(event.kind, "")
