"""Functions of a simulated robot alone: faults, true values, and a gantry that holds its base."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from axbridge.errors import UnsupportedOperation
from axbridge.rotations import LinkPose
from axbridge.sim.engine import Engine
from axbridge.sim.support import Gantry
from axbridge.state import ServoState, Truth
from axbridge.virtual.world import World


class Simulation:
    """The simulated side of a robot: `axbridge.robot.robot.Robot.simulation`. On a twin it is the shadow's.

    Positions of the base are those of its link's centre of mass.

    Attributes:
        world: Lines, virtual servos, motors and joints.
        sample: What a servo reports at a moment of the robot's clock, s, at most 50 ms ago, and the power it draws
            then, W; no packet is sent. Of an ideal joint: now. A twin has `shadow` instead.
        shadow: The simulated servos of a twin as of now, by name; else empty. `AxBridgeError` where its simulation has
            failed.
        base_start: Where the rig put the base; None where it is bolted down.
    """

    def __init__(
        self,
        world: World,
        sample: Callable[[str, float], tuple[ServoState, float]],
        shadow: Callable[[], dict[str, ServoState]] = dict,
    ) -> None:
        self.world = world
        self.sample = sample
        self.shadow = shadow
        self.base_start: LinkPose | None = self.base

    def __repr__(self) -> str:
        place = "bolted down" if self.base_start is None else "with a free base"
        return f"<Simulation by {type(self.engine).__name__}, {place}>"

    def inject(self, faults: str) -> None:
        """Set faults from now on, by the words of docs/virtual-bus.md: ``drop=0.05``, ``overload:3``, ``none``.

        Raises:
            UsageError: the spec has a mistake, or names an id that is not on a bus.
        """
        self.world.inject(faults)

    def truth(self, servo: str) -> Truth:
        """Angle and torque of a servo's shaft now, without quantisation, noise or delay."""
        return Truth(*self.world.truths([servo], [self.world.now()])[0].tolist())

    def energy(self) -> float:
        """What the motors on the buses have drawn since the start, J: the integral of U·i."""
        return self.world.energy()

    @property
    def base(self) -> LinkPose | None:
        """Where the base of the robot is; None where it is bolted down."""
        return None if self.engine is None else self.engine.base()

    def place_base(self, pose: LinkPose) -> None:
        """Put the base somewhere, at rest.

        Raises:
            UnsupportedOperation: it is bolted down.
        """
        if self.engine is None or self.base_start is None:
            raise UnsupportedOperation("the robot's base is bolted down", "let the rig's world say fixed_base = false")
        self.engine.place_base(pose)

    @cached_property
    def gantry(self) -> Gantry | None:
        """What holds a robot that cannot stand yet; None where its base is bolted down."""
        return None if self.engine is None or self.base_start is None else Gantry(self.world.rig, self.engine)

    @property
    def engine(self) -> Engine | None:
        """What moves the joints; None where no joint moves."""
        return self.world.engine


def hold_up(simulation: Simulation | None, share: float) -> None:
    """Hold a simulated robot as by a hand, its soles level, and put it on them: on the floor at share 1.

    Nothing happens on a real line (None), where a hand is needed, and to a robot that is bolted down.
    """
    if simulation is not None and simulation.gantry is not None:
        simulation.gantry.put(share)
