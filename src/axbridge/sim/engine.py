"""The interface of a physics engine: joints that are advanced together with their drives and their contacts.

The engine decides the order of loops, motors, joints and contacts. `axbridge.testing.check_engine` tests this contract.
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
BULLET_LINKS = 128  # with the base and links on fixed joints: of a body with more, PyBullet 3.2.7 answers no question


@dataclass(frozen=True)
class Scene:
    """Data from which an engine is built."""

    urdf: Path  # the robot
    text: str | None = None  # what the URDF says, instead of the file's own text; meshes are looked for beside the file
    time_step: float = 1 / 240  # physics step, s
    fixed_base: bool = True  # whether the base link is bolted down
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)  # m/s²
    ground: bool = False  # whether there is a floor at z = 0
    self_collision: bool = False  # whether links collide with each other, neighbours excepted
    base_height: float = 0.0  # z of the base link at the start, m
    joints: Sequence[str] = ()  # joints that come first in every array, in this order; the others follow in the URDF's
    ideal: Sequence[IdealJoint] = ()  # joints that the engine moves; they are in no array
    start: Mapping[str, float] = field(default_factory=dict)  # initial positions by joint, rad or m
    stops: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # hard stops by joint, instead of the URDF's
    gui: bool = False  # whether to show the world in a window

    @classmethod
    def of(cls, rig: Rig, ideal: Sequence[IdealJoint]) -> Scene:
        """The world of a rig, its Dynamixels' joints first."""
        urdf, world = rig.urdf_path(), rig.world
        assert world is not None  # urdf_path has seen to it
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
    """The joints of a scene in the order of every array, ideal ones last."""

    tree: Tree  # of the URDF
    joints: tuple[JointFacts, ...]  # what it says of each
    limits: tuple[tuple[float, float], ...]  # stops of each; those of the scene where it has some
    start: tuple[float, ...]  # where each starts


class LinkMotion(NamedTuple):
    """Position and velocity of a link's frame in the world."""

    time: float  # what moment this is true for, s since the engine was made: the end of its latest whole step
    place: Vector  # m
    turned: Quaternion  # x, y, z, w
    speed: Vector  # of the frame's origin, m/s
    spin: Vector  # rad/s


class Contact(NamedTuple):
    """A contact point of a link with another body, as of the engine's latest whole step."""

    link: str
    point: Vector  # in the world, m
    force: Vector  # what pushes the link there, pressure and friction, in the world, N


class Engine(Protocol):
    """n joints with drives, advanced in fixed steps; a world of its own with one robot in it."""

    joints: tuple[str, ...]  # joint names, in the order of every array
    kinds: tuple[str, ...]  # `revolute` (also for continuous ones) or `prismatic`, of each
    limits: tuple[tuple[float, float], ...]  # lowest and highest position of each; ±inf = none
    damping: FloatArray  # of each joint itself, as its URDF says, (n,), N·m·s/rad; the caller adds this to the drives
    friction: FloatArray  # likewise its dry friction, (n,), N·m
    time_step: float  # a step of `advance`, s

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Joint positions (n,), rad or m, and speeds (n,), rad/s or m/s; the caller does not change them."""

    def load(self) -> FloatArray:
        """Torque that a motor needs to hold each joint against gravity, motion and contacts, (n,), N·m or N."""

    def advance(self, drives: Drives, first: int, count: int) -> None:
        """Go `count` steps ahead.

        In each step `axbridge.sim.substep.gather` says what acts on the joints, by rows of `drives.motor`: torque,
        damping, armature, and the most impulse of dry friction; stops are columns of `drives.passive`. Afterwards
        `end_step` (or `account`) gets what the joints did. A rotor that is in its play (row LOOSE) and reaches its
        joint hits it.

        Args:
            drives: What moves the joints; changed in place.
            first: Number of the first step since the drives began.
            count: 1 or more.

        Raises:
            SimulationDiverged: a joint's motion left the finite range.
        """

    def base(self) -> LinkPose | None:
        """Centre of mass of a base link that stands free, and its axes; None where it is bolted down."""

    def place_base(self, pose: LinkPose) -> None:
        """Put a base that stands free there, at rest.

        Raises:
            UsageError: it is bolted down.
        """

    def place_joint(self, joint: int, position: float) -> None:
        """Put a joint there, rad or m, at rest; what hangs on it goes along, and no other joint turns."""

    def poses(self) -> dict[str, LinkPose]:
        """Where the frame of each link is, by its name."""

    def motion(self, link: str) -> LinkMotion:
        """How a link moves.

        Raises:
            UsageError: there is no such link.
        """

    def contacts(self) -> list[Contact]:
        """Where the robot's links touch the floor and other things; what touches without force is left out."""

    def close(self) -> None:
        """Release the engine; may be called twice."""


def refuse_size(urdf: Path, links: int) -> NoReturn:
    """Raise the error of a robot that has too many links for PyBullet."""
    why = f"it has {links} links, and PyBullet takes {BULLET_LINKS} at most"
    raise RigError(urdf, "", why, 'write engine = "mujoco" below [world], or give --engine mujoco')


def arrange(scene: Scene) -> Arrangement:
    """Read a scene's URDF, and put its joints in order."""
    last = [motor.joint for motor in scene.ideal]
    tree = read_tree(scene.urdf, fixed_base=scene.fixed_base, kinematic=last, text=scene.text)
    known = {facts.name: facts for facts in tree.joints}
    for joint in [*scene.joints, *last, *scene.start, *scene.stops]:
        if joint not in known:
            why = "this joint is fixed" if joint in tree.fixed else "the URDF has no such joint"
            raise RigError(scene.urdf, joint, why, f"movable joints: {', '.join(known) or 'none'}")
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
    """How many steps of at most `longest` (s) a physics step (s) has, and how long each is, s."""
    count = max(1, math.ceil(physics_step / longest - 1e-9))
    return count, physics_step / count
