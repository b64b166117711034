"""Every value given as a set-point is used, clipped or refused as a number, or raises UsageError."""

import math
from contextlib import suppress

import numpy as np
import pytest

import axbridge
from axbridge import UnsupportedOperation, UsageError
from tests.support.ideal_world import Bench
from tests.support.robot_files import write_feetech_comb
from tests.support.waiting import run

NO_NUMBERS = [10**400, "1", b"1", None, 1j, [1.0], {}, object(), np.array([1.0, 2.0])]
ODD_NUMBERS = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, np.float32(0.1), True, np.array(0.1)]
WHAT = "position", "velocity", "acceleration", "available_torque", "torque", "duty"
SETTERS = {
    **{what: lambda servo, value, what=what: getattr(servo, f"set_{what}")(value) for what in WHAT},
    "p": lambda servo, value: servo.set_control_pid(value, 0.0, 0.0),
    "i": lambda servo, value: servo.set_control_pid(1.0, value, 0.0),
    "d": lambda servo, value: servo.set_control_pid(1.0, 0.0, value),
    "goto": lambda servo, value: servo.goto(value, 0.04),
    "duration": lambda servo, value: servo.goto(0.1, value),
}


def set_points(servo):
    return servo.target_position, servo.velocity_limit, servo.acceleration, servo.available_torque, servo.torque_enabled


@pytest.fixture(scope="module", params=["pan_tilt", "xl330_pendulum", "feetech", "ideal"])
def robot(request, tmp_path_factory):
    rig, folder = request.param, tmp_path_factory.mktemp("rig")
    if rig == "ideal":
        rig = Bench(folder).rig({"controller": "pid"})
    elif rig == "feetech":
        rig = write_feetech_comb(folder)
    with axbridge.open(rig) as opened:
        yield opened


@pytest.mark.parametrize("setter", SETTERS)
def test_a_set_point_that_is_no_number_is_an_error_and_changes_nothing(robot, setter):
    servo = next(iter(robot.values()))
    before = set_points(servo)
    for value in NO_NUMBERS:
        with pytest.raises((UsageError, UnsupportedOperation)):
            SETTERS[setter](servo, value)
        with pytest.raises(UsageError):
            robot.set_positions([value] * len(robot))
        assert set_points(servo) == pytest.approx(before, nan_ok=True), value
        robot.step()


@pytest.mark.parametrize("setter", [name for name in SETTERS if name != "duration"])
@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
def test_extreme_numbers_are_clipped_or_refused(robot, setter):
    servo = next(iter(robot.values()))
    for value in ODD_NUMBERS:
        with suppress(UsageError, UnsupportedOperation):
            SETTERS[setter](servo, value)
        run(robot, 0.06)
        assert math.isfinite(servo.position), value


def test_invalid_durations_are_refused(robot):
    servo, before = next(iter(robot.values())), robot.time
    for value in (*NO_NUMBERS, math.nan, math.inf, 1e308, 0, -1):
        with pytest.raises(UsageError):
            robot.step(value if value is not None else "")
        with pytest.raises(UsageError):
            servo.goto(0.0, value)
    words = r"a step of 0.02 ms is not possible\ngive ms, up to a day: a step of 0.02 s is step\(20\)"
    with pytest.raises(UsageError, match=words):
        robot.step(0.02)
    assert robot.time == before


def test_an_infinite_acceleration_is_no_limit(robot):
    servo = next(iter(robot.values()))
    servo.set_acceleration(math.inf)
    assert servo.acceleration == -1


def test_every_command_to_a_closed_robot_is_an_error_that_names_it():
    with axbridge.open("bench_arm") as robot:
        arm = robot["shoulder"]
        arm.set_position(0.3)
        robot.step(20)
        position = arm.position
    robot.close()
    assert robot.step(20) == -1
    commands = dict.fromkeys((arm.torque_on, arm.torque_off, arm.restore, arm.recover, robot.exchange), ())
    commands |= dict.fromkeys(SETTERS.values(), (arm, 0.5))
    commands |= {arm.read: ("id",), arm.write: ("led", 1), arm.set_damping_constant: (0.1,)}
    commands |= {robot.set_positions: ([0.5],), robot.goto: ({"shoulder": 0.5}, 1.0)}
    for command, given in commands.items():
        with pytest.raises(UsageError, match="'bench_arm' is closed"):
            command(*given)
    assert (arm.position, arm.target_position) == (position, 0.3)  # what was read last


@pytest.mark.parametrize(
    "name", ["goal_position", "present_position", "compliant", "moving_speed", "position", "torqe"]
)
def test_a_value_assigned_to_a_name_is_refused_with_the_method_to_call(name):
    with axbridge.open("bench_arm") as robot:
        for object_ in (robot, robot["shoulder"]):
            with pytest.raises(UsageError, match=rf"{name} of a (robot|servo) cannot be assigned[\s\S]*set_position"):
                setattr(object_, name, 0.5)
        robot.step()
        assert robot["shoulder"].position == pytest.approx(0.0, abs=0.01)
