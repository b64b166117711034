"""Where a robot's links are, beside MuJoCo, and looked at from another base; how far a point is inside its soles."""

import mujoco
import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.rotations import matrix
from axbridge.sim.body.kinematics import inside, posed, rooted_at

AS_WRITTEN = '<mujoco><compiler discardvisual="true" fusestatic="false" balanceinertia="false"/></mujoco><link'


def test_every_link_is_where_mujoco_has_it():
    """MuJoCo reads the URDF itself."""
    rig = Rig.load("bioloid")
    tree = read_tree(rig.urdf_path(), fixed_base=True)
    spec = mujoco.MjSpec.from_string(AS_WRITTEN.join(rig.urdf_path().read_text().split("<link", 1)))
    model = spec.compile()
    data = mujoco.MjData(model)
    poses = np.random.default_rng(3).uniform(-1.5, 1.5, (5, len(tree.joints)))
    here = posed(tree, poses)
    for number, pose in enumerate(poses):
        for joint, angle in zip(tree.joints, pose, strict=True):
            data.joint(joint.name).qpos = angle
        mujoco.mj_kinematics(model, data)
        for link, name in enumerate(tree.links[1:], 1):  # the base is part of MuJoCo's world
            there = data.body(name)
            np.testing.assert_allclose(here.place[link, number], there.xpos, atol=1e-9)
            np.testing.assert_allclose(here.turn[link, number], there.xmat.reshape(3, 3), atol=1e-9)
            np.testing.assert_allclose(here.centres[link, number], there.xipos, atol=1e-9)


def test_links_of_a_robot_that_stands_elsewhere_are_moved_and_turned_with_its_base():
    rig = Rig.load("leg")
    tree = read_tree(rig.urdf_path(), fixed_base=True, text=rig.urdf_text())
    positions = np.random.default_rng(2).uniform(-1, 1, (3, len(tree.joints)))
    turn, place = matrix((0.1, 0.7, -0.1, 0.7)), np.array([1.0, 2.0, 3.0])
    here = posed(tree, positions)
    there = posed(tree, positions, (np.tile(place, (3, 1)), np.tile(turn, (3, 1, 1))))
    for one, other in ((here.place, there.place), (here.centres, there.centres), (here.centre, there.centre)):
        np.testing.assert_allclose(other, place + one @ turn.T, atol=1e-12)
    np.testing.assert_allclose(there.axis, here.axis @ turn.T, atol=1e-12)


def test_a_robot_looked_at_from_its_foot_is_the_same_robot():
    tree = read_tree(Rig.load("bioloid").urdf_path(), fixed_base=False)
    turned = rooted_at(tree, tree.links.index("right_ankle_lateral_link"))
    order = [[joint.name for joint in tree.joints].index(joint.name) for joint in turned.joints]
    poses = np.random.default_rng(1).uniform(-0.5, 0.5, (5, len(tree.joints)))

    def apart(one, positions, names):
        place = posed(one, positions).place
        return np.linalg.norm(place[one.links.index(names[0])] - place[one.links.index(names[1])], axis=1)

    for names in (("left_ankle_lateral_link", "left_elbow_link"), ("head_link", "left_knee_link")):
        np.testing.assert_allclose(apart(turned, poses[:, order], names), apart(tree, poses, names), atol=1e-12)
    assert turned.mass.sum() == pytest.approx(tree.mass.sum())


SQUARE = np.array([(0, 0), (0.1, 0), (0.1, 0.06), (0, 0.06)])


@pytest.mark.parametrize(("point", "margin"), [((0.05, 0.03), 0.03), ((0.01, 0.03), 0.01), ((0.05, 0.08), -0.02)])
def test_the_margin_is_the_way_to_the_nearest_edge(point, margin):
    assert inside(point, SQUARE) == pytest.approx(margin, abs=1e-6)


def test_a_sole_on_its_edge_leaves_no_margin():
    assert inside((0.05, 0.0), SQUARE * (1, 0)) == pytest.approx(0.0, abs=1e-6)
