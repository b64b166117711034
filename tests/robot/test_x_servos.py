"""Robots of X servos, and of both kinds on one line: the same calls."""

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.robot.safety.policies import hold

pytestmark = pytest.mark.slow


@pytest.fixture
def robot():
    with axbridge.open("koch") as made:
        yield made


def settle(robot, seconds=2.0):
    for _ in range(round(seconds / 0.02)):
        robot.step(20)


def test_position_speed_and_acceleration_are_the_servos_own(robot):
    pan = robot["shoulder_pan"]
    assert pan.capabilities["acceleration"] == pan.capabilities["velocity"] == "native"
    pan.set_velocity(1.0)
    pan.set_acceleration(2.0)
    pan.set_position(1.0)
    speeds = []
    while pan.position < 0.9:
        robot.step(20)
        speeds.append(pan.velocity)
    assert max(speeds) == pytest.approx(1.0, abs=0.05)
    assert (
        0.35 < 0.02 * sum(speed < 0.9 for speed in speeds[: len(speeds) // 2]) < 0.65
    )  # 0.9 rad/s at 2 rad/s²: 0.45 s
    assert pan.read("profile_acceleration") == 5
    assert pan.read("profile_velocity") == round(1.0 / 0.02398)
    pan.set_acceleration(-1)
    pan.set_velocity(pan.max_velocity)
    robot.step(20)
    robot.step(20)
    assert (pan.read("profile_acceleration"), pan.read("profile_velocity")) == (0, 0)


def test_a_cap_of_the_torque_is_a_cap_of_the_duty(robot):
    pan = robot["shoulder_pan"]
    pan.set_available_torque(pan.max_torque / 2)
    pan.set_position(0.5)
    settle(robot)
    assert pan.read("goal_pwm") == 442
    assert pan.position == pytest.approx(0.5, abs=0.03)


def test_mode_and_profile_of_a_servo_are_changed_while_it_is_driven_and_put_back():
    rig = Rig.load("koch")
    elbow = {"operating_mode": 1, "drive_mode": 4}
    servos = [s.model_copy(update={"registers": elbow}) if s.name == "elbow_flex" else s for s in rig.servos]
    with axbridge.open(rig.model_copy(update={"servos": tuple(servos)})) as robot:
        one = robot["elbow_flex"]
        one.set_position(0.3)
        settle(robot)
        assert (one.read("operating_mode"), one.read("drive_mode")) == (3, 0)
        assert one.position == pytest.approx(0.3, abs=0.15)  # its loop has no integral
        one.restore()
        assert (one.read("operating_mode"), one.read("drive_mode"), one.read("torque_enable")) == (1, 4, 0)


@pytest.mark.parametrize(
    "registers", [{"homing_offset": 300}, {"drive_mode": 1}, {"drive_mode": 1, "homing_offset": -90}]
)
def test_zero_and_direction_hold_with_the_registers_that_the_rig_names(registers):
    rig = Rig.load("koch")
    servos = [s.model_copy(update={"registers": registers}) if s.name == "shoulder_pan" else s for s in rig.servos]
    with axbridge.open(rig.model_copy(update={"servos": tuple(servos)})) as robot:
        pan = robot["shoulder_pan"]
        assert {name: pan.read(name) for name in registers} == registers
        pan.set_position(0.5)
        speeds = []
        for _ in range(50):
            robot.step(20)
            speeds.append(pan.velocity)
        assert max(speeds) > 0.4 > -0.1 > -max(speeds)
        assert pan.position == pytest.approx(0.5, abs=0.03)
        assert pan.read("present_position") == pytest.approx(2048 + 0.5 / 0.001534, abs=20)
        assert pan.truth.position == pytest.approx(0.5, abs=0.03)


def test_gains_that_the_rig_names_are_the_servos_and_stiffen_it():
    rig = Rig.load("koch")
    sags = {}
    for gain in (400, 1600):
        gains = {"position_p_gain": gain}
        servos = [s.model_copy(update={"registers": gains}) if s.name == "elbow_flex" else s for s in rig.servos]
        with axbridge.open(rig.model_copy(update={"servos": tuple(servos)})) as robot:
            elbow = robot["elbow_flex"]
            elbow.set_position(0.6)
            settle(robot)
            assert elbow.read("position_p_gain") == gain
            sags[gain] = abs(elbow.position - 0.6)
    assert sags[1600] < 0.5 * sags[400]


def test_both_kinds_move_on_one_line_and_are_off_after_close():
    with axbridge.open("head_gripper") as robot:
        robot["pan"].set_position(0.4)
        robot["gripper"].set_position(0.4)
        settle(robot)
        assert robot["pan"].position == pytest.approx(0.4, abs=0.05)
        assert robot["gripper"].position == pytest.approx(0.4, abs=0.05)
        (cycle,) = robot._connection.cycles.values()
        assert hold(cycle) == {}
        assert [robot[name].read("torque_enable") for name in ("pan", "gripper")] == [1, 1]
        assert robot._connection.limp() == {}
        assert [robot[name].read("torque_enable") for name in ("pan", "gripper")] == [0, 0]


def test_an_arm_that_is_to_hold_has_its_torque_although_it_was_rising_softly():
    """A tenth of the torque lets the shoulder sink on its stop, and an overload there switches it off."""
    with axbridge.open("koch") as robot:
        for servo in robot.values():
            servo.torque_on()
        robot["shoulder_lift"].set_position(0.9)
        robot["elbow_flex"].set_position(-0.5)
        settle(robot, 2.0)
        before = robot["shoulder_lift"].read("present_position")
        (cycle,) = robot._connection.cycles.values()
        cycle.soften(list(robot), 0.5)
        assert hold(cycle) == {}
        cycle.bus.clock.sleep_until(cycle.bus.clock.now() + 4.0)
        assert robot["shoulder_lift"].read("present_position") == pytest.approx(before, abs=50)
        assert [robot[name].read("goal_pwm") for name in robot] == [885] * 6
