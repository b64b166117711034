import math
from functools import partial

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from axbridge.cli.app import run
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.errors import RigError, UsageError
from axbridge.servo.columns import Mode
from axbridge.sim.engine import Scene
from axbridge.sim.engines.bullet.engine import BulletEngine
from tests.support.one_joint import BV, K, R, command, order, servo_bank, watched, write_pendulum
from tests.support.robot_files import write_comb

pytestmark = pytest.mark.slow

PROFILE = FirmwareProfile.load("ax-12a")
SUPPLY = 9.6
LENGTH, LEVER = 0.06, 0.03  # m, of each link of the chain: from joint to joint, from joint to centre of mass
MASSES, INERTIAS = (0.06, 0.05, 0.02), (5e-5, 3e-5, 1e-5)  # kg, kg·m²
GOALS = np.array([0.8, -0.6, 0.5])  # rad


@pytest.mark.parametrize("count", [127, 128])  # servos; the robot has one link more
def test_a_robot_with_too_many_links_is_refused_by_check_and_open_alike(count, tmp_path, capsys):
    rig = write_comb(tmp_path, count)
    scene = Scene.of(Rig.load(rig), [])
    if count < 128:
        assert run(["rig", "check", str(rig)]) == 0
        BulletEngine(scene).close()
        return
    words = f"it has {count + 1} links, and PyBullet takes 128 at most"
    with pytest.raises(RigError, match=words):
        BulletEngine(scene)
    assert run(["rig", "check", str(rig)]) != 0
    message = capsys.readouterr().err
    assert (words in message, 'write engine = "mujoco" below [world]' in message) == (True, True)
    rig.write_text(rig.read_text().replace("[world]", '[world]\nengine = "mujoco"'))
    assert run(["rig", "check", str(rig)]) == 0


def write_chain(path):
    """Write the URDF of three light links, one below the other."""
    links = '<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'
    joints, parent, drop = "", "base", 0.0
    for index, (mass, inertia) in enumerate(zip(MASSES, INERTIAS, strict=True)):
        links += f'<link name="l{index}"><inertial><origin xyz="0 0 {-LEVER}"/><mass value="{mass}"/>'
        links += f'<inertia ixx="{inertia}" iyy="{inertia}" izz="{inertia}"/></inertial></link>'
        joints += f'<joint name="j{index}" type="continuous"><parent link="{parent}"/><child link="l{index}"/>'
        joints += f'<origin xyz="0 0 {-drop}"/><axis xyz="0 -1 0"/></joint>'
        parent, drop = f"l{index}", LENGTH
    path.write_text(f"<robot name='chain'>{links}{joints}</robot>")
    return path


def chain_equations(angles, speeds):
    """Return mass matrix and load of the planar chain, from its kinetic and potential energy."""
    total, rate = np.cumsum(angles), np.cumsum(speeds)
    matrix, bias = np.zeros((3, 3)), np.zeros(3)
    for body, (mass, inertia) in enumerate(zip(MASSES, INERTIAS, strict=True)):
        jacobian, curved = np.zeros((2, 3)), np.zeros(2)
        for link, arm in enumerate([LENGTH] * body + [LEVER]):
            along = arm * np.array([math.cos(total[link]), math.sin(total[link])])
            jacobian[:, : link + 1] += along[:, None]
            curved += arm * rate[link] ** 2 * np.array([-math.sin(total[link]), math.cos(total[link])])
        turning = np.array([1.0] * (body + 1) + [0.0] * (2 - body))
        matrix += mass * jacobian.T @ jacobian + inertia * np.outer(turning, turning)
        bias += mass * jacobian.T @ (curved + np.array([0, 9.81]))
    return matrix, bias


def truth(armature, times):
    """Return the angles of the chain, rad, whose servos go to `GOALS`."""

    def rates(_, y):
        angles, speeds, currents = y[:3], y[3:6], y[6:]
        volts = np.clip(30 * (GOALS - angles) + 1.2 * speeds, -SUPPLY, SUPPLY)
        matrix, bias = chain_equations(angles, speeds)
        friction = 1.71e-5 * np.tanh(speeds / 1e-3) + BV * speeds
        accelerations = np.linalg.solve(matrix + armature * np.eye(3), K * currents - friction - bias)
        return np.concatenate((speeds, accelerations, (volts - K * speeds - R * currents) / 5e-3))

    return solve_ivp(rates, (0, times[-1]), np.zeros(9), "LSODA", times, rtol=1e-7, atol=1e-9).y[:3]


def chain(tmp_path, armature=0.0, time_step=1 / 240):
    """Return the bank of three servos on the chain."""
    model = ServoModel.load("lima2009", PROFILE, {"motor": {"armature": armature}})
    world = BulletEngine(Scene(write_chain(tmp_path / "chain.urdf"), time_step=time_step))
    return servo_bank(world, model, profile=PROFILE)


@pytest.mark.parametrize(("time_step", "allowed"), [(1 / 240, 0.3), pytest.param(1e-3, 0.1, marks=pytest.mark.ci)])
@pytest.mark.parametrize("armature", [0.0, 0.004])
def test_a_chain_of_light_links_moves_as_its_equations_of_motion(tmp_path, armature, time_step, allowed):
    bank = chain(tmp_path, armature, time_step)
    for index, goal in enumerate(GOALS):
        order(bank, goal, index)
    times, angles, _ = watched(bank, 1.0)
    bank.close()
    error = np.degrees(angles - truth(armature, times))
    assert np.sqrt(np.mean(error**2, axis=1)).max() <= allowed


def test_two_servos_on_a_joint_or_a_missing_joint_are_refused(tmp_path):
    bank = chain(tmp_path)
    model = ServoModel.load("lima2009", PROFILE)
    for joints in (["j0", "j0"], ["elbow"]):
        with pytest.raises(UsageError, match="not there, or has two servos"):
            servo_bank(bank.engine, model, *joints, profile=PROFILE)
    bank.close()


def bank_on(urdf, time_step=1e-3, model="ax12", supply=11.1, **scene):
    world = BulletEngine(Scene(urdf, time_step=time_step, **scene))
    return servo_bank(world, ServoModel.load(model, PROFILE), profile=PROFILE, supply=supply)


@pytest.mark.parametrize("time_step", [1 / 240, 1e-3])
@pytest.mark.parametrize("inertia", [1e-5, 5e-4, 5e-3, 2e-2])
def test_full_duty_holds_a_joint_on_its_stop_and_reversed_duty_moves_it_off_at_once(tmp_path, inertia, time_step):
    """The stop does not throw it back, and the stop's impulse does not act on the reversed motion."""
    urdf = write_pendulum(tmp_path / "arm.urdf", inertia, 1e-4)
    bank = bank_on(urdf, time_step, stops={"shaft": (-1.0, 1.0)})
    command(bank, MODE=Mode.WHEEL_DUTY, DUTY=1.0)
    _, (angles,), (speeds,) = watched(bank, 1.0)
    assert angles.max() < 1.0 + 1e-6
    assert speeds[np.argmax(angles > 0.99) :].min() > -1e-3
    assert abs(angles[-1] - 1.0) < 1e-6
    command(bank, MODE=Mode.WHEEL_DUTY, DUTY=-1.0)
    _, (back,), _ = watched(bank, 0.3)
    bank.close()
    free = bank_on(urdf, time_step, start={"shaft": 1.0})  # the same motion without a stop
    command(free, MODE=Mode.WHEEL_DUTY, DUTY=-1.0)
    _, (expected,), _ = watched(free, 0.3)
    free.close()
    assert back[-1] == pytest.approx(expected[-1], abs=0.01)


def test_the_strict_model_overshoots_and_falls_as_in_simtwo(tmp_path):
    strict = partial(
        bank_on, write_pendulum(tmp_path / "pendulum.urdf", 7.2e-4, 0.081), model="lima2009-strict", supply=9.6
    )
    bank = strict()
    command(bank, GOAL=math.pi / 2)
    _, (angles,), _ = watched(bank, 1.0)
    bank.close()
    assert math.degrees(angles.max()) - 90 == pytest.approx(3.8, abs=0.3)
    for start, expected in ((45, 0.30), (90, 0.40), (135, 0.55)):
        bank = strict(start={"shaft": math.radians(start)})
        command(bank, TORQUE=0)
        times, (angles,), _ = watched(bank, 0.8)
        bank.close()
        assert times[np.argmax(angles < math.radians(5))] == pytest.approx(expected, abs=0.02)
