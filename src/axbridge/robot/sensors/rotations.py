"""Rotations as quaternions x, y, z, w: arithmetic only."""

from __future__ import annotations

import math

from axbridge.physics.engine import Quaternion, Vector

__all__ = ["crossed", "inverse", "of_roll_pitch_yaw", "product", "roll_pitch_yaw", "turned"]


def product(one: Quaternion, other: Quaternion) -> Quaternion:
    """First `other`, then `one`."""
    x, y, z, w = one
    a, b, c, d = other
    return (
        w * a + x * d + y * c - z * b,
        w * b - x * c + y * d + z * a,
        w * c + x * b - y * a + z * d,
        w * d - x * a - y * b - z * c,
    )


def inverse(rotation: Quaternion) -> Quaternion:
    """Back again."""
    x, y, z, w = rotation
    return -x, -y, -z, w


def turned(vector: Vector, rotation: Quaternion) -> Vector:
    """`vector`, turned."""
    x, y, z, _ = product(product(rotation, (*vector, 0.0)), inverse(rotation))
    return x, y, z


def crossed(one: Vector, other: Vector) -> Vector:
    """The cross product."""
    (x, y, z), (a, b, c) = one, other
    return y * c - z * b, z * a - x * c, x * b - y * a


def of_roll_pitch_yaw(roll: float, pitch: float, yaw: float) -> Quaternion:
    """About the fixed axes x, y and z, one after the other, rad: as in a URDF."""
    rotation: Quaternion = (0.0, 0.0, 0.0, 1.0)
    for axis, angle in enumerate((roll, pitch, yaw)):
        about = [0.0, 0.0, 0.0]
        about[axis] = math.sin(angle / 2)
        rotation = product((about[0], about[1], about[2], math.cos(angle / 2)), rotation)
    return rotation


def roll_pitch_yaw(rotation: Quaternion) -> Vector:
    """About x, y and z, rad; the other way round of `of_roll_pitch_yaw`."""
    x, y, z, w = rotation
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x))))
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return roll, pitch, yaw
