"""Inverse dynamics of recorded motions: the zero-moment point of a walk, and the load of a servo.

A standing foot does not move. So the joint angles give the motion of the body above it, and the force of the floor,
which acts at the zero-moment point (Vukobratovic and Borovac 2004). The tilt of the foot is known only with an inertial
unit. Positions are relative to the middle between both feet: x ahead, y to the left. A fitted joint may move otherwise
than recorded: its inertia and torque of weight remain exact, the torque of the other joints is that of the recording.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from axbridge.arrays import BoolArray, FloatArray
from axbridge.comparison.metrics import resample
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.config.urdf import Tree
from axbridge.errors import RecordingError, Remedy, RigError, UsageError, require
from axbridge.recording.recording import Recording
from axbridge.recording.step_format import BASE
from axbridge.rotations import matrix_of_roll_pitch_yaw
from axbridge.sim.body.inverse_dynamics import wrenches
from axbridge.sim.body.kinematics import Posed, Sole, inside, path_to_base, posed, rooted_at, soles_of

_SMOOTH = 0.05  # s on either side for speeds and accelerations: with shorter spans, rounding errors dominate
_LIFTED = 0.003  # m: for smaller height differences of the feet, the weight is shared between them linearly
# Larger values come from gaps in the samples, not from a walk: deviation of the floor's force from the weight, as a
# share of it, and distance of the zero-moment point from the standing foot, m.
_FORCE_DEVIATION, _ZMP_DISTANCE = 0.5, 0.15
CLEAR = 0.005  # m: a foot this high above the other carries no weight

Motion = tuple[FloatArray, FloatArray, FloatArray]  # positions, speeds, accelerations of a tree's joints, (n, joints)


@dataclass(frozen=True)
class Standing:
    """A robot on two feet, from the metadata of a recording."""

    rig: Rig
    tree: Tree  # its links; the first is its base
    soles: tuple[Sole, Sole]  # left foot first


def on_two_feet(rig: Rig) -> Standing | None:
    """Return the robot of a rig; None if it does not stand free on two feet."""
    if rig.world is None or rig.world.fixed_base:
        return None
    tree = rig.tree()
    soles = soles_of(rig, tree)
    if len(soles) != 2:
        return None
    places = posed(tree, tree.pose(rig.start)[None]).place[:, 0]
    left, right = sorted(soles, key=lambda sole: -float(places[sole.link, 1]))  # y: left
    return Standing(rig, tree, (left, right))


class FootView(NamedTuple):
    """A robot at n times if one of its feet stands still; in axes of the middle between both."""

    tree: Tree  # the robot with that foot as its base
    motion: Motion  # of the tree's joints
    gravity: FloatArray  # in the foot's axes, m/s², (n, 3)
    place: FloatArray  # position of the base link's frame, m, (n, 3)
    turn: FloatArray  # rotation of the base link's frame, (n, 3, 3)
    zmp: FloatArray  # the zero-moment point, m, (n, 2)
    other_height: FloatArray  # height of the other sole's middle above this one's, m, (n,)


@dataclass(frozen=True)
class Footing:
    """Pose and zero-moment point of a robot at n times, in axes of the middle between both feet, on the floor."""

    place: FloatArray  # position of the base link's frame, m, (n, 3)
    turn: FloatArray  # rotation of the base link's frame, (n, 3, 3)
    lifted: FloatArray  # height of the left sole's middle above the right one's, m, (n,)
    zmp: FloatArray  # the zero-moment point, m, (n, 2)
    margin: FloatArray  # distance of the ZMP to the nearest edge of the standing soles, m, (n,); negative outside
    views: tuple[FootView, FootView]  # as if the left foot stood, and as if the right one did


def footing(recording: Recording, robot: Standing, time: FloatArray) -> Footing:
    """Return pose and zero-moment point of the robot at times (n,), s."""
    motion, leaning = joints_motion(recording, robot.rig, robot.tree, time), _leaning(recording, time)
    where = posed(robot.tree, motion[0])
    left, right = (_from_foot(robot, where, motion, leaning, side) for side in (0, 1))
    lifted = (right.other_height - left.other_height) / 2
    weight = np.clip(0.5 - lifted / (2 * _LIFTED), 0.0, 1.0)[:, None]  # of the left foot's view
    zmp = weight * left.zmp + (1 - weight) * right.zmp
    place = np.where(weight > 0.5, left.place, right.place)
    turn = np.where(weight[..., None] > 0.5, left.turn, right.turn)
    where = posed(robot.tree, motion[0], (place, turn))
    corners = [_points(where, sole.link, corner)[:, :2] for sole in robot.soles for corner in sole.corners]
    outline, standing = np.stack(corners, axis=1), np.stack((lifted < CLEAR, lifted > -CLEAR), axis=1)
    margin = np.array([
        inside((float(x), float(y)), outline[k][np.repeat(standing[k], 4)]) if math.isfinite(x) else math.nan
        for k, (x, y) in enumerate(zmp)
    ])  # fmt: skip
    return Footing(place, turn, lifted, zmp, margin, (left, right))


def measured_zmp(recording: Recording, robot: Standing) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return times, s, and a simulation's measured and planned ZMP, m, from the middle between the feet, or None."""
    cycles = recording.cycles
    names = (*BASE, "zmp_x", "zmp_y")
    if not all(name in cycles for name in names) or np.isnan(cycles["zmp_x"]).all():
        return None
    time, (x, y, z, roll, pitch, yaw) = cycles["time"], (cycles[name] for name in names[:6])
    turn = matrix_of_roll_pitch_yaw(roll, pitch, yaw)
    centre_of_mass = np.stack((x, y, z), axis=1)  # of the base
    place = centre_of_mass - turn @ robot.tree.centre[0]
    positions = joints_motion(recording, robot.rig, robot.tree, time)[0]
    where = posed(robot.tree, positions, (place, turn))
    middle = np.mean([_points(where, sole.link, sole.middle)[:, :2] for sole in robot.soles], axis=0)
    left, right = (_heading(where.turn[sole.link]) for sole in robot.soles)
    heading = left + np.angle(np.exp(1j * (right - left))) / 2
    unknown = np.full(len(time), np.nan)
    x_y = ([cycles.get(f"{kind}_{axis}", unknown) for axis in "xy"] for kind in ("zmp", "planned_zmp"))
    ahead = _about_up(-heading)[:, :2, :2]
    zmp, planned = (_times(ahead, np.stack(columns, axis=1) - middle) for columns in x_y)
    return time, zmp, planned


def _from_foot(robot: Standing, where: Posed, motion: Motion, leaning: FloatArray | None, side: int) -> FootView:
    """Return a motion as if one foot (`side` 0 left, 1 right) stood; flat if the lean is unknown.

    `where` is in the base's axes.
    """
    assert robot.rig.world is not None
    sole, other = robot.soles[side], robot.soles[1 - side]
    tree = rooted_at(robot.tree, sole.link)
    columns = [robot.tree.names.index(joint.name) for joint in tree.joints]
    position, speed, acceleration = (part[:, columns] for part in motion)
    foot, other_foot = where.turn[sole.link], where.turn[other.link]
    flat = np.broadcast_to(np.eye(3), foot.shape)  # rotation of the standing foot, x ahead
    if leaning is not None:
        flat = leaning @ foot
        flat = _about_up(-_heading(flat)) @ flat
    turn = flat @ np.swapaxes(foot, 1, 2)  # of the base
    turn = _about_up(-_heading(turn @ other_foot) / 2) @ turn
    level = turn @ foot
    gravity = _times(np.swapaxes(flat, -1, -2), np.array(robot.rig.world.gravity))
    held = wrenches(tree, position, speed, acceleration, gravity)
    force = _times(level, held.force)
    moment = _times(level, held.moment - np.cross(np.broadcast_to(sole.middle, force.shape), held.force))
    zmp = np.column_stack((-moment[:, 1], moment[:, 0])) / np.maximum(force[:, 2:], 1e-3)
    weight = float(tree.mass.sum() * np.linalg.norm(gravity[0]))
    zmp[(np.abs(force[:, 2] - weight) > _FORCE_DEVIATION * weight) | (np.abs(zmp).max(axis=1) > _ZMP_DISTANCE)] = np.nan
    here, there = (_points(where, foot.link, foot.middle) for foot in (sole, other))
    far = _times(turn, there - here)
    middle = far / 2 * (1.0, 1.0, 0.0)
    rooted = tree, (position, speed, acceleration), gravity
    return FootView(*rooted, -_times(turn, here) - middle, turn, zmp - middle[:, :2], far[:, 2])


def _leaning(recording: Recording, time: FloatArray) -> FloatArray | None:
    """Return the base's roll and pitch from an inertial unit as rotations, (n, 3, 3); None if not recorded."""
    cycles, names = recording.cycles, ("imu_roll", "imu_pitch")
    if any(np.isnan(cycles.get(name, np.nan)).all() for name in names):
        return None
    roll, pitch = (resample(cycles["time"], cycles[name], time, beyond=None) for name in names)
    return matrix_of_roll_pitch_yaw(roll, pitch, np.zeros(len(time)))


def _points(where: Posed, link: int, point: FloatArray) -> FloatArray:
    """Return a point of a link, m, (n, 3)."""
    points: FloatArray = where.place[link] + _times(where.turn[link], point)
    return points


def _heading(turn: FloatArray) -> FloatArray:
    """Return the direction of the x axis of frames (n, 3, 3), rad to the left, (n,)."""
    return np.arctan2(turn[:, 1, 0], turn[:, 0, 0])


def _about_up(angle: FloatArray) -> FloatArray:
    return matrix_of_roll_pitch_yaw(0 * angle, 0 * angle, angle)


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Multiply matrices (…, k, k) by vectors (…, k)."""
    return (matrices @ vectors[..., None])[..., 0]


def joints_motion(recording: Recording, rig: Rig, tree: Tree, time: FloatArray) -> Motion:
    """Return positions, speeds and accelerations of a tree's joints at times (l,), s; RecordingError if unknown."""
    servos = {servo.joint: servo for servo in rig.servos}
    columns = []
    for joint in tree.joints:
        servo = servos.get(joint.name)
        if servo is None or servo.name not in recording or np.isnan(recording[servo.name].position).all():
            hint = Remedy("run", "SCRIPT.py", record="FILE.mcap", says="record all servos of the rig, as {} does")
            raise RecordingError(recording.path, f"does not show how joint {joint.name} moved", hint)
        track = recording[servo.name]
        known = ~np.isnan(track.position)
        columns.append(_derivatives(track.time[known], track.position[known], time))
    return tuple(np.stack(part, axis=1) for part in zip(*columns, strict=True))  # type: ignore[return-value]


def _derivatives(time: FloatArray, values: FloatArray, wanted: FloatArray) -> Motion:
    """Return values, first and second derivatives at the times `wanted`, from cubics over `_SMOOTH` s on each side."""
    require("torques along a recording", "scipy")
    from scipy.signal import savgol_filter

    period = float(np.median(np.diff(time)))
    even = np.arange(time[0], time[-1] + period / 2, period)
    window = 2 * max(3, round(_SMOOTH / period)) + 1
    if len(even) < window:
        flat = np.zeros(len(wanted))
        return np.interp(wanted, time, values), flat, flat
    at = np.interp(even, time, values)
    rates = [np.interp(wanted, even, savgol_filter(at, window, 3, deriv=order, delta=period)) for order in range(3)]
    return rates[0], rates[1], rates[2]


CARRIED = 4  # columns: inertia, kg·m²; torque a·sin(θ) + b·cos(θ) + c: a, b, c, N·m
_BLOCK = 20_000  # samples at once, to limit memory
_MIN_SECONDS = 1.0  # s: least time on the feet in a recording
_HANG_UP = "fit it to a recording of the robot hung up by its body, with fixed_base = true in its rig"


@dataclass(frozen=True, kw_only=True)
class CarriedRecording(Recording):
    """A recording of one servo, with its load."""

    at: FloatArray  # times of `load`, s, (l,)
    load: FloatArray  # (l, CARRIED), about the joint
    known: BoolArray  # whether the load is known, (l,); else it assumes that the robot stands on its lower foot


def joints_of_robot(recordings: Sequence[Recording], rig: Rig, names: Sequence[str]) -> tuple[list[Recording], Rig]:
    """Return a recording with its load for each recording and servo; and the rig of these alone.

    Raises UsageError or RigError for a name that is no servo, or of one without a hinge.
    """
    by_name = {servo.name: servo for servo in rig.servos}
    for name in names:
        if name not in by_name:
            raise UsageError(f"rig {rig.name} has no servo {name!r}", f"its servos: {', '.join(by_name)}")
        check_hinge(rig, by_name[name])
    servos = tuple(by_name[name] for name in names)
    parts: list[Recording] = [_carried(recording, rig, servo) for recording in recordings for servo in servos]
    return parts, rig.model_copy(update={"servos": servos})


def check_hinge(rig: Rig, servo: ServoConfig) -> None:
    """Raise RigError for a servo that does not turn a hinge of the URDF."""
    path, tree = rig.urdf_path(), rig.tree()
    joints = tree.names
    if servo.joint not in joints:
        raise RigError(path, f"joint {servo.joint}", "no such joint", f"it has: {', '.join(joints)}")
    if tree.joints[joints.index(servo.joint)].linear:
        raise RigError(path, f"joint {servo.joint}", "slides", "identification needs a hinge")


def _carried(recording: Recording, rig: Rig, servo: ServoConfig) -> CarriedRecording:
    tree = rig.tree()
    assert rig.world is not None
    if servo.name not in recording:
        raise RecordingError(recording.path, f"has no servo {servo.name}", f"it has {', '.join(recording) or 'none'}")
    track = recording[servo.name]
    joint = tree.names.index(servo.joint)
    motion = joints_motion(recording, rig, tree, track.time)
    known = np.ones(len(track), dtype=np.bool_)
    if rig.world.fixed_base:
        load = load_of(tree, joint, motion, np.tile(rig.world.gravity, (len(track), 1)))
    else:
        load, known = _on_foot(recording, rig, servo)
        track = replace(track, velocity=motion[1][:, joint])  # Present Speed is too coarse as a start
    registers = recording.metadata.get("registers") or {}
    metadata = {**recording.metadata, "registers": {key: registers[key] for key in (servo.name,) if key in registers}}
    return CarriedRecording(
        recording.path, {servo.name: track}, recording.events, {}, metadata,
        recording.complete, at=track.time, load=load, known=known,
    )  # fmt: skip


def _on_foot(recording: Recording, rig: Rig, servo: ServoConfig) -> tuple[FloatArray, BoolArray]:
    """Return the load of a joint of a robot on its feet (l, CARRIED), and whether it is known (l,).

    On two feet the distribution of the weight is unknown, so the load of the joints between the feet is unknown, too.
    """
    track = recording[servo.name]
    robot = on_two_feet(rig)
    if robot is None or rig.world is None or not rig.world.ground:
        why = "base motion and floor force are known only for a robot on two flat feet"
        if rig.world is not None and not rig.world.ground:
            why = "its rig has no floor to stand on (ground = true)"
        raise RecordingError(recording.path, f"does not show what {servo.name} carries: {why}", _HANG_UP)
    stance = footing(recording, robot, track.time)
    tree = stance.views[0].tree
    foot = tree.links.index(robot.tree.links[robot.soles[1].link])
    leg = servo.joint in [tree.joints[dof].name for dof in tree.dof[path_to_base(tree, foot)].tolist() if dof >= 0]
    standing = stance.margin > 0
    known = standing & (np.abs(stance.lifted) > CLEAR) if leg else standing
    seconds = known.mean() * np.ptp(track.time)
    if seconds < _MIN_SECONDS:
        where = "one foot (on two feet, the force on each is unknown)" if leg else "its feet"
        why = f"does not show what {servo.name} carries: for {seconds:.2f} s in all the robot stood on {where}"
        raise RecordingError(recording.path, why, f"fit it to a walk of a few steps; or {_HANG_UP}")
    load = np.zeros((len(track), CARRIED))
    for view, chosen in zip(stance.views, (stance.lifted <= 0, stance.lifted > 0), strict=True):
        joint = view.tree.names.index(servo.joint)
        load[chosen] = load_of(view.tree, joint, view.motion, view.gravity)[chosen]
    return load, known


def load_of(tree: Tree, joint: int, motion: Motion, gravity: FloatArray) -> FloatArray:
    """Return the load of a joint (l, CARRIED) along a motion in which the robot is touched only at its base."""
    pieces = []
    for first in range(0, len(gravity), _BLOCK):
        part = slice(first, first + _BLOCK)
        position, speed, acceleration = (column[part] for column in motion)
        still, alone = np.zeros_like(position), np.zeros_like(position)
        alone[:, joint] = 1.0
        torque = wrenches(tree, position, speed, acceleration, gravity[part]).torque[:, joint]
        inertia = wrenches(tree, position, still, alone, 0 * gravity[part]).torque[:, joint]
        weight = []
        for angle in (np.pi / 2, 0.0):
            turned = position.copy()
            turned[:, joint] = angle
            weight.append(wrenches(tree, turned, still, still, gravity[part]).torque[:, joint])
        (a, b), theta = weight, position[:, joint]
        rest = torque - inertia * acceleration[:, joint] - a * np.sin(theta) - b * np.cos(theta)
        pieces.append(np.stack((inertia, a, b, rest), axis=1))
    return np.concatenate(pieces)
