"""Planning of a walk: a leg's inverse kinematics, footsteps, zero-moment point and goals of the servos."""

import math
from dataclasses import fields, replace
from inspect import getdoc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from axbridge import RigError, UsageError
from axbridge.config.rig import Rig
from axbridge.motion.gait import JOINTS, Gait, Walk
from axbridge.motion.walking import Steering

BIOLOID = Rig.load("bioloid")
LEG = Walk.of(BIOLOID, Gait()).legs["left"]


def test_the_help_of_a_gait_says_what_each_figure_is():
    assert [field.name for field in fields(Gait) if f"\n    {field.name}: " not in getdoc(Gait)] == []


def test_a_leg_has_the_dimensions_of_the_urdf():
    assert LEG.hip == pytest.approx((0, 0.0385, -0.1155))
    assert (LEG.thigh, LEG.shank) == ((-0.0145, -0.075), (0.0145, -0.0725))
    assert LEG.ankle((0, 0, 0, 0, 0)) == pytest.approx((0, 0.0385, -0.1155 - 0.1475))  # straight down


@given(
    lateral=st.floats(-0.8, 0.8),
    swing=st.floats(-0.6, 1.9),
    knee=st.floats(0.4, 2.6),  # below 22 degrees the knee bends backwards
)
def test_joint_angles_give_the_requested_ankle_position_and_a_level_sole(lateral, swing, knee):
    ankle = LEG.ankle((lateral, swing, knee, 0.0, 0.0))
    assume(ankle[2] < LEG.hip[2] - 0.01)  # above the hip there are two solutions
    angles = LEG.angles(ankle)
    assert LEG.ankle(angles) == pytest.approx(ankle, abs=1e-9)
    assert angles[:3] == pytest.approx(
        (lateral, swing, knee), abs=1e-5
    )  # a straight knee: the arc cosine's last digits
    assert -angles[1] + angles[2] - angles[3] == pytest.approx(0.0)  # pitch of the sole in the torso's frame
    assert angles[0] + angles[4] == 0  # its roll


def test_a_rig_without_such_legs_is_refused_by_name():
    with pytest.raises(RigError, match="left_hip_twist: is missing: a robot needs it to walk"):
        Walk.of(Rig.load("bench_arm"), Gait())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"steps": 0}, "at least one"),
        ({"steps": 2.5}, "a walk of 2.5 steps"),
        ({"turn": math.nan}, "turn = nan"),
        ({"feedback": 1.0}, "a feedback of 1"),
        ({"turn": "left"}, "turn of a walk must be a number, not 'left'"),
    ],
)
def test_a_gait_with_an_impossible_figure_is_refused(wrong, words):
    with pytest.raises(UsageError, match=words):
        Gait(**wrong)


def test_one_foot_at_a_time_leaves_the_ground_and_does_not_scrape():
    walk = Walk.of(BIOLOID, Gait(steps=4))
    lifted = [path[:, 2] > 1e-9 for path in walk.feet.values()]
    assert all(up.any() for up in lifted)
    assert not (lifted[0] & lifted[1]).any()
    for path in walk.feet.values():
        low = (path[:, 2] > 0) & (path[:, 2] < 0.0012)
        assert low.sum() > 10
        assert np.abs(np.gradient(path[:, 0], walk.time))[low].max() < 0.02  # m/s, of at most 0.3


def test_the_zero_moment_point_is_inside_the_sole_of_the_foot_that_stands_alone():
    """The sole measures 101 by 61 mm; its middle is 9 mm outside the ankle."""
    walk = Walk.of(BIOLOID, Gait(steps=6, turn=0.3))
    for side, other, outward in (("left", "right", 1), ("right", "left", -1)):
        alone = walk.feet[other][:, 2] > 1e-9
        x, y, _, turn = walk.feet[side][alone].T
        dx, dy = (walk.zmp[alone] - np.stack((x, y), axis=1)).T
        ahead, left = np.cos(turn) * dx + np.sin(turn) * dy, np.cos(turn) * dy - np.sin(turn) * dx
        assert np.abs(ahead).max() < 0.048
        assert np.abs(left - outward * 0.009).max() < 0.028


def test_joint_angles_put_the_feet_on_their_planned_trajectories():
    walk = Walk.of(BIOLOID, Gait(steps=3, made_up=0.0))
    for time in np.arange(0.0, walk.gait.duration, 0.17):
        angles = walk.angles(time)
        ankle = {side: leg.ankle([angles[f"{side}_{joint}"] for joint in JOINTS]) for side, leg in walk.legs.items()}
        feet = {side: [np.interp(time, walk.time, column) for column in path.T] for side, path in walk.feet.items()}
        apart, planned = np.subtract(ankle["left"], ankle["right"]), np.subtract(feet["left"], feet["right"])
        assert apart == pytest.approx(planned[:3], abs=5e-4)


WAYS = (0.03, 0, 0), (-0.02, 0, 0), (0, 0.02, 0), (0, -0.02, 0), (0, 0, 0.2), (0, 0, -0.2)


@pytest.mark.parametrize(("ahead", "aside", "around"), WAYS)
@pytest.mark.slow
def test_a_walk_leads_ahead_back_sideways_and_in_turns(ahead, aside, around):
    gait = Gait(steps=6, step_length=ahead, side_step=aside, turn=around)
    walk = Walk.of(BIOLOID, gait)
    x, y, _, turn = (walk.feet["left"][-1] + walk.feet["right"][-1]) / 2
    assert (x, y, turn) == pytest.approx((6 * ahead, 3 * aside, 3 * around), abs=1e-9)  # one of two steps goes sideways
    led = [x + (math.cos(turn) - 1) * gait.zmp_ahead, y + math.sin(turn) * gait.zmp_ahead]
    assert walk.centre[-1] - walk.centre[0] == pytest.approx(led, abs=2e-4)


def test_a_leg_whose_axes_do_not_cross_is_refused(tmp_path):
    urdf = BIOLOID.urdf_text().replace('xyz="-0.0145 0 -0.075"', 'xyz="-0.0145 0.002 -0.075"')
    (tmp_path / "skew.urdf").write_text(urdf)
    world = BIOLOID.world.model_copy(update={"urdf": "skew.urdf"})
    skew = BIOLOID.model_copy(update={"path": tmp_path / "skew.toml", "world": world})
    with pytest.raises(RigError, match="do not cross"):
        Walk.of(skew, Gait())


# ---- feedback from an IMU: steps turn back to the planned line

TICK = 0.05  # s
ZERO = 2.0  # rad: the IMU's yaw at the start


def steered(gait, slip):
    """Return the end of a walk with a slip (rad, to the left) in each step: offset from its line, m, heading error, rad,
    and turn between the feet, rad. The torso's turn is the mean of both feet; the standing foot does not turn."""
    walk = Walk.of(BIOLOID, gait)
    steering = Steering(walk)
    error, aside, apart, before, number = 0.0, 0.0, 0.0, walk.middle(0.0), 0
    for tick in range(math.ceil(gait.duration / TICK)):
        time = tick * TICK
        planned = walk.middle(time)
        turns = steering.turns(time, ZERO + error + planned.turn)
        now = turns["left_hip_twist"] - turns["right_hip_twist"]
        step, _ = walk.step_at(time)
        error += (now - apart) / 2 * (1 if walk.steps[step].side == "left" else -1)
        error += slip * (step - number)
        aside += math.copysign(math.hypot(planned.x - before.x, planned.y - before.y), gait.step_length) * error
        apart, number, before = now, step, planned
    return aside, error, apart


@pytest.mark.parametrize(
    ("gait", "slip"),
    [
        pytest.param(Gait(steps=40), 0.004, id="ahead", marks=pytest.mark.ci),
        pytest.param(Gait(steps=40), -0.004, id="ahead, to the right", marks=pytest.mark.ci),
        pytest.param(Gait(steps=40, step_length=-0.03), 0.004, id="back", marks=pytest.mark.ci),
        pytest.param(Gait(steps=40, step_length=0.02, turn=0.2), 0.004, id="round"),
    ],
)
@pytest.mark.slow
def test_steering_keeps_a_walk_on_its_line_when_all_steps_slip_in_one_direction(gait, slip):
    """Without steering, walks end 6 to 13 cm beside the line with a heading error of 9 degrees."""
    alone, turned, _ = map(abs, steered(gait, slip))
    aside, error, apart = map(abs, steered(replace(gait, feedback=0.3), slip))
    assert turned > max(0.1, error / 0.2)
    assert alone > max(0.05, aside / 0.3)
    assert apart < 0.03  # both feet point ahead


def test_no_step_is_turned_without_feedback_or_without_heading_error():
    steering = Steering(Walk.of(BIOLOID, Gait(steps=2, feedback=0.3)))
    for tick in range(100):
        assert steering.turns(tick * 0.02, 1.0) == {"left_hip_twist": 0.0, "right_hip_twist": 0.0}
