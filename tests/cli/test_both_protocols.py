"""The verbs for hardware on a line with servos of both protocols: they find out who speaks which, and say so."""

import json
from functools import partial

import pytest

from axbridge.bus.scan import scan
from axbridge.cli.app import run as run_arguments
from axbridge.config.registers import Instruction
from axbridge.config.rig import Rig
from axbridge.errors import BusError
from axbridge.robot.open import open_robot
from tests.support.pty_line import PtyLine

pytestmark = pytest.mark.slow


@pytest.fixture
def line(monkeypatch):
    monkeypatch.setattr("axbridge.cli.doctor.PACKETS", 50)
    monkeypatch.setattr("axbridge.bus.diagnose.scan", partial(scan, ids=[1, 2, 3, 253]))
    with PtyLine({1: "xl330-m288", 2: "xl430-w250", 3: "ax-12a"}) as made:
        made[2]._known -= {Instruction.FAST_SYNC_READ}
        yield made


def run(line, *arguments):
    return run_arguments([*arguments, "--port", line.port])


def test_a_scan_says_who_speaks_which_protocol(line, capsys):
    assert run(line, "scan", "--ids", "0-9") == 0
    assert capsys.readouterr().out.splitlines() == [
        " 1000000 baud  id   1  xl330-m288, firmware 52, Protocol 2.0",
        " 1000000 baud  id   2  xl430-w250, firmware 46, Protocol 2.0",
        " 1000000 baud  id   3  ax-12a, firmware 24",
    ]
    assert run(line, "scan", "--ids", "2-3", "--json") == 0
    found = json.loads(capsys.readouterr().out)["bauds"]["1000000"]
    assert [(servo["id"], servo["protocol"]) for servo in found] == [(2, 2), (3, 1)]


def test_registers_of_four_bytes_are_read_and_written_by_name_while_torque_is_off(line, capsys):
    line.set(1, torque_enable=1)
    assert run(line, "servo", "write", "1", "homing_offset", "-1000") == 3
    assert "its EEPROM takes nothing while its torque is on: `axbridge servo torque 1 off`" in capsys.readouterr().err
    assert run(line, "servo", "torque", "1", "off") == 0
    assert run(line, "servo", "write", "1", "homing_offset", "-1000") == 0
    assert run(line, "servo", "read", "1", "homing_offset", "present_position") == 0
    assert "homing_offset is -1000 (4 EEPROM bytes written)" in capsys.readouterr().out
    assert run(line, "servo", "info", "2") == 0
    told = capsys.readouterr().out
    assert told.startswith("servo 2: xl430-w250, firmware 46, Protocol 2.0\n")
    assert " 132  ram    r   present_position" in told
    assert run(line, "servo", "info", "3") == 0
    assert "servo 3: ax-12a, firmware 24, Protocol 1.0" in capsys.readouterr().out


def test_a_model_that_only_the_rig_knows_is_read_by_the_rigs_profile(line, capsys, tmp_path):
    line.set(3, model_number=1230)
    (tmp_path / "own.toml").write_text('base = "mx-28"\nname = "own"\ndescription = "own"\nmodel_number = 1230\n')
    servo = '[[servo]]\nname = "one"\njoint = "one"\nid = 3\nprofile = "own.toml"\nmodel = "mx28"\n'
    (tmp_path / "mine.toml").write_text(f'name = "mine"\n{servo}')
    assert run(line, "servo", "info", "3") == 0
    assert capsys.readouterr().out.startswith("servo 3: ax-12a, ")
    assert run(line, "servo", "read", "one", "p_gain", "--rig", str(tmp_path / "mine.toml")) == 0
    assert capsys.readouterr().out.startswith("p_gain ")


def test_a_servo_that_shut_itself_down_is_named_and_rebooted(line, capsys):
    line[1].firmware.shut_down(0x24)
    assert run(line, "doctor") == 1
    told = capsys.readouterr().out
    assert "has shut itself down, or will: overheating, overload" in told
    assert f"axbridge servo reboot 1 --port {line.port}" in told
    assert run(line, "servo", "reboot", "1") == 0
    assert "servo 1 has restarted; it had: overheating, overload" in capsys.readouterr().out
    assert line[1].table["hardware_error_status"] == 0
    assert run(line, "servo", "reboot", "3") == 2
    assert "cannot be rebooted" in capsys.readouterr().err


def test_the_monitor_shows_both(line, capsys):
    line.set(1, present_velocity=-7)
    line.set(3, present_speed=-9)
    assert run(line, "monitor", "--duration", "0.1", "--json") == 0
    states = json.loads(capsys.readouterr().out)["lines"][0]["states"]
    assert {name: state["voltage"] for name, state in states.items()} == {"id 1": 50, "id 2": 111, "id 3": 121}
    assert run(line, "monitor", "--duration", "0.1") == 0
    rows = [row.split("\t") for row in capsys.readouterr().out.splitlines()[1:4]]
    assert [(row[0], row[3], row[-2]) for row in rows] == [
        ("id 1", "-7", "none"),
        ("id 2", "0", "none"),
        ("id 3", "-9", "none"),
    ]


@pytest.mark.parametrize(
    ("register", "held", "words"),
    [("homing_offset", 300, "counts from elsewhere"), ("drive_mode", 1, "counts the other way round")],
)
def test_a_servo_that_counts_otherwise_than_its_rig_says_is_named_and_not_driven(line, capsys, register, held, words):
    line.set(1, **{register: held})
    servos = [{"name": "x", "joint": "x", "id": 1, "profile": "xl330-m288", "zero": 2048}]
    rig = Rig.model_validate({"name": "one", "servo": servos})
    with pytest.raises(BusError, match=f"x .id 1. {words}, by its {register} {held}") as refused:
        open_robot(rig, "real", port=line.port)
    assert f"axbridge servo write 1 {register} 0 --port {line.port}" in refused.value.hint
    assert line[1].table["torque_enable"] == 0
    told = rig.overridden({"servo": [servos[0] | {"registers": {register: held}}]})
    with open_robot(told, "real", port=line.port) as robot:
        assert robot["x"].read(register) == held
    assert run(line, "servo", "write", "1", register, "0") == 0
    open_robot(rig, "real", port=line.port).close()
    open_robot(told, "real", port=line.port).close()  # what the rig says is written
    assert line[1].table[register] == held


def test_the_doctor_says_who_is_read_one_by_one(line, capsys):
    assert run(line, "doctor") in {0, 1}  # a busy machine may cost it its rate
    told = capsys.readouterr().out
    assert "servos: 3 of Protocol 1.0; 1-2 of Protocol 2.0\n" in told
    assert "ids 2 do not know the fast sync read" in told


def test_a_reset_keeps_what_it_is_told_to(line, capsys):
    line.set(2, drive_mode=1)
    assert run(line, "servo", "reset", "2", "--keep", "id+baud", "--yes") == 0
    assert "servo 2 is reset: it has id 2 and talks at 1000000 baud now" in capsys.readouterr().out
    assert (line[2].table["drive_mode"], line[2].table["baud_rate"]) == (0, 3)
    assert run(line, "servo", "reset", "3", "--keep", "id", "--yes") == 2
    assert "can only reset everything" in capsys.readouterr().err
    assert run(line, "servo", "reset", "2", "--yes") == 3
    assert "id 1 is taken" in capsys.readouterr().err


def test_id_253_is_no_id_beside_protocol_2(line, capsys):
    assert run(line, "servo", "set-id", "3", "253") == 3
    assert "id 253 is no id beside servos of Protocol 2.0" in capsys.readouterr().err
    assert run(line, "servo", "set-id", "3", "1") == 3
    assert "id 1 is taken" in capsys.readouterr().err
    assert run(line, "servo", "set-id", "1", "9") == 0
    assert run(line, "servo", "read", "9", "id") == 0
    capsys.readouterr()
    line.set(3, id=253)
    assert run(line, "doctor", "--json") == 1
    findings = json.loads(capsys.readouterr().out)["lines"][0]["findings"]
    assert ("id", True) in {(finding["kind"], finding["fatal"]) for finding in findings}


def test_two_servos_with_one_id_and_a_protocol_each_are_found(line, capsys):
    line.set(3, id=2)
    assert run(line, "doctor") == 1
    assert "one servo speaks Protocol 1.0, one 2.0" in capsys.readouterr().out
