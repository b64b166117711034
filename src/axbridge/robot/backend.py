"""Backends: buses and clock of a real robot, or of a simulation in a physics engine's world."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Literal

from axbridge.bus.base import Bus
from axbridge.bus.port_name import find_port, is_served
from axbridge.bus.serial import SerialBus
from axbridge.clock import Clock, WallClock
from axbridge.config.rig import Rig
from axbridge.errors import RigError, UnsupportedOperation
from axbridge.jit import LIGHTEN, compile_first
from axbridge.virtual.bus import VirtualBus
from axbridge.virtual.world import World

_log = logging.getLogger(__name__)

BackendName = Literal["real", "sim", "twin"]
SIMULATION, REAL, REMOTE = 0, 1, 2  # Robot.mode, Webots' numbers
_CATCH_UP = 0.1  # s; longest time that is simulated for a pause between two calls
_PAUSE = 1.0  # s; after a longer pause the process was stopped or asleep, not computing
_PART = 0.02  # s simulated between two checks for signals
_SLACK = 0.005  # s; a simulation that is later than this is too slow
_WARN_INTERVAL = 2.0  # s


@dataclass(frozen=True)
class Backend:
    """The buses, the clock and the world that a robot runs on."""

    name: BackendName  # ``real``, ``sim`` or ``twin``
    mode: int  # 0 simulation, 1 real, 2 remote (a networked port)
    clock: Clock  # wall time or simulated time; its `sleep_until` is how a robot waits
    buses: Mapping[str, Bus]  # by the rig's names
    close: Callable[[], None]  # releases ports and worlds; may be called twice
    world: World | None = None  # the robot on ``sim``, its shadow on ``twin``, None on ``real`` without virtual servos
    served: bool = False  # whether one of its ports is a virtual bus of `axbridge serve`
    virtual: tuple[str, ...] = ()  # servos of a real bus that the world simulates

    @property
    def origin(self) -> dict[str, str]:
        """Return the source of the samples: ``backend``, the ``engine`` of a simulation, ``servos`` = ``virtual``.

        ``virtual`` names the simulated servos of a real bus.
        """
        engine = {} if self.world is None else {"engine": self.world.engine_name}
        virtual = {"virtual": ", ".join(self.virtual)} if self.virtual else {}
        return {"backend": self.name, **engine, **({"servos": "virtual"} if self.served else {}), **virtual}

    @property
    def simulated(self) -> World | None:
        """Return the world that simulates the robot itself; None for a real robot, also with a shadow."""
        return self.world if self.mode == SIMULATION else None


def call_all(calls: Iterable[Callable[[], object]]) -> None:
    """Make these calls, the last first. All are made, even if some raise."""
    with ExitStack() as stack:
        for call in calls:
            stack.callback(call)


def open_real(
    rig: Rig, port: str | None = None, line: Callable[..., SerialBus] = lambda _, **line: SerialBus(**line)
) -> Backend:
    """Open the port of each bus of the rig.

    Raises:
        UnsupportedOperation: the rig has an ideal joint.
        RigError: two buses are on the same port.
        PortError: a port cannot be opened.
    """
    for servo in rig.servos:
        if servo.drive == "ideal":
            why = f"servo {servo.name!r} is an ideal joint, which the real backend cannot drive"
            hint = 'open it with backend="sim", or give it a Dynamixel: drive = "dynamixel"'
            raise UnsupportedOperation(why, hint)
    clock = WallClock()
    buses: dict[str, Bus] = {}
    with ExitStack() as opened:
        ports = ports_of(rig, port)
        for config, device in zip(rig.buses, ports, strict=True):
            bus = line(config.name, port=device, baud=config.baud, clock=clock)
            buses[config.name] = opened.enter_context(bus)
        opened.pop_all()
    mode = REMOTE if any("://" in device for device in ports) else REAL
    closing = partial(call_all, [bus.close for bus in buses.values()])
    return Backend("real", mode, clock, buses, closing, served=any(map(is_served, ports)))


def ports_of(rig: Rig, port: str | None = None) -> list[str]:
    """Return the ports of a rig's buses, in order; `port` replaces the first. RigError: two are the same."""
    ports: list[str] = []
    for index, bus in enumerate(rig.buses):
        device = (port if index == 0 else None) or bus.port
        if device == "auto":
            device = find_port()
        for other, taken in zip(rig.buses, ports, strict=False):
            if os.path.realpath(device) == os.path.realpath(taken):
                why = f"buses {other.name!r} and {bus.name!r} are both on {device}"
                raise RigError(rig.path, f"bus.{bus.name}.port", why, "give each the port of its own adapter")
        ports.append(device)
    return ports


class _PacedClock:
    """Simulated time that follows wall time, also while the controller computes.

    This is Webots' asynchronous mode: a controller that takes longer than its step is late, as on a real robot. Time
    that a stopped process missed or a slow simulation cannot simulate is not simulated later: the clock falls behind.
    Otherwise each step would be longer than the one before.
    """

    def __init__(self, world: Clock, wall: Clock | None = None) -> None:
        self.behind = 0.0  # s that simulated time has fallen behind wall time so far
        self._world, self._wall = world, wall or WallClock()
        self._ahead = self._wall.now() - world.now()
        self._said = self._wall.now(), world.now(), 0.0

    def now(self) -> float:
        missed = self._wall.now() - self._ahead - self._world.now()
        if missed > _PAUSE:
            _log.warning("this program was held up for %.1f s: simulated time goes on from where it was", missed)
        self._fall_behind(missed - _CATCH_UP)
        if missed > _PAUSE:
            self._said = self._wall.now(), self._world.now(), self.behind
        self._simulate(self._world.now() + min(missed, _CATCH_UP), must=False)
        return self._world.now()

    def sleep_until(self, due: float) -> None:
        self._simulate(due, must=True)
        self._wall.sleep_until(self._world.now() + self._ahead)

    def _simulate(self, due: float, *, must: bool) -> None:
        """Simulate until `due`, s, in parts, so that signals are handled; unless `must`, stop when it is too slow."""
        began, start = self._wall.now(), self._world.now()
        while (here := self._world.now()) < due:
            self._world.sleep_until(min(due, here + _PART))
            slow = self._wall.now() - began > self._world.now() - start + _SLACK
            if slow and not must:
                break
        late = self._wall.now() - self._ahead - self._world.now()
        if late > _SLACK and self._wall.now() - began > self._world.now() - start:
            self._fall_behind(late)

    def _fall_behind(self, seconds: float) -> None:
        """Delay simulated time by `seconds` against wall time, and warn when the simulation is too slow."""
        if seconds <= 0:
            return
        self._ahead += seconds
        self.behind += seconds
        wall, world, behind = self._said
        passed = self._wall.now() - wall
        if passed > _WARN_INTERVAL and seconds < _PAUSE and self.behind - behind > passed / 10:
            rate = (self._world.now() - world) / passed
            text = "simulation runs at %.2g × real time: its clock is %.1f s behind; %s, or take a simpler world"
            _log.warning(text, rate, self.behind, LIGHTEN)
        if passed > _WARN_INTERVAL:
            self._said = self._wall.now(), self._world.now(), self.behind


def open_sim(rig: Rig, *, seed: int = 0, realtime: bool = False) -> Backend:
    """Build the rig's world with a virtual bus for each bus of the rig."""
    if realtime:
        compile_first()
    world = World(rig, seed=seed)
    buses = {name: VirtualBus(world, name) for name in world.lines}
    clock = _PacedClock(world) if realtime else world
    closing = [world.close, *(bus.close for bus in buses.values())]  # called in reverse: a closed bus refuses commands
    return Backend("sim", SIMULATION, clock, buses, partial(call_all, closing), world)
