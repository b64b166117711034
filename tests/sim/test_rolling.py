import numpy as np
import pytest

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.servo.columns import Mode, Passive, State
from axbridge.sim.bank import ServoBank
from axbridge.sim.engine import Scene
from axbridge.sim.engines.choice import build_engine
from tests.support.one_joint import command, servo_bank

pytestmark = pytest.mark.slow

PROFILE = FirmwareProfile.load("ax-12a")
_WHEEL = """<link name="{name}_wheel"><inertial><mass value="0.05"/><inertia ixx="2.2e-5" iyy="4e-5" izz="2.2e-5"/></inertial>
<collision><origin rpy="1.5707963 0 0"/><geometry><cylinder radius="0.04" length="0.02"/></geometry></collision></link>
<joint name="{name}" type="continuous"><parent link="base"/><child link="{name}_wheel"/>
<origin xyz="0.03 {y} 0.04"/><axis xyz="0 1 0"/></joint>"""
_CART = """<robot name="cart"><link name="base"><inertial><origin xyz="0 0 0.04"/><mass value="0.5"/>
<inertia ixx="3e-4" iyy="6.4e-4" izz="8.7e-4"/></inertial></link>
<link name="skid"><inertial><mass value="0.01"/><inertia ixx="1e-6" iyy="1e-6" izz="1e-6"/></inertial>
<collision><geometry><sphere radius="0.01"/></geometry></collision>
<contact><lateral_friction value="{friction}"/></contact></link>
<joint name="s" type="fixed"><parent link="base"/><child link="skid"/><origin xyz="-0.05 0 0.01"/></joint>"""
RADIUS = 0.04  # m


def write_cart(path, friction):
    """Write the URDF of a cart on two driven wheels and a rear skid with this friction."""
    wheels = _WHEEL.format(name="left", y=0.05) + _WHEEL.format(name="right", y=-0.05)
    path.write_text(_CART.format(friction=friction) + wheels + "</robot>")
    return path


def drive(urdf, duty, engine="bullet", *, time_step=1 / 240, fixed=False):
    """Drive two wheels for 2 s; return mean speed, rad/s, and torque, N·m, of one, and the cart's speed, m/s, after 1 s."""
    scene = Scene(urdf, time_step=time_step, fixed_base=fixed, ground=not fixed, base_height=1e-4)
    engine = build_engine(engine, scene)
    model = ServoModel.load("ax12", PROFILE)
    bank = servo_bank(engine, model, "left", "right", profile=PROFILE, supply=11.1)
    command(bank, MODE=Mode.WHEEL_DUTY, DUTY=duty)
    bank.advance(1.0)
    before, angle = engine.base(), bank.positions[0]
    torques = []
    while bank.time < 2.0 - 1e-9:
        bank.advance(bank.time + 0.01)
        torques.append(bank.state[0, State.TORQUE])
    turned = bank.positions[0] - angle
    distance = 0.0 if fixed else engine.base()[0][0] - before[0][0]
    bank.close()
    return turned, np.mean(torques), distance


@pytest.mark.parametrize(
    ("engine", "time_step", "within"), [("bullet", 1 / 240, 0.03), ("bullet", 1e-3, 0.03), ("mujoco", 1 / 240, 0.01)]
)
@pytest.mark.parametrize("duty", [0.2, 0.5])
def test_rolling_wheels_have_the_speed_of_free_wheels(tmp_path, duty, engine, time_step, within):
    urdf = write_cart(tmp_path / "cart.urdf", friction=0.0)
    free, _, _ = drive(urdf, duty, engine, fixed=True)
    turned, torque, distance = drive(urdf, duty, engine, time_step=time_step)
    assert turned == pytest.approx(free, rel=within)
    assert abs(torque) < 0.005
    assert distance == pytest.approx(RADIUS * turned, rel=0.04)


@pytest.mark.bullet
def test_a_dragged_skid_costs_the_torque_of_its_friction(tmp_path):
    """At every speed the skid slips, and does not hold."""
    free, _, _ = drive(write_cart(tmp_path / "free.urdf", friction=0.0), 0.2)
    urdf = write_cart(tmp_path / "cart.urdf", friction=0.5)
    for duty in (0.12, 0.2):
        turned, torque, distance = drive(urdf, duty)
        # Each wheel has half of the friction of a third of the weight; the drag reduces the skid's load.
        assert torque == pytest.approx(0.5 * 0.5 * 2.0 * RADIUS, abs=0.007)
        assert distance == pytest.approx(RADIUS * turned, rel=0.05)
    assert turned < free


TURNTABLE = """<robot name="r"><link name="base"><inertial><origin xyz="0 0 0.02"/><mass value="1"/>
<inertia ixx="4e-3" iyy="4e-3" izz="8e-3"/></inertial>
<collision><origin xyz="0 0 0.02"/><geometry><box size="0.3 0.3 0.04"/></geometry></collision>
<contact><lateral_friction value="{}"/></contact></link>
<link name="arm"><inertial><origin xyz="0.1 0 0"/><mass value="0.2"/><inertia ixx="2e-4" iyy="2e-4" izz="2e-4"/></inertial></link>
<joint name="j" type="continuous"><parent link="base"/><child link="arm"/><origin xyz="0 0 0.02"/><axis xyz="0 0 1"/></joint>
</robot>"""


def swing(urdf, **scene):
    """Return the angles of the arm on a spring, rad, every 5 ms for 1 s."""
    engine = build_engine("bullet", Scene(urdf, start={"j": 0.3}, **scene))
    bank = ServoBank(engine, [], [11.1])
    bank.passive[0, [Passive.SPRING, Passive.DAMPING]] = 0.35, 2e-3
    angles = []
    for tick in range(1, 201):
        bank.advance(0.005 * tick)
        angles.append(bank.positions[0])
    bank.close()
    return np.array(angles)


@pytest.mark.bullet
@pytest.mark.parametrize("time_step", [1 / 240, pytest.param(1e-3, marks=pytest.mark.ci)])
@pytest.mark.parametrize(
    ("friction", "reference"), [(0.0, {"fixed_base": False, "gravity": (0, 0, 0)}), (0.5, {"fixed_base": True})]
)
def test_a_base_on_the_floor_is_held_by_friction_alone_while_a_spring_swings_on_it(
    tmp_path, friction, reference, time_step
):
    """Without friction it moves as a floating base, with friction as a fixed one, from the first step on."""
    urdf = tmp_path / "turntable.urdf"
    urdf.write_text(TURNTABLE.format(friction))
    scenes = reference, {"fixed_base": False, "ground": True}
    expected, angles = (swing(urdf, time_step=time_step, **scene) for scene in scenes)
    assert min(expected) < -0.2  # 17 degrees and 2 Hz
    assert np.abs(expected - angles).max() < 0.003  # rad
