"""A simulated world that follows real servos in time and gets what is sent to them; its limp joints follow theirs.

A robot with such a shadow is the real one in every respect; `robot.simulation.shadow` says where the simulation is.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from axbridge.bus.base import Bus, Reply
from axbridge.bus.cycle import rows_of
from axbridge.bus.protocols.packet import Packet
from axbridge.bus.serial import SerialBus
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, BusError, BusTimeout, CorruptPacket
from axbridge.robot.backend import Backend, open_real, open_sim
from axbridge.robot.drives.dynamixel import DynamixelDrive
from axbridge.robot.samples import Samples, Scales
from axbridge.virtual.world import World

_log = logging.getLogger(__name__)
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


class ShadowedBus(SerialBus):
    """A real bus that repeats what it sends on a virtual one, but for reads.

    Attributes:
        shadow: As given.
        switched_on: Ids of servos whose torque was switched on; the code that handles them takes them out.
    """

    def __init__(self, virtual: Bus, shadow: Shadow, **line: Any) -> None:
        self._virtual = virtual
        self.shadow = shadow
        self.switched_on: set[int] = set()
        self._failed: AxBridgeError | None = None
        super().__init__(**line)

    def follow(self) -> None:
        """Advance the simulation to now."""
        if self._failed is not None:
            raise self._failed
        self.shadow.follow(self.clock.now())

    def write(
        self, id: int, address: int, data: bytes, *, answered: bool = True, deaf: float | None = None
    ) -> Reply | None:
        """See `Bus.write`."""
        reply = super().write(id, address, data, answered=answered, deaf=deaf)
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
