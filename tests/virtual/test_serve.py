import json
import os
import re
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import serial

from axbridge.bus.serial import SerialBus
from axbridge.cli import app
from axbridge.cli.serve import calibrated
from axbridge.config.registers import Address
from axbridge.config.rig import Rig
from axbridge.errors import BusTimeout, PortError
from axbridge.testing import serve
from axbridge.virtual.channel import PtyChannel
from axbridge.virtual.world import World
from tests.support.robot_files import write_comb
from tests.support.waiting import until
from tests.support.warm import run, start
from tests.virtual.test_channel import connected

pytestmark = pytest.mark.slow

PING, PONG = bytes.fromhex("ffff010201fb"), bytes.fromhex("ffff010200fc")


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    return write_comb(tmp_path_factory.mktemp("arm"), count=1, world=False)


class Server:
    def __init__(self, process):
        self.process = process
        self.errors = ""
        self.address = process.stdout.readline().removeprefix("ready: ").strip()

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        while "pybullet" in (line := self.process.stderr.readline()):
            pass  # the engine says when it was built
        return line

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, self.errors = self.process.communicate(timeout=10)
        assert out == ""
        return self.process.returncode


@contextmanager
def server(rig, *options):
    with start("serve", rig, *options) as process:
        try:
            yield Server(process)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()


def refused(rig, *options):
    done = run("serve", rig, *options)
    assert "Traceback" not in done.stderr
    return done


def ask(port, data=PING, size=6):
    port.reset_input_buffer()
    port.write(data)
    return port.read(size)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server_and_removes_the_link(rig, tmp_path, number):
    link = tmp_path / "ax"
    with server(rig, "--link", str(link)) as served:
        assert str(link.readlink()) == served.address
        with serial.Serial(str(link), 1_000_000, timeout=0.5) as port:
            assert ask(port) == PONG
        assert served.stop(number) == 0
    assert not list(tmp_path.iterdir())
    assert f"linked: {link}\n" in served.errors  # programs use the terminal's name, users the link's
    assert re.search(r"served 1 packet, \d+ late by more than 100 µs, worst \d+ µs", served.errors)


def test_a_signal_ends_a_server_that_is_being_built(monkeypatch):
    monkeypatch.setattr("axbridge.cli.serve.build_bank", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    assert app.run(["serve", "bench_arm"]) == app.INTERRUPTED


def test_a_link_never_points_to_a_number_that_is_not_its_servers(tmp_path, monkeypatch):
    link = tmp_path / "ax"
    link.symlink_to("/dev/pts/0")  # left by a server that was killed
    seen = []

    def opened():
        seen.append(link.is_symlink())
        return os.openpty()

    monkeypatch.setattr("axbridge.virtual.channel.pty.openpty", opened)
    channel = PtyChannel(1_000_000, link)
    assert str(link.readlink()) == channel.address
    channel.unplug()
    assert not link.is_symlink()
    channel.plug()
    assert str(link.readlink()) == channel.address
    channel.close()
    assert seen == [False, False]
    assert list(tmp_path.iterdir()) == []


def test_the_link_of_another_server_and_a_file_are_not_taken_over(rig, tmp_path):
    link = tmp_path / "ax"
    with server(rig, "--link", str(link)):
        second = refused(rig, "--link", str(link))
        assert (second.returncode, "another `axbridge serve`" in second.stderr) == (2, True)
    file = tmp_path / "file"
    file.write_text("precious")
    assert refused(rig, "--link", str(file)).returncode == 2
    assert file.read_text() == "precious"


CALIBRATION = {  # of LeRobot
    "shoulder_pan": {"id": 1, "drive_mode": 0, "homing_offset": -1470, "range_min": 758, "range_max": 3292},
    "gripper": {"id": 6, "drive_mode": 1, "homing_offset": 400, "range_min": 1900, "range_max": 3100},
}


@pytest.mark.parametrize(
    ("name", "pan", "gripper"), [("so101", {}, {}), ("koch", {"drive_mode": 0, "operating_mode": 4}, {"drive_mode": 1})]
)
def test_servos_hold_the_calibration_of_their_arm_and_read_the_same_at_0_rad(name, pan, gripper, tmp_path):
    (tmp_path / "arm.json").write_text(json.dumps(CALIBRATION))
    world = World(calibrated(Rig.load(name).with_engine("none"), tmp_path / "arm.json"), timing="none")
    try:
        for joint, more in (("shoulder_pan", pan), ("shoulder_lift", {}), ("gripper", gripper)):
            entry = CALIBRATION.get(joint, {"homing_offset": 0, "range_min": 0, "range_max": 4095})
            table = world.servos[joint].table
            held = [table[key] for key in ("homing_offset", "min_position_limit", "max_position_limit")]
            assert held == [entry["homing_offset"], entry["range_min"], entry["range_max"]]
            assert {key: table[key] for key in more} == more
            assert table["present_position"] == 2048
    finally:
        world.close()


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("pan_tilt", json.dumps(CALIBRATION), "the rig pan_tilt has no servo 6\nserve the rig of that arm"),
        ("bioloid", json.dumps(CALIBRATION), "an ax-12a has no homing offset"),
        ("so101", '{"homing_offset": [1], "calib_mode": ["DEGREE"]}', "a calibration of LeRobot in its layout before 2025"),
        ("so101", '{"gripper": {"id": 6, "range_min": 9, "range_max": 8}}', "begins at 9 and ends at 8"),
        ("so101", "{", "is no JSON: Expecting property name"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_a_calibration_of_the_arm_is_refused(name, text, why, said, tmp_path):
    (tmp_path / "arm.json").write_text(text)
    assert why in said("serve", name, "--calibration", "arm.json", code=app.MISUSE)


def test_faults_are_set_while_it_runs(rig):
    with server(rig, "--faults", "drop=1") as served, serial.Serial(served.address, 1_000_000, timeout=0.5) as port:
        assert ask(port) == b""
        assert "faults set" in served.tell("none")
        assert ask(port) == PONG
        assert "faults set" in served.tell("echo")
        assert ask(port, size=12) == PING + PONG
        assert "not known" in served.tell("lightning")


def test_two_buses_are_two_ports(tmp_path):
    rig = write_comb(tmp_path, count=2, world=False, extra='[[bus]]\nname = "left"\n[[bus]]\nname = "right"')
    text = rig.read_text().replace('joint = "j1"', 'joint = "j1"\nbus = "left"')
    rig.write_text(text.replace('joint = "j2"', 'joint = "j2"\nbus = "right"'))
    link = tmp_path / "ax"
    with server(rig, "--link", str(link)) as served:
        left, name = served.address.split()
        right, _ = served.process.stdout.readline().removeprefix("ready: ").split()
        assert name == "left"
        assert str(link.with_name("ax-right").readlink()) == right
        with serial.Serial(left, 1_000_000, timeout=0.05) as port:
            assert ask(port) == PONG
        with serial.Serial(right, 1_000_000, timeout=0.05) as port:
            assert ask(port) == b""
            assert len(ask(port, bytes.fromhex("ffff020201fa"))) == 6
        assert served.stop() == 0


GO = bytes.fromhex("ffff0105031e0002d6")  # goal position 512
OFF = bytes.fromhex("ffff0104031800df")  # torque


def torque(line):
    """Return Torque Enable of the first servo."""
    line.sendall(bytes.fromhex("ffff0104021801df"))
    reply = b""
    while len(reply) < 7:
        reply += line.recv(7 - len(reply))
    return reply[5]


def test_a_second_tcp_client_gets_a_message_and_the_packets_of_both_are_discarded(rig):
    with server(rig, "--tcp", "127.0.0.1:0") as served:
        with connected(served) as first:
            with pytest.raises(PortError), SerialBus(served.address) as bus:  # although the first has sent nothing yet
                bus.ping(1)
            assert torque(first) == 0
            with connected(served) as second:
                second.sendall(GO)
                message = b"".join(iter(lambda: second.recv(4096), b""))
            assert message == b"axbridge: this bus has a client already; it takes another one when that has left\n"
            assert torque(first) == 0
            first.setblocking(False)
            end = time.monotonic() + 0.5
            while time.monotonic() < end:  # 1 MB takes 10 s on the line
                with suppress(BlockingIOError):
                    first.send(GO * 500)
            with connected(served) as second:
                assert b"has a client already" in second.recv(4096)
        time.sleep(0.2)
        with connected(served) as third:  # accepted, because the second client has not connected again
            third.sendall(OFF)
            assert third.recv(4096) == PONG  # and no reply to the first client's packets
            time.sleep(0.1)
            assert torque(third) == 0  # no goal of the first client has switched it on again
        assert served.stop() == 0


def test_allow_remote_listens_on_all_addresses_with_a_warning(rig):
    with server(rig, "--tcp", "0.0.0.0:0", "--allow-remote") as served:
        assert served.address.startswith("socket://0.0.0.0:")
        assert served.stop() == 0
    assert "every program that reaches" in served.errors


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the motors' process by /proc")
def test_a_bus_does_not_answer_while_its_motors_are_behind_and_reports_it_at_the_end(capfd):
    with serve(timing="wire") as served, SerialBus(served.port) as bus:
        motors = served_by(server := served_by(os.getpid()))
        until(lambda: answers(bus))
        for process, seconds in ((motors, 0.3), (server, 2.0)):
            os.kill(process, signal.SIGSTOP)
            time.sleep(seconds)
            if process == motors:  # dropped, and not executed later
                bus.sync_write(Address.GOAL_POSITION, {1: bytes((44, 1, 0, 0))})
            with pytest.raises(BusTimeout) as silence:
                bus.read(1, Address.PRESENT_POSITION, 2)
            if process == motors:  # only the server itself could count
                assert "the computer was too busy: `axbridge serve` behind this port has left" in silence.value.hint
            os.kill(process, signal.SIGCONT)
            until(lambda: answers(bus), 3.0)
        assert bus.read(1, Address.TORQUE_ENABLE, 1).data == b"\0"
    assert "this machine was too busy" in capfd.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the motors' process by /proc")
def test_without_timing_a_busy_bus_answers_late_and_its_motors_wait_for_it(capfd):
    with serve() as served, serial.Serial(served.port, 1_000_000, timeout=5.0) as line:
        motors = served_by(server := served_by(os.getpid()))
        for process, seconds in ((motors, 0.4), (server, 0.4), (server, 1.5)):
            os.kill(process, signal.SIGSTOP)
            line.write(PING * 3)
            time.sleep(seconds)
            os.kill(process, signal.SIGCONT)
            assert line.read(3 * len(PONG)) == PONG * 3
    assert "too busy" not in capfd.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the motors' process by /proc")
@pytest.mark.ci
def test_scan_and_doctor_report_a_busy_server_and_no_cable_fault(capsys):
    with serve(timing="wire") as served:
        port = served.port
        motors = served_by(served_by(os.getpid()))
        os.kill(motors, signal.SIGSTOP)
        try:
            time.sleep(0.2)
            assert app.run(["scan", "--port", port, "--ids", "1-3"]) == app.HARDWARE
            seen = capsys.readouterr().out
            assert app.run(["doctor", "--port", port]) == app.FAILED_CHECK
        finally:
            os.kill(motors, signal.SIGCONT)
        for output in (seen, capsys.readouterr().out):
            assert re.search(
                r"the computer was too busy: `axbridge serve` behind this port has left \d+ packets", output
            )
            assert "--timing none" in output


def answers(bus):
    with suppress(BusTimeout):
        return bus.ping(1).error == 0


def served_by(process):
    """Return the child of a process that serves bench_arm."""
    children = (task / "children" for task in Path(f"/proc/{process}/task").iterdir())
    processes = (pid for child in children for pid in child.read_text().split())
    return int(next(pid for pid in processes if b"bench_arm" in Path(f"/proc/{pid}/cmdline").read_bytes()))


def test_the_engine_of_the_shell_is_the_one_that_serves(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AXBRIDGE_ENGINE", "abacus")
    assert app.run(["serve", "bench_arm", "--link", str(tmp_path)]) == app.MISUSE  # a folder: it serves nothing
    assert "AXBRIDGE_ENGINE is 'abacus'" in capsys.readouterr().err


# ---- a served bus, last: while it runs, it takes a twentieth of a core


@pytest.fixture(scope="module")
def served(rig):
    with server(rig) as made:
        yield made


def test_clients_connect_in_turn_at_any_baud_rate(served):
    for baud in (9600, 1_000_000, 57_600, 1_000_000):
        with serial.Serial(served.address, baud, timeout=0.05) as port:
            assert ask(port) == (PONG if baud == 1_000_000 else b"")
    with serial.Serial(served.address, 1_000_000, timeout=0.5) as port:
        for _ in range(60):  # a client that never reads
            port.write(bytes.fromhex("ffff0104020032c6"))
            time.sleep(0.002)
        start = time.monotonic()
        port.write(bytes(80_000))  # and does not wait: the port takes only the wire's rate, plus 0.3 s in buffers
        assert time.monotonic() - start > 0.4
        port.write(PING[:3])  # and is killed in the middle of a packet
    time.sleep(0.5)
    with serial.Serial(served.address, 1_000_000, timeout=0.5) as port:
        assert until(lambda: ask(port) == PONG)


def test_a_client_that_flushes_its_output_loses_no_packet_already_taken(served):
    with serial.Serial(served.address, 1_000_000, timeout=0.5) as port:
        for _ in range(20):
            port.write(PING)
            until(lambda: port.in_waiting == len(PONG))
            port.reset_output_buffer()
            assert port.read(6) == PONG
