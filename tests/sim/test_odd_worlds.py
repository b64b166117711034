import math
import re

import numpy as np
import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import RigError, RigWarning, SimulationDiverged
from axbridge.servo.columns import Mode, State
from axbridge.sim.engine import Scene
from axbridge.sim.engines.choice import build_engine
from axbridge.virtual.assembly import build_bank
from tests.support.one_joint import command, left_alone, order
from tests.support.robot_files import write_comb

pytestmark = pytest.mark.slow

BASE = '<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'
ARM = """<link name="arm">{shape}<inertial><origin xyz="0 0 {centre}"/><mass value="{mass}"/>
<inertia ixx="{moments[0]}" iyy="{moments[1]}" izz="{moments[2]}"/></inertial></link>"""
JOINT = """<joint name="j" type="{kind}"><parent link="base"/><child link="arm"/><axis xyz="0 -1 0"/>
<limit lower="{stops[0]}" upper="{stops[1]}" effort="9" velocity="9"/>{extra}</joint>"""
SEEN = "<{0}><geometry><mesh filename='claw.stl'/></geometry></{0}>"  # the file does not exist
GOAL = math.radians(57)


@pytest.fixture(params=["bullet", "mujoco"])
def engine(request):
    return request.param


@pytest.fixture
def rig(tmp_path, engine):
    """Return a function that writes a rig with one servo, and loads it."""

    def write(
        extra="", moments=(3.5e-4,) * 3, shape="", stops=(-2, 2), centre=0, servo="",
        mass=0.05, kind="revolute", joint="j", world="",
    ):  # fmt: skip
        arm = ARM.format(moments=moments, shape=shape, centre=centre, mass=mass)
        turns = JOINT.format(extra=extra, stops=stops, kind=kind)
        (tmp_path / "arm.urdf").write_text(f"<robot name='r'>{BASE}{arm}{turns}</robot>")
        path = tmp_path / "arm.toml"
        servo = servo if "model" in servo else f'model = "lima2009"\n{servo}'
        path.write_text(
            f'name = "arm"\n[world]\nurdf = "arm.urdf"\nengine = "{engine}"\n{world}\n'
            f'[[servo]]\nname = "a"\njoint = "{joint}"\nid = 1\n{servo}\n'
        )
        return Rig.load(path)

    return write


def end(rig, goal=GOAL, seconds=3.0):
    """Return the final angle of a servo with this goal, rad, and its highest speed, rad/s."""
    bank = build_bank(rig)
    order(bank, goal)
    fastest = 0.0
    while bank.time < seconds:
        bank.advance(bank.time + 0.005)
        fastest = max(fastest, abs(bank.speeds[0]))
    angle = bank.positions[0]
    bank.close()
    return angle, fastest


def test_damping_of_the_urdf_slows_a_joint_and_is_stable(rig):
    angle, fastest = end(rig('<dynamics damping="0.5"/>', shape=SEEN.format("visual")))  # its mesh is not read
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


def test_inertia_with_rounding_errors_is_used_unchanged(tmp_path, rig, engine):
    speeds = []
    for moments in ((1e-4, 2.001e-4, 1e-4), (1.001e-4, 2.001e-4, 1.001e-4)):  # the joint's axis is that of 2.001e-4
        rig(moments=moments, centre=-0.02)
        world = build_engine(engine, Scene(tmp_path / "arm.urdf", gravity=(0.0, 0.0, 0.0), start={"j": 0.5}))
        left_alone(world, 0.06, spring=2e-3)
        speeds.append(world.state()[1][0])
        world.close()
    assert speeds[0] == pytest.approx(speeds[1], rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"extra": '<mimic joint="thumb"/>'}, "joint 'j' mimics 'thumb', which is not simulated: it needs a servo"),
        ({"servo": "static_friction = 9.0"}, "'a': dry friction takes all of its stall torque of 2.4 N·m"),
    ],
)
def test_an_unusual_rig_is_simulated_with_a_warning(rig, changes, words):
    with pytest.warns(RigWarning, match=words):
        build_bank(rig(**changes)).close()


def test_an_overloaded_servo_sinks_and_a_warning_names_the_load_that_it_can_hold(rig):
    """Its resistance grows with the duty; otherwise it would hold 3.4 N·m."""
    heavy = rig(moments=(1, 1, 1), centre=-4, servo='model = "ax12"\nposition = 1.5')
    with pytest.warns(RigWarning, match=r"carries 1\.96 N·m at the start, and holds 1\.45 N·m at most: it will sink"):
        angle, _ = end(heavy, goal=1.5)
    assert angle < 1.0


def test_a_box_slides_on_the_floor_with_the_friction_of_the_urdf(tmp_path, engine):
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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"joint": "elbow"}, r"arm.urdf: elbow: the URDF has no such joint\nmovable joints: j$"),
        ({"kind": "fixed"}, r"arm.urdf: j: this joint is fixed\nmovable joints: none$"),
        ({"extra": '<dynamics damping="-0.1"/>'}, r"arm.urdf: j: its <dynamics> has a negative figure\nno joint gains"),
        (
            {"stops": (0.5, 2)},
            r"arm.urdf: j: it starts at 0, outside its stops 0.5..2\nwrite position = 0.5 in the rig, in radians",
        ),
        (
            {"servo": "[servo.params.friction]\nviscous = -0.1"},
            r"arm.toml: servo.a.params.friction.viscous: must be at least 0, not -0.1$",
        ),
        (
            {"servo": "[servo.params.motor]\narmatur = 0.1"},
            r"arm.toml: servo.a.params.motor.armatur: unknown key\ndid you mean 'armature'\?$",
        ),
        ({"servo": "[servo.params.gear]\nratio = 3"}, r"arm.toml: servo.a.params.gear: unknown key\nknown keys: "),
        ({"servo": 'model = "lima"'}, r"arm.toml: servo.a.model: .*no such file or name\ndid you mean 'lima2009'\?"),
    ],
)
def test_an_invalid_world_is_refused_with_the_file_the_key_and_the_fix(rig, changes, words):
    with pytest.raises(RigError, match=words):
        build_bank(rig(**changes))


LIGHT = {"moments": (1e-4,) * 3, "centre": -0.1, "mass": 0.1}


@pytest.mark.filterwarnings("ignore:.*it will sink:axbridge.errors.RigWarning")
def test_a_diverging_world_stops_with_the_joint_and_the_time_and_without_an_alarm_about_motors(rig, capfd):
    with (
        pytest.raises(SimulationDiverged, match=r"joint 'j' diverged at t = 0\.\d+ s\ncheck the link's inertia"),
        axbridge.open(rig(world="gravity = [1e12, 0, 0]", **LIGHT)) as robot,
    ):
        robot.goto({"a": 0.5}, 1.0)
    assert "powered" not in capfd.readouterr().err


@pytest.mark.parametrize("time_step_ms", [4.1667, 4.167, 3.3333])
def test_a_rounded_physics_step_does_not_make_the_states_late(rig, time_step_ms):
    bank = build_bank(rig(world=f"time_step_ms = {time_step_ms}", **LIGHT))
    for cycle in range(1, 51):
        bank.advance(0.02 * cycle)
        assert bank.time == pytest.approx(0.02 * cycle, abs=1e-9)
    bank.close()


@pytest.mark.parametrize("time_step_ms", [3.7, 7.0, 33.0])
def test_a_physics_step_need_not_divide_the_control_period(rig, time_step_ms):
    ends = []
    for step in (1.0, time_step_ms):
        bank = build_bank(rig(world=f"time_step_ms = {step}", **LIGHT))
        order(bank, 0.8)
        angles = []
        for tick in range(1, 41):
            bank.advance(0.02 * tick)
            assert 0.02 * tick - bank.time < 1.0e-3  # never more than a substep behind
            angles.append(bank.positions[0])
        bank.close()
        ends.append(angles)
    assert np.degrees(np.abs(np.subtract(*ends))).max() < (0.35 if time_step_ms < 10 else 2.0)


@pytest.mark.parametrize("time_step_ms", [3.7, 8.3333, 33.0])
def test_samples_are_of_the_requested_time_with_every_physics_step(rig, time_step_ms):
    world = f"time_step_ms = {time_step_ms}\ngravity = [0, 0, 0]"
    bank = build_bank(rig(kind="continuous", world=world, **LIGHT))
    command(bank, MODE=Mode.WHEEL_DUTY, DUTY=1)
    angles = []
    for tick in range(50, 101):
        bank.advance(0.02 * tick)
        angles.append(bank.sampled(np.array([0]), [0.02 * tick])[0, [State.ANGLE, State.READING]])
    distances = np.diff(angles, axis=0)
    assert distances == pytest.approx(0.02 * bank.state[0, State.SPEED], rel=1e-4)
    bank.close()


def test_an_unstable_loop_is_bounded_by_its_supply_and_not_clamped(rig):
    loop = "[servo.params.controller]\nk_omega = -500.0\n[servo.params.friction]\nviscous = 0.0"
    bank = build_bank(rig(servo=loop, **LIGHT | {"moments": (1e-6,) * 3}))
    order(bank, 0.5)
    fastest = 0.0
    for tick in range(1, 200):
        bank.advance(0.005 * tick)
        fastest = max(fastest, abs(bank.speeds[0]))
    assert math.isfinite(fastest)
    assert 3.0 < fastest < 30.0  # no load: 6.4 rad/s
    bank.close()


def test_a_generated_urdf_of_forty_joints_on_one_line_is_simulated(tmp_path, engine):
    rig = write_comb(tmp_path, 40)
    rig.write_text(rig.read_text().replace("[world]", f'[world]\nengine = "{engine}"'))
    urdf = tmp_path / "comb.urdf"
    one_line = re.sub(r"\s*\n\s*", "", urdf.read_text())
    assert "\n" not in one_line
    urdf.write_text(one_line)
    with axbridge.open(rig) as robot:
        robot["s40"].set_position(0.3)
        for _ in range(50):
            robot.step()
        assert robot["s40"].position == pytest.approx(0.3, abs=0.02)
    assert urdf.read_text() == one_line
