"""What a URDF says beyond masses and shapes is honoured; what cannot be, or looks odd, is told."""

import math

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.errors import RigError, RigWarning
from axbridge.servo.columns import Command
from axbridge.sim.engine import Scene
from axbridge.sim.engines.choice import build_engine
from axbridge.virtual.assembly import build_bank
from tests.support.joints import left_alone

pytestmark = pytest.mark.slow

BASE = '<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'
ARM = """<link name="arm">{shape}<inertial><origin xyz="0 0 {centre}"/><mass value="0.05"/>
<inertia ixx="{moments[0]}" iyy="{moments[1]}" izz="{moments[2]}"/></inertial></link>"""
JOINT = """<joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 -1 0"/>
<limit lower="{stops[0]}" upper="{stops[1]}" effort="9" velocity="9"/>{extra}</joint>"""
GOAL = math.radians(57)


@pytest.fixture(params=["bullet", "mujoco"])
def engine(request):
    return request.param


@pytest.fixture
def rig(tmp_path, engine):
    """Writes a rig with one servo, and loads it."""

    def write(extra="", moments=(3.5e-4, 3.5e-4, 3.5e-4), shape="", stops=(-2, 2), centre=0, servo=""):
        arm = ARM.format(moments=moments, shape=shape, centre=centre)
        joint = JOINT.format(extra=extra, stops=stops)
        (tmp_path / "arm.urdf").write_text(f"<robot name='r'>{BASE}{arm}{joint}</robot>")
        path = tmp_path / "arm.toml"
        path.write_text(
            f'name = "arm"\n[world]\nurdf = "arm.urdf"\nengine = "{engine}"\n[[servo]]\nname = "a"\njoint = "j"\nid = 1\n{servo}\n'
        )
        return Rig.load(path)

    return write


def end(rig, goal=GOAL, seconds=3.0):
    """Where a servo ends that is sent to `goal`, rad, and its highest speed, rad/s."""
    bank = build_bank(rig)
    row = np.zeros(len(Command))
    row[[Command.TORQUE, Command.TORQUE_LIMIT, Command.GOAL]] = 1, 1, goal
    bank.set_command(0, row, 0.0)
    fastest = 0.0
    while bank.time < seconds:
        bank.advance(bank.time + 0.005)
        fastest = max(fastest, abs(bank.speeds[0]))
    angle = bank.positions[0]
    bank.close()
    return angle, fastest


def test_damping_of_the_urdf_slows_a_joint_and_does_not_blow_it_up(rig):
    angle, fastest = end(rig('<dynamics damping="0.5"/>'))
    assert angle == pytest.approx(GOAL, abs=0.005)
    free_angle, free = end(rig())
    assert free_angle == pytest.approx(GOAL, abs=0.005)
    assert fastest == pytest.approx(free * 0.387 / 0.887, rel=0.15)  # back-EMF and gear alone lose 0.387 N·m·s/rad


def test_friction_of_the_urdf_holds_a_joint(rig):
    heavy = {"moments": (1e-3, 1e-3, 1e-3), "centre": -0.1}
    for friction, held in ((0.04, True), (0.001, False)):
        bank = build_bank(rig(f'<dynamics friction="{friction}"/>', servo="position = 0.8", **heavy))
        bank.advance(3.0)
        assert (abs(bank.positions[0] - 0.8) < 1e-3) == held
        bank.close()


def test_damping_and_friction_cannot_be_negative(rig):
    with pytest.raises(RigError, match=r"arm.urdf: j: its <dynamics> has a negative figure\nno joint gains energy"):
        build_bank(rig('<dynamics damping="-0.1"/>'))


def test_inertia_that_no_body_has_is_refused_with_its_three_figures(rig):
    with pytest.raises(
        RigError, match=r"arm: no body has the principal inertia 0.0001, 0.0001, 0.0005 kg·m²\neach must"
    ):
        build_bank(rig(moments=(1e-4, 5e-4, 1e-4)))


def test_inertia_that_was_rounded_is_taken_as_it_stands(tmp_path, rig, engine):
    speeds = []
    for moments in ((1e-4, 2.001e-4, 1e-4), (1.001e-4, 2.001e-4, 1.001e-4)):  # only the axis of 2.001e-4 turns
        rig(moments=moments, centre=-0.02)
        world = build_engine(engine, Scene(tmp_path / "arm.urdf", gravity=(0.0, 0.0, 0.0), start={"j": 0.5}))
        left_alone(world, 0.06, spring=2e-3)
        speeds.append(world.state()[1][0])
        world.close()
    assert speeds[0] == pytest.approx(speeds[1], rel=1e-4)


def test_a_joint_that_mimics_another_is_told_to_move_on_its_own(rig):
    with pytest.warns(RigWarning, match="joint 'j' mimics 'thumb', which is not simulated: it moves on its own"):
        build_bank(rig('<mimic joint="thumb"/>')).close()


def test_a_mesh_to_touch_things_with_that_is_missing_is_named_and_one_to_look_at_is_no_matter(rig):
    shape = "<{0}><geometry><mesh filename='claw.stl'/></geometry></{0}>"
    with pytest.raises(RigError, match=r"arm.urdf: arm: the mesh 'claw.stl' of its <collision> is not there\nput the"):
        build_bank(rig(shape=shape.format("collision")))
    assert end(rig(shape=shape.format("visual")))[0] == pytest.approx(GOAL, abs=0.005)


def test_a_start_outside_the_stops_of_the_urdf_is_refused(rig):
    with pytest.raises(RigError, match=r"arm.urdf: j: it starts at 0, outside its stops 0.5..2\nwrite position = …"):
        build_bank(rig(stops=(0.5, 2)))


def test_limits_in_degrees_are_refused_with_what_they_would_be(rig):
    with pytest.raises(RigError, match=r"min_position: -70 rad is 11 turns.*\n.*-70 degrees are -1.222"):
        rig(servo="min_position = -70\nmax_position = 70")


def test_a_servo_that_cannot_overcome_its_friction_is_told(rig):
    with pytest.warns(RigWarning, match="servo 'a': dry friction of 9 N·m is above its stall torque of 2.4 N·m"):
        build_bank(rig(servo="static_friction = 9.0")).close()


def test_a_servo_that_cannot_hold_its_load_is_told(rig):
    with pytest.warns(RigWarning, match=r"servo 'a' carries 2\.\d+ N·m at the start, and holds 2\.4 N·m"):
        build_bank(rig(moments=(1, 1, 1), centre=-6, servo="position = 1.5")).close()


def test_the_measured_servo_is_told_what_its_winding_lets_it_hold_and_does_sink(rig):
    """Its resistance grows with the duty: without that it would hold 3.4 N·m."""
    heavy = rig(moments=(1, 1, 1), centre=-4, servo='model = "ax12"\nposition = 1.5')
    with pytest.warns(RigWarning, match=r"carries 1\.96 N·m at the start, and holds 1\.45 N·m at most: it will sink"):
        angle, _ = end(heavy, goal=1.5)
    assert angle < 1.0


def test_a_box_slides_on_the_floor_by_the_friction_that_the_urdf_says(tmp_path, engine):
    body = """<robot name="r"><link name="box"><contact><lateral_friction value="{}"/></contact>
<inertial><mass value="1"/><inertia ixx="1e-2" iyy="1e-2" izz="1e-2"/></inertial>
<collision><geometry><box size="0.3 0.3 0.1"/></geometry></collision></link></robot>"""
    urdf, slope = tmp_path / "box.urdf", math.radians(20)  # tan = 0.364
    down = (9.81 * math.sin(slope), 0.0, -9.81 * math.cos(slope))
    for friction, acceleration in ((0.3, 9.81 * (math.sin(slope) - 0.3 * math.cos(slope))), (0.45, 0.0)):
        urdf.write_text(body.format(friction))
        world = build_engine(engine, Scene(urdf, fixed_base=False, ground=True, base_height=0.05, gravity=down))
        left_alone(world, 1.0)
        assert world.base()[0][0] == pytest.approx(0.5 * acceleration, abs=0.02)
        world.close()
