"""The real robot with a simulated shadow: what is written to the servos is written to their models, too.

The robot is the real one in every respect; `robot.simulation.shadow` says where the simulation is at the same moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from axbridge.bus.base import Bus, Reply
from axbridge.clock import Clock
from axbridge.config.registers import Address
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, BusError
from axbridge.protocols.packet import BROADCAST, Packet
from axbridge.robot.backends.backend import Backend
from axbridge.robot.backends.real import open_real
from axbridge.robot.backends.sim import open_sim
from axbridge.robot.twin.shadow import Shadow

__all__ = ["ShadowedBus", "open_twin"]

_log = logging.getLogger(__name__)


class ShadowedBus(Bus):
    """A real bus that repeats every write on a virtual one, which follows the wall clock.

    Args:
        real: The bus.
        virtual: Of the simulated servos.
        shadow: Where those are.

    Attributes:
        shadow: As given.
        switched_on: Ids of servos whose torque was switched on; whoever has seen to them takes them out.
    """

    def __init__(self, real: Bus, virtual: Bus, shadow: Shadow) -> None:
        self._real = real
        self._virtual = virtual
        self.shadow = shadow
        self.switched_on: set[int] = set()
        self.clock: Clock = real.clock
        self.baud = real.baud
        self.turn = real.turn
        self._ended: AxBridgeError | None = None

    @property
    def port(self) -> Any:
        """The real bus's port: the guard process holds on to it."""
        return getattr(self._real, "port", None)

    @property
    def port_name(self) -> str:
        """The real bus's name; "" when it has none."""
        return getattr(self._real, "port_name", "")

    @property
    def stats(self) -> Any:
        """The real bus's counters."""
        return getattr(self._real, "stats", None)

    @property
    def eeprom_writes(self) -> int:
        """The real bus's."""
        return self._real.eeprom_writes

    @eeprom_writes.setter
    def eeprom_writes(self, count: int) -> None:
        self._real.eeprom_writes = count

    @property
    def silent(self) -> frozenset[int]:
        """The real bus's: whom its own writes do not wait for."""
        return self._real.silent

    @silent.setter
    def silent(self, ids: frozenset[int]) -> None:
        self._real.silent = ids

    def follow(self) -> None:
        """Advance the simulation to now.

        Raises:
            AxBridgeError: it has failed, now or earlier.
        """
        if self._ended is not None:
            raise self._ended
        self.shadow.follow(self.clock.now())

    def _repeat(self, command: Callable[[Bus], object]) -> None:
        """Give the shadow the same command. If it fails, the real servos must still be commanded and limped."""
        if self._ended is not None:
            return
        try:
            self.follow()
            command(self._virtual)
        except BusError:
            pass  # lost on the virtual line
        except AxBridgeError as failure:
            self._ended = failure
            _log.warning("the twin goes on without its simulation: %s", failure.message)

    def _transfer(self, frame: bytes, id: int, length: int | None) -> tuple[Packet | None, float]:
        return self._real._transfer(frame, id, length)

    def read_many(self, requests: Sequence[tuple[int, int, int]]) -> list[Reply | BusError]:
        """See `Bus.read_many`."""
        return self._real.read_many(requests)

    def read_each(self, requests: Sequence[tuple[int, int, int]]) -> Generator[Reply | BusError, None, None]:
        """See `Bus.read_each`."""
        return self._real.read_each(requests)

    def read(self, id: int, address: int, length: int) -> Reply:
        """See `Bus.read`."""
        return self._real.read(id, address, length)

    def ping(self, id: int) -> Reply:
        """See `Bus.ping`."""
        return self._real.ping(id)

    def write(
        self, id: int, address: int, data: bytes, *, answered: bool = True, deaf: float | None = None
    ) -> Reply | None:
        """See `Bus.write`."""
        with self.turn, self.turn.lock:
            reply = self._real.write(id, address, data, answered=answered, deaf=deaf)
            if any(data[max(Address.TORQUE_ENABLE - address, 0) :][:1]) and address <= Address.TORQUE_ENABLE:
                self.switched_on.add(id)
            self._repeat(lambda virtual: virtual.write(id, address, data, answered=answered, deaf=deaf))
            return reply

    def reg_write(self, id: int, address: int, data: bytes, *, answered: bool = True) -> Reply | None:
        """See `Bus.reg_write`."""
        with self.turn, self.turn.lock:
            reply = self._real.reg_write(id, address, data, answered=answered)
            self._repeat(lambda virtual: virtual.reg_write(id, address, data, answered=answered))
            return reply

    def action(self, id: int = BROADCAST, *, answered: bool = True) -> Reply | None:
        """See `Bus.action`."""
        with self.turn, self.turn.lock:
            reply = self._real.action(id, answered=answered)
            self._repeat(lambda virtual: virtual.action(id, answered=answered))
            return reply

    def sync_write(self, address: int, data: Mapping[int, bytes]) -> float:
        """See `Bus.sync_write`."""
        with self.turn, self.turn.lock:  # the shadow's world must not be moved on by a signal handler meanwhile
            heard = self._real.sync_write(address, data)
            self._repeat(lambda virtual: virtual.sync_write(address, data))
            return heard

    @property
    def rewritten(self) -> dict[int, set[int]]:
        """The real bus's."""
        return self._real.rewritten

    def reopen(self, check: Callable[[], None] = lambda: None) -> None:
        """See `Bus.reopen`."""
        self._real.reopen(check)

    def close(self) -> None:
        """See `Bus.close`."""
        self._real.close()


def open_twin(rig: Rig, port: str | None = None, *, seed: int = 0) -> Backend:
    """Open the rig's ports and its world.

    Raises:
        RigError, ProfileError: the rig has no world, or something it names is wrong.
        PortError: as `open_real`.
    """
    sim = open_sim(rig, seed=seed)
    try:
        real = open_real(rig, port)
    except BaseException:
        sim.close()
        raise
    assert sim.world is not None
    shadow = Shadow(sim.world, real.clock.now())
    buses = {name: ShadowedBus(bus, sim.buses[name], shadow) for name, bus in real.buses.items()}

    def close() -> None:
        try:
            real.close()
        finally:
            sim.close()

    return Backend("twin", real.mode, real.clock, buses, close, sim.world)
