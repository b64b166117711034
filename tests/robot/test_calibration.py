"""What a hand's movements say of a servo's place in a rig: arithmetic, without a bus."""

import pytest

from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.config.rig_check import positive_ways
from axbridge.errors import RigError, UsageError
from axbridge.robot.calibration import Mounting, changes, check_whole, moved_most

AX, MX = FirmwareProfile.load("ax-12a"), FirmwareProfile.load("mx-28")
BEFORE = {"servo 1": 2.6, "servo 2": 2.6, "servo 3": 1.0}
RIG = Rig.load("pan_tilt")
PAN, TILT = RIG.servos


def test_the_servo_that_moved_is_found_though_its_neighbour_gave_way_a_little():
    assert moved_most(BEFORE, {"servo 1": 2.7, "servo 2": 2.2, "servo 3": 1.0}) == ("servo 2", pytest.approx(-0.4))


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"servo 1": 2.7}, "no servo has moved"),
        ({"servo 1": 3.0, "servo 2": 2.3}, "servo 1 by .23°, servo 2 by -17°"),
        ({"servo 3": 5.1}, "servo 3 jumped from 57° to 292°"),
    ],
)
def test_what_is_not_clear_is_asked_again(now, said):
    with pytest.raises(UsageError, match=said):
        moved_most(BEFORE, BEFORE | now)


@pytest.mark.parametrize(
    ("servo", "found", "values", "noted"),
    [
        (PAN, (1, AX, 512, 1, (300, 700)), {"min_position": -1.085, "max_position": 0.962}, []),  # rounded inwards
        (
            TILT,
            (2, AX, 400, -1, (0, 700)),
            {"zero": 400, "direction": -1, "min_position": -1.535, "max_position": 1.6},
            ["beyond its stop at 1.6 rad", "end of its count"],
        ),
        (PAN, (1, MX, 2048, 1, None), {"profile": "mx-28", "zero": 2048}, ["pan is an mx-28"]),
    ],
)
def test_only_what_differs_changes_limits_end_at_the_stops_and_what_is_strange_is_told(servo, found, values, noted):
    changed, notes = changes(RIG, servo, Mounting("main", *found))
    assert changed == values
    assert len(notes) == len(noted)
    assert all(map(str.__contains__, notes, noted))


def test_two_servos_of_one_id_are_refused():
    with pytest.raises(RigError, match="would both be servo 2") as refused:
        check_whole(RIG, {"pan": Mounting("main", 2, AX, 512, 1, None)})
    assert "calibrate 'tilt', too" in refused.value.hint


def test_the_positive_way_is_told_as_one_sees_it():
    ways = positive_ways(RIG)
    assert ways["pan"] == "counter-clockwise, seen from above"
    assert ways["tilt"] in {f"counter-clockwise, seen from the {side}" for side in ("left", "right")}
