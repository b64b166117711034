"""Teaching by hand on a served bus: the hand's motion becomes a move; other joints do not drop."""

import math

import numpy as np
import pytest

import axbridge
from axbridge import UnknownServo, UsageError
from axbridge.motion.player import play
from axbridge.motion.teaching import Capture, move_of, soft, teach
from tests.support.hand import BACK, HIGH, LEFT, UP, lead, led
from tests.support.waiting import run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hand():
    with led("pan_tilt") as port_and_tell:
        yield port_and_tell


@pytest.fixture
def robot(hand):
    with axbridge.open("pan_tilt", backend="real", port=hand[0]) as robot:
        yield robot


def test_the_taught_move_is_the_motion_of_the_hand(hand, robot):
    tell = hand[1]
    robot["tilt"].goto(0.3, 0.4)
    start = robot["pan"].position
    with soft(robot, ["pan"]) as names:
        assert names == ("pan",)
        robot.step()
        tell()
        capture = Capture(robot, names)
        capture.run(lambda passed: passed > 2.8)
        assert robot["tilt"].position == pytest.approx(0.3, abs=0.02)
    taught = capture.taught()
    page = taught.move.pages["1"]
    assert page.joints == ("pan",)
    assert page.duration == pytest.approx(UP + BACK, abs=0.35)
    assert taught.trimmed > 0.3
    pan = np.array([key.positions["pan"] for key in page.keys]) - start
    clock = np.arange(len(pan)) * 0.02
    delays = np.arange(-0.2, 0.4, 0.01)
    off = [np.abs(pan - [lead(time - delay) for time in clock]).max() for delay in delays]
    assert min(off) < 0.02  # rad, of 0.8: the hand's motion
    assert pan[-1] == pytest.approx(LEFT, abs=0.01)
    assert pan.max() == pytest.approx(HIGH, abs=0.02)
    assert 0 < taught.smoothed_rms < taught.smoothed < math.radians(2)
    assert taught.clipped == {}
    assert robot["pan"].torque_enabled  # the joint holds the hand's last position
    assert robot["pan"].target_position == pytest.approx(start + LEFT, abs=0.02)
    played = play(robot, taught.move)
    assert played.start_error < math.radians(2)
    assert robot["pan"].position == pytest.approx(start + LEFT, abs=0.03)


def test_teaching_without_motion_is_refused(robot):
    with pytest.raises(UsageError, match="nothing moved"):
        teach(robot, 0.3, ["tilt"])
    with pytest.raises(UnknownServo, match="tail"):
        teach(robot, 0.3, ["tail"])
    for wrong, words in ((2.0, "a stiffness of 2"), ("soft", "a stiffness must be a number")):
        with pytest.raises(UsageError, match=words):
            teach(robot, 0.3, stiffness=wrong)
    for wrong, words in ((math.nan, "nothing was recorded"), ("3", "a time must be a number")):
        with pytest.raises(UsageError, match=words):
            teach(robot, wrong, ["tilt"])


@pytest.mark.filterwarnings(
    "ignore:servo 'shoulder' has no torque:axbridge.errors.ControlWarning"
)  # overloaded at 2 % torque
def test_a_limp_arm_falls_and_a_stiff_one_holds_or_yields():
    far = {}
    for stiffness in (0.0, 0.02, 0.3):
        with axbridge.open("bench_arm") as robot:
            assert robot["shoulder"].goto(1.2, 1.0)
            with soft(robot, stiffness=stiffness):
                run(robot, 2.0)
            far[stiffness] = abs(robot["shoulder"].position - 1.2)
            assert robot["shoulder"].available_torque == robot["shoulder"].max_torque
    assert far[0.0] > 1.0
    assert far[0.02] > 0.5  # the joint yields to more than its share of the torque
    assert far[0.3] < 0.15


def test_stop_ends_teaching_and_keeps_the_move():
    with axbridge.open("bench_arm") as robot:
        robot["shoulder"].goto(1.2, 1.0)
        robot.observe(lambda *_: robot.time == pytest.approx(1.5) and robot["shoulder"].torque_off())
        robot.observe(lambda *_: robot.time > 2.5 and robot.stop())
        assert teach(robot, 9.0, stiffness=0.3).move.duration > 0.3  # its fall


def test_smoothing_removes_count_steps_and_keeps_the_ends(robot):
    count = math.radians(300 / 1023)
    clock = np.arange(0.0, 2.0, 0.02)
    true = 0.3 * np.sin(2 * clock)
    pan = list(zip(clock.tolist(), (np.round(true / count) * count).tolist(), strict=True))
    answered = [time for time in clock if not 0.5 < time < 0.6]  # some replies are missing
    tilt = [(time + 0.007, 0.3 * math.sin(2 * time + 0.014)) for time in answered]
    taught = move_of(robot, {"pan": pan, "tilt": tilt})
    keys = taught.move.pages["1"].keys
    rough, even = (
        np.abs(np.diff(angles, n=2)).max()
        for angles in ([angle for _, angle in pan], [k.positions["pan"] for k in keys])
    )
    assert even < 0.3 * rough
    assert 0.0005 < taught.smoothed < 0.02
    # samples on a common clock
    assert max(abs(key.positions["pan"] - key.positions["tilt"]) for key in keys[5:-5]) < count
    assert keys[0].positions["pan"] == pytest.approx(0.0, abs=count)


def test_angles_beyond_a_limit_are_clipped_and_reported(robot):
    clock = np.arange(0.0, 2.0, 0.02)
    taken = {"pan": [(time, 0.0) for time in clock], "tilt": [(time, 1.4 * math.sin(time)) for time in clock]}
    taught = move_of(robot, taken)
    assert max(key.positions["tilt"] for key in taught.move.pages["1"].keys) == 1.2
    assert taught.clipped == {"tilt": pytest.approx(0.2, abs=0.02)}
