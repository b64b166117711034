"""What a motion takes of a robot on two feet."""

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.sim.body.effort import Body
from axbridge.sim.body.poses import posed

BIOLOID = Rig.load("bioloid")
STANDING = {servo.joint: servo.position for servo in BIOLOID.servos}


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
