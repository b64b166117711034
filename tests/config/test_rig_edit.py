from pathlib import Path

import pytest

from axbridge.config.rig_edit import edited
from axbridge.config.toml_tables import parse_toml, shipped
from axbridge.errors import RigError

PATH = Path("arm.toml")
TEXT = """# my arm
name = "arm"            # as on the box

[[servo]]
name = "pan"
joint = "pan"
id = 1                  # was 7 until May
registers = { return_delay_time = 0 }

# the one that creaks
[[servo]]
joint = "tilt"
name = 'tilt'
id=2
max_position = 1.25  # rad
[servo.params.motor]
armature = 0.004
"""


def test_values_are_replaced_where_they_stand_and_comments_stay_in_their_columns():
    new = edited(TEXT, {"pan": {"id": 12}, "tilt": {"id": 1, "max_position": 0.9}}, PATH)
    changed = TEXT.replace("id = 1                  # was", "id = 12                 # was").replace("id=2", "id=1")
    assert new == changed.replace("max_position = 1.25  # rad", "max_position = 0.9   # rad")


def test_a_new_key_comes_after_the_ones_that_shipped_rigs_have_before_it():
    new = edited(TEXT, {"tilt": {"zero": 400, "direction": -1, "min_position": -0.5}}, PATH)
    assert "id=2\nzero = 400\ndirection = -1\nmin_position = -0.5\nmax_position = 1.25  # rad\n[servo.params" in new
    assert new.splitlines()[:13] == TEXT.splitlines()[:13]


def test_registers_are_replaced_where_they_stand_and_new_ones_come_at_the_end():
    held = {"homing_offset": -20, "drive_mode": 1}
    new = edited(TEXT, {"pan": {"registers": {"return_delay_time": 0, **held}}, "tilt": {"registers": held}}, PATH)
    written = "homing_offset = -20, drive_mode = 1 }"
    assert f"registers = {{ return_delay_time = 0, {written}\n" in new
    assert f"max_position = 1.25  # rad\nregisters = {{ {written}\n[servo.params" in new


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ('[[servo]]\r\nname = "pan"', '[[servo]]\r\nname = "pan"\r\nid = 3\r\n'),
        ('[[servo]]\r\nname = "pan"\r\nid = 1', '[[servo]]\r\nname = "pan"\r\nid = 3\r\n'),
        ('base = "arm"', 'base = "arm"\n\n[[servo]]\nname = "pan"\nid = 3\n'),
        ('base = "arm"\r\na = 1', 'base = "arm"\r\na = 1\r\n\r\n[[servo]]\r\nname = "pan"\r\nid = 3\r\n'),
    ],
)
def test_a_last_line_without_end_gets_the_end_of_the_other_lines(text, new):
    assert edited(text, {"pan": {"id": 3}}, PATH) == new


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_of_windows_are_kept(start):
    text = start + TEXT.replace("\n", "\r\n")
    new = edited(text, {"pan": {"zero": 500}}, PATH)
    assert new == text.replace("was 7 until May\r\n", "was 7 until May\r\nzero = 500\r\n")


@pytest.mark.parametrize(
    "text",
    [
        'name = "arm"\nservo = [{ name = "pan", joint = "pan", id = 1 }]\n',
        'name = "arm"\n[[servo]]\nname = "pan"\nid = [\n1]\n',
        '[[servo]]\nname = "pan"\nid = 1\nnote = """\nid = 1\n"""\n',
    ],
)
def test_a_file_that_cannot_be_edited_by_lines_is_left_alone_and_the_values_are_told(text):
    parse_toml(text, PATH, RigError)
    with pytest.raises(RigError, match="write by hand pan: id = 5"):
        edited(text, {"pan": {"id": 5}}, PATH)


def test_every_shipped_rig_can_be_edited():
    for path in shipped("hil_rigs").glob("*/*.toml"):
        text = path.read_text()
        servos = parse_toml(text, path, RigError).get("servo", [])
        changes = {servo["name"]: {"zero": 300, "min_position": -0.1} for servo in servos}
        new = edited(text, changes, path)
        assert all(servo["zero"] == 300 for servo in parse_toml(new, path, RigError).get("servo", []))
        assert [line for line in new.splitlines() if "#" in line and "zero" not in line] == [
            line for line in text.splitlines() if "#" in line and "zero" not in line
        ]
