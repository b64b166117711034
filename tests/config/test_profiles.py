"""Every shipped profile, and what is said about a wrong one."""

import pytest

from axbridge.config import toml_tables
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import ProfileError
from axbridge.virtual.control_table import ControlTable

NAMES = ["ax-12", "ax-12-fw17", "ax-12-fw18", "ax-12-plus", "ax-12a", "ax-12w", "ax-18a", "mx-28"]


def test_these_are_shipped():
    assert toml_tables.shipped_names("firmware_profiles") == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_factory_values_are_values_the_servo_would_take(name):
    profile = FirmwareProfile.load(name)
    assert profile.name == name
    for key, register in profile.registers.items():
        if isinstance(register.initial, int) and key != "lock":
            assert register.minimum <= register.initial <= register.maximum, key


@pytest.mark.parametrize(
    ("name", "register", "value"),
    [
        ("ax-12", "max_voltage_limit", 190),
        ("ax-12", "shutdown", 4),
        ("ax-12-fw17", "baud_rate", 34),
        ("ax-12-fw17", "firmware_version", 17),
        ("ax-12-fw18", "temperature_limit", 70),
        ("ax-12a", "model_number", 12),
        ("ax-12w", "model_number", 300),
        ("ax-12w", "cw_compliance_slope", 64),
        ("ax-18a", "torque_limit", 983),
        ("mx-28", "model_number", 29),
        ("mx-28", "ccw_angle_limit", 4095),
    ],
)
def test_what_models_differ_in(name, register, value):
    assert ControlTable(FirmwareProfile.load(name))[register] == value


def test_the_dump_of_a_real_ax_12_plus_is_reproduced():
    table = ControlTable(FirmwareProfile.load("ax-12-plus"))
    measured = {"baud_rate": 34, "goal_position": 511, "moving_speed": 512, "present_position": 511}
    measured |= {"present_voltage": 121, "present_temperature": 43, "torque_enable": 1}
    for name, value in measured.items():
        table[name] = value
    dump = "0c0018 01 22 fa 0000 ff03 00 46 3c 8c ff03 02 24 24 00 2e00 cc03"
    dump += "01 00 01 01 20 20 ff01 0002 ff03 ff01 0000 0000 79 2b 00 00 00 00 2000"
    assert table.data.hex() == dump.replace(" ", "")


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
    ],
)
def test_a_mistake_names_file_and_key(tmp_path, text, key):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError) as raised:
        FirmwareProfile.load(path)
    assert key in str(raised.value)


def test_a_profile_of_ones_own_starts_from_another(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "ax-12a"\nname = "mine"\n[behaviour]\nout_of_table = "zeros"', encoding="utf-8")
    assert FirmwareProfile.load(path).behaviour.out_of_table == "zeros"


def test_the_page_of_the_documentation_is_up_to_date():
    import subprocess
    import sys
    from pathlib import Path

    script = Path(__file__).parents[2] / "docs" / "make_profiles.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0, f"run python {script}"
