"""Functions that only a simulated robot has: faults, true values, and a gantry that holds its base."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from axbridge.errors import UnknownServo, UnsupportedOperation
from axbridge.rotations import LinkPose
from axbridge.sim.engine import Engine
from axbridge.sim.support import Gantry
from axbridge.state import ServoState, Truth
from axbridge.virtual.world import World


class Simulation:
    """The simulation of a robot, `axbridge.robot.robot.Robot.simulation`; on a twin that of its shadow.

    Positions of the base are those of its link's centre of mass.

    Attributes:
        world: Lines, virtual servos, motors and joints.
        sample: Returns a servo's state and power, W, at a time of the robot's clock, s, at most 50 ms ago, without a
            packet; for an ideal joint, its present state. A twin has `shadow` instead.
        shadow: Returns the present states of a twin's simulated servos by name, else none. `AxBridgeError` if the
            simulation has failed.
        base_start: Pose of the base at the start; None if it is bolted down.
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
        """Set faults of the virtual bus, in the syntax of docs/virtual-bus.md: ``drop=0.05``, ``overload:3``, ``none``.

        Faults without an id act on the virtual servos, not on real ones beside them.

        Raises:
            UsageError: the text has a mistake, or names an id that is not on a bus or only of a real servo.
        """
        self.world.inject(faults)

    def truth(self, servo: str) -> Truth:
        """Return the present angle and torque of a servo's shaft, without quantisation, noise or delay.

        Raises:
            UnknownServo: no servo on a bus has this name; an ideal joint has `Servo.truth`.
        """
        if servo not in self.world.servos:
            hint = f"there are {', '.join(self.world.servos) or 'none'}; an ideal joint has Servo.truth"
            raise UnknownServo(str(servo), f"no servo on a bus is named {servo!r}", hint)
        return Truth(*self.world.truths([servo], [self.world.now()])[0].tolist())

    def energy(self) -> float:
        """Return the energy that the motors on buses have drawn since the start, J: the integral of U·i."""
        return self.world.energy()

    @property
    def base(self) -> LinkPose | None:
        """Return the pose of the robot's base; None if it is bolted down."""
        return None if self.engine is None else self.engine.base()

    def place_base(self, pose: LinkPose) -> None:
        """Move the base to a pose, at rest.

        Raises:
            UnsupportedOperation: the base is bolted down.
        """
        if self.engine is None or self.base_start is None:
            raise UnsupportedOperation("the robot's base is bolted down", "let the rig's world say fixed_base = false")
        self.engine.place_base(pose)

    @cached_property
    def gantry(self) -> Gantry | None:
        """Return the gantry that holds a robot which cannot stand yet; None if its base is bolted down."""
        return None if self.engine is None or self.base_start is None else Gantry(self.world.rig, self.engine)

    @property
    def engine(self) -> Engine | None:
        """Return the physics engine; None if the rig has no moving joint."""
        return self.world.engine


def hold_up(simulation: Simulation | None, share: float) -> None:
    """Hold a simulated robot with level soles, and lower it by `share`: at 1 it stands on the floor.

    No effect on a real robot (None), which a person must hold, and on a robot that is bolted down.
    """
    if simulation is not None and simulation.gantry is not None:
        simulation.gantry.put(share)
