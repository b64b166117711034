"""Torques of a motion, bolted down and on two feet."""

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.motion.inverse_dynamics import Body, rooted_at
from axbridge.motion.poses_of_mass import posed

BIOLOID = Rig.load("bioloid")
STANDING = {servo.joint: servo.position for servo in BIOLOID.servos}


def drawn(body, count=4):
    draw = np.random.default_rng(3)
    return [draw.uniform(-size, size, (count, len(body.tree.joints))) for size in (0.6, 3.0, 20.0)]


def test_torques_are_those_of_the_engine():
    bullet = pytest.importorskip("pybullet")
    rig = Rig.load("leg")
    body = Body.of(rig, {})
    world = bullet.connect(bullet.DIRECT)
    try:
        robot = bullet.loadURDF(
            str(rig.urdf_path()), useFixedBase=True, flags=bullet.URDF_USE_INERTIA_FROM_FILE, physicsClientId=world
        )
        bullet.setGravity(0, 0, -9.81, physicsClientId=world)
        motion = drawn(body)
        for row, torque in zip(zip(*motion, strict=True), body.effort(*motion).torque, strict=True):
            found = bullet.calculateInverseDynamics(robot, *(list(part) for part in row), physicsClientId=world)
            np.testing.assert_allclose(torque, found, atol=2e-5)
    finally:
        bullet.disconnect(world)


def test_a_robot_looked_at_from_its_foot_is_the_same_robot():
    tree = read_tree(BIOLOID.urdf_path(), fixed_base=False)
    turned = rooted_at(tree, tree.links.index("right_ankle_lateral_link"))
    order = [[joint.name for joint in tree.joints].index(joint.name) for joint in turned.joints]
    poses = np.random.default_rng(1).uniform(-0.5, 0.5, (5, len(tree.joints)))

    def apart(one, positions, names):
        place = posed(one, positions).place
        return np.linalg.norm(place[one.links.index(names[0])] - place[one.links.index(names[1])], axis=1)

    for names in (("left_ankle_lateral_link", "left_elbow_link"), ("head_link", "left_knee_link")):
        np.testing.assert_allclose(apart(turned, poses[:, order], names), apart(tree, poses, names), atol=1e-12)
    assert turned.mass.sum() == pytest.approx(tree.mass.sum())


def test_at_rest_the_zero_moment_point_is_below_the_centre_of_mass_and_both_legs_carry_alike():
    body = Body.of(BIOLOID, STANDING)
    names = [joint.name for joint in body.tree.joints]
    rest = np.array([[STANDING[name] for name in names]])
    found = body.effort(rest, np.zeros_like(rest), np.zeros_like(rest))
    soles = (body.soles[0].low + body.soles[0].high) / 2
    ahead = posed(body.tree, rest).centre[0, 0] - soles[0]
    assert found.zmp[0] == pytest.approx([ahead, 0.0], abs=1e-6)
    assert found.slip == pytest.approx(0.0, abs=1e-9)
    for joint in ("hip_swing", "knee", "ankle_swing"):
        left, right = (found.torque[0, names.index(f"{side}_{joint}")] for side in ("left", "right"))
        assert left == pytest.approx(right, abs=1e-6)
    assert abs(found.torque[0, names.index("left_knee")]) > 0.05
