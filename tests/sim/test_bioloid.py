"""A Bioloid in its world: commanded, pushed, dropped and watched."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pybullet
import pytest

from axbridge.config.rig import Rig
from axbridge.virtual.assembly import build_bank
from tests.support.one_joint import command, factory

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
WEIGHT = 2.0 * 9.81  # N
NO_LOAD = 11.1 / (0.006810 * 254)  # rad/s, on the rig's supply
FAST = 2.5  # times the no-load speed
BRAKING = 0.1  # s: from four times that speed a rotor and its leg (0.013 kg·m²) need it by the torque of 1.5 A, 1.5 N·m


@dataclass
class Fall:
    """What was seen of a fall."""

    rest: float  # when no joint was above 0.5 rad/s any more, nor the base above 5 cm/s and 0.5 rad/s, s; inf = never
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
        self.links = range(-1, pybullet.getNumJoints(self.world.body, **self.on))  # -1: the base
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
        lowest = min(pybullet.getAABB(self.world.body, i, **self.on)[0][2] for i in self.links)
        self.world.place_base(((0, 0, 1 - lowest + 0.2), attitude))
        self.pose(angles)
        low, high = np.array(self.world.limits).T
        seen, touching, impact = Fall(math.inf, 0.0, 0.0), set(), -1.0
        while self.bank.time < 5.0:
            self.step()
            positions, speeds = self.world.state()
            pressed = [(c[3], c[9]) for c in pybullet.getContactPoints(self.world.body, **self.on) if c[9] > 0]
            now = {link for link, _ in pressed}
            if now - touching or any(force > 2 * WEIGHT for _, force in pressed):
                impact = self.bank.time
            touching = now
            fastest = float(np.abs(speeds).max())
            if fastest > FAST * NO_LOAD and self.bank.time - impact > BRAKING:
                seen.fast_alone = max(seen.fast_alone, fastest)
            seen.past_stop = max(seen.past_stop, float(np.degrees(np.maximum(low - positions, positions - high)).max()))
            linear, angular = (np.linalg.norm(v) for v in pybullet.getBaseVelocity(self.world.body, **self.on))
            if fastest > 0.5 or linear > 0.05 or angular > 0.5:
                seen.rest = math.inf
            elif math.isinf(seen.rest):
                seen.rest = self.bank.time
        return seen

    def place(self, link):
        """The centre of mass of a link, m."""
        if link < 0:
            return self.world.base()[0]
        return pybullet.getLinkState(self.world.body, link, computeForwardKinematics=1, **self.on)[0]


@pytest.fixture
def robot():
    robot = Humanoid()
    yield robot
    robot.bank.close()


def test_mass_height_and_balance_are_those_of_the_real_robot(robot):
    boxes = [pybullet.getAABB(robot.world.body, link, **robot.on) for link in robot.links]
    masses = [pybullet.getDynamicsInfo(robot.world.body, link, **robot.on)[0] for link in robot.links]
    centre = np.average([robot.place(link) for link in robot.links], axis=0, weights=masses)
    assert sum(masses) == pytest.approx(2.0, abs=0.02)
    assert max(box[1][2] for box in boxes) == pytest.approx(0.36, abs=0.02)  # 0.38 with straight legs
    feet = [
        boxes[1 + robot.world.links[robot.world.joints.index(f"{side}_ankle_lateral")]] for side in ("left", "right")
    ]
    for low, high in feet:
        assert low[2] == pytest.approx(0.0, abs=1e-3)
        assert low[0] + 0.02 < centre[0] < high[0] - 0.02
    assert feet[1][0][1] < centre[1] < feet[0][1][1]


def parts(name):
    """Return links and joints of a rig's URDF, and its servos, by name."""
    folder = ROOT / "hil_rigs" / name
    document = ET.parse(folder / f"{name}.urdf").getroot()
    elements = {part.get("name"): ET.tostring(part).strip() for part in document if part.tag in {"link", "joint"}}
    rig = Rig.load(name)
    return elements, {servo.name: servo.model_dump() for servo in rig.servos}


def test_the_three_rigs_have_the_same_links_joints_and_servos():
    links, servos = parts("bioloid")
    with_head, servos_with_head = parts("bioloid_head")
    assert with_head.keys() ^ links.keys() == {"head", "neck"}
    assert servos_with_head.keys() - servos.keys() == {"head"}
    assert all(with_head[name] == text for name, text in links.items() if name != "neck")
    assert all(servos_with_head[name] == servo for name, servo in servos.items())
    leg, servos_of_leg = parts("leg")
    assert len(leg) == 13
    for name, text in leg.items():
        as_left = re.sub(rb'"((?:hip|knee|ankle)\w*)"', rb'"left_\1"', text)
        assert as_left == links[name if name == "torso" else f"left_{name}"]
    for name, servo in servos_of_leg.items():
        assert servo | {"name": f"left_{name}", "joint": f"left_{name}"} == servos[f"left_{name}"]


def test_a_standing_bioloid_is_as_low_and_as_tilted_as_its_servos_springs_allow():
    """The feet have 30 g, on light joints: residual forces of the contact solver must not shift them (a slip at 8 s)."""
    robot = Humanoid(model="lima2009")
    robot.pose()
    robot.watch(3.0)
    fastest, travel = robot.watch(7.0)
    assert fastest < 0.3
    assert travel < 0.8
    roll, pitch = robot.tilt()
    # Minimum of energy of six springs of Kθ·Ks·N/Ra = 6.49 N·m/rad in each leg and the robot's weight, with flat feet.
    assert pitch == pytest.approx(-3.32, abs=0.3)
    assert roll == pytest.approx(0.0, abs=0.3)
    assert robot.world.base()[0][2] == pytest.approx(0.2695, abs=5e-4)
    robot.bank.close()


@pytest.mark.parametrize("impulse", [(0.1, 0, 0), (-0.1, 0, 0), (0, 0.1, 0)])
def test_a_bioloid_stays_upright_after_a_push(robot, impulse):
    robot.pose()
    robot.watch(1.0)
    robot.push(impulse)
    robot.watch(2.0)
    assert np.abs(robot.tilt()).max() < 6
    assert robot.watch(0.5)[0] < 0.5


@pytest.mark.parametrize("seed", [0, 3, 7])
def test_falls_end_at_rest_within_the_stops(robot, seed):
    fall = robot.drop(seed)
    assert fall.rest < 5.0
    assert fall.past_stop < 2.0
    assert fall.fast_alone == 0.0, f"{FAST:g} times the no-load speed is {FAST * NO_LOAD:.1f} rad/s"
