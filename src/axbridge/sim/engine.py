"""The interface of a physics engine, which advances joints together with their drives and contacts.

The engine determines the order of loops, motors, joints and contacts. `axbridge.testing.check_engine` tests this
contract.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.urdf import JointFacts, Tree, check_start, read_tree
from axbridge.errors import RigError
from axbridge.rotations import LinkPose, Quaternion, Vector
from axbridge.sim.engines.ideal_joints import IdealJoint
from axbridge.sim.substep import Drives

_SUBSTEP = 1e-3  # s
BULLET_LINKS = 128  # with base and links on fixed joints; the queries of PyBullet 3.2.7 fail for a larger body


@dataclass(frozen=True)
class Scene:
    """Data from which an engine is built."""

    urdf: Path  # the robot
    text: str | None = None  # the URDF's text, in place of the file's; meshes are searched beside the file
    time_step: float = 1 / 240  # physics step, s
    fixed_base: bool = True  # whether the base link is bolted down
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)  # m/s²
    ground: bool = False  # whether there is a floor at z = 0
    self_collision: bool = False  # whether links collide with each other, except neighbours
    base_height: float = 0.0  # z of the base link at the start, m
    joints: Sequence[str] = ()  # the first joints of every array, in this order; the others follow in the URDF's order
    ideal: Sequence[IdealJoint] = ()  # joints with a motor of the engine; they are in no array
    start: Mapping[str, float] = field(default_factory=dict)  # initial positions by joint, rad or m
    stops: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # hard stops by joint, replacing the URDF's
    gui: bool = False  # whether to show the world in a window

    @classmethod
    def of(cls, rig: Rig, ideal: Sequence[IdealJoint]) -> Scene:
        """Build the scene of a rig; the joints of its Dynamixels come first."""
        urdf, world = rig.urdf_path(), rig.world
        assert world is not None  # urdf_path has checked it
        return cls(
            urdf,
            text=rig.urdf_text(),
            time_step=rig.physics_step_ms / 1000,
            fixed_base=world.fixed_base,
            gravity=world.gravity,
            ground=world.ground,
            self_collision=world.self_collision,
            base_height=world.base_height,
            joints=[servo.joint for servo in rig.dynamixels],
            ideal=ideal,
            start=rig.start,
            stops={s.joint: (s.min_stop, s.max_stop) for s in rig.dynamixels if s.min_stop < s.max_stop},
            gui=world.gui,
        )


class Arrangement(NamedTuple):
    """The joints of a scene in the order of every array; ideal joints are last."""

    tree: Tree  # of the URDF
    joints: tuple[JointFacts, ...]  # the URDF's data of each joint
    limits: tuple[tuple[float, float], ...]  # stops of each: the scene's, or else the URDF's
    start: tuple[float, ...]  # initial position of each, rad or m


class LinkMotion(NamedTuple):
    """Position and velocity of a link's frame in the world."""

    time: float  # end of the engine's latest whole step, s since the engine was built
    place: Vector  # m
    turned: Quaternion  # x, y, z, w
    speed: Vector  # of the frame's origin, m/s
    spin: Vector  # rad/s


class Contact(NamedTuple):
    """A contact point of a link with another body at the end of the engine's latest whole step."""

    link: str
    point: Vector  # in the world, m
    force: Vector  # on the link: normal force and friction, in the world, N


class Engine(Protocol):
    """A world with one robot: n joints with drives, advanced in fixed steps."""

    joints: tuple[str, ...]  # joint names, in the order of every array
    kinds: tuple[str, ...]  # `revolute` (also for continuous joints) or `prismatic`, of each
    limits: tuple[tuple[float, float], ...]  # lowest and highest position of each; ±inf = none
    damping: FloatArray  # of each joint, from the URDF, (n,), N·m·s/rad; the caller adds it to the drives
    friction: FloatArray  # dry friction of each joint, from the URDF, (n,), N·m; the caller adds it, too
    time_step: float  # a step of `advance`, s

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Return joint positions (n,), rad or m, and speeds (n,), rad/s or m/s; the caller must not change them."""

    def load(self) -> FloatArray:
        """Return the motor torque that holds each joint against gravity, motion and contacts, (n,), N·m or N."""

    def advance(self, drives: Drives, first: int, count: int) -> None:
        """Advance by `count` steps.

        In each step `axbridge.sim.substep.gather` computes the drives' action on the joints in rows of `drives.motor`:
        torque, damping, armature, and the largest impulse of dry friction. Stops are columns of `drives.passive`.
        Afterwards `end_step` (or `account`) gets the joints' motion. A rotor within its play (row LOOSE) that reaches
        its joint transfers an impulse.

        Args:
            drives: The servos and passive elements of the joints; changed in place.
            first: Number of the first step since the start of the drives.
            count: 1 or more.

        Raises:
            SimulationDiverged: a joint's position or speed is too large or not finite.
        """

    def base(self) -> LinkPose | None:
        """Return the centre of mass, m, and the axes of a free base link; None when the base is bolted down."""

    def place_base(self, pose: LinkPose) -> None:
        """Place a free base link at a pose as of `base`, at rest.

        Raises:
            UsageError: the base is bolted down.
        """

    def place_joint(self, joint: int, position: float) -> None:
        """Place a joint at a position, rad or m, at rest; the links behind it move along, and no other joint turns."""

    def poses(self) -> dict[str, LinkPose]:
        """Return the pose of each link's frame, by the link's name."""

    def motion(self, link: str) -> LinkMotion:
        """Return the motion of a link's frame.

        Raises:
            UsageError: there is no such link.
        """

    def contacts(self) -> list[Contact]:
        """Return the contacts of the robot's links that have a force, with the floor or other bodies."""

    def close(self) -> None:
        """Release the engine; may be called twice."""


def refuse_size(urdf: Path, links: int) -> NoReturn:
    """Raise RigError for a robot that has too many links for PyBullet."""
    reason = f"it has {links} links, and PyBullet takes {BULLET_LINKS} at most"
    raise RigError(urdf, "", reason, 'write engine = "mujoco" below [world], or give --engine mujoco')


def arrange(scene: Scene) -> Arrangement:
    """Read a scene's URDF and order its joints; RigError if a joint is missing, fixed or starts outside its stops."""
    last = [motor.joint for motor in scene.ideal]
    tree = read_tree(scene.urdf, fixed_base=scene.fixed_base, kinematic=last, text=scene.text)
    known = {facts.name: facts for facts in tree.joints}
    for joint in [*scene.joints, *last, *scene.start, *scene.stops]:
        if joint not in known:
            reason = "this joint is fixed" if joint in tree.fixed else "the URDF has no such joint"
            raise RigError(scene.urdf, joint, reason, f"movable joints: {', '.join(known) or 'none'}")
    names = (*scene.joints, *(name for name in known if name not in {*scene.joints, *last}), *last)
    limits = tuple(scene.stops.get(name, (known[name].low, known[name].high)) for name in names)
    start = []
    for name, (low, high) in zip(names, limits, strict=True):
        position = scene.start.get(name, min(max(0.0, low), high))
        if name not in last:
            check_start(scene.urdf, name, position, (low, high))
        start.append(position)
    return Arrangement(tree, tuple(known[name] for name in names), limits, tuple(start))


def substeps(physics_step: float, longest: float = _SUBSTEP) -> tuple[int, float]:
    """Return the number of substeps of at most `longest` (s) in a physics step (s), and their length, s."""
    count = max(1, math.ceil(physics_step / longest - 1e-9))
    return count, physics_step / count
