"""The zero-moment point of a simulated robot, and its margin to the soles' edges."""

import numpy as np
import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.motion.gait import Gait, Walk
from axbridge.motion.walking import Soles
from axbridge.robot.simulation import hold_up
from axbridge.sim.body.soles import inside

SQUARE = np.array([(0, 0), (0.1, 0), (0.1, 0.06), (0, 0.06)])


@pytest.mark.parametrize(("point", "margin"), [((0.05, 0.03), 0.03), ((0.01, 0.03), 0.01), ((0.05, 0.08), -0.02)])
def test_the_margin_is_the_way_to_the_nearest_edge(point, margin):
    assert inside(point, SQUARE) == pytest.approx(margin, abs=1e-6)


def test_a_sole_on_its_edge_leaves_no_margin():
    assert inside((0.05, 0.0), SQUARE * (1, 0)) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["bullet", "mujoco"])
def test_the_push_acts_between_the_soles_of_a_robot_that_stands(engine):
    rig = Rig.load("bioloid").overridden({"world": {"engine": engine}})
    with axbridge.open(rig) as robot:
        soles = Soles(robot.simulation)
        for servo in robot.values():
            servo.torque_on()
            servo.set_position(servo.config.position)
        for tick in range(50):
            hold_up(robot.simulation, min(1.0, tick / 25))
            robot.step(20)
        for _ in range(25):
            robot.step(20)
        support = soles.support()
        feet = [robot.simulation.engine.motion(link).place for link in soles.links.values()]
        assert feet[1][1] < support.zmp[1] < feet[0][1]
        assert 0.01 < support.margin < 0.051  # at most half a sole's length
        assert abs(soles.planned(Walk.of(rig, Gait(steps=1)), 0.0)[1] - (feet[0][1] + feet[1][1]) / 2) < 2e-3
        (x, y, z), upright = robot.simulation.base
        robot.simulation.place_base(((x, y, z + 0.1), upright))
        robot.step(20)
        assert soles.support() is None
