"""The adapter is pulled and put back during a control loop."""

import time

import pytest

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.serial import SerialBus
from axbridge.config.instructions import Instruction
from axbridge.errors import PortError
from axbridge.robot.safety.net import Safety
from tests.support.pty_line import PtyLine

pytestmark = pytest.mark.slow

GOALS = {"hip": Goal(900, 0, 1023), "knee": Goal(100, 0, 1023)}


@pytest.fixture
def line(tmp_path):
    with PtyLine((1, 2), link=tmp_path / "bus") as made:
        yield made


@pytest.fixture
def cycle(line):
    with SerialBus(line.port) as bus:
        yield Cycle(bus, [CycleServo("hip", 1), CycleServo("knee", 2)])


def written(line, id, address):
    """What a servo was told to hold at `address`, in order: words of SYNC_WRITE packets."""
    values = []
    for _, code, data, _ in list(line.heard):
        if code == Instruction.SYNC_WRITE and data[0] == address:
            blocks = [data[at : at + data[1] + 1] for at in range(2, len(data), data[1] + 1)]
            values += [int.from_bytes(block[1:3], "little") for block in blocks if block[0] == id]
    return values


def run(cycle, until, watched=None):
    """A 50 Hz loop until `until(result)`; returns all events."""
    events = []
    end = time.monotonic() + 5
    due = cycle.bus.clock.now()
    while time.monotonic() < end:
        if watched:
            watched.feed()
        result = cycle.exchange(GOALS)
        events += result.events
        if until(result):
            return events, result
        due += 0.02
        cycle.bus.clock.sleep_until(due)
    raise AssertionError("it did not come to that")


def test_the_loop_goes_on_and_starts_again_from_the_present_position(line, cycle):
    run(cycle, lambda result: len(result.states) == 2)
    line.unplug()
    events, result = run(cycle, lambda result: not result.states)
    assert "port lost" in {event.kind for event in events}
    assert all(isinstance(fault, PortError) for fault in result.faults.values())
    run(cycle, lambda result: True)  # a few cycles without a port
    line.power_cycle()
    line.heard.clear()
    line.replug()
    events, _ = run(cycle, lambda result: len(result.states) == 2)
    assert [event.kind for event in events] == ["port back", *["returned", "without power"] * 2]
    assert cycle.bus.stats.reopened == 1
    for name in ("hip", "knee"):
        cycle.revived(name)
    run(cycle, lambda _: written(line, 1, 30))
    assert written(line, 1, 30)[0] == line.present(1)  # the first goal after it
    assert written(line, 1, 34)[0] < 300  # with little torque
    run(cycle, lambda _: line.tables[1][30:32] == (900).to_bytes(2, "little"))
    run(cycle, lambda _: int.from_bytes(line.tables[1][34:36], "little") == 1023)


def test_the_guard_follows_the_port(line, cycle):
    with Safety([cycle]) as watched:
        run(cycle, lambda result: len(result.states) == 2, watched)
        first = watched._guard.pid
        line.unplug()
        run(cycle, lambda result: not result.states, watched)
        line.replug()
        run(cycle, lambda result: len(result.states) == 2, watched)
        run(cycle, lambda result: True, watched)
        assert watched._guard.pid != first
        assert [descriptor for descriptor, _ in watched._guarded] == [cycle.bus.port.fd]
    assert not any(table[24] for table in line.tables.values())
