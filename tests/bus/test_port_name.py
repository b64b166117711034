import os
import subprocess
import sys
from pathlib import Path

import pytest

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.port_name import line_behind, open_files
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import Instruction
from axbridge.errors import PortError
from axbridge.robot.safety.net import Safety
from tests.support.pty_line import PtyLine
from tests.support.warm import start

GOALS = {"hip": Goal(900, 0, 1023), "knee": Goal(100, 0, 1023)}

OTHER_PROGRAM = """
import os, pty, sys
master, slave = pty.openpty()
print(os.ttyname(slave), flush=True)
sys.stdin.readline()
os.set_blocking(master, False)
try:
    print(os.read(master, 4096))
except BlockingIOError:
    print("nothing")
"""


@pytest.fixture
def line(tmp_path):
    with PtyLine((1, 2), link=tmp_path / "bus") as made:
        yield made


@pytest.fixture
def cycle(line):
    with SerialBus(line.port) as bus:
        bus.latency = 0.1
        made = Cycle(bus, [CycleServo("hip", 1), CycleServo("knee", 2)])
        made.read_identities()
        made.exchange(GOALS)
        yield made


def run(cycle, until, watched=None):
    """Run cycles until `until(result)`; return that result and all events."""
    events, end = [], cycle.bus.clock.now() + 10
    while cycle.bus.clock.now() < end:
        if watched:
            watched.feed()
        result = cycle.exchange(GOALS)
        events += [(event.kind, event.name) for event in result.events]
        for name in tuple(cycle.unpowered):
            cycle.revived(name)
        if until(result):
            return result, events
        cycle.bus.clock.sleep_until(cycle.bus.clock.now() + 0.01)
    raise AssertionError(f"it did not come to that: {events}")


def lost_because(words):
    return lambda result: any(isinstance(f, PortError) and words in f.message for f in result.faults.values())


@pytest.mark.slow
def test_a_link_of_a_killed_server_is_refused_until_it_is_served_again_as_the_same_line(tmp_path):
    link, marks = tmp_path / "bus", []
    (tmp_path / "alias").symlink_to(link)
    for _ in range(2):
        with start("serve", "bench_arm", "--engine", "none", "--link", link) as server:
            assert server.stdout.readline().startswith("ready: ")
            SerialBus(str(link)).close()
            marks.append(line_behind(str(link)))
            server.kill()
        for name in ("bus", "alias"):  # both by the link and by a link to it
            with pytest.raises(PortError, match=f"has ended.*\n.*rm {link}"):
                SerialBus(str(tmp_path / name))
    assert marks[0] == marks[1] != frozenset()


def test_nothing_is_sent_to_a_pseudo_terminal_of_another_program(line, cycle):
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        line.unplug()
        name = other.stdout.readline().strip()
        line.link.unlink()
        line.link.symlink_to(name)
        run(cycle, lost_because("another line has this name"))
        output, _ = other.communicate("end\n")
    assert output == "nothing\n"
    line.replug()
    _, events = run(cycle, lambda result: len(result.states) == 2)
    assert events[0] == ("port back", "")


def test_another_robot_of_the_same_program_gets_nothing(line, cycle):
    cycle.bus.write(1, 6, bytes(4))  # an EEPROM change by this program does not make it another servo
    line.unplug()
    run(cycle, lambda result: not result.states)
    calibration, line.tables[2][20] = line.tables[2][20], 47  # the calibration of another servo
    line.power_cycle()
    line.received.clear()
    line.replug()
    run(cycle, lost_because("'knee' (id 2) is another servo"))
    assert {code for _, code, _, _ in line.received} == {Instruction.READ}
    with pytest.raises(PortError):
        cycle.bus.write(1, 24, b"\1")
    line.tables[2][20] = calibration
    _, events = run(cycle, lambda result: len(result.states) == 2)
    back = [(kind, name) for name in ("hip", "knee") for kind in ("returned", "without power")]
    assert events == [("port back", ""), *back]


def test_another_servo_that_answers_late_with_a_known_id_gets_nothing(line, cycle):
    line.unplug()
    run(cycle, lambda result: not result.states)
    calibration, line.tables[2][20] = line.tables[2][20], 47
    line.power_cycle()
    line.deaf.add(2)
    line.replug()
    run(cycle, lambda result: line.tables[1][24])
    line.deaf.clear()
    result, _ = run(cycle, lambda result: "another one" in result.faults["knee"].message)
    assert "hip" in result.states
    assert not line.tables[2][24]
    line.tables[2][20] = calibration
    run(cycle, lambda result: len(result.states) == 2)
    run(cycle, lambda _: line.tables[2][24])


def test_missing_ports_and_remote_ports_have_no_marks(tmp_path):
    assert line_behind("/dev/nothing") == line_behind("socket://127.0.0.1:1") == frozenset()
    assert line_behind(str(tmp_path)) == frozenset()
    master, slave = os.openpty()
    assert any(f"process {os.getpid()} " in mark for mark in line_behind(os.ttyname(slave)))
    os.close(master)
    os.close(slave)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_process_that_ends_while_open_files_are_listed_is_no_error():
    with subprocess.Popen(["sleep", "60"]) as child:
        files = open_files()
        assert next(files).path
        child.kill()
        child.wait()
        assert any(file.process == str(os.getpid()) for file in files)


def written(line, id, address):
    """Return the words that SYNC_WRITE packets wrote to `address` of a servo, in order."""
    values = []
    for _, code, data, _ in list(line.received):
        if code == Instruction.SYNC_WRITE and data[0] == address:
            blocks = [data[at : at + data[1] + 1] for at in range(2, len(data), data[1] + 1)]
            values += [int.from_bytes(block[1:3], "little") for block in blocks if block[0] == id]
    return values


def test_the_loop_continues_after_a_lost_port_and_starts_at_the_present_position(line, cycle):
    run(cycle, lambda result: len(result.states) == 2)
    line.unplug()
    result, events = run(cycle, lambda result: not result.states)
    assert ("port lost", "") in events
    assert all(isinstance(fault, PortError) for fault in result.faults.values())
    run(cycle, lambda result: True)  # a few cycles without a port
    line.power_cycle()
    line.received.clear()
    line.replug()
    _, events = run(cycle, lambda result: len(result.states) == 2)
    assert [kind for kind, _ in events] == ["port back", *["returned", "without power"] * 2]
    run(cycle, lambda _: written(line, 1, 30))
    assert written(line, 1, 30)[0] == int.from_bytes(line.tables[1][36:38], "little")  # the first goal
    assert written(line, 1, 34)[0] < 300  # at a low torque limit
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
