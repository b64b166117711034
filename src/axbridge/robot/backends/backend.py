"""What a robot runs on: buses, a clock, and how to let go of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from axbridge.bus.base import Bus
from axbridge.clock import Clock
from axbridge.virtual.world import World

BackendName = Literal["real", "sim", "twin"]
SIMULATION, REAL, REMOTE = 0, 1, 2  # Robot.mode, Webots' numbers


@dataclass(frozen=True)
class Backend:
    """Everything below a robot.

    Attributes:
        name: ``real``, ``sim`` or ``twin``.
        mode: 0 simulation, 1 real, 2 remote (a networked port).
        clock: Wall time or simulated time; its `sleep_until` is how a robot waits.
        buses: By the rig's names.
        close: Releases ports and worlds; may be called twice.
        world: The simulated world: all there is on ``sim``, the shadow on ``twin``, None on ``real``.
    """

    name: BackendName
    mode: int
    clock: Clock
    buses: Mapping[str, Bus]
    close: Callable[[], None]
    world: World | None = None

    @property
    def simulated(self) -> World | None:
        """The world that the robot itself lives in, and no shadow."""
        return self.world if self.mode == SIMULATION else None
