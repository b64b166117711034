"""Joint torques of a robot along a motion: floating, bolted down, or standing on flat feet."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.config.rig import Rig
from axbridge.config.urdf import Tree
from axbridge.errors import RigError, plural, require
from axbridge.sim.body.kinematics import Posed, Sole, path_to_base, posed, rooted_at, soles_of

_LEAST_MASS = 1e-14  # kg and kg·m², of a base without mass: MuJoCo requires a mass for each moving body


class BaseMotion(NamedTuple):
    """Motion of the base link at n moments; world axes."""

    turn: FloatArray  # rotation matrices of its axes, (n, 3, 3)
    place: FloatArray  # its origin, m, (n, 3)
    spin: FloatArray  # rad/s, (n, 3)
    spin_rate: FloatArray  # rad/s², (n, 3)
    acceleration: FloatArray  # of its origin, m/s², (n, 3)


class Wrenches(NamedTuple):
    """Joint torques and the external wrench on the base at n moments of a motion."""

    where: Posed  # the robot's links
    torque: FloatArray  # of each joint, N·m, (n, joints); for a prismatic joint the force along it, N
    force: FloatArray  # external force on the base, N, (n, 3)
    moment: FloatArray  # external moment on the base about its origin, N·m, (n, 3)


def wrenches(
    tree: Tree,
    position: FloatArray,
    speed: FloatArray,
    acceleration: FloatArray,
    gravity: FloatArray,
    base: BaseMotion | None = None,
) -> Wrenches:
    """Return forces and moments along a motion (n, joints) of a robot that has contact only at its base.

    `gravity` in world axes, m/s², (3,). Without `base`, the base is at rest in the origin.
    """
    require("computing the torques of a robot's motion", "mujoco")
    import mujoco

    n = len(position)
    if base is None:
        still = np.zeros((n, 3))
        base = BaseMotion(np.broadcast_to(np.eye(3), (n, 3, 3)), still, still, still, still)
    model, dofs = _model(tree)
    data = mujoco.MjData(model)
    places = np.zeros((n, model.nq))
    speeds, accelerations, forces = np.zeros((3, n, model.nv))
    places[:, dofs + 1], speeds[:, dofs], accelerations[:, dofs] = position, speed, acceleration
    places[:, :3] = base.place
    accelerations[:, :3] = base.acceleration - gravity  # gravity as an upward acceleration of the base
    for k, turn in enumerate(base.turn):
        mujoco.mju_mat2Quat(places[k, 3:7], turn.ravel())
    speeds[:, 3:6] = _turned_back(base.turn, base.spin)  # MuJoCo has these in the base's own axes
    accelerations[:, 3:6] = _turned_back(base.turn, base.spin_rate)
    at, moving, gaining = data.qpos, data.qvel, data.qacc
    for k in range(n):
        at[:], moving[:], gaining[:] = places[k], speeds[k], accelerations[k]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_rne(model, data, 1, forces[k])
    moment = np.einsum("nij,nj->ni", base.turn, forces[:, 3:6])
    return Wrenches(posed(tree, position, (base.place, base.turn)), forces[:, dofs], forces[:, :3], moment)


@lru_cache(maxsize=16)
def _model(tree: Tree) -> tuple[Any, IntArray]:
    """Return a MuJoCo model of a floating robot without gravity, and the degree of freedom of each joint, (joints,)."""
    from axbridge.sim.engines.mujoco.model import add_links, new_spec

    spec = new_spec()
    spec.option.gravity = np.zeros(3)
    bodies, joints = add_links(spec, tree, np.zeros(3), free=True)
    base = bodies[0]
    base.mass, base.inertia = max(base.mass, _LEAST_MASS), np.maximum(base.inertia, _LEAST_MASS)
    model = spec.compile()
    return model, np.array([model.jnt_dofadr[joint.id] for joint in joints], dtype=np.int64)


def _turned_back(turn: FloatArray, vectors: FloatArray) -> FloatArray:
    turned: FloatArray = np.einsum("nji,nj->ni", turn, vectors)
    return turned


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the cross products of rows (n, 3); `np.cross` takes several times as long."""
    return a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]


class Carrier(NamedTuple):
    """A leg that can carry the robot."""

    joints: list[int]  # columns of its joints, from the base to the foot
    held: FloatArray  # zero-moment point while this leg alone carries, m, (n, 2) or (1, 2), on the floor


def carried(
    tree: Tree, taken: Wrenches, place: FloatArray, legs: tuple[Carrier, Carrier], floor: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the torques (n, joints), N·m, of a standing robot, and its zero-moment point (n, 2), m.

    This point divides the floor's force between the legs. `place`: origin of the base, m, (n, 3); `floor`: height, m.
    """
    force, moment = taken.force, taken.moment + cross(place, taken.force)  # of the floor, about the world's origin
    zmp = np.column_stack((floor * force[:, 0] - moment[:, 1], floor * force[:, 1] + moment[:, 0]))
    zmp /= np.maximum(force[:, 2:], 1e-3)
    height = np.full(len(force), floor)
    twist = moment - cross(np.column_stack((zmp, height)), force)
    first, second = legs
    apart = first.held - second.held
    squared = np.maximum(np.sum(apart**2, axis=1), 1e-12)  # both legs can have the same point
    share = np.clip(np.sum((zmp - second.held) * apart, axis=1) / squared, 0.0, 1.0)[:, None]
    beside = zmp - second.held - share * apart
    torque = taken.torque.copy()
    links = tree.dof.tolist()
    for leg, part in ((first, share), (second, 1 - share)):
        under = np.column_stack((leg.held + beside, height))
        for column in leg.joints:
            link = links.index(column)
            pushed = cross(under - taken.where.place[link], part * force) + part * twist
            torque[:, column] -= np.sum(taken.where.axis[link] * pushed, axis=1)
    return torque, zmp


class Effort(NamedTuple):
    """Joint torques and the motion's errors on the feet at n moments."""

    torque: FloatArray  # of each joint of the tree, N·m, (n, joints)
    # zero-moment point, relative to the middle of both soles, m, (n, 2); 0 for a robot that is bolted down
    zmp: FloatArray
    # displacement of the second foot: x, y, z in m and its tilt in two directions in rad, (n, 5); 0 when bolted down
    slip: FloatArray


@dataclass(frozen=True)
class Body:
    """A robot that is bolted down, or stands on two feet."""

    tree: Tree  # its links; the first does not move
    gravity: FloatArray  # in the frame of that link, m/s², (3,)
    soles: tuple[Sole, ...] = ()  # empty when bolted down; else two, and the link of the first is the tree's first link
    # required position, m, and rotation of the second foot's link, (3,) and (3, 3)
    home: tuple[FloatArray, FloatArray] = (np.zeros(3), np.eye(3))
    # largest distance of the zero-moment point from the middle of both soles, m, in x and y
    room: tuple[float, float] = (math.inf, math.inf)

    @classmethod
    def of(cls, rig: Rig, positions: dict[str, float]) -> Body:
        """Build the body of a rig in a pose (rad); RigError if its base is not fixed and it has not two soles."""
        tree, world = rig.tree(), rig.world
        assert world is not None  # rig.tree() needs it
        gravity = np.array(world.gravity)
        if world.fixed_base:
            return cls(tree, gravity)
        feet = soles_of(rig, tree, positions)
        if len(feet) != 2:
            reason = f"{plural(len(feet), 'link')} with a box for a sole on the floor in this pose"
            raise RigError(rig.path, "world", reason, "start from a pose on two feet, or let fixed_base = true")
        names = [tree.links[sole.link] for sole in feet]
        tree = rooted_at(tree, feet[0].link)
        soles = tuple(sole._replace(link=tree.links.index(name)) for sole, name in zip(feet, names, strict=True))
        home = posed(tree, tree.pose(positions)[None])
        body = cls(tree, gravity, soles, (home.place[soles[1].link, 0], home.turn[soles[1].link, 0]))
        corners = np.array(
            [body._in_first(k, corner) for k, sole in enumerate(soles) for corner in (sole.low, sole.high)]
        )
        middle = body._centres().mean(axis=0)
        reach = np.abs(corners - middle)
        return replace(body, room=(float(reach[:, 0].min()), float(reach[:, 1].max())))

    def effort(self, position: FloatArray, speed: FloatArray, acceleration: FloatArray) -> Effort:
        """Return the effort of a motion from its joints' angles (rad), speeds and accelerations, (n, joints) each."""
        required = wrenches(self.tree, position, speed, acceleration, self.gravity)
        if not self.soles:
            return Effort(required.torque, np.zeros((len(position), 2)), np.zeros((len(position), 5)))
        return self._on_feet(required)

    def _on_feet(self, required: Wrenches) -> Effort:
        """Return the effort with the first foot as the base: the floor's force on the second foot loads both legs."""
        first, second = self._centres()
        leg = [int(dof) for dof in self.tree.dof[path_to_base(self.tree, self.soles[1].link)] if dof >= 0]
        legs = Carrier(leg, second[None]), Carrier([], first[None])
        torque, zmp = carried(self.tree, required, required.where.place[0], legs, float(self.soles[0].low[2]))
        place, turn = required.where.place[self.soles[1].link], required.where.turn[self.soles[1].link]
        turned = np.swapaxes(turn, -1, -2) @ self.home[1]
        slip = np.column_stack((place - self.home[0], turned[:, 0, 2], turned[:, 1, 2]))
        return Effort(torque, zmp - (first + second) / 2, slip)

    def _centres(self) -> FloatArray:
        """Return the x and y of both soles' centres in the frame of the first foot, m, (2, 2)."""
        return np.array([self._in_first(k, sole.middle) for k, sole in enumerate(self.soles)])

    def _in_first(self, sole: int, point: FloatArray) -> FloatArray:
        turned = self.home[0] + self.home[1] @ point if sole else point
        return np.array(turned[:2])
