"""Backends: buses, a clock and how to close them; real, or simulated in a physics engine's world."""

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
_CATCH_UP = 0.1  # s that are simulated at most for wall time without a call
_PAUSE = 1.0  # s after which a program did not think, but was stopped, or slept
_PART = 0.02  # s simulated between two checks for signals
_SLACK = 0.005  # s that a simulation may be late without being too slow
_SAY = 2.0  # s between two warnings


@dataclass(frozen=True)
class Backend:
    """Everything below a robot."""

    name: BackendName  # ``real``, ``sim`` or ``twin``
    mode: int  # 0 simulation, 1 real, 2 remote (a networked port)
    clock: Clock  # wall time or simulated time; its `sleep_until` is how a robot waits
    buses: Mapping[str, Bus]  # by the rig's names
    close: Callable[[], None]  # releases ports and worlds; may be called twice
    world: World | None = None  # all there is on ``sim``, a shadow on ``twin``, None on ``real`` without virtual servos
    served: bool = False  # whether virtual servos of `axbridge serve` are known to be on one of its lines
    virtual: tuple[str, ...] = ()  # servos of a real line that the world answers for

    @property
    def origin(self) -> dict[str, str]:
        """What samples come from: ``backend``, the ``engine`` of a simulation, ``servos`` if they are ``virtual``.

        ``virtual`` names the servos of a real line that the simulation answers for.
        """
        engine = {} if self.world is None else {"engine": self.world.engine_name}
        virtual = {"virtual": ", ".join(self.virtual)} if self.virtual else {}
        return {"backend": self.name, **engine, **({"servos": "virtual"} if self.served else {}), **virtual}

    @property
    def simulated(self) -> World | None:
        """The world that the robot itself lives in, and no shadow."""
        return self.world if self.mode == SIMULATION else None


def call_all(calls: Iterable[Callable[[], object]]) -> None:
    """Make these calls, the last first; one that fails keeps none from being made."""
    with ExitStack() as stack:
        for call in calls:
            stack.callback(call)


def open_real(
    rig: Rig, port: str | None = None, line: Callable[..., SerialBus] = lambda _, **line: SerialBus(**line)
) -> Backend:
    """Open the port of each bus of the rig."""
    for servo in rig.servos:
        if servo.drive == "ideal":
            raise UnsupportedOperation(
                f"servo {servo.name!r} is an ideal joint, which the real backend cannot drive",
                'open it with backend="sim", or give it a Dynamixel: drive = "dynamixel"',
            )
    clock = WallClock()
    buses: dict[str, Bus] = {}
    with ExitStack() as opened:
        ports = ports_of(rig, port)
        for config, device in zip(rig.buses, ports, strict=True):
            bus = line(config.name, port=device, baud=config.baud, clock=clock)
            buses[config.name] = opened.enter_context(bus)
        opened.pop_all()
    mode = REMOTE if any("://" in device for device in ports) else REAL
    return Backend(
        "real",
        mode,
        clock,
        buses,
        partial(call_all, [bus.close for bus in buses.values()]),
        served=any(map(is_served, ports)),
    )


def ports_of(rig: Rig, port: str | None = None) -> list[str]:
    """The ports of a rig's buses, in order; `port` takes the place of the first."""
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
    """Simulated time that follows wall time: it waits for it, and continues while the controller computes.

    That is Webots' asynchronous mode: a controller that takes longer than its step is late, as on a real robot. Time
    that a frozen process missed, or a slow simulation cannot simulate, is not simulated later: the clock falls behind
    by it. Otherwise each step would be longer than the one before.
    """

    def __init__(self, world: Clock, wall: Clock | None = None) -> None:
        self.behind = 0.0  # by how much simulated time has fallen behind the wall's so far, s
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
        """Simulate in parts, with a check for signals between them; a slow simulation only what it `must`."""
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
        """Let simulated time go on from here, `seconds` later than it was to."""
        if seconds <= 0:
            return
        self._ahead += seconds
        self.behind += seconds
        wall, world, behind = self._said
        passed = self._wall.now() - wall
        if passed > _SAY and seconds < _PAUSE and self.behind - behind > passed / 10:
            rate = (self._world.now() - world) / passed
            _log.warning(
                "simulation runs at %.2g × real time: its clock is %.1f s behind; %s, or take a simpler world",
                rate,
                self.behind,
                LIGHTEN,
            )
        if passed > _SAY:
            self._said = self._wall.now(), self._world.now(), self.behind


def open_sim(rig: Rig, *, seed: int = 0, realtime: bool = False) -> Backend:
    """Build the rig's world and put a virtual bus on each of its lines."""
    if realtime:
        compile_first()
    world = World(rig, seed=seed)
    buses = {name: VirtualBus(world, name) for name in world.lines}
    clock = _PacedClock(world) if realtime else world
    closing = [world.close, *(bus.close for bus in buses.values())]  # buses first: a servo used after the end says so
    return Backend("sim", SIMULATION, clock, buses, partial(call_all, closing), world)
