import math
import sys
from contextlib import closing

import numpy as np
import pytest

import axbridge
from axbridge.config.registers import AX
from axbridge.config.rig import Rig
from axbridge.errors import RigError, RigWarning, UnsupportedOperation, UsageError
from axbridge.rotations import roll_pitch_yaw
from axbridge.sim.engine import Scene
from axbridge.sim.engines import choice
from axbridge.sim.engines.mujoco.engine import MujocoEngine
from axbridge.sim.support import supported
from axbridge.virtual.assembly import build_bank
from axbridge.virtual.world import World
from tests.support.ideal_world import Bench
from tests.support.one_joint import left_alone, order
from tests.support.page_set import WALK_READY

pytestmark = pytest.mark.slow

BODY = """<robot name="r"><link name="body"><inertial><mass value="1"/><inertia ixx="{0}" iyy="{0}" izz="{0}"/></inertial>
<contact><lateral_friction value="0.6"/></contact><collision><geometry>{1}</geometry></collision></link></robot>"""


@pytest.mark.parametrize(
    ("shape", "height"),
    [
        ('<box size="0.2 0.2 0.1"/>', 0.05),
        ('<cylinder radius="0.1" length="0.06"/>', 0.03),
        ('<capsule radius="0.02" length="0.1"/>', 0.07),
        ('<sphere radius="0.04"/>', 0.04),
    ],
)
def test_every_shape_rests_on_the_floor_at_half_its_height(tmp_path, shape, height):
    (tmp_path / "body.urdf").write_text(BODY.format(2e-3, shape))
    engine = MujocoEngine(Scene(tmp_path / "body.urdf", fixed_base=False, ground=True, base_height=height + 0.002))
    left_alone(engine, 0.5)
    assert engine.base()[0][2] == pytest.approx(height, abs=1.5e-3)
    engine.close()


def test_a_flat_mesh_is_refused_with_a_hint(tmp_path):
    flat = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4").tobytes()
    (tmp_path / "claw.stl").write_bytes(bytes(80) + np.uint32(1).tobytes() + flat + bytes(2))
    (tmp_path / "body.urdf").write_text(BODY.format(2e-3, '<mesh filename="claw.stl"/>'))
    with pytest.raises(RigError, match=r"body.urdf: MuJoCo cannot take it: .*\ncorrect the shape"):
        MujocoEngine(Scene(tmp_path / "body.urdf"))


def test_a_standing_bioloid_leans_as_in_statics_and_stays_at_rest():
    """Statics: its weight and the springs of its servos, Kθ·Ks·N/Ra = 6.49 N·m/rad each, have the least energy."""
    rig = Rig.load("bioloid").with_engine("mujoco").with_model("lima2009")
    bank = build_bank(rig)
    for index, servo in enumerate(rig.servos):
        order(bank, servo.direction * servo.position, index)
    bank.advance(4.0)
    x, y, z, w = bank.engine.base()[1]
    assert math.degrees(math.asin(2 * (w * y - z * x))) == pytest.approx(-3.32, abs=0.03)
    assert np.abs(bank.speeds).max() < 0.01
    loads = bank.engine.load()
    torque = bank.state[:, 4] * [servo.direction for servo in rig.servos]
    assert loads == pytest.approx(torque, abs=2e-3)  # the load is the servos' torque
    bank.close()


def test_a_link_collides_with_all_links_but_those_that_carry_it(tmp_path):
    link = (
        '<link name="{0}"><inertial><mass value="0.1"/><inertia ixx="1e-4" iyy="1e-4" izz="1e-4"/></inertial>'
        '<collision><geometry><box size="0.06 0.06 0.06"/></geometry></collision></link>'
    )
    joint = (
        '<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{0}_link"/>'
        '<origin xyz="{2} 0 0"/><axis xyz="0 0 1"/></joint>'
    )
    names = ("base", "a_link", "b_link", "c_link")
    parts = "".join(link.format(name) for name in names)
    # Base, a and b overlap, and carry each other. c is carried by the base, and overlaps a and b.
    parts += joint.format("a", "base", 0.0) + joint.format("b", "a_link", 0.02) + joint.format("c", "base", 0.03)
    (tmp_path / "r.urdf").write_text(f"<robot name='r'>{parts}</robot>")
    for collides, touching in ((False, set()), (True, {("a_link", "c_link"), ("b_link", "c_link")})):
        engine = MujocoEngine(Scene(tmp_path / "r.urdf", self_collision=collides))
        pairs = set()
        for contact in engine.data.contact:
            bodies = [engine.model.geom_bodyid[geom] for geom in contact.geom]
            pairs.add(tuple(sorted(engine._tree.links[list(engine._bodies).index(body)] for body in bodies)))
        assert pairs == touching
        engine.close()


@pytest.mark.bullet
def test_the_engine_is_chosen_by_open_by_the_rig_and_by_the_environment(monkeypatch):
    def kind(*arguments, **options):
        with axbridge.open(*arguments, **options) as robot:
            return type(robot.simulation.engine).__name__

    assert kind("bench_arm") == "BulletEngine"
    assert kind("bench_arm", engine="mujoco") == "MujocoEngine"
    assert kind("bench_arm", world={"engine": "mujoco"}) == "MujocoEngine"
    monkeypatch.setenv("AXBRIDGE_ENGINE", "mujoco")
    assert kind("bench_arm") == "MujocoEngine"
    assert kind("bench_arm", engine="bullet") == "BulletEngine"
    with pytest.raises(RigError, match="world.engine: must be 'auto', 'bullet', 'mujoco' or 'none'"):
        kind("bench_arm", engine="ode")


@pytest.mark.bullet
def test_ideal_joints_need_mujoco_also_when_bullet_is_installed(tmp_path, monkeypatch):
    rig = Rig.load(Bench(tmp_path).rig({}))
    with axbridge.open(rig) as robot:
        assert type(robot.simulation.engine).__name__ == "MujocoEngine"
    with pytest.raises(RigError, match=r"world.engine: PyBullet cannot move 'j0', an ideal joint\nwrite engine = "):
        axbridge.open(rig, engine="bullet")
    monkeypatch.setenv("AXBRIDGE_ENGINE", "bullet")
    with pytest.raises(UsageError, match="AXBRIDGE_ENGINE is 'bullet', and .*cannot move 'j0'.*\nset it to"):
        axbridge.open(rig)


def test_without_bullet_auto_is_mujoco_and_without_both_a_warning_names_the_package(monkeypatch):
    installed = {"mujoco"}
    monkeypatch.setattr(choice, "_is_installed", installed.__contains__)
    assert choice.chosen("auto") == "mujoco"
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(UnsupportedOperation, match=r"engine bullet needs pybullet: .* \"axbridge\[sim\]\""):
        choice.chosen("bullet")
    installed.clear()
    assert choice.chosen("auto") == choice.chosen("none") == "none"
    with pytest.warns(RigWarning, match=r"joints do not push each other: .* \"axbridge\[sim\]\""):
        World(Rig.load("pan_tilt")).close()


@pytest.fixture
def world():
    """The world of a Bioloid in a gantry."""
    rig = Rig.load("bioloid").with_engine("mujoco")
    bank = build_bank(rig)
    with closing(World(rig, bank=supported(bank, rig))) as held:
        yield held


def advance_world(world, seconds):
    end = world.now() + seconds
    while world.now() < end:
        world.sleep_until(world.now() + 0.01)


def start_counts(world):
    """Return the position counts of the rig's start pose, by servo."""
    return {
        config.name: config.zero + round(config.direction * config.position / AX.position)
        for config in world.rig.servos
    }


def switch(world, *, on, goals=None):
    for name, goal in (goals or start_counts(world)).items():
        servo = world.servos[name]
        servo.table["goal_position"], servo.table["torque_enable"] = goal, int(on)
        servo.push(world.now())


def test_a_limp_robot_is_held_and_stands_alone_after_its_motors_are_switched_on(world):
    start = world.bank.engine.base()[0][2]
    advance_world(world, 1.0)
    assert world.bank.engine.base()[0][2] == pytest.approx(start + 0.02, abs=0.003)  # without a gantry it has fallen
    switch(world, on=True)
    advance_world(world, 2.0)
    assert world.bank.engine.base()[0][2] == pytest.approx(start, abs=0.006)
    advance_world(world, 1.0)
    assert world.bank.engine.base()[0][2] > 0.24  # on its own feet
    switch(world, on=False)
    advance_world(world, 0.5)
    assert world.bank.engine.base()[0][2] == pytest.approx(start + 0.02, abs=0.003)  # caught


def test_a_robot_on_bent_knees_is_lowered_onto_its_soles_before_it_is_released(world):
    """With the base upright, as in the rig, ROBOTIS' own pose fell 5 cm onto its toes."""
    ids = {config.id: config.name for config in world.rig.servos}
    switch(world, on=True, goals={ids[number]: count for number, count in enumerate(WALK_READY, 1)})
    advance_world(world, 1.9)
    (_, _, held), turned = world.bank.engine.base()
    assert math.degrees(roll_pitch_yaw(turned)[1]) == pytest.approx(10.0, abs=1.0)
    advance_world(world, 2.0)
    assert world.bank.engine.base()[0][2] == pytest.approx(held, abs=0.004)


def test_a_released_robot_can_fall(world):
    switch(world, on=True)
    advance_world(world, 2.2)
    for servo in list(world.servos.values())[1:]:  # one motor stays on, so the gantry does not hold it
        servo.table["torque_enable"] = 0
        servo.push(world.now())
    advance_world(world, 1.5)
    assert world.bank.engine.base()[0][2] < 0.2
