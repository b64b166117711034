"""Inverse dynamics along a motion, beside the engines' own kernel."""

import numpy as np
import pytest

from axbridge.body.inverse_dynamics import BaseMotion, wrenches
from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.jit import as_tuple
from axbridge.rotations import about
from axbridge.sim.engines.bullet.tree_dynamics import BASE, Base, Contacts, Links, joint_dynamics

GRAVITY = np.array([0.0, 0.0, -9.81])
LINK = """<link name="{}"><inertial><origin xyz="0.01 0.1 -0.02"/><mass value="0.3"/>
<inertia ixx="0.002" iyy="0.003" izz="0.004" ixy="0.0005" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/><origin xyz="0.1 0 0.05" rpy="0.3 -0.2 1"/>
<axis xyz="{}"/><limit lower="-3" upper="3" effort="9" velocity="9"/></joint>"""
CRANE = "\n".join(
    (
        '<robot name="crane">',
        *(LINK.format(name) for name in ("post", "table", "slide", "lever")),
        JOINT.format("turn", "revolute", "post", "table", "0 0.6 0.8"),
        JOINT.format("push", "prismatic", "table", "slide", "1 0 0"),
        JOINT.format("swing", "revolute", "slide", "lever", "0 1 0"),
        "</robot>",
    )
)


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
        np.testing.assert_allclose(found.torques()[sample], wanted, rtol=1e-9, atol=1e-12)


def test_forces_on_what_slides_are_those_of_the_engines_kernel(tmp_path):
    """A slide on a turntable, and a lever on the slide."""
    path = tmp_path / "crane.urdf"
    path.write_text(CRANE)
    tree = read_tree(path, fixed_base=True)
    assert [joint.linear for joint in tree.joints] == [False, True, False]
    position, speed, acceleration = np.random.default_rng(6).normal(0, 1, (3, 5, 3))
    found = wrenches(tree, position, speed, acceleration, GRAVITY).torques()
    for sample in range(5):
        wanted = by_the_engine(tree, position[sample], speed[sample], acceleration[sample])
        np.testing.assert_allclose(found[sample], wanted, rtol=1e-9, atol=1e-12)


def test_torques_are_those_of_pybullet():
    bullet = pytest.importorskip("pybullet")
    rig = Rig.load("leg")
    tree = tree_of("leg")
    draw = np.random.default_rng(3)
    motion = [draw.uniform(-size, size, (4, len(tree.joints))) for size in (0.6, 3.0, 20.0)]
    torques = wrenches(tree, *motion, GRAVITY).torques()
    world = bullet.connect(bullet.DIRECT)
    try:
        robot = bullet.loadURDF(
            str(rig.urdf_path()), useFixedBase=True, flags=bullet.URDF_USE_INERTIA_FROM_FILE, physicsClientId=world
        )
        bullet.setGravity(0, 0, -9.81, physicsClientId=world)
        for row, torque in zip(zip(*motion, strict=True), torques, strict=True):
            found = bullet.calculateInverseDynamics(robot, *(list(part) for part in row), physicsClientId=world)
            np.testing.assert_allclose(torque, found, atol=2e-5)
    finally:
        bullet.disconnect(world)


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
    axis, origin = whole.where.axis[link], whole.where.place[link]
    turn = about(axis[0], position[:, 0])  # the first joint's axis stands still
    still = np.zeros((4, 3))
    place = origin - (turn @ origin[..., None])[..., 0]
    rate, spin = axis * acceleration[:, :1], axis * speed[:, :1]
    lever = place - origin
    moved = np.cross(rate, lever) + np.cross(spin, np.cross(spin, lever))
    held = [column.copy() for column in (position, speed, acceleration)]
    for column in held:
        column[:, 0] = 0.0
    found = wrenches(tree, *held, GRAVITY, BaseMotion(turn, place, spin, rate, moved + still))
    np.testing.assert_allclose(found.torques()[:, 1], whole.torques()[:, 1], atol=1e-12)
