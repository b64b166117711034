"""What one servo of a robot has to carry while all its joints move as they were recorded.

The motion of the other joints is taken as it was measured; the joint that is fitted is free to move otherwise. Inertia
about its axis and the torque of weight, which goes with the sine and the cosine of its own angle, are exact then. What
the motion adds (accelerations of the others, Coriolis) is that of the recorded motion.

A robot that nobody bolted down needs to know how its base moved, and what the floor pushes. The first is in recordings
of simulated walks (`base_x` and so on). The second can be told for joints beyond which nothing touches the floor, and
in a leg that stands on the floor alone. Where both feet may touch, the motion is followed, not predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig, ServoConfig
from axbridge.config.urdf import Tree, read_tree
from axbridge.errors import RecordingError, RigError, UsageError
from axbridge.record.recording import Recording, Track
from axbridge.replay.inverse_dynamics import BaseMotion, Wrenches, wrenches

__all__ = ["CARRIED", "CarriedRecording", "joint_of_robot"]

CARRIED = 4  # columns: inertia, kg·m²; torque a·sin(θ) + b·cos(θ) + c: a, b, c, N·m
_SMOOTH = 0.05  # s on either side from which speeds and accelerations are taken: rounding makes shorter ones worthless
_BLOCK = 20_000  # samples at a time: memory
_BASE = ("base_x", "base_y", "base_z", "base_roll", "base_pitch", "base_yaw")
_FEET = 0.02  # m: ends of the robot that come so near to the lowest one stand on the floor, too
_DOWN, _UP = 0.002, 0.006  # m above its lowest: a foot touches the floor, a foot is in the air
_TOLD = 0.1  # of a recording: less than that is not worth a fit

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CarriedRecording(Recording):
    """A recording of one servo, with what it carried.

    Attributes:
        at: Times of `load`, s, (l,).
        load: (l, CARRIED), about the joint.
        told: Where the load is known, (l,).
    """

    at: FloatArray = field(default_factory=lambda: np.zeros(0))
    load: FloatArray = field(default_factory=lambda: np.zeros((0, CARRIED)))
    told: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def load_at(self, time: FloatArray) -> tuple[FloatArray, Mask]:
        """The load at other times (k,): (k, CARRIED), and where it is known, (k,)."""
        load = np.stack([np.interp(time, self.at, column) for column in self.load.T], axis=1)
        known: Mask = np.interp(time, self.at, self.told.astype(float)) > 1 - 1e-9
        return load, known


def joint_of_robot(recordings: Sequence[Recording], rig: Rig, name: str) -> tuple[list[Recording], Rig]:
    """Recordings of one servo of a robot with what it carried, and the rig with that servo alone.

    Raises:
        UsageError: the rig has no such servo.
        RecordingError: a joint's motion is missing, or too little of the load can be told.
        RigError: the rig has no world, or the joint slides.
    """
    servo = next((servo for servo in rig.servos if servo.name == name), None)
    if servo is None:
        names = ", ".join(servo.name for servo in rig.servos)
        raise UsageError(f"rig {rig.name} has no servo {name!r}", f"its servos: {names}")
    path = rig.urdf_path()
    assert rig.world is not None  # urdf_path has seen to it
    tree = read_tree(path, fixed_base=rig.world.fixed_base, text=rig.urdf_text())
    joints = [joint.name for joint in tree.joints]
    if servo.joint not in joints:
        raise RigError(path, f"joint {servo.joint}", "no such joint", f"it has: {', '.join(joints)}")
    if tree.joints[joints.index(servo.joint)].linear:
        raise RigError(path, f"joint {servo.joint}", "slides", "identification needs a hinge")
    found: list[Recording] = [_carried(recording, rig, tree, servo) for recording in recordings]
    return found, rig.model_copy(update={"servos": (servo,)})


def _carried(recording: Recording, rig: Rig, tree: Tree, servo: ServoConfig) -> CarriedRecording:
    assert rig.world is not None
    if servo.name not in recording:
        raise RecordingError(recording.path, f"has no servo {servo.name}", f"it has {', '.join(recording) or 'none'}")
    track = recording[servo.name]
    joint = [one.name for one in tree.joints].index(servo.joint)
    base = None if rig.world.fixed_base else _base_motion(recording, tree, track.time)
    motion = _motion(recording, rig, tree, track.time)
    gravity = np.array(rig.world.gravity)
    pieces = []
    for first in range(0, len(track), _BLOCK):
        part = slice(first, first + _BLOCK)
        moved = None if base is None else BaseMotion(*(column[part] for column in base))
        pieces.append(_load(tree, joint, motion[0][part], motion[1][part], motion[2][part], gravity, moved))
    load = np.concatenate([one.load for one in pieces])
    told = np.ones(len(track), dtype=np.bool_)
    if base is not None:
        load, told = _on_the_floor(tree, joint, pieces, load, motion[2][:, joint])
        if told.mean() < _TOLD:
            raise RecordingError(
                recording.path,
                f"does not tell what {servo.name} carries: the floor pushes with both feet nearly all the time",
                "fit it to a recording of the robot hung up by its body, with fixed_base = true in its rig",
            )
    registers = recording.metadata.get("registers") or {}
    metadata = {**recording.metadata, "registers": {key: registers[key] for key in (servo.name,) if key in registers}}
    return CarriedRecording(
        recording.path, {servo.name: track}, recording.events, {}, metadata, recording.complete,
        at=track.time, load=load, told=told,
    )  # fmt: skip


@dataclass(frozen=True)
class _Piece:
    """Load (l, CARRIED) and torque (l,) of a motion in which nothing touches the robot, and the wrenches of it."""

    load: FloatArray
    torque: FloatArray
    whole: Wrenches


def _load(
    tree: Tree, joint: int, position: FloatArray, speed: FloatArray, acceleration: FloatArray, gravity: FloatArray,
    base: BaseMotion | None,
) -> _Piece:  # fmt: skip
    still, alone = np.zeros_like(position), np.zeros_like(position)
    alone[:, joint] = 1.0
    weightless = np.zeros(3)
    whole = wrenches(tree, position, speed, acceleration, gravity, base)
    torque = whole.of_joint(tree, joint)
    inertia = wrenches(tree, position, still, alone, weightless).of_joint(tree, joint)
    leaning = None if base is None else base._replace(**dict.fromkeys(base._fields[2:], np.zeros((len(position), 3))))
    weight = []
    for angle in (np.pi / 2, 0.0):
        turned = position.copy()
        turned[:, joint] = angle
        weight.append(wrenches(tree, turned, still, still, gravity, leaning).of_joint(tree, joint))
    a, b = weight
    theta = position[:, joint]
    rest = torque - inertia * acceleration[:, joint] - a * np.sin(theta) - b * np.cos(theta)
    return _Piece(np.stack((inertia, a, b, rest), axis=1), torque, whole)


def _on_the_floor(
    tree: Tree, joint: int, pieces: Sequence[_Piece], load: FloatArray, acceleration: FloatArray
) -> tuple[FloatArray, Mask]:
    """The load with what the floor pushes, and where that can be told."""
    ends = [link for link in range(len(tree.links)) if link not in tree.parent]
    height = {end: np.concatenate([piece.whole.centre[end, :, 2] for piece in pieces]) for end in ends}
    floor = min(float(heights.min()) for heights in height.values())
    feet = [end for end in ends if height[end].min() < floor + _FEET]
    over = {foot: height[foot] - height[foot].min() for foot in feet}
    moved = int(np.flatnonzero(tree.dof == joint)[0])
    mine = [foot for foot in feet if moved in _way(tree, foot)]
    others = [foot for foot in feet if foot not in mine]
    told = np.all([over[foot] > _UP for foot in mine], axis=0) if mine else np.ones(len(load), dtype=np.bool_)
    if len(mine) == 1 and others:
        standing = np.all([over[foot] > _UP for foot in others], axis=0) & (over[mine[0]] < _DOWN)
        pushed = np.concatenate([_pushed(piece, moved) for piece in pieces])
        torque = np.concatenate([piece.torque for piece in pieces])
        load = load.copy()
        load[standing, 1:3] = 0.0  # it carries the robot, and no angle of its own says how that leans
        load[standing, 3] = (torque - pushed - load[:, 0] * acceleration)[standing]
        told |= standing
    return load, told


def _pushed(piece: _Piece, link: int) -> FloatArray:
    """Torque (l,) about a link's joint of what the floor gives, when it gives all the robot's wrench beyond it."""
    whole = piece.whole
    force = whole.force[0]
    moment = whole.moment[0] + np.cross(whole.origin[0] - whole.origin[link], force)
    result: FloatArray = np.einsum("li,li->l", whole.axis[link], moment)
    return result


def _way(tree: Tree, link: int) -> list[int]:
    """The links from one to the base."""
    way = [link]
    while tree.parent[way[-1]] >= 0:
        way.append(int(tree.parent[way[-1]]))
    return way


def _motion(recording: Recording, rig: Rig, tree: Tree, time: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Positions, speeds and accelerations (l, n) of all joints."""
    servos = {servo.joint: servo for servo in rig.servos}
    columns = []
    for joint in tree.joints:
        servo = servos.get(joint.name)
        if servo is None or servo.name not in recording:
            raise RecordingError(
                recording.path,
                f"does not tell how joint {joint.name} moved",
                "record all servos of the rig: axbridge record …, axbridge run --record",
            )
        columns.append(_smoothed(recording[servo.name], time))
    return tuple(np.stack(part, axis=1) for part in zip(*columns, strict=True))  # type: ignore[return-value]


def _smoothed(track: Track, time: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    known = ~np.isnan(track.position)
    return _derivatives(track.time[known], track.position[known], time)


def _derivatives(time: FloatArray, values: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values, first and second derivatives (l,) at the `wanted` times, from cubics over `_SMOOTH` s on either side."""
    from scipy.signal import savgol_filter

    period = float(np.median(np.diff(time)))
    even = np.arange(time[0], time[-1] + period / 2, period)
    window = 2 * max(3, round(_SMOOTH / period)) + 1
    if len(even) < window:
        flat = np.zeros(len(wanted))
        return np.interp(wanted, time, values), flat, flat
    at = np.interp(even, time, values)
    found = [np.interp(wanted, even, savgol_filter(at, window, 3, deriv=order, delta=period)) for order in range(3)]
    return found[0], found[1], found[2]


def _base_motion(recording: Recording, tree: Tree, time: FloatArray) -> BaseMotion:
    """How the base moved, from the cycles.

    Raises:
        RecordingError: nothing tells.
    """
    cycles = recording.cycles
    if any(name not in cycles for name in _BASE):
        raise RecordingError(
            recording.path,
            "does not tell how the robot's base moved, so neither what its joints carry",
            "fit it to a recording of the robot hung up by its body, with fixed_base = true in its rig",
        )
    columns = np.stack([np.asarray(cycles[name]) for name in _BASE], axis=1)
    known = ~np.isnan(columns).any(axis=1)
    columns[known, 3:] = np.unwrap(columns[known, 3:], axis=0)
    at = np.asarray(cycles["time"])[known]
    found = [_derivatives(at, columns[known, k], time) for k in range(6)]
    place, _, acceleration = (np.stack([one[order] for one in found[:3]], axis=1) for order in range(3))
    (roll, pitch, yaw), (roll_rate, pitch_rate, yaw_rate), _ = zip(*found[3:], strict=True)
    turn = _about(2, yaw) @ _about(1, pitch) @ _about(0, roll)
    # spin: each angle turns about the axis that the ones after it have turned
    spin = _about(2, yaw) @ (
        _about(1, pitch) @ np.stack((roll_rate, 0 * roll, 0 * roll), axis=1)[..., None]
        + np.stack((0 * roll, pitch_rate, 0 * roll), axis=1)[..., None]
    )
    spin = spin[..., 0] + np.stack((0 * roll, 0 * roll, yaw_rate), axis=1)
    rate = np.gradient(spin, time, axis=0)
    arm = turn @ -tree.centre[0]  # what is recorded is the base's centre of mass
    acceleration = acceleration + np.cross(rate, arm) + np.cross(spin, np.cross(spin, arm))
    return BaseMotion(turn, place + arm, spin, rate, acceleration)


def _about(axis: int, angle: FloatArray) -> FloatArray:
    """Rotations (l, 3, 3) about an axis of the frame."""
    found = np.zeros((len(angle), 3, 3))
    i, k = (axis + 1) % 3, (axis + 2) % 3
    found[:, axis, axis] = 1.0
    found[:, i, i] = found[:, k, k] = np.cos(angle)
    found[:, k, i] = np.sin(angle)
    found[:, i, k] = -np.sin(angle)
    return found
