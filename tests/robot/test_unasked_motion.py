"""No joint moves without a command: torque comes on at the present position, also beyond a limit."""

import math
from contextlib import closing
from itertools import product

import pytest

import axbridge
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning
from axbridge.robot.connection import Connection
from axbridge.robot.robot import Robot
from tests.support.pairs import pairs
from tests.support.waiting import run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")]
MOST = math.radians(5)
OVERHEATS = ("mx-28", "sts3215", "scs0009")  # an overload leaves them a part of the torque, or needs a restart
LIMIT = 0.2  # rad
FAMILIES = {  # profile and registers
    "ax-12a": ("ax-12a", {}),
    "mx-28": ("mx-28", {}),
    "xl430": ("xl430-w250", {}),
    "xl330 position": ("xl330-m288", {}),
    "xl330 extended": ("xl330-m288", {"operating_mode": 4}),
    "xl330 current-based": ("xl330-m288", {"operating_mode": 5}),
    "sts3215": ("sts3215", {}),
    "scs0009": ("scs0009", {}),
}
OLD_GOAL = -0.6  # rad


def rig_of(family, registers=None, **more):
    profile, own = FAMILIES[family]
    limits = {"min_position": -1.0, "max_position": LIMIT}
    return bench_rig(profile, registers={**own, **(registers or {})}, **{**limits, **more})


def bench_rig(profile, **more):
    """One servo on a pendulum, at its nominal voltage."""
    servo = {"name": "horn", "joint": "horn", "id": 1, "profile": profile, **more}
    volts = FirmwareProfile.load(profile).electrics.nominal_voltage
    return Rig.model_validate({"name": "bench", "bus": [{"supply_voltage": volts}], "servo": [servo]})


def shaft(robot):
    world = robot.simulation.world
    return world.truths(["horn"], [world.now()])[0, 0]


class Bench:
    """A simulated servo, a hand that moves its shaft, and the program that drives it."""

    def __init__(self, robot):
        self.robot, self.servo, self.tell = robot, robot["horn"], robot.simulation.inject

    def lead(self, place):
        """Move the limp shaft to an angle, as a hand does."""
        self.robot.simulation.world.place("horn", place)
        self.robot.step(20)


def torque_on(bench, place):
    bench.servo.torque_off()
    bench.lead(place)
    bench.servo.torque_on()


def stop_and_resume(bench, place):
    bench.robot.stop()
    bench.lead(place)
    bench.robot.resume()
    bench.servo.torque_on()


def recover(bench, place):
    bench.tell("overheat:1" if bench.servo.dynamixel.profile.name in OVERHEATS else "overload:1")
    run(bench.robot, 0.3)
    assert bench.robot.withheld == {"horn"}
    bench.tell("none")
    run(bench.robot, 0.1)
    bench.lead(place)
    bench.servo.recover()


def power_cycle(bench, place):
    robot = bench.robot
    robot.simulation.world.power_cycle()
    robot.simulation.world.place("horn", place)
    while "without power" not in {event.kind for event in robot.last_step.events}:
        assert robot.time < 10
        robot.step(20)


def switch(bench, place):
    """Change the backend; the joint starts at the rig's `position`, where no old goal applies."""
    bench.robot.switch("sim")


def reopen(bench, place):
    """Open the robot in a next program, with the servo in the state that this one has left."""
    bench.servo.torque_off()
    bench.lead(place)
    again = Robot(bench.robot.rig, bench.robot._connection.backend)
    again["horn"].torque_on()
    return again


def goto(bench, place):
    """Start a trajectory at the position of the limp joint."""
    bench.servo.torque_off()
    bench.lead(place)
    goal, seen = min(place, LIMIT), []
    leave = bench.robot.observe(lambda *_: seen.append(shaft(bench.robot)))
    bench.servo.goto(goal, 0.5)
    leave()
    assert goal - 2 * MOST < min(seen)  # it falls before torque comes on, or overshoots
    assert max(seen) < place + MOST


EVENTS = (torque_on, stop_and_resume, recover, power_cycle, switch, reopen, goto)
PLACES = {"at rest": 0.1, "beyond a limit": LIMIT + 0.3}  # rad


def motion(family, event, where):
    """Return the shaft's motion, rad, in the second after an event; then it must follow a goal again."""
    with axbridge.open(rig_of(family)) as first:
        servo = first["horn"]
        servo.set_position(OLD_GOAL)
        run(first, 1.0)
        assert servo.truth.position == pytest.approx(OLD_GOAL, abs=0.1)
        with event(Bench(first), PLACES[where]) or first as robot:
            servo, start = robot["horn"], shaft(robot)
            moved = max(run(robot, 1.0, lambda: abs(shaft(robot) - start)))
            assert servo.torque_enabled
            servo.set_position(OLD_GOAL)  # it is no more held than it should be
            run(robot, 4.0)
            assert servo.position == pytest.approx(OLD_GOAL, abs=0.1)
    return moved


@pytest.mark.parametrize(("family", "event", "where"), pairs(product(FAMILIES, EVENTS, PLACES)))
def test_no_event_moves_a_joint(family, event, where):
    moved = motion(family, event, where)
    assert moved < MOST, f"{math.degrees(moved):.1f}°"


@pytest.mark.parametrize("family", FAMILIES)
def test_torque_on_beyond_a_limit_is_reported(family):
    with axbridge.open(rig_of(family)) as robot:
        Bench(robot).lead(PLACES["beyond a limit"])
        with pytest.warns(ControlWarning, match="'horn' .*: it is at 0\\.[45].*, beyond its limit 0.200, and stays"):
            robot["horn"].torque_on()


@pytest.mark.parametrize("family", FAMILIES)
def test_limits_without_zero_hold_for_goals_and_for_the_start_of_a_simulation(family):
    with axbridge.open(rig_of(family, min_position=0.2, max_position=1.0)) as robot:
        servo = robot["horn"]
        assert (servo.min_position, servo.config.position) == (0.2, 0.2)
        with pytest.warns(ControlWarning, match="too low requested position: 0 < 0.2"):
            servo.set_position(0.0)
        run(robot, 1.0)
        assert servo.truth.position == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("family", [name for name in FAMILIES if "d" not in name[6:]])
def test_the_servos_own_limits_are_reported_and_kept(family):
    rig = rig_of(family, min_position=0.0, max_position=0.0)
    with axbridge.open(rig) as robot:
        drive = robot["horn"].dynamixel
        names = drive.protocol.names
        drive.write(names.high, drive.calibration.goal(0.4))
        with closing(Connection(rig, robot._connection.backend)) as again:
            with pytest.warns(ControlWarning, match=f"'horn' goes from .* to 0.[34].*{names.high}"):
                again.open(lambda _: (drive.limits.low, drive.limits.high), lambda _: None)
            assert again.drives["horn"].limits.high == pytest.approx(0.4, abs=0.01)


MOST_TORQUE = {"ax-12a": "max_torque", "mx-28": "max_torque", "xl430": "pwm_limit", "sts3215": "max_torque"}


@pytest.mark.parametrize("family", [*MOST_TORQUE, "scs0009"])
def test_no_command_exceeds_the_highest_torque_in_eeprom(family):
    with axbridge.open(rig_of(family, {MOST_TORQUE.get(family, "max_torque"): 300})) as robot:
        servo = robot["horn"]
        limit = servo.dynamixel.protocol.names.torque
        capabilities, loads = servo.capabilities, []
        for command, capability in (
            (lambda: servo.set_position(0.1), "position"),
            (lambda: servo.set_available_torque(servo.max_torque), "position"),
            (lambda: servo.set_torque(servo.max_torque), "torque"),
            (lambda: servo.set_duty(1.0), "duty"),
        ):
            if capabilities[capability] == "unsupported":
                continue
            command()
            run(robot, 0.4, lambda: loads.append(abs(servo.load)))
            if capability == "position":
                assert servo.read(limit) <= 300
        assert max(loads) <= 300 / servo.dynamixel.profile.units.full_scale + 0.01


def test_factory_limits_narrower_than_the_position_register_clip_goals_with_a_warning():
    rig = rig_of("scs0009", min_position=-2.62, max_position=2.62)
    with axbridge.open(rig) as robot:
        servo = robot["horn"]
        assert servo.max_position == pytest.approx((1003 - 512) * servo.dynamixel.profile.units.position)
        with pytest.warns(ControlWarning, match="too big requested position: 2.6 > 2.51"):
            servo.set_position(2.6)


LIMITS = {
    "ax-12a": "torque_limit",
    "xl430": "goal_pwm",
    "xl330 current-based": "goal_current",
    "sts3215": "torque_limit",
    "scs0009": "max_torque",
}


@pytest.mark.parametrize("family", LIMITS)
@pytest.mark.parametrize("event", [torque_on, power_cycle])
def test_a_torque_limit_of_the_rig_stays(family, event):
    with axbridge.open(rig_of(family, {LIMITS[family]: 300})) as robot:
        servo = robot["horn"]
        servo.set_position(0.1)
        run(robot, 0.5)
        assert servo.read(LIMITS[family]) == 300
        event(Bench(robot), 0.2)
        run(robot, 1.0)
        assert servo.read(LIMITS[family]) == 300
