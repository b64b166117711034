import copy
import math
import pickle
import sys
import time
from dataclasses import FrozenInstanceError

import jsonschema  # comes with nbclient
import pytest

import axbridge
from axbridge.config.profile import FOLDER as PROFILES
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import FOLDER, Rig, rig_schema
from axbridge.config.toml_tables import find_toml, read_toml, shipped_names
from axbridge.errors import ProfileError, RigError
from axbridge.recording.provenance import describe
from axbridge.robot.rig_check import check_rig

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


BUS = '[[bus]]\nname = "{}"\nport = "/dev/x"\n'
STOPS = "id = 2\nmin_stop = -1\nmax_stop = 1"


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
            assert rig.specs[servo.name].profile
            assert rig.specs[servo.name].model
    assert rig.name == name
    jsonschema.validate(read_toml(find_toml(name, FOLDER, RigError), RigError), rig_schema())


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        (('name = "b"', 'name = "a"'), "servo.a.name", "'a' appears twice"),
        (('joint = "b"', 'joint = "a"'), "servo.b.joint", "'a' appears twice"),
        (("id = 2", ""), "servo.b.id", "servo 'b' needs an id"),
        (("[world]", f"{BUS.format('l')}{BUS.format('r')}[world]"), "bus.r.port", "'/dev/x' appears twice"),
        (('name = "b"', 'name = "a::b::c"'), "servo.a::b::c.name", "more than one `::`"),
        (("id = 2", 'id = 2\nbus = "left"'), "servo.b.bus", "is on bus 'left', but the rig has main"),
        (("id = 2", "id = true"), "servo.b.id", "must be a whole number, not true"),
        (("id = 2", f"{STOPS}\nmin_position = 2\nmax_position = 3"), "servo.b.min_position", "outside the stops"),
        (("id = 2", "id = 2\ncontrol_pid = [0, 0, 0]"), "servo.b.control_pid", "P must be positive"),
        (("id = 2", "id = 2\ncontrol_pid = [1, 0]"), "servo.b.control_pid", "too few values"),
        (("[world]", '[safety]\non_exit = "park"\n[world]'), "safety", "needs a pose: park ="),
        (("[world]", "[robot]\nbattery = [9, 5, 0]\n[world]"), "robot.battery", "now <= most"),
        (('name = "arm"', 'name = "arm"\npath = "x"'), "path", "unknown key"),
        (("[world]", '[webots]\naliases = { eye = "eye" }\n[world]'), "webots.aliases.eye", "is an alias of itself"),
        (("id = 2", "id = 2\ndirection = 2"), "servo.b.direction", "1 or -1"),
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


def test_a_folder_without_a_rig_is_not_called_missing(tmp_path):
    (tmp_path / "arm").mkdir()
    with pytest.raises(RigError, match=r"this folder has no arm\.toml"):
        Rig.load(tmp_path / "arm")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            'id = 1\nprofile = "xl430-w250"\nzero = 2048\nregisters = { operating_mode = 5 }',
            r"registers\.operating_mode: 5 is no mode of an xl430-w250\nchoose from 1, 3, 4, 16",
        ),
        (
            'id = 1\nprofile = "xl430-w250"\nzero = 3548\nregisters = { homing_offset = 1500 }',
            r"homing_offset: .*\(3\) ignores .* ±1024.*\n.*registers = \{ homing_offset = 1500, operating_mode = 4 \}",
        ),
        (
            'id = 1\nprofile = "xl330-m288"\nzero = 2048\nmax_position = 2.5\nregisters = { homing_offset = -512 }',
            r"max_position: 0 to 2\.5 rad lead across .* at 2\.35\d rad.*\n.*homing_offset = -512, operating_mode = 4 \}",
        ),
        (
            'id = 1\nprofile = "mx-28-2.0"\nzero = 100\ndirection = -1\nmin_position = -0.5\nmax_position = 0.5',
            r"servo\.a\.max_position: -0\.5 to 0\.5 rad lead across the end of its turn at 0\.153 rad",
        ),
        (
            'id = 1\nprofile = "mx-28"\nzero = 2048\nregisters = { cw_angle_limit = 4095 }',
            r"registers\.cw_angle_limit: .* of 4095 select the multi-turn mode, which cannot be driven\nset cw_angle_limit",
        ),
        ("id = 1\n[[bus]]\nbaud = 3_000_000", r"bus\.main\.baud: an ax-12a cannot talk at 3000000 baud\nchoose"),
    ],
)
def test_registers_and_values_that_a_servo_lacks_are_refused_by_name(load, change, words):
    rig = load(GOOD.replace("id = 1", change))
    with pytest.raises(RigError, match=words):
        assert rig.specs[rig.servos[0].name].profile


@pytest.mark.parametrize(
    "settings",
    [
        "zero = 3548\nregisters = { homing_offset = 1500, operating_mode = 4 }",
        "zero = 4500\nregisters = { homing_offset = 1500, operating_mode = 4 }",  # within the first turn there
        "zero = 2048\nmax_position = 2.5\nregisters = { homing_offset = -512, operating_mode = 4 }",
        "zero = 2048\nmin_position = -3.14159\nmax_position = 3.14159",
        "zero = 2048\nregisters = { homing_offset = -512 }",
    ],
)
def test_effective_offsets_and_ranges_within_a_turn_are_accepted(load, settings):
    rig = load(GOOD.replace("id = 1", f'id = 1\nprofile = "xl430-w250"\n{settings}'))
    assert rig.specs[rig.servos[0].name].profile.name == "xl430-w250"


def test_overrides_are_checked_like_the_file(load):
    rig = load("\ufeff" + GOOD)  # Windows' editors put a mark in front
    assert rig.overridden({"world": {"time_step_ms": 1.0}}).world.time_step_ms == 1.0
    with pytest.raises(RigError, match="world.time_step_ms"):
        rig.overridden({"world": {"time_step_ms": -1}})


def test_stops_without_a_world_are_those_of_the_rig_or_none(load):
    rig = load(GOOD.replace('[world]\nurdf = "arm.urdf"\n', "").replace("id = 2", STOPS))
    assert [rig.specs[servo.name].stops for servo in rig.servos] == [(-math.inf, math.inf), (-1.0, 1.0)]


def test_limits_are_the_stops_of_the_urdf_where_the_rig_has_none():
    rig = Rig.load("so101")
    assert rig.specs["gripper"].limits == (-0.1745, 1.74533)
    wider = rig.with_servos(lambda _: {"min_position": -2.0, "max_position": 2.0})
    assert wider.specs["gripper"].limits == (-2.0, 2.0)


def test_the_stops_of_a_joint_that_the_urdf_lacks_are_refused():
    rig = Rig.load("so101").with_servos(lambda _: {"joint": "elbow"})
    with pytest.raises(RigError, match="joint 'elbow' is not in so101.urdf"):
        _ = rig.specs["gripper"].stops


def test_a_model_with_a_mistake_is_named_with_its_own_file(load, tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\n[controller]\nlaw = "magic"\n')
    rig = load(GOOD.replace("id = 2", 'id = 2\nmodel = "mine.toml"'))
    with pytest.raises(ProfileError) as caught:
        assert rig.specs[rig.servos[1].name].model
    assert (caught.value.path, caught.value.key) == (tmp_path / "mine.toml", "controller.law")


def test_with_model_replaces_the_model_of_every_servo_that_has_its_law(load):
    mixed = GOOD + 'params = { motor = { armature = 0.004 } }\n[[servo]]\nname = "c"\njoint = "c"\ndrive = "ideal"\n'
    changed = load(mixed).with_model("ax12")
    assert [(servo.model, servo.params) for servo in changed.servos] == [("ax12", {}), ("ax12", {}), ("", {})]
    mx = load(GOOD.replace('name = "b"', 'name = "b"\nprofile = "mx-28"\nmodel = "mx28"'))
    assert [servo.model for servo in mx.with_model("ax12").servos] == ["ax12", "mx28"]
    assert mx.with_model(None) is mx


def test_a_servo_model_that_fits_no_servo_is_refused():
    for rig, model in (("xl330_pendulum", "ax12"), ("bench_arm", "xl330")):  # without gains of this law
        with pytest.raises(RigError, match=f"'{model}' fits no servo of this rig"):
            Rig.load(rig).with_model(model)
    with pytest.raises(ProfileError, match="known names: ax12"):
        Rig.load("bench_arm").with_model("ax21")


def test_the_path_of_a_model_file_is_relative_to_the_working_directory(tmp_path, monkeypatch):
    source = Rig.load("bench_arm").with_model("ax12")
    (tmp_path / "ax12.toml").write_bytes(source.specs[source.servos[0].name].model.path.read_bytes())
    monkeypatch.chdir(tmp_path)
    changed = Rig.load("bench_arm").with_model("ax12.toml")
    assert changed.specs[changed.servos[0].name].model.path == tmp_path / "ax12.toml"


@pytest.mark.parametrize(
    ("given", "profile", "model"),
    [
        ("", "ax-12a", "ax12"),
        *((f'profile = "{name}"', name, FirmwareProfile.load(name).model) for name in shipped_names(PROFILES)),
        ('model = "ax18"', "ax-18a", "ax18"),
        ('model = "lima2009"', "ax-12a", "lima2009"),
        ('model = "mx28-2.0"', "mx-28-2.0", "mx28-2.0"),
        ('model = "sts3215_12v"', "sts3215-12v", "sts3215_12v"),
        ('model = "mine.toml"', "ax-18a", "mine.toml"),
        ('profile = "ax-12a"\nmodel = "ax18"', "ax-12a", "ax18"),
    ],
)
def test_a_servo_has_its_profiles_own_model_and_its_models_own_profile(given, profile, model, load, tmp_path):
    (tmp_path / "mine.toml").write_text('base = "ax18"\nname = "mine"\n')
    rig = load(f'name = "one"\n[world]\nurdf = "x"\n[[servo]]\nname = "a"\njoint = "a"\nid = 1\n{given}\n')
    for tried in (rig, rig.overridden({"world": {"gui": True}})):
        servo = tried.servos[0]
        assert (servo.profile, servo.model) == (profile, model)
        assert tried.specs[servo.name].model.name == model.removesuffix(".toml")


@pytest.mark.parametrize("base", ["bare_horn", "bench_arm"])
@pytest.mark.parametrize(
    ("given", "model", "slope"),
    [
        ('profile = "ax-18a"', "ax18", None),
        ('profile = "sts3215-12v"\nzero = 2048', "sts3215_12v", None),
        ('profile = "ax-12a"', None, 0.4),
        ('profile = "ax-18a"\nmodel = "ax12"', "ax12", 0.4),
    ],
)
def test_a_profile_that_differs_from_the_bases_selects_its_own_model(base, given, model, slope, load, tmp_path):
    name = Rig.load(base).servos[0].name
    middle = (
        f'base = "{base}"\n[[servo]]\nname = "{name}"\nmodel = "ax12"\nparams = {{ controller = {{ slope = 0.4 }} }}\n'
    )
    (tmp_path / "middle.toml").write_text(middle)
    servo = load(f'base = "middle.toml"\n[[servo]]\nname = "{name}"\n{given}\n').servos[0]
    assert servo.model == (model or "ax12")
    assert servo.params == ({} if slope is None else {"controller": {"slope": slope}})


@pytest.mark.parametrize(
    ("profile", "model", "words"),
    [
        ("sts3215", "xl330", "'xl330' is a model of the xl330-m288, and this servo is a sts3215"),
        ("xl430-w250", "lima2009", "'lima2009' is a model of the ax-12a, and this servo is a xl430-w250"),
        ("mx-28-2.0", "mx28", "'mx28' is a model of the mx-28, and this servo is a mx-28-2.0"),
        ("scs0009", "sts3215", "'sts3215' is a model of the sts3215"),
        ("ax-18a", "xl430", "'xl430' has the law pid, for which a ax-18a has no registers"),
    ],
)
def test_a_model_of_another_family_is_refused_by_check_and_open_alike(profile, model, words, load, tmp_path):
    horn = f'base = "bare_horn"\nname = "x"\n[[servo]]\nname = "horn"\nprofile = "{profile}"\nmodel = "{model}"\nsupply_voltage = 7.0\n'
    rig = load(horn)
    for use in (check_rig, axbridge.open):
        with pytest.raises(RigError) as caught:
            use(rig)
        assert caught.value.key == "servo.horn.model"
        assert words in caught.value.message
        assert f'write model = "{FirmwareProfile.load(profile).model}"' in caught.value.hint


def test_a_servo_with_a_regulator_has_its_voltage_and_the_others_that_of_the_bus():
    rig = Rig.load("koch")
    assert [rig.specs[servo.name].supply for servo in rig.servos] == [12.0, 12.0, 5.0, 5.0, 5.0, 5.0]


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
    errors = [error.message for error in jsonschema.Draft202012Validator(rig_schema()).iter_errors(table)]
    assert len(errors) == len(wrong)
    assert all(said in text for text, said in zip(errors, wrong, strict=True))


def test_every_key_is_explained():
    schema = rig_schema()
    for table in (schema, *schema["$defs"].values()):
        for key, field in table["properties"].items():
            assert field.get("description"), key


BASE = GOOD.replace("[world]", "[[bus]]\nsupply_voltage = 9.6\n[world]").replace("id = 1", "id = 1\nmax_velocity = 2.0")
BASE += 'profile = "mine.toml"\nmodel = "ident.toml"\nparams = { motor = { armature = 0.5 } }\n'


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
    assert rig.specs[rig.servos[1].name].profile.name == "mine"
    assert rig.specs[rig.servos[1].name].model.name == "ident"
    assert rig.overridden({"world": {"time_step_ms": 1.0}}).urdf_path() == folders / "base" / "arm.urdf"
    assert str(folders) not in str(describe(rig)["rig"])  # a recording has no paths of this machine
    (folders / "mine" / "arm.urdf").write_text("<robot/>")
    assert rig.urdf_path() == folders / "mine" / "arm.urdf"  # the rig's own file has priority
    for place in ("mine", "base"):
        (folders / place / "arm.urdf").unlink()
    with pytest.raises(RigError, match=str(folders / "base" / "arm.urdf")):
        rig.urdf_path()


def test_a_shipped_rig_is_a_base_from_any_folder(folders):
    text = 'base = "bench_arm"\n[[servo]]\nname = "shoulder"\nid = 7\n'
    rig = Rig.load(write(folders, text, "bench_arm.toml"))  # the file may have its base's name
    assert (rig.servos[0].id, rig.servos[0].max_stop) == (7, 2.617)
    assert "<robot" in rig.urdf_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('base = "arm"', "base: no 'arm' beside this file"),  # a file in the working directory is no base
        ('base = "biolod"', "did you mean 'bioloid'"),
        ('base = "over.toml"', "leads back to this file"),
        ('base = "../base/arm.toml"\n' + '[[servo]]\nname = "a"\njoint = "a"\nid = 5\n' * 2, "servo.a.name: 'a' appears twice"),
    ],
)  # fmt: skip
def test_a_mistake_with_a_base_is_named(folders, text, words):
    (folders / "desk" / "arm.toml").write_text(BASE)
    with pytest.raises(RigError, match=words):
        Rig.load(write(folders, text))


def test_a_mistake_in_the_base_is_named_with_its_own_file(folders):
    (folders / "base" / "arm.toml").write_text(BASE.replace("id = 2", "id = 300"))
    with pytest.raises(RigError, match=r"servo\.b\.id") as caught:
        Rig.load(write(folders, 'base = "../base/arm.toml"'))
    assert caught.value.path == folders / "base" / "arm.toml"


def test_servos_and_buses_are_merged_by_name_along_the_chain_and_new_ones_come_last(folders):
    changed = '[[servo]]\nname = "a"\nid = 9\nmax_position = 1.0\nmin_position = -1.0\n'
    write(folders, f'base = "../base/arm.toml"\n[[bus]]\nport = "/dev/left"\n{changed}')
    added = '[[servo]]\nname = "c"\njoint = "c"\nid = 3\n[[servo]]\nname = "b"\nid = 8\n'
    rig = Rig.load(write(folders, f'base = "over"\n{added}', "third.toml"))
    assert [(servo.name, servo.id) for servo in rig.servos] == [("a", 9), ("b", 8), ("c", 3)]
    assert (rig.servos[0].max_velocity, rig.servos[0].soft_limits) == (2.0, (-1.0, 1.0))
    assert rig.servos[1].soft_limits == (-math.inf, math.inf)
    assert (rig.buses[0].port, rig.buses[0].supply_voltage) == ("/dev/left", 9.6)
    assert rig.urdf_path().parent == folders / "base"


def test_constants_of_the_bases_model_do_not_change_another_model(folders):
    plain = Rig.load(write(folders, 'base = "../base/arm.toml"'))
    assert plain.specs["b"].model.motor.armature == 0.5
    other = Rig.load(write(folders, 'base = "../base/arm.toml"\n[[servo]]\nname = "b"\nmodel = "lima2009"\n'))
    assert other.specs["b"].model.motor.armature == 0.0


ASKS = sys.version_info < (3, 14)  # from then on a name that is too long is a file that is not there


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a = " + "[" * 3000 + "]" * 3000, "is nested too deeply"),
        ("a = " + "{a=" * 3000 + "1" + "}" * 3000, "is nested too deeply"),
        (".".join(["a"] * 3000) + " = 1", "is nested too deeply"),
        ("a = " + "9" * 100_000, "has a number that is too large"),
        ('base = "a\\u0000b"', "base: is damaged: "),
        (f'base = "{"a" * 5000}"', "base: File name too long" if ASKS else "base: no "),
        ("world.time_step_ms = 1e-9", "world.time_step_ms: must be at least 0.01"),
        ("robot.basic_time_step_ms = 1e300", "robot.basic_time_step_ms: must be at most 60000"),
        ("safety.stale_command_ms = 1e300", "safety.stale_command_ms: must be at most 60000"),
        (f"world.base_height = {'9' * 400}", "world.base_height: "),
        (f'world.urdf = "{"a" * 5000}"', "File name too long" if ASKS else "world.urdf: no such file"),
        ('world.urdf = "a\\u0000b"', "world.urdf: has control characters"),
        ('name = "red\\u001b[31m"', "name: has control characters"),
        ('servo = [{ name = "a\\u0007" }]', "name: has control characters"),
        ('parameters = { "a\\u009b" = 1.0 }', "parameters: has control characters"),
        ('base = "\\u001b"', r"base: no '\x1b' beside this file"),
    ],
)  # fmt: skip
def test_a_rig_that_makes_no_sense_is_refused_in_two_lines(load, line, said):
    base = "" if line.startswith("base") else 'base = "bench_arm"\n'
    with pytest.raises(RigError) as caught:
        check_rig(load(f"{base}{line}\n"))
    first, *hint = str(caught.value).splitlines()
    assert "arm.toml: " in first
    assert said in first
    assert len(hint) <= 1
    assert len(first) < 6000


URDF = """<robot name="r"><link name="l0"/>{links}{joints}</robot>"""
SOLID = """<link name="l{0}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>"""
HINGE = """<joint name="j{0}" type="continuous"><parent link="l{1}"/><child link="l{0}"/></joint>"""


@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.slow
def test_a_rig_of_three_thousand_links_is_checked_at_once(load, tmp_path, chain):
    count = 3000
    links = "".join(SOLID.format(k) for k in range(1, count))
    joints = "".join(HINGE.format(k, k - 1 if chain else 0) for k in range(1, count))
    (tmp_path / "arm.urdf").write_text(URDF.format(links=links, joints=joints))
    start = time.process_time()
    checked = check_rig(load(GOOD.replace('joint = "a"', 'joint = "j7"').replace('joint = "b"', 'joint = "j8"')))
    assert time.process_time() - start < 10  # 60 s when every link looked at every joint; a chain ended in a traceback
    assert len(checked.tree) == count
    assert checked.tree[7].lstrip(" └─├│").startswith("j7: turns about x")


def test_thousands_of_links_without_a_parent_are_not_all_listed(load, tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF.format(links="".join(SOLID.format(k) for k in range(1, 3000)), joints=""))
    with pytest.raises(RigError, match=r"3000 links have no parent: l0, l1, .* and 2990 more\njoin them"):
        check_rig(load(GOOD))


def test_a_servo_is_resolved_once_and_again_in_a_changed_rig():
    rig = Rig.load("bioloid")
    first, second = (rig.specs[servo.name] for servo in rig.servos[:2])
    assert rig.specs[rig.servos[0].name] is first
    assert first.model is first.model is second.model  # the file is read once for equal servos
    with pytest.raises(FrozenInstanceError):
        first.config = second.config
    heavier = rig.with_servos(lambda _: {"params": {"motor": {"armature": 0.5}}})
    copies, own = (copy.deepcopy(rig), pickle.loads(pickle.dumps(rig))), first.model.motor.armature
    rigs = (heavier, 0.5), (rig.with_model("lima2009"), 0.0), *((each, own) for each in copies)
    for changed, armature in rigs:
        spec = changed.specs[first.config.name]
        assert (spec.rig is changed, spec.model.motor.armature) == (True, armature)
    assert rig == Rig.load("bioloid")
    assert len(pickle.dumps(rig)) < 1.1 * len(pickle.dumps(Rig.load("bioloid")))
