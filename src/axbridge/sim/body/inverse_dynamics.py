"""What each joint of a robot has to give along a motion: in the air, bolted down, or standing on flat feet."""

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
from axbridge.sim.body.kinematics import Posed, Sole, posed, rooted_at, soles_of, way_to_base

_NOTHING = 1e-14  # kg and kg·m², of a base without mass: MuJoCo wants some of what moves


class BaseMotion(NamedTuple):
    """How the base link moves, at n moments; world axes."""

    turn: FloatArray  # its axes, (n, 3, 3)
    place: FloatArray  # its origin, m, (n, 3)
    spin: FloatArray  # rad/s, (n, 3)
    spin_rate: FloatArray  # rad/s², (n, 3)
    acceleration: FloatArray  # of its origin, m/s², (n, 3)


class Wrenches(NamedTuple):
    """What a motion takes at n moments."""

    where: Posed  # the robot's links
    torque: FloatArray  # of each joint, N·m, (n, joints); of one that slides the force along it, N
    force: FloatArray  # what the base gets from outside, N, (n, 3)
    moment: FloatArray  # likewise about its origin, N·m, (n, 3)


def wrenches(
    tree: Tree,
    position: FloatArray,
    speed: FloatArray,
    acceleration: FloatArray,
    gravity: FloatArray,
    base: BaseMotion | None = None,
) -> Wrenches:
    """Forces and moments along a motion in which nothing touches the robot but at its base."""
    require("working out what a robot's motion takes", "mujoco")
    import mujoco

    n = len(position)
    if base is None:
        still = np.zeros((n, 3))
        base = BaseMotion(np.broadcast_to(np.eye(3), (n, 3, 3)), still, still, still, still)
    model, dofs = _model(tree)
    data = mujoco.MjData(model)
    places = np.zeros((n, model.nq))
    speeds, accelerations, found = np.zeros((3, n, model.nv))
    places[:, dofs + 1], speeds[:, dofs], accelerations[:, dofs] = position, speed, acceleration
    places[:, :3] = base.place
    accelerations[:, :3] = base.acceleration - gravity  # weight is felt as in a lift that starts upwards
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
        mujoco.mj_rne(model, data, 1, found[k])
    moment = np.einsum("nij,nj->ni", base.turn, found[:, 3:6])
    return Wrenches(posed(tree, position, (base.place, base.turn)), found[:, dofs], found[:, :3], moment)


@lru_cache(maxsize=16)
def _model(tree: Tree) -> tuple[Any, IntArray]:
    """A MuJoCo model of a robot that floats without gravity, and the degree of freedom of each joint, (joints,)."""
    from axbridge.sim.engines.mujoco.model import add_links, new_spec

    spec = new_spec()
    spec.option.gravity = np.zeros(3)
    bodies, joints = add_links(spec, tree, np.zeros(3), free=True)
    base = bodies[0]
    base.mass, base.inertia = max(base.mass, _NOTHING), np.maximum(base.inertia, _NOTHING)
    model = spec.compile()
    return model, np.array([model.jnt_dofadr[joint.id] for joint in joints], dtype=np.int64)


def _turned_back(turn: FloatArray, vectors: FloatArray) -> FloatArray:
    found: FloatArray = np.einsum("nji,nj->ni", turn, vectors)
    return found


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Of rows (n, 3); `np.cross` takes several times as long."""
    return a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]


class Carrier(NamedTuple):
    """A leg that may stand."""

    joints: list[int]  # columns of its joints, the whole way from the base to the foot
    held: FloatArray  # where the zero-moment point is while it stands alone, m, (n, 2) or (1, 2), on the floor


def carried(
    tree: Tree, taken: Wrenches, place: FloatArray, legs: tuple[Carrier, Carrier], floor: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Torques (n, joints), N·m, of a robot that stands, and its zero-moment point (n, 2), m; that shares the push."""
    force, moment = taken.force, taken.moment + cross(place, taken.force)  # of the floor, about the world's origin
    zmp = np.column_stack((floor * force[:, 0] - moment[:, 1], floor * force[:, 1] + moment[:, 0]))
    zmp /= np.maximum(force[:, 2:], 1e-3)
    height = np.full(len(force), floor)
    twist = moment - cross(np.column_stack((zmp, height)), force)
    one, other = legs
    apart = one.held - other.held
    squared = np.maximum(np.sum(apart**2, axis=1), 1e-12)  # both may be held in the middle
    share = np.clip(np.sum((zmp - other.held) * apart, axis=1) / squared, 0.0, 1.0)[:, None]
    beside = zmp - other.held - share * apart
    torque = taken.torque.copy()
    links = tree.dof.tolist()
    for leg, part in ((one, share), (other, 1 - share)):
        under = np.column_stack((leg.held + beside, height))
        for column in leg.joints:
            link = links.index(column)
            pushed = cross(under - taken.where.place[link], part * force) + part * twist
            torque[:, column] -= np.sum(taken.where.axis[link] * pushed, axis=1)
    return torque, zmp


class Effort(NamedTuple):
    """What a motion takes at n moments."""

    torque: FloatArray  # of each joint of the tree, N·m, (n, joints)
    # zero-moment point beside the middle of both soles, m, (n, 2); zeros where the robot is bolted down
    zmp: FloatArray
    # how far the second foot has gone, x, y, z in m and its lean in two directions in rad, (n, 5); likewise
    slip: FloatArray


@dataclass(frozen=True)
class Body:
    """A robot that is bolted down, or stands on two feet."""

    tree: Tree  # its links; the first is what does not move
    gravity: FloatArray  # in the frame of that link, m/s², (3,)
    soles: tuple[Sole, ...] = ()  # none bolted down; two, the first one's link is the first of the tree
    # place and rotation of the second foot's link where it has to stay, (3,) and (3, 3)
    home: tuple[FloatArray, FloatArray] = (np.zeros(3), np.eye(3))
    # how far the zero-moment point may go from the middle of both soles, m, (2,)
    room: tuple[float, float] = (math.inf, math.inf)

    @classmethod
    def of(cls, rig: Rig, positions: dict[str, float]) -> Body:
        """The body of a rig."""
        tree, world = rig.tree(), rig.world
        assert world is not None  # else it had no tree
        gravity = np.array(world.gravity)
        if world.fixed_base:
            return cls(tree, gravity)
        feet = soles_of(rig, tree, positions)
        if len(feet) != 2:
            why = f"{plural(len(feet), 'link')} with a box for a sole on the floor in this pose"
            raise RigError(rig.path, "world", why, "start from a pose on two feet, or let fixed_base = true")
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
        """What a motion takes: its joints' angles (rad), speeds and accelerations, (n, joints) each."""
        held = wrenches(self.tree, position, speed, acceleration, self.gravity)
        if not self.soles:
            return Effort(held.torque, np.zeros((len(position), 2)), np.zeros((len(position), 5)))
        return self._on_feet(held)

    def _on_feet(self, held: Wrenches) -> Effort:
        """The first foot is held: the second one's push comes up its leg, and goes down the first."""
        first, second = self._centres()
        leg = [int(dof) for dof in self.tree.dof[way_to_base(self.tree, self.soles[1].link)] if dof >= 0]
        legs = Carrier(leg, second[None]), Carrier([], first[None])
        torque, zmp = carried(self.tree, held, held.where.place[0], legs, float(self.soles[0].low[2]))
        place, turn = held.where.place[self.soles[1].link], held.where.turn[self.soles[1].link]
        turned = np.swapaxes(turn, -1, -2) @ self.home[1]
        slip = np.column_stack((place - self.home[0], turned[:, 0, 2], turned[:, 1, 2]))
        return Effort(torque, zmp - (first + second) / 2, slip)

    def _centres(self) -> FloatArray:
        """Of both soles, in the frame of the first foot, m, (2, 2)."""
        return np.array([self._in_first(k, sole.middle) for k, sole in enumerate(self.soles)])

    def _in_first(self, sole: int, point: FloatArray) -> FloatArray:
        found = self.home[0] + self.home[1] @ point if sole else point
        return np.array(found[:2])
