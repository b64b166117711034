"""The rig's methods give its links with the rig's parameters; an ideal joint may move a link without mass."""

import numpy as np
import pytest

import axbridge
from axbridge.cli.verify import suited
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import copy_rig
from axbridge.motion.gait import Gait, Walk
from axbridge.motion.mirror import signs
from axbridge.recording.provenance import describe, rig_of
from axbridge.recording.recording import Recording
from axbridge.robot.pose_check import impossible
from axbridge.robot.rig_check import check_rig, positive_directions
from axbridge.sim.body.inverse_dynamics import Body

EYE = """<robot name="eye">
  <link name="base"/>
  <link name="arm">
    <inertial><mass value="0.1"/>
    <inertia ixx="0.0001" iyy="0.0001" izz="0.0001" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><box size="0.02 0.02 0.1"/></geometry></visual>
  </link>
  <link name="eye"><visual><geometry><sphere radius="0.01"/></geometry></visual></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>
  <joint name="pan" type="continuous"><parent link="arm"/><child link="eye"/><axis xyz="0 0 1"/></joint>
</robot>
"""


@pytest.fixture
def heavy(tmp_path):
    """Return a Bioloid whose torso's mass is a parameter."""
    path, urdf = copy_rig(Rig.load("bioloid"), tmp_path / "heavy")
    urdf.write_text(urdf.read_text().replace('<mass value="0.861"/>', '<mass value="${torso_mass}"/>'))
    path.write_text('parameters.torso_mass = { value = 0.861, unit = "kg" }\n' + path.read_text())
    return Rig.load(path)


@pytest.fixture
def with_eye(tmp_path):
    """Return an arm with an eye without mass, on an ideal joint."""
    (tmp_path / "eye.urdf").write_text(EYE)
    servos = 'name = "shoulder"\njoint = "shoulder"\nid = 1\n[[servo]]\nname = "pan"\njoint = "pan"\ndrive = "ideal"'
    (tmp_path / "eye.toml").write_text(f'name = "eye"\nworld.urdf = "eye.urdf"\n[[servo]]\n{servos}\n')
    return Rig.load(tmp_path / "eye.toml")


def test_a_robot_walks_with_a_torso_whose_mass_is_a_parameter(heavy):
    same, walk = Walk.of(Rig.load("bioloid"), Gait()), Walk.of(heavy, Gait())
    assert np.array_equal(walk.angles_at, same.angles_at)
    assert heavy.tree().mass[0] == 0.861
    assert heavy.overridden({"parameters": {"torso_mass": 1.5}}).tree().mass[0] == 1.5


@pytest.mark.parametrize("which", ["heavy", "with_eye"])
def test_every_function_on_links_uses_parameters_and_accepts_a_link_without_mass(which, request):
    rig = request.getfixturevalue(which)
    start = {servo.name: servo.position for servo in rig.servos}
    check_rig(rig)
    positive_directions(rig)
    signs(rig)
    suited(rig)
    Body.of(rig, {servo.joint: servo.position for servo in rig.servos})
    assert rig.specs[rig.servos[0].name].stops
    impossible(rig, start, dict.fromkeys(start, (-9.0, 9.0)))
    rig.shapes("visual")


@pytest.mark.slow
@pytest.mark.parametrize("which", ["heavy", "with_eye"])
def test_such_robots_are_shown_and_recorded(which, request, tmp_path):
    pytest.importorskip("websockets")
    rig = request.getfixturevalue(which)
    name = rig.servos[0].name
    with (
        axbridge.open(rig) as robot,
        robot.view(port=0, open=False),
        axbridge.Recorder(tmp_path / "a.mcap", describe(rig)) as recorder,
    ):
        axbridge.RobotRecorder(robot, recorder)
        robot[name].set_position(0.2)
        while robot.time < 0.2:
            robot.step()


@pytest.mark.parametrize("which", ["heavy", "with_eye"])
def test_such_robots_are_exported_to_mujoco(which, request):
    mujoco = pytest.importorskip("mujoco")
    from axbridge.export.mjcf import to_mjcf

    rig = request.getfixturevalue(which)
    model = mujoco.MjModel.from_xml_string(to_mjcf(rig))
    assert model.body_mass.sum() == pytest.approx(rig.tree().mass.sum())


def test_the_rig_of_a_recording_uses_the_recorded_files(heavy, tmp_path):
    changed = heavy.overridden({"parameters": {"torso_mass": 1.5}})
    stored = Recording(tmp_path / "gone" / "a.mcap", {}, (), {}, describe(changed))
    for rig in (rig_of(stored), rig_of(stored).overridden({"robot": {"basic_time_step_ms": 10}})):
        assert rig.tree().mass[0] == 1.5
        assert len(rig.shapes("collision")) == len(heavy.shapes("collision"))
