"""Worlds that cannot work are refused or stopped with the cause and the fix; those that only look odd work."""

import math

import numpy as np
import pytest

from axbridge.cli import app
from axbridge.cli import record as record_verb  # noqa: F401 - registers it
from axbridge.config.rig import Rig
from axbridge.errors import RigError, SimulationDiverged
from axbridge.servo.columns import Command, Mode, State
from axbridge.virtual.assembly import build_bank

pytestmark = pytest.mark.slow

URDF = """<robot name="r">
<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
<link name="arm"><inertial><origin xyz="0 0 -0.1"/><mass value="0.1"/><inertia ixx="I" iyy="I" izz="I"/></inertial></link>
<joint name="j" type="KIND"><parent link="base"/><child link="arm"/><axis xyz="0 -1 0"/>
<limit lower="-2" upper="2" effort="10" velocity="10"/></joint></robot>"""


@pytest.fixture(params=["bullet", "mujoco"])
def rig(tmp_path, request):
    def write(kind="revolute", inertia="1e-4", joint="j", world="", params=""):
        (tmp_path / "arm.urdf").write_text(URDF.replace("KIND", kind).replace("I", inertia, 3))
        path = tmp_path / "arm.toml"
        path.write_text(
            f'name = "arm"\n[world]\nurdf = "arm.urdf"\nengine = "{request.param}"\n{world}\n'
            f'[[servo]]\nname = "a"\njoint = "{joint}"\nid = 1\n{params}\n'
        )
        return path

    return write


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"joint": "elbow"}, r"arm.urdf: elbow: the URDF has no such joint\nmovable joints: j$"),
        ({"kind": "fixed"}, r"arm.urdf: j: this joint is fixed\nmovable joints: none$"),
        ({"kind": "floating"}, r"'floating' are not supported\nuse one of fixed, revolute"),
        (
            {"kind": "prismatic"},
            r"arm.toml: servo.a.joint: joint 'j' is prismatic, and a Dynamixel turns\nname a revol",
        ),
        ({"inertia": "0"}, r"arm: mass 0.1 kg and principal inertia 0, 0, 0 kg·m²\nboth must be positive"),
        ({"inertia": "nan"}, r"arm.urdf: arm: 'nan' should be 1 finite number"),
        (
            {"params": "[servo.params.motor]\nresistance = nan"},
            r"arm.toml: servo.a.params.motor.resistance: input should be a finite number, not nan$",
        ),
        (
            {"params": "[servo.params.friction]\nviscous = -0.1"},
            r"arm.toml: servo.a.params.friction.viscous: input should be greater than or equal to 0, not -0.1$",
        ),
        (
            {"params": "[servo.params.motor]\narmatur = 0.1"},
            r"arm.toml: servo.a.params.motor.armatur: unknown key\ndid you mean 'armature'\?$",
        ),
        ({"params": "[servo.params.gear]\nratio = 3"}, r"arm.toml: servo.a.params.gear: unknown key\nknown keys: "),
        ({"params": 'model = "lima"'}, r"arm.toml: servo.a.model: .*no such file or name\ndid you mean 'lima2009'\?"),
        ({"world": "time_step_ms = 0"}, r"world.time_step_ms: input should be greater than or equal to 0.01"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_the_file_the_key_and_the_fix(rig, changes, words):
    with pytest.raises(RigError, match=words):
        build_bank(Rig.load(rig(**changes)))


def order(bank, goal):
    row = np.zeros(len(Command))
    row[[Command.TORQUE, Command.TORQUE_LIMIT]] = 1
    row[Command.GOAL] = goal
    bank.set_command(0, row, bank.time)


@pytest.mark.filterwarnings("ignore:.*it will sink:axbridge.errors.RigWarning")
def test_a_world_that_blows_up_stops_with_the_joint_and_the_time(rig):
    bank = build_bank(Rig.load(rig(world="gravity = [1e12, 0, 0]")))
    with pytest.raises(SimulationDiverged, match=r"joint 'j' diverged at t = 0\.\d+ s\ncheck the link's inertia"):
        bank.advance(1.0)
    bank.close()


@pytest.mark.filterwarnings("ignore:.*it will sink:axbridge.errors.RigWarning")
def test_the_command_line_says_so_in_two_lines(rig, capsys):
    path = rig(world="gravity = [1e12, 0, 0]")
    assert app.run(["record", "step", "--rig", str(path), "--out", str(path.parent / "x.mcap")]) == app.MISUSE
    said = capsys.readouterr().err
    assert said.startswith("axbridge: the simulation of joint 'j' diverged at t = ")
    assert said.count("\n") == 2


@pytest.mark.parametrize("time_step_ms", [4.1667, 4.167, 3.3333])
def test_motors_are_as_old_as_the_sample_where_a_physics_step_was_rounded_by_hand(rig, time_step_ms):
    bank = build_bank(Rig.load(rig(world=f"time_step_ms = {time_step_ms}")))
    for cycle in range(1, 51):
        bank.advance(0.02 * cycle)
        assert bank.time == pytest.approx(0.02 * cycle, abs=1e-9)
    bank.close()


@pytest.mark.parametrize("time_step_ms", [3.7, 7.0, 33.0])
def test_a_physics_step_need_not_divide_the_control_period(rig, time_step_ms):
    ends = []
    for step in (1.0, time_step_ms):
        bank = build_bank(Rig.load(rig(world=f"time_step_ms = {step}")))
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
def test_samples_are_of_the_moment_asked_for_whatever_the_physics_step(rig, time_step_ms):
    world = f"time_step_ms = {time_step_ms}\ngravity = [0, 0, 0]"
    bank = build_bank(Rig.load(rig(kind="continuous", world=world)))
    row = np.zeros(len(Command))
    row[[Command.TORQUE, Command.TORQUE_LIMIT, Command.MODE, Command.DUTY]] = 1, 1, Mode.WHEEL_DUTY, 1
    bank.set_command(0, row, 0.0)
    angles = []
    for tick in range(50, 101):
        bank.advance(0.02 * tick)
        angles.append(bank.sampled(np.array([0]), [0.02 * tick])[0, [State.ANGLE, State.READING]])
    ways = np.diff(angles, axis=0)
    assert ways == pytest.approx(0.02 * bank.state[0, State.SPEED], rel=1e-4)
    bank.close()


def test_an_unstable_loop_is_bounded_by_its_supply_and_not_clamped(rig):
    loop = "[servo.params.controller]\nk_omega = -500.0\n[servo.params.friction]\nviscous = 0.0"
    bank = build_bank(Rig.load(rig(inertia="1e-6", params=loop)))
    order(bank, 0.5)
    fastest = 0.0
    for tick in range(1, 200):
        bank.advance(0.005 * tick)
        fastest = max(fastest, abs(bank.speeds[0]))
    assert math.isfinite(fastest)
    assert 3.0 < fastest < 30.0  # no load: 6.4 rad/s
    bank.close()
