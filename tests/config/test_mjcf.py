"""Robots in MJCF as rigs: where links are, what is left out, and what is refused."""

import mujoco
import numpy as np
import pytest

from axbridge.config.mjcf import find_mjcf, read_mjcf
from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.errors import RigError
from axbridge.sim.body.kinematics import posed

INERTIA = '<inertial pos="0.01 0 0.02" mass="0.1" diaginertia="1e-4 2e-4 2.5e-4"/>'
ARM = f"""
<mujoco model="arm">
  <asset><mesh name="wedge" vertex="0 0 0  0.03 0 0  0 0.03 0  0 0 0.03"/></asset>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="base" pos="0.1 0 0.2" euler="0 0 30">{INERTIA}<geom type="box" size="0.02 0.03 0.01"/>
      <body name="upper" pos="0 0 0.05" euler="20 0 0">{INERTIA}
        <joint name="yaw" axis="0 0 1" pos="0.01 0.02 0" range="-90 90" damping="0.1"/>
        <joint name="pitch" axis="0 1 0" pos="0 0 0.01" armature="0.01"/>
        <geom type="capsule" size="0.01 0.03"/>
        <body name="lower" pos="0.08 0 0" quat="0.9 0.1 0.3 0.2">{INERTIA}
          <joint name="reach" type="slide" axis="1 0 0" range="0 0.05"/>
          <joint name="roll" axis="1 0 0" pos="0 0 -0.02" range="-60 45" ref="10" frictionloss="0.1"/>
          <geom type="mesh" mesh="wedge" contype="0" conaffinity="0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><position joint="roll"/><position joint="yaw"/></actuator>
</mujoco>"""
FREE = ARM.replace('<body name="base" pos="0.1 0 0.2"', '<body name="base" pos="0.1 0 0.0"').replace(
    f'{INERTIA}<geom type="box"', f'<freejoint/>{INERTIA}<geom type="box"'
)  # fmt: skip


def written(folder, text):
    path = folder / "robot.xml"
    path.write_text(text)
    return path


def test_links_are_where_mujoco_has_them_whatever_the_joints_are(tmp_path):
    path = written(tmp_path, ARM)
    robot = read_mjcf(path)
    tree = read_tree(tmp_path / "arm.urdf", fixed_base=True, text=robot.urdf)
    assert set(tree.names) == {"yaw", "pitch", "reach", "roll"}
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    for seed in range(5):
        angles = np.random.default_rng(seed).uniform(-0.4, 0.4, 4)
        values = dict(zip(("yaw", "pitch", "reach", "roll"), angles.tolist(), strict=True))
        for name, value in values.items():
            data.joint(name).qpos[0] = model.qpos0[model.joint(name).qposadr[0]] + value
        mujoco.mj_kinematics(model, data)
        where = posed(tree, tree.pose(values)[None])
        for body in ("upper", "lower"):
            assert where.centres[tree.links.index(body), 0] == pytest.approx(data.body(body).xipos, abs=1e-7)
    limits = {joint.name: (joint.low, joint.high) for joint in tree.joints}
    assert np.degrees(limits["roll"]) == pytest.approx((-70, 35), abs=1e-4)  # 0 is where it starts
    assert limits["pitch"] == (-np.inf, np.inf)


def test_servo_parameters_are_left_out_and_actuators_select_the_joints(tmp_path):
    robot = read_mjcf(written(tmp_path, ARM))
    assert robot.joints == ("yaw", "roll")
    losses = tuple(f"1 joint with {loss}" for loss in ("damping", "armature", "dry friction"))
    assert robot.dropped == ("2 actuators", *losses)
    assert "dynamics" not in robot.urdf
    assert (robot.free, robot.height) == (False, 0.0)
    assert list(robot.meshes) == ["meshes/wedge.stl"]


def test_a_robot_that_stands_free_begins_on_the_floor(tmp_path):
    robot = read_mjcf(written(tmp_path, FREE))
    assert robot.free
    assert 0.01 <= robot.height < 0.05


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name="pitch" axis="0 1 0"', 'name="pitch" type="ball"', "ball joint 'pitch'"),
        ("<actuator>", '<tendon><fixed name="rope"><joint joint="yaw" coef="1"/></fixed></tendon><actuator>', "tendon 'rope'"),
        ("<actuator>", '<equality><connect name="loop" body1="lower" body2="base" anchor="0 0 0"/></equality><actuator>', "equality 'loop'"),
        ("<worldbody>", f'<worldbody><body name="two">{INERTIA}<joint name="other"/></body>', "2 bodies in the world move: two, base"),
        ("</mujoco>", "", "MuJoCo cannot compile it"),
    ],
)  # fmt: skip
def test_unsupported_mjcf_elements_are_refused_by_name(tmp_path, old, new, said):
    with pytest.raises(RigError, match=said):
        read_mjcf(written(tmp_path, ARM.replace(old, new)))


def test_a_refused_file_writes_nothing_and_replaces_nothing(said, tmp_path):
    written(tmp_path, ARM)
    arm = ("rig", "new", "made", "--mjcf", "robot.xml")
    for bad in ("", "--servo none-such", "--servo sts3215 --ids 6-1", "--servo sts3215 --ids 1-9"):
        said(*arm, *bad.split(), code=2)
        assert not (tmp_path / "made").exists()
    said(*arm, "--servo", "sts3215", "--urdf", "robot.urdf", code=2)
    mine = tmp_path / "made" / "made.urdf"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert "made.urdf is already there" in said(*arm, "--servo", "sts3215", code=2)
    assert mine.read_text() == "mine"
    said(*arm, "--servo", "sts3215", "--force")
    assert mine.read_text() != "mine"


def test_a_mesh_whose_name_is_a_path_stays_in_the_folder_of_meshes(tmp_path):
    robot = read_mjcf(written(tmp_path, ARM.replace('"wedge"', '"../../wedge"')))
    assert list(robot.meshes) == ["meshes/_wedge_0.stl"]


def test_without_the_package_a_robot_by_name_is_refused_with_the_command_that_installs_it():
    with pytest.raises(RigError, match="pip install mujoco-menagerie"):
        find_mjcf("robotstudio_so101")


@pytest.mark.slow
@pytest.mark.parametrize(("rig", "profile"), [("so101", "sts3215-12v"), ("koch", "xl330-m288"), ("leg", "ax-12a")])
def test_a_rig_that_was_written_as_mjcf_is_the_same_robot_again(said, tmp_path, rig, profile):
    said("export", "mujoco", rig, "--out", "robot.xml")
    own = Rig.load(rig)
    new = f"rig new made --mjcf robot.xml --servo {profile} --ids 1-{len(own.servos)}"
    assert "left out, because the servo model brings it" in said(*new.split())
    said("rig", "check", "made")
    made = Rig.load(str(tmp_path / "made"))
    first, other = own.tree(), made.tree()
    here, there = (posed(tree, tree.pose({})[None]) for tree in (first, other))
    for joint, link in first.moved.items():
        copy = other.moved[joint]
        assert there.axis[copy, 0] == pytest.approx(here.axis[link, 0], abs=1e-6)
        assert there.centres[copy, 0] == pytest.approx(here.centres[link, 0], abs=1e-6)
        assert other.mass[copy] == pytest.approx(first.mass[link])
