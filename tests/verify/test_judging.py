"""What `axbridge verify` makes of what it measured: each fault is named with its servo and the command that mends it."""

import math

import pytest

from axbridge.bus.handshake import Expected, ExpectedBus
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.verify.cycle import judge_lateness
from axbridge.verify.deafness import judge_deafness
from axbridge.verify.endings import judge_endings
from axbridge.verify.hanging import judge_steps
from axbridge.verify.holder import moved
from axbridge.verify.levels import judge_levels
from axbridge.verify.motions import judge_motion, suited
from axbridge.verify.mounting import JointTurn, judge_mounting, zero_pose

BIOLOID = Rig.load("bioloid")
AX = FirmwareProfile.load("ax-12a")
KNEE = Expected("left_knee", 14, AX)
COUNT = math.radians(300 / 1023)
FACTORY = {name: register.initial for name, register in AX.registers.items() if isinstance(register.initial, int)} | {
    "torque_limit": 1023
}


def mounting(off=None, turns=()):
    return judge_mounting(BIOLOID, off or {}, turns, "/dev/ttyUSB0")


def by_hand(joint, moved=None, way=1):
    return JointTurn(joint, joint if moved is None else moved, way, "hand")


def test_a_robot_that_is_what_its_rig_says_has_nothing_to_mend():
    assert mounting({"left_knee": 0.05, "right_knee": -0.06}, [by_hand("left_knee"), by_hand("right_knee")]) == []


def test_a_mirrored_servo_is_named_with_the_direction_that_it_should_have():
    (found,) = mounting(turns=[by_hand("left_knee", way=-1)])
    knee = next(servo for servo in BIOLOID.servos if servo.name == "left_knee")
    assert found.subject == "left_knee (id 14)"
    assert found.problem == f"turns the other way: its direction should be {-knee.direction}"
    assert found.fix == (
        "axbridge rig copy bioloid my_bioloid && "
        "axbridge calibrate --rig my_bioloid --joints left_knee --port /dev/ttyUSB0"
    )
    assert found.fatal


def test_one_command_mends_all_that_is_wrong_with_a_rig_of_ones_own(tmp_path):
    own = BIOLOID.model_copy(update={"path": tmp_path / "mine.toml"})
    turns = [by_hand("left_knee", way=-1), by_hand("right_knee", way=-1)]
    found = judge_mounting(own, {"left_elbow": 0.2}, turns, "/dev/ttyUSB0")
    assert [one.subject for one in found] == ["left_knee (id 14)", "right_knee (id 13)", "left_elbow (id 6)"]
    joints = "--joints left_elbow,right_knee,left_knee"
    assert {one.fix for one in found} == {f"axbridge calibrate --rig {own.path} {joints} --port /dev/ttyUSB0"}


def test_swapped_ids_are_one_finding_and_their_zeros_none():
    turns = [
        by_hand("right_shoulder_swing", "left_shoulder_swing"),
        by_hand("left_shoulder_swing", "right_shoulder_swing"),
    ]
    (found,) = mounting({"left_shoulder_swing": 3.0, "right_shoulder_swing": 3.0}, turns)
    assert found.problem == "and left_shoulder_swing (id 2) have each other's id: each moves the other's joint"
    assert "--joints right_shoulder_swing,left_shoulder_swing" in found.fix


@pytest.mark.parametrize(
    ("moved", "problem"),
    [
        ("right_knee", "is moved by servo 13, which the rig gives to right_knee"),
        ("", "moves another joint than the rig says: its id is another servo's"),
    ],
)
def test_a_servo_at_another_joint_is_named(moved, problem):
    (found,) = mounting(turns=[by_hand("left_knee", moved)])
    assert (found.kind, found.problem) == ("id", problem)


@pytest.mark.parametrize("off", [30, -30])
def test_a_zero_that_is_off_is_told_in_counts_of_its_own_servo(off):
    knee = next(servo for servo in BIOLOID.servos if servo.name == "left_knee")
    (found,) = mounting({"left_knee": knee.direction * off * COUNT})
    assert f"its zero is off by {off:+d} counts, or it was not held straight" in found.problem
    assert (found.kind, found.fatal) == ("zero", True)


def test_a_joint_that_cannot_be_straight_is_led_as_near_to_it_as_it_can():
    servos = [{"name": "a", "joint": "a", "id": 1, "min_position": 0.2, "max_position": 1.0}]
    assert zero_pose(Rig.model_validate({"name": "one", "servo": servos})) == {"a": 0.2}


def levels(config=None, **values):
    knee = next(servo for servo in BIOLOID.servos if servo.name == "left_knee")
    return judge_levels(KNEE, config or knee, FACTORY | values, " --port P")


def test_a_servo_as_it_came_from_the_factory_is_well_set_up():
    assert levels() == []


@pytest.mark.parametrize(
    ("values", "words", "fix"),
    [
        ({"torque_limit": 200}, "at most 20% of its torque: torque_limit is 200", "torque_limit 1023 --port P"),
        (
            {"max_torque": 200, "torque_limit": 200},
            "at most 20% of its torque: max_torque is 200",
            "max_torque 1023 --port P && axbridge servo write 14 torque_limit 1023 --port P",
        ),
        ({"status_return_level": 1}, "acknowledges no write", "status_return_level 2 --port P"),
        ({"temperature_limit": 90}, "lets itself get 90 °C hot", "temperature_limit 70 --port P"),
        ({"shutdown": 4}, "does not switch itself off", "shutdown 36 --port P"),
        ({"ccw_angle_limit": 900}, "from 0 to 900 by its own angle limits, and the rig sends it from 492 to 1020",
         "ccw_angle_limit 1023 --port P"),
    ],
)  # fmt: skip
def test_a_level_that_is_wrong_is_named_with_the_command_that_mends_it(values, words, fix):
    (found,) = levels(**values)
    assert found.subject == "left_knee (id 14)"
    assert words in found.problem
    assert found.fix.startswith("axbridge servo write 14 ")
    assert found.fix.endswith(fix)


def test_what_the_rig_asks_for_is_right_and_a_servo_that_shut_itself_down_or_is_a_wheel_is_told_elsewhere():
    weak = next(servo for servo in BIOLOID.servos if servo.name == "left_knee")
    weak = weak.model_copy(update={"registers": {"max_torque": 200}})
    assert levels(weak, max_torque=200, torque_limit=200) == []
    assert levels(torque_limit=0) == []
    assert levels(cw_angle_limit=0, ccw_angle_limit=0) == []


def test_a_motor_that_stays_on_is_fatal_and_one_that_jumps_is_told():
    lines = [ExpectedBus("P", 1_000_000, (KNEE,))]
    ending = {"signal": "SIGKILL", "servos": 1, "moved_deg": 0.3, "seconds": 0.2, "on": []}
    assert judge_endings({"endings": [ending]}, lines) == []
    (found,) = judge_endings({"endings": [ending | {"on": ["left_knee"]}]}, lines)
    assert found.fatal
    assert found.problem == "still had torque, or did not answer, after SIGKILL"
    (found,) = judge_endings({"endings": [ending | {"moved_deg": 9.0}]}, lines)
    assert "moved by 9° when torque came on" in found.problem


@pytest.mark.parametrize(
    ("now", "goal", "driven", "elsewhere"),
    [
        (2048, 2048, 0, 0),
        (1978, 2048, 0, 70),  # it sank: the loop holds against it
        (1978, 2100, 0, 70),  # likewise, from a goal above it
        (2300, 2300, 252, 0),  # it jumped to an old goal
        (2200, 2300, 152, 0),  # it is on its way there
        (2310, 2300, 252, 10),
    ],
)
def test_only_what_a_servo_goes_towards_its_goal_is_a_jump(now, goal, driven, elsewhere):
    assert moved(2048, now, goal) == (driven, elsewhere)


def test_a_control_period_that_is_not_kept_and_a_servo_that_is_deaf_too_long_are_told():
    assert judge_lateness({"late": 5, "steps": 50, "period_ms": 20.0}) == []
    (late,) = judge_lateness({"late": 6, "steps": 50, "period_ms": 20.0})
    assert late.problem == "6 of 50 steps of 20 ms came late"
    assert judge_deafness({"deaf_ms": 6.1, "waits_ms": 9.0}, "left_knee (id 14)", 14) == []
    (deaf,) = judge_deafness({"deaf_ms": 9.4, "waits_ms": 9.0}, "left_knee (id 14)", 14)
    assert "hears nothing for 9.4 ms" in deaf.problem


def test_a_servo_that_does_not_do_as_its_model_says_is_sent_to_identify(tmp_path):
    arm = Rig.load("bench_arm")
    about = {"servo": "shoulder", "model": "lima2009", "rmse_deg": {"step": 1.2, "fall": 0.5, "sine": 0.8}}
    assert judge_motion(arm, about, tmp_path / "motion.mcap") == []
    about["rmse_deg"] = {"step": 5.0, "fall": 0.5, "sine": 2.65}
    (found,) = judge_motion(arm, about, tmp_path / "motion.mcap")
    assert "4.0° RMS away from what its model lima2009 does; 2.5° are within its word" in found.problem
    assert f"axbridge identify {tmp_path / 'motion.mcap'} --rig" in found.fix


def test_a_limp_joint_that_friction_just_holds_or_does_not_is_no_finding(tmp_path):
    about = {"servo": "right_elbow", "model": "lima2009", "rmse_deg": {"step": 0.3, "fall": 9.4, "sine": 0.3}}
    assert judge_motion(BIOLOID, about, tmp_path / "motion.mcap") == []


def test_a_joint_that_does_not_follow_in_the_air_is_named():
    behind = {servo.name: 5.0 for servo in BIOLOID.servos}
    assert judge_steps(BIOLOID, {"behind_deg": behind}) == []
    (found,) = judge_steps(BIOLOID, {"behind_deg": behind | {"left_knee": 25.0}})
    assert found.subject == "left_knee (id 14)"


def test_the_servo_that_is_compared_carries_as_little_as_possible():
    assert suited(BIOLOID) == "right_elbow"
    assert suited(Rig.load("bench_arm")) == "shoulder"
