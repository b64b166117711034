import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.serial import SerialBus
from axbridge.errors import BusError, BusTimeout, PortError
from axbridge.robot.safety import net as safety
from axbridge.robot.safety import policies
from axbridge.robot.safety.net import NETS
from tests.support.pty_line import PtyLine
from tests.support.waiting import until

pytestmark = pytest.mark.slow

SERVOS = [CycleServo("hip", 1), CycleServo("knee", 2), CycleServo("ankle", 3)]


@pytest.fixture
def line():
    """Return the servos with torque on."""
    with PtyLine((1, 2, 3)) as made:
        switch(made, 1, 2, 3)
        yield made


@pytest.fixture
def cycle(line):
    with SerialBus(line.port) as bus:
        bus.latency = 0.05  # a busy machine may keep the responder waiting
        yield Cycle(bus, SERVOS)


def settle(cycle):
    """Ping: earlier packets without a reply have arrived when a later instruction is answered."""
    cycle.bus.ping(2)


def interrupt():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def switch(line, *on):
    """Switch torque on for only these servos."""
    for id_, table in line.tables.items():
        table[24] = id_ in on


@pytest.mark.parametrize(("trouble", "kind", "left"), [("deaf", BusTimeout, [1]), ("unplugged", PortError, [1, 2, 3])])
def test_limp_tries_every_servo_and_names_those_that_did_not_confirm(line, cycle, trouble, kind, left):
    lost = iter(["drop"] * 2)
    line.mishap = lambda _: next(lost, "ok")
    if trouble == "deaf":
        line.deaf.add(1)
    else:
        line.unplug()
    errors = policies.limp(cycle)
    assert line.powered == left
    assert set(errors) == {servo.name for servo in SERVOS if servo.id in left}
    assert all(isinstance(error, kind) for error in errors.values())


def test_hold_keeps_powered_servos_where_they_are_and_wakes_no_other(line, cycle):
    switch(line, 1)
    line.tables[1][30:32] = b"\0\0"
    assert policies.hold(cycle) == {}
    settle(cycle)
    assert line.tables[1][30:32] == line.tables[1][36:38]
    assert line.powered == [1]


def test_a_second_exit_does_not_switch_a_parked_robot_on_again(line, cycle):
    with pytest.raises(KeyboardInterrupt), safety.Safety([cycle], "park", park_pose={"hip": 501}, guard=False):
        signal.raise_signal(signal.SIGINT)  # parks, and then the context is left
    assert not line.powered
    goals = [place for place, packet in enumerate(line.received) if packet[1] == 0x83 and packet[2][0] == 30]
    offs = [place for place, packet in enumerate(line.received) if packet[1] == 3 and packet[2] == b"\x18\x00"]
    assert goals
    assert goals[-1] < offs[0]


@pytest.mark.parametrize("lost", [[], [3, 2]], ids=["", "wheel's limits, then limp servo's torque lost"])
def test_park_wakes_no_limp_servo_and_sends_no_wheel_round(line, cycle, lost):
    switch(line, 1, 3)
    line.tables[3][6:10] = bytes(4)
    line.tables[3][32:34] = (300).to_bytes(2, "little")
    left = lost.copy()
    line.mishap = lambda packet: "drop" if left and packet.id == left[0] and left.pop(0) else "ok"
    policies.park(cycle, {"hip": 501, "knee": 501, "ankle": 501}, seconds=1.0)
    settle(cycle)
    moved = [data for _, code, data, _ in line.received if code == 0x83 and data[0] == 30]
    assert not left
    assert moved
    assert all(set(data[2::5]) == {1} for data in moved)
    assert line.tables[3][32:34] == bytes(2)


@pytest.mark.parametrize("end", [lambda _: interrupt(), safety.Safety.limp])
def test_a_signal_or_stop_while_the_watchdog_parks_leaves_nothing_powered_at_once(line, cycle, end):
    with safety.Safety([cycle], "park", park_pose={"hip": 900}, stale_command_ms=30, guard=False) as watched:
        while not any(code == 0x83 and data[0] == 30 for _, code, data, _ in list(line.received)):
            pass
        assert watched.stale
        since = time.monotonic()
        end(watched)
        assert time.monotonic() < since + 2.0  # s: it would park for 3
        watched.disarm()
        settle(cycle)
        assert not line.powered


def test_a_release_continues_on_other_buses_after_an_unexpected_error(line, cycle):
    broken = SimpleNamespace(bus=cycle.bus, servos_by_name={"wrist": SERVOS[0]})  # without `servos`
    errors = safety.Safety([broken, cycle], guard=False).release()
    assert not line.powered
    assert list(errors) == ["wrist"]


@pytest.mark.parametrize("policy", ["limp", "park", "hold"])
def test_a_signal_in_the_middle_of_a_transaction_waits_for_its_end(line, cycle, policy, capfd):
    cycle.bus.latency = 0.3
    interrupted = []

    def mishap(packet):
        if packet.id == 2 and packet.code == 2 and not interrupted:  # the host waits for this answer
            interrupted.append(len(line.received))
            os.kill(os.getpid(), signal.SIGINT)
            return 0.1
        return "ok"

    line.mishap = mishap
    watched = safety.Safety([cycle], policy, park_pose={"hip": 501}, guard=False)
    with pytest.raises(KeyboardInterrupt), watched:
        cycle.exchange({"hip": Goal(501, 0)})
    assert capfd.readouterr().err == ""
    assert line.received[interrupted[0]][:2] == (3, 2)  # the reads of the cycle go on
    assert line.powered == ([1, 2, 3] if policy == "hold" else [])


def test_a_signal_does_not_warn_of_motors_that_are_off_where_all_replies_are_lost_for_a_moment(line, cycle, capfd):
    cycle.bus.latency = 0.004  # as on a fast adapter: all attempts of `limp` end within a tenth of a second
    lost_from = []

    def mishap(_packet):
        lost_from[:] = lost_from or [time.monotonic()]
        return "drop" if time.monotonic() < lost_from[0] + 0.5 else "ok"

    with safety.Safety([cycle], guard=False):
        line.mishap = mishap
        interrupt()
    assert capfd.readouterr().err == ""
    assert not line.powered


def test_the_bus_is_unlocked_for_a_signal_after_an_exception_in_a_cycle(line, cycle):
    cycle._store = lambda *_, **__: 1 / 0
    failure = None
    with safety.Safety([cycle], guard=False):
        try:
            cycle.receive()
        except ZeroDivisionError as error:
            failure = error  # kept, and so are its frames
        interrupt()
    assert failure is not None


@pytest.fixture
def kept(cycle, monkeypatch):
    """Let another thread hold the bus during the test."""
    monkeypatch.setattr(safety, "_PATIENCE", 0.05)
    with ThreadPoolExecutor(1) as other:
        other.submit(cycle.bus.turn.lock.acquire).result()
        yield
        other.submit(cycle.bus.turn.lock.release).result()


@pytest.mark.usefixtures("kept")
def test_a_bus_that_another_thread_locks_is_reported_and_its_servos_are_limped_again(cycle):
    net = safety.Safety([cycle], guard=False)
    errors = net.release()
    assert set(errors) == {"hip", "knee", "ankle"}
    assert "another thread" in errors["hip"].message
    assert list(net._limp_again(errors)) == ["hip", "knee", "ankle"]


def test_hold_repeats_a_goal_that_did_not_arrive(line, cycle):
    line.tables[1][30:32] = bytes(2)
    line.frozen |= {30, 31}

    def mishap(packet):
        if packet.code == 2 and packet.params[0] <= 30 < sum(packet.params):  # maybe with more in front
            line.frozen.clear()
        return "ok"

    line.mishap = mishap
    assert safety.Safety([cycle], "hold", guard=False).release() == {}
    assert line.tables[1][30:32] == line.tables[1][36:38]
    assert line.powered == [1, 2, 3]


@pytest.mark.parametrize("policy", [policies.hold, policies.limp])
def test_a_policy_ends_soft_starts_and_gives_blocked_joints_their_torque_limit(line, cycle, policy):
    cycle.send({"hip": Goal(512, 100, 700), "knee": Goal(512, 100), "ankle": Goal(512, 100, 600)})
    cycle.soften(["hip", "knee"], 60.0)
    cycle.revived("knee")  # and without a goal since
    cycle.cap("ankle", 300)
    settle(cycle)
    assert [line[id_].table["torque_limit"] for id_ in (1, 2, 3)] == [70, 102, 300]
    assert policy(cycle) == {}
    assert [line[id_].table["torque_limit"] for id_ in (1, 2, 3)] == [700, 1023, 600]


def test_a_servo_that_does_not_hold_is_limped_and_the_others_hold(line, cycle):
    line.mishap = lambda packet: "drop" if packet.id == 2 and 25 <= packet.params[0] <= 30 else "ok"
    assert safety.Safety([cycle], "hold", guard=False).release() == {}
    assert line.powered == [1, 3]


@pytest.mark.parametrize("policy", ["park", "hold"])
def test_a_policy_that_raises_an_unexpected_error_switches_the_motors_off(line, cycle, monkeypatch, policy):
    monkeypatch.setattr(cycle, "exchange", lambda goals: 1 / 0)
    monkeypatch.setattr(safety, "hold", lambda cycle: 1 / 0)
    assert safety.Safety([cycle], policy, park_pose={"hip": 900}, guard=False).release() == {}
    assert not line.powered


@pytest.mark.parametrize("trouble", ["not confirmed", "port closed here"])
def test_the_guard_switches_off_what_the_policy_did_not(line, cycle, trouble, capfd):
    def mishap(packet):
        if packet.code == 3:  # the guard writes to each alone
            line.frozen.clear()
        return "ok"

    with safety.Safety([cycle]):
        if trouble == "not confirmed":
            line.frozen.add(24)
            line.mishap = mishap
        else:
            cycle.bus.close()
    assert not line.powered
    assert capfd.readouterr().err == ""


def test_a_second_exit_waits_for_the_guard_after_an_interrupted_first_exit(line, cycle, monkeypatch):
    line.deaf.add(2)
    watched = safety.Safety([cycle])
    watched.arm()

    def interrupted(**_):
        raise KeyboardInterrupt

    guard = watched._guard
    monkeypatch.setattr(guard, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        watched.__exit__(None, None, None)
    monkeypatch.undo()
    assert watched in NETS.armed
    watched.__exit__(None, None, None)
    assert (NETS.armed, guard.returncode) == ((), 1)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert "knee" in NETS.unconfirmed


def test_a_controller_that_was_stopped_trips_before_its_next_goals(line, cycle):
    tripped = []
    with safety.Safety([cycle], stale_command_ms=1000, guard=False, tripped=tripped.append) as watched:
        watched.feed()
        watched._fed_at -= 2  # as after SIGSTOP and SIGCONT: the watchdog thread has had no time, either
        watched.feed()
        assert not line.powered
        assert tripped == [{"hip", "knee", "ankle"}]
        assert not watched.stale


def test_goals_of_a_program_that_was_stopped_before_they_went_out_are_dropped(line, cycle, monkeypatch):
    exchange = cycle.bus.exchange

    def late(writes, reads):
        time.sleep(0.2)
        return exchange(writes, reads)

    with safety.Safety([cycle], stale_command_ms=100, guard=False) as watched:
        watched._stop.set()  # the watchdog is stopped, too; the guard is not
        monkeypatch.setattr(cycle.bus, "exchange", late)
        switch(line)
        watched.feed()
        cycle.send({"hip": Goal(500, 100), "knee": Goal(500, 100)})
        settle(cycle)
        assert not line.powered


def test_the_watchdog_repeats_a_torque_off_that_was_not_confirmed(line, cycle, capfd):
    line.frozen.add(24)
    with safety.Safety([cycle], stale_command_ms=30, guard=False) as watched:
        watched.feed()
        until(lambda: "may still be powered" in capfd.readouterr().err)
        line.frozen.clear()
        until(lambda: not line.powered, 3)


@pytest.mark.parametrize("broken_pipe", [signal.SIG_IGN, signal.SIG_DFL], ids=["raises", "ends the program"])
def test_a_guard_that_was_killed_is_replaced_whatever_a_broken_pipe_does(line, cycle, broken_pipe):
    before = signal.signal(signal.SIGPIPE, broken_pipe)
    try:
        with safety.Safety([cycle]) as watched:
            first = watched._guard
            first.kill()
            first.wait()
            watched.feed()
            guard = watched._guard
            assert guard.pid != first.pid
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert (guard.poll(), line.powered) == (0, [])  # it ends with its controller


def test_the_guard_is_woken_once_in_20_ms_however_often_the_program_steps(cycle, monkeypatch):
    with safety.Safety([cycle]) as watched, monkeypatch.context() as patched:
        patched.setattr(watched._channel, "send", (sent := []).append)
        start = time.monotonic()
        while (passed := time.monotonic() - start) < 0.1:
            watched.feed()
    assert 1 <= len(sent) <= 1 + passed / 0.02


def test_a_guard_gets_a_port_that_was_lost_and_reopened_within_a_step(tmp_path):
    with PtyLine(link=tmp_path / "port") as line, SerialBus(line.port) as bus:
        cycle = Cycle(bus, SERVOS[:1])
        watched = safety.Safety([cycle])
        watched.arm()
        watched.feed()
        line.unplug()
        cycle.send({"hip": Goal(600, 0)})
        line.replug()
        until(lambda: cycle.receive() and not bus.closed)  # with the descriptor that it had before
        watched.feed()
        switch(line, 1)
        watched._channel.close()  # as when the process is gone
        assert watched._guard.wait(10) == 0
        assert not line.powered
        watched.disarm()


def test_a_guard_that_was_started_for_one_of_two_lost_ports_also_waits_for_the_other(tmp_path):
    with ExitStack() as opened:
        lines = [opened.enter_context(PtyLine((1, 2), link=tmp_path / name)) for name in "ab"]
        buses = [opened.enter_context(SerialBus(line.port)) for line in lines]
        cycles = [Cycle(bus, [servo]) for bus, servo in zip(buses, SERVOS, strict=False)]
        watched = safety.Safety(cycles)
        opened.callback(watched.disarm)
        watched.arm()
        watched.feed()
        switch(lines[1], 2)
        for line, cycle in zip(lines, cycles, strict=True):
            line.unplug()
            cycle.send({cycle.servos[0].name: Goal(600, 0)})
        (back, away), (first, _) = lines, cycles
        back.replug()
        until(lambda: first.receive() and not first.bus.closed)
        watched.feed()
        switch(back, 1)
        watched._channel.close()  # as when the process is gone
        assert watched._guard.wait(10) == 1  # a servo has not confirmed
        assert (back.powered, away.powered) == ([], [2])
        away.replug()
        until(lambda: not away.powered)


def test_a_stale_controller_holds_and_replaces_a_killed_guard(line, cycle):
    with safety.Safety([cycle], "hold", stale_command_ms=200) as watched:
        watched.feed()
        until(lambda: watched.stale)
        (first := watched._guard).kill()
        time.sleep(1)
        assert line.powered == [1, 2, 3]
        assert watched._guard not in {None, first}  # another one watches


@pytest.mark.parametrize("policy", ["limp", "park", "hold"])
def test_no_thread_writes_to_the_line_after_the_program_has_ended(line, cycle, policy):
    over = threading.Event()

    def drive():
        while not over.is_set():
            cycle.exchange({"hip": Goal(900, 0), "knee": Goal(900, 0), "ankle": Goal(900, 0)})

    safety.Safety([cycle], policy, park_pose={"hip": 501, "knee": 501, "ankle": 501}).arm()
    thread = threading.Thread(target=drive, daemon=True)
    thread.start()
    while not any(code == 0x83 for _, code, *_ in list(line.received)):
        time.sleep(0.001)
    NETS.apply_at_end()
    count = len(line.received)
    time.sleep(0.2)  # time enough for many goals
    assert len(line.received) == count
    assert line.powered == ([1, 2, 3] if policy == "hold" else [])
    assert all(table[30:32] == table[36:38] for table in line.tables.values()) or policy == "limp"
    with pytest.raises(PortError, match="closed"):  # nor does what the main thread does last
        cycle.bus.sync_write(24, {1: b"\1"})
    over.set()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("disarmed", [True, False], ids=["changed its backend", "two robots"])
def test_a_robot_that_holds_is_not_limped_by_a_guard_when_its_program_ends(line, cycle, disarmed):
    first, second = (safety.Safety([cycle], "hold") for _ in range(2))
    first.arm()
    second.arm()
    if disarmed:
        first.disarm()
    NETS.apply_at_end()
    time.sleep(0.2)  # a guard that still watches acts within milliseconds
    assert line.powered == [1, 2, 3]


@pytest.mark.usefixtures("kept")
def test_the_guard_switches_off_a_bus_that_a_thread_locks_until_the_end(line, cycle):
    watched = safety.Safety([cycle])
    watched.arm()
    NETS.apply_at_end()
    assert watched._guard.poll() is None
    assert line.powered == [1, 2, 3]
    watched._channel.close()  # as when the process is gone
    assert watched._guard.wait(10) == 0
    assert not line.powered


def test_motors_are_off_after_a_signal_during_a_goal_packet(line, cycle, monkeypatch):
    write = cycle.bus.sync_write

    def interrupted(address, data):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGTERM)
        return write(address, data)

    seen = []
    signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))  # a handler that only takes note
    with safety.Safety([cycle], guard=False):
        monkeypatch.setattr(cycle.bus, "sync_write", interrupted)
        cycle.send({"hip": Goal(900, 0)})
        settle(cycle)
        assert seen == [signal.SIGTERM]
        assert not line.powered


def test_each_of_several_signals_is_handled_once(line, cycle):
    seen = []
    signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    with safety.Safety([cycle], guard=False):
        for _ in range(4):
            signal.raise_signal(signal.SIGTERM)
        switch(line, 1, 2, 3)  # the program goes on
        time.sleep(1.5)  # the thread that waits for unhandled signals has seen all four
        assert line.powered == [1, 2, 3]
    assert len(seen) == 4


def test_neither_the_watchdog_nor_the_guard_ends_a_park_early(line, cycle):
    with safety.Safety([cycle], "park", park_pose={"hip": 700}, stale_command_ms=30) as watched:
        watched.feed()
        arrived = threading.Timer(0.4, lambda: line.tables[1].__setitem__(slice(36, 38), (700).to_bytes(2, "little")))
        arrived.start()
    offs = [when for _, code, data, when in line.received if code == 3 and data == b"\x18\0"]
    goals = [when for _, code, data, when in line.received if code == 0x83 and data[0] == 30]
    assert goals[-1] - goals[0] > 0.3
    assert offs[0] > goals[-1]
    assert not line.powered


@pytest.mark.parametrize("strict", [False, True])
def test_a_missing_guard_is_a_warning_and_an_error_leaves_no_net_armed(line, cycle, monkeypatch, strict):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    before = signal.getsignal(signal.SIGTERM)
    expected = (
        pytest.raises(BusError, match="no guard process.*\n") if strict else pytest.warns(RuntimeWarning, match="no gu")
    )
    with expected, safety.Safety([cycle], stale_command_ms=3000) as watched:
        watched.feed()
    assert signal.getsignal(signal.SIGTERM) == before
    NETS.apply_at_end()
    assert line.powered == ([1, 2, 3] if strict else [])  # it never was this net's


def test_a_disarmed_net_below_another_one_only_passes_signals_on(line, cycle):
    first, second = (safety.Safety([cycle], guard=False) for _ in range(2))
    before = signal.getsignal(signal.SIGINT)
    first.arm()
    second.arm()
    first.disarm()  # a robot that changed its backend
    interrupt()
    assert not line.powered
    second.disarm()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_controller_that_stops_feeding_loses_torque_and_restarts_softly_from_the_present_position(line, cycle):
    cycle.exchange({"hip": Goal(900, 0)})
    with safety.Safety([cycle], stale_command_ms=30, guard=False) as watched:
        watched.feed()
        while not watched.stale:
            pass
        while line.powered:
            pass
        watched._silence = 60  # a busy machine may fall silent again
        watched.feed()
        assert not watched.stale
        cycle.exchange({"hip": Goal(900, 0)})  # not before it was read
        assert not line.powered
        cycle.exchange({"hip": Goal(900, 0)})
        assert line.tables[1][30:32] == line.tables[1][36:38]
        cycle.exchange({"hip": Goal(900, 0)})
        assert line.tables[1][30:32] == (900).to_bytes(2, "little")
        assert int.from_bytes(line.tables[1][34:36], "little") < 600  # and softly


def test_torque_off_is_repeated_until_a_hot_servo_confirms_it(line):
    with SerialBus(line.port) as bus:
        bus.retries = 0
        cycle = Cycle(bus, [CycleServo("hip", 1, top_temperature=60)])
        cycle.exchange({"hip": Goal(900, 0)})
        line.tables[1][43] = 61
        line.frozen.add(24)  # the packet is lost, and so is its acknowledgement
        line.mishap = lambda packet: "drop" if packet.code == 3 else "ok"
        cycle.receive()
        cycle.bus.ping(1)
        assert 1 in line.powered
        line.frozen.clear()
        line.mishap = lambda _: "ok"
        cycle.receive()
        assert line.powered == [2, 3]


def test_a_net_in_simulated_time_passes_a_signal_on_to_the_net_of_a_real_bus(line, cycle):
    class Simulated:
        bus = type("Bus", (), {"clock": object(), "turn": None})
        servos, servos_by_name = (), {}

    simulated = safety.Safety([Simulated()], guard=False)
    with safety.Safety([cycle], guard=False):
        simulated.arm()
        interrupt()
        simulated.disarm()
        assert not line.powered
