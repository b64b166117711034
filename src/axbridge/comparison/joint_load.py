"""What one servo of a robot has to carry while all its joints move as they were recorded.

The joint that is fitted may move otherwise than it did. Inertia about its axis and the torque of weight, which goes
with sine and cosine of its own angle, are exact then; what the motion adds (accelerations of the others, Coriolis) is
that of the recorded motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from axbridge.arrays import BoolArray, FloatArray
from axbridge.comparison.footing import CLEAR, Motion, Standing, footing, joints_motion, on_two_feet
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.config.urdf import Tree
from axbridge.errors import RecordingError, RigError, UsageError
from axbridge.recording.recording import Recording
from axbridge.sim.body.inverse_dynamics import wrenches
from axbridge.sim.body.kinematics import rooted_at, way_to_base

CARRIED = 4  # columns: inertia, kg·m²; torque a·sin(θ) + b·cos(θ) + c: a, b, c, N·m
_BLOCK = 20_000  # samples at a time: memory
_ENOUGH = 1.0  # s on its feet, in all, below which a recording tells nothing
_SURELY = 0.99
_HUNG = "fit it to a recording of the robot hung up by its body, with fixed_base = true in its rig"


@dataclass(frozen=True)
class CarriedRecording(Recording):
    """A recording of one servo, with what it carried."""

    at: FloatArray = field(default_factory=lambda: np.zeros(0))  # times of `load`, s, (l,)
    load: FloatArray = field(default_factory=lambda: np.zeros((0, CARRIED)))  # (l, CARRIED), about the joint
    # when that is known, (l,). Else it is as if the robot stood on its lower foot.
    known: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def load_at(self, time: FloatArray) -> FloatArray:
        """The load at other times (k,): (k, CARRIED)."""
        return np.stack([np.interp(time, self.at, column) for column in self.load.T], axis=1)

    def known_at(self, time: FloatArray) -> BoolArray:
        """Whether it is known at other times (k,): (k,)."""
        sure: BoolArray = np.interp(time, self.at, self.known) > _SURELY
        return sure


def joints_of_robot(recordings: Sequence[Recording], rig: Rig, names: Sequence[str]) -> tuple[list[Recording], Rig]:
    """Each recording by each of these servos, with what it carried; and the rig with those servos alone."""
    servos = [_hinge(rig, name) for name in names]
    found: list[Recording] = [_carried(recording, rig, servo) for recording in recordings for servo in servos]
    return found, rig.model_copy(update={"servos": tuple(servos)})


def _hinge(rig: Rig, name: str) -> ServoConfig:
    """The servo of this name, which turns a joint of the URDF."""
    servo = next((servo for servo in rig.servos if servo.name == name), None)
    if servo is None:
        names = ", ".join(servo.name for servo in rig.servos)
        raise UsageError(f"rig {rig.name} has no servo {name!r}", f"its servos: {names}")
    path, tree = rig.urdf_path(), rig.tree()
    joints = tree.names
    if servo.joint not in joints:
        raise RigError(path, f"joint {servo.joint}", "no such joint", f"it has: {', '.join(joints)}")
    if tree.joints[joints.index(servo.joint)].linear:
        raise RigError(path, f"joint {servo.joint}", "slides", "identification needs a hinge")
    return servo


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
        load = _load(tree, joint, motion, np.tile(rig.world.gravity, (len(track), 1)))
    else:
        load, known = _on_foot(recording, rig, servo)
        track = replace(track, velocity=motion[1][:, joint])  # rounded, Present Speed is a poor start on each step
    registers = recording.metadata.get("registers") or {}
    metadata = {**recording.metadata, "registers": {key: registers[key] for key in (servo.name,) if key in registers}}
    return CarriedRecording(
        recording.path, {servo.name: track}, recording.events, {}, metadata,
        recording.complete, at=track.time, load=load, known=known,
    )  # fmt: skip


def _on_foot(recording: Recording, rig: Rig, servo: ServoConfig) -> tuple[FloatArray, BoolArray]:
    """What a joint of a robot on its feet carried (l, CARRIED) by what the floor says, and when it says it (l,).

    On one foot all that the floor pushes goes through that foot, which does not move. On two feet the weight is shared,
    nobody knows how; that leaves open what the joints between the feet carry, but not what arms and head do.
    """
    track = recording[servo.name]
    robot = on_two_feet(rig)
    if robot is None or rig.world is None or not rig.world.ground:
        why = (
            "its rig has no floor to stand on (ground = true)"
            if rig.world is not None and not rig.world.ground
            else "how its base moves and what the floor pushes is known only of a robot on two flat feet"
        )
        raise RecordingError(recording.path, f"does not show what {servo.name} carries: {why}", _HUNG)
    stood = footing(recording, robot, track.time)
    standing = stood.margin > 0
    on_one = standing & (np.abs(stood.lifted) > CLEAR)
    leg = _between_feet(robot, servo.joint)
    known = on_one if leg else standing
    seconds = known.mean() * np.ptp(track.time)
    if seconds < _ENOUGH:
        where = "one foot; on two, nobody knows how they share what the floor pushes" if leg else "its feet"
        why = f"does not show what {servo.name} carries: for {seconds:.2f} s in all the robot stood on {where}"
        raise RecordingError(recording.path, why, f"fit it to a walk of a few steps; or {_HUNG}")
    load = np.zeros((len(track), CARRIED))
    for rooted, chosen in zip(stood.rooted, (stood.lifted <= 0, stood.lifted > 0), strict=True):
        joint = rooted.tree.names.index(servo.joint)
        load[chosen] = _load(rooted.tree, joint, rooted.motion, rooted.gravity)[chosen]
    return load, known


def _between_feet(robot: Standing, joint: str) -> bool:
    """Whether a joint is on the way from foot to foot."""
    tree = rooted_at(robot.tree, robot.soles[0].link)
    foot = tree.links.index(robot.tree.links[robot.soles[1].link])
    dofs = [int(tree.dof[link]) for link in way_to_base(tree, foot)]
    return joint in [tree.joints[dof].name for dof in dofs if dof >= 0]


def _load(tree: Tree, joint: int, motion: Motion, gravity: FloatArray) -> FloatArray:
    """(l, CARRIED) along a motion in which nothing touches the robot but at its base."""
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
