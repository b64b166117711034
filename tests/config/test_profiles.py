import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from axbridge.bus.handshake import profile_for
from axbridge.config import toml_tables
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.errors import ProfileError
from axbridge.servo.columns import pack
from axbridge.servo.steady import SteadyServo
from axbridge.units import RPM
from axbridge.virtual.control_table import ControlTable

NAMES = toml_tables.shipped_names("firmware_profiles")


@pytest.mark.parametrize("name", NAMES)
def test_factory_values_are_taken_and_the_model_that_a_profile_names_has_its_kind_of_law(name):
    profile = FirmwareProfile.load(name)
    assert profile.name == name
    for key, register in profile.registers.items():
        if isinstance(register.initial, int) and key != "lock":
            assert register.minimum <= register.initial <= register.maximum, key
    model, sheet = ServoModel.load(profile.model, profile), profile.electrics
    servo, loop = SteadyServo.of(pack(model, profile.units.position)), model.controller
    assert servo.torque(1.0, sheet.nominal_voltage, 0.8 * sheet.no_load_speed * RPM) > 0.0  # it reaches this speed
    assert loop.law != "pid" or loop.p_duty * profile.p_gain < 0.02  # a count; far more in units of another firmware
    wheel_servo = name == "ax-12w"  # no fitted model
    assert loop.law == ("state_feedback" if wheel_servo else "compliance" if profile.units_name == "ax" else "pid")


def test_the_dump_of_a_real_ax_12_plus_is_reproduced():
    table = ControlTable(FirmwareProfile.load("ax-12-plus"))
    measured = {"baud_rate": 34, "goal_position": 511, "moving_speed": 512, "present_position": 511}
    measured |= {"present_voltage": 121, "present_temperature": 43, "torque_enable": 1}
    for name, value in measured.items():
        table[name] = value
    dump = "0c0018 01 22 fa 0000 ff03 00 46 3c 8c ff03 02 24 24 00 2e00 cc03"
    dump += "01 00 01 01 20 20 ff01 0002 ff03 ff01 0000 0000 79 2b 00 00 00 00 2000"
    assert table.data.hex() == dump.replace(" ", "")


def test_a_profile_is_read_again_when_its_file_or_a_base_of_it_has_changed(tmp_path):
    base, own = tmp_path / "base.toml", tmp_path / "own.toml"
    base.write_text('base = "ax-12a"\n[electrics]\nstall_torque = 1.0')
    own.write_text('base = "base"\nmodel_number = 99')
    first = FirmwareProfile.load(own)
    assert FirmwareProfile.load(own) is first
    for changed, text in (
        (base, 'base = "ax-12a"\n[electrics]\nstall_torque = 2.0'),
        (own, 'base = "base"\nmodel_number = 98'),
    ):
        changed.write_text(text)
        os.utime(changed, ns=(0, changed.stat().st_mtime_ns + 1))  # also where a file system counts in coarse steps
        loaded = FirmwareProfile.load(own)
    assert (loaded.electrics.stall_torque, loaded.model_number) == (2.0, 98)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('base = "ax-12a"\ncolour = "red"', "colour"),
        ('base = "ax-12a"\n[registers]\nid = { address = 4 }', "overlaps"),
        ('base = "ax-12a"\n[registers]\nid = { address = 60 }', "registers.id"),
        ('base = "ax-12a"\ninstructions = ["PINGG"]', "PINGG"),
        ('base = "ax-12a"\n[behaviour]\nlock_scope = "all"', "behaviour.lock_scope"),
        ('base = "ax-12a"\n[registers]\nled = { initial = "@nothing" }', "nothing"),
        ('base = "ax-13"', "ax-1"),
        ('base = "ax-12a"\n[registers]\nextra = { address = 256 }', "up to 255"),
        ('base = "ax-12a"\n[registers]\nled = { max = 256 }', "0..256 does not fit into 1 bytes"),
        ('base = "ax-12a"\nprotocol = 2', "where every Protocol 2.0 servo has it"),
        ('base = "ax-12a"\ninstructions = ["SYNC_READ"]', "SYNC_READ"),
        ('base = "xl330-m288"\n[registers]\nmoving = { address = 116 }', "overlaps"),
        ('base = "xl330-m288"\n[registers]\nextra = { address = 300, count = "many" }', "registers.extra"),
        ('base = "xl330-m288"\n[registers]\nextra = { address = 226, count = 9 }', "overlaps"),
    ],
)
def test_a_mistake_names_file_and_key(tmp_path, text, key):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError, match=re.escape(key)):
        FirmwareProfile.load(path)


def test_registers_with_numbers_are_listed_together():
    with pytest.raises(ProfileError) as raised:
        FirmwareProfile.load("xl430-w250").register("goal_curent")
    assert "indirect_data_1 to indirect_data_56" in str(raised.value)
    assert len(str(raised.value)) < 1500


def test_equal_neighbours_are_one_entry_of_which_each_may_be_changed(tmp_path):
    path = tmp_path / "mine.toml"
    registers = (
        "more_7 = { address = 240, size = 2, count = 3, initial = 5, each = 2, max = 99 }\nmore_8 = { initial = 50 }"
    )
    path.write_text(f'base = "xl330-m288"\n[registers]\n{registers}', encoding="utf-8")
    made = FirmwareProfile.load(path).registers
    more = [(name, made[name].address, made[name].initial) for name in made if name.startswith("more")]
    assert more == [("more_7", 240, 5), ("more_8", 242, 50), ("more_9", 244, 9)]


def _sdk_table(file):
    """Address and size by register name of a table of dynamixel-sdk, names as ours; sign and unit by name."""
    text = (files("dynamixel_easy_sdk") / "control_table" / file).read_text()
    sections = {part.split("]")[0]: part.split("\n")[2:] for part in text.split("[")[1:]}
    rows = [line.split("\t") for line in sections["control table"] if line]
    named = {re.sub(r"\W+", "_", row[2].lower()): (int(row[0]), int(row[1])) for row in rows}
    units = {
        re.sub(r"\W+", "_", row[0].lower()): row[1:] for row in (x.split("\t") for x in sections["unit info"]) if row[0]
    }
    return named, units


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mx-28-2.0", "mx_28.model"), ("xl330-m077", "xl330_m077_fw52.model"),
        ("xl330-m288", "xl330_m288_fw52.model"), ("xl430-w250", "xl430_w250.model"),
    ],
)  # fmt: skip
def test_x_servos_have_the_tables_of_dynamixel_sdk(name, file):
    profile = FirmwareProfile.load(name)
    named, units = _sdk_table(file)
    ends = {"read", "write"}  # SDK names without a register of the servo
    for register, place in named.items():
        if register.rpartition("_")[2] not in ends:
            assert (profile.registers[register].address, profile.registers[register].size) == place, register
    unsaid = {key for key in profile.registers if not key.startswith("indirect_")} - set(named)
    assert unsaid <= {"startup_configuration", "backup_ready"}  # the manual has them, the SDK's tables do not
    for register, (value, unit, sign) in units.items():
        assert profile.registers[register].signed == (sign == "signed"), register
        if unit == "rad/s":
            assert profile.units.speed == pytest.approx(float(value), rel=1e-3)


def test_the_page_of_the_documentation_is_up_to_date():
    script = Path(__file__).parents[2] / "docs" / "make_profiles.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0, f"run python {script}"


@pytest.mark.parametrize(
    ("name", "controller"), [("sts3215", "Sts3215PyController"), ("scs0009", "Scs0009PyController")]
)
def test_feetech_registers_are_where_another_program_has_them(name, controller):
    theirs = getattr(pytest.importorskip("rustypot"), controller)
    ours = {register.address: register for register in FirmwareProfile.load(name).registers.values()}
    known = {"sync_write_flag", "pwm_maximum_step", "minimum_velocity_limit"}  # undocumented registers
    for expected in theirs.registers():
        if expected.name not in known:
            register = ours[expected.addr]
            assert (register.size, register.sign_bit, register.writable) == (
                expected.size,
                expected.sign_bit or 0,
                str(expected.access).endswith("ReadWrite"),
            ), expected.name


def test_a_register_is_found_by_its_address_and_by_the_manuals_name_and_a_reading_is_the_present_one():
    ax, x = FirmwareProfile.load("ax-12a"), FirmwareProfile.load("xl330-m288")
    words = {"LED": "led", "25": "led", "Goal Position": "goal_position", "30": "goal_position", "ID": "id"}
    assert {word: ax.register_name(word) for word in words} == words
    assert x.register_name("position", "present_") == "present_position"
    for word in ("position", "9999"):
        with pytest.raises(ProfileError, match="no (such )?register"):
            x.register_name(word)


@pytest.mark.parametrize("where", ["profiles", "mine"])
def test_own_profiles_are_found_by_name_and_by_the_servos_model_number(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AXBRIDGE_PROFILES", str(tmp_path / "mine"))
    (tmp_path / where / "models").mkdir(parents=True)
    text = 'base = "xl330-m288"\nname = "xc330"\nmodel_number = 1220\nmodel = "xc330"\n'
    (tmp_path / where / "xc330.toml").write_text(text)
    (tmp_path / where / "broken.toml").write_text("name = 3\n")
    (tmp_path / where / "models" / "xc330.toml").write_text('base = "xl330"\nname = "xc330"\n')
    assert FirmwareProfile.load("xc330").model_number == 1220
    assert profile_for(1220).name == "xc330"
    servo = {"name": "a", "joint": "a", "id": 1, "profile": "xc330", "zero": 2048}
    rig = Rig.model_validate({"name": "r", "servo": [servo]})
    assert rig.specs[rig.servos[0].name].model.name == "xc330"
    with pytest.raises(ProfileError, match="xc330"):
        FirmwareProfile.load("xc33")
    monkeypatch.chdir("/")
    monkeypatch.delenv("AXBRIDGE_PROFILES")
    assert profile_for(1220) is None
