"""A walk told by its joints' angles alone: which foot stands, where the body is, where the floor pushes."""

from dataclasses import replace

import numpy as np
import pytest

from axbridge.comparison.footing import footing, measured_zmp, standing_robot
from axbridge.recording.recording import Recording, Track

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def robot(walked):
    return standing_robot(walked)


@pytest.fixture(scope="module")
def stood(walked, robot):
    return footing(walked, robot, measured_zmp(walked, robot)[0])


def walking(recording):
    part = next(part for part in recording.segments if part.name == "walk")
    time = recording.cycles["time"]
    return (time > part.start) & (time < part.end)


def test_the_zero_moment_point_by_the_joints_is_within_a_centimetre_of_what_the_floor_pushed(walked, robot, stood):
    _, measured, planned = measured_zmp(walked, robot)
    during = walking(walked)
    error = np.sqrt(np.nanmean((stood.zmp - measured)[during] ** 2, axis=0))
    assert (error < 0.012).all()
    assert np.nanmax(np.abs(planned[during][:, 1])) < 0.05  # over the feet, which are 3.9 cm from the middle


def test_the_weight_goes_from_foot_to_foot_below_the_body_that_the_simulation_has(walked, robot, stood):
    during = walking(walked)
    assert stood.lifted[during].max() > 0.012
    assert stood.lifted[during].min() < -0.012
    high = stood.lifted > 0.01  # the left foot is up: the right one, at y < 0, carries
    assert (stood.zmp[high & during][:, 1] < 0).mean() > 0.95
    centre = stood.place[:, 2] + (stood.turn @ robot.tree.centre[0])[:, 2]
    assert np.abs(centre - walked.cycles["base_z"])[during].max() < 0.008  # m


def test_a_gap_in_the_samples_leaves_a_gap_and_no_leap(walked, robot):
    def holed(track):
        kept = ~((track.time > 3.0) & (track.time < 3.2))
        columns = {key: value[kept] for key, value in vars(track).items() if isinstance(value, np.ndarray)}
        return Track(name=track.name, **columns)

    torn = replace(walked, tracks={name: holed(track) for name, track in walked.items()})
    found = footing(torn, robot, np.arange(2.5, 3.7, 0.02))
    assert np.nanmax(np.abs(found.zmp)) < 0.2


def test_a_recording_of_no_robot_that_stands_has_none(tmp_path):
    track = Track.of("a", np.arange(3.0), position=np.zeros(3))
    assert standing_robot(Recording(tmp_path / "x.mcap", {"a": track})) is None
