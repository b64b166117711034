"""The verbs for hardware on a line with servos of both protocols."""

import json

import pytest

from axbridge.cli.app import run
from axbridge.config.registers import Instruction
from axbridge.config.rig import Rig
from axbridge.errors import BusError
from axbridge.robot.calibration import rig_of_scan
from axbridge.robot.open import open_robot
from tests.support.pty_line import PtyLine

pytestmark = pytest.mark.slow


@pytest.fixture
def line(quick_doctor):
    with PtyLine({1: "xl330-m288", 2: "xl430-w250", 3: "ax-12a"}) as made:
        made[2]._known -= {Instruction.FAST_SYNC_READ}
        yield made


def rig_of_one(**settings):
    servo = {"name": "x", "joint": "x", "id": 1, "profile": "xl330-m288", "zero": 2048}
    return Rig.model_validate({"name": "one", "servo": [servo | settings]})


def test_a_scan_lists_the_protocol_of_each_servo(on_line):
    assert on_line("scan", "--ids", "0-9").splitlines() == [
        " 1000000 baud  id   1  xl330-m288, firmware 52, Protocol 2.0",
        " 1000000 baud  id   2  xl430-w250, firmware 46, Protocol 2.0",
        " 1000000 baud  id   3  ax-12a, firmware 24",
    ]
    servos = json.loads(on_line("scan", "--ids", "2-3", "--json"))["bauds"]["1000000"]
    assert [(servo["id"], servo["protocol"]) for servo in servos] == [(2, 2), (3, 1)]


def test_registers_of_four_bytes_are_read_and_written_by_name_while_torque_is_off(line, on_line):
    line.set(1, torque_enable=1)
    refused = on_line("servo", "write", 1, "homing_offset", -1000, code=3)
    off = f"`axbridge servo torque 1 off --port {line.port}`"
    assert f"its EEPROM takes nothing while its torque is on: {off}" in refused
    for change in (("set-id", 1, 7), ("set-baud", 1, 57600)):
        refused = on_line("servo", *change, code=3)
        assert refused.startswith("axbridge: servo 1 has torque: ")
        assert f"its EEPROM takes nothing while its torque is on: {off}" in refused
    on_line("servo", "torque", 1, "off")
    written = on_line("servo", "write", 1, "homing_offset", -1000)
    assert "homing_offset is -1000 (4 EEPROM bytes written)" in written
    assert "homing_offset -1000\n" in on_line("servo", "read", 1, "homing_offset", "present_position")
    registers = on_line("servo", "info", 2)
    assert registers.startswith("servo 2: xl430-w250, firmware 46, Protocol 2.0\n")
    assert " 132  ram    r   present_position" in registers
    assert "servo 3: ax-12a, firmware 24, Protocol 1.0" in on_line("servo", "info", 3)


def test_a_model_without_a_shipped_profile_is_read_by_the_rigs_profile(line, on_line, tmp_path):
    line.set(3, model_number=1230)
    (tmp_path / "own.toml").write_text('base = "mx-28"\nname = "own"\ndescription = "own"\nmodel_number = 1230\n')
    servo = '[[servo]]\nname = "one"\njoint = "one"\nid = 3\nprofile = "own.toml"\nmodel = "mx28"\n'
    (tmp_path / "mine.toml").write_text(f'name = "mine"\n{servo}')
    assert on_line("servo", "info", 3).startswith("servo 3: ax-12a, ")
    assert on_line("servo", "read", "one", "p_gain", "--rig", tmp_path / "mine.toml").startswith("p_gain ")


def test_a_shutdown_servo_is_reported_and_rebooted(line, on_line):
    line[1].firmware.shut_down(0x24)
    report = on_line("doctor", code=1)
    assert "has shut itself down, or will: overheating, overload" in report
    assert f"axbridge servo reboot 1 --port {line.port}" in report
    assert "servo 1 has restarted; it had: overheating, overload" in on_line("servo", "reboot", 1)
    assert line[1].table["hardware_error_status"] == 0
    assert "cannot be rebooted" in on_line("servo", "reboot", 3, code=2)


def test_the_monitor_shows_servos_of_both_protocols(line, on_line):
    line.set(1, present_velocity=-7)
    line.set(3, present_speed=-9)
    states = json.loads(on_line("monitor", "--duration", 0.1, "--json"))["lines"][0]["states"]
    assert {name: state["voltage"] for name, state in states.items()} == {"id 1": 50, "id 2": 111, "id 3": 121}
    rows = [row.split("\t") for row in on_line("monitor", "--duration", 0.1).splitlines()[1:4]]
    shown = [(row[0], row[3], row[-2]) for row in rows]
    assert shown == [("id 1", "-7", "none"), ("id 2", "0", "none"), ("id 3", "-9", "none")]


@pytest.mark.parametrize(
    ("register", "held", "words"),
    [("homing_offset", 300, "counts from elsewhere"), ("drive_mode", 1, "counts the other way round")],
)
def test_a_servo_with_another_position_convention_is_reported_and_not_driven(line, on_line, register, held, words):
    line.set(1, **{register: held})
    rig, right = rig_of_one(), rig_of_one(registers={register: held})
    with pytest.raises(BusError, match=f"x .id 1. {words}, by its {register} {held}") as refused:
        open_robot(rig, "real", port=line.port)
    assert refused.value.hint.startswith("add that to the rig to keep the calibration")
    assert f"axbridge servo write 1 {register} 0 --port {line.port}" in refused.value.hint
    assert line[1].table["torque_enable"] == 0
    with open_robot(right, "real", port=line.port) as robot:
        assert robot["x"].read(register) == held
    on_line("servo", "write", 1, register, 0)
    open_robot(rig, "real", port=line.port).close()
    open_robot(right, "real", port=line.port).close()  # opening writes the rig's registers
    assert line[1].table[register] == held


@pytest.mark.parametrize(("mode", "counted"), [(4, 4), (5, 5), (1, 4), (16, 4)])
def test_a_large_offset_is_written_to_the_rig_with_a_mode_that_adds_it(line, mode, counted):
    line.set(1, homing_offset=1500, operating_mode=mode)
    lacks = f"registers = {{ homing_offset = 1500, operating_mode = {counted} }}"
    with pytest.raises(BusError, match=f"its rig lacks {lacks}"):
        open_robot(rig_of_one(), "real", port=line.port)
    (registers,) = (servo.registers for servo in rig_of_scan("new", line.port).servos if servo.id == 1)
    assert registers == {"homing_offset": 1500, "drive_mode": 0, "operating_mode": counted}
    with open_robot(rig_of_one(registers=registers), "real", port=line.port) as robot:
        robot.step(20)
        before = robot["x"].position
        robot["x"].torque_on()
        robot.step(20)
        assert robot["x"].position == pytest.approx(before, abs=0.01)


def test_a_large_offset_that_position_mode_ignores_is_refused_with_the_command_that_ends_it(line, on_line):
    line.set(1, homing_offset=1500, operating_mode=3)
    for use in (lambda: open_robot(rig_of_one(), "real", port=line.port), lambda: rig_of_scan("new", line.port)):
        with pytest.raises(
            BusError, match="ignores, and each other mode adds.*\n.*servo write 1 homing_offset 0 --port"
        ):
            use()
    assert "has homing_offset 1500, which" in on_line("servo", "goto", 1, 0, code=3)


def test_the_doctor_lists_servos_without_group_reads_and_duplicate_ids(line, capsys, on_line):
    assert run(["doctor", "--port", line.port]) in {0, 1}  # a busy machine may reduce the rate
    report = capsys.readouterr().out
    assert "servos: 3 of Protocol 1.0; 1-2 of Protocol 2.0\n" in report
    assert "ids 2 have no fast sync read" in report
    line.set(3, id=2)
    assert "one servo speaks Protocol 1.0, one 2.0" in on_line("doctor", code=1)


def test_a_reset_keeps_the_registers_of_its_option(line, on_line):
    line.set(2, drive_mode=1)
    kept = on_line("servo", "reset", 2, "--keep", "id+baud", "--yes")
    assert "servo 2 is reset: it has id 2 and talks at 1000000 baud now" in kept
    assert (line[2].table["drive_mode"], line[2].table["baud_rate"]) == (0, 3)
    assert "can only reset everything" in on_line("servo", "reset", 3, "--keep", "id", "--yes", code=2)
    assert "id 1 is taken" in on_line("servo", "reset", 2, "--yes", code=3)


def test_id_253_is_refused_on_a_line_with_protocol_2(line, on_line):
    refused = on_line("servo", "set-id", 3, 253, code=3)
    assert "id 253 is impossible beside servos of Protocol 2.0" in refused
    assert "id 1 is taken" in on_line("servo", "set-id", 3, 1, code=3)
    on_line("servo", "set-id", 1, 9)
    assert on_line("servo", "read", 9, "id") == "id 9\n"
    line.set(3, id=253)
    findings = json.loads(on_line("doctor", "--json", code=1))["lines"][0]["findings"]
    assert ("id", True) in {(finding["kind"], finding["fatal"]) for finding in findings}
