"""What one servo of a robot has to carry while all its joints move as they were recorded.

The motion of the other joints is taken as it was measured; the joint that is fitted is free to move otherwise. Inertia
about its axis and the torque of weight, which goes with the sine and the cosine of its own angle, are exact then. What
the motion adds (accelerations of the others, Coriolis) is that of the recorded motion.

A robot that nobody bolted down must tell how its base moved: recordings of simulated walks do (`base_x` and so on).
Then what arms and a head carry is known. What a leg carries depends on what the floor pushes, of which nothing is
recorded: a servo of a leg is refused, and wants a recording of the robot hung up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig, ServoConfig
from axbridge.config.urdf import Tree, read_tree
from axbridge.errors import RecordingError, RigError, UsageError
from axbridge.physics.inverse_dynamics import BaseMotion, accelerated, wrenches
from axbridge.physics.link_paths import way_to_base
from axbridge.physics.poses import posed
from axbridge.record.recording import Recording, Track
from axbridge.rotations import matrix_of_roll_pitch_yaw

__all__ = ["CARRIED", "CarriedRecording", "joint_of_robot", "joints_motion"]

CARRIED = 4  # columns: inertia, kg·m²; torque a·sin(θ) + b·cos(θ) + c: a, b, c, N·m
_SMOOTH = 0.05  # s on either side from which speeds and accelerations are taken: rounding makes shorter ones worthless
_BLOCK = 20_000  # samples at a time: memory
_BASE = ("base_x", "base_y", "base_z", "base_roll", "base_pitch", "base_yaw")
_FEET = 0.02  # m: ends of the robot that come so near to the lowest one stand on the floor, too
_HUNG = "fit it to a recording of the robot hung up by its body, with fixed_base = true in its rig"


@dataclass(frozen=True)
class CarriedRecording(Recording):
    """A recording of one servo, with what it carried.

    Attributes:
        at: Times of `load`, s, (l,).
        load: (l, CARRIED), about the joint.
    """

    at: FloatArray = field(default_factory=lambda: np.zeros(0))
    load: FloatArray = field(default_factory=lambda: np.zeros((0, CARRIED)))

    def load_at(self, time: FloatArray) -> FloatArray:
        """The load at other times (k,): (k, CARRIED)."""
        return np.stack([np.interp(time, self.at, column) for column in self.load.T], axis=1)


def joint_of_robot(recordings: Sequence[Recording], rig: Rig, name: str) -> tuple[list[Recording], Rig]:
    """Recordings of one servo of a robot with what it carried, and the rig with that servo alone.

    Raises:
        UsageError: the rig has no such servo.
        RecordingError: the motion of a joint or of the base is missing, or the floor pushes what the servo moves.
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
    motion = joints_motion(recording, rig, tree, track.time)
    gravity = np.array(rig.world.gravity)
    pieces = []
    for first in range(0, len(track), _BLOCK):
        part = slice(first, first + _BLOCK)
        moved = None if base is None else BaseMotion(*(column[part] for column in base))
        if moved is not None and _stands(tree, joint, motion[0][part], moved):
            raise RecordingError(
                recording.path,
                f"does not tell what {servo.name} carries: it moves a foot, and nobody recorded what the floor pushes",
                _HUNG,
            )
        pieces.append(_load(tree, joint, motion[0][part], motion[1][part], motion[2][part], gravity, moved))
    registers = recording.metadata.get("registers") or {}
    metadata = {**recording.metadata, "registers": {key: registers[key] for key in (servo.name,) if key in registers}}
    return CarriedRecording(
        recording.path, {servo.name: track}, recording.events, {}, metadata, recording.complete,
        at=track.time, load=np.concatenate(pieces),
    )  # fmt: skip


def _load(
    tree: Tree, joint: int, position: FloatArray, speed: FloatArray, acceleration: FloatArray, gravity: FloatArray,
    base: BaseMotion | None,
) -> FloatArray:  # fmt: skip
    """(l, CARRIED) along a motion in which nothing touches what the joint moves."""
    still, alone = np.zeros_like(position), np.zeros_like(position)
    alone[:, joint] = 1.0
    weightless = np.zeros(3)
    torque = wrenches(tree, position, speed, acceleration, gravity, base).torques()[:, joint]
    inertia = wrenches(tree, position, still, alone, weightless).torques()[:, joint]
    leaning = None if base is None else base._replace(**dict.fromkeys(base._fields[2:], np.zeros((len(position), 3))))
    weight = []
    for angle in (np.pi / 2, 0.0):
        turned = position.copy()
        turned[:, joint] = angle
        weight.append(wrenches(tree, turned, still, still, gravity, leaning).torques()[:, joint])
    a, b = weight
    theta = position[:, joint]
    rest = torque - inertia * acceleration[:, joint] - a * np.sin(theta) - b * np.cos(theta)
    return np.stack((inertia, a, b, rest), axis=1)


def _stands(tree: Tree, joint: int, position: FloatArray, base: BaseMotion) -> bool:
    """Whether something beyond a joint comes as low as the lowest end of the robot."""
    height = posed(tree, position, (base.place, base.turn)).centres[:, :, 2].min(axis=1)
    ends = [link for link in range(len(tree.links)) if link not in tree.parent]
    moved = int(np.flatnonzero(tree.dof == joint)[0])
    feet = [end for end in ends if height[end] < min(height[ends]) + _FEET]
    return any(moved in way_to_base(tree, foot) for foot in feet)


def joints_motion(
    recording: Recording, rig: Rig, tree: Tree, time: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Positions, speeds and accelerations (l, n) of all joints of a tree at the times (l,), s; rad and s.

    Raises:
        RecordingError: it does not tell how a joint moved.
    """
    servos = {servo.joint: servo for servo in rig.servos}
    columns = []
    for joint in tree.joints:
        servo = servos.get(joint.name)
        if servo is None or servo.name not in recording or np.isnan(recording[servo.name].position).all():
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
    nothing = np.zeros(0)
    columns = np.stack([np.asarray(cycles.get(name, nothing)) for name in _BASE], axis=1)
    known = ~np.isnan(columns).any(axis=1)
    if not known.any():
        raise RecordingError(
            recording.path,
            "does not tell how the robot's base moved, so neither what its joints carry",
            _HUNG,
        )
    columns[known, 3:] = np.unwrap(columns[known, 3:], axis=0)
    at = np.asarray(cycles["time"])[known]
    found = [_derivatives(at, columns[known, k], time) for k in range(6)]
    place, _, acceleration = (np.stack([one[order] for one in found[:3]], axis=1) for order in range(3))
    (roll, pitch, yaw), rates, _ = zip(*found[3:], strict=True)
    turn = matrix_of_roll_pitch_yaw(roll, pitch, yaw)
    # each angle turns about its axis as the angles after it have turned that
    heading = matrix_of_roll_pitch_yaw(0 * roll, 0 * pitch, yaw)
    axes = turn[:, :, 0], heading[:, :, 1], heading[:, :, 2]
    spin = sum(axis * fast[:, None] for axis, fast in zip(axes, rates, strict=True))
    rate = np.gradient(spin, time, axis=0)
    arm = turn @ -tree.centre[0]  # what is recorded is the base's centre of mass
    acceleration = acceleration + accelerated(arm, spin, rate)
    return BaseMotion(turn, place + arm, spin, rate, acceleration)
