"""What the joints of a robot give that stands: on both feet, and on one."""

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.motion.gait import JOINTS
from axbridge.sim.body.inverse_dynamics import BaseMotion, Body, Carrier, carried, wrenches
from axbridge.sim.body.kinematics import posed

BIOLOID = Rig.load("bioloid")
TREE = read_tree(BIOLOID.urdf_path(), fixed_base=False)
NAMES = TREE.names
COLUMNS = {side: [NAMES.index(f"{side}_{joint}") for joint in ("hip_twist", *JOINTS)] for side in ("left", "right")}


def at_rest(angles, feet, aside=0.0):
    """Torques of the Bioloid in a pose, N·m by joint, with feet at these y, m, and its centre of mass so far aside."""
    pose = TREE.pose(angles)[None]
    centre = posed(TREE, pose).centre[0]
    still = np.zeros((1, 3))
    place = np.array([[-centre[0], aside - centre[1], 0.3]])
    base = BaseMotion(np.eye(3)[None], place, still, still, still)
    legs = tuple(Carrier(COLUMNS[side], np.array([[0.0, y]])) for side, y in feet.items())
    zero = np.zeros_like(pose)
    taken = wrenches(TREE, pose, zero, zero, np.array((0.0, 0.0, -9.81)), base)
    return dict(zip(NAMES, carried(TREE, taken, place, legs).torque[0].tolist(), strict=True))


STANDING = BIOLOID.start


def test_on_one_foot_its_hip_carries_the_body_and_the_other_one_its_leg_alone():
    found = at_rest({}, {"left": 0.0385, "right": -0.0385}, aside=0.0385)
    weight, hip = 9.81 * float(TREE.mass.sum()), 0.0385  # the floor pushes below the centre of mass, so far inside
    assert abs(found["left_hip_lateral"]) == pytest.approx(weight * hip, rel=0.01)
    assert abs(found["right_hip_lateral"]) < 0.01


def test_at_rest_the_zero_moment_point_is_below_the_centre_of_mass_and_both_legs_carry_alike():
    body = Body.of(BIOLOID, STANDING)
    names = body.tree.names
    rest = body.tree.pose(STANDING)[None]
    found = body.effort(rest, np.zeros_like(rest), np.zeros_like(rest))
    soles = (body.soles[0].low + body.soles[0].high) / 2
    ahead = posed(body.tree, rest).centre[0, 0] - soles[0]
    assert found.zmp[0] == pytest.approx([ahead, 0.0], abs=1e-6)
    assert found.slip == pytest.approx(0.0, abs=1e-9)
    carried_by = at_rest(STANDING, {"left": 0.0385, "right": -0.0385})
    for joint in ("hip_swing", "knee", "ankle_swing"):
        left, right = (found.torque[0, names.index(f"{side}_{joint}")] for side in ("left", "right"))
        assert left == pytest.approx(right, abs=1e-6)
        assert carried_by[f"left_{joint}"] == pytest.approx(left, abs=5e-3)
        assert carried_by[f"left_{joint}"] == pytest.approx(carried_by[f"right_{joint}"], abs=1e-6)
    assert abs(found.torque[0, names.index("left_knee")]) > 0.05
