"""A Protocol 2.0 servo with an unknown model number: its register addresses are unknown, so nothing is written."""

import json

import pytest

from axbridge.config.registers import Instruction, XAddress
from axbridge.config.rig import Rig
from axbridge.robot.open import open_robot
from tests.support.pty_line import PtyLine

STRANGE, KNOWN, AX = 1, 2, 3
PRESENT = int(XAddress.PRESENT_PWM) - 4  # first register with readings, after Realtime Tick


@pytest.fixture
def line(quick_doctor):
    with PtyLine({STRANGE: "xl330-m288", KNOWN: "xl430-w250", AX: "ax-12a"}) as made:
        made.set(STRANGE, model_number=350, torque_enable=1, return_delay_time=100)
        made.set(KNOWN, torque_enable=1)
        made.tables[AX][24] = 1
        yield made


@pytest.fixture
def table(line):
    """The registers of the unknown servo; a verb must leave them as they are."""
    before = bytes(line[STRANGE].table.data[:PRESENT])
    yield before
    assert bytes(line[STRANGE].table.data[:PRESENT]) == before


@pytest.mark.parametrize("words", [
    "torque off", "torque on", "write return_delay_time 0", "write goal_position 2000", "set-id 9", "set-baud 57600",
    "reset --yes", "reboot", "goto 5", "info",
])  # fmt: skip
def test_a_verb_for_a_servo_of_an_unknown_model_names_it_and_writes_nothing(line, on_line, table, words):
    line.received.clear()
    verb, *more = words.split()
    refused = on_line("servo", verb, STRANGE, *more, code=3)
    assert "servo 1 is model 350, unknown here: nothing was written to it" in refused
    codes = {code for id_, code, *_ in line.received if id_ == STRANGE}
    assert codes <= {Instruction.PING, Instruction.READ}


@pytest.mark.slow
def test_off_switches_known_servos_off_beside_one_of_an_unknown_model_and_does_not_confirm_that_one(
    line, on_line, table
):
    answers = json.loads(on_line("off", "--json", code=3))["lines"][0]
    assert answers["off"] == ["servo 2", "servo 3"]
    assert answers["unconfirmed"] == ["servo 1 is model 350, unknown here, and got no write"]
    assert line[KNOWN].table["torque_enable"] == line.tables[AX][24] == 0


@pytest.mark.slow
def test_doctor_names_an_unknown_model_and_advises_no_write_to_it(line, on_line, table):
    findings = json.loads(on_line("doctor", "--json", code=1))["lines"][0]["findings"]
    (finding,) = (finding for finding in findings if finding["id"] == STRANGE)
    assert finding["problem"] == "is model 350 (unknown)"
    assert "axbridge servo" not in finding["fix"]


@pytest.mark.slow
def test_monitor_leaves_a_servo_of_an_unknown_model_out_and_says_so(line, on_line, table):
    output = on_line("monitor", "--duration", 0.2)
    assert "servo 1 is model 350, unknown here" in output
    assert "id 1\t" not in output
    assert "id 2\t" in output


@pytest.mark.slow
def test_a_rig_with_a_profile_of_the_model_makes_it_a_known_one(line, on_line, tmp_path):
    own = 'base = "xl330-m288"\nname = "own"\ndescription = "own"\nmodel_number = 350\n'
    (tmp_path / "own.toml").write_text(own)
    servo = f'[[servo]]\nname = "one"\njoint = "one"\nid = {STRANGE}\nmodel = "xl330-m288"\n'
    (tmp_path / "mine.toml").write_text(f'name = "mine"\n{servo}profile = "own.toml"\n')
    (tmp_path / "other.toml").write_text(f'name = "other"\n{servo}profile = "xl330-m288"\n')
    off = ("servo", "torque", "one", "off", "--rig")
    assert "model 350, unknown here" in on_line(*off, tmp_path / "other.toml", code=3)
    assert line[STRANGE].table["torque_enable"] == 1
    on_line(*off, tmp_path / "mine.toml")
    assert line[STRANGE].table["torque_enable"] == 0


@pytest.mark.slow
def test_a_program_that_ends_writes_to_its_own_x_servos_and_to_no_other(line, table):
    servo = {"name": "one", "joint": "one", "id": KNOWN, "profile": "xl430-w250", "model": "xl430"}
    rig = Rig.model_validate({"name": "one", "servo": [servo]})
    with open_robot(rig, "real", port=line.port) as robot:
        robot[0].torque_on()
        robot.step()
        assert line[KNOWN].table["torque_enable"] == 1
    assert line[KNOWN].table["torque_enable"] == 0
