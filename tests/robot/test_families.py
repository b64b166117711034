"""What a servo of any family does for a program, whether it can itself or the host sees to it."""

import math

import pytest

import axbridge
from axbridge.errors import ControlWarning, FeetechError, HardwareError, RigError, UnsupportedOperation
from axbridge.errors import ErrorFlag as AxError
from tests.support.ideal_world import Bench
from tests.support.robot_files import write_comb, write_feetech_comb
from tests.support.waiting import run

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(turns in wheel mode|no current sensor):axbridge.errors.ControlWarning"
)

FAMILIES = {"ax-12a": "pan", "xl330-m288": "wrist_roll", "sts3215": "s1", "scs0009": "s1"}  # light joints
MODE = {  # registers that make a wheel
    "ax-12a": ("cw_angle_limit", "ccw_angle_limit"),
    "xl330-m288": ("operating_mode",),
    "sts3215": ("operating_mode",),
    "scs0009": ("min_position_limit", "max_position_limit"),
}
FEETECH = ("sts3215", "scs0009")


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture
def robot(family, tmp_path):
    rigs = {"ax-12a": "pan_tilt", "xl330-m288": "koch"}
    with axbridge.open(rigs.get(family) or write_feetech_comb(tmp_path, profile=family)) as opened:
        yield opened


@pytest.fixture
def servo(robot, family):
    return robot[FAMILIES[family]]


def mode(servo, family):
    return [servo.read(register) for register in MODE[family]]


def test_a_joint_goes_where_it_is_sent_at_the_speed_that_is_asked_for(robot, servo):
    servo.set_velocity(0.5)
    servo.set_position(1.0)
    run(robot, 1.0)
    assert 0.3 < servo.position < 0.6
    assert servo.velocity == pytest.approx(0.5, abs=0.2)
    servo.set_velocity(0)
    held = servo.position
    run(robot, 0.5)
    assert servo.position == pytest.approx(held, abs=0.1)
    servo.set_velocity(servo.max_velocity)
    run(robot, 1.5)
    assert servo.position == pytest.approx(1.0, abs=0.08)


def test_a_wheel_turns_both_ways_and_is_a_joint_again(robot, servo, family):
    before = mode(servo, family)
    servo.set_position(math.inf)
    for speed in (1.5, -1.0):
        servo.set_velocity(speed)
        run(robot, 1.0)
        assert servo.velocity == pytest.approx(speed, abs=0.4)
    assert mode(servo, family) != before
    servo.set_velocity(servo.max_velocity)
    servo.set_position(0.0)
    run(robot, 2.5)
    assert servo.position == pytest.approx(0.0, abs=0.1)
    assert mode(servo, family) == before


def test_a_duty_drives_both_ways_until_another_command(robot, servo, family):
    before = mode(servo, family)
    for duty in (0.4, -0.4):
        servo.set_duty(duty)
        run(robot, 0.4)
        assert servo.velocity * duty > 0.1
        assert servo.load == pytest.approx(duty, abs=0.05)
        assert math.isnan(servo.goals.position)
    assert mode(servo, family) != before
    servo.set_position(servo.position)
    run(robot, 0.1)
    assert math.isnan(servo.goals.duty)
    servo.set_duty(0.2)
    run(robot, 0.1)
    servo.restore()
    assert mode(servo, family) == before
    assert (servo.read("torque_enable"), servo.torque_enabled) == (0, False)


def test_an_impossible_duty_is_refused_and_a_large_one_clipped(servo):
    with pytest.warns(ControlWarning, match="NaN"):
        servo.set_duty(math.nan)
    assert not servo.torque_enabled
    with pytest.warns(ControlWarning, match="requested duty 3 exceeds full duty, 1"):
        servo.set_duty(3.0)
    assert servo.goals.duty == 1.0


def test_an_ideal_joint_knows_no_duty(tmp_path):
    with Bench(tmp_path).open({}) as robot, pytest.raises(UnsupportedOperation, match="not by duty"):
        next(iter(robot.values())).set_duty(0.5)


def test_an_overload_is_named_and_recover_ends_it(robot, servo, family):
    servo.set_position(0.3)
    run(robot, 1.0)
    virtual = robot.simulation.world.servos[servo.name]
    if family in FEETECH:  # it goes on with a fifth of its torque
        virtual.overload(robot.time)
        run(robot, 0.2)
        assert servo.errors == FeetechError.OVERLOAD
    else:
        robot.simulation.inject(f"overload:{servo.config.id}")
        with pytest.warns(
            ControlWarning, match=f"{servo.name!r} has no torque, and stays limp until recover.*overload"
        ):
            run(robot, 0.2)
        assert servo.errors == (AxError if family == "ax-12a" else HardwareError).OVERLOAD
        assert (servo.torque_enabled, robot.causes, robot.withheld) == (
            False,
            {servo.name: ["torque off"]},
            {servo.name},
        )
        servo.set_position(-0.3)
        servo.torque_on()  # nothing but `recover` wakes it
        run(robot, 0.5)
        assert servo.position == pytest.approx(0.3, abs=0.05)
    servo.set_position(-0.3)
    servo.recover()
    run(robot, 3.0)
    assert not servo.errors
    assert (robot.causes, robot.withheld) == ({}, frozenset())
    assert servo.position == pytest.approx(-0.3, abs=0.06)


def registers(servo, *names):
    return [servo.read(name) for name in names]


@pytest.mark.parametrize("family", FEETECH, indirect=True)
def test_a_first_goal_that_is_far_away_is_approached_gently_and_later_ones_are_not(robot, servo):
    speeds = [], []
    for there, goal in enumerate((1.2, 0.0)):
        servo.set_position(goal)
        for _ in range(100):
            robot.step(20)
            speeds[there].append(abs(servo.velocity))
        assert servo.position == pytest.approx(goal, abs=0.1)
    assert max(speeds[0]) < 1.5
    assert max(speeds[1]) > 2.0


def test_a_mode_ends_with_the_robot_and_none_was_burnt(tmp_path):
    rig = write_feetech_comb(tmp_path)
    with axbridge.open(rig) as robot:
        servo, virtual = robot["s1"], robot.simulation.world.servos["s1"]
        servo.set_duty(0.2)
        run(robot, 0.1)
        assert registers(servo, "operating_mode", "lock") == [2, 1]
        robot.simulation.world.servos["s1"].power_cycle(robot.time)
        assert virtual.table["operating_mode"] == 0
    assert (virtual.table["operating_mode"], virtual.table["torque_enable"]) == (0, 0)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_mode_that_another_program_left_is_ended_before_a_goal_is_given(mode, tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot:
        robot["s1"].write("operating_mode", mode)
        robot["s1"].torque_on()
        run(robot, 0.5)
        assert robot["s1"].read("operating_mode") == 0
        assert robot["s1"].position == pytest.approx(0.0, abs=0.02)


def test_a_wheel_that_was_without_power_turns_on(tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot:
        servo = robot["s1"]
        servo.set_position(math.inf)
        servo.set_velocity(0.5)
        run(robot, 0.5)
        robot.simulation.world.servos["s1"].power_cycle(robot.time)
        with pytest.warns(ControlWarning, match="without power until now: s1"):
            run(robot, 3.0)
        assert servo.velocity == pytest.approx(0.5, abs=0.2)


def test_makers_do_not_share_a_line(tmp_path):
    rig = write_comb(tmp_path, 2)
    text = rig.read_text(encoding="utf-8")
    mixed = text.replace('name = "s2"', 'name = "s2"\nprofile = "sts3215"\nzero = 2048')
    rig.write_text(mixed, encoding="utf-8")
    with pytest.raises(RigError, match="a Feetech servo cannot be on the bus of 's1', which is a Dynamixel"):
        axbridge.open(rig)
