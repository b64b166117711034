import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.config.urdf import read_tree
from axbridge.errors import UnsupportedOperation
from axbridge.jit import as_tuple
from axbridge.motion.gait import JOINTS
from axbridge.rotations import about, matrix
from axbridge.sim.body.inverse_dynamics import BaseMotion, Body, Carrier, carried, wrenches
from axbridge.sim.body.kinematics import inside, posed, rooted_at
from axbridge.sim.engines.bullet.tree_dynamics import BASE, CONTACT, Base, Contacts, Links, joint_dynamics

AS_WRITTEN = '<mujoco><compiler discardvisual="true" fusestatic="false" balanceinertia="false"/></mujoco><link'
GRAVITY = np.array([0.0, 0.0, -9.81])
BIOLOID = Rig.load("bioloid")
TREE = read_tree(BIOLOID.urdf_path(), fixed_base=False)
NAMES = TREE.names
COLUMNS = {side: [NAMES.index(f"{side}_{joint}") for joint in ("hip_twist", *JOINTS)] for side in ("left", "right")}
LINK = """<link name="{}"><inertial><origin xyz="0.01 0.1 -0.02"/><mass value="0.3"/>
<inertia ixx="0.002" iyy="0.003" izz="0.004" ixy="0.0005" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/><origin xyz="0.1 0 0.05" rpy="0.3 -0.2 1"/>
<axis xyz="{}"/><limit lower="-3" upper="3" effort="9" velocity="9"/></joint>"""
CRANE = '<robot name="crane">' + "".join(LINK.format(name) for name in ("post", "table", "slide", "lever", "hook"))
CRANE += JOINT.format("turn", "revolute", "post", "table", "0 0.6 0.8")
CRANE += JOINT.format("push", "prismatic", "table", "slide", "1 0 0")
CRANE += JOINT.format("swing", "revolute", "slide", "lever", "0 1 0")
CRANE += JOINT.format("hang", "revolute", "table", "hook", "1 0 0") + "</robot>"


@pytest.fixture(scope="module")
def mujoco_bioloid():
    """Return the Bioloid as MuJoCo's own URDF reader builds it."""
    text = BIOLOID.urdf_path().read_text()
    return mujoco.MjSpec.from_string(AS_WRITTEN.join(text.split("<link", 1)))


def tree_of(name):
    """Return the tree of a rig; a crane has a slide and a hook on a turntable, and a lever on the slide."""
    if name == "crane":
        return read_tree(Path("crane.urdf"), fixed_base=True, text=CRANE)
    return Rig.load(name).tree(fixed_base=True)


def kernel_dynamics(tree, root, position, speed):
    """Return inertia and load of the joints from the kernel of Bullet's engine."""
    n = len(tree.joints)
    chain = Links(*(getattr(tree, name) for name in Links._fields))
    nothing = Contacts(np.zeros((0, CONTACT)), 1.0, 0.0, 1e-3)
    inertia, load = np.empty((n, n)), np.empty(n)
    joint_dynamics(as_tuple(chain), as_tuple(root), as_tuple(nothing), position, speed, inertia, load)
    return inertia, load


@pytest.mark.parametrize("name", ["leg", "pan_tilt", "bench_arm", "crane"])
def test_torques_along_a_motion_agree_with_the_kernel_of_bullets_engine(name):
    tree = tree_of(name)
    position, speed, acceleration = np.random.default_rng(3).normal(0, 1, (3, 5, len(tree.joints)))
    result = wrenches(tree, position, speed, acceleration, GRAVITY)
    root = Base(np.eye(BASE)[6], np.zeros(3), np.eye(3), GRAVITY, True)
    for sample in range(5):
        inertia, load = kernel_dynamics(tree, root, position[sample], speed[sample])
        wanted = inertia @ acceleration[sample] + load
        np.testing.assert_allclose(result.torque[sample], wanted, rtol=1e-9, atol=1e-12)


def test_the_kernel_agrees_with_mujoco_about_a_robot_whose_base_floats(mujoco_bioloid):
    """Inertia and load agree with MuJoCo's mass matrix and bias after the base's six equations are eliminated."""
    tree, n, spec = TREE, len(TREE.joints), mujoco_bioloid.copy()
    spec.worldbody.bodies[0].add_freejoint()
    model = spec.compile()
    data = mujoco.MjData(model)
    names = [joint.name for joint in tree.joints]
    dofs = np.array([model.joint(name).dofadr[0] for name in names])
    draw = np.random.default_rng(8)
    for _ in range(5):
        position, speed = draw.normal(0, 0.5, n), draw.normal(0, 2, n)
        turned, motion = draw.normal(0, 1, 4), draw.normal(0, 1, 9)
        turned /= np.linalg.norm(turned)
        turn = matrix(tuple(turned))
        place, velocity, spin = motion.reshape(3, 3)
        data.qpos[:3], data.qpos[3:7], data.qpos[dofs + 1] = place, turned[[3, 0, 1, 2]], position
        data.qvel[:3], data.qvel[3:6], data.qvel[dofs] = velocity, turn.T @ spin, speed
        mujoco.mj_forward(model, data)
        whole = np.zeros((n + 6, n + 6))
        mujoco.mj_fullM(model, data, whole)
        base, beside = whole[:6, :6], whole[:6, dofs]
        freed = whole[np.ix_(dofs, dofs)] - beside.T @ np.linalg.solve(base, beside)
        bias = data.qfrc_bias[dofs] - beside.T @ np.linalg.solve(base, data.qfrc_bias[:6])
        centre = place + turn @ tree.centre[0]
        moving = velocity + np.cross(spin, turn @ tree.centre[0])
        root = Base(np.concatenate((centre, turned, moving, spin)), tree.centre[0], np.eye(3), GRAVITY, False)
        inertia, load = kernel_dynamics(tree, root, position, speed)
        np.testing.assert_allclose(inertia, freed, atol=1e-9)
        np.testing.assert_allclose(load, bias, atol=1e-8)


def test_the_wrench_on_a_moving_base_is_the_change_of_momentum(tmp_path):
    """Newton's and Euler's laws hold for all links together, from their positions at three times."""
    tree = tree_of("leg")
    step, draw = 1e-4, np.random.default_rng(9)
    times = np.array([-step, 0.0, step])
    start, speed, faster = draw.normal(0, 1, (3, len(tree.joints)))
    angle, spin, spinning = draw.normal(0, 1, 3)
    axis, drift, hurry = np.array((0.6, 0.0, 0.8)), draw.normal(0, 1, 3), draw.normal(0, 3, 3)

    def along(first, rate, second):
        return np.array([first + rate * t + second * t * t / 2 for t in times])

    turn, place = about(axis, along(angle, spin, spinning)), along(np.zeros(3), drift, hurry)
    here = posed(tree, along(start, speed, faster), (place, turn))
    moved = tree.mass @ (here.centres[:, 2] - 2 * here.centres[:, 1] + here.centres[:, 0]) / step**2
    weight = tree.mass.sum() * GRAVITY
    base = BaseMotion(turn[1:2], place[1:2], axis[None] * spin, axis[None] * spinning, hurry[None])
    result = wrenches(tree, start[None], speed[None], faster[None], GRAVITY, base)
    np.testing.assert_allclose(result.force[0], moved - weight, atol=1e-5)

    def angular(first, second):
        """Return the angular momentum about the world's origin between two times."""
        total = np.zeros(3)
        for k, mass in enumerate(tree.mass):
            change = (here.turn[k, second] @ here.turn[k, first].T - here.turn[k, first] @ here.turn[k, second].T) / 2
            rate = np.array((change[2, 1], change[0, 2], change[1, 0])) / step
            middle = (here.turn[k, first] + here.turn[k, second]) / 2
            total += middle @ tree.inertia[k] @ middle.T @ rate
            lever = (here.centres[k, first] + here.centres[k, second]) / 2
            total += mass * np.cross(lever, (here.centres[k, second] - here.centres[k, first]) / step)
        return total

    gained = (angular(1, 2) - angular(0, 1)) / step - np.cross(here.centre[1], weight)
    np.testing.assert_allclose(result.moment[0], gained, atol=1e-5)  # the base is at the origin


def test_without_mujoco_the_error_has_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    still = np.zeros((1, 1))
    with pytest.raises(UnsupportedOperation, match=r"needs mujoco: .* \"axbridge\[sim\]\""):
        wrenches(tree_of("bench_arm"), still, still, still, GRAVITY)


def torques_at_rest(angles, feet, aside=0.0):
    """Return the Bioloid's torques in a pose, N·m by joint, with feet at these y, m, and its centre of mass at `aside`."""
    pose = TREE.pose(angles)[None]
    centre = posed(TREE, pose).centre[0]
    still = np.zeros((1, 3))
    place = np.array([[-centre[0], aside - centre[1], 0.3]])
    base = BaseMotion(np.eye(3)[None], place, still, still, still)
    legs = tuple(Carrier(COLUMNS[side], np.array([[0.0, y]])) for side, y in feet.items())
    zero = np.zeros_like(pose)
    taken = wrenches(TREE, pose, zero, zero, GRAVITY, base)
    return dict(zip(NAMES, carried(TREE, taken, place, legs)[0][0].tolist(), strict=True))


def test_on_one_foot_its_hip_carries_the_body_and_the_other_hip_only_its_leg():
    result = torques_at_rest({}, {"left": 0.0385, "right": -0.0385}, aside=0.0385)
    weight, hip = 9.81 * float(TREE.mass.sum()), 0.0385  # lever: the floor's force is below the centre of mass
    assert abs(result["left_hip_lateral"]) == pytest.approx(weight * hip, rel=0.01)
    assert abs(result["right_hip_lateral"]) < 0.01


def test_at_rest_the_zero_moment_point_is_below_the_centre_of_mass_and_both_legs_carry_the_same():
    body = Body.of(BIOLOID, BIOLOID.start)
    names = body.tree.names
    rest = body.tree.pose(BIOLOID.start)[None]
    result = body.effort(rest, np.zeros_like(rest), np.zeros_like(rest))
    soles = (body.soles[0].low + body.soles[0].high) / 2
    ahead = posed(body.tree, rest).centre[0, 0] - soles[0]
    assert result.zmp[0] == pytest.approx([ahead, 0.0], abs=1e-6)
    assert result.slip == pytest.approx(0.0, abs=1e-9)
    carried_by = torques_at_rest(BIOLOID.start, {"left": 0.0385, "right": -0.0385})
    for joint in ("hip_swing", "knee", "ankle_swing"):
        left, right = (result.torque[0, names.index(f"{side}_{joint}")] for side in ("left", "right"))
        assert left == pytest.approx(right, abs=1e-6)
        assert carried_by[f"left_{joint}"] == pytest.approx(left, abs=5e-3)
        assert carried_by[f"left_{joint}"] == pytest.approx(carried_by[f"right_{joint}"], abs=1e-6)
    assert abs(result.torque[0, names.index("left_knee")]) > 0.05


def test_every_link_has_the_pose_that_mujoco_computes(mujoco_bioloid):
    tree, model = read_tree(BIOLOID.urdf_path(), fixed_base=True), mujoco_bioloid.copy().compile()
    data = mujoco.MjData(model)
    poses = np.random.default_rng(3).uniform(-1.5, 1.5, (5, len(tree.joints)))
    here = posed(tree, poses)
    for number, pose in enumerate(poses):
        for joint, angle in zip(tree.joints, pose, strict=True):
            data.joint(joint.name).qpos = angle
        mujoco.mj_kinematics(model, data)
        for link, name in enumerate(tree.links[1:], 1):  # the base is part of MuJoCo's world
            there = data.body(name)
            np.testing.assert_allclose(here.place[link, number], there.xpos, atol=1e-9)
            np.testing.assert_allclose(here.turn[link, number], there.xmat.reshape(3, 3), atol=1e-9)
            np.testing.assert_allclose(here.centres[link, number], there.xipos, atol=1e-9)


@pytest.mark.parametrize(("name", "base"), [("bioloid", "right_ankle_lateral_link"), ("crane", "lever")])
def test_a_robot_with_another_base_link_is_the_same_robot(name, base):
    tree = tree_of(name)
    turned, link = rooted_at(tree, tree.links.index(base)), tree.links.index(base)
    poses = np.random.default_rng(1).uniform(-0.5, 0.5, (5, len(tree.joints)))
    here = posed(tree, poses)
    there = posed(
        turned, poses[:, [tree.names.index(name) for name in turned.names]], (here.place[link], here.turn[link])
    )
    for k, part in enumerate(turned.links):
        before = tree.links.index(part)
        np.testing.assert_allclose(there.centres[k], here.centres[before], atol=1e-12)
        inertias = [
            posed_.turn[i] @ robot.inertia[i] @ np.swapaxes(posed_.turn[i], 1, 2)
            for posed_, robot, i in ((there, turned, k), (here, tree, before))
        ]
        np.testing.assert_allclose(*inertias, atol=1e-15)
    assert turned.mass.sum() == pytest.approx(tree.mass.sum())


SQUARE = np.array([(0, 0), (0.1, 0), (0.1, 0.06), (0, 0.06)])


@pytest.mark.parametrize(
    ("point", "width", "margin"),
    [((0.05, 0.03), 1, 0.03), ((0.01, 0.03), 1, 0.01), ((0.05, 0.08), 1, -0.02), ((0.05, 0.0), 0, 0.0)],
)
def test_the_margin_is_the_distance_to_the_nearest_edge_also_of_a_sole_on_its_edge(point, width, margin):
    assert inside(point, SQUARE * (1, width)) == pytest.approx(margin, abs=1e-6)
