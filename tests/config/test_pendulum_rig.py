"""The rig `pendulum`: other masses and lengths weigh what they should, in the world and in the closed form."""

import math

import numpy as np
import pytest

import axbridge
from axbridge.comparison.recorded_runs import arm_of
from axbridge.config.rig import Rig
from axbridge.servo.columns import State

GRAVITY = 9.81


@pytest.mark.parametrize(("mass", "length"), [(0.1, 0.1), (0.3, 0.1), (0.2, 0.25)])
def test_holding_it_out_takes_the_torque_of_its_weight(mass, length):
    with axbridge.open("pendulum", parameters={"mass": mass, "length": length}) as robot:
        shaft = robot["shaft"]
        shaft.torque_on()
        shaft.set_position(math.pi / 2)
        bank = robot.simulation.world.bank
        held, carried = [], []
        for tick in range(150):
            robot.step(20)
            if tick >= 100:  # from one count to the next the duty jumps: the arm trembles by hundredths of a degree
                held.append(bank.state[0, State.TORQUE])
                carried.append(mass * GRAVITY * length * math.sin(bank.state[0, State.ANGLE]))
    assert np.mean(held) == pytest.approx(np.mean(carried), abs=4e-3)


def test_closed_form_and_world_have_the_same_arm():
    rig = Rig.load("pendulum:mass=0.2,length=0.15")
    arm = arm_of(rig, rig.servos[0])
    assert arm.inertia == pytest.approx(0.2 * 0.15**2 + 4.84e-6)
    assert arm.gravity == pytest.approx(0.2 * GRAVITY * 0.15)
