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
from axbridge.bus.protocols.known import PROTOCOLS, SCS, STS
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
    """Where the registers are that tell a servo what to do."""

    mode: tuple[int, int]  # from where on, and how many bytes, the registers are that tell a wheel or another mode
    reads: tuple[tuple[int, int], ...]  # Likewise, what is read all the time; the bytes come one behind the other
    loop: tuple[slice, int]  # of those bytes, and where they begin in the servo
    torque: tuple[slice, int]  # of those bytes, and where they begin in the servo
    goal: tuple[slice, int]  # of those bytes, and where they begin in the servo
    on: tuple[slice, int]  # of those bytes, and where they begin in the servo
    position: slice  # the goal position, of those bytes


_COMMANDS: dict[Version, _Commands] = {  # by version of the protocol
    1: _Commands(
        mode=(int(Address.CW_ANGLE_LIMIT), 4),
        reads=((int(Address.TORQUE_ENABLE), Address.PRESENT_POSITION - Address.TORQUE_ENABLE),),
        loop=(slice(2, 6), Address.TORQUE_ENABLE + 2),
        torque=(slice(10, 12), int(Address.TORQUE_LIMIT)),
        goal=(slice(6, 10), int(Address.GOAL_POSITION)),
        on=(slice(0, 1), int(Address.TORQUE_ENABLE)),
        position=slice(6, 8),
    ),
    2: _Commands(
        mode=(int(XAddress.DRIVE_MODE), 2),
        reads=(
            (int(XAddress.TORQUE_ENABLE), 1), (int(XAddress.VELOCITY_I_GAIN), 10), (int(XAddress.GOAL_PWM), 2),
            (int(XAddress.GOAL_VELOCITY), 16),
        ),
        loop=(slice(1, 11), int(XAddress.VELOCITY_I_GAIN)),
        torque=(slice(11, 13), int(XAddress.GOAL_PWM)),
        goal=(slice(13, 29), int(XAddress.GOAL_VELOCITY)),
        on=(slice(0, 1), int(XAddress.TORQUE_ENABLE)),
        position=slice(25, 29),
    ),
    **{
        one.name: _Commands(
            mode=one.mode,
            reads=((one.torque_enable, 8), (one.torque_limit, 2), (21, 7)),  # the last are gains
            loop=(slice(10, 17), 21),
            torque=(slice(8, 10), one.torque_limit),
            goal=(slice(1, 8), one.torque_enable + 1),
            on=(slice(0, 1), one.torque_enable),
            position=slice(2, 4),
        )
        for one in (STS, SCS)
    },
}  # fmt: skip
_NOBODY = RawState(0.0, 0, 0, 0, 0, 0, 0)


class PassiveTwin:
    """Watches the servos of a rig beside their models."""

    def __init__(self, rig: Rig, buses: Mapping[str, Bus]) -> None:
        self._buses = buses
        self._drives = {servo.name: drive_of(rig, servo, buses[servo.bus]) for servo in rig.dynamixels}
        self._scales = Scales(list(self._drives.values()))
        self._residuals = residuals_of(rig)
        self._modes: dict[str, bytes] = {}  # as they were when the servo was seen first
        self._commands: dict[str, bytes] = {}  # as they were seen last
        self._shadow = Shadow(World(rig))

    def update(self, now: float, states: Mapping[str, RawState]) -> list[tuple[Cause, str]]:
        """Take in what the servos say now; what is newly wrong, with the servo."""
        shadow = self._shadow
        shadow.follow(now)
        blocks = self._read(states, lambda commands: commands.reads)
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

    def _read(self, names: Iterable[str], wanted: Callable[[_Commands], Iterable[tuple[int, int]]]) -> dict[str, bytes]:
        """Registers of these servos, by name; without those that do not answer."""
        known = [name for name in names if name in self._drives]
        found: dict[str, bytes] = {}
        for line, bus in self._buses.items():
            here = [self._drives[name] for name in known if self._drives[name].config.bus == line]
            asked = [(one, place) for one in here for place in wanted(_COMMANDS[one.profile.protocol])]
            with contextlib.suppress(PortError):  # the reader of the states says so
                answers = bus.read_many([(one.id, *place) for one, place in asked])
                lost = {}
                for (one, (_, length)), answer in zip(asked, answers, strict=True):
                    name = one.config.name
                    if isinstance(answer, Reply) and len(answer.data) == length:
                        found[name] = found.get(name, b"") + answer.data
                    else:
                        lost[name] = answer
                found = {name: data for name, data in found.items() if name not in lost}
        return found

    def _copy(self, name: str, state: RawState, block: bytes) -> float:
        """Write to the simulated servo what was written to the real one; its goal, rad, NaN where it is not judged."""
        drive, world = self._drives[name], self._shadow.world
        commands, twin, now = _COMMANDS[drive.profile.protocol], world.servos[name], world.now()
        if name not in self._modes:
            self._modes |= (found := self._read([name], lambda commands: (commands.mode,)))
            for mode in found.values():
                twin.write(commands.mode[0], mode, now)
        before = self._commands.get(name, bytes(len(block)))
        if block != before:
            self._commands[name] = block
            if not before[0]:
                self._shadow.place(drive, drive.calibration.angle(state.position))
            always = commands.loop, commands.torque, commands.on
            for part, address in (*always, commands.goal) if block[0] else always:  # a goal switches an AX-12 on
                twin.write(address, block[part], now)
        protocol, registers = PROTOCOLS[drive.profile.protocol], drive.profile.registers
        weak = protocol.number(block[commands.torque[0]]) < drive.profile.units.full_scale
        mode = self._modes.get(name, b"")[-protocol.mode[1] :]
        if not block[0] or weak or not mode or protocol.endless_goal(mode) is not None:
            return math.nan
        return drive.calibration.angle(registers["goal_position"].decode(block[commands.position]))
