"""The Bus Watchdog stops X servos after the end of host and guard, and never while the program runs."""

import os
import signal
import time

import pytest

from axbridge.bus.watchdogs import PERIOD
from axbridge.config.registers import XAddress
from tests.support import ends
from tests.support.warm import Warm, serving

pytestmark = pytest.mark.slow

OPEN = """
import math, os, sys, time, warnings, axbridge
warnings.simplefilter("ignore")
robot = axbridge.open("koch", backend="real", port=sys.argv[1])
roll, pan, elbow, gripper = (robot[name] for name in ("wrist_roll", "shoulder_pan", "elbow_flex", "gripper"))
"""
RUN = """
roll.set_position(-1.2)
gripper.set_position(0.0)
while roll.position != roll.position or roll.position > -1.1:
    robot.step(20)
roll.set_position(math.inf)
roll.set_velocity(1.0)
pan.set_velocity(0.5)
pan.set_position(2.0)
gripper.set_duty(0.2)
elbow.set_torque(0.05)
print(robot._connection._safety._guard.pid, flush=True)
while True:
    robot.step(20)
    print(roll.position, pan.position, flush=True)
"""
SLOW = """
roll.set_position(0.5)
for _ in range(2):
    robot.step(20)
    time.sleep(0.8)
print([servo.read("bus_watchdog") for servo in (roll, pan)], roll.torque_enabled, flush=True)
"""
STOPPED = """
roll.set_position(math.inf)
roll.set_velocity(0.5)
for _ in range(10):
    robot.step(20)
print(os.getpid(), flush=True)
while roll.torque_enabled:
    robot.step(20)
robot.step(20)
print("off", roll.read("torque_enable"), roll.read("bus_watchdog"), flush=True)
roll.set_velocity(1.0)
roll.set_position(roll.position + 0.5)
for _ in range(60):
    robot.step(20)
print("on", roll.read("torque_enable"), roll.read("bus_watchdog"), flush=True)
"""
NEXT = """
for servo in robot.values():
    servo.set_position(0.0)
while not abs(roll.position) < 0.05:  # the first goal after an open is approached at 45 degrees a second
    robot.step(20)
print(roll.position, flush=True)
robot.close()
"""


@pytest.fixture(scope="module")
def line():
    with serving("koch") as port:
        yield ends.Line("koch", port)


def held(line, register, *joints):
    """Return a register's values of these joints, as another program on the bus reads them."""
    values = line.registers(register)
    return [values[joint][0] for joint in joints]


def test_joints_stop_within_the_period_although_host_and_guard_are_killed(line):
    with Warm("-c", OPEN + RUN, line.port) as driver:
        guard = int(driver.stdout.readline())
        lines = [driver.stdout.readline() for _ in range(20)]
        os.kill(guard, signal.SIGKILL)
        driver.kill()
        lines += driver.stdout.read().splitlines()
        last = [float(part) for part in lines[-1].split()]
        driver.wait()
    time.sleep(3 * PERIOD)  # without packets, which would feed the watchdogs
    moving = "shoulder_pan", "elbow_flex", "wrist_roll", "gripper"
    assert held(line, "bus_watchdog", *moving) == [-1] * 4
    assert held(line, "torque_enable", *moving) == [1] * 4  # it stops, and does not go limp
    before = held(line, "present_position", "shoulder_pan", "wrist_roll", "gripper")
    time.sleep(0.3)
    after = held(line, "present_position", "shoulder_pan", "wrist_roll", "gripper")
    assert max(abs(old - new) for old, new in zip(before, after, strict=True)) <= 2
    assert held(line, "present_current", "elbow_flex") == [0]  # in current mode it has none, and gravity has the joint
    pan, roll = ((counts - 2048) * 0.001534 for counts in after[:2])
    assert 0.4 * PERIOD < roll - last[0] < 1.3 * PERIOD + 0.05  # at 1 rad/s
    assert 0.4 * PERIOD < (pan - last[1]) / 0.5 < 1.3 * PERIOD + 0.1
    with line.opened() as bus:
        assert bus.write(5, XAddress.GOAL_VELOCITY, (40).to_bytes(4, "little")).error == 4  # range, until 0 is written
    with Warm("-c", OPEN + NEXT, line.port) as next_one:
        out, err = next_one.communicate(timeout=60)
    assert out, err
    assert abs(float(out)) < 0.1
    assert held(line, "operating_mode", *moving) == [3] * 4


def test_a_slow_running_program_does_not_trip_the_watchdog(line):
    with Warm("-c", OPEN + SLOW, line.port) as driver:
        assert driver.communicate(timeout=60)[0] == "[25, 0] True\n"


def test_after_a_program_was_stopped_its_motors_stay_off_until_a_command(line):
    with Warm("-c", OPEN + STOPPED, line.port) as driver:
        os.kill(int(driver.stdout.readline()), signal.SIGSTOP)
        time.sleep(3 * PERIOD)
        os.kill(driver.pid, signal.SIGCONT)
        out, err = driver.communicate(timeout=60)
    assert (out, "stood still: the motors are off" in err) == ("off 0 0\non 1 25\n", True), err
