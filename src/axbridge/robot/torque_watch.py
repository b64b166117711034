"""Servos without torque, and joints that are blocked: named after each exchange.

The bus cycle reads the servos' state; each joint has the program's set-points.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from axbridge.errors import BusError, warn
from axbridge.robot.connection import Connection
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.robot.drives.shaft_speed import speed_under
from axbridge.robot.joint import Joint
from axbridge.state import BusEvent, Cause

_GONE = 1.0  # s for which `causes` names a loss of power
_OTHER_PROGRAM = "something else than this program has switched it off"
_HARD = 0.6  # load; a servo that is to press for long, as a gripper, has a torque limit below it
_STANDS = 0.1  # of the speed without a load
_LASTS = 0.2  # s; the first 0.05 s of a start look the same
_EASED = 0.9  # share of the torque left to a blocked joint: with less load it is free again


class TorqueWatch:
    """Revives servos that were without power. Others without torque stay limp."""

    def __init__(self, connection: Connection, joints: Mapping[str, Joint]) -> None:
        self._connection = connection
        self._joints = joints
        self._marked: tuple[frozenset[str], frozenset[str]] | None = None  # limp and withheld, as set in the joints
        self._off: frozenset[str] = frozenset()  # limp until `recover`, and named in a warning
        self._why: dict[str, str] = {}  # reason for that warning, by name
        self._all_had_torque = False  # in the latest exchange
        self._unpowered_at: dict[str, float] = {}  # when their loss of power was noticed, s on the robot's clock

    def update(self, time: float) -> None:
        """Set servos up again that were without power; mark and name limp joints. `time` is the robot's, s."""
        connection, joints = self._connection, self._joints
        restarted = connection.take_restarted()
        if self._all_had_torque and not (connection.events or connection.torqueless or restarted):
            return
        wanted = {name for name, joint in joints.items() if joint.setpoints.enabled and not joint.dead}
        back = {event.name for event in connection.events if event.kind == "without power"} & wanted
        for name in back:
            joints[name].doubt_turns()
            if joints[name].has_goal_turns_away(joints[name].sample("position")):
                connection.cycles[joints[name].config.bus].withhold(name)
                self._why[name] = "it was without power, and may have forgotten its turns"
        for name in restarted:  # before they get torque, which may change the count of a servo at the end of its turn
            joints[name].stand_still(joints[name].sample("position"))
        lost = any(event.kind == "port lost" for event in connection.events)
        for name in joints if lost else back:
            joints[name].torque_loss_count += 1  # the joint must not run after a command over time
        withheld = connection.withheld
        back -= withheld
        for name in connection.unpowered:
            with contextlib.suppress(BusError):  # again in the next step
                here = connection.revive(name, on=name in wanted - withheld)
                joints[name].keep_off()
                if name in back or joints[name].limp:  # else a signal has switched it off, and a goal may be newer
                    joints[name].stand_still(here)
        off = withheld | connection.switched_off
        limp = off | connection.unpowered
        if self._marked is None:
            self._off = withheld  # opening the robot has warned of these
        if (limp, withheld) != self._marked:
            self._marked = limp, withheld
            for name, joint in joints.items():
                joint.torque_loss_count += name in off and not joint.limp
                if joint.limp != (name in limp):
                    joint.void_goal(joint.sample("position"))
                joint.limp, joint.withheld = name in limp, name in withheld
        self._why |= {event.name: why for event in connection.events if (why := _reason(event))}
        before, self._off = self._off, off & (wanted | self._off)
        self._unpowered_at |= dict.fromkeys(back | connection.unpowered & self._unpowered_at.keys(), time)
        if back:
            subject = "all servos" if len(back) == len(joints) else ", ".join(sorted(back))
            warn(f"without power until now: {subject}; each stays where it is until its next command, softly at first")
        for name in sorted(self._off - before):
            warn(f"servo {name!r} has no torque, and stays limp until recover(): {self._why.get(name, _OTHER_PROGRAM)}")
        self._all_had_torque = not limp

    def causes(self, time: float) -> dict[str, list[Cause]]:
        """Why servos have no torque, or had none in the last second, by name; `time` as of `update`.

        Also the alarms for which a servo switches itself off, or leaves itself less torque.
        """
        by_servo: dict[str, list[Cause]] = {name: ["torque off"] for name in sorted(self._off)}
        for name, joint in self._joints.items():
            if isinstance(joint.drive, BusDrive):
                protocol, errors = joint.drive.protocol, joint.sample("errors")
                if not math.isnan(errors) and (alarms := protocol.alarms(int(errors) & protocol.shuts_down)):
                    by_servo.setdefault(name, []).extend(cast("list[Cause]", alarms.words))
        for name, seen in self._unpowered_at.items():
            if time - seen <= _GONE:
                by_servo.setdefault(name, []).append("without power")
        return by_servo


def _reason(event: BusEvent) -> str:
    """Why this leaves a servo limp; empty where it does not."""
    if event.kind == "fault":
        return f"it reports {event.flags.describe()}"
    return {"limit": "it was beyond a limit of its rig", "torque off": _OTHER_PROGRAM}.get(event.kind, "")


@dataclass
class _Watched:
    joint: Joint
    share: float
    still: float  # rad/s
    since: float | None = None  # when it began to push without moving or, once blocked, to need less torque, s
    side: float = 0.0  # the load that it was blocked with; 0: it is not

    def blocked(self, load: float) -> bool:
        """Whether this sample is one of a joint that is blocked."""
        if self.side:
            return load * self.side > 0.0 and abs(load) >= _EASED * self.share
        return abs(load) >= _HARD and abs(self.joint.sample("velocity")) < self.still


class StallWatch:
    """Leaves joints that are blocked a share of their torque, where the rig's `[safety] stall` or the profile wants it.

    The motor model gives the speed that a free motor would have at this duty. A joint that stays below a tenth of it
    for as long as the longest start is blocked. Its torque is restored, softly, when it needs less than the share that
    it has.
    """

    def __init__(self, connection: Connection, joints: Mapping[str, Joint]) -> None:
        self._connection = connection
        self.events: tuple[BusEvent, ...] = ()  # that the latest exchange has shown
        wanted = connection.rig.safety.stall
        self._watched: dict[str, _Watched] = {}
        for name, joint in joints.items():
            drive = joint.drive
            if isinstance(drive, BusDrive):
                share = drive.profile.protection.stall if wanted is None else wanted
                free = speed_under(drive.steady, _HARD, drive.profile.electrics.nominal_voltage, 0.0)
                if share < 1.0:
                    self._watched[name] = _Watched(joint, share, _STANDS * free)

    @property
    def blocked(self) -> list[str]:
        """Who is left a share of its torque now."""
        return [name for name, watched in self._watched.items() if watched.side]

    def update(self) -> None:
        """Take in the latest samples."""
        self.events = ()
        for name, watched in self._watched.items():
            time, load = watched.joint.sample("time"), watched.joint.sample("load")
            if not watched.joint.torque_enabled or watched.blocked(load) == bool(watched.side):
                watched.since = None
            elif watched.since is None:
                watched.since = time
            if watched.since is None or time - watched.since < _LASTS:
                continue
            watched.since, watched.side = None, 0.0 if watched.side else load
            self._connection.cap(name, watched.share if watched.side else None)
            if watched.side:
                self.events += (BusEvent("blocked", name),)
                warn(
                    f"servo {name!r} is blocked: it pushes with {abs(load):.0%} of its torque, and stands; "
                    f"it has {watched.share:.0%} until its goal or what blocks it gives way"
                )
