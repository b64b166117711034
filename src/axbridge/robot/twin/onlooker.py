"""A simulated twin of servos that somebody else commands: it reads their registers, writes nothing, and names causes.

What was written to a servo stands in its registers. Whatever differs there from the time before is written to the
simulated one; then both are compared as on a robot that is a twin itself (`axbridge.robot.twin.residuals`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping

from axbridge.bus.base import Bus, Reply
from axbridge.bus.cycle import Cause, RawState
from axbridge.config.registers import Address
from axbridge.config.rig import Rig
from axbridge.errors import PortError
from axbridge.robot.drives.dynamixel import DynamixelDrive
from axbridge.robot.twin.allowance import residuals_of
from axbridge.robot.twin.residuals import SHUT_DOWN
from axbridge.robot.twin.shadow import Shadow
from axbridge.units import FULL_SCALE
from axbridge.virtual.world import World

__all__ = ["Onlooker"]

_LIMITS = int(Address.CW_ANGLE_LIMIT), 4  # of the angle, both 0 for a wheel
_COMMANDS = int(Address.TORQUE_ENABLE), int(Address.PRESENT_POSITION) - int(Address.TORQUE_ENABLE)
_LOOP, _GOAL, _TORQUE, _ON = slice(2, 6), slice(6, 10), slice(10, 12), slice(0, 1)  # of those bytes


class Onlooker:
    """Watches the servos of a rig beside their models.

    Args:
        rig: The robot, with a world.
        buses: Its real buses, by name.

    Raises:
        RigError, ProfileError: something that the rig names is wrong.
    """

    def __init__(self, rig: Rig, buses: Mapping[str, Bus]) -> None:
        self._buses = buses
        self._drives = {
            servo.name: DynamixelDrive(servo, rig.profile_of(servo), rig.model_of(servo), buses[servo.bus])
            for servo in rig.dynamixels
        }
        self._residuals = residuals_of(rig)
        self._limits: dict[str, bytes] = {}  # as they were when the servo was seen first
        self._commands: dict[str, bytes] = {}  # as they were seen last
        self._shadow = Shadow(World(rig))

    def look(self, now: float, states: Mapping[str, RawState]) -> list[tuple[Cause, str]]:
        """Take in what the servos say now; what is newly wrong, with the servo.

        Args:
            now: S on the buses' clock; the first call's is when the simulation begins.
            states: What each servo that answered has measured, by name.
        """
        shadow = self._shadow
        shadow.follow(now)
        blocks = self._read(states, *_COMMANDS)
        goals = {name: self._take(name, states[name], block) for name, block in blocks.items()}
        measured = {name: self._drives[name].state(states[name], shadow.lag) for name in goals}
        twins = {name: shadow.state(self._drives[name], shadow.lag) for name in goals}
        for name, state in measured.items():
            if math.isnan(goals[name]) or SHUT_DOWN & state.errors:
                shadow.lead(self._drives[name], state.position, twins[name].position)
        return self._residuals.look(now, measured, twins, goals)

    def close(self) -> None:
        """End the simulation."""
        self._shadow.world.close()

    def _read(self, names: Iterable[str], address: int, length: int) -> dict[str, bytes]:
        """Registers of these servos, by name; without those that do not answer."""
        found: dict[str, bytes] = {}
        for name, bus in self._buses.items():
            asked = [one for one in names if one in self._drives and self._drives[one].config.bus == name]
            with contextlib.suppress(PortError):  # whoever reads the states says so
                answers = bus.read_many([(self._drives[one].id, address, length) for one in asked])
                pairs = zip(asked, answers, strict=True)
                found |= {one: answer.data for one, answer in pairs if isinstance(answer, Reply)}
        return found

    def _take(self, name: str, state: RawState, block: bytes) -> float:
        """Write to the simulated servo what was written to the real one; its goal, rad, NaN where it is not judged."""
        drive, world = self._drives[name], self._shadow.world
        twin, now = world.servos[name], world.now()
        if name not in self._limits:
            self._limits |= (found := self._read([name], *_LIMITS))
            for limits in found.values():
                twin.take_block(_LIMITS[0], limits, now)
        before = self._commands.get(name, bytes(len(block)))
        if block != before:
            self._commands[name] = block
            if not before[0]:
                self._shadow.place(drive, drive.calibration.angle(state.position))
            for part in (_LOOP, _TORQUE, _GOAL, _ON) if block[0] else (_LOOP, _TORQUE, _ON):  # a goal switches it on
                twin.take_block(_COMMANDS[0] + part.start, block[part], now)
        weak = int.from_bytes(block[_TORQUE], "little") < FULL_SCALE
        if not block[0] or weak or not any(self._limits.get(name, b"")):
            return math.nan
        return drive.calibration.angle(int.from_bytes(block[_GOAL][:2], "little"))
