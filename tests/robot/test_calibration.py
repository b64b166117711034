"""Calibration by hand: the rig entry from a hand's motion, and the small motion that identifies a servo."""

import math
import re
from itertools import pairwise

import pytest

import axbridge
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.errors import BusTimeout, RigError, UsageError
from axbridge.robot import calibration
from axbridge.robot.calibration import NUDGE, TORQUE, Mounting, blinking, changes, check_whole, moved_most, nudge
from axbridge.robot.rig_check import positive_directions
from tests.support.waiting import run

AX, MX = FirmwareProfile.load("ax-12a"), FirmwareProfile.load("mx-28")
BEFORE = {"servo 1": 2.6, "servo 2": 2.6, "servo 3": 1.0}
RIG = Rig.load("pan_tilt")
PAN, TILT = RIG.servos
REGISTERS = ("torque_enable", "torque_limit", "moving_speed", "led", "cw_angle_limit", "ccw_angle_limit")


def test_the_servo_that_moved_most_is_selected():
    assert moved_most(BEFORE, {"servo 1": 2.7, "servo 2": 2.2, "servo 3": 1.0}) == ("servo 2", pytest.approx(-0.4))


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ({"servo 1": 2.7}, "no servo has moved"),
        ({"servo 1": 3.0, "servo 2": 2.3}, "servo 1 by .23°, servo 2 by -17°"),
        ({"servo 3": 5.1}, "servo 3 jumped from 57° to 292°"),
    ],
)
def test_an_ambiguous_motion_is_refused(now, message):
    with pytest.raises(UsageError, match=message):
        moved_most(BEFORE, BEFORE | now)


TILTED = {"zero": 400, "direction": -1}
MX_28 = {"profile": "mx-28", "zero": 2048}
JUMPED = "pan jumped by more than half a turn: .*its limits stay"
A_TURN = "pan has a range of 358°, almost a turn: it may have been led across the end"


@pytest.mark.parametrize(
    ("servo", "mounting", "values", "limits", "noted"),
    [
        (PAN, (1, AX, 512, 1, (300, 700)), {}, (-1.085, 0.962), ""),  # rounded inwards
        (TILT, (2, AX, 400, -1, (0, 700)), TILTED, (-1.535, 1.6), "stop at 1.6; end of its count"),
        (PAN, (1, MX, 2048, 1, None), MX_28, (), "pan is an mx-28"),
        (PAN, (1, MX, 2048, 1, (10, 4080)), MX_28, (-2.617, 2.617), f"mx-28; stop; stop; {A_TURN}"),
        (PAN, (1, MX, 2048, 1, (500, 3500), {}, True), MX_28, (), f"an mx-28; {JUMPED}"),
    ],
)  # fmt: skip
def test_only_different_values_change_limits_end_at_the_stops_and_doubts_are_noted(
    servo, mounting, values, limits, noted
):
    changed, notes = changes(RIG, servo, Mounting("main", *mounting))
    assert changed == values | dict(zip(("min_position", "max_position"), limits, strict=False))
    expected = noted.split("; ") if noted else []
    assert all(re.search(what, note) for note, what in zip(notes, expected, strict=True))


def test_two_servos_of_one_id_are_refused():
    with pytest.raises(RigError, match="would both be servo 2.*\n.*calibrate 'tilt', too"):
        check_whole(RIG, {"pan": Mounting("main", 2, AX, 512, 1, None)})


def test_the_positive_direction_is_described_as_seen():
    directions = positive_directions(RIG)
    assert directions["pan"] == "counter-clockwise, seen from above"
    assert directions["tilt"] in {f"counter-clockwise, seen from the {side}" for side in ("left", "right")}


@pytest.fixture
def robot():
    with axbridge.open("pan_tilt") as robot:
        robot.step(20)
        yield robot


def opened(**pan):
    return axbridge.open(RIG.with_servos(lambda servo: pan if servo.name == "pan" else {}))


def held(robot):
    return {register: robot["pan"].read(register) for register in REGISTERS}


def test_an_led_that_was_on_blinks_and_is_on_afterwards(robot):
    robot["pan"].write("led", 1)
    with blinking(robot, "pan") as blink:
        seen = run(robot, 2.0, lambda: blink() or robot["pan"].read("led"))
    assert sum(state != other for state, other in pairwise(seen)) in {4, 5}  # every 0.4 s in 2 s
    assert robot["pan"].read("led") == 1


def test_a_nudge_moves_a_servo_and_back_with_little_torque_and_restores_its_registers(robot):
    robot["pan"].write("moving_speed", 77)
    before, seen, torques, others = held(robot), [], set(), set()

    def look():
        seen.append(robot["pan"].truth.position)
        torques.add(robot["pan"].read("torque_limit"))
        others.add(robot["tilt"].read("torque_enable"))

    assert nudge(robot, "pan", look) == pytest.approx(NUDGE, rel=0.3)
    assert max(seen) == pytest.approx(NUDGE, rel=0.3)
    assert min(seen) > -NUDGE / 10
    assert max(abs(b - a) for a, b in pairwise(seen)) < math.radians(1)  # in 20 ms
    assert (torques, others) == ({round(TORQUE * 1023)}, {0})
    assert (held(robot), robot["pan"].torque_enabled) == (before, False)
    robot["pan"].set_position(0.3)  # with all its torque again
    robot.step(20)
    assert robot["pan"].read("torque_limit") == 1023


def test_limits_of_an_x_servo_that_counts_turns_do_not_restrict_the_rigs_range():
    registers, limits = {"operating_mode": 4, "shutdown": 52}, {"min_position": -9, "max_position": 9}
    rig = Rig.load("xl330_pendulum").with_servos(lambda _: {"registers": registers, **limits})
    with axbridge.open(rig) as robot:
        assert calibration.reach_of(robot[0]) == (-9, 9)


@pytest.mark.parametrize(
    "limits", [{"min_position": -0.5, "max_position": 0.5}, {"registers": {"ccw_angle_limit": 600}}]
)
def test_a_servo_near_the_end_of_its_range_is_left_alone(limits):
    with opened(position=0.45, **limits) as robot:
        robot.step(20)
        before = held(robot)
        with pytest.raises(UsageError, match="stands at 26°, near the end of its range, -.* to (29|26)°"):
            nudge(robot, "pan")
        assert held(robot) == before


def test_a_wheel_and_a_servo_that_shut_itself_down_are_left_alone(robot):
    robot["pan"].write("cw_angle_limit", 0)
    robot["pan"].write("ccw_angle_limit", 0)
    with pytest.raises(UsageError, match="pan is set up as a wheel"):
        nudge(robot, "pan")
    assert robot["pan"].read("torque_enable") == 0
    robot["pan"].write("ccw_angle_limit", 1023)
    robot["pan"].write("torque_limit", 0)
    with pytest.raises(UsageError, match="has shut itself down.*\n.*axbridge servo write 1 torque_limit 1023"):
        nudge(robot, "pan")


def test_a_servo_that_stops_replying_during_a_nudge_is_not_reported_limp(robot):
    robot.simulation.inject("dead:1@0.5s")
    with pytest.raises(BusTimeout, match="servo 1 did not answer"):
        nudge(robot, "pan")
