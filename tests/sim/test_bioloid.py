import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pybullet
import pytest

from axbridge.config.rig import Rig
from tests.support.humanoid import FAST, NO_LOAD, Humanoid

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def robot():
    robot = Humanoid()
    yield robot
    robot.close()


def test_mass_height_and_balance_are_those_of_the_real_robot(robot):
    boxes = [pybullet.getAABB(robot.world.body, link, **robot.on) for link in range(-1, robot.links())]
    centre, mass = robot.centre_of_mass()
    assert mass == pytest.approx(2.0, abs=0.02)
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
    robot.close()


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
