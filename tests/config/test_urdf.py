import re

import numpy as np
import pytest

from axbridge.comparison.recorded_runs import arm_of
from axbridge.config.rig import Rig
from axbridge.config.ros2_control import read_ros2_control
from axbridge.config.urdf import read_shapes, read_tree
from axbridge.errors import RigError

LINK = '<link name="{0}"><inertial><mass value="1"/><inertia ixx="1" iyy="2" izz="2"/></inertial></link>'
JOINT = '<joint name="{0}" type="{1}"><parent link="base"/><child link="arm"/>{2}</joint>'


def written(tmp_path, *parts):
    path = tmp_path / "robot.urdf"
    path.write_text(f"<robot name='r'>{''.join(parts)}</robot>")
    return path


def test_joints_come_with_their_stops_and_kind(tmp_path):
    limit = '<limit lower="-1" upper="0.5"/><axis xyz="0 0 2"/>'
    tree = read_tree(
        written(tmp_path, LINK.format("base"), LINK.format("arm"), JOINT.format("j", "prismatic", limit)),
        fixed_base=True,
    )
    (joint,) = tree.joints
    assert (joint.name, joint.linear, joint.low, joint.high) == ("j", True, -1, 0.5)
    assert tree.axis[1].tolist() == [0, 0, 1]


def test_inertia_is_turned_into_the_link_frame(tmp_path):
    turned = (
        '<link name="arm"><inertial><origin rpy="0 0 1.5707963267948966" xyz="0.1 0 0"/><mass value="1"/>'
        '<inertia ixx="1" iyy="2" izz="2.5"/></inertial></link>'
    )
    tree = read_tree(
        written(tmp_path, LINK.format("base"), turned, JOINT.format("j", "continuous", "")), fixed_base=True
    )
    assert np.allclose(np.diag(tree.inertia[1]), [2, 1, 2.5])
    assert tree.centre[1].tolist() == [0.1, 0, 0]


INERTIAL = '<link name="arm"><inertial><mass value="{}"/><inertia/></inertial></link>'


@pytest.mark.parametrize(
    ("arm", "joint", "message"),
    [
        (INERTIAL.format("1 kg"), ("continuous", ""), "arm: '1 kg' should be 1 finite number"),
        (LINK.format("arm"), ("floating", ""), "'floating' are not supported\nuse one of fixed, revolute"),
        (LINK.format("arm"), None, "2 links have no parent"),
        ("", ("revolute", ""), "child link 'arm' is not there"),
        (LINK.format("arm"), ("continuous", '<axis xyz="0 0 nan"/>'), "'0 0 nan' should be 3 finite numbers"),
        ("<link", None, "not a readable URDF"),
        (LINK.format("arm"), ("prismatic", ""), "a prismatic joint without <limit>"),
    ],
)
def test_invalid_urdfs_are_refused_by_name(tmp_path, arm, joint, message):
    path = written(tmp_path, LINK.format("base"), arm, JOINT.format("j", *joint) if joint else "")
    with pytest.raises(RigError, match=message):
        read_tree(path, fixed_base=True)


def test_a_urdf_in_another_encoding_is_refused_by_each_reader(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_bytes('<?xml version="1.0" encoding="latin-1"?><robot name="Käfer"/>'.encode("latin-1"))
    for read in (lambda: read_tree(path, fixed_base=True), lambda: read_ros2_control(path)):
        with pytest.raises(RigError, match="is no text: .*\nsave it as UTF-8"):
            read()


def test_a_urdf_without_links_and_a_loop_of_joints_are_refused_as_such(tmp_path):
    with pytest.raises(RigError, match="it has no links"):
        read_tree(written(tmp_path), fixed_base=True)
    there, back = JOINT.format("j", "continuous", ""), JOINT.format("k", "continuous", "")
    back = back.replace('"base"', '"b"').replace('"arm"', '"base"').replace('"b"', '"arm"')
    with pytest.raises(RigError, match="its joints form a loop"):
        read_tree(written(tmp_path, LINK.format("base"), LINK.format("arm"), there, back), fixed_base=True)


SHAPES = """<material name="red"><color rgba="1 0 0 1"/></material><link name="a">
  <contact><lateral_friction value="0.8"/></contact>
  <collision><geometry><box size="1 2 3"/></geometry></collision>
  <visual><origin xyz="0 0 1"/><geometry><cylinder radius="0.1" length="2"/></geometry><material name="red"/></visual>
  <visual><geometry><mesh filename="missing.stl"/></geometry></visual>
  <visual><geometry><capsule radius="3" length="1"/></geometry>
    <material name="own"><color rgba="0 1 0 1"/></material></visual>
  <visual><geometry><sphere radius="3"/></geometry></visual></link>"""


def test_visual_shapes_have_size_position_and_colour_and_collision_shapes_their_friction(tmp_path):
    path = written(tmp_path, SHAPES)
    first, second, third = read_shapes(path, "visual")
    assert (first.kind, first.size, first.colour) == ("cylinder", (0.1, 2.0), (1, 0, 0))
    assert first.place.tolist() == [0, 0, 1]
    assert (second.kind, second.size, second.colour) == ("capsule", (3.0, 1.0), (0, 1, 0))
    assert (third.kind, third.size, third.colour) == ("sphere", (3.0,), None)
    (shape,) = read_shapes(path, "collision")
    assert (shape.link, shape.kind, shape.size, shape.friction) == ("a", "box", (1.0, 2.0, 3.0), 0.8)


@pytest.mark.parametrize(
    ("form", "words"),
    [("", "its <visual> has no shape"), ("<cone/>", "use one of box"), ('<box size="1 2"/>', "'1 2' should be 3")],
)
def test_a_shape_that_cannot_be_read_is_refused(tmp_path, form, words):
    with pytest.raises(RigError, match=words):
        read_shapes(written(tmp_path, f'<link name="a"><visual><geometry>{form}</geometry></visual></link>'), "visual")


def values(rig):
    return {name: parameter.value for name, parameter in rig.parameters.items()}


def test_parameters_are_set_behind_the_name_in_python_and_in_a_rig_built_on_another(tmp_path):
    assert values(Rig.load("pendulum")) == {"mass": 0.1, "length": 0.1}
    assert values(Rig.load("pendulum:mass=0.2,length=0.15")) == {"mass": 0.2, "length": 0.15}
    assert values(Rig.load("pendulum").overridden({"parameters": {"mass": 0.3}})) == {"mass": 0.3, "length": 0.1}
    path = tmp_path / "heavy.toml"
    path.write_text('base = "pendulum"\nname = "heavy"\n[parameters.mass]\nvalue = 0.4\n')
    heavy = Rig.load(f"{path}:length=0.2")
    assert values(heavy) == {"mass": 0.4, "length": 0.2}
    assert heavy.parameters["mass"].max == Rig.load("pendulum").parameters["mass"].max


def test_the_urdf_of_a_world_contains_the_parameters():
    text = Rig.load("pendulum:mass=0.25,length=0.2").urdf_text()
    assert '<mass value="0.25"/>' in text
    assert '<origin xyz="0 0 -0.2"/>' in text
    assert "${" not in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pendulum:mas=0.2", "parameters.mas: rig 'pendulum' has no such parameter\nit has: mass (kg), length (m)"),
        ("bench_arm:mass=0.2", "no such parameter\nit has: none"),
        ("pendulum:mass=-1", "parameters.mass.value: -1 is outside 0.001..5 kg"),
        ("pendulum:length=9", "9 is outside 0.01..2 m"),
        ("pendulum:mass=heavy", "parameters.mass: 'heavy' is no number\nwrite mass=0.1"),
        ("pendulum:mass=", "'' is no number"),
        ("pendulum:mass=nan", "finite number, not nan"),
        ("pendulum:mass", "no such file or name"),
    ],
)
def test_a_mistake_in_a_parameter_names_it_and_the_fix(name, words):
    with pytest.raises(RigError, match=re.escape(words)):
        Rig.load(name)


@pytest.mark.parametrize(
    ("urdf", "words"),
    [
        ("${mass} ${width}", r"arm.urdf: \$\{width\} names no parameter\n.*parameters of the rig: mass"),
        ("nothing", r"parameters.mass: arm.urdf has no \$\{mass\}"),
        ("${mass} ${0.5 * mass}", r"arm.urdf: \$\{0.5 \* mass\} names no parameter"),
        ("${mass} ${mass }", r"\$\{mass \} names no parameter"),
        ("${mass} ${" + 5000 * "(" + "}", "names no parameter"),
    ],
)
def test_a_mistake_in_the_urdf_names_it(tmp_path, urdf, words):
    (tmp_path / "arm.urdf").write_text(urdf)
    rig = tmp_path / "arm.toml"
    rig.write_text(
        'name = "arm"\n[world]\nurdf = "arm.urdf"\n[parameters]\nmass = 0.1\n[[servo]]\nname="a"\njoint="a"\nid=1\n'
    )
    with pytest.raises(RigError, match=words):
        Rig.load(rig).urdf_text()


def test_closed_form_and_world_have_the_same_arm():
    rig = Rig.load("pendulum:mass=0.2,length=0.15")
    arm = arm_of(rig, rig.servos[0])
    assert arm.inertia == pytest.approx(0.2 * 0.15**2 + 4.84e-6)
    assert arm.gravity == pytest.approx(0.2 * 9.81 * 0.15)
