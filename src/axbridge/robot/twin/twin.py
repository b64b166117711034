"""A robot beside its simulated twin: the twin gets what is sent to the real servos, and follows them in time.

A robot with such a shadow is the real one in every respect; `robot.simulation.shadow` says where the simulation is.
After each step `Twin` says what differs, and why. It looks on, and commands nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from axbridge.bus.base import Bus, Reply
from axbridge.bus.cycle import rows_of
from axbridge.bus.protocols.packet import Packet
from axbridge.bus.serial import SerialBus
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, BusError, BusTimeout, CorruptPacket
from axbridge.robot.backend import Backend, open_real, open_sim
from axbridge.robot.connection import Connection
from axbridge.robot.drives.dynamixel import DynamixelDrive
from axbridge.robot.samples import Samples, Scales
from axbridge.robot.servo import Servo
from axbridge.robot.twin.residuals import is_shut_down, residuals_of
from axbridge.sim.support import Hand
from axbridge.state import BusEvent, Cause, ServoState
from axbridge.virtual.world import World

_log = logging.getLogger(__name__)
_BY_HAND = math.radians(0.6)  # a limp joint this far from its twin takes the twin along
_LONGEST = 5.0  # s that the simulation catches up with: a program that was stopped for an hour does not wait as long


class Shadow:
    """The twins of real servos."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lag = math.nan  # the real servos' clock minus simulated time, s; NaN before the first `follow`

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


class ShadowedBus(SerialBus):
    """A real bus that repeats what it sends on a virtual one, but for reads."""

    def __init__(self, virtual: Bus, shadow: Shadow, **line: Any) -> None:
        self._virtual = virtual
        self.shadow = shadow
        self.switched_on: set[int] = set()  # whose torque was switched on, until `Twin` has taken note
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
        with self.turn, self.turn.lock:  # the shadow's world must not be moved on by a signal handler meanwhile
            try:
                answer = super()._transfer(frame, id, length)
            except (BusTimeout, CorruptPacket):  # the servo may have heard it
                self._repeat(frame, id, length)
                raise
            self._repeat(frame, id, length)
            return answer

    def _repeat(self, frame: bytes, id: int, length: int | None) -> None:
        """Send the shadow the same. If it fails, the real servos must still be commanded and limped."""
        if self._failed is not None:
            return
        try:
            self.follow()
            self._virtual.protocols.update(self.protocols)
            self._virtual._transfer(frame, id, length)  # noqa: SLF001 - a bus passes on what it was asked
        except BusError:
            pass  # lost on the virtual line
        except AxBridgeError as failure:
            self._failed = failure
            _log.warning("the twin goes on without its simulation: %s", failure.message)


class Twin:
    """Looks at a robot's servos and their twins after each step."""

    def __init__(self, rig: Rig, connection: Connection, servos: Mapping[str, Servo]) -> None:
        self._connection = connection
        self._servos = servos
        self._residuals = residuals_of(rig)
        drives = [drive for drive in connection.drives.values() if isinstance(drive, DynamixelDrive)]
        self._lines = [
            (bus, Scales([drive for drive in drives if drive.bus is bus]))
            for bus in connection.backend.buses.values()
            if isinstance(bus, ShadowedBus)
        ]
        self._on_since = 0.0  # when no motor was on last, s

    def states(self, start: float) -> dict[str, ServoState]:
        """What the simulated servos measure now, by name."""
        states: dict[str, ServoState] = {}
        for bus, scales in self._lines:
            with bus.turn, bus.turn.lock:  # nobody else moves the world on meanwhile
                bus.follow()
                states |= bus.shadow.table(scales, start)
        return states

    def compare(self, time: float, start: float, hand: Hand | None, *, late: bool) -> tuple[BusEvent, ...]:
        """What is newly wrong with servos that do not do as their models say."""
        try:
            twins = self.states(start)
        except AxBridgeError:
            return ()  # the simulation has failed: that was said, and the robot goes on
        states = {name: servo.state for name, servo in self._servos.items()}
        self._follow_limp(states, twins)
        held = self._is_held(time, hand)
        goals = {
            name: servo.goals.position
            if servo.torque_enabled and servo.available_torque == servo.max_torque and not held
            else math.nan
            for name, servo in self._servos.items()
        }
        found = self._residuals.update(time, states, twins, goals, late=late)
        return tuple(BusEvent(cause, name) for cause, name in found)

    def causes(self, time: float) -> Mapping[str, Sequence[Cause]]:
        """What is wrong at this time of the robot, s, by servo."""
        return self._residuals.present(time)

    def _follow_limp(self, states: Mapping[str, ServoState], twins: Mapping[str, ServoState]) -> None:
        """Put the twins of limp servos where those are; shut down the twins of those that are shut down."""
        back = {event.name for event in self._connection.events if event.kind == "returned"}
        for bus, scales in self._lines:
            with bus.turn, bus.turn.lock:
                for drive in scales.on_bus:
                    name = drive.config.name
                    shut_down = is_shut_down(states[name])
                    led = name in back or drive.id in bus.switched_on  # while nobody stepped
                    if shut_down or led or not self._servos[name].torque_enabled:
                        bus.shadow.follow_limp(drive, states[name].position, twins[name].position)
                    if shut_down:
                        bus.shadow.shut_down(name)
                bus.switched_on.clear()

    def _is_held(self, time: float, hand: Hand | None) -> bool:
        """Hold the simulation of a robot that stands free until its motors do, as somebody holds the robot."""
        if not any(servo.torque_enabled for servo in self._servos.values()):
            self._on_since = time
        return hand is not None and hand.holds(time - self._on_since)


def open_twin(rig: Rig, port: str | None = None, *, seed: int = 0) -> Backend:
    """Open the rig's ports and its world."""
    sim = open_sim(rig, seed=seed)
    assert sim.world is not None
    shadow = Shadow(sim.world)
    try:
        real = open_real(rig, port, lambda name, **line: ShadowedBus(sim.buses[name], shadow, **line))
    except BaseException:
        sim.close()
        raise

    def close() -> None:
        try:
            real.close()
        finally:
            sim.close()

    return Backend("twin", real.mode, real.clock, real.buses, close, sim.world)
