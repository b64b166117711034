"""What a walk gets from an IMU: hips against a lean, and steps that turn back to the planned line."""

import math
from dataclasses import replace

import pytest

from axbridge.config.rig import Rig
from axbridge.motion.gait import Gait, Walk
from axbridge.motion.walking import Steering

BIOLOID = Rig.load("bioloid")
TICK = 0.05  # s
ZERO = 2.0  # rad: what the IMU calls ahead at the start


def steered(gait, slip):
    """Where a walk ends whose every step slips by `slip` rad to the left: off its line, m, and its heading, rad.

    The torso is turned as the mean of both feet; the standing one does not turn.

    Returns:
        And the turn of one foot to the other, rad.
    """
    walk = Walk.of(BIOLOID, gait)
    steering = Steering(walk)
    error, aside, apart, before, number = 0.0, 0.0, 0.0, walk.middle(0.0), 0
    for tick in range(math.ceil(gait.duration / TICK)):
        time = tick * TICK
        planned = walk.middle(time)
        turns = steering.turns(time, ZERO + error + planned.turn)
        now = turns["left_hip_twist"] - turns["right_hip_twist"]
        step, _ = walk.step_at(time)
        error += (now - apart) / 2 * (1 if walk.steps[step].side == "left" else -1)
        error += slip * (step - number)
        aside += math.copysign(math.hypot(planned.x - before.x, planned.y - before.y), gait.step_length) * error
        apart, number, before = now, step, planned
    return aside, error, apart


@pytest.mark.parametrize(
    ("gait", "slip"),
    [
        pytest.param(Gait(steps=40), 0.004, id="ahead", marks=pytest.mark.ci),
        pytest.param(Gait(steps=40), -0.004, id="ahead, to the right", marks=pytest.mark.ci),
        pytest.param(Gait(steps=40, step_length=-0.03), 0.004, id="back", marks=pytest.mark.ci),
        pytest.param(Gait(steps=40, step_length=0.02, turn=0.2), 0.004, id="round"),
    ],
)
@pytest.mark.slow
def test_steps_that_all_slip_one_way_lead_along_the_line_all_the_same(gait, slip):
    """Without steering they end 6 to 13 cm beside the line, and turned by 9 degrees."""
    alone, turned, _ = steered(gait, slip)
    aside, error, apart = steered(replace(gait, feedback=0.3), slip)
    assert abs(turned) > 0.1
    assert abs(error) < 0.2 * abs(turned)
    assert abs(alone) > 0.05
    assert abs(aside) < 0.3 * abs(alone)
    assert abs(apart) < 0.03  # both feet point ahead again


def test_a_walk_without_feedback_turns_no_step_and_one_that_is_right_neither():
    steering = Steering(Walk.of(BIOLOID, Gait(steps=2, feedback=0.3)))
    for tick in range(100):
        assert steering.turns(tick * 0.02, 1.0) == {"left_hip_twist": 0.0, "right_hip_twist": 0.0}
