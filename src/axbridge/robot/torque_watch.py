"""Detection of servos without torque and of blocked joints, after each exchange.

It compares the states that the bus cycle reads with the set-points of the joints.
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

_REPORT_TIME = 1.0  # s for which `causes` reports a loss of power
_OTHER_PROGRAM = "something else than this program has switched it off"
HARD = 0.6  # load; a servo that must press for long, as a gripper, needs a torque limit below it
_STANDING_SHARE = 0.1  # of the free speed at this duty
LASTS = 0.2  # s; the first 0.05 s of a start look the same
_FREE_SHARE = 0.9  # of a blocked joint's reduced torque: below this load it is free again


class TorqueWatch:
    """Sets servos up again after a loss of power; others without torque stay limp."""

    def __init__(self, connection: Connection, joints: Mapping[str, Joint]) -> None:
        self._connection = connection
        self._joints = joints
        self._marked: tuple[frozenset[str], frozenset[str]] | None = None  # limp and withheld, as set in the joints
        self._off: frozenset[str] = frozenset()  # limp until `recover`, and named in a warning
        self._why: dict[str, str] = {}  # reason for that warning, by name
        self._all_had_torque = False  # in the latest exchange
        self._unpowered_at: dict[str, float] = {}  # when their loss of power was noticed, s on the robot's clock

    def update(self, time: float) -> None:
        """Restore servos after a loss of power; mark limp joints and warn of them. `time` is the robot's, s."""
        connection, joints = self._connection, self._joints
        restarted = connection.take_restarted()
        if self._all_had_torque and not (connection.events or connection.torqueless or restarted):
            return
        wanted = {name for name, joint in joints.items() if joint.setpoints.enabled and not joint.battery_empty}
        lost_power = {event.name for event in connection.events if event.kind == "without power"}
        # each servo is written to in turn: in the rig's order, because that of a set differs from program to program
        back = [name for name in joints if name in lost_power & wanted]
        for name in back:
            joints[name].mark_turns_unknown()
            if joints[name].has_goal_turns_away(joints[name].sample("position")):
                connection.cycles[joints[name].config.bus].withhold(name)
                self._why[name] = "it was without power, and may have forgotten its turns"
        for name, joint in joints.items():  # before torque on, which may change the position count at the end of a turn
            if name in restarted:
                joint.stand_still(joint.sample("position"))
        lost = any(event.kind == "port lost" for event in connection.events)
        for name in joints if lost else back:
            joints[name].torque_loss_count += 1  # the joint must not follow a running trajectory
        withheld = connection.withheld
        back = [name for name in back if name not in withheld]
        unpowered = connection.unpowered
        for name, joint in joints.items():
            if name in unpowered:
                with contextlib.suppress(BusError):  # again in the next step
                    here = connection.revive(name, on=name in wanted - withheld)
                    joint.keep_off()
                    if name in back or joint.limp:  # else a signal has switched it off; its goal may be newer
                        joint.stand_still(here)
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
        still_off = connection.unpowered & self._unpowered_at.keys()
        self._unpowered_at |= {name: time for name in joints if name in back or name in still_off}
        if back:
            subject = "all servos" if len(back) == len(joints) else ", ".join(back)
            warn(f"without power until now: {subject}; each stays where it is until its next command, softly at first")
        for name in sorted(self._off - before):
            warn(f"servo {name!r} has no torque, and stays limp until recover(): {self._why.get(name, _OTHER_PROGRAM)}")
        self._all_had_torque = not limp

    def causes(self, time: float) -> dict[str, list[Cause]]:
        """Return why servos have no torque or had no power in the last second, by name; `time` as in `update`.

        This includes the alarms for which a servo shuts itself down or reduces its torque.
        """
        by_servo: dict[str, list[Cause]] = {name: ["torque off"] for name in sorted(self._off)}
        for name, joint in self._joints.items():
            if isinstance(joint.drive, BusDrive):
                protocol, errors = joint.drive.protocol, joint.sample("errors")
                if not math.isnan(errors) and (alarms := protocol.alarms(int(errors) & protocol.shuts_down)):
                    by_servo.setdefault(name, []).extend(cast("list[Cause]", alarms.words))
        for name, seen in self._unpowered_at.items():
            if time - seen <= _REPORT_TIME:
                by_servo.setdefault(name, []).append("without power")
        return by_servo


def _reason(event: BusEvent) -> str:
    """Return why this event leaves a servo limp; empty if it does not."""
    if event.kind == "fault":
        return f"it reports {event.flags.describe()}"
    return {"limit": "it was beyond a limit of its rig", "torque off": _OTHER_PROGRAM}.get(event.kind, "")


def standing_speed(drive: BusDrive) -> float:
    """Return the speed, rad/s, below which a servo with a load above `HARD` counts as standing."""
    return _STANDING_SHARE * speed_under(drive.steady, HARD, drive.profile.electrics.nominal_voltage, 0.0)


@dataclass
class _Watched:
    joint: Joint
    share: float
    still: float  # rad/s
    since: float | None = None  # start of pushing without motion or, once blocked, of needing less torque, s
    side: float = 0.0  # load at which it was blocked; 0: not blocked

    def blocked(self, load: float) -> bool:
        """Return whether the load of this sample is that of a blocked joint."""
        if self.side:
            return load * self.side > 0.0 and abs(load) >= _FREE_SHARE * self.share
        return abs(load) >= HARD and abs(self.joint.sample("velocity")) < self.still


class StallWatch:
    """Reduces the torque of blocked joints to the share that the rig's `[safety] stall` or the profile gives.

    The motor model gives the speed of a free motor at this duty. A joint that stays below a tenth of it for longer than
    any start takes is blocked. When it needs less than the reduced torque, its torque limit rises again softly.
    """

    def __init__(self, connection: Connection, joints: Mapping[str, Joint]) -> None:
        self._connection = connection
        self.events: tuple[BusEvent, ...] = ()  # of the latest exchange
        wanted = connection.rig.safety.stall
        self._watched: dict[str, _Watched] = {}
        for name, joint in joints.items():
            drive = joint.drive
            if isinstance(drive, BusDrive):
                share = drive.profile.protection.stall if wanted is None else wanted
                if share < 1.0:
                    self._watched[name] = _Watched(joint, share, standing_speed(drive))

    @property
    def blocked(self) -> list[str]:
        """Return the blocked servos, whose torque is reduced."""
        return [name for name, watched in self._watched.items() if watched.side]

    def update(self) -> None:
        """Evaluate the latest samples."""
        self.events = ()
        for name, watched in self._watched.items():
            time, load = watched.joint.sample("time"), watched.joint.sample("load")
            if not watched.joint.torque_enabled or watched.blocked(load) == bool(watched.side):
                watched.since = None
            elif watched.since is None:
                watched.since = time
            if watched.since is None or time - watched.since < LASTS:
                continue
            watched.since, watched.side = None, 0.0 if watched.side else load
            self._connection.cap(name, watched.share if watched.side else None)
            if watched.side:
                self.events += (BusEvent("blocked", name),)
                warn(
                    f"servo {name!r} is blocked: it pushes with {abs(load):.0%} of its torque and does not move; "
                    f"its torque limit is {watched.share:.0%} until it moves, or its goal changes"
                )
