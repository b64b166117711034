"""A robot on a serial port (the virtual bus): bad wiring is named, and no way out leaves a motor powered."""

import os
import select
import signal
import subprocess
import time
from contextlib import suppress

import pytest

import axbridge
from axbridge import BusTimeout, PortError, RigError
from axbridge.bus.protocols.v1 import encode, whole_packet
from axbridge.bus.serial import SerialBus
from axbridge.config.instructions import Instruction
from axbridge.config.registers import Address
from tests.support.waiting import until
from tests.support.warm import Warm, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def port():
    with serving("bench_arm") as device:
        yield device


CONTROLLER = """
import ctypes, sys, time, axbridge
safety = {"stale_command_ms": 200} if sys.argv[2].startswith("hang") else {}
with axbridge.open("bench_arm", backend="real", port=sys.argv[1], safety=safety) as robot:
    robot["shoulder"].set_position(0.5)
    for _ in range(10):
        robot.step(20)
    print("moving", flush=True)
    if sys.argv[2] == "raise":
        raise ValueError("controller bug")
    if sys.argv[2] == "hang":
        time.sleep(60)
    if sys.argv[2] == "hang with the interpreter locked":
        ctypes.PyDLL(None).sleep(60)
    while sys.argv[2] == "run" and robot.step(20) != -1:
        pass
"""


def torque(port):
    with axbridge.open("bench_arm", backend="real", port=port) as robot:
        return robot["shoulder"].read("torque_enable")


def overheard_torque(port):
    """Torque Enable, asked past the controller that holds the port; None when it got in between."""
    line = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        os.write(line, encode(1, Instruction.READ, bytes((24, 1))))
        if not select.select([line], [], [], 0.5)[0]:
            return None
        answer = whole_packet(os.read(line, 64))
        return answer.params[0] if answer and answer.intact and len(answer.params) == 1 else None
    except BlockingIOError:  # the controller took it
        return None
    finally:
        os.close(line)


@pytest.mark.parametrize("way", ["hang", "hang with the interpreter locked"])
def test_a_controller_that_hangs_is_limped_while_it_hangs(port, way):
    with Warm("-c", CONTROLLER, port, way, stderr=subprocess.DEVNULL) as controller:
        try:
            assert controller.stdout.readline() == "moving\n"
            until(lambda: overheard_torque(port) == 0)
            time.sleep(0.3)
            assert overheard_torque(port) in {0, None}  # and stays limp
            assert controller.poll() is None
        finally:
            controller.kill()
    until(lambda: is_free(port))  # when the guard has ended, too


def is_free(port):
    with suppress(PortError):
        SerialBus(port).close()
        return True
    return False


@pytest.mark.parametrize(
    ("ending", "number", "code"),
    [
        ("end", None, 0),
        ("raise", None, 1),
        ("run", signal.SIGTERM, None),
        ("run", signal.SIGINT, None),
        ("run", signal.SIGKILL, -9),
    ],
)
def test_every_way_out_leaves_the_motor_off(port, ending, number, code):
    with Warm("-c", CONTROLLER, port, ending) as controller:
        assert controller.stdout.readline() == "moving\n"
        if number is not None:
            controller.send_signal(number)
        _, said = controller.communicate(timeout=30)
    if code is not None:
        assert controller.returncode == code, said
    else:
        assert controller.returncode != 0
    if ending == "raise":
        assert "ValueError: controller bug" in said
    until(lambda: is_free(port))  # after SIGKILL the guard has it
    assert torque(port) == 0


def test_a_missing_servo_is_named_with_what_to_check(port):
    rig = axbridge.Rig.load("bench_arm").overridden({"servo": [{"name": "a", "joint": "shoulder", "id": 7}]})
    with pytest.raises(BusTimeout, match="servo 7 did not answer\ncheck power, wiring, id and baud"):
        axbridge.open(rig, backend="real", port=port)


@pytest.mark.parametrize("device", ["/dev/nothing-here", "/dev/null", __file__])
def test_a_port_that_is_none_is_named(device):
    with pytest.raises(PortError) as caught:
        axbridge.open("bench_arm", backend="real", port=device)
    assert device in str(caught.value)
    assert caught.value.hint


def test_two_buses_that_mean_one_adapter_are_named(port, tmp_path):
    link = tmp_path / "second"
    link.symlink_to(port)
    servos = [{"name": name, "joint": name, "id": 1, "bus": name} for name in ("left", "right")]
    buses = [{"name": "left"}, {"name": "right", "port": str(link)}]
    rig = axbridge.Rig.model_validate({"name": "pair", "bus": buses, "servo": servos})
    with pytest.raises(RigError, match="buses 'left' and 'right' are both on"):
        axbridge.open(rig, backend="real", port=port)


def test_the_real_robot_says_so(port):
    with axbridge.open("bench_arm", backend="real", port=port) as robot:
        assert (robot.mode, robot.backend) == (1, "real")
        assert 9 < robot["shoulder"].voltage < 10


def test_the_twin_moves_robot_and_shadow(port):
    with axbridge.open("bench_arm", backend="twin", port=port) as robot:
        robot["shoulder"].set_position(0.8)
        while robot.time < 0.6:
            robot.step(20)
        assert robot["shoulder"].position == pytest.approx(0.8, abs=0.03)
        assert robot.simulation.shadow()["shoulder"].position == pytest.approx(0.8, abs=0.03)
        robot["shoulder"].torque_off()


def test_a_twin_is_told_what_is_sent_in_any_way(port):
    with axbridge.open("bench_arm", backend="twin", port=port) as robot:
        bus, twin = robot._connection.backend.buses["main"], robot.simulation.world.servos["shoulder"].table
        bus.write(1, Address.LED, b"\1")
        assert twin["led"] == 1
        bus.reg_write(1, Address.GOAL_POSITION, b"\x08\x02")
        before = twin["goal_position"]
        bus.action()
        assert (before != 520, twin["goal_position"]) == (True, 520)
        bus.sync_write(Address.LED, {1: b"\0"})
        assert twin["led"] == 0


def test_a_twin_whose_program_was_stopped_for_long_does_not_live_all_that_time_through(port):
    with axbridge.open("bench_arm", backend="twin", port=port) as robot:
        robot.step()
        bus = robot._connection.cycles["main"].bus
        bus.shadow.lag -= 3600.0  # as if an hour had passed
        before = robot.simulation.world.now()
        begun = time.monotonic()
        robot.step()
        assert robot.simulation.world.now() - before == pytest.approx(5.0, abs=0.5)
        assert time.monotonic() - begun < 30.0
        assert abs(robot.simulation.shadow()["shoulder"].time - robot.time) < 0.5


def test_environment_variables_choose_backend_and_port(port, monkeypatch):
    monkeypatch.setenv("AXBRIDGE_BACKEND", "real")
    monkeypatch.setenv("AXBRIDGE_PORT", port)
    with axbridge.open("bench_arm") as robot:
        assert robot.backend == "real"


def test_a_servo_found_shut_down_stays_limp_until_it_is_recovered():
    with serving("bench_arm") as port:
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            robot["shoulder"].write("torque_limit", 0)
        with pytest.warns(axbridge.ControlWarning, match="had shut itself down and stays limp"):
            robot = axbridge.open("bench_arm", backend="real", port=port)
        with robot:
            arm = robot["shoulder"]
            arm.set_position(0.6)
            while robot.time < 0.5:
                robot.step(20)
            assert arm.position == pytest.approx(0.0, abs=0.02)
            assert arm.read("torque_limit") == 0
            arm.recover()
            while robot.time < 2.0:
                robot.step(20)
            assert arm.position == pytest.approx(0.6, abs=0.03)
