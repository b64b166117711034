"""Real servos beside simulated ones that get the same commands at the same time; differences and their causes.

A robot with such a shadow behaves as the real robot; `robot.simulation.shadow` gives the simulated states.
`Twin` and `PassiveTwin` only compare; they send no command to real servos.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from axbridge.bus.base import Bus, Reply
from axbridge.bus.protocols.packet import Packet
from axbridge.bus.protocols.protocol import Protocol, Span
from axbridge.bus.rows import RawState, Rows
from axbridge.bus.serial import SerialBus
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, BusError, BusTimeout, CorruptPacket, PortError
from axbridge.jit import compile_first
from axbridge.robot.backend import Backend, call_all, open_real, open_sim
from axbridge.robot.connection import Connection
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.robot.drives.known import drive_of
from axbridge.robot.samples import Samples, Scales
from axbridge.robot.servo import Servo
from axbridge.robot.twin.residuals import residuals_of
from axbridge.sim.support import Gantry
from axbridge.state import BusEvent, Cause, ServoState
from axbridge.virtual.world import World

_log = logging.getLogger(__name__)
BY_HAND = math.radians(0.6)  # a limp joint this far from its twin moves the twin
_MOST_CATCH_UP = 5.0  # s; longest time that the simulation catches up after a pause of the program


class Shadow:
    """The simulated twins of real servos."""

    def __init__(self, world: World) -> None:
        compile_first()
        self.world = world
        self.lag = math.nan  # the real servos' clock minus simulated time, s; NaN before the first `follow`

    def follow(self, now: float) -> None:
        """Advance the world to this time of the real servos' clock, s; its time starts at the first call."""
        behind = now - self.world.now()
        self.lag = behind if math.isnan(self.lag) else max(self.lag, behind - _MOST_CATCH_UP)
        self.world.sleep_until(now - self.lag)

    def table(self, scales: Scales, start: float) -> Samples:
        """Return the twins' present samples; `start` is time 0 on the real servos' clock, s."""
        return scales.table(Rows.of(map(self.world.sample, scales.servos)), start - self.lag)

    def follow_limp(self, drive: BusDrive, position: float, twin: float) -> None:
        """Move the twin of a limp joint to `position`, rad, if it differs: the model has no external forces."""
        if abs(position - twin) > BY_HAND:
            self.place(drive, position)

    def place(self, drive: BusDrive, position: float) -> None:
        """Move a twin to `position`, rad, at rest."""
        self.world.place(drive.config.name, drive.config.direction * position)

    def shut_down(self, name: str) -> None:
        """Shut a twin down, as its servo is."""
        twin = self.world.servos[name]
        if not twin.alarms.tripped:
            twin.overload(self.world.now())


class ShadowedBus(SerialBus):
    """A real bus that repeats each packet on a virtual bus."""

    def __init__(self, virtual: Bus, shadow: Shadow, **line: Any) -> None:
        self._virtual = virtual
        self.shadow = shadow
        self.switched_on: set[int] = set()  # servos whose torque was switched on since `Twin` has last compared
        self._failed: AxBridgeError | None = None
        super().__init__(**line)

    def follow(self) -> None:
        """Advance the simulation to now."""
        if self._failed is not None:
            raise self._failed
        self.shadow.follow(self.clock.now())

    def write(self, id: int, address: int, data: bytes, **options: Any) -> Reply | None:
        """See `Bus.write`."""
        reply = super().write(id, address, data, **options)
        place = self.protocol(id).torque_enable - address
        if place >= 0 and any(data[place : place + 1]):
            self.switched_on.add(id)
        return reply

    def _transfer(self, frame: bytes, id: int, length: int | None) -> tuple[Packet | None, float]:
        with self.turn, self.turn.lock:  # no signal handler may advance the shadow's world meanwhile
            try:
                answer = super()._transfer(frame, id, length)
            except (BusTimeout, CorruptPacket):  # the servo may have received it
                self._repeat(frame, id, length)
                raise
            self._repeat(frame, id, length)
            return answer

    def _repeat(self, frame: bytes, id: int, length: int | None) -> None:
        """Send the packet to the shadow. If that fails, the real servos must still be commanded and limped."""
        if self._failed is not None:
            return
        try:
            self.follow()
            self._virtual.protocols.update(self.protocols)
            self._virtual._transfer(frame, id, length)  # noqa: SLF001 - the transfer of another bus
        except BusError:
            pass  # lost on the virtual bus
        except AxBridgeError as failure:
            self._failed = failure
            _log.warning("the twin goes on without its simulation: %s", failure.message)


class Twin:
    """Compares a robot's servos with their twins after each step."""

    def __init__(self, rig: Rig, connection: Connection, servos: Mapping[str, Servo]) -> None:
        self._connection = connection
        self._servos = servos
        self._residuals = residuals_of(rig)
        self._lines = [
            (bus, Scales([drive for drive in connection.on_bus if drive.bus is bus]))
            for bus in connection.backend.buses.values()
            if isinstance(bus, ShadowedBus)
        ]
        self._on_since = 0.0  # latest time at which no motor was on, s

    def states(self, start: float) -> dict[str, ServoState]:
        """Return the present states of the simulated servos, by name."""
        states: dict[str, ServoState] = {}
        for bus, scales in self._lines:
            with bus.turn, bus.turn.lock:  # no other thread advances the world meanwhile
                bus.follow()
                states |= bus.shadow.table(scales, start)
        return states

    def compare(self, time: float, start: float, gantry: Gantry | None, *, late: bool) -> tuple[BusEvent, ...]:
        """Return an event for each new cause of a difference between a servo and its model."""
        try:
            twins = self.states(start)
        except AxBridgeError:
            return ()  # the simulation has failed: reported, and the robot continues
        states = {name: servo.state for name, servo in self._servos.items()}
        self._follow_limp(states, twins)
        held = self._is_held(time, gantry)
        goals = {
            name: servo.goals.position
            if servo.torque_enabled and servo.available_torque == servo.max_torque and not held
            else math.nan
            for name, servo in self._servos.items()
        }
        causes = self._residuals.update(time, states, twins, goals, late=late)
        return tuple(BusEvent(cause, name) for cause, name in causes)

    def causes(self, time: float) -> Mapping[str, Sequence[Cause]]:
        """Return the causes at this time of the robot, s, by servo."""
        return self._residuals.present(time)

    def _follow_limp(self, states: Mapping[str, ServoState], twins: Mapping[str, ServoState]) -> None:
        """Move the twins of limp servos to their positions; shut down the twins of servos that are shut down."""
        back = {event.name for event in self._connection.events if event.kind == "returned"}
        for bus, scales in self._lines:
            with bus.turn, bus.turn.lock:
                for drive in scales.on_bus:
                    name = drive.config.name
                    shut_down = int(states[name].errors) & drive.protocol.shuts_down
                    led = name in back or drive.id in bus.switched_on  # may have moved between two steps
                    if shut_down or led or not self._servos[name].torque_enabled:
                        bus.shadow.follow_limp(drive, states[name].position, twins[name].position)
                    if shut_down:
                        bus.shadow.shut_down(name)
                bus.switched_on.clear()

    def _is_held(self, time: float, gantry: Gantry | None) -> bool:
        """Hold the simulation of a free-standing robot until its motors do, as a person holds the robot."""
        if not any(servo.torque_enabled for servo in self._servos.values()):
            self._on_since = time
        return gantry is not None and gantry.holds(time - self._on_since)


def open_twin(rig: Rig, port: str | None = None, *, seed: int = 0) -> Backend:
    """Open the rig's ports and its world."""
    with ExitStack() as opened:
        sim = open_sim(rig, seed=seed)
        opened.callback(sim.close)
        assert sim.world is not None
        shadow = Shadow(sim.world)
        real = open_real(rig, port, lambda name, **line: ShadowedBus(sim.buses[name], shadow, **line))
        opened.callback(real.close)
        opened.pop_all()
    closing = partial(call_all, [sim.close, real.close])
    return Backend("twin", real.mode, real.clock, real.buses, closing, sim.world, served=real.served)


_TABLE = 256  # bytes: no command is beyond
_UNREAD_STATE = RawState(0.0, 0, 0, 0, 0, 0, 0)


class PassiveTwin:
    """Compares servos that another program commands with their models: it reads registers, and writes none.

    The other program's commands are in the servo's registers. Registers that have changed are written to its twin.
    """

    def __init__(self, rig: Rig, buses: Mapping[str, Bus]) -> None:
        self._buses = list(buses.values())
        self._drives = {servo.name: drive_of(rig.specs[servo.name], buses[servo.bus]) for servo in rig.dynamixels}
        self._scales = Scales(list(self._drives.values()))
        self._residuals = residuals_of(rig)
        self._modes: dict[str, bytearray] = {}  # control tables with the modes at the first read
        self._commands: dict[str, bytearray] = {}  # control tables with the commands of the latest read
        self._shadow = Shadow(World(rig))

    def update(self, now: float, states: Mapping[str, RawState]) -> list[tuple[Cause, str]]:
        """Compare the servos' present states, by name; return each new cause with its servo."""
        shadow = self._shadow
        shadow.follow(now)
        blocks = self._read(states, _reads)
        goals = {name: self._copy(name, states[name], block) for name, block in blocks.items()}
        raw = Rows.of(states.get(name, _UNREAD_STATE) for name in self._drives)
        tables = self._scales.table(raw, shadow.lag), shadow.table(self._scales, shadow.lag)
        measured, twins = ({name: table[name] for name in goals} for table in tables)
        for name, state in measured.items():
            drive = self._drives[name]
            if math.isnan(goals[name]) or int(state.errors) & drive.protocol.shuts_down:
                shadow.follow_limp(drive, state.position, twins[name].position)
        return self._residuals.update(now, measured, twins, goals)

    def close(self) -> None:
        """End the simulation."""
        self._shadow.world.close()

    def _read(self, names: Iterable[str], wanted: Callable[[Protocol], Iterable[Span]]) -> dict[str, bytearray]:
        """Return control tables with the wanted registers of these servos, by name, except those that do not reply."""
        drives = [self._drives[name] for name in names if name in self._drives]
        tables: dict[str, bytearray] = {}
        lost = set[str]()
        for bus in self._buses:
            requests = [(drive, place) for drive in drives if drive.bus is bus for place in wanted(drive.protocol)]
            with suppress(PortError):  # reading the states reports it
                answers = bus.read_many([(drive.id, *place) for drive, place in requests])
                for (drive, (address, length)), answer in zip(requests, answers, strict=True):
                    if isinstance(answer, Reply) and len(answer.data) == length:
                        table = tables.setdefault(drive.config.name, bytearray(_TABLE))
                        table[address : address + length] = answer.data
                    else:
                        lost.add(drive.config.name)
        return {name: table for name, table in tables.items() if name not in lost}

    def _copy(self, name: str, state: RawState, table: bytearray) -> float:
        """Copy changed registers to the simulated servo; return the goal, rad, NaN if it is not compared."""
        drive, world = self._drives[name], self._shadow.world
        protocol, registers = drive.protocol, drive.profile.registers
        twin, now = world.servos[name], world.now()
        torque, limit = (protocol.torque_enable, 1), (protocol.torque_limit, 2)
        if name not in self._modes:
            self._modes |= (modes_read := self._read([name], lambda protocol: (protocol.modes,)))
            for modes in modes_read.values():
                twin.write(protocol.modes[0], _part(modes, protocol.modes), now)
        on = table[protocol.torque_enable]
        before = self._commands.get(name, bytearray(_TABLE))
        if table != before:
            self._commands[name] = table
            if not before[protocol.torque_enable]:
                self._shadow.place(drive, drive.calibration.angle(state.position))
            always = protocol.loop, limit, torque
            for place in (*always, protocol.commands) if on else always:  # a goal would switch an AX-12 on
                twin.write(place[0], _part(table, place), now)
        weak = protocol.number(_part(table, limit)) < drive.profile.units.full_scale
        if not on or weak or name not in self._modes or protocol.endless_goal(_part(self._modes[name], protocol.mode)):
            return math.nan
        return drive.calibration.angle(registers["goal_position"].decode(_part(table, protocol.goal_position)))


def _reads(protocol: Protocol) -> list[Span]:
    """Return the registers read in each update: torque enable, torque limit, gains and goals."""
    spans = list[Span]()
    torque = (protocol.torque_enable, 1), (protocol.torque_limit, 2)
    for address, length in sorted((*torque, protocol.loop, protocol.commands)):
        if spans and address <= sum(spans[-1]) + 1:  # neighbouring registers need one packet
            spans[-1] = spans[-1][0], address + length - spans[-1][0]
        else:
            spans.append((address, length))
    return spans


def _part(table: bytearray, place: Span) -> bytes:
    return bytes(table[place[0] : sum(place)])
