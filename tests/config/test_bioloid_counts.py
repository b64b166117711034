"""The Bioloid's directions, zeros and limits against poses that others published for this robot, in counts.

The poses are single lines of ROBOTIS' motion pages for Type A (bio_prm_humanoidtypea_en.mtn, as in
github.com/robkwan/bioloid_ros2, bioloid_demos/motions). Directions and places are those of `typea.urdf` in the same
repository, whose zero is 512 of each servo, put into these poses. So nothing here was made with the rig.
"""

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.motion.mtn import joints_of
from axbridge.sim.body.kinematics import posed
from tests.support.page_set import WALK_READY

BIOLOID = Rig.load("bioloid")
MIDDLE = (512,) * 18  # arms stretched out sideways, legs turned out by 45 degrees
LEFT_ATTACK = (520, 496, 169, 507, 166, 505, 352, 670, 291, 592, 471, 748, 435, 991, 539, 270, 294, 584)
FURTHEST = {  # poses in which a servo goes further than in any other of these pages
    "Bow": (483, 540, 280, 743, 206, 817, 353, 670, 508, 515, 97, 926, 282, 741, 547, 476, 508, 515),
    "Bravo": (800, 223, 223, 800, 465, 558, 421, 743, 495, 520, 542, 562, 330, 770, 675, 352, 488, 514),
    "Bravo 2": (800, 223, 223, 800, 465, 558, 280, 602, 503, 528, 448, 481, 203, 693, 709, 348, 520, 535),
    "Rap chest": (552, 471, 145, 599, 158, 864, 353, 670, 508, 515, 427, 596, 282, 741, 647, 376, 508, 515),
    "Push up": (528, 495, 234, 789, 503, 520, 354, 669, 512, 511, 77, 928, 28, 778, 850, 395, 512, 481),
    "Push up 2": (528, 495, 234, 789, 503, 520, 354, 669, 512, 511, 335, 967, 497, 1015, 621, 181, 512, 511),
    "Hand standing": (833, 190, 497, 526, 214, 809, 353, 670, 498, 525, 63, 960, 524, 499, 535, 488, 501, 522),
    "Hand standing 2": (532, 491, 306, 717, 504, 519, 353, 670, 248, 775, 611, 412, 452, 571, 552, 471, 501, 522),
    "F attack": (680, 645, 151, 632, 460, 559, 412, 619, 505, 559, 49, 426, 85, 529, 581, 265, 432, 528),
    "R attack": (527, 503, 516, 854, 518, 857, 353, 671, 431, 732, 275, 552, 32, 588, 753, 484, 439, 729),
    "R kick": (235, 788, 279, 744, 462, 561, 354, 669, 421, 511, 220, 623, 507, 736, 422, 399, 440, 446),
    "F getup": (611, 412, 580, 443, 155, 868, 353, 670, 498, 525, 55, 968, 121, 902, 835, 188, 504, 519),
    "B getup": (545, 478, 770, 253, 521, 502, 353, 670, 508, 515, 600, 423, 111, 912, 796, 227, 508, 515),
    "F_M_R": (303, 856, 279, 744, 462, 561, 358, 666, 496, 505, 372, 715, 262, 775, 675, 398, 496, 505),
}
AXES = {  # a rising count turns each joint about this direction, in the torso's frame, in `LEFT_ATTACK`
    "shoulder_swing": ((0.0, -1.0, 0.0), (0.0, 1.0, 0.0)),
    "shoulder_lateral": ((0.041, 0.0, -0.999), (0.082, 0.0, -0.997)),
    "elbow": ((0.041, 0.0, -0.999), (0.082, 0.0, -0.997)),
    "hip_twist": ((0.0, 0.0, -1.0), (0.0, 0.0, -1.0)),
    "hip_lateral": ((0.999, 0.036, 0.0), (1.0, -0.026, 0.0)),
    "hip_swing": ((-0.015, 0.425, -0.905), (-0.024, -0.917, -0.398)),
    "knee": ((0.015, -0.425, 0.905), (0.024, 0.917, 0.398)),
    "ankle_swing": ((0.015, -0.425, 0.905), (0.024, 0.917, 0.398)),
    "ankle_lateral": ((-1.0, 0.006, 0.020), (-1.0, 0.024, 0.005)),
}  # right, left


def angles(counts):
    """Return the rig's joint angles for counts of ids 1 to 18, rad, by servo."""
    table = joints_of(BIOLOID)
    return {name: calibration.angle(counts[id_ - 1]) for name, (id_, calibration) in table.items()}


class Pose:
    """The rig in these counts: places (m), axes and turns (3, 3) of links, in the torso's frame, by joint."""

    def __init__(self, counts):
        tree = read_tree(BIOLOID.urdf_path(), fixed_base=True)
        at = angles(counts)
        poses = posed(tree, np.array([[at[joint.name] for joint in tree.joints]]))
        self.place, self.axis, self.turn = (
            {tree.joints[dof].name: part[link, 0] for link, dof in enumerate(tree.dof) if dof >= 0}
            for part in (poses.place, poses.axis, poses.turn)
        )

    def sole(self, side):
        """Return the tilt of the sole sideways and its turn about y, degrees."""
        _, y, z = self.turn[f"{side}_ankle_lateral"][:, 1]
        (forward, _, down) = self.turn[f"{side}_ankle_lateral"][:, 0]
        return np.degrees(np.arctan2(z, y)), np.degrees(np.arctan2(-down, forward))


@pytest.mark.parametrize(("counts", "lean", "within"), [(WALK_READY, -10.0, 1.0), (LEFT_ATTACK, 0.0, 3.0)])
@pytest.mark.parametrize("side", ["right", "left"])
def test_soles_are_level_where_the_body_leans_forward_by_ten_degrees_and_where_it_steps_far_aside(
    counts, lean, within, side
):
    assert Pose(counts).sole(side) == pytest.approx((0.0, lean), abs=within)


@pytest.mark.parametrize("joint", AXES)
def test_a_rising_count_turns_every_joint_the_way_it_does_in_the_published_urdf(joint):
    """In a pose in which no joint is at its zero, so that a zero that is off by some degrees shows in the next axis."""
    pose = Pose(LEFT_ATTACK)
    directions = {servo.name: servo.direction for servo in BIOLOID.servos}
    for side, axis in zip(("right", "left"), AXES[joint], strict=True):
        name = f"{side}_{joint}"
        assert directions[name] * pose.axis[name] == pytest.approx(axis, abs=0.02), name


@pytest.mark.parametrize(
    ("counts", "joint", "places"),
    [
        (WALK_READY, "elbow", ((0.012, -0.101, -0.076), (0.012, 0.101, -0.076))),
        (WALK_READY, "knee", ((0.0483, -0.0398, -0.1747), (0.0480, 0.0395, -0.1749))),
        (WALK_READY, "ankle_swing", ((0.0258, -0.0416, -0.2435), (0.0255, 0.0410, -0.2438))),
        (LEFT_ATTACK, "knee", ((0.0039, -0.1075, -0.1480), (0.0654, 0.0528, -0.1524))),
        (LEFT_ATTACK, "ankle_swing", ((0.0076, -0.1730, -0.1788), (0.0032, 0.0690, -0.1859))),
    ],
)
def test_elbows_knees_and_ankles_are_where_the_published_urdf_has_them(counts, joint, places):
    """The knee's axis was 14.5 mm in front of the line from hip to ankle, and is as far behind it."""
    pose = Pose(counts)
    for side, place in zip(("right", "left"), places, strict=True):
        assert pose.place[f"{side}_{joint}"] == pytest.approx(place, abs=2.5e-3), side  # shanks differ by 1.5 mm


@pytest.mark.parametrize("page", [*FURTHEST, "middle", "Walk Ready", "L attack"])
def test_published_poses_are_within_the_limits_and_fold_no_leg_into_itself(page):
    """Two servos lie about the hip and two about the ankle, each 32 mm thick or more."""
    counts = (FURTHEST | {"middle": MIDDLE, "Walk Ready": WALK_READY, "L attack": LEFT_ATTACK})[page]
    at, limits = angles(counts), {servo.name: servo.soft_limits for servo in BIOLOID.servos}
    assert not {name: angle for name, angle in at.items() if not limits[name][0] <= angle <= limits[name][1]}
    place = Pose(counts).place
    for side in ("right", "left"):
        assert np.linalg.norm(place[f"{side}_ankle_swing"] - place[f"{side}_hip_swing"]) > 0.060, side


def test_the_servos_reach_every_angle_within_the_limits():
    table = joints_of(BIOLOID)
    for servo in BIOLOID.servos:
        low, high = table[servo.name][1].range
        assert low <= servo.min_position < servo.max_position <= high, servo.name


@pytest.mark.parametrize("name", ["bioloid_head", "leg"])
def test_the_other_bioloid_rigs_have_the_same_counts(name):
    def mounted(rig):
        return {servo.id: (servo.zero, servo.direction, servo.soft_limits) for servo in rig.servos if servo.id < 19}

    whole, part = mounted(BIOLOID), mounted(Rig.load(name))
    assert part == {number: whole[number] for number in part}
