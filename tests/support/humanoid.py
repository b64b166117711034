"""A Bioloid in its world: commanded, pushed, dropped and watched."""

import math
from dataclasses import dataclass

import numpy as np
import pybullet

from axbridge.config.rig import Rig
from axbridge.virtual.assembly import build_bank
from tests.support.one_joint import command, factory

WEIGHT = 2.0 * 9.81  # N
NO_LOAD = 11.1 / (0.006810 * 254)  # rad/s, on the rig's supply
FAST = 2.5  # times the no-load speed
BRAKING = 0.1  # s: from four times that speed a rotor and its leg (0.013 kg·m²) need it by the torque of 1.5 A, 1.5 N·m


@dataclass
class Fall:
    """What was seen of a fall."""

    rest: float  # when no joint was above 0.5 rad/s any more, nor the base above 5 cm/s and 0.5 rad/s, s; inf = never
    fastest: float  # joint, rad/s
    # above `FAST` times the no-load speed, later than `BRAKING` after a link touched down or bore twice the weight
    fast_alone: float
    past_stop: float  # furthest past a hard stop, deg


class Humanoid:
    """The bioloid rig, driven below the registers."""

    def __init__(self, model=None):
        rig = Rig.load("bioloid").with_model(model)
        self.servos = rig.servos
        self.bank = build_bank(rig)
        self.world = self.bank.engine
        self.on = {"physicsClientId": self.world.client}
        self.factory = factory(rig.specs[rig.servos[0].name].profile)

    def pose(self, angles=None):
        """Send every servo to an angle (rad, joint side; default: the rig's standing pose)."""
        for index, servo in enumerate(self.servos):
            goal = servo.direction * (servo.position if angles is None else angles[index])
            command(self.bank, index, GOAL=goal, **self.factory)

    def step(self):
        """One physics step."""
        self.bank.advance(self.bank.time + 1.0001 * self.world.physics_step)

    def watch(self, seconds):
        """Highest joint speed, rad/s, and largest travel of a joint, deg, of the next seconds."""
        fastest, end = 0.0, self.bank.time + seconds
        low = high = self.world.state()[0]
        while self.bank.time < end:
            self.step()
            positions, speeds = self.world.state()
            fastest = max(fastest, float(np.abs(speeds).max()))
            low, high = np.minimum(low, positions), np.maximum(high, positions)
        return fastest, float(np.degrees(high - low).max())

    def push(self, impulse):
        """Push the torso for one physics step, N·s."""
        force = (np.array(impulse) / self.world.physics_step).tolist()
        pybullet.applyExternalForce(self.world.body, -1, force, self.world.base()[0], pybullet.WORLD_FRAME, **self.on)

    def tilt(self):
        """Roll and pitch of the torso, deg."""
        return np.degrees(pybullet.getEulerFromQuaternion(self.world.base()[1]))[:2]

    def drop(self, seed):
        """Let it fall from a random attitude into a random pose, its lowest point 0.2 m above the floor, for 5 s."""
        random = np.random.default_rng(seed)
        attitude = random.normal(size=4)
        attitude = tuple(attitude / np.linalg.norm(attitude))
        angles = [random.uniform(*servo.soft_limits) for servo in self.servos]
        self.world.place_base(((0, 0, 1), attitude))
        lowest = min(pybullet.getAABB(self.world.body, i, **self.on)[0][2] for i in range(-1, self.links()))
        self.world.place_base(((0, 0, 1 - lowest + 0.2), attitude))
        self.pose(angles)
        low, high = np.array(self.world.limits).T
        seen, touching, impact = Fall(math.inf, 0.0, 0.0, 0.0), set(), -1.0
        while self.bank.time < 5.0:
            self.step()
            positions, speeds = self.world.state()
            pressed = [(c[3], c[9]) for c in pybullet.getContactPoints(self.world.body, **self.on) if c[9] > 0]
            now = {link for link, _ in pressed}
            if now - touching or any(force > 2 * WEIGHT for _, force in pressed):
                impact = self.bank.time
            touching = now
            fastest = float(np.abs(speeds).max())
            seen.fastest = max(seen.fastest, fastest)
            if fastest > FAST * NO_LOAD and self.bank.time - impact > BRAKING:
                seen.fast_alone = max(seen.fast_alone, fastest)
            seen.past_stop = max(seen.past_stop, float(np.degrees(np.maximum(low - positions, positions - high)).max()))
            linear, angular = (np.linalg.norm(v) for v in pybullet.getBaseVelocity(self.world.body, **self.on))
            if fastest > 0.5 or linear > 0.05 or angular > 0.5:
                seen.rest = math.inf
            elif math.isinf(seen.rest):
                seen.rest = self.bank.time
        return seen

    def links(self):
        """Number of links without the base."""
        return pybullet.getNumJoints(self.world.body, **self.on)

    def centre_of_mass(self):
        """Of the whole robot, (3,), m, and its mass, kg."""
        total, moment = 0.0, np.zeros(3)
        for link in range(-1, self.links()):
            mass = pybullet.getDynamicsInfo(self.world.body, link, **self.on)[0]
            if link < 0:
                place = self.world.base()[0]
            else:
                place = pybullet.getLinkState(self.world.body, link, computeForwardKinematics=1, **self.on)[0]
            total += mass
            moment += mass * np.array(place)
        return moment / total, total

    def close(self):
        self.bank.close()
