import time

import pytest

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.protocols.protocol import FIRST
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import wire_time
from axbridge.errors import BusTimeout, ErrorFlag, PortError
from tests.support.pty_line import PtyLine

SERVOS = [CycleServo("hip", 1), CycleServo("knee", 2), CycleServo("ankle", 3)]


@pytest.fixture
def line():
    with PtyLine((1, 2, 3)) as made:
        yield made


@pytest.fixture
def cycle(line):
    with SerialBus(line.port) as bus:
        bus.latency = 0.1  # a busy machine may keep the responder waiting
        yield Cycle(bus, SERVOS)


def test_one_cycle_sends_all_goals_and_reads_all_states(line, cycle):
    result = cycle.exchange({"hip": Goal(100, 50), "knee": Goal(200, 60)})
    assert set(result.states) == {"hip", "knee", "ankle"}
    assert result.states["hip"].position == 501
    assert result.states["hip"].voltage == 121
    assert not result.faults
    assert line.tables[1][30:34] == bytes((100, 0, 50, 0))
    assert line.tables[2][30:34] == bytes((200, 0, 60, 0))
    assert line.tables[3][24] == 0  # no goal, no torque


def test_goals_beyond_a_limit_are_clipped_before_they_leave(line):
    with SerialBus(line.port) as bus:
        cycle = Cycle(bus, [CycleServo("hip", 1, goal_range=(300, 700), top_speed=100, top_torque=500)])
        cycle.send({"hip": Goal(5, 0, 1023)})
        cycle.receive()
    assert int.from_bytes(line.tables[1][30:32], "little") == 300
    assert int.from_bytes(line.tables[1][32:34], "little") == 100  # 0 would mean as fast as it can
    assert int.from_bytes(line.tables[1][34:36], "little") == 500


def test_torque_limit_is_written_only_when_it_changed(line, cycle):
    for limit in (500, 500, 600):
        cycle.exchange({"hip": Goal(100, 50, limit)})
    packets = [heard for heard in line.heard if heard[1] == 0x83 and heard[2][0] == 34]
    assert len(packets) == 2


def test_a_missing_servo_costs_the_others_nothing_and_is_welcomed_back(line, cycle):
    line.deaf.add(2)
    events = []
    for _ in range(20):
        result = cycle.exchange({})
        events += result.events
        assert set(result.states) == {"hip", "ankle"}
        assert isinstance(result.faults["knee"], BusTimeout)
    assert [event.kind for event in events] == ["missing"]
    asked = sum(1 for heard in line.heard if heard[0] == 2)
    assert asked < 10  # after two losses it was left alone for a while, longer each time
    line.deaf.clear()
    patience = time.monotonic() + 10.0
    while "knee" not in (result := cycle.receive()).states:
        assert time.monotonic() < patience
    assert [event.kind for event in result.events] == ["returned"]


def test_a_missing_servo_gets_no_goals(line, cycle):
    line.deaf.add(2)
    for _ in range(3):
        cycle.exchange({"knee": Goal(900, 0)})
    line.deaf.clear()
    cycle.send({"knee": Goal(900, 0)})
    cycle.bus.ping(1)
    assert line.tables[2][24] == 0


def test_error_flags_come_with_the_state_and_once_as_an_event(line, cycle):
    line.errors[2] = int(ErrorFlag.OVERLOAD)
    first, second = cycle.receive(), cycle.receive()
    assert first.states["knee"].error == ErrorFlag.OVERLOAD
    assert [(event.kind, event.name, event.flags) for event in first.events] == [("fault", "knee", ErrorFlag.OVERLOAD)]
    assert not second.events


def test_the_torque_limit_rotates_through_the_servos(line, cycle):
    line.tables[2][34:36] = b"\0\0"  # an overload shutdown
    for _ in range(3):
        result = cycle.receive()
    assert {name: state.torque_limit for name, state in result.states.items()} == {
        "hip": 1023,
        "knee": 0,
        "ankle": 1023,
    }


def test_a_lost_port_is_a_fault_of_every_servo_and_no_exception(line, cycle):
    cycle.exchange({})
    line.unplug()
    for _ in range(3):
        result = cycle.exchange({"hip": Goal(1, 1)})
        assert not result.states
        assert all(isinstance(error, PortError) for error in result.faults.values())


def test_a_soft_start_raises_the_torque_limit_step_by_step(line, cycle):
    cycle.soften(["hip"], 0.3)
    seen = []
    while not seen or seen[-1] < 1023:
        cycle.exchange({"hip": Goal(501, 0)})
        seen.append(int.from_bytes(line.tables[1][34:36], "little"))
    assert seen[0] < 300
    assert seen == sorted(seen)


def test_the_wire_limit_of_eighteen_servos_is_187_hz():
    assert 1 / wire_time([FIRST] * 18) == pytest.approx(187, abs=1)
