"""`axbridge rig`: as a person with a new robot would use it, from an empty folder."""

import json
from pathlib import Path

import pytest

import axbridge

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_rig_is_shown_with_its_files_and_servos(said):
    shown = said("rig", "show", "pendulum:mass=0.2")
    assert "number  mass = 0.2 kg (0.001..5)" in shown
    assert "pendulum.urdf" in shown
    assert shown.splitlines()[-1].split() == ["shaft", "1", "main", "shaft", "ax-12a", "ax12", "-"]


def test_programs_read_a_rig_as_json(said):
    def printed(*words):
        return json.loads(said("rig", *words, "--json"))

    assert printed("list")["rigs"]["pan_tilt"] == "two AX-12A turning and nodding a 60 g camera"
    shown = printed("show", "pendulum:mass=0.2")
    assert (shown["format"], shown["parameters"]["mass"]["value"]) == ("axbridge-rig-show-1", 0.2)
    shaft = {"drive": "dynamixel", "id": 1, "bus": "main", "joint": "shaft", "profile": "ax-12a", "model": "ax12"}
    assert shown["servos"] == {"shaft": {**shaft, "lowest_rad": None, "highest_rad": None}}
    checked = printed("check", "pan_tilt")
    assert (checked["servos"], checked["file"]) == (2, printed("show", "pan_tilt")["file"])


@pytest.mark.parametrize("name", ["pan_tilt", "xl330_pendulum", "bioloid"])
def test_a_copy_is_sound_moves_and_has_the_name_of_its_folder(desk, said, name):
    said("rig", "copy", name, "mine")
    assert "mine.toml is sound" in said("rig", "check", "mine")
    assert axbridge.Rig.load("mine").name == "mine"
    assert axbridge.Rig.load("mine").urdf_path().parent.resolve() == desk / "mine"


def test_a_copy_goes_into_no_folder_that_has_something_in_it_and_drops_no_numbers_that_were_given(desk, said):
    Path("notes.txt").touch()
    refused = said("rig", "copy", "pan_tilt", ".", code=2)
    assert refused == "axbridge: . is no empty folder\ngive the name of a new folder\n"
    assert "change [parameters] in the copy" in said("rig", "copy", "pendulum:mass=0.2", "mine", code=2)
    assert [path.name for path in Path().iterdir()] == ["notes.txt"]
    Path("empty").mkdir()
    said("rig", "copy", "pan_tilt", "empty")


def test_check_draws_the_joints_and_says_what_it_assumed(said):
    checked = said("rig", "check", "pan_tilt")
    assert "└─ pan: turns about z, -115 to 115°; servo 1 on main" in checked
    assert "   └─ tilt: turns about y, -69 to 69°; servo 2 on main" in checked
    assert 'pan, tilt: profile = "ax-12a", zero = 512, direction = 1' in checked


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[servo]]\nname = "tilt"\njoint = "nod"\n', "servo.tilt.joint: joint 'nod' is not in pan_tilt.urdf"),
        ('[[servo]]\nname = "tilt"\nid = 1\n', "servo.tilt.id: 1 appears twice"),
        ('[[servo]]\nname = "tilt"\nregisters = { colour = 1 }\n', "servo.tilt.registers.colour: ax-12a has no such"),
        ('[[servo]]\nname = "roll"\njoint = "roll"\nid = 3\n', "servo.roll.joint: joint 'roll' is not in"),
        ('[world]\nurdf = "other.urdf"\n', "world.urdf: no such file"),
    ],
)
def test_check_names_the_servo_and_what_is_wrong(desk, said, text, words):
    (desk / "mine.toml").write_text(f'base = "pan_tilt"\n{text}')
    assert words in said("rig", "check", "mine.toml", code=2)


def test_check_sees_a_zero_that_is_not_the_middle_of_its_servo(desk, said):
    (desk / "mine.toml").write_text('base = "pan_tilt"\n[[servo]]\nname = "tilt"\nprofile = "mx-28"\nmodel = "mx28"\n')
    assert "tilt: zero = 512, though the middle of profile mx-28 is 2048" in said("rig", "check", "mine.toml")


def test_a_sample_is_imported_from_an_empty_folder(desk, said):
    said("import", "sample:xl330", "pendulum.mcap")
    assert list(axbridge.open_recording("pendulum.mcap")) == ["pendulum"]
    assert "did you mean 'xl330'" in said("import", "sample:xl33", "other.mcap", code=2)
