"""The simulated robot: virtual servos in the world of a physics engine, on in-process buses, in simulated time."""

from __future__ import annotations

from contextlib import ExitStack

from axbridge.clock import Clock, WallClock
from axbridge.config.rig import Rig
from axbridge.robot.backends.backend import SIMULATION, Backend
from axbridge.virtual.bus import VirtualBus
from axbridge.virtual.world import World

__all__ = ["open_sim"]


class _PacedClock:
    """Simulated time that keeps to the wall's: it waits for it, and goes on while the controller thinks.

    That is Webots' asynchronous mode: a controller that takes longer than its step is late, as on a real robot.
    """

    def __init__(self, world: Clock) -> None:
        self._world = world
        self._wall = WallClock()
        self._ahead = self._wall.now() - world.now()

    def now(self) -> float:
        self._world.sleep_until(self._wall.now() - self._ahead)
        return self._world.now()

    def sleep_until(self, due: float) -> None:
        self._world.sleep_until(due)
        self._wall.sleep_until(self._world.now() + self._ahead)


def open_sim(rig: Rig, *, seed: int = 0, realtime: bool = False) -> Backend:
    """Build the rig's world and put a virtual bus on each of its lines.

    Args:
        rig: What to simulate.
        seed: Seed of sensor noise and reply jitter: same seed, same bits.
        realtime: Simulated time goes with the wall clock, whether the controller is ready or not.

    Raises:
        RigError, ProfileError: the rig, its URDF, profiles or models are wrong.
    """
    world = World(rig, seed=seed)
    buses = {name: VirtualBus(world, name) for name in world.lines}
    clock = _PacedClock(world) if realtime else world
    closing = ExitStack()
    closing.callback(world.close)
    for bus in buses.values():  # first, so that a servo used after the end says so
        closing.callback(bus.close)
    return Backend("sim", SIMULATION, clock, buses, closing.close, world)
