import math
from itertools import product

import numpy as np
import pybullet
import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.sim.engine import Scene
from axbridge.sim.engines.bullet.engine import BulletEngine
from tests.sim.test_bullet import GOALS, write_chain
from tests.support.one_joint import BV, K_OMEGA, K_THETA, K, L, R, order, servo_bank, watched, write_pendulum
from tests.support.pairs import pairs

pytestmark = pytest.mark.slow

PROFILE = FirmwareProfile.load("ax-12a")
PLAY, ARMATURE, SUPPLY = math.radians(1.0), 0.004, 9.6


def bank_on(world, play=PLAY, **friction):
    motor = {"armature": ARMATURE, "backlash": play}
    model = ServoModel.load("lima2009", PROFILE, {"motor": motor, "friction": {"coulomb": 0.0, **friction}})
    return servo_bank(world, model, profile=PROFILE)


def pendulum(tmp_path, inertia, weight, time_step, start=0.0, gravity=(0.0, 0.0, -9.81), **kinds):
    urdf = write_pendulum(tmp_path / "p.urdf", inertia, weight)
    return bank_on(BulletEngine(Scene(urdf, time_step=time_step, start={"shaft": start}, gravity=gravity)), **kinds)


def driven(bank, goal, until=0.8):
    """Return times, s, and angles, rad, of a motion to a goal, or of a fall; then close the bank."""
    order(bank, goal)
    times, (angles,), _ = watched(bank, until)
    bank.close()
    return times, angles


def speed_after(speed, torque, inertia, friction, step):
    """Return the speed after a step with a torque, and dry friction that at most stops the body."""
    free = speed + step * torque / inertia
    return math.copysign(max(0.0, abs(free) - step * friction / inertia), free)


def two_bodies(inertia, weight, goal, start, times, *, gear, output, step=1e-5, stiffness=3000.0):
    """Return the joint's angles, rad: rotor and link are two bodies with dry friction, and the flanks are stiff springs."""
    damping = 2 * math.sqrt(stiffness * inertia * ARMATURE / (inertia + ARMATURE))
    angle, rotor, speed, turning, current, path = start, start, 0.0, 0.0, 0.0, []
    for _ in range(round(times[-1] / step) + 1):
        path.append(angle)
        beyond, force = abs(rotor - angle) - PLAY / 2, 0.0
        if beyond > 0:
            side = math.copysign(1, rotor - angle)
            force = side * max(0.0, stiffness * beyond + damping * side * (turning - speed))
        if goal is not None:
            volts = min(max(K_THETA * (goal - angle) - K_OMEGA * speed, -SUPPLY), SUPPLY)
            current += step * (volts - K * turning - R * current) / L
        speed = speed_after(speed, force - weight * math.sin(angle), inertia, output, step)
        turning = speed_after(turning, K * current - BV * turning - force, ARMATURE, gear, step)
        angle, rotor = angle + step * speed, rotor + step * turning
    return np.interp(times, step * np.arange(len(path)), path)


LOADS, MOTIONS = ((1e-4, 0.005), (7.2e-4, 0.081)), ((1.5, 0.0), (None, 1.5))
FRICTIONS = (  # of gear and output; the physics step; what is allowed: degrees, root mean square
    (0.0, 0.0, 1 / 240, 0.2),
    (0.0, 0.0, 1e-3, 0.1),
    (0.0, 0.03, 1e-3, 0.05),
    (0.03, 0.0, 1e-3, 0.05),
    (0.02, 0.03, 1e-3, 0.05),
)


@pytest.mark.parametrize(("load", "motion", "friction"), pairs(product(LOADS, MOTIONS, FRICTIONS)))
def test_steps_and_falls_are_those_of_two_bodies_with_friction_on_both_sides_of_a_gap(tmp_path, load, motion, friction):
    (inertia, weight), (goal, start), (gear, output, time_step, allowed) = load, motion, friction
    times, angles = driven(pendulum(tmp_path, inertia, weight, time_step, start, coulomb=gear, output=output), goal)
    error = np.degrees(angles - two_bodies(inertia, weight, goal, start, times, gear=gear, output=output))
    assert math.sqrt(np.mean(error**2)) <= allowed


def test_without_play_the_side_of_the_friction_makes_no_difference(tmp_path):
    kinds = ({"coulomb": 0.03}, {"output": 0.03}, {}, {"output": 0.0})
    gear, output, none, zero = (
        driven(pendulum(tmp_path, 7.2e-4, 0.081, 1e-3, 0.3, play=0.0, **kind), 1.5)[1] for kind in kinds
    )
    assert np.abs(gear - output).max() < 1e-9
    assert (none == zero).all()
    assert np.degrees(np.abs(gear - none)).max() > 0.1


@pytest.mark.parametrize(("inertia", "push"), [(1e-4, 2e-4), (1e-3, 2e-3)])
def test_a_joint_whose_gear_is_held_moves_only_by_the_play(tmp_path, inertia, push):
    bank = pendulum(tmp_path, inertia, 1e-9, 1e-3, gravity=(0.0, 0.0, 0.0), coulomb=0.1)
    world, ends = bank.engine, []
    for torque in (push, -push, push):  # far less than the gear's friction
        for _ in range(400):
            pybullet.applyExternalTorque(
                world.body, 0, [0, -torque, 0], pybullet.LINK_FRAME, physicsClientId=world.client
            )
            bank.advance(bank.time + 1.001e-3)
        ends.append(bank.positions[0])
    bank.close()
    assert abs(np.diff(ends)) == pytest.approx(PLAY, rel=0.02)


@pytest.mark.parametrize("time_step", [1 / 240, 1e-3])
def test_a_chain_of_light_links_stays_stable(tmp_path, time_step):
    bank = bank_on(BulletEngine(Scene(write_chain(tmp_path / "chain.urdf"), time_step=time_step)))
    for index, goal in enumerate(GOALS):
        order(bank, goal, index)
    assert np.abs(watched(bank, 1.5)[2]).max() < 2 * SUPPLY / K
    assert np.degrees(np.abs(bank.positions - GOALS)).max() < 1.5  # the play, and the deflection by the weight
    bank.close()
