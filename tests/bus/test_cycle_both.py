"""A control cycle over servos of both protocols."""

import pytest

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.protocols.known import SECOND
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import wire_time
from axbridge.errors import HardwareError
from tests.support.pty_line import PtyLine


@pytest.fixture
def line():
    with PtyLine({1: "xl330-m288", 2: "xl430-w250", 3: "ax-12a"}) as made:
        for id_ in (1, 2, 3):
            made.set(id_, torque_enable=1)
        yield made


@pytest.fixture
def cycle(line):
    with SerialBus(line.port) as bus:
        bus.latency = 0.05  # a busy machine may keep the responder waiting
        x = {"protocol": SECOND, "goal_range": (0, 4095)}
        yield Cycle(bus, [CycleServo("wrist", 1, **x), CycleServo("elbow", 2, **x), CycleServo("head", 3)])


def test_each_servo_gets_goals_and_gives_samples_in_its_own_registers(line, cycle):
    line.set(1, present_position=3000, present_velocity=-7)
    line.set(3, present_position=400)
    result = cycle.exchange({"wrist": Goal(2100, 50), "elbow": Goal(9999, 0, 442), "head": Goal(512, 100)})
    assert result.faults == {}
    assert {name: state.position for name, state in result.states.items()} == {
        "wrist": 3000,
        "elbow": 2048,
        "head": 400,
    }
    wrist = result.states["wrist"]
    assert (wrist.speed, wrist.voltage, wrist.temperature, wrist.torque_limit) == (-7, 50, 43, None)
    assert (line[1].table["goal_position"], line[1].table["profile_velocity"]) == (2100, 50)
    assert (line[2].table["goal_position"], line[2].table["goal_pwm"]) == (4095, 442)
    assert (line[3].table["goal_position"], line[3].table["moving_speed"]) == (512, 100)


def test_a_soft_start_raises_the_duty_that_an_x_servo_may_give(line, cycle):
    cycle.soften(["wrist", "head"], 60.0)
    for id_ in (1, 3):  # nobody answers a SYNC_WRITE
        cycle.bus.ping(id_)
    assert (line[1].table["goal_pwm"], line[3].table["torque_limit"]) == (88, 102)


def test_an_x_servo_that_shuts_itself_down_is_named_once_and_gets_no_goals(line, cycle):
    goals = {"wrist": Goal(2100, 50), "elbow": Goal(2000, 0), "head": Goal(512, 100)}
    cycle.exchange(goals)
    line[1].overload(0.0)
    (event,) = cycle.exchange(goals).events
    assert (event.kind, event.name, event.flags) == ("fault", "wrist", HardwareError.OVERLOAD)
    assert cycle.withheld == {"wrist"}
    line[1].table["goal_position"] = 7
    result = cycle.exchange(goals)
    assert result.events == ()
    assert result.states["wrist"].error == HardwareError.OVERLOAD
    assert line[1].table["goal_position"] == 7


def test_a_port_is_taken_again_only_with_the_same_servos(line, cycle):
    cycle.remember()
    assert [len(cycle._tracks[name].eeprom) for name in ("wrist", "head")] == [14, 24]


def test_the_wire_time_of_six_x_servos_is_the_time_of_their_bytes():
    there = 14 + 6 * 9
    asked, answered = 14 + 6, 8 + 6 * (1 + 1 + 23 + 2)
    assert wire_time([SECOND] * 6) == pytest.approx((there + asked + answered) * 10e-6 + 22e-6)
