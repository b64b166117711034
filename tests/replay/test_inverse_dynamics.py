"""Inverse dynamics along a motion, beside the engines' own kernel."""

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.jit import as_tuple
from axbridge.physics.engines.tree_dynamics import BASE, Base, Contacts, Links, joint_dynamics
from axbridge.replay.inverse_dynamics import BaseMotion, wrenches

GRAVITY = np.array([0.0, 0.0, -9.81])


def tree_of(name):
    rig = Rig.load(name)
    return read_tree(rig.urdf_path(), fixed_base=True, text=rig.urdf_text())


def by_the_engine(tree, position, speed, acceleration):
    n = len(tree.joints)
    chain = Links(tree.parent, tree.kind, tree.dof, *(getattr(tree, name) for name in Links._fields[3:]))
    motion = np.zeros(BASE)
    motion[6] = 1.0
    root, nothing = Base(motion, np.zeros(3), np.eye(3), GRAVITY, True), Contacts(np.zeros((0, 4)), 1.0, 0.0, 1e-3)
    inertia, load = np.empty((n, n)), np.empty(n)
    joint_dynamics(as_tuple(chain), as_tuple(root), as_tuple(nothing), position, speed, inertia, load)
    return inertia @ acceleration + load


@pytest.mark.parametrize("name", ["leg", "pan_tilt", "bench_arm"])
def test_torques_along_a_motion_are_those_of_the_engines_kernel(name):
    tree = tree_of(name)
    position, speed, acceleration = np.random.default_rng(3).normal(0, 1, (3, 5, len(tree.joints)))
    found = wrenches(tree, position, speed, acceleration, GRAVITY)
    for sample in range(5):
        wanted = by_the_engine(tree, position[sample], speed[sample], acceleration[sample])
        got = [found.of_joint(tree, joint)[sample] for joint in range(len(tree.joints))]
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


def test_a_lift_that_accelerates_feels_like_more_gravity():
    tree = tree_of("leg")
    position = np.random.default_rng(4).normal(0, 0.5, (3, len(tree.joints)))
    still, none = np.zeros_like(position), np.zeros((3, 3))
    up = np.tile([0.0, 0.0, 2.0], (3, 1))
    lifted = BaseMotion(np.tile(np.eye(3), (3, 1, 1)), none, none, none, up)
    found = wrenches(tree, position, still, still, GRAVITY, lifted)
    heavier = wrenches(tree, position, still, still, GRAVITY - up[0])
    np.testing.assert_allclose(found.moment, heavier.moment, atol=1e-12)


def test_a_turning_base_is_a_first_joint_that_turns():
    """The leg about its hip: all beyond it hangs on a base that turns as the hip does."""
    tree = tree_of("pan_tilt")
    rng = np.random.default_rng(5)
    position, speed, acceleration = rng.normal(0, 1, (3, 4, 2))
    whole = wrenches(tree, position, speed, acceleration, GRAVITY)
    link = int(np.flatnonzero(tree.dof == 0)[0])
    axis = whole.axis[link]
    angle = position[:, 0]
    cross = np.array([[np.zeros(4), -axis[:, 2], axis[:, 1]], [axis[:, 2], np.zeros(4), -axis[:, 0]],
                      [-axis[:, 1], axis[:, 0], np.zeros(4)]]).transpose(2, 0, 1)  # fmt: skip
    turn = np.eye(3) + np.sin(angle)[:, None, None] * cross + (1 - np.cos(angle))[:, None, None] * (cross @ cross)
    still = np.zeros((4, 3))
    place = whole.origin[link] - (turn @ whole.origin[link][..., None])[..., 0]
    rate, spin = axis * acceleration[:, :1], axis * speed[:, :1]
    lever = place - whole.origin[link]
    moved = np.cross(rate, lever) + np.cross(spin, np.cross(spin, lever))
    held = [column.copy() for column in (position, speed, acceleration)]
    for column in held:
        column[:, 0] = 0.0
    found = wrenches(tree, *held, GRAVITY, BaseMotion(turn, place, spin, rate, moved + still))
    np.testing.assert_allclose(found.of_joint(tree, 1), whole.of_joint(tree, 1), atol=1e-12)
