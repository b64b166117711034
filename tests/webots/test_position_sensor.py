"""Sampling periods, hold, resolution and noise of position sensors; warnings of every setter."""

import math
import statistics

import pytest

from axbridge import ControlWarning
from tests.support.ideal_world import positions

pytestmark = pytest.mark.slow


def turning(bench, speed, **joint):
    """A controller's robot that turns endlessly, and its position sensor, disabled."""
    robot = bench.controlled(joint)
    motor = robot.getDevice("j0")
    motor.setPosition(math.inf)
    motor.setVelocity(speed)
    return robot, motor.getPositionSensor()


def test_a_sensor_reads_nan_until_its_period_has_passed_and_then_holds(bench):
    robot, sensor = turning(bench, 1.0)
    sensor.enable(96)
    seen = []
    for _ in range(7):
        robot.step(32)
        seen.append(sensor.getValue())
    assert math.isnan(seen[0])
    assert math.isnan(seen[1])
    assert seen[2:] == pytest.approx([0.096, 0.096, 0.096, 0.192, 0.192], abs=1e-6)
    sensor.disable()
    assert sensor.getSamplingPeriod() == 0


@pytest.mark.parametrize(("period", "step", "reads"), [(64, 160, 0.128), (40, 96, 0.096)])
def test_samples_are_taken_inside_a_long_step_at_the_end_of_a_basic_one(bench, period, step, reads):
    """Due at 64 and 128 ms of 160; due at 40 and 80 ms, and taken at 64 and 96."""
    robot, sensor = turning(bench, 1.0)
    sensor.enable(period)
    robot.step(step)
    assert sensor.getValue() == pytest.approx(reads, abs=1e-6)
    assert robot.getTime() == step / 1000


@pytest.mark.parametrize(
    ("start", "reads", "in_webots"),
    [(0.26, 0.3, 0.3), (-0.26, -0.3, -0.2), (-0.31, -0.3, -0.2), (-0.24, -0.2, -0.1), (0.04, 0.0, 0.0)],
)
def test_resolution_rounds_to_the_nearest_multiple_and_in_webots_cuts_towards_zero(bench, start, reads, in_webots):
    robot = bench.controlled({"position": start, "resolution": 0.1})
    sensor = robot.getDevice("j0").getPositionSensor()
    sensor.enable(32)
    robot.step(32)
    assert robot._session.robot["j0"].position == pytest.approx(reads, abs=1e-9)
    assert sensor.getValue() == pytest.approx(in_webots, abs=1e-9)


def test_noise_is_gaussian_and_the_same_for_the_same_seed(bench):
    readings = [positions(bench.open({"noise": 0.05}), "j0", 300) for _ in range(2)]
    assert readings[0] == readings[1]
    assert statistics.fmean(readings[0]) == pytest.approx(0.0, abs=0.012)
    assert statistics.stdev(readings[0]) == pytest.approx(0.05, rel=0.15)


def test_soft_limits_clip_targets_with_the_words_of_webots(bench):
    robot = bench.open({"min_position": -1.63, "max_position": 1.51})
    servo = robot["j0"]
    with pytest.warns(ControlWarning, match="too big requested position: 100 > 1.51"):
        servo.set_position(100, clip=True)
    assert positions(robot, "j0", 60)[-1] == pytest.approx(1.51, abs=1e-4)
    with pytest.warns(ControlWarning, match="too low requested position: -3 < -1.63"):
        servo.set_position(-3)
    assert positions(robot, "j0", 60)[-1] == pytest.approx(-1.63, abs=1e-4)
    servo.set_position(math.inf)  # infinity is never clipped
    servo.set_velocity(-2.0)
    assert positions(robot, "j0", 30)[-1] < -2
    widened = bench.open({"min_position": -0.5, "max_position": 0.5, "position": 0.8})
    assert widened["j0"].max_position == 0.8
