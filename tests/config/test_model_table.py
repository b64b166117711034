"""ROBOTIS' control tables as profiles: values of the table, of a known profile, and unknown registers."""

import pytest

from axbridge.config.model_table import profile_of_model
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import ProfileError
from axbridge.virtual.servo import VirtualServo
from tests.support.virtual_rig import FakeBank

HEAD = "[unit info]\nData Name\tvalue\tunit\tSign Type\tOffset\nStrange Thing\t0.5\tA\tsigned\t0.0\n\n[control table]\nAddress\tSize\tData Name\n"


def table(folder, name, *more, leave_out=()):
    """Return the control table of a profile in ROBOTIS' format, with further lines."""
    own = FirmwareProfile.load(name)
    rows = [
        f"{register.address}\t{register.size}\t{key.replace('_', ' ').title()}"
        for key, register in own.registers.items()
        if key not in leave_out
    ]
    path = folder / f"{name.replace('-', '_')}.model"
    path.write_text(HEAD + "\n".join([*rows, *more]) + "\n")
    (folder / "dynamixel.model").write_text(f"Number\tName\n{own.model_number}\t{path.name}\n")
    return path, own


@pytest.mark.parametrize("name", ["xl330-m288", "xl330-m077", "xl430-w250", "mx-28-2.0"])
def test_the_table_of_a_known_servo_gives_its_profile_register_by_register(tmp_path, name):
    path, own = table(tmp_path, name)
    made = profile_of_model(path, "again")
    assert (made.nearest, made.unknown, made.left_out) == (name, (), ())
    (tmp_path / "again.toml").write_text(made.text)
    again = FirmwareProfile.load(tmp_path / "again.toml")
    assert again.registers == own.registers
    assert again.model_number == own.model_number
    VirtualServo(again, FakeBank(), 0, zero=2048, registers={"id": 1})


def test_registers_that_no_profile_knows_are_named_and_read_only_and_shared_bytes_are_left_out(tmp_path):
    path, _ = table(tmp_path, "xl430-w250", "700\t2\tStrange Thing", "132\t4\tPosition Again")
    made = profile_of_model(path, "odd")
    assert (made.unknown, made.left_out) == (("strange_thing",), ("position_again",))
    (tmp_path / "odd.toml").write_text(made.text)
    strange = FirmwareProfile.load(tmp_path / "odd.toml").register("strange_thing")
    assert (strange.access, strange.minimum, strange.maximum, strange.unit) == ("r", 0, 65535, "0.5 A")


@pytest.mark.parametrize(
    ("leave_out", "said"),
    [(["torque_enable"], "no Torque Enable at 64"), (["led"], "registers.led is missing at address 65")],
)
def test_a_file_that_is_no_control_table_is_refused(tmp_path, leave_out, said):
    path, _ = table(tmp_path, "xl330-m288", leave_out=leave_out)
    with pytest.raises(ProfileError, match=said):
        profile_of_model(path, "no")


def test_the_verb_writes_a_profile_and_lists_unknown_registers(said, tmp_path):
    path, _ = table(tmp_path, "xl330-m288", "700\t2\tStrange Thing")
    assert "unknown, read only: 1 register: strange_thing" in said("profile", "from-model", path)
    assert FirmwareProfile.load(tmp_path / "profiles" / "xl330-m288.toml").registers["strange_thing"].size == 2
