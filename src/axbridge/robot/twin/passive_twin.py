"""A simulated twin of servos that somebody else commands: it reads their registers, writes nothing, and names causes.

What was written to a servo stands in its registers. Whatever differs there from the time before is written to the
simulated one; then both are compared as on a robot that is a twin itself (`axbridge.robot.twin.residuals`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from axbridge.bus.base import Bus, Reply
from axbridge.bus.cycle import RawState, rows_of
from axbridge.bus.protocols.known import SCS, STS
from axbridge.bus.protocols.protocol import Protocol, Span
from axbridge.config.instructions import Version
from axbridge.config.registers import Address, XAddress
from axbridge.config.rig import Rig
from axbridge.errors import PortError
from axbridge.robot.connection import drive_of
from axbridge.robot.samples import Scales
from axbridge.robot.twin.residuals import is_shut_down, residuals_of
from axbridge.robot.twin.twin import Shadow
from axbridge.state import Cause
from axbridge.virtual.world import World


class _Commands(NamedTuple):
    """Where the registers are that tell a servo what to do: first addresses, and how many bytes."""

    mode: Span  # that tell a wheel or another mode
    loop: Span  # of its position loop
    goal: Span  # where it goes, and how


_COMMANDS: dict[Version, _Commands] = {  # by version of the protocol
    1: _Commands((int(Address.CW_ANGLE_LIMIT), 4), (Address.TORQUE_ENABLE + 2, 4), (int(Address.GOAL_POSITION), 4)),
    2: _Commands((int(XAddress.DRIVE_MODE), 2), (int(XAddress.VELOCITY_I_GAIN), 10), (int(XAddress.GOAL_VELOCITY), 16)),
    **{one.name: _Commands(one.mode, (21, 7), (one.torque_enable + 1, 7)) for one in (STS, SCS)},
}
_TABLE = 256  # bytes: no command is beyond
_NOBODY = RawState(0.0, 0, 0, 0, 0, 0, 0)


class PassiveTwin:
    """Watches the servos of a rig beside their models."""

    def __init__(self, rig: Rig, buses: Mapping[str, Bus]) -> None:
        self._buses = buses
        self._drives = {servo.name: drive_of(rig, servo, buses[servo.bus]) for servo in rig.dynamixels}
        self._scales = Scales(list(self._drives.values()))
        self._residuals = residuals_of(rig)
        self._modes: dict[str, bytearray] = {}  # control tables with the modes of when a servo was seen first
        self._commands: dict[str, bytearray] = {}  # likewise, with the commands that were seen last
        self._shadow = Shadow(World(rig))

    def update(self, now: float, states: Mapping[str, RawState]) -> list[tuple[Cause, str]]:
        """Take in what the servos say now; what is newly wrong, with the servo."""
        shadow = self._shadow
        shadow.follow(now)
        blocks = self._read(states, _reads)
        goals = {name: self._copy(name, states[name], block) for name, block in blocks.items()}
        raw = rows_of(states.get(name, _NOBODY) for name in self._drives)
        tables = self._scales.table(raw, shadow.lag), shadow.table(self._scales, shadow.lag)
        measured, twins = ({name: table[name] for name in goals} for table in tables)
        for name, state in measured.items():
            if math.isnan(goals[name]) or is_shut_down(state):
                shadow.follow_limp(self._drives[name], state.position, twins[name].position)
        return self._residuals.update(now, measured, twins, goals)

    def close(self) -> None:
        """End the simulation."""
        self._shadow.world.close()

    def _read(self, names: Iterable[str], wanted: Callable[[Protocol], Iterable[Span]]) -> dict[str, bytearray]:
        """Control tables with registers of these servos, by name; without those that do not answer."""
        known = [name for name in names if name in self._drives]
        found: dict[str, bytearray] = {}
        for line, bus in self._buses.items():
            here = [self._drives[name] for name in known if self._drives[name].config.bus == line]
            asked = [(one, place) for one in here for place in wanted(one.protocol)]
            with contextlib.suppress(PortError):  # the reader of the states says so
                answers = bus.read_many([(one.id, *place) for one, place in asked])
                lost = {}
                for (one, (address, length)), answer in zip(asked, answers, strict=True):
                    name = one.config.name
                    if isinstance(answer, Reply) and len(answer.data) == length:
                        found.setdefault(name, bytearray(_TABLE))[address : address + length] = answer.data
                    else:
                        lost[name] = answer
                found = {name: data for name, data in found.items() if name not in lost}
        return found

    def _copy(self, name: str, state: RawState, table: bytearray) -> float:
        """Write to the simulated servo what was written to the real one; its goal, rad, NaN where it is not judged."""
        drive, world = self._drives[name], self._shadow.world
        commands, twin, now = _COMMANDS[drive.profile.protocol], world.servos[name], world.now()
        protocol, registers = drive.protocol, drive.profile.registers
        torque, limit = (protocol.torque_enable, 1), (protocol.torque_limit, 2)
        if name not in self._modes:
            self._modes |= (found := self._read([name], lambda protocol: (_COMMANDS[protocol.name].mode,)))
            for modes in found.values():
                twin.write(commands.mode[0], _part(modes, commands.mode), now)
        on = table[protocol.torque_enable]
        before = self._commands.get(name, bytearray(_TABLE))
        if table != before:
            self._commands[name] = table
            if not before[protocol.torque_enable]:
                self._shadow.place(drive, drive.calibration.angle(state.position))
            always = commands.loop, limit, torque
            for place in (*always, commands.goal) if on else always:  # a goal switches an AX-12 on
                twin.write(place[0], _part(table, place), now)
        weak = protocol.number(_part(table, limit)) < drive.profile.units.full_scale
        if not on or weak or name not in self._modes:
            return math.nan
        if protocol.endless_goal(_part(self._modes[name], protocol.mode)) is not None:
            return math.nan
        return drive.calibration.angle(registers["goal_position"].decode(_part(table, protocol.goal_position)))


def _reads(protocol: Protocol) -> list[Span]:
    """What is read all the time: whether a servo has torque, and how much, its loop and its goal."""
    commands, found = _COMMANDS[protocol.name], list[Span]()
    torque = (protocol.torque_enable, 1), (protocol.torque_limit, 2)
    for address, length in sorted((*torque, commands.loop, commands.goal)):
        if found and address <= sum(found[-1]) + 1:  # a neighbour costs no packet
            found[-1] = found[-1][0], address + length - found[-1][0]
        else:
            found.append((address, length))
    return found


def _part(table: bytearray, place: Span) -> bytes:
    return bytes(table[place[0] : sum(place)])
