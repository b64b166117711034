"""Battery drain and cut-off: E -= (cpu + Σ|torque|·factor)·h; without a Charger nothing comes back."""

import math

import pytest

from tests.support.ideal_world import H, positions

pytestmark = pytest.mark.slow

HOLD = 9.81 * 0.2  # N·m a motor needs to hold 1 kg at 0.2 m


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
    assert robot.batterySensorGetValue() == -1.0
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
