"""A served bus in a test: `axbridge.testing.serve`, its commands as JSON lines, and faults of single packets."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from axbridge.bus.base import Reply
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.errors import PortError, UsageError
from axbridge.testing import serve
from axbridge.virtual.control import COMMANDS, Control
from tests.support.robot_files import write_feetech_comb
from tests.support.virtual_rig import make_world
from tests.support.waiting import until
from tests.support.warm import start
from tests.test_docs import ROOT, save_files

pytestmark = pytest.mark.slow

PROTOCOL_OF = {"pan_tilt": 1, "koch": 2, "so101": "sts"}


@pytest.fixture(scope="module", params=PROTOCOL_OF)
def served(request):
    with serve(request.param) as bus:
        yield bus


@pytest.fixture
def bus(served):
    served.reset()
    return served


@pytest.fixture
def line(bus, request):
    with SerialBus(bus.port) as line:
        line.set_protocol(1, PROTOCOLS[PROTOCOL_OF[request.node.callspec.params["served"]]])
        line.latency = 0.1
        yield line


def answers(line):
    """Read the position of servo 1 once; return whether a valid reply came."""
    return isinstance(line.read_many([(1, *line.protocol(1).present_position)])[0], Reply)


def set_torque(line, value):
    line.write(1, line.protocol(1).torque_enable, value, answered=False)


def told(command, written, profile="ax-12a", **registers):
    """Return the result of a command after a write (address and bytes) to a servo."""
    world = make_world(profile=profile, **registers)
    world.servos["s1"].write(*written, world.now())
    return json.loads(Control(world, {}).run_command(json.dumps(command)))["result"]


@pytest.mark.parametrize(("speed", "powered"), [(b"\0\2", [1]), (b"\0\0", [])])
def test_a_wheel_that_turns_without_torque_enable_is_powered(speed, powered):
    assert told({"command": "powered"}, (32, speed), cw_angle_limit=0, ccw_angle_limit=0) == powered


def test_indirect_data_have_the_value_of_their_register():
    seen = told({"command": "registers", "id": 1}, (168, b"\x85\0"), "xl330-m288")
    assert (seen["present_position"], seen["indirect_data_1"]) == (2048, 8)


def test_each_test_gets_new_servos_within_50_ms(bus):
    name = next(iter(bus.positions))
    start_ = bus.positions[name]
    bus.place(name, 0.3)
    assert bus.positions[name] == pytest.approx(0.3, abs=0.01)
    bus.write(1, "torque_enable", 1)
    bus.inject("dead:2,drop=0.5")
    assert bus.powered == [1]
    took = []
    for _ in range(5):
        began = time.perf_counter()
        bus.reset()
        took.append(time.perf_counter() - began)
    assert min(took) < 0.05
    assert bus.powered == []
    assert bus.packets == []
    assert bus.positions[name] == pytest.approx(start_, abs=0.01)
    assert bus.registers(2)["id"] == 2


def test_registers_are_read_and_written_without_a_packet(bus):
    bus.write(np.int64(1), "led" if "led" in bus.registers(1) else "acceleration", np.uint8(1))
    assert bus.registers(1).get("led", 1) == 1
    with ThreadPoolExecutor() as threads:  # each gets the answers to its own questions
        assert list(threads.map(lambda number: bus.registers(1 + number % 2)["id"], range(40))) == [1, 2] * 20
    assert bus.packets == []
    with pytest.raises(UsageError, match="servo 1 refuses id = 254"):
        bus.write(1, "id", 254)
    with pytest.raises(UsageError, match="no servo has id 99\nthere are: 1, 2"):
        bus.registers(99)
    with pytest.raises(UsageError, match="servo 1 has no register 'colour'"):
        bus.write(1, "colour", 1)


@pytest.mark.parametrize(
    ("spec", "lost"),
    [
        ("drop#2:read:1", {1}),
        ("drop#3", {2}),
        ("drop#1:status,drop#3:status", {0, 2}),
        ("corrupt#2:read", {1}),
        ("truncate#1:status:1", {0}),
        ("late:2s#2", {1}),
        ("dead:1#3:read", {2, 3}),
        ("drop#1:read:2,drop#1:write", set()),
    ],
)
def test_a_fault_strikes_the_packet_of_its_number(bus, line, spec, lost):
    assert line.ping(1)  # the server has taken the probes for an echo, which are READs
    bus.inject(spec)
    assert {number for number in range(4) if not answers(line)} == lost
    struck = [packet.fault for packet in bus.packets if packet.fault]
    assert len(struck) == 2 * len(lost) - spec.count("status") - spec.count("dead") * 3
    bus.clear()


def test_a_lost_write_is_not_executed_but_one_with_a_lost_acknowledgement_is(bus, line):
    bus.inject("drop#1:write:1")
    set_torque(line, b"\1")
    assert until(lambda: [packet.kind for packet in bus.packets if packet.id == 1]) == ["write"]
    assert bus.powered == []
    set_torque(line, b"\1")
    assert until(lambda: bus.powered) == [1]
    bus.inject("drop#1:status")
    set_torque(line, b"\0")
    until(lambda: not bus.powered)


def test_the_port_hangs_up_when_unplugged_and_comes_back_under_its_name(bus, line):
    assert answers(line)
    port = bus.port
    bus.write(1, "torque_enable", 1)
    bus.unplug()
    with pytest.raises(OSError):
        answers(line)
    assert bus.powered == [1]  # servos keep their power
    bus.plug()
    assert bus.port == port
    line.reopen()
    assert answers(line)
    bus.inject("unplug:300ms")
    with pytest.raises(OSError):
        until(lambda: not answers(line))
    until(Path(port).exists)
    line.reopen()
    bus.reboot()
    assert bus.powered == []


def test_serving_an_unknown_rig_is_an_error():
    with pytest.raises(PortError, match="nowhere"), serve("nowhere"):
        pass
    with serve("bench_arm") as ended:
        pass
    with pytest.raises(PortError, match="it has ended"):
        ended.powered  # noqa: B018


def test_other_languages_send_commands_as_json_lines(tmp_path):
    with start("serve", write_feetech_comb(tmp_path, 2), "--json", "--engine", "none", "--timing", "none") as server:
        ready = json.loads(server.stdout.readline())
        assert ready["ready"] == ready["ports"]["main"]

        def send(line):
            server.stdin.write(line + "\n")
            server.stdin.flush()
            return json.loads(server.stdout.readline())

        assert send('{"command": "inject", "spec": "dead:2"}') == {"ok": True, "result": None}
        assert send('{"command": "powered"}') == {"ok": True, "result": []}
        for wrong, expected in {
            '{"command": "inject", "spec": "dead:9"}': "no servo has that id",
            '{"command": "inject", "spec": "drop#0"}': "not complete or has too much",
            '{"command": "sing"}': f"there are: {', '.join(COMMANDS)}",
            '{"command": ["clear"]}': "no command ['clear']",
            '{"command": "inject"}': "spec: missing",
            '{"command": "inject", "spec": 5}': "spec: must be a text",
            '{"command": "write", "id": 1, "name": "lock", "value": 1e400}': "value: must be a whole number",
            '{"command": "write", "id": 1, "name": "lock", "value": 70000}': "does not fit",
            '{"command": "write", "id": 1, "name": "goal_velocity", "value": 40000}': "they hold -32767 to 32767",
            '{"command": "place", "name": "s1", "position": NaN}': "position: must be a finite number",
            '{"command": "powered", "id": 1}': "id: unexpected",
            '{"command": "reset", "timing": "late"}': "timing: must be 'wire' or 'none'",
            '{"command": "reset", "seed": -1}': "seed: must be at least 0",
            "not json": "Expecting value",
            "[" * 100_000: "recursion",
        }.items():
            answer = send(wrong)
            assert not answer["ok"]
            assert expected in answer["error"] + answer["hint"]
        server.stdin.close()  # as when the test process has ended
        assert server.wait(10) == 0


TESTS = """
import pytest, serial
PING = bytes.fromhex("ffff010201fb")

@pytest.mark.parametrize("number", range(4))
def test_it_answers(servo_bus, number):
    with serial.Serial(servo_bus.port, 1_000_000, timeout=1.0) as line:
        line.write(PING)
        assert line.read(6)
    assert [packet.kind for packet in servo_bus.packets] == ["ping", "status"]

@pytest.mark.servo_bus("bench_arm")
def test_that_ends_its_server(servo_bus):
    servo_bus._server.kill()
    servo_bus._server.wait()

@pytest.mark.servo_bus("bench_arm")
def test_after_it(servo_bus):
    assert servo_bus.powered == []

@pytest.mark.servo_bus("pan_tilt", faults="dead:2")
def test_another_rig_with_faults(servo_bus):
    assert len(servo_bus.positions) == 2
"""


def run_pytest(folder, *options):
    """Run pytest on the tests in a folder, with this checkout's plug-in; return its output."""
    plugin = ["-p", "no:axbridge", "-p", "axbridge.testing.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", *plugin, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.ci
def test_a_wrong_argument_of_the_marker_is_named(tmp_path):
    marked = "@pytest.mark.servo_bus({})\ndef test_{}(servo_bus): pass\n".format
    wrong = marked("'koch', fault='echo'", 1) + marked("'koch', 'so101'", 2)
    (tmp_path / "test_driver.py").write_text(f"import pytest\n{wrong}")
    output = run_pytest(tmp_path)
    assert "the marker servo_bus got an unexpected keyword argument 'fault'\n" in output
    assert "the marker servo_bus takes from 0 to 1 positional arguments but 2" in output
    assert "it is servo_bus(rig, *, faults=" in output


@pytest.mark.ci
@pytest.mark.parametrize(
    ("page", "why"),
    [("README.md", "IndexError: list index out of range"), ("docs/lesson.md", "There is no status packet!")],
)
def test_the_tests_of_these_pages_fail_as_they_say(page, why, tmp_path):
    save_files(ROOT / page, tmp_path)
    output = run_pytest(tmp_path)
    assert why in output
    assert "1 failed" in output


@pytest.mark.ci
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["serial", "xdist"])
def test_the_fixture_serves_each_worker_and_knows_its_marker_and_a_test_that_ends_it(tmp_path, workers):
    (tmp_path / "test_driver.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text("from axbridge.testing import plugin\nplugin._NOTICE_AFTER = 0.0\n")
    output = run_pytest(tmp_path, "--servo-bus", "bench_arm", *workers)
    assert "7 passed, 1 error" in output, output
    assert workers or "axbridge: starting the servos of pan_tilt; " in output
    assert "the server of bench_arm ended in test_driver.py::test_that_ends_its_server" in output
