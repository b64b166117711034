"""A jump of a servo's count, by a turn or by its Homing Offset, causes no motion."""

import math
from contextlib import contextmanager
from itertools import product

import pytest

import axbridge
from axbridge.errors import RigError, UsageError
from axbridge.view.actions import Actions
from tests.robot.test_unasked_motion import Bench, bench_rig, power_cycle, recover, shaft, stop_and_resume, torque_on
from tests.support.pairs import pairs
from tests.support.pty_line import PtyLine
from tests.support.waiting import run

EVENTS = torque_on, stop_and_resume, recover, power_cycle
pytestmark = pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
MOST = math.radians(5)
COUNT = math.tau / 4096
FAMILIES = "xl430-w250", "xl330-m288", "mx-28-2.0", "sts3215"
OFFSETS = 0, 500, -500, 1000, -1000, 1500, -1500
X = [family for family in FAMILIES if family != "sts3215"]
NO_SHUTDOWN = "sts3215", "mx-28-2.0"  # by an overload of a limp shaft
ROWS = [row for row in product(FAMILIES, OFFSETS, EVENTS) if row[0] not in NO_SHUTDOWN or row[2] is not recover]


def rig_of(family, offset=0, registers=None, **more):
    """One servo whose shaft is at its zero in the middle of the encoder's turn, whatever its offset."""
    registers = {"homing_offset": offset, **(registers or {})}
    if family == "xl330-m288":
        registers["position_p_gain"] = 900  # its loop has no integral, and the pendulum draws it down
    if abs(offset) > 1024 and family in X:
        registers = {**registers, "operating_mode": 4}
    more["damping_constant"] = 0.1  # so that a limp pendulum sinks slowly
    return bench_rig(family, registers=registers, **more)


def seams(family, offset):
    """Return the ends of the count as angles of the joint, rad."""
    ends = (0, 4096) if family == "sts3215" else (offset, offset + 4096)
    return [(count - 2048) * COUNT for count in ends]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "offset", "event"), pairs(ROWS))
def test_a_joint_stays_where_its_count_jumps(family, offset, event):
    moved = {}
    with axbridge.open(rig_of(family, offset)) as robot:
        servo = robot["horn"]
        places = [0.3, *(seam + side * math.radians(2) for seam in seams(family, offset) for side in (-1, 1))]
        for place in places:
            servo.torque_off()
            Bench(robot).lead(0.0)
            servo.set_position(0.2)
            run(robot, 0.3)
            event(Bench(robot), place)
            begun = shaft(robot)
            distances = run(robot, 0.4, lambda begun=begun: abs(shaft(robot) - begun))
            if robot.withheld:
                servo.recover()
                distances += run(robot, 0.4, lambda begun=begun: abs(shaft(robot) - begun))
            assert servo.torque_enabled
            assert math.remainder(servo.position - shaft(robot), math.tau) == pytest.approx(0.0, abs=0.01)
            moved[place] = max(distances)
    assert max(moved.values()) < MOST, {place: math.degrees(distance) for place, distance in moved.items()}


COMMANDS = {
    "a speed": lambda servo: (servo.set_position(math.inf), servo.set_velocity(0.3)),
    "a duty": lambda servo: servo.set_duty(0.0),
    "a torque": lambda servo: servo.set_torque(0.0),
    "a position": lambda servo: servo.set_position(0.2),
}


@pytest.mark.parametrize(("family", "offset"), [("sts3215", 1500), ("sts3215", -1500), ("xl330-m288", 1500)])
def test_a_change_of_mode_does_not_change_the_reported_position(family, offset):
    with axbridge.open(rig_of(family, offset)) as robot:
        servo, seen = robot["horn"], []
        for command in (*COMMANDS.values(), *reversed(COMMANDS.values())):
            command(servo)
            seen += run(robot, 0.2, lambda: abs(servo.position - shaft(robot)))
            assert abs(servo.state.position - shaft(robot)) < MOST
    assert max(seen) < MOST


def test_the_position_of_a_feetech_servo_left_in_an_endless_mode_is_correct():
    rig = rig_of("sts3215", 1500, min_position=-0.5, max_position=0.5)
    with PtyLine({1: "sts3215"}) as line:
        line.set(1, homing_offset=1500, operating_mode=1, present_position=2048 + 1500)
        with axbridge.open(rig, backend="real", port=line.port) as robot:
            servo = robot["horn"]
            seen = [servo.position]
            servo.set_position(servo.position)
            for _ in range(3):
                robot.step(20)
                seen.append(servo.position)
            assert line[1].table["operating_mode"] == 0
            assert seen == pytest.approx([seen[-1]] * 4, abs=0.002)
            assert line[1].table["goal_position"] == line[1].table["present_position"]


@contextmanager
def found_at(turns, mode=4, **more):
    """A real robot whose servo has counted `turns` under other programs."""
    rig = rig_of("xl330-m288", registers={"operating_mode": mode}, **more)
    with PtyLine({1: "xl330-m288"}) as line:
        line.set(1, operating_mode=mode, present_position=2048 + round(4096 * turns))
        with axbridge.open(rig, backend="real", port=line.port) as robot:
            yield robot, line[1].table


FIRST_GOALS = {
    "set_position": lambda robot: robot["horn"].set_position(0.0),
    "set_positions": lambda robot: robot.set_positions([0.0]),
    "goto": lambda robot: robot.goto({"horn": 0.0}, 0.1),
    "the page": lambda robot: next(Actions(robot).move_to({"horn": 0.0}, 0.1)),
}


@pytest.mark.parametrize("mode", [4, 5])
def test_a_first_goal_that_may_be_a_turn_away_is_refused_until_the_position_is_confirmed(mode):
    with found_at(1.5, mode) as (robot, table):
        servo = robot["horn"]
        words = r"found at 9.425 rad, and 0.000 is more .*no limits.*\n.*set_position\(servo.position\)"
        for give_goal in FIRST_GOALS.values():
            with pytest.raises(UsageError, match=words):
                give_goal(robot)
        assert table["torque_enable"] == 0
        servo.set_position(servo.position)
        robot.step(20)
        servo.set_position(0.0)
        robot.step(20)
        assert table["goal_position"] == 2048


def test_a_goal_in_the_step_of_a_switch_is_refused_where_the_turn_is_not_known():
    rig = rig_of("xl330-m288", registers={"operating_mode": 4})
    with PtyLine({1: "xl330-m288"}) as line, axbridge.open(rig) as robot:
        line.set(1, operating_mode=4, present_position=2048 + 6144)
        robot.observe(lambda *_: FIRST_GOALS["set_position"](robot))  # as a live page does with a slider's goal
        with pytest.raises(UsageError, match="found at 9.425 rad"):
            robot.switch("real", port=line.port)
        assert line[1].table["torque_enable"] == 0


@pytest.mark.parametrize("more", [{}, {"min_position": -2.6, "max_position": 2.6}])
def test_a_first_goal_within_half_a_turn_is_accepted(more):
    with found_at(0.4, **more) as (robot, table):
        robot["horn"].set_position(-0.4 if not more else -2.5)
        robot.step(20)
        assert table["torque_enable"] == 1


def test_a_position_a_turn_beyond_its_limits_is_called_a_lost_turn():
    with found_at(0.98, min_position=-1.0, max_position=1.0) as (robot, table):
        robot["horn"].set_position(0.0)
        with pytest.raises(RigError, match="stands at 353°, .*limit of 57°, it has lost a turn: -7° is") as refused:
            robot.step(20)
        assert "`axbridge servo reboot 1 --port /dev/pts/" in refused.value.hint
        assert table["torque_enable"] == 0
