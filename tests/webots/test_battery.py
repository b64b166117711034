"""Battery drain and cut-off: E -= (cpu + Σ|torque|·factor)·h; without a Charger nothing comes back."""

import math

import pytest

import axbridge
from tests.support.ideal_world import H, positions

pytestmark = pytest.mark.slow

HOLD = 9.81 * 0.2  # N·m a motor needs to hold 1 kg at 0.2 m


def test_computer_and_motors_drain_it_and_nothing_recharges_it(bench):
    assert bench.open({}).battery_energy == -1.0
    robot = bench.open(
        {"com": 0.2, "consumption_factor": 10.0}, gravity=9.81, robot="battery = [50, 60, 2]\ncpu_consumption = 5"
    )
    for _ in range(10):
        robot.step(32)
    assert robot.battery_energy == pytest.approx(50 - 10 * H * (5 + HOLD * 10), abs=0.02)


def test_the_step_in_which_it_runs_empty_takes_no_sample(bench):
    robot = bench.controlled({}, robot="battery = [3.9, 60, 0]\ncpu_consumption = 5")
    motor, sensor = robot.getDevice("j0"), robot.getDevice("j0_sensor")
    sensor.enable(32)
    motor.setPosition(math.inf)
    motor.setVelocity(3.0)
    seen = []
    for _ in range(8):
        robot.step(32)
        seen.append((robot._session.robot.battery_energy > 0, sensor.getValue()))
    powered = [position for power, position in seen if power]
    assert 2 < len(powered) < 8
    assert powered == pytest.approx([3 * H * (n + 1) for n in range(len(powered))], abs=1e-4)
    assert {position for power, position in seen if not power} == {powered[-1]}


def test_the_motor_of_webots_own_battery_test_ends_where_it_does_in_webots(bench):
    """tests/api/worlds/battery.wbt and its controller: 3000 W of motor on 600 J, in steps of 32 ms."""
    servo = {
        "inertia": 4.9e-3, "damping_constant": 10.0, "consumption_factor": 100.0, "max_velocity": 20.0,
        "max_torque": 30.0,
    }  # fmt: skip
    robot = bench.controlled(servo, robot="battery = [600, 36000, 5]\ncpu_consumption = 5")
    motor, sensor = robot.getDevice("j0"), robot.getDevice("j0_sensor")
    sensor.enable(32)
    robot.batterySensorEnable(32)
    motor.setPosition(2 * math.pi)
    robot.step(32)
    assert robot.batterySensorGetValue() == pytest.approx(504, abs=1)
    for _ in range(10):
        robot.step(32)
    assert sensor.getValue() == pytest.approx(0.5739, abs=0.001)
    assert robot.batterySensorGetValue() == pytest.approx(0, abs=0.001)


def test_when_it_is_empty_motors_go_limp_and_sensors_freeze(bench):
    # 5 W of computer and 19.62 W of motor empty 1.5 J within two steps of 0.788 J
    robot = bench.open({"com": 0.2}, gravity=9.81, robot="battery = [1.5, 60, 400]\ncpu_consumption = 5")
    servo = robot["j0"]
    robot.step(32)
    assert robot.battery_energy == pytest.approx(1.5 - H * (5 + 10 * HOLD), abs=0.02)
    robot.step(32)
    assert robot.battery_energy == 0
    frozen = servo.position
    for _ in range(10):
        assert robot.step(32) == 0  # the controller goes on
    assert servo.position == frozen
    assert robot.battery_energy == 0
    assert robot.simulation.world.ideal["j0"].position > 0.2  # it has fallen


def test_the_sensors_of_a_long_step_are_cut_within_it(bench):
    robot = bench.open({"com": 0.2}, gravity=9.81, robot="battery = [1.5, 60, 0]\ncpu_consumption = 5")
    robot.step(320)
    assert robot.battery_energy == 0
    assert robot["j0"].state.time == pytest.approx(H, abs=1e-9)
    assert math.isfinite(positions(robot, "j0", 1)[0])


def test_an_empty_battery_switches_a_simulated_ax_12_off():
    with axbridge.open("bench_arm", robot={"battery": [1, 60, 0], "cpu_consumption": 2}) as robot:
        arm = robot["shoulder"]
        arm.set_position(1.0)
        robot.step(200)
        assert 0.2 < robot.battery_energy < 0.6  # 0.4 J for the computer, the rest is U·i
        assert arm.read("torque_enable") == 1
        robot.step(400)
        assert robot.battery_energy == 0
        frozen = arm.state
        robot.step(200)
        assert arm.read("torque_enable") == 0
        assert arm.state == frozen
