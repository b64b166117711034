"""The rig's [safety] table, tested with a whole robot on a virtual bus."""

import gc
import math
import os
import re
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import axbridge
from axbridge.bus.serial import SerialBus
from axbridge.config.rig import Rig
from axbridge.errors import BusError, BusTimeout, ControlWarning, PortError, RobotStopped, ServoFault, UsageError
from axbridge.robot import connection
from axbridge.robot import robot as robot_module
from axbridge.robot.safety import net
from axbridge.robot.safety.net import NETS
from tests.support.pty_line import PtyLine
from tests.support.waiting import run, until

pytestmark = pytest.mark.slow


def make_rig(**safety):
    servos = [{"name": "hip", "joint": "a", "id": 1}, {"name": "knee", "joint": "b", "id": 2}]
    return Rig.model_validate({"name": "pair", "safety": safety, "servo": servos})


@pytest.fixture
def line(tmp_path, request):
    with PtyLine((1, 2), link=tmp_path / getattr(request, "param", "bus")) as made:
        yield made


def opened(line, **safety):
    return axbridge.open(make_rig(**safety), backend="real", port=line.port)


@contextmanager
def driven(line, **safety):
    """A robot whose hip moves."""
    with opened(line, **safety) as robot:
        robot["hip"].set_position(0.3)
        robot.step(20)
        yield robot


def test_park_goes_to_the_pose_of_the_rig(line):
    with driven(line, on_exit="park", park={"hip": -0.05}):
        line.tables[1][36:38] = (502).to_bytes(2, "little")
    assert int.from_bytes(line.tables[1][30:32], "little") == 502
    assert line.powered == []


def test_an_open_that_fails_leaves_the_port_free_while_its_exception_lives(line, monkeypatch):
    monkeypatch.setattr(robot_module, "couple", lambda joints: 1 / 0)
    with pytest.raises(ZeroDivisionError) as kept:
        opened(line)
    assert kept.value
    SerialBus(line.port).close()


class Interruption(BaseException):
    """An exception that `except Exception` does not catch, as KeyboardInterrupt, SystemExit and CancelledError."""


CLOSING = re.compile(r"axbridge/(robot|bus)/|contextlib\.py|serialposix\.py")  # files


def close_until(robot, count):
    """Close, and raise an `Interruption` before this line count (0: none); return the first count of each line run."""
    counts = {}
    number = 0

    def trace(frame, event, _):
        nonlocal number
        if event == "line":
            number += 1
            counts.setdefault((frame.f_code.co_filename, frame.f_lineno), number)
            if number == count:
                sys.settrace(None)
                raise Interruption
        return trace

    def enter(frame, event, _):
        return trace if event == "call" and CLOSING.search(frame.f_code.co_filename) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        robot.close()
    except Interruption:
        pass
    finally:
        sys.settrace(before)
    return list(counts.values())


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # an interrupted line loses its socket or process
@pytest.mark.parametrize("policy", ["limp", "hold", "park"])
@pytest.mark.parametrize("every", [pytest.param(5, marks=pytest.mark.ci), 64])
def test_an_exception_at_any_line_of_close_leaves_no_motor_on_no_port_open_and_no_guard(line, policy, every):
    def interrupted(count):
        robot = opened(line, on_exit=policy, park={"hip": 0.0, "knee": 0.0})
        for number, servo in enumerate(robot.values(), 1):
            line.tables[number][36:38] = (512).to_bytes(2, "little")  # where it parks
            servo.torque_on()
        robot.step(20)
        assert line.powered == [1, 2]
        (net_of_robot,) = NETS.armed
        guard = net_of_robot._guard
        counts = close_until(robot, count)
        if not robot.closed:  # it came before anything was done
            assert NETS.armed == (net_of_robot,)
            assert guard.poll() is None
            robot.close()
        held = policy == "hold" and all(table[30:32] == table[36:38] for table in line.tables.values())
        assert held or not line.powered, count
        assert (NETS.armed, guard.poll()) == ((), 0), count
        SerialBus(line.port).close()
        return counts

    for count in interrupted(0)[::every]:
        interrupted(count)
    gc.collect()  # what was lost, while its warnings are ignored


def test_stop_ends_the_park_of_a_close_and_resume_allows_no_command_to_a_closed_robot(line):
    robot = opened(line, on_exit="park", park={"hip": 1.0})
    robot["hip"].torque_on()
    drive = robot["hip"].dynamixel
    with ThreadPoolExecutor(2) as others:
        others.submit(robot.close)
        until(lambda: any(code == 0x83 for _, code, *_ in list(line.received)))  # goals
        robot.resume()
        late = others.submit(drive.power, on=True)
        assert robot.stop() == {}
        assert line.powered == []
    assert isinstance(late.exception(), PortError)


def test_motors_switched_off_by_the_watchdog_stay_off_until_a_new_command(line):
    with driven(line, stale_command_ms=100) as robot:
        until(lambda: not line.powered)
        run(robot, 0.2)
        assert line.powered == []
        assert not robot["hip"].torque_enabled
        robot["hip"].set_position(0.2)
        run(robot, 0.06)
        assert line.powered == [1]
        time.sleep(0.5)
        robot["hip"].torque_on()  # and no step any more
        assert line.powered == [1]
        until(lambda: not line.powered)


@pytest.mark.parametrize("backend", ["real", "sim"])
def test_a_motor_that_is_switched_on_while_another_thread_stops_the_robot_goes_off_again(line, backend):
    robot = opened(line) if backend == "real" else axbridge.open(make_rig(), backend="sim")
    with robot, ThreadPoolExecutor(1) as other:

        def stop_meanwhile(packet):
            if packet.params == b"\x18\1" and not robot.stopped:
                other.submit(robot.stop)
                until(lambda: robot.stopped)
            return "ok"

        line.mishap = stop_meanwhile
        if backend == "sim":
            robot["hip"].torque_on()
            robot.switch("real", port=line.port)
        with pytest.raises(RobotStopped):
            robot["hip"].set_position(0.3)
        assert line.powered == []
        run(robot, 0.1)
        for register in ("goal_position", "moving_speed", "torque_enable"):
            with pytest.raises(RobotStopped):
                robot["hip"].write(register, 1)
        assert line.powered == []


def test_a_motor_that_another_thread_switches_off_during_a_goal_is_off_afterwards(line, monkeypatch):
    with driven(line) as robot, ThreadPoolExecutor(1) as other:
        drive = robot["hip"].dynamixel
        goal = drive.command(robot._joints["hip"].setpoints, robot._joints["hip"].sample, 0.02)
        monkeypatch.setattr(drive, "command", lambda *_: other.submit(robot["hip"].torque_off).result() or goal)
        robot.step(20)
        assert line.powered == []


def test_a_stop_in_a_signal_handler_waits_for_the_end_of_the_transaction(line):
    with driven(line) as robot:
        before = signal.signal(signal.SIGUSR1, lambda *_: robot.stop())
        line.mishap = lambda _: "ok" if robot.stopped else os.kill(os.getpid(), signal.SIGUSR1) or "ok"
        run(robot, 0.04)
        signal.signal(signal.SIGUSR1, before)
        assert (line.powered, robot.last_step.errors) == ([], {})


def test_a_trajectory_starts_where_a_hand_has_moved_the_joint(line):
    with opened(line) as robot:
        line.tables[1][36:38] = (801).to_bytes(2, "little")
        time.sleep(0.15)
        robot["hip"].goto(1.5, 0.3)
        goals = [int.from_bytes(params[3:5], "little") for _, code, params, _ in line.received if code == 0x83]
        assert min(goals) > 780


@pytest.mark.parametrize(("deaf", "error"), [((2,), BusTimeout), ((1, 2), SystemExit)], ids=["deaf", "not read"])
def test_a_servo_that_never_replied_is_not_called_powered(line, capfd, monkeypatch, deaf, error):
    line.deaf.update(deaf)
    if error is SystemExit:
        monkeypatch.setattr(connection, "handshake", lambda *_, **__: sys.exit(7))  # as by a signal
    with pytest.raises(error, match=r"knee \(id 2\) does not answer" if error is BusTimeout else "7"):
        opened(line)
    assert (capfd.readouterr().err, NETS.unconfirmed) == ("", [])


@pytest.mark.filterwarnings("ignore:.*turns in wheel mode:axbridge.errors.ControlWarning")
def test_a_failed_change_of_mode_does_not_stop_the_goals_of_other_servos(line):
    with opened(line) as robot:
        robot["hip"].set_position(math.inf)
        robot["hip"].set_velocity(0.5)
        robot["knee"].set_position(0.1)
        line.tables[1][47] = 1  # Lock: the angle limits take no write
        with pytest.raises(BusError):
            robot.step(20)
        assert list(robot.last_step.errors) == ["hip"]
        assert robot.time == 0.02
        assert [int.from_bytes(table[30:32], "little") for table in line.tables.values()] == [501, 532]


def test_a_robot_that_is_closed_during_a_switch_is_closed_on_the_new_backend_too(line):
    robot = axbridge.open(make_rig(), backend="sim")
    robot["hip"].torque_on()
    robot.step(20)
    opener = robot._opener

    def opened_late(*backend):
        made = opener(*backend)
        robot.close()  # as another thread may do meanwhile
        return made

    robot._opener = opened_late
    with pytest.raises(UsageError, match="is closed"):
        robot.switch("real", port=line.port)
    assert robot.closed
    assert robot.step(20) == -1
    assert line.powered == []
    SerialBus(line.port).close()  # the port is free


@pytest.mark.parametrize("line", ["b\udcfcs"], indirect=True)
def test_a_servo_that_stops_answering_is_named_until_a_net_is_armed_again(line, capfd, monkeypatch):
    monkeypatch.setattr(net, "_PORT_PATIENCE", 0.1)
    with driven(line) as robot:
        robot["knee"].torque_on()
        line.deaf.add(2)
    assert "these servos may still be powered: knee (servo 2 did not answer)\ncut the" in capfd.readouterr().err
    assert NETS.unconfirmed == ["knee"]
    line.deaf.clear()
    with driven(line):
        assert NETS.unconfirmed == []
        line.unplug()
    assert "/b?s: " in capfd.readouterr().err  # its name is Latin-1
    NETS.unconfirmed.clear()


@pytest.mark.parametrize("lost", [4, math.inf])
def test_open_reads_each_position_or_names_the_servo_that_does_not_answer(line, lost):
    states = []

    def mishap(packet):
        state = packet[:2] == (2, 2) and sum(packet[2]) == 44  # up to the present temperature
        if state:
            states.append(packet)
        return "drop" if state and len(states) <= lost else "ok"

    line.mishap = mishap
    if lost == math.inf:
        with pytest.raises(BusTimeout, match="servo 2 did not answer"):
            opened(line)
    else:
        with opened(line) as robot:
            assert np.isfinite(robot.positions).all()
            assert len(states) > lost


def test_open_names_a_servo_that_refuses_to_return_its_limits(line):
    line.mishap = lambda packet: 0x08 if packet[:2] == (2, 2) and packet[2][0] == 6 else "ok"  # from CW angle limit on
    with pytest.raises(ServoFault, match=r"servo 2 reports range \(0x08\)\nit has no register at address 6"):
        opened(line)


def test_a_robot_survives_an_unplugged_adapter(line, caplog):
    with driven(line) as robot:
        line.unplug()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(20):
                robot.step(20)
        reasons = [str(warning.message) for warning in caught]
        assert "the port was lost" in reasons[0]
        assert reasons[0].endswith("the motors keep their last goals until it is back (all servos)")
        assert caught[0].filename == __file__
        assert len(set(reasons)) == len(reasons)  # each is reported once
        assert all(isinstance(error, PortError) for error in robot.last_step.errors.values())
        assert robot.bus_statistics["main"]["line"]["servos"][1]["asked"] > 0
        line.power_cycle()
        line.replug()
        end, seen = time.monotonic() + 5, set()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            while robot.last_step.errors and time.monotonic() < end:
                robot.step(20)
                seen |= {event.kind for event in robot.last_step.events}
        assert "without power until now: hip" in str(caught[0].message)
        assert not robot.last_step.errors
        assert {"port back", "returned", "without power"} <= seen
        assert "every port is back" in caplog.text
        run(robot, 0.04)
        assert line.powered == [1]
    assert line.powered == []


def test_a_port_that_is_lost_at_the_end_is_awaited_so_that_its_motors_go_off(line, capfd):
    with driven(line):
        line.unplug()
        threading.Timer(1, line.replug).start()
    assert line.powered == []
    assert "and motors may have torque: waiting 5 s for it, to switch them off\n" in capfd.readouterr().err
    assert NETS.unconfirmed == []


def test_a_step_does_not_call_the_port_lost_that_another_thread_has_closed(line, monkeypatch):
    with driven(line) as robot:
        monkeypatch.setattr(robot, "_receive", lambda receive=robot._receive: in_thread(robot.close) and receive())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            robot.step(20)
            assert robot.step(20) == -1
    assert line.powered == []


def test_a_hot_servo_is_switched_off(line):
    with driven(line, max_temperature=60) as robot:
        line.tables[1][43] = 61
        with pytest.warns(ControlWarning, match="'hip' has no torque, and stays limp until recover.*: it was beyond a"):
            run(robot, 0.2)  # a busy machine may lose some of the answers
        assert line.powered == []
        assert not robot["hip"].torque_enabled
        robot["hip"].torque_off()
        robot["hip"].set_position(0.2)
        run(robot, 0.1)
        assert line.powered == []
        line.tables[1][43] = 50
        robot["hip"].recover()
        run(robot, 0.2)
        assert line.powered == [1]


def test_a_change_of_backend_keeps_a_shut_down_servo_off(line):
    line.tables[1][34:36] = bytes(2)
    with axbridge.open(make_rig(), backend="sim") as robot:
        for servo in robot.values():
            servo.set_position(0.2)
        robot.step(20)
        with pytest.warns(ControlWarning, match="'hip' had shut itself down"):
            robot.switch("real", port=line.port)
        run(robot, 0.1)
        assert line.tables[1][34:36] == bytes(2)
        assert line.powered == [2]
        assert not robot["hip"].torque_enabled


def test_a_joint_that_was_a_wheel_is_held():
    servo = {"name": "hip", "joint": "a", "id": 1, "profile": "xl430-w250", "zero": 2048}
    with PtyLine({1: "xl430-w250"}) as line:
        rig = Rig.model_validate({"name": "arm", "safety": {"on_exit": "hold"}, "servo": [servo]})
        with axbridge.open(rig, backend="real", port=line.port) as robot:
            for command in (robot["hip"].set_duty, robot["hip"].set_position):
                command(0.0)
                robot.step(20)
        assert [line[1].table[name] for name in ("torque_enable", "operating_mode")] == [1, 3]


def in_thread(call):
    """Return the result or exception of `call` in another thread."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(call)


def test_after_a_caught_ctrl_c_other_threads_cannot_move_the_robot_until_resume(line):
    with driven(line) as robot:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert line.powered == []
        assert in_thread(robot.step).result() == -1
        refused = in_thread(robot["knee"].torque_on).exception()
        assert isinstance(refused, RobotStopped)
        assert ("SIGINT" in refused.message, "Robot.resume()" in refused.hint) == (True, True)
        until(lambda: robot.step(20) >= 0 and line.powered == [1])  # the main thread goes on
        robot.resume()
        assert in_thread(robot.step).result() >= 0
        assert in_thread(robot["knee"].torque_on).exception() is None
        assert line.powered == [1, 2]
    assert line.powered == []


@pytest.mark.filterwarnings("ignore:.*has no torque:axbridge.errors.ControlWarning")
def test_after_a_caught_ctrl_c_the_main_thread_drives_several_buses_again():
    x = "xl430-w250"
    names = "a1", "a2", "b1", "b2"
    servos = [{"name": n, "joint": n, "bus": n[0], "id": int(n[1]), "profile": x} for n in names]
    with PtyLine({1: x, 2: x}) as first, PtyLine({1: x, 2: x}) as second:
        buses = [{"name": "a", "port": first.port}, {"name": "b", "port": second.port}]
        with axbridge.open(Rig.model_validate({"name": "x", "bus": buses, "servo": servos}), backend="real") as robot:
            for name in ("a1", "b2"):
                robot[name].torque_on()
            robot._connection.cycles["a"].withhold("a1")  # beyond a limit
            robot.step(20)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            until(lambda: robot.step(20) >= 0 and second[2].table["torque_enable"] and not robot.last_step.errors)
            assert not first[1].table["torque_enable"]
            first.deaf |= {1, 2}
            before = len(second.received)
            robot.stop()
            assert second.received[before][3] < first.received[-1][3]  # it waits for no answer of the first one


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("end", ["closes it", "gets a signal"])
def test_a_forked_child_cannot_drive_or_close_its_parents_robot(line, end):
    with driven(line) as robot, ThreadPoolExecutor(1) as other:
        other.submit(robot._stepping.acquire).result()  # another thread steps, which the child does not have
        count = len(line.received)
        child = os.fork()
        if child == 0:
            refused = 0
            knee, hip = robot["knee"], robot["hip"]
            drives = robot.step, robot.exchange, robot.stop, robot.resume, knee.torque_on, knee.torque_off, knee.recover
            values = lambda: hip.set_position(0), lambda: knee.write("torque_enable", 0), lambda: robot.switch("sim")
            for command in (*drives, *values):
                try:
                    command()
                except UsageError as why:
                    refused += "forked" in why.message
            if end == "gets a signal":
                os.kill(os.getpid(), signal.SIGTERM)
            robot.close()
            os._exit(refused)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code == (10 if end == "closes it" else -signal.SIGTERM)
        assert len(line.received) == count
        other.submit(robot._stepping.release).result()
        assert robot._connection._safety._guard.poll() is None
        assert line.powered == [1]
    assert line.powered == []


def test_a_robot_closes_while_the_interpreter_is_finalized_although_a_thread_holds_the_lock_of_ending(
    line, monkeypatch
):
    held, closed = threading.Event(), threading.Event()

    def hold():  # a daemon thread that is suspended for good at the interpreter's end; here for 5 s at most
        with NETS.ending:
            held.set()
            closed.wait(5)

    with driven(line) as robot:
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        monkeypatch.setattr(sys, "is_finalizing", lambda: True)  # as when a generator with a robot is deleted last
        robot.close()
        assert thread.is_alive()
    closed.set()
    thread.join()
    assert line.powered == []
