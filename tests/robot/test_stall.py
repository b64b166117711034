"""A joint that pushes against something that does not move: named, softened in time, and strong again afterwards."""

import warnings

import pytest

import axbridge
from axbridge.errors import ControlWarning
from tests.support.robot_files import write_comb, write_feetech_comb
from tests.support.waiting import run
from tests.support.warm import serving

STOPS = "min_stop = -0.8\nmax_stop = 0.5"  # rad
IN_TIME = 0.3  # s


def drive_into_the_stop(robot, name="s1"):
    """How long it stands and pushes until it has less torque, s on the robot's clock."""
    servo, stood = robot[name], None
    servo.set_position(0.05)  # near: else the way to a first goal is gentle
    robot.step(20)
    servo.set_position(1.5)
    for _ in range(150):
        robot.step(20)
        if stood is None and abs(servo.velocity) < 0.05 and servo.position > 0.4:
            stood = robot.time
        if "blocked" in robot.causes.get(name, ()):
            return robot.time - stood
    return None


@pytest.fixture(params=["simulated", pytest.param("served", marks=[pytest.mark.slow, pytest.mark.real_time])])
def robot(request, tmp_path):
    rig = write_feetech_comb(tmp_path, more=STOPS)
    if request.param == "simulated":
        with axbridge.open(rig) as opened:
            yield opened
    else:
        with serving(rig) as port, axbridge.open(rig, backend="real", port=port) as opened:
            yield opened


def test_a_joint_that_is_blocked_is_named_and_softened_in_time_and_gets_its_torque_back(robot):
    with pytest.warns(ControlWarning, match="servo 's1' is blocked: it pushes with 97% of its torque, and stands"):
        took = drive_into_the_stop(robot)
    assert took < IN_TIME
    servo = robot["s1"]
    assert servo.read("torque_limit") == 300
    run(robot, 1.0)
    assert abs(servo.load) < 0.31
    assert robot.causes == {"s1": ["blocked"]}
    servo.set_position(0.2)
    run(robot, 1.5)
    assert robot.causes == {}
    assert servo.read("torque_limit") == 1000
    assert servo.position == pytest.approx(0.2, abs=0.05)


def test_a_joint_that_only_starts_is_not_blocked(tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot, warnings.catch_warnings():
        warnings.simplefilter("error")
        for goal in (1.5, -1.5, 0.0):
            for servo in robot.values():
                servo.set_position(goal)
            run(robot, 1.5)


def test_what_a_gripper_may_press_with_is_no_stall(tmp_path):
    rig = write_feetech_comb(tmp_path, more=STOPS)
    text = rig.read_text(encoding="utf-8").replace("return_delay_time = 0", "return_delay_time = 0, max_torque = 500")
    rig.write_text(text, encoding="utf-8")
    with axbridge.open(rig) as robot:
        assert drive_into_the_stop(robot) is None
        assert robot["s1"].load == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("word", "left"), [("", 0), ("safety = { stall = 0.2 }", 205)])  # 0: it shuts itself down
def test_dynamixels_are_watched_by_the_rigs_word_alone(tmp_path, word, left):
    with axbridge.open(write_comb(tmp_path, 1, extra=word, more=STOPS)) as robot, warnings.catch_warnings():
        warnings.simplefilter("ignore", ControlWarning)
        took = drive_into_the_stop(robot)
        assert (took is not None) == (left > 0)
        assert robot["s1"].read("torque_limit") == left
