"""Rig files: what loads, how every mistake is named with file, key and the fix, and the schema that editors take."""

import jsonschema  # comes with nbclient
import pytest

from axbridge.config.rig import FOLDER, Rig, rig_schema
from axbridge.config.toml_tables import find_toml, read_toml, shipped_names
from axbridge.errors import ProfileError, RigError

GOOD = """
name = "arm"
[world]
urdf = "arm.urdf"
[[servo]]
name = "a"
joint = "a"
id = 1
[[servo]]
name = "b"
joint = "b"
id = 2
"""


@pytest.fixture
def load(tmp_path):
    def load_text(text: str) -> Rig:
        path = tmp_path / "arm.toml"
        path.write_text(text)
        return Rig.load(path)

    return load_text


@pytest.mark.parametrize("name", shipped_names(FOLDER))
def test_every_shipped_rig_loads_with_its_profiles_and_models(name):
    rig = Rig.load(name)
    for servo in rig.servos:
        if servo.drive == "dynamixel":
            rig.profile_of(servo)
            rig.model_of(servo)
    assert rig.name == name
    jsonschema.validate(read_toml(find_toml(name, FOLDER, RigError), RigError), rig_schema())


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        (("id = 2", "id = 1"), "servo.b.id", "1 appears twice on bus 'main'"),
        (('name = "b"', 'name = "a"'), "servo.a.name", "'a' appears twice"),
        (('joint = "b"', 'joint = "a"'), "servo.b.joint", "'a' appears twice"),
        (("id = 2", ""), "servo.b.id", "servo 'b' needs an id"),
        (
            ("[world]", '[[bus]]\nname = "l"\nport = "/dev/x"\n[[bus]]\nname = "r"\nport = "/dev/x"\n[world]'),
            "bus.r.port",
            "'/dev/x' appears twice",
        ),
        (('name = "b"', 'name = "a::b::c"'), "servo.a::b::c.name", "more than one `::`"),
        (("id = 2", 'id = 2\nbus = "left"'), "servo.b.bus", "is on bus 'left', but the rig has main"),
        (("id = 2", 'id = "2"'), "servo.b.id", "integer, not '2'"),
        (("id = 2", "id = true"), "servo.b.id", "integer, not True"),
        (
            ("id = 2", "id = 2\nposition = 2.0\nmin_stop = -1\nmax_stop = 1"),
            "servo.b.position",
            "outside the stops -1..1",
        ),
        (("id = 2", "id = 2\nmin_stop = 1\nmax_stop = 1"), "servo.b.max_stop", "both stops are at 1"),
        (
            ("id = 2", "id = 2\nmin_stop = -1\nmax_stop = 1\nmin_position = 2\nmax_position = 3"),
            "servo.b.min_position",
            "outside the stops",
        ),
        (("id = 2", "id = 2\ncontrol_pid = [0, 0, 0]"), "servo.b.control_pid", "P must be positive"),
        (("id = 2", "id = 2\ncontrol_pid = [1, 0]"), "servo.b.control_pid", "too few values"),
        (("[world]", "[robot]\nbattery = [9, 5, 0]\n[world]"), "robot.battery", "now <= most"),
        (('name = "arm"', 'name = "arm"\npath = "x"'), "path", "unknown key"),
        (("id = 2", "id = 300"), "servo.b.id", "less than or equal to 253, not 300"),
        (("id = 2", "id = 2\ndirection = 2"), "servo.b.direction", "1 or -1"),
        (("id = 2", "id = 2\nmin_position = 1.0\nmax_position = -1.0"), "servo.b.min_position", "is above"),
        (("id = 2", "id = 2\nacceleration = -3"), "servo.b.acceleration", "-1 for unlimited"),
        (("id = 2", "id = 2\nspring_constant = nan"), "servo.b.spring_constant", "finite"),
        (('urdf = "arm.urdf"', ""), "world.urdf", "missing"),
        (('name = "b"', ""), "servo.#2.name", "missing"),
        (("id = 2", "id = 2\ndirecton = 1"), "servo.b.directon", "unknown key\ndid you mean 'direction'?"),
        ((GOOD, 'name = "arm"\n[servo]\nid = 1\n'), "servo", "one table"),
        ((GOOD, 'name = "arm"\n\n[world\n'), "", "line 3"),
    ],
)
def test_a_mistake_is_named_with_file_servo_and_key(load, tmp_path, change, key, words):
    with pytest.raises(RigError) as caught:
        load(GOOD.replace(*change))
    assert caught.value.path == tmp_path / "arm.toml"
    assert caught.value.key == key
    assert words in str(caught.value)


def test_a_name_that_leads_nowhere_is_the_rigs_mistake(load, tmp_path):
    for key in ("profile", "model"):
        rig = load(GOOD.replace("id = 2", f'id = 2\n{key} = "nowhere"'))
        with pytest.raises(RigError, match="no such file or name") as caught:
            rig.model_of(rig.servos[1])
        assert (caught.value.path, caught.value.key) == (tmp_path / "arm.toml", f"servo.b.{key}")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("id = 1\nzero = -1", r"servo\.a\.zero: -1 is no position of an ax-12a\n.*0\.\.1023"),
        ("id = 1\nzero = 1024", r"servo\.a\.zero: 1024 is no position of an ax-12a"),
        (
            'id = 1\nprofile = "xl430-w250"\nzero = 2048\nregisters = { operating_mode = 5 }',
            r"registers\.operating_mode: 5 is no mode of an xl430-w250\nchoose from 1, 3, 4, 16",
        ),
        ("id = 1\n[[bus]]\nbaud = 3_000_000", r"bus\.main\.baud: an ax-12a cannot talk at 3000000 baud\nchoose"),
    ],
)
def test_what_the_model_of_a_servo_does_not_have_is_named(load, change, words):
    rig = load(GOOD.replace("id = 1", change))
    with pytest.raises(RigError, match=words):
        rig.profile_of(rig.servos[0])


def test_overrides_are_checked_like_the_file(load):
    rig = load("\ufeff" + GOOD)  # Windows' editors put a mark in front
    assert rig.overridden({"world": {"time_step_ms": 1.0}}).world.time_step_ms == 1.0
    with pytest.raises(RigError, match="world.time_step_ms"):
        rig.overridden({"world": {"time_step_ms": -1}})


def test_a_rig_changes_single_parameters_of_its_model(load):
    rig = load(GOOD.replace("id = 2", "id = 2\n[servo.params.motor]\narmature = 0.004"))
    plain, changed = (rig.model_of(servo) for servo in rig.servos)
    assert (plain.motor.armature, changed.motor.armature) == (0.0, 0.004)
    assert changed.motor.resistance == plain.motor.resistance == 8.0


def test_a_model_with_a_mistake_is_named_with_its_own_file(load, tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\n[controller]\nlaw = "magic"\n')
    rig = load(GOOD.replace("id = 2", 'id = 2\nmodel = "mine.toml"'))
    with pytest.raises(ProfileError) as caught:
        rig.model_of(rig.servos[1])
    assert (caught.value.path, caught.value.key) == (tmp_path / "mine.toml", "controller.law")


def test_another_servo_model_is_pure_and_in_every_servo_whose_firmware_has_its_law(load):
    mixed = GOOD + 'params = { motor = { armature = 0.004 } }\n[[servo]]\nname = "c"\njoint = "c"\ndrive = "ideal"\n'
    changed = load(mixed).with_model("ax12")
    assert [(servo.model, servo.params) for servo in changed.servos] == [("ax12", {}), ("ax12", {}), ("lima2009", {})]
    mx = load(GOOD.replace('name = "b"', 'name = "b"\nprofile = "mx-28"\nmodel = "mx28"'))
    assert [servo.model for servo in mx.with_model("ax12").servos] == ["ax12", "mx28"]
    assert mx.with_model(None) is mx


def test_a_servo_model_that_fits_no_servo_is_refused():
    with pytest.raises(RigError, match="'ax12' fits no servo of this rig"):
        Rig.load("xl330_pendulum").with_model("ax12")
    with pytest.raises(ProfileError, match="known names: ax12"):
        Rig.load("bench_arm").with_model("ax21")


def test_a_servo_models_file_is_meant_as_seen_from_here(tmp_path, monkeypatch):
    source = Rig.load("bench_arm").with_model("ax12")
    (tmp_path / "ax12.toml").write_bytes(source.model_of(source.servos[0]).path.read_bytes())
    monkeypatch.chdir(tmp_path)
    changed = Rig.load("bench_arm").with_model("ax12.toml")
    assert changed.model_of(changed.servos[0]).path == tmp_path / "ax12.toml"


def test_a_regulator_feeds_its_servo_and_the_bus_the_others():
    rig = Rig.load("koch")
    assert [rig.supply_of(servo) for servo in rig.servos] == [12.0, 12.0, 5.0, 5.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ({"base": "bioloid", "servo": [{"name": "head", "id": 3}]}, []),
        ({"name": "x"}, ["'servo' is a required property"]),
        ({"name": "x", "servo": [{"name": "a", "id": 1}]}, ["'joint' is a required property"]),
        ({"base": "x", "servos": []}, ["'servos' was unexpected"]),
        ({"base": "x", "servo": [{"name": "a", "drive": "magic"}]}, ["'magic' is not one of"]),
        ({"base": "x", "parameters": {"mass": 0.2}}, []),
        ({"base": "x", "path": "y"}, ["'path' was unexpected"]),
    ],
)
def test_mistakes_are_found_and_a_base_makes_keys_optional(table, wrong):
    found = [error.message for error in jsonschema.Draft202012Validator(rig_schema()).iter_errors(table)]
    assert len(found) == len(wrong)
    assert all(said in text for text, said in zip(found, wrong, strict=True))


def test_every_key_is_explained():
    schema = rig_schema()
    for table in (schema, *schema["$defs"].values()):
        for key, field in table["properties"].items():
            assert field.get("description"), key
