"""Rotations: quaternions x, y, z, w as plain numbers, and rotation matrices of arrays of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]  # x, y, z, w
_UPRIGHT = 1 - 1e-12  # from this sine on, the pitch is 90 degrees within rounding
LinkPose = tuple[Vector, Quaternion]  # a link frame's position, m, and rotation


def product(second: Quaternion, first: Quaternion) -> Quaternion:
    """Return the rotation by `first` followed by the rotation by `second`."""
    x, y, z, w = second
    a, b, c, d = first
    return (
        w * a + x * d + y * c - z * b,
        w * b - x * c + y * d + z * a,
        w * c + x * b - y * a + z * d,
        w * d - x * a - y * b - z * c,
    )


def inverse(rotation: Quaternion) -> Quaternion:
    """Return the inverse of a unit quaternion."""
    x, y, z, w = rotation
    return -x, -y, -z, w


def turned(vector: Vector, rotation: Quaternion) -> Vector:
    """Return the vector rotated by a unit quaternion."""
    (a, b, c), (x, y, z, w) = vector, rotation
    u, v, s = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    return a + w * u + y * s - z * v, b + w * v + z * u - x * s, c + w * s + x * v - y * u


def crossed(first: Vector, second: Vector) -> Vector:
    """Return the cross product."""
    (x, y, z), (a, b, c) = first, second
    return y * c - z * b, z * a - x * c, x * b - y * a


def of_axis(axis: Sequence[float], angle: float) -> Quaternion:
    """Return the rotation about an axis of unit length by an angle, rad."""
    x, y, z = axis
    s = math.sin(angle / 2)
    return s * x, s * y, s * z, math.cos(angle / 2)


def of_roll_pitch_yaw(roll: float, pitch: float, yaw: float) -> Quaternion:
    """Return the rotation about the fixed axes x, then y, then z, rad, as in a URDF."""
    first, second, third = of_axis((1, 0, 0), roll), of_axis((0, 1, 0), pitch), of_axis((0, 0, 1), yaw)
    return product(third, product(second, first))


def roll_pitch_yaw(rotation: Quaternion) -> Vector:
    """Return the angles about x, y and z, rad: the inverse of `of_roll_pitch_yaw`."""
    x, y, z, w = rotation
    across = max(-1.0, min(1.0, 2 * (w * y - z * x)))
    pitch = math.asin(across)
    if abs(across) > _UPRIGHT:  # then roll and yaw are about the same axis
        return 0.0, pitch, math.atan2(2 * (z * w - x * y), 1 - 2 * (x * x + z * z))
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return roll, pitch, yaw


def matrix(rotation: Quaternion) -> FloatArray:
    """Return the rotation matrix (3, 3) of a unit quaternion."""
    x, y, z, w = rotation
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def about(axis: FloatArray, angles: FloatArray) -> FloatArray:
    """Return rotation matrices (n, 3, 3) about an axis (3,) of unit length by angles (n,), rad: Rodrigues' formula."""
    x, y, z = axis
    cross = np.array(((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)))
    sine, cosine = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    matrix: FloatArray = np.eye(3) + sine * cross + (1 - cosine) * (cross @ cross)
    return matrix


def matrix_of_roll_pitch_yaw(roll: npt.ArrayLike, pitch: npt.ArrayLike, yaw: npt.ArrayLike) -> FloatArray:
    """Return rotation matrices (…, 3, 3) about the fixed axes x, then y, then z by angles (…,), rad, as in a URDF."""
    about_x, about_y, about_z = (_about_frame_axis(axis, angle) for axis, angle in enumerate((roll, pitch, yaw)))
    return about_z @ about_y @ about_x


def _about_frame_axis(axis: int, angle: npt.ArrayLike) -> FloatArray:
    """Return matrices about axis x, y or z (0, 1, 2) without the rounding of `about`: right angles stay exact."""
    matrix = np.zeros((*np.shape(angle), 3, 3))
    i, k = (axis + 1) % 3, (axis + 2) % 3
    matrix[..., axis, axis] = 1.0
    matrix[..., i, i] = matrix[..., k, k] = np.cos(angle)
    matrix[..., k, i] = np.sin(angle)
    matrix[..., i, k] = -np.sin(angle)
    return matrix
