"""Invalid rigs: `rig check` reports each mistake with the line to write, and `open` raises the same message."""

import re

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, RigError
from axbridge.robot.rig_check import check_rig

RIG = """
name = "r"
[[bus]]
supply_voltage = 11.1
[world]
urdf = "r.urdf"
fixed_base = false
ground = true
base_height = 0.05
[[servo]]
name = "hip"
joint = "hip"
id = 1
min_position = -1.0
max_position = 1.0
[[servo]]
name = "knee"
joint = "knee"
id = 2
"""
INERTIAL = '<inertial><mass value="1"/><inertia ixx="{0}" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/></inertial>'
BOX = '<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'
JOINT = (
    '<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><axis xyz="0 0 1"/>'
    '<limit lower="-2.5" upper="2.5" effort="1" velocity="1"/></joint>'
)
URDF = (
    f'<robot name="r"><link name="base">{INERTIAL.format("1e-3")}{BOX}</link>'
    f'<link name="thigh">{INERTIAL.format("1e-3")}</link><link name="shank">{INERTIAL.format("1e-3")}</link>'
    f"{JOINT.format('hip', 'base', 'thigh')}{JOINT.format('knee', 'thigh', 'shank')}</robot>"
)
NO_MASS = re.compile(rf'(<link name="(thigh|shank)">){re.escape(INERTIAL.format("1e-3"))}')
KNEE = 'joint = "knee"\nid = 2\n'
LIMIT = 'lower="-2.5" upper="2.5"'
X = 'profile = "xl330-m288"\nzero = 2048\n'
MESH = '<collision><geometry><mesh filename="{0}"/></geometry></collision>'
OBJ = "v 0 0 0\nv 50 0 0\nv 0 50 0\nv 0 0 50\nf 1 2 3\nf 1 2 4\n"


@pytest.fixture
def made(tmp_path):
    def make(rig, urdf):
        (tmp_path / "r.urdf").write_text(urdf)
        (tmp_path / "big.obj").write_text(OBJ)
        (tmp_path / "r.toml").write_text(rig)
        return tmp_path / "r.toml"

    return make


def knee(line):
    return lambda rig, urdf: (rig.replace(KNEE, f"{KNEE}{line}\n"), urdf)


def hip(old, new):
    return lambda rig, urdf: (rig.replace(old, new, 1), urdf)


def table(line):
    return lambda rig, urdf: (f"{rig}{line}\n", urdf)


def model(old, new):
    return lambda rig, urdf: (rig, urdf.replace(old, new, 1))


def bolted(change):
    return lambda rig, urdf: change(rig.replace("fixed_base = false\nground = true\nbase_height = 0.05", ""), urdf)


def stop(lower, upper):
    return model(LIMIT, f'lower="{lower}" upper="{upper}"')


BROKEN = {
    "start above the URDF's stops": (knee("position = 2.6"), "it starts at 2.6, outside its stops", "position = 2.5"),
    "start below the URDF's stops": (knee("position = -3"), "it starts at -3, outside its stops", "position = -2.5"),
    "stops without 0": (
        lambda rig, urdf: (rig.replace("min_position = -1.0\nmax_position = 1.0\n", ""), stop(0.05, 1.2)(rig, urdf)[1]),
        "it starts at 0, outside its stops 0.05..1.2",
        "position = 0.05",
    ),
    "start outside the rig's stops": (
        knee("min_stop = 0.5\nmax_stop = 1.0"), "servo.knee.position: 0 is outside the stops", "start between them"
    ),
    "supply of the bus": (
        lambda rig, urdf: (rig.replace(KNEE, KNEE + X), urdf),
        "bus.main.supply_voltage: 11.1 V is more voltage than knee (xl330-m288) takes: 7 V at most",
        "supply_voltage = 5",
    ),
    "supply that is left out": (
        lambda rig, urdf: (rig.replace("supply_voltage = 11.1", "").replace(KNEE, KNEE + X), urdf), "7 V at most", "5"
    ),
    "supply of a regulator": (knee("supply_voltage = 18.0"), "servo.knee.supply_voltage: 18 V is more voltage", "12"),
    "supply of an AX": (hip("supply_voltage = 11.1", "supply_voltage = 16.8"), "hip, knee (ax-12a)", "12"),
    "supply above a limit that the rig sets": (
        knee("registers = { max_voltage_limit = 100 }"), "knee (ax-12a) takes: 10 V at most", "supply_voltage = 10"
    ),
    "equal limits": (knee("min_position = 0.5\nmax_position = 0.5"), "both limits are at 0.5 rad", "room to move"),
    "swapped limits": (knee("min_position = 0.5\nmax_position = -0.5"), "min_position 0.5 is above", "exchange them"),
    "equal stops": (knee("min_stop = 0.5\nmax_stop = 0.5"), "both stops are at 0.5", "room to move"),
    "swapped limits of the URDF": (stop(0.5, -0.5), "hip: its lower limit 0.5 is above the upper -0.5", "exchange"),
    "zero limits of the URDF": (stop(0, 0), "hip: both of its limits are at 0, so it cannot move", "continuous"),
    "equal limits of the URDF": (stop(0.3, 0.3), "hip: both of its limits are at 0.3", 'type="fixed"'),
    "no limits of the URDF": (model(LIMIT, ""), "both of its limits are at 0", "write where its travel ends"),
    "no <limit>": (model(f'<limit {LIMIT} effort="1" velocity="1"/>', ""), "without <limit>", "add <limit"),
    "a limit in degrees": (
        knee("min_position = -30.0\nmax_position = 30.0"), "min_position: -30 rad is 4.8 turns", "-30 degrees are -0.52"
    ),
    "a stop in degrees": (knee("min_stop = -10.0\nmax_stop = 10.0"), "max_stop: 10 rad is 1.6 turns", "are 0.1745"),
    "a start in degrees": (knee("position = 20.0"), "position: 20 rad is 3.2 turns", "20 degrees are 0.3491"),
    "many degrees": (knee("position = 90.0"), "servo.knee.position: 90 rad is 14 turns", "90 degrees are 1.571"),
    "limits of the URDF in degrees": (stop(-90, 90), "hip: its limit -90 rad is 14 turns", "-90 degrees are -1.571"),
    "an upper limit of the URDF in degrees": (stop(0, 180), "its limit 180 rad is 29 turns", "degrees are 3.142"),
    "parking in degrees": (table('[safety]\non_exit = "park"\npark = { hip = 45.0 }'), "45 rad is beyond", "0.7854"),
    "nothing that touches the floor": (model(BOX, ""), "no link has a <collision>", "<collision><geometry>"),
    "a start inside the floor": (
        hip("base_height = 0.05", "base_height = 0.01"), "'base' starts 40 mm inside", "base_height = 0.05"
    ),
    "a start below the floor": (
        hip("base_height = 0.05", "base_height = -0.2"), "starts 250 mm inside the floor", "base_height = 0.05"
    ),
    "no height": (hip("base_height = 0.05\n", ""), "starts 50 mm inside the floor", "base_height = 0.05"),
    "a body that cannot be": (
        model('ixx="1e-3"', 'ixx="9e-3"'), "no body has the principal inertia", "sum of the other two"
    ),
    "inertia of a house": (lambda rig, urdf: (rig, urdf.replace('="1e-3"', '="1e3"', 3)), "of a body 32 m wide", "metres"),
    "two links of one name": (model('link name="shank"', 'link name="thigh"'), "thigh: several links", "rename one"),
    "two joints of one name": (model('joint name="knee"', 'joint name="hip"'), "hip: several joints", "rename one"),
    "no inertia": (model('ixx="1e-3"', 'ixx="0"'), "principal inertia 0", "both must be positive"),
    "a negative mass": (model('mass value="1"', 'mass value="-1"'), "mass -1 kg", "both must be positive"),
    "a mass in grams": (
        lambda rig, urdf: (rig, urdf.replace('mass value="1"', 'mass value="1e6"').replace("1e6", "1", 2)),
        "shank: a mass of 1e+06 kg", "write kg in the <mass> of a URDF",
    ),
    "no mass of two links": (
        lambda rig, urdf: (rig, NO_MASS.sub(r"\1", urdf)), "thigh, shank: no mass or inertia", "add <inertial>"
    ),
    "an ideal joint that is not there, and a link without mass": (
        lambda rig, urdf: (rig.replace(KNEE, 'joint = "knees"\ndrive = "ideal"\n'), NO_MASS.sub(r"\1", urdf)),
        "knees: no joint has this name", "its joints: hip, knee",
    ),
    "a mesh that is not there": (
        model(BOX, MESH.format("no.stl")), "the mesh 'no.stl' of its <collision> is not there", "put the file there"
    ),
    "a mesh in millimetres": (
        bolted(model(BOX, MESH.format("big.obj"))), "'big.obj' is 50 m long", 'scale="0.001 0.001 0.001"'
    ),
    "a joint that is not there": (hip('joint = "knee"', 'joint = "nee"'), "joint 'nee' is not in", "hip, knee"),
    "a joint that slides": (
        model('name="knee" type="revolute"', 'name="knee" type="prismatic"'), "a Dynamixel turns", "revolute"
    ),
    "an axis without length": (model('xyz="0 0 1"', 'xyz="0 0 0"'), "its axis has no length", 'xyz="0 0 1"'),
    "two parents": (model('parent link="thigh"/><child link="shank"', 'parent link="base"/><child link="thigh"'), "two", ""),
    "a profile that is not there": (knee('profile = "ax-13"'), "servo.knee.profile", "known names"),
    "a model that is not there": (knee('model = "ax21"'), "servo.knee.model", "known names"),
    "a zero beyond the counts": (knee("zero = 2048"), "2048 is no position of an ax-12a", "512 is the middle"),
    "two servos with one id": (hip("id = 2", "id = 1"), "1 appears twice on bus 'main'", "another id"),
    "a sensor on no link": (table('[[sensor]]\nname = "i"\nkind = "imu"\nlink = "head"'), "'head' is not in", "base"),
}  # fmt: skip


def refusal(use, path):
    with pytest.raises(AxBridgeError) as caught:
        use(Rig.load(path))
    return str(caught.value)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rig_is_refused_by_check_and_open_alike_with_the_line_to_write(name, made):
    change, words, line = BROKEN[name]
    rig, urdf = change(RIG, URDF)
    assert (rig, urdf) != (RIG, URDF)
    path = made(rig, urdf)
    said = refusal(check_rig, path)
    assert words in said
    assert line in said.replace(words, "", 1)
    assert refusal(lambda loaded: axbridge.open(loaded, "sim", engine="mujoco"), path) == said


ENDLESS = "cw_angle_limit = 0, ccw_angle_limit = 0"
WHEEL = f"registers = {{ {ENDLESS} }}\nmin_position = -20\nmax_position = 20"
SOUND = {
    "the rig that they were made of": lambda rig, urdf: (rig, urdf),
    "more voltage that a bit of the rig lets a servo bear": hip(
        "id = 2", 'id = 2\nprofile = "ax-18a"\nregisters = { shutdown = 36 }\nsupply_voltage = 19.0'
    ),
    "a wheel with limits beyond a turn": lambda rig, urdf: stop(-20, 20)(
        rig.replace(KNEE, f"{KNEE}{WHEEL}\n"),
        urdf.replace('"hip"', '"x"').replace('"knee"', '"hip"').replace('"x"', '"knee"'),
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_rig_is_accepted(made, name):
    check_rig(Rig.load(made(*SOUND[name](RIG, URDF))))


def test_all_mistakes_are_listed_at_once(made):
    rig = RIG.replace("base_height = 0.05", "base_height = 0.01").replace(KNEE, f"{KNEE}position = 3.0\n")
    path = made(rig.replace("supply_voltage = 11.1", "supply_voltage = 16.8"), URDF)
    with pytest.raises(RigError) as caught:
        check_rig(Rig.load(path))
    assert [mistake.key for mistake in caught.value.mistakes] == [
        "bus.main.supply_voltage", "servo.knee.position", "world.base_height"
    ]  # fmt: skip
    assert str(caught.value).startswith(f"{path}: 3 mistakes:\n")


def test_mistakes_of_several_servos_are_listed_at_once(made):
    degrees = "min_position = -90\nmax_position = 90\n"
    rig = RIG.replace("min_position = -1.0\nmax_position = 1.0\n", degrees).replace(KNEE, f"{KNEE}{degrees}")
    path = made(rig.replace("supply_voltage = 11.1", 'supply_voltage = "11.1"'), URDF)
    with pytest.raises(RigError) as caught:
        Rig.load(path)
    assert [mistake.key for mistake in caught.value.mistakes] == [
        "bus.#1.supply_voltage", "servo.hip.min_position", "servo.knee.min_position"
    ]  # fmt: skip
    assert 'not "11.1"\n' in str(caught.value)  # no hint follows


def test_a_wrong_servo_is_not_also_a_missing_one(made):
    with pytest.raises(RigError) as caught:
        Rig.load(made(RIG.replace('joint = "knee"\n', ""), URDF))
    assert caught.value.key == "servo.knee.joint"
    assert not caught.value.mistakes


def test_all_impossible_inertias_limits_and_missing_meshes_are_listed_at_once(made):
    urdf = URDF.replace('ixx="1e-3"', 'ixx="9e-3"').replace(LIMIT, 'lower="0" upper="0"')
    urdf = urdf.replace(BOX, MESH.format("a.stl") + MESH.format("b.stl"))
    with pytest.raises(RigError) as caught:
        check_rig(Rig.load(made(RIG, urdf)))
    said = str(caught.value)
    assert said.count("no body has the principal inertia") == 3
    assert said.count("both of its limits are at 0") == 2
    assert "'a.stl' of its <collision> is not there" in said
    assert "'b.stl' of its <collision> is not there" in said


def test_a_bolted_base_may_be_heavy_and_a_missing_picture_is_named(made):
    heavy = URDF.replace('mass value="1"', 'mass value="1000"', 1)
    urdf = heavy.replace(BOX, MESH.format("no.stl").replace("collision", "visual"))
    checked = check_rig(Rig.load(made(bolted(lambda *both: both)(RIG, URDF)[0], urdf)))
    assert "base (no.stl): the mesh of its <visual> is not there, so it is not drawn" in checked.assumed


def test_a_joint_without_end_goes_as_far_as_its_servo(made):
    urdf = URDF.replace('type="revolute"', 'type="continuous"')
    checked = check_rig(Rig.load(made(RIG, urdf)))
    assert any("knee: turns about z, -150 to 150°" in line for line in checked.tree)
    assert "knee: no min_position and max_position: it can hit its end stops" in checked.assumed


def test_the_assumptions_name_a_fixed_base_a_zero_and_a_bus_only_if_one_is_used(made):
    bolted_rig, _ = bolted(lambda rig, urdf: (rig, urdf))(RIG, URDF)
    driven = check_rig(Rig.load(made(bolted_rig, URDF))).assumed
    assert "base is bolted down: fixed_base = true, and no floor" in driven
    assert [line for line in driven if "zero" in line] == [
        'hip, knee: profile = "ax-12a", model = "ax12", zero = 512, direction = 1'
    ]
    assert any(line.startswith("bus main: ") for line in driven)
    ideal = bolted_rig.replace("id = 1", 'drive = "ideal"').replace("id = 2", 'drive = "ideal"')
    assert not any("bus" in line or "zero" in line for line in check_rig(Rig.load(made(ideal, URDF))).assumed)
