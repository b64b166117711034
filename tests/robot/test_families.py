"""Functions of servos of every family, native or emulated by the host."""

import math

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning, FeetechError, HardwareError, RigError, ServoFault, UnsupportedOperation
from axbridge.errors import ErrorFlag as AxError
from axbridge.robot.backend import open_sim
from axbridge.robot.robot import Robot
from axbridge.robot.safety.policies import hold
from tests.support.ideal_world import Bench
from tests.support.robot_files import write_comb, write_feetech_comb
from tests.support.waiting import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*(turns in wheel mode|no current sensor):axbridge.errors.ControlWarning"),
]

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


def values(servo, *registers):
    return tuple(servo.read(register) for register in registers)


def test_a_joint_reaches_its_goal_at_the_commanded_speed(robot, servo):
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
    before = values(servo, *MODE[family])
    servo.set_position(math.inf)
    for speed in (1.5, -1.0):
        servo.set_velocity(speed)
        run(robot, 1.0)
        assert servo.velocity == pytest.approx(speed, abs=0.4)
    assert values(servo, *MODE[family]) != before
    servo.set_velocity(servo.max_velocity)
    servo.set_position(0.0)
    run(robot, 2.5)
    assert servo.position == pytest.approx(0.0, abs=0.1)
    assert values(servo, *MODE[family]) == before


def test_a_duty_drives_both_ways_until_another_command(robot, servo, family):
    before = values(servo, *MODE[family])
    for duty in (0.4, -0.4):
        servo.set_duty(duty)
        run(robot, 0.4)
        assert servo.velocity * duty > 0.1
        assert servo.load == pytest.approx(duty, abs=0.05)
        assert math.isnan(servo.goals.position)
    assert values(servo, *MODE[family]) != before
    servo.set_position(servo.position)
    run(robot, 0.1)
    assert math.isnan(servo.goals.duty)
    servo.set_duty(0.2)
    run(robot, 0.1)
    servo.restore()
    assert values(servo, *MODE[family]) == before
    assert (servo.read("torque_enable"), servo.torque_enabled) == (0, False)


def test_an_impossible_duty_is_refused_and_a_large_one_clipped(servo):
    with pytest.warns(ControlWarning, match="NaN"):
        servo.set_duty(math.nan)
    assert not servo.torque_enabled
    with pytest.warns(ControlWarning, match="requested duty 3 exceeds full duty, 1"):
        servo.set_duty(3.0)
    assert servo.goals.duty == 1.0


def test_an_ideal_joint_refuses_a_duty(tmp_path):
    with Bench(tmp_path).open({}) as robot, pytest.raises(UnsupportedOperation, match="not by duty"):
        next(iter(robot.values())).set_duty(0.5)


def test_an_overload_is_reported_and_recover_ends_it(robot, servo, family):
    servo.set_position(0.3)
    run(robot, 1.0)
    virtual = robot.simulation.world.servos[servo.name]
    if family in FEETECH:  # it goes on with a fifth of its torque
        virtual.overload(robot.time)
        run(robot, 0.2)
        assert servo.errors == FeetechError.OVERLOAD
        assert robot.causes == {servo.name: ["overload"]}
    else:
        robot.simulation.inject(f"overload:{servo.config.id}")
        message = f"{servo.name!r} has no torque, and stays limp until recover.*overload"
        with pytest.warns(ControlWarning, match=message):
            run(robot, 0.2)
        assert servo.errors == (AxError if family == "ax-12a" else HardwareError).OVERLOAD
        assert (robot.causes, robot.withheld) == ({servo.name: ["torque off", "overload"]}, {servo.name})
        assert not servo.torque_enabled
        servo.set_position(-0.3)
        servo.torque_on()  # nothing but `recover` wakes it
        run(robot, 0.5)
        assert servo.position == pytest.approx(0.3, abs=0.05)
    servo.recover()
    servo.set_position(-0.3)
    run(robot, 3.0)
    assert not servo.errors
    assert (robot.causes, robot.withheld) == ({}, frozenset())
    assert servo.position == pytest.approx(-0.3, abs=0.06)
    robot.stop()
    servo.recover()
    assert servo.read("torque_enable") == 0


@pytest.mark.parametrize("family", FEETECH, indirect=True)
def test_a_feetech_servo_approaches_a_far_first_goal_slowly_also_in_a_simulation(robot, servo):
    speeds = []
    for goal in (1.2, 0.0):
        servo.set_position(goal)
        speeds.append(max(run(robot, 2.0, lambda: abs(servo.velocity))))
        assert servo.position == pytest.approx(goal, abs=0.1)
    assert speeds[0] < 1.5
    assert speeds[1] > 2.0


def test_close_restores_the_mode_with_few_eeprom_writes(tmp_path):
    rig = write_feetech_comb(tmp_path)
    with axbridge.open(rig) as robot:
        servo, virtual = robot["s1"], robot.simulation.world.servos["s1"]
        servo.set_duty(0.2)
        run(robot, 0.1)
        assert values(servo, "operating_mode", "lock") == (2, 1)
        virtual.power_cycle(robot.time)
        assert virtual.table["operating_mode"] == 0
    assert (virtual.table["operating_mode"], virtual.table["torque_enable"]) == (0, 0)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_mode_left_by_another_program_is_changed_before_the_first_goal(mode, tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot:
        robot["s1"].write("operating_mode", mode)
        robot["s1"].torque_on()
        run(robot, 0.5)
        assert robot["s1"].read("operating_mode") == 0
        assert robot["s1"].position == pytest.approx(0.0, abs=0.02)


def test_servos_of_two_makers_on_one_bus_are_refused(tmp_path):
    rig = write_comb(tmp_path, 2)
    rig.write_text(rig.read_text().replace('name = "s2"', 'name = "s2"\nprofile = "sts3215"\nzero = 2048'))
    with pytest.raises(RigError, match="a Feetech servo cannot be on the bus of 's1', which is a Dynamixel"):
        axbridge.open(rig)


def opened(rig, name, **registers):
    return axbridge.open(
        Rig.load(rig).with_servos(lambda one: {"registers": one.registers | registers} if one.name == name else {})
    )


@pytest.fixture
def swing():
    with axbridge.open("xl330_pendulum") as made:
        yield made


@pytest.fixture
def koch():
    with axbridge.open("koch") as made:
        yield made


def test_speed_and_acceleration_are_written_to_the_servos_profile_registers(koch):
    pan = koch["shoulder_pan"]
    assert pan.capabilities["acceleration"] == pan.capabilities["velocity"] == "native"
    pan.set_velocity(1.0)
    pan.set_acceleration(2.0)
    pan.set_position(1.0)
    speeds = [0.0]
    while pan.position < 0.9:
        speeds += run(koch, 0.02, lambda: pan.velocity)
    assert max(speeds) == pytest.approx(1.0, abs=0.05)
    assert 0.35 < 0.02 * sum(speed < 0.9 for speed in speeds[: len(speeds) // 2]) < 0.65  # 0.9 rad/s at 2 rad/s²
    assert values(pan, "profile_acceleration", "profile_velocity") == (5, round(1.0 / 0.02398))
    pan.set_acceleration(-1)
    pan.set_velocity(pan.max_velocity)
    run(koch, 0.04)
    assert values(pan, "profile_acceleration", "profile_velocity") == (0, 0)


def test_mode_and_profile_registers_are_changed_for_a_goal_and_restored():
    with opened("koch", "elbow_flex", operating_mode=1, drive_mode=4, position_p_gain=700) as robot:
        one = robot["elbow_flex"]
        one.set_position(0.3)
        run(robot, 2.0)
        assert values(one, "operating_mode", "drive_mode") == (3, 0)
        assert one.position == pytest.approx(0.3, abs=0.15)  # its loop has no integral
        assert one.read("position_p_gain") == 700  # a change of mode resets gains, but for those of the rig
        one.restore()
        assert values(one, "operating_mode", "drive_mode", "torque_enable") == (1, 4, 0)


@pytest.mark.parametrize(
    "registers", [{"homing_offset": 300}, {"drive_mode": 1}, {"drive_mode": 1, "homing_offset": -90}]
)
def test_zero_and_direction_are_correct_with_offset_and_reverse_mode(registers):
    with opened("koch", "shoulder_pan", **registers) as robot:
        pan = robot["shoulder_pan"]
        pan.set_position(0.5)
        run(robot, 0.2)
        assert pan.velocity > 0.4
        run(robot, 0.8)
        assert {name: pan.read(name) for name in registers} == registers
        assert pan.position == pytest.approx(0.5, abs=0.03)
        assert pan.read("present_position") == pytest.approx(2048 + 0.5 / 0.001534, abs=20)
        assert pan.truth.position == pytest.approx(0.5, abs=0.03)


def test_a_speed_uses_the_servos_velocity_mode_and_counts_turns(koch):
    roll = koch["wrist_roll"]  # light, and free for 5.8 rad
    assert roll.capabilities["wheel"] == "native"
    roll.set_position(-2.5)
    run(koch, 1.5)
    roll.set_position(math.inf)
    roll.set_velocity(1.5)
    run(koch, 1.5)
    assert values(roll, "operating_mode", "goal_velocity") == (1, 63)
    assert roll.velocity == pytest.approx(1.5, abs=0.05)
    before = roll.position
    run(koch, 1.0)
    assert roll.turned - before == pytest.approx(1.5, abs=0.1)
    roll.set_acceleration(2.0)
    roll.set_velocity(0.0)
    run(koch, 0.4)
    assert 0.5 < roll.velocity < 1.0


def test_a_duty_uses_pwm_mode_and_keeps_the_torque_cap(swing):
    servo = swing["pendulum"]
    assert servo.capabilities["duty"] == "native"
    servo.set_available_torque(servo.max_torque / 2)
    servo.set_duty(-0.3)
    run(swing, 0.4)
    assert values(servo, "operating_mode", "goal_pwm") == (16, -266)
    assert servo.load == pytest.approx(-0.3, abs=0.002)
    servo.set_position(0.0)
    run(swing, 0.4)
    assert values(servo, "operating_mode", "goal_pwm") == (3, 442)  # the cap is one of the duty


@pytest.mark.parametrize("torque", [0.1, -0.2])
def test_a_torque_uses_the_servos_current_mode(swing, torque):
    servo = swing["pendulum"]
    assert servo.capabilities["torque"] == "native"
    servo.set_torque(torque)
    run(swing, 2.0)
    assert servo.read("operating_mode") == 0
    assert servo.truth.torque == pytest.approx(torque, abs=0.02)  # friction hangs on to where it stopped swinging
    assert servo.read("goal_current") * torque > 0


def test_a_servo_without_current_mode_emulates_a_torque_by_a_duty(koch):
    pan = koch["shoulder_pan"]
    assert pan.capabilities["torque"] == "emulated"
    with pytest.warns(ControlWarning, match="motor model"):
        pan.set_torque(0.2)
    run(koch, 0.2)
    assert pan.read("operating_mode") == 16
    assert pan.velocity > 0.1


def test_extended_position_mode_reaches_a_goal_beyond_a_turn():
    with opened("xl330_pendulum", "pendulum", operating_mode=4) as robot:
        servo = robot["pendulum"]
        assert servo.capabilities["extended_position"] == "native"
        servo.set_position(10.0)
        run(robot, 4.0)
        assert servo.read("operating_mode") == 4
        assert servo.position == pytest.approx(10.0, abs=0.8)  # its loop has no integral, and it swings 0.49 kg


def test_current_based_position_mode_limits_the_torque_by_the_current():
    with opened("xl330_pendulum", "pendulum", operating_mode=5) as robot:
        servo = robot["pendulum"]
        assert servo.capabilities["available_torque"] == "native"
        servo.set_position(1.5)
        run(robot, 0.1)
        assert servo.read("goal_current") == servo.read("current_limit")
        servo.set_available_torque(0.1)
        run(robot, 2.5)
        assert 0 < servo.read("goal_current") < 500
        assert servo.truth.torque == pytest.approx(0.1, abs=0.03)  # what it lifts, or holds with its friction
        assert servo.read("goal_pwm") == servo.read("pwm_limit")


def test_an_error_outside_shutdown_does_not_keep_the_torque_off(swing):
    servo = swing["pendulum"]  # its supply is above its limit, and its Shutdown says that this does not matter
    run(swing, 0.5)
    assert servo.read("hardware_error_status") == 1
    servo.set_position(0.3)
    run(swing, 0.5)
    assert servo.read("torque_enable") == 1


def test_hold_stops_servos_that_turn(koch):
    koch["wrist_roll"].set_position(math.inf)
    koch["wrist_roll"].set_velocity(1.0)
    koch["wrist_flex"].set_torque(0.05)
    koch["shoulder_pan"].set_duty(0.2)
    koch["gripper"].set_position(0.2)
    run(koch, 0.3)
    (cycle,) = koch._connection.cycles.values()
    assert hold(cycle) == {}
    read = {"wrist_roll": "goal_velocity", "wrist_flex": "goal_current", "shoulder_pan": "goal_pwm"}
    assert [koch[name].read(register) for name, register in read.items()] == [0, 0, 0]
    assert koch["gripper"].read("torque_enable") == 1


def test_a_refused_write_names_the_hardware_error():
    servo = {"name": "horn", "joint": "horn", "id": 1, "profile": "xl330-m288", "zero": 2048}
    rig = Rig.load("bare_horn").overridden({"servo": [servo]})  # at 12 V
    with Robot(rig, open_sim(rig)) as robot:
        for _ in range(20):
            robot.step(100)
        words = r"reports instruction failed, a hardware error: input voltage \(0x81\)"
        with pytest.raises(ServoFault, match=words):
            robot["horn"].write("torque_enable", 1)
