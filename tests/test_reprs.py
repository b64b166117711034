"""What a thing says of itself at a prompt: what it is, in a line."""

from pathlib import Path

import numpy as np
import pytest

import axbridge
from axbridge.comparison.comparison import compare
from axbridge.motion.moves import Key, Page
from axbridge.recording.recording import Recording, Track


def recording(offset):
    time = np.arange(100) * 0.02
    track = Track.of("knee", time, position=np.sin(time) + offset, command=np.sin(time))
    return Recording(Path("somewhere/step.mcap"), {"knee": track}, complete=False)


def test_a_rig_a_recording_and_a_comparison_say_what_they_are_in_a_line():
    rig = axbridge.Rig.load("pan_tilt")
    assert repr(rig) == str(rig) == f"<Rig 'pan_tilt': 2 servos, from {rig.path}>"
    assert repr(recording(0.0)) == "<Recording 'step.mcap' of knee, cut off>"
    assert repr(recording(0.0)["knee"]) == "<Track 'knee': 100 samples, 0.00 to 1.98 s>"
    comparison = compare(recording(0.0), recording(0.01), labels=("arm", "model"))
    assert repr(comparison) == "<Comparison of arm with model, rms error: knee 0.57°>"
    assert repr(comparison.pairs[0]).startswith("<Pair 'knee': ")
    move = axbridge.Move(pages={"1": Page(keys=(Key(positions={"knee": 1.0}, time=1.5),))})
    assert repr(move) == "<Move of 1 pages, from '1': 1.50 s>"


@pytest.mark.slow
def test_a_robot_and_its_servos_say_what_they_are_in_a_line():
    with axbridge.open("bench_arm", backend="sim") as robot:
        assert repr(robot) == "<Robot 'bench_arm' on sim: 1 servo, 0.00 s after the start>"
        assert repr(robot["shoulder"]) == "<Servo 'shoulder' at 0.000 rad, limp>"
        assert repr(robot.simulation).endswith(", bolted down>")
    assert repr(robot).endswith(": 1 servo, closed>")
