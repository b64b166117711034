"""Ways to couple the servo's motor with PyBullet, measured against an independent integration. Prints JSON.

One joint: RMS error of a 90° step and of falls from 45 and 135°, worst of the three, deg, by physics step, armature and
link inertia; a motion that leaves 100 rad/s is called unstable. Standing: the Bioloid for 10 s, with parts of the
coupling left out. `--quick` leaves the Bioloid out.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np
import pybullet

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.sim.bank import BankServo, ServoBank
from axbridge.sim.engine import Scene
from axbridge.sim.engines.bullet.ahead import StepState
from axbridge.sim.engines.bullet.engine import BulletEngine
from tests.support.humanoid import Humanoid
from tests.support.one_joint import BV, FC, K_OMEGA, K_THETA, K, L, R, order, paper_servo, write_pendulum

SUPPLY, SECONDS = 9.6, 0.8
MOTIONS = ((math.pi / 2, 0.0), (None, math.pi / 4), (None, 3 * math.pi / 4))
INERTIAS = (1e-5, 1e-4, 7.2e-4, 5e-3)
PROFILE = FirmwareProfile.load("ax-12a")
UNSTABLE = 100.0  # rad/s


def voltage(goal, angle, speed):
    return min(max(K_THETA * (goal - angle) - K_OMEGA * speed, -SUPPLY), SUPPLY)


def friction(speed):
    return FC * math.tanh(speed / 1e-3) + BV * speed


def explicit(_joint, goal, angle, speed, current, step):
    """Torque from the speed at the start of the physics step."""
    if goal is None:
        return -friction(speed), 0.0
    left = math.exp(-step * R / L)
    end = left * current + (1 - left) * (voltage(goal, angle, speed) - K * speed) / R
    return K * end - friction(speed), end


def substepped(joint, goal, angle, speed, current, step):
    """The same in substeps of at most 1 ms, with the link predicted explicitly; the mean torque is applied."""
    count = math.ceil(step / 1e-3 - 1e-9)
    total = 0.0
    for _ in range(count):
        torque, current = explicit(joint, goal, angle, speed, current, step / count)
        total += torque / count
        speed += step / count * (torque - joint.weight * math.sin(angle)) / joint.inertia
        angle += step / count * speed
        if not abs(speed) < 1e6:
            return math.nan, 0.0
    return total, current


def damped(joint, goal, angle, speed, _current, _step):
    """Torque at standstill; back-EMF and viscous friction are given to Bullet as the joint's damping."""
    if goal is None:
        joint.damping(BV)
        return 0.0, 0.0
    volts = voltage(goal, angle, speed)
    joint.damping(K * K / R + BV)
    return K * volts / R, volts / R


def velocity_motor(joint, goal, angle, speed, _current, _step):
    """Bullet's own motor: no-load speed of the voltage as its target, stall torque as its limit."""
    if goal is None:
        joint.motor(0.0, FC)
        joint.damping(BV)
        return 0.0, 0.0
    volts = voltage(goal, angle, speed)
    joint.motor(volts / K, abs(K * volts / R))
    return 0.0, 0.0


class BareJoint:
    """The pendulum in PyBullet; armature is added to the link, which is exact for one joint alone."""

    def __init__(self, folder, inertia, weight, step, start):
        self.inertia, self.weight = inertia, weight
        self.client = pybullet.connect(pybullet.DIRECT)
        self.on = {"physicsClientId": self.client}
        pybullet.setGravity(0, 0, -9.81, **self.on)
        pybullet.setPhysicsEngineParameter(fixedTimeStep=step, numSubSteps=0, **self.on)
        urdf = write_pendulum(Path(folder) / "p.urdf", inertia, weight)
        flags = pybullet.URDF_USE_INERTIA_FROM_FILE
        self.body = pybullet.loadURDF(str(urdf), useFixedBase=True, flags=flags, **self.on)
        self.kept = None
        self.damping(0.0, linearDamping=0, angularDamping=0, maxJointVelocity=1e6)
        self.motor(0.0, 0.0)
        pybullet.resetJointState(self.body, 0, start, **self.on)

    def damping(self, value, **more):
        if value != self.kept:
            self.kept = value
            pybullet.changeDynamics(self.body, 0, jointDamping=value, **more, **self.on)

    def motor(self, speed, force):
        mode = pybullet.VELOCITY_CONTROL
        pybullet.setJointMotorControl2(self.body, 0, mode, targetVelocity=speed, force=force, **self.on)

    def state(self):
        return pybullet.getJointState(self.body, 0, **self.on)[:2]

    def step(self, torque):
        pybullet.setJointMotorControl2(self.body, 0, pybullet.TORQUE_CONTROL, force=torque, **self.on)
        pybullet.stepSimulation(**self.on)

    def close(self):
        pybullet.disconnect(**self.on)


def bare(law, folder, inertia, armature, weight, step, goal, start):
    """Times and angles with one of the laws above."""
    joint = BareJoint(folder, inertia + armature, weight, step, start)
    times, angles, current = [0.0], [start], 0.0
    while times[-1] < SECONDS:
        angle, speed = joint.state()
        torque, current = law(joint, goal, angle, speed, current, step)
        if not (abs(torque) < 1e6 and abs(speed) < UNSTABLE):
            angles = None
            break
        joint.step(torque)
        times.append(times[-1] + step)
        angles.append(joint.state()[0])
    joint.close()
    return times, angles


def ours(folder, inertia, armature, weight, step, goal, start):
    """Times and angles of the coupling that is used."""
    model = ServoModel.load("lima2009", PROFILE, {"motor": {"armature": armature}})
    urdf = write_pendulum(Path(folder) / "p.urdf", inertia, weight)
    world = BulletEngine(Scene(urdf, time_step=step, start={"shaft": start}))
    bank = ServoBank(world, [BankServo("shaft", model, 1, PROFILE.units.position, 0)], [SUPPLY])
    order(bank, goal)
    times, angles = [0.0], [start]
    while bank.time < SECONDS:
        bank.advance(bank.time + 1.001 * step)
        times.append(bank.time)
        angles.append(bank.positions[0])
    bank.close()
    return times, angles


CANDIDATES = {
    "explicit_torque": lambda *case: bare(explicit, *case),
    "explicit_1ms_substeps": lambda *case: bare(substepped, *case),
    "bullet_joint_damping": lambda *case: bare(damped, *case),
    "bullet_velocity_motor": lambda *case: bare(velocity_motor, *case),
    "ours": ours,
}


def worst_rms(run, folder, inertia, armature, step):
    """deg, or "unstable"."""
    weight = 0.081 * min(1.0, inertia / 7.2e-4)
    worst = 0.0
    for goal, start in MOTIONS:
        times, angles = run(folder, inertia, armature, weight, step, goal, start)
        if angles is None:
            return "unstable"
        true_times, true, _ = paper_servo(
            inertia,
            weight,
            armature=armature,
            supply=SUPPLY,
            goal=goal,
            start=start,
            duration=SECONDS + 0.02,
            samples=900,
        )
        error = np.degrees(np.array(angles) - np.interp(times, true_times, true))
        worst = max(worst, float(np.sqrt(np.mean(error**2))))
    return float(f"{worst:.2g}")


def one_joint():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, run in CANDIDATES.items():
            found[name] = {
                f"{label}, armature {armature:g}": {
                    f"{inertia:g}": worst_rms(run, folder, inertia, armature, step) for inertia in INERTIAS
                }
                for label, step in (("1/240 s", 1 / 240), ("1 ms", 1e-3))
                for armature in (0.0, 0.004)
            }
    return found


def without_memory(world):
    """Let no momentum be owed from step to step."""
    begin = world._begin  # noqa: SLF001 - what is inside is what is measured here

    def forgetful():
        world._book[:, StepState.MOMENTUM_RESIDUAL] = 0.0  # noqa: SLF001
        begin()

    world._begin = forgetful  # noqa: SLF001


def without_floor(world):
    """Let the prediction know of no contact."""
    contacts = world._contacts  # noqa: SLF001 - likewise
    world._contacts = lambda: contacts()[:0]  # noqa: SLF001


def with_torque_alone(world):
    """Apply the torque predicted instead of asking for a speed."""
    step = world._step  # noqa: SLF001
    world._step = lambda speeds, given, _: step(speeds, given, [0.0] * len(given))  # noqa: SLF001


def standing(*changes, time_step=None, seconds=10.0):
    """Lean, deg; fastest joint, rad/s, and travel of a joint, deg, after 3 s; turn about the vertical, deg."""
    robot = Humanoid(model="lima2009", time_step=time_step)
    for change in changes:
        change(robot.world)
    robot.pose()
    robot.watch(3.0)
    fastest, travel = robot.watch(seconds - 3.0)
    attitude = np.degrees(pybullet.getEulerFromQuaternion(robot.world.base()[1]))
    robot.close()
    return {
        "lean_deg": round(float(attitude[1]), 2),
        "fastest_rad_s": round(fastest, 2),
        "travel_deg": round(travel, 2),
        "turned_deg": round(float(attitude[2]), 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    document = {"one_joint_worst_rms_deg": one_joint()}
    if not parser.parse_args().quick:
        document["bioloid_standing"] = {
            "1 torque": standing(without_floor, without_memory, with_torque_alone),
            "1 torque at 1/4000 s, 4 s": standing(
                without_floor, without_memory, with_torque_alone, time_step=1 / 4000, seconds=4.0
            ),
            "1-2 speed": standing(without_floor, without_memory),
            "1-3 momentum": standing(without_floor),
            "1-4 floor": standing(),
        }
    print(json.dumps(document, indent=2))


main()
