"""A robot looked at from another base."""

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.sim.body.link_paths import rooted_at
from axbridge.sim.body.poses import posed


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
