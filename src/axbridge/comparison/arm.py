"""The arm of a one-servo rig in closed form, from its URDF: inertia about the joint and the torque of its weight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.config.urdf import JointFacts
from axbridge.errors import RigError
from axbridge.sim.body.inverse_dynamics import wrenches


@dataclass(frozen=True)
class Arm:
    """A rigid body on a fixed hinge.

    Attributes:
        inertia: About the hinge, kg·m².
        gravity: Largest torque of its weight, m·g·l, N·m.
        phase: The weight's torque at joint angle θ is `-gravity·sin(θ + phase)`; 0 where 0 rad hangs down, rad.
        stops: Ends of its travel, rad; ±inf = none.
    """

    inertia: float
    gravity: float
    phase: float = 0.0
    stops: tuple[float, float] = (-math.inf, math.inf)


def arm_of(rig: Rig, servo: ServoConfig) -> Arm:
    """The arm that a servo swings."""
    path, tree = rig.urdf_path(), rig.tree()
    assert rig.world is not None  # else it had no tree
    names = tree.names
    place = f"joint {servo.joint}"
    if servo.joint not in names:
        raise RigError(path, place, "no such joint", f"it has: {', '.join(names)}")
    if len(names) > 1 or not rig.world.fixed_base:
        raise RigError(
            path,
            place,
            "is one of several moving parts",
            "identification needs one arm on a fixed base; of a robot, say which servo: --servo NAME",
        )
    facts = tree.joints[0]
    if facts.linear:
        raise RigError(path, place, "slides", "identification needs an arm on a hinge")
    # Turned by θ it takes the torque inertia·θ'' - a·cos θ - b·sin θ.
    gravity = np.array([(0.0, 0.0, 0.0), rig.world.gravity, rig.world.gravity])
    position, pushed, still = (
        np.array([column]).T for column in ((0.0, 0.0, math.pi / 2), (1.0, 0.0, 0.0), np.zeros(3))
    )
    inertia, a, b = wrenches(tree, position, still, pushed, gravity).torque[:, 0] * (1.0, -1.0, -1.0)
    phase = math.atan2(-a, -b) if math.hypot(a, b) else 0.0
    return Arm(float(inertia), math.hypot(a, b), phase, _stops(servo, facts))


def stops_of(rig: Rig, servo: ServoConfig) -> tuple[float, float]:
    """Ends of a joint's travel, rad; ±inf = none."""
    return _stops(servo, next(joint for joint in rig.tree(fixed_base=True).joints if joint.name == servo.joint))


def _stops(servo: ServoConfig, joint: JointFacts) -> tuple[float, float]:
    """The rig's, else the URDF's; as in the simulator lower >= upper is none."""
    return (servo.min_stop, servo.max_stop) if servo.min_stop < servo.max_stop else (joint.low, joint.high)
