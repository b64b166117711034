"""The verbs for hardware on a line of Feetech servos."""

import json
from types import SimpleNamespace

import pytest

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.protocol import FIRST
from axbridge.bus.serial import SerialBus
from axbridge.cli.off import broadcast_off
from axbridge.robot.calibration import rig_of_scan
from tests.support.robot_files import write_feetech_comb
from tests.support.warm import serving

pytestmark = [pytest.mark.slow, pytest.mark.real_time]


@pytest.fixture(params=["sts3215", "scs0009"])
def line(request, tmp_path):
    with serving(write_feetech_comb(tmp_path, 2, request.param, supply=6.5)) as port:
        yield SimpleNamespace(profile=request.param, port=port)


def test_a_scan_lists_models_and_protocols(line, on_line):
    title = {"sts3215": "Feetech STS", "scs0009": "Feetech SCS"}[line.profile]
    assert on_line("scan", "--ids", "0-9").splitlines() == [
        f" 1000000 baud  id   {id_}  {line.profile}, firmware 3, {title}" for id_ in (1, 2)
    ]
    servos = json.loads(on_line("scan", "--ids", "1", "--json"))["bauds"]["1000000"]
    assert [servo["protocol"] for servo in servos] == [PROTOCOLS[line.profile[:3]].name]


@pytest.mark.parametrize(
    ("profile", "model", "volts"), [("sts3215", "sts3215", 7.4), ("sts3215-12v", "sts3215_12v", 12)]
)
def test_a_scanned_rig_distinguishes_servos_of_one_number_by_voltage(tmp_path, profile, model, volts):
    with serving(write_feetech_comb(tmp_path, 1, profile, supply=volts)) as port:
        made = rig_of_scan("mine", port)
    assert (made.servos[0].profile, made.servos[0].model) == (profile, model)
    assert made.buses[0].supply_voltage == volts


def test_an_eeprom_write_survives_power_off_and_the_lock_is_closed_again(line, on_line):
    assert "p_gain is 20 (1 EEPROM byte written)" in on_line("servo", "write", 1, "p_gain", 20)
    assert on_line("servo", "set-id", 1, 7) == "servo 1 is servo 7 now\n"
    assert on_line("servo", "read", 7, "id", "p_gain", "lock") == "id 7\np_gain 20\nlock 1\n"
    assert "talks at 500000 baud now" in on_line("servo", "set-baud", 7, 500000)
    assert on_line("servo", "read", 7, "lock", "--baud", 500000) == "lock 1\n"
    assert "choose from 1000000, 500000, 250000" in on_line("servo", "set-baud", 2, 400000, code=2)


def test_128_in_torque_enable_makes_the_present_position_the_middle(line, on_line):
    if line.profile == "scs0009":
        assert "0..1" in on_line("servo", "write", 1, "torque_enable", 128, code=2)
        return
    on_line("servo", "write", 1, "homing_offset", 300)
    assert on_line("servo", "read", 1, "present_position") != "present_position 2048\n"
    assert "is the middle of its turn now" in on_line("servo", "write", 1, "torque_enable", 128)
    assert (
        on_line("servo", "read", 1, "present_position", "torque_enable") == "present_position 2048\ntorque_enable 0\n"
    )


def test_the_doctor_reports_faults_of_feetech_servos(tmp_path, said):
    rig = write_feetech_comb(tmp_path, 2, supply=12.0)
    text = rig.read_text(encoding="utf-8")
    text = text.replace("return_delay_time = 0", "return_delay_time = 0, shutdown = 44")  # no voltage alarm
    rig.write_text(text.replace("return_delay_time = 0", "return_delay_time = 250, firmware_minor = 9", 1))
    with serving(rig) as port:
        said("servo", "write", 2, "lock", 0, "--port", port)
        report = said("doctor", "--port", port, code=1)
    for finding in (
        "12.0 V at its terminals, and takes 8.0 V at most",
        "sts3215 servos: have several firmwares, 3.10: ids 2; 3.9: ids 1",
        "servo 2: has an open EEPROM (lock 0)",
        "servo 1: waits 500 µs before each answer",
    ):
        assert finding in report, report


def test_off_writes_only_torque_goto_ends_limp_and_servos_with_reboot_are_rebooted(line, on_line):
    for id_ in "12":
        on_line("servo", "torque", id_, "on")
    assert on_line("off") == f"{line.port}: off and confirmed: servo 1, servo 2\n"
    for id_ in "12":
        held = on_line("servo", "read", id_, "torque_enable", "minimum_startup_force")
        assert held == "torque_enable 0\nminimum_startup_force 16\n"
    assert "motors are off" in on_line("servo", "goto", 1, 10)
    assert on_line("servo", "read", 1, "torque_enable") == "torque_enable 0\n"
    on_line("servo", "reboot", 1, code=0 if line.profile == "sts3215" else 2)


def test_the_frame_for_an_ax_12_is_kept_from_a_line_of_sts_servos(tmp_path, monkeypatch):
    with serving(write_feetech_comb(tmp_path, 2)) as port, SerialBus(port) as bus:
        sent = []
        monkeypatch.setattr(bus, "limp_all", sent.append)
        broadcast_off(bus)
    assert FIRST not in sent
    assert {protocol.name for protocol in sent} == {2, "sts", "scs"}
