"""The arm of a one-servo rig in closed form, from its URDF: inertia about the joint and the torque of its weight."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig, ServoConfig
from axbridge.errors import RigError

__all__ = ["Arm", "arm_of"]


@dataclass(frozen=True)
class Arm:
    """A rigid body on a fixed hinge.

    Attributes:
        inertia: About the hinge, kg·m².
        gravity: Largest torque of its weight, m·g·l, N·m.
        phase: The weight's torque at joint angle θ is `-gravity·sin(θ + phase)`; 0 where 0 rad hangs down, rad.
        stops: Ends of its travel, rad; ±inf = none.
    """

    inertia: float
    gravity: float
    phase: float = 0.0
    stops: tuple[float, float] = (-math.inf, math.inf)


def arm_of(rig: Rig, servo: ServoConfig) -> Arm:
    """The arm that a servo swings.

    Raises:
        RigError: no such joint, a joint that turns something on another moving joint, or more joints beyond it.
    """
    path = rig.urdf_path()
    assert rig.world is not None  # urdf_path has seen to it
    try:
        robot = ET.fromstring(rig.urdf_text())  # noqa: S314 - the user's own file
    except ET.ParseError as failure:
        raise RigError(path, "", f"not valid XML: {failure}", "correct the URDF") from failure
    joints = {joint.get("name"): joint for joint in robot.iter("joint") if joint.get("type") != "fixed"}
    joint = joints.get(servo.joint)
    if joint is None:
        raise RigError(path, f"joint {servo.joint}", "no such joint", f"it has: {', '.join(map(str, joints))}")
    if len(joints) > 1 or not rig.world.fixed_base:
        raise RigError(
            path,
            f"joint {servo.joint}",
            "is one of several moving parts",
            "identification needs one arm on a fixed base; use a rig of one servo",
        )
    axis = _vector(joint.find("axis"), "xyz", (1.0, 0.0, 0.0))
    axis = axis / np.linalg.norm(axis)
    frame = _rotation(joint.find("origin"))
    down = frame.T @ np.array(rig.world.gravity)
    inertia, moment = 0.0, np.zeros(3)
    for mass, centre, tensor in _bodies(robot, str(_child(joint))):
        inertia += float(axis @ (tensor + mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))) @ axis)
        moment += mass * centre
    # turned by θ the torque is axis·(R(θ) m r × g) = a·cos θ + b·sin θ
    across = moment - axis * (axis @ moment)
    a = float(axis @ np.cross(across, down))
    b = float(axis @ np.cross(np.cross(axis, across), down))
    phase = math.atan2(-a, -b) if math.hypot(a, b) else 0.0
    return Arm(inertia, math.hypot(a, b), phase, _stops(servo, joint))


def _stops(servo: ServoConfig, joint: ET.Element) -> tuple[float, float]:
    """The rig's, else the URDF's; as in the simulator lower >= upper is none."""
    if servo.min_stop < servo.max_stop:
        return servo.min_stop, servo.max_stop
    limit = joint.find("limit")
    low, high = (float(limit.get(key, "0")) if limit is not None else 0.0 for key in ("lower", "upper"))
    return (low, high) if joint.get("type") != "continuous" and low < high else (-math.inf, math.inf)


def _bodies(robot: ET.Element, link: str) -> Iterator[tuple[float, FloatArray, FloatArray]]:
    """Mass, centre and inertia tensor about it of a link and what is fixed to it, in the link's frame."""
    element = next((item for item in robot.iter("link") if item.get("name") == link), None)
    inertial = element.find("inertial") if element is not None else None
    if inertial is not None:
        turned = _rotation(inertial.find("origin"))
        given = inertial.find("inertia")
        values = (
            {key: float(given.get(key, "0")) for key in _TENSOR} if given is not None else dict.fromkeys(_TENSOR, 0)
        )
        tensor = np.array([[values[_key(i, j)] for j in "xyz"] for i in "xyz"], dtype=float)
        mass_of = inertial.find("mass")
        mass = float(mass_of.get("value", "0")) if mass_of is not None else 0.0
        yield mass, _vector(inertial.find("origin"), "xyz"), turned @ tensor @ turned.T
    for joint in robot.iter("joint"):
        parent = joint.find("parent")
        if joint.get("type") == "fixed" and parent is not None and parent.get("link") == link:
            place, turned = _vector(joint.find("origin"), "xyz"), _rotation(joint.find("origin"))
            for mass, centre, tensor in _bodies(robot, str(_child(joint))):
                yield mass, place + turned @ centre, turned @ tensor @ turned.T


_TENSOR = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")


def _key(i: str, j: str) -> str:
    return "i" + "".join(sorted((i, j)))


def _child(joint: ET.Element) -> str | None:
    child = joint.find("child")
    return child.get("link") if child is not None else None


def _vector(element: ET.Element | None, key: str, missing: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> FloatArray:
    text = element.get(key) if element is not None else None
    return np.array([float(part) for part in text.split()] if text else missing, dtype=float)


def _rotation(origin: ET.Element | None) -> FloatArray:
    """Fixed-axis roll, pitch, yaw as a matrix."""
    roll, pitch, yaw = _vector(origin, "rpy")
    cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (math.cos, math.sin))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
