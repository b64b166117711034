"""Control modes of every family: after each change the new command acts, and no speed exceeds the commanded ones."""

import math
from itertools import pairwise, product

import pytest

import axbridge
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import UnsupportedOperation
from axbridge.servo.columns import State
from axbridge.units import RPM
from tests.support.pairs import pairs
from tests.support.robot_files import write_horn
from tests.support.waiting import run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")]

FAMILIES = ("ax-12a", "mx-28", "mx-28-2.0", "xl430-w250", "xl330-m288", "sts3215", "scs0009")
MODES = ("position", "velocity", "torque", "duty")
ROWS = [row for row in product(FAMILIES, MODES, MODES) if row[0] != "mx-28" or "duty" not in row]  # it has none
GOAL, APPROACH = 0.8, 0.6  # rad; rad/s
SPEED, DUTY = 1.0, 0.2
SETTLED = 1.0  # s after which a speed or a duty is what was asked for


@pytest.fixture(params=FAMILIES)
def robot(request, tmp_path):
    """A disc that the servo's stall torque would speed up by 200 rad/s²."""
    stall = FirmwareProfile.load(request.param).electrics.stall_torque
    with axbridge.open(write_horn(tmp_path, request.param, 0.005 * stall)) as opened:
        yield opened


def command(servo, mode):
    """Give the command; return the highest speed that it allows, rad/s."""
    match mode:
        case "position":
            servo.set_velocity(APPROACH)
            servo.set_position(GOAL)
            return APPROACH
        case "velocity":
            servo.set_position(math.inf)
            servo.set_velocity(SPEED)
            return SPEED
        case "torque":
            servo.set_torque(0.0)
            return 0.0
        case _:
            servo.set_duty(DUTY)
            return DUTY * servo.dynamixel.profile.electrics.no_load_speed * RPM


@pytest.mark.parametrize(("robot", "before", "after"), pairs(ROWS), indirect=["robot"])
def test_after_a_change_of_mode_the_new_command_acts_and_no_speed_exceeds_the_commanded_ones(robot, before, after):
    servo = robot["horn"]
    if before == "torque":
        servo.set_torque(0.05 * servo.max_torque)
        run(robot, 0.2)
    else:
        command(servo, before)
        run(robot, 0.6)
    speed = servo.velocity
    assert speed > 0.2
    fastest = max(speed, command(servo, after))
    seen = max(map(abs, run(robot, SETTLED, lambda: servo.velocity)))
    assert seen < (1.1 * fastest if after == "velocity" else 1.1 * fastest + 0.4)  # to a goal it comes back
    match after:
        case "position":
            run(robot, 4.0)
            assert servo.position == pytest.approx(GOAL, abs=0.06)
        case "velocity":
            assert servo.velocity == pytest.approx(SPEED, rel=0.05)
        case "duty":
            assert servo.load == pytest.approx(DUTY, abs=0.01)
        case _:
            servo.set_torque(-0.2 * servo.max_torque)
            run(robot, 0.6)
            assert servo.velocity < -0.5


def test_a_servo_without_a_duty_refuses_one(tmp_path):
    with axbridge.open(write_horn(tmp_path, "mx-28")) as robot, pytest.raises(UnsupportedOperation, match="no duty"):
        robot["horn"].set_duty(DUTY)


@pytest.mark.parametrize("between", ["set_duty", "set_torque"])
def test_a_ramp_of_the_speed_begins_at_the_speed_of_the_shaft(robot, between):
    servo = robot["horn"]
    servo.set_acceleration(3.0)
    servo.set_position(math.inf)
    servo.set_velocity(3.0)
    run(robot, 1.5)
    assert servo.velocity == pytest.approx(3.0, abs=0.2)
    getattr(servo, "set_torque" if servo.capabilities["duty"] == "unsupported" else between)(-0.15)
    run(robot, 0.4)
    before = servo.velocity
    servo.set_position(math.inf)
    servo.set_velocity(0.5)
    assert max(run(robot, 1.0, lambda: servo.velocity)) < max(before, 0.5) + 0.4


@pytest.mark.parametrize(
    ("profile", "more"),
    [
        *((profile, "") for profile in FAMILIES),
        ("xl430-w250", "registers = { operating_mode = 4 }"),
        ("xl330-m288", "registers = { operating_mode = 5 }"),
    ],
)
@pytest.mark.parametrize("of_the_rig", [False, True])
def test_an_acceleration_limit_acts_without_a_limit_of_the_speed(tmp_path, profile, more, of_the_rig):
    acceleration = 2.0
    rig = write_horn(tmp_path, profile, more=f"acceleration = {acceleration}\n{more}" if of_the_rig else more)
    with axbridge.open(rig) as robot:
        servo = robot["horn"]
        if not of_the_rig:
            servo.set_acceleration(acceleration)
        servo.set_position(1.5)
        turned, speeds = zip(*run(robot, 3.0, lambda: (servo.position, servo.velocity)), strict=True)
        assert turned[9] < acceleration * 0.2**2 / 2 + 0.01
        assert turned[34] == pytest.approx(acceleration * 0.7**2 / 2, rel=0.35)
        if profile not in {"sts3215", "scs0009"}:  # Feetech servos approach a first goal slowly
            assert max(speeds) == pytest.approx(math.sqrt(acceleration * 1.5), rel=0.15)  # a triangle over 1.5 rad
        assert turned[-1] == pytest.approx(1.5, abs=0.06)


@pytest.mark.parametrize("command", ["set_torque", "set_duty", "set_available_torque"])
@pytest.mark.parametrize("first", ["set_position", "set_velocity"])
def test_no_command_gives_a_feetech_servo_more_than_its_own_max_torque(tmp_path, first, command):
    """LeRobot writes Max Torque 500 to its grippers."""
    with axbridge.open(write_horn(tmp_path, "sts3215", more="min_stop = -0.1\nmax_stop = 0.1")) as robot:
        servo = robot["horn"]
        servo.write("lock", 0)
        servo.write("max_torque", 500)
        servo.set_position(math.inf if first == "set_velocity" else 1.5)
        servo.set_velocity(1.0)
        run(robot, 0.1)
        getattr(servo, command)(0.95 if command == "set_duty" else 0.95 * servo.max_torque)
        loads = run(robot, 0.5, lambda: (servo.load, servo.read("torque_limit")))
        assert 0.4 < loads[-1][0] == max(load for load, _ in loads) <= 0.5
        assert max(limit for _, limit in loads) == 500


@pytest.mark.parametrize("temperature", [33.0, 67.0])
def test_a_warm_motor_gives_the_commanded_torque(tmp_path, temperature):
    """The resistance of an XL330 grows by 2.06 % a kelvin."""
    with axbridge.open(write_horn(tmp_path, "xl330-m288", more="min_stop = -0.1\nmax_stop = 0.1")) as robot:
        servo = robot["horn"]
        robot.simulation.world.bank.state[0, State.TEMPERATURE] = temperature
        servo.set_torque(0.1)
        run(robot, 0.5)
        assert servo.torque == pytest.approx(0.1, rel=0.02)


WHEELS = ("ax-12a", 1), ("ax-12a", -1), ("scs0009", 1), ("mx-28", 1)
SLOW = [pytest.param(*WHEELS[0], 0.3), *(pytest.param(*wheel, 0.3, marks=pytest.mark.ci) for wheel in WHEELS[1:])]


@pytest.mark.parametrize(
    ("profile", "direction", "speed"), [*((*wheel, speed) for wheel in WHEELS for speed in (1.0, -1.0, 3.0)), *SLOW]
)
def test_a_wheel_keeps_its_speed_in_the_dead_zone(tmp_path, profile, direction, speed):
    with axbridge.open(write_horn(tmp_path, profile, more=f"direction = {direction}")) as robot:
        servo = robot["horn"]
        servo.set_position(math.inf)
        servo.set_velocity(speed)
        run(robot, 1.0)
        places, velocities, turned = zip(
            *run(robot, 8 / abs(speed), lambda: (servo.truth.position, servo.velocity, servo.turned)), strict=True
        )
        true = [(after - before) / 0.02 for before, after in pairwise(places)]
        assert [min(true), max(true)] == pytest.approx([speed, speed], abs=0.05)
        assert [min(velocities), max(velocities)] == pytest.approx([speed, speed], abs=0.05)
        assert turned == pytest.approx(places, abs=math.radians(3))


@pytest.mark.parametrize("first", ["nothing", "torque_on", "torque_on and a step"])
def test_a_path_that_begins_at_a_wheel_starts_where_the_joint_is_in_its_own_turn(robot, first):
    servo = robot["horn"]
    servo.set_position(math.inf)
    servo.set_velocity(2.0)
    while servo.truth.position < 4.0:  # in position mode it reads 2 pi less
        robot.step()
    servo.set_velocity(0.0)
    run(robot, 0.5)
    place, shaft = servo.truth.position, []
    if first != "nothing":
        servo.torque_off()
        servo.torque_on()
    if first == "torque_on and a step":
        robot.step()
    servo.set_velocity(servo.max_velocity)
    robot.observe(lambda *_: shaft.append(servo.truth.position))
    assert servo.goto(place - math.tau + 0.3, 1.0)
    assert place - 0.1 < min(shaft) <= max(shaft) < place + 0.4
