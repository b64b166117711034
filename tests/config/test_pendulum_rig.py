"""The rig `pendulum`: other masses and lengths swing with the textbook's period and weigh what they should."""

import math

import numpy as np
import pytest

import axbridge
from axbridge.comparison.recorded_runs import arm_of
from axbridge.config.rig import Rig
from axbridge.servo.columns import State
from axbridge.virtual.assembly import build_bank

GRAVITY = 9.81


def inertia(mass, length):
    return mass * length**2 + 4.84e-6


@pytest.mark.parametrize(("mass", "length"), [(0.1, 0.1), (0.2, 0.1), (0.1, 0.3), (0.5, 0.4)])
@pytest.mark.slow
def test_it_swings_with_the_period_of_its_mass_and_length(mass, length):
    rig = Rig.load(f"pendulum:mass={mass},length={length}").overridden({"world": {"time_step_ms": 1.0}})
    nothing = dict.fromkeys(("coulomb", "stribeck", "viscous", "output"), 0.0)
    free = {"motor": {"armature": 0.002, "backlash": 0.0}, "friction": nothing}
    servo = rig.servos[0].model_copy(update={"position": 0.1, "params": free})
    bank = build_bank(rig.model_copy(update={"servos": (servo,)}))
    times, angles = [], []
    while bank.time < 4.0:
        bank.advance(bank.time + 1.001e-3)
        times.append(bank.time)
        angles.append(bank.positions[0])
    bank.close()
    down = np.flatnonzero((np.array(angles[:-1]) > 0) & (np.array(angles[1:]) <= 0))
    period = np.diff(np.array(times)[down]).mean()
    small = 2 * math.pi * math.sqrt((inertia(mass, length) + 0.002) / (mass * GRAVITY * length))
    assert period == pytest.approx(small * (1 + 0.1**2 / 16), rel=2e-3)
    assert max(angles) == pytest.approx(0.1, rel=2e-3)  # nothing brakes it


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
    assert arm.inertia == pytest.approx(inertia(0.2, 0.15))
    assert arm.gravity == pytest.approx(0.2 * GRAVITY * 0.15)
