"""A rig on top of another: whose files it uses, how servos are merged, and where a mistake is looked for."""

import math

import pytest

from axbridge.config.rig import Rig
from axbridge.errors import RigError
from axbridge.recording.provenance import describe

BASE = """
name = "arm"
[[bus]]
supply_voltage = 9.6
[world]
urdf = "arm.urdf"
[[servo]]
name = "a"
joint = "a"
id = 1
max_velocity = 2.0
[[servo]]
name = "b"
joint = "b"
id = 2
profile = "mine.toml"
model = "ident.toml"
params = { motor = { armature = 0.5 } }
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A rig with all its files in one folder, an empty folder for a second one, and a third to work in."""
    base, mine, desk = (tmp_path / name for name in ("base", "mine", "desk"))
    for folder in (base, mine, desk):
        folder.mkdir()
    (base / "arm.toml").write_text(BASE)
    (base / "arm.urdf").write_text("<robot/>")
    (base / "mine.toml").write_text('base = "ax-12a"\nname = "mine"\n')
    (base / "ident.toml").write_text('base = "ax12"\nname = "ident"\n')
    monkeypatch.chdir(desk)
    return tmp_path


def write(folders, text, name="over.toml"):
    path = folders / "mine" / name
    path.write_text(text)
    return path


def test_files_of_the_base_are_found_beside_it_from_any_folder(folders):
    rig = Rig.load(write(folders, 'base = "../base/arm.toml"\nname = "over"\n'))
    assert rig.urdf_path() == folders / "base" / "arm.urdf"
    assert rig.profile_of(rig.servos[1]).name == "mine"
    assert rig.model_of(rig.servos[1]).name == "ident"
    assert rig.overridden({"world": {"time_step_ms": 1.0}}).urdf_path() == folders / "base" / "arm.urdf"
    assert str(folders) not in str(describe(rig)["rig"])  # a recording does not tell where the base lies
    (folders / "mine" / "arm.urdf").write_text("<robot/>")
    assert rig.urdf_path() == folders / "mine" / "arm.urdf"  # one's own is taken before the base's


def test_a_shipped_rig_is_a_base_from_any_folder(folders):
    text = 'base = "bench_arm"\n[[servo]]\nname = "shoulder"\nid = 7\n'
    rig = Rig.load(write(folders, text, "bench_arm.toml"))  # it may have the name of its base
    assert (rig.servos[0].id, rig.servos[0].max_stop) == (7, 2.617)
    assert "<robot" in rig.urdf_text()


def test_what_lies_where_the_program_was_started_is_no_base(folders):
    (folders / "desk" / "arm.toml").write_text(BASE)
    with pytest.raises(RigError, match="base: no 'arm' beside this file"):
        Rig.load(write(folders, 'base = "arm"'))
    with pytest.raises(RigError, match="did you mean 'bioloid'"):
        Rig.load(write(folders, 'base = "biolod"'))


def test_servos_and_buses_are_merged_by_name_and_new_ones_come_last(folders):
    text = """
base = "../base/arm.toml"
[[bus]]
port = "/dev/left"
[[servo]]
name = "c"
joint = "c"
id = 3
[[servo]]
name = "a"
id = 9
"""
    rig = Rig.load(write(folders, text))
    assert [(servo.name, servo.id) for servo in rig.servos] == [("a", 9), ("b", 2), ("c", 3)]
    assert rig.servos[0].max_velocity == 2.0
    assert (rig.buses[0].port, rig.buses[0].supply_voltage) == ("/dev/left", 9.6)


def test_constants_of_the_bases_model_do_not_change_another_model(folders):
    plain = Rig.load(write(folders, 'base = "../base/arm.toml"'))
    assert plain.model_of(plain.servos[1]).motor.armature == 0.5
    text = 'base = "../base/arm.toml"\n[[servo]]\nname = "b"\nmodel = "lima2009"\n'
    other = Rig.load(write(folders, text))
    assert other.model_of(other.servos[1]).motor.armature == 0.0


def test_a_servo_given_twice_on_top_of_a_base_is_a_mistake(folders):
    twice = '[[servo]]\nname = "a"\njoint = "a"\nid = 5\n' * 2
    with pytest.raises(RigError, match=r"servo\.a\.name: 'a' appears twice"):
        Rig.load(write(folders, 'base = "../base/arm.toml"\n' + twice))


def test_a_mistake_in_the_base_is_named_with_its_own_file(folders):
    (folders / "base" / "arm.toml").write_text(BASE.replace("id = 2", "id = 300"))
    with pytest.raises(RigError, match=r"servo\.b\.id") as caught:
        Rig.load(write(folders, 'base = "../base/arm.toml"'))
    assert caught.value.path == folders / "base" / "arm.toml"


def test_a_missing_urdf_is_said_to_belong_beside_the_base(folders):
    (folders / "base" / "arm.urdf").unlink()
    rig = Rig.load(write(folders, 'base = "../base/arm.toml"'))
    with pytest.raises(RigError, match=str(folders / "base" / "arm.urdf")):
        rig.urdf_path()


def test_bases_that_lead_in_a_circle_are_named(folders):
    write(folders, 'base = "one.toml"', "two.toml")
    with pytest.raises(RigError, match="leads back to this file"):
        Rig.load(write(folders, 'base = "two.toml"', "one.toml"))


def test_a_base_of_a_base_is_taken_along(folders):
    write(folders, 'base = "../base/arm.toml"\n[[servo]]\nname = "a"\nmax_position = 1.0\nmin_position = -1.0\n')
    rig = Rig.load(write(folders, 'base = "over"\n[[servo]]\nname = "b"\nid = 8\n', "third.toml"))
    assert rig.servos[0].soft_limits == (-1.0, 1.0)
    assert rig.servos[1].soft_limits == (-math.inf, math.inf)
    assert rig.urdf_path().parent == folders / "base"
