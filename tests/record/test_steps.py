"""A robot's steps in a recording, made by whoever drives it."""

import numpy as np
import pytest

import axbridge
from axbridge.record.recorder import Recorder
from axbridge.record.recording import open_recording
from axbridge.record.steps import record_steps


def test_a_sample_has_the_target_that_acts_from_it_on(tmp_path):
    path = tmp_path / "steps.mcap"
    with axbridge.open("pan_tilt") as robot, Recorder(path, {}) as recorder:
        end = record_steps(robot, recorder)
        for target in (0.1, 0.1, 0.4, 0.4, 0.4):
            robot["pan"].set_position(target)
            robot.step()
        end()
        end()
        robot.step()
    track = open_recording(path)["pan"]
    assert len(track) == 5
    assert track.command == pytest.approx([0.1, 0.4, 0.4, 0.4, 0.4])
    assert np.diff(track.time) == pytest.approx(0.02, abs=0.001)
    assert track.torque_enabled.all()
    cycles = open_recording(path).cycles
    assert cycles["requested_ms"].tolist() == [20.0] * 5
