"""What each joint of a robot has to give along a motion. MuJoCo works it out, moment by moment."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.config.urdf import Tree
from axbridge.errors import UsageError
from axbridge.sim.body.poses import Posed, posed

_NOTHING = 1e-14  # kg and kg·m², of a base without mass: MuJoCo wants some of what moves


class BaseMotion(NamedTuple):
    """How the base link moves, at n moments; world axes.

    Attributes:
        turn: Its axes, (n, 3, 3).
        place: Its origin, m, (n, 3).
        spin: rad/s, (n, 3).
        spin_rate: rad/s², (n, 3).
        acceleration: Of its origin, m/s², (n, 3).
    """

    turn: FloatArray
    place: FloatArray
    spin: FloatArray
    spin_rate: FloatArray
    acceleration: FloatArray


class Wrenches(NamedTuple):
    """What a motion takes at n moments.

    Attributes:
        where: The robot's links.
        torque: Of each joint, N·m, (n, joints); of one that slides the force along it, N.
        force: What the base gets from outside, N, (n, 3).
        moment: Likewise about its origin, N·m, (n, 3).
    """

    where: Posed
    torque: FloatArray
    force: FloatArray
    moment: FloatArray


def wrenches(
    tree: Tree,
    position: FloatArray,
    speed: FloatArray,
    acceleration: FloatArray,
    gravity: FloatArray,
    base: BaseMotion | None = None,
) -> Wrenches:
    """Forces and moments along a motion in which nothing touches the robot but at its base."""
    try:
        import mujoco
    except ImportError as failure:
        why = "MuJoCo is not installed, which works out what a robot's motion takes"
        raise UsageError(why, "pip install 'mujoco<4'") from failure
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
    from axbridge.sim.body.mujoco_tree import add_links, new_spec

    spec = new_spec()
    spec.option.gravity = np.zeros(3)
    bodies, joints = add_links(spec, tree, np.zeros(3), free=True)
    base = bodies[0]
    base.mass, base.inertia = max(base.mass, _NOTHING), np.maximum(base.inertia, _NOTHING)
    model = spec.compile()
    return model, np.array([model.jnt_dofadr[joint.id] for joint in joints], dtype=np.int64)


def _turned_back(turn: FloatArray, vectors: FloatArray) -> FloatArray:
    """World vectors (n, 3) in axes (n, 3, 3)."""
    found: FloatArray = np.einsum("nji,nj->ni", turn, vectors)
    return found


def accelerated(arm: FloatArray, spin: FloatArray, rate: FloatArray) -> FloatArray:
    """How much faster the end of a turning arm (n, 3) gets than its beginning; m, rad/s and rad/s² to m/s²."""
    return cross(rate, arm) + cross(spin, cross(spin, arm))


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Of rows (n, 3); `np.cross` takes several times as long."""
    found: FloatArray = a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]
    return found
