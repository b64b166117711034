"""The walk's arithmetic: a leg's inverse kinematics, footsteps, and what the servos are asked for."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from axbridge import RigError, UsageError
from axbridge.config.rig import Rig
from axbridge.motion.gait import SIDES, Gait, Walk
from axbridge.motion.leg import JOINTS, Leg

BIOLOID = Rig.load("bioloid")
LEG = Walk.of(BIOLOID, Gait()).legs["left"]
AX12_NO_LOAD = 59 * 2 * math.pi / 60  # rad/s


def test_the_leg_is_the_urdfs():
    assert LEG.hip == pytest.approx((0, 0.0385, -0.1155))
    assert (LEG.thigh, LEG.shank) == ((0.0145, -0.075), (-0.0145, -0.0725))
    assert LEG.ankle((0, 0, 0, 0, 0)) == pytest.approx((0, 0.0385, -0.1155 - 0.1475))  # straight down


@given(
    lateral=st.floats(-0.8, 0.8),
    swing=st.floats(-1.0, 1.5),
    knee=st.floats(0.0, 2.0),
    lean=st.floats(-0.3, 0.3),
)
def test_angles_put_the_ankle_where_it_was_asked_for_with_the_sole_level(lateral, swing, knee, lean):
    ankle = LEG.ankle((lateral, swing, knee, 0.0, 0.0))
    assume(ankle[2] < LEG.hip[2] - 0.01)  # above the hip there are two ways to get there
    found = LEG.angles(ankle, lean)
    assert LEG.ankle(found) == pytest.approx(ankle, abs=1e-9)
    assert found[:3] == pytest.approx((lateral, swing, knee), abs=1e-5)  # a straight knee: the arc cosine's last digits
    assert -found[1] + found[2] - found[3] == pytest.approx(-lean)  # pitch of the sole in the torso's frame
    assert found[0] + found[4] == 0  # its roll


def test_a_foot_out_of_reach_is_refused_with_the_reach():
    with pytest.raises(UsageError, match="160 mm from the hip is out of reach: 2 to 148 mm"):
        LEG.angles((0.0, 0.0385, -0.1155 - 0.160))


def test_a_rig_without_such_legs_is_refused_by_name():
    with pytest.raises(RigError, match="left_hip_twist: a walking robot needs this joint"):
        Walk.of(Rig.load("bench_arm"), Gait())
    with pytest.raises(UsageError, match="at least one"):
        Gait(steps=0)


def test_both_feet_stand_side_by_side_at_the_start_and_at_the_end_and_the_torso_has_gone_all_the_way():
    walk = Walk.of(BIOLOID, Gait(steps=5))
    first, last = walk.angles(0.0), walk.angles(walk.gait.duration)
    for joint in JOINTS:
        mirrored = -1 if joint.endswith("lateral") else 1
        assert first[f"left_{joint}"] == pytest.approx(mirrored * first[f"right_{joint}"])
    assert last == pytest.approx(first)
    assert walk.angles(walk.gait.duration + 1) == last
    assert walk.gait.distance == pytest.approx(0.10)


def feet(walk, time):
    """Ankles by side, in the frame of the torso, at a time."""
    angles = walk.angles(time)
    return {side: walk.legs[side].ankle([angles[f"{side}_{joint}"] for joint in JOINTS]) for side in SIDES}


def test_one_foot_at_a_time_leaves_the_ground_and_the_standing_one_goes_back_evenly():
    gait = Gait(steps=4, lean=0.0, hip_lift=0.0)
    walk = Walk.of(BIOLOID, gait)
    h = gait.duration / 1000
    ground = min(foot[2] for foot in feet(walk, 0.0).values())
    lifted = {side: [feet(walk, i * h)[side][2] - ground > 1e-9 for i in range(1001)] for side in SIDES}
    assert any(lifted["left"])
    assert any(lifted["right"])
    assert not any(left and right for left, right in zip(*lifted.values(), strict=True))
    middle = 4.5 * gait.period / 2  # of the fifth step, which the right foot makes
    before, after = (feet(walk, middle + shift)["left"][0] for shift in (-h, h))
    assert (before - after) / (2 * h) == pytest.approx(gait.step_length / (gait.period / 2))


@pytest.mark.parametrize("gait", [Gait(), Gait(steps=4, step_length=0.03), Gait(steps=4, step_height=0.015)])
def test_a_walk_stays_within_the_joints_limits_and_far_below_the_servos_speed(gait):
    walk = Walk.of(BIOLOID, gait)
    limits = {servo.joint: servo.soft_limits for servo in BIOLOID.servos}
    before = walk.angles(0.0)
    for tick in range(1, round(gait.duration / 0.02) + 1):
        now = walk.angles(tick * 0.02)
        assert all(limits[joint][0] <= angle <= limits[joint][1] for joint, angle in now.items())
        assert max(abs(now[joint] - before[joint]) / 0.02 for joint in now) < 0.6 * AX12_NO_LOAD
        before = now


def test_seconds_hold_as_many_steps_as_fit():
    for seconds in (4.0, 6.0, 7.49):
        steps = Gait.steps_within(seconds, 1.5)
        assert Gait(steps=steps, period=1.5).duration <= seconds < Gait(steps=steps + 1, period=1.5).duration


def test_a_leg_whose_axes_do_not_cross_is_refused(tmp_path):
    (tmp_path / "skew.urdf").write_text(
        (BIOLOID.urdf_path()).read_text().replace('xyz="0.0145 0 -0.075"', 'xyz="0.0145 0.002 -0.075"')
    )
    skew = BIOLOID.model_copy(
        update={"path": tmp_path / "skew.toml", "world": BIOLOID.world.model_copy(update={"urdf": "skew.urdf"})}
    )
    with pytest.raises(RigError, match="do not cross"):
        Walk.of(skew, Gait())


def test_thigh_and_shank_may_differ():
    leg = Leg((0.0, 0.0, 0.0), (0.0, -0.1), (0.0, -0.06))
    found = leg.angles((0.03, 0.02, -0.12))
    assert leg.ankle(found) == pytest.approx((0.03, 0.02, -0.12))
    assert found[2] > 0
