"""A recorded walk simulated again: held up like the real one, with its goals and limits, and its whole story kept."""

from dataclasses import replace

import numpy as np
import pytest

from axbridge.comparison.footing import standing_robot
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.recording.provenance import rig_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rig():
    return Rig.load("bioloid").with_engine("mujoco")


@pytest.fixture(scope="module")
def again(walked, rig):
    return simulate(walked, rig, "ax12")


def test_it_gets_up_in_a_hand_and_walks_as_far(walked, again):
    assert again.cycles["base_z"][-5] > 0.25  # without the hand it lies on the floor by then
    way = [side.cycles["base_x"][-5] for side in (walked, again)]
    assert way[1] == pytest.approx(way[0], abs=0.03)


def test_what_the_servos_report_is_kept_beside_the_goals(walked, again):
    knee, real = again["left_knee"], walked["left_knee"]
    for column in ("command", "commanded", "load", "voltage", "torque", "power"):
        assert np.isfinite(getattr(knee, column)).mean() > 0.9, column
    part = next(part for part in walked.segments if part.name == "walk")
    walking = [track.between(part.start, part.end) for track in (real, knee)]
    behind = [np.nanmean(np.abs(track.command - track.position)) for track in walking]
    assert behind[1] == pytest.approx(behind[0], rel=0.15)
    assert again.metadata["gait"] == walked.metadata["gait"]


def test_a_robot_that_hung_limp_at_first_is_still_known_by_its_standing_pose(walked, rig):
    """Its soles were looked for in the first sample's pose, in which other parts may be the lowest."""
    limp = {name: replace(track, position=track.position.copy()) for name, track in walked.items()}
    for side in ("left", "right"):
        limp[f"{side}_knee"].position[0] = 2.4
    found = simulate(replace(walked, tracks=limp), rig, "ax12")
    stands = {servo.name: servo.position for servo in rig_of(found).servos}
    assert stands["left_knee"] == pytest.approx(1.277, abs=0.2)
    assert standing_robot(found) is not None
