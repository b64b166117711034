"""Webots .motion files: what is read, and what is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axbridge import RecordingError
from axbridge.motion.files import parse_motion
from axbridge.motion.moves import tracks

WAVE = ["#WEBOTS_MOTION,V1.0,Shoulder,Elbow", "00:00:000,Rest,0,1", "00:00:100,Up,1,*", "00:00:200,Down,0,2"]


def test_positions_change_linearly_between_the_poses_that_mention_a_motor_and_stay_at_both_ends():
    page = parse_motion([*WAVE, "00:00:300,End,*,*"]).pages["1"]
    assert page.duration == pytest.approx(0.3)
    ways = tracks(page)
    for time, shoulder, elbow in ((0.05, 0.5, 1.25), (-1.0, 0.0, 1.0), (0.9, 0.0, 2.0)):
        assert (ways["Shoulder"].at(time), ways["Elbow"].at(time)) == pytest.approx((shoulder, elbow))
    late = tracks(parse_motion(["#WEBOTS_MOTION,V1.0,A,B", "00:01:000,P,*,3"]).pages["1"])
    assert {motor: way.at(0.0) for motor, way in late.items()} == {"B": 3}  # one that no pose mentions is left alone


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "no Webots motion"),
        (["#WEBOTS_MOTION,V9.0,A"], "no Webots motion"),
        (["#WEBOTS_MOTION,V1.0,A"], "has no poses"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:000,P,1,2"], "line 2: 2 positions for 1 motors"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:000,P,x"], "line 2: could not convert"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:000,P,nan"], "line 2: positions must be between -10000 and 10000"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:000,P,1e308"], "line 2: positions must be between -10000 and 10000"),
        (["#WEBOTS_MOTION,V1.0,A", "99999999:00:000,P,1"], r"line 2: a motion of more than 1e\+06 s"),
        (["#WEBOTS_MOTION,V1.0,A", "9" * 400 + ":00:000,P,1"], r"line 2: a motion of more than 1e\+06 s"),
        (["#WEBOTS_MOTION,V1.0,A", "9" * 5000 + ":00:000,P,1"], "line 2: "),
        (["#WEBOTS_MOTION,V1.0,A\x1b[31m", "00:00:000,P,1"], "has control characters"),
        (["#WEBOTS_MOTION,V1.0,A", "0.5,P,1"], "line 2: time '0.5' is not mm:ss:ms"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:100,P,1", "00:00:100,Q,1"], "line 3: time 00:00:100 is not later"),
    ],
)
def test_mistakes_are_named_with_their_line(lines, said):
    with pytest.raises(RecordingError, match=said):
        parse_motion(lines, "wave.motion")


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(RecordingError):
        parse_motion(text.splitlines())
