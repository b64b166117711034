import math

import numpy as np
import pytest

import axbridge
from tests.support.robot_files import write_comb

BYTE = 10e-6  # s at 1 Mbps: start bit, 8 bits, stop bit
READ, STATUS = 8 * BYTE, 14 * BYTE  # READ of 8 bytes, and its reply
GOALS = (8 + 18 * 5) * BYTE  # SYNC_WRITE of goal and speed to 18 servos
ANSWER = 22e-6  # s: firmware's reply time at return delay 0
INTERRUPTS = 2 * 130e-6  # s: longest delay of a reply by the motor's interrupt
SUBSTEP = 1 / 240 / 5  # s: integration step of the motors
COUNT = math.radians(300 / 1023)


@pytest.fixture
def opened(tmp_path):
    def open_comb(timing, **kwargs):
        extra = f'[[bus]]\nname = "main"\nbus_timing = "{timing}"'
        robot = axbridge.open(write_comb(tmp_path, 18, kwargs.pop("delay", 0), extra), **kwargs)
        for servo in robot.values():
            servo.torque_on()
        robot.step(20)
        return robot

    return open_comb


def set_all(robot, position):
    for servo in robot.values():
        servo.set_position(position)


@pytest.mark.parametrize("delay", [0, 20])
def test_goals_act_when_their_packet_ends_and_servos_are_read_one_after_another(opened, delay):
    with opened("wire", delay=delay) as robot:
        for tick in range(1, 20):
            set_all(robot, 0.1 * (tick % 2))
            began = robot.simulation.world.now()
            robot.step(20)
            start = robot._start
            assert robot.last_step.commanded == pytest.approx(began - start + GOALS, abs=1e-9)
            times = list(robot.last_step.sampled.values())
            assert times[0] == pytest.approx(robot.time + READ, abs=1e-9)
            turn = ANSWER + delay * 3.16e-6 + STATUS + READ
            for gap in np.diff(times):
                assert turn - 1e-9 <= gap <= turn + INTERRUPTS + 1e-9


def test_without_bus_timing_all_happens_at_once(opened):
    with opened("none") as robot:
        for tick in range(1, 5):
            set_all(robot, 0.1 * (tick % 2))
            robot.step(20)
            assert list(robot.last_step.sampled.values()) == pytest.approx([robot.time] * 18, abs=1e-9)
            assert robot.last_step.commanded == pytest.approx(robot.time - 0.02, abs=1e-9)


def travel(robot, seconds, tick=10):
    """Move all to 1 rad from rest; return (time since the goals acted, position) of the samples, and the step ends."""
    seen, ends, began = [], [], None
    set_all(robot, 1.0)
    for _ in range(round(seconds * 1000 / tick)):
        robot.step(tick)
        began = robot.last_step.commanded if began is None else began
        seen += [(servo.state.time - began, servo.position) for servo in robot.values()]
        ends += [robot.time - began] * len(robot)
    return np.array(seen), np.array(ends)


def test_positions_are_sampled_when_each_servo_is_read(opened):
    with opened("none") as robot:  # the same motion, sampled finely and without lag
        fine = travel(robot, 0.4, tick=1)[0][::18]
    with opened("wire") as robot:
        seen, ends = travel(robot, 0.4)
    fastest = np.abs(np.gradient(fine[:, 1], fine[:, 0])).max()
    error = np.abs(seen[:, 1] - np.interp(seen[:, 0], fine[:, 0], fine[:, 1]))
    assert error.max() <= COUNT + fastest * 2 * SUBSTEP
    if_all_at_the_end = np.abs(seen[:, 1] - np.interp(ends, fine[:, 0], fine[:, 1]))
    assert if_all_at_the_end.max() > 1.5 * error.max()  # 17 reads later a servo has moved on
