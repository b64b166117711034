"""Rotations: quaternions and matrices agree."""

import math

import numpy as np
import pytest

from axbridge.rotations import (
    about,
    inverse,
    matrix,
    matrix_of_roll_pitch_yaw,
    of_axis,
    of_roll_pitch_yaw,
    product,
    roll_pitch_yaw,
    turned,
)

ANGLES = ((0.1, -0.4, 2.0), (-3.0, 1.2, -0.3))


def test_a_rotation_returns_its_roll_pitch_and_yaw():
    for angles in ANGLES:
        assert roll_pitch_yaw(of_roll_pitch_yaw(*angles)) == pytest.approx(angles)
    for pitch in (-math.pi / 2, math.pi / 2):  # gimbal lock: many angles give the same rotation
        upright = of_roll_pitch_yaw(0.7, pitch, -1.1)
        again = of_roll_pitch_yaw(*roll_pitch_yaw(upright))
        np.testing.assert_allclose(matrix(again), matrix(upright), atol=1e-7)
    assert turned((1.0, 0.0, 0.0), of_roll_pitch_yaw(0, 0, math.pi / 2)) == pytest.approx((0, 1, 0))
    assert turned((1.0, 0.0, 0.0), of_roll_pitch_yaw(0, math.pi / 2, 0)) == pytest.approx((0, 0, -1))


def test_matrix_and_quaternion_of_the_same_angles_or_axis_are_the_same_rotation():
    many = matrix_of_roll_pitch_yaw(*np.transpose(ANGLES))
    for angles, expected in zip(ANGLES, many, strict=True):
        rotation = of_roll_pitch_yaw(*angles)
        np.testing.assert_allclose(matrix(rotation), expected, atol=1e-15)
        np.testing.assert_array_equal(matrix_of_roll_pitch_yaw(*angles), expected)
        assert turned((1.0, 2.0, 3.0), rotation) == pytest.approx(expected @ (1, 2, 3))
    axis, angles = np.array([0.48, -0.6, 0.64]), np.array([0.0, 1.0, -2.5])
    for angle, expected in zip(angles, about(axis, angles), strict=True):
        np.testing.assert_allclose(matrix(of_axis(axis, angle)), expected, atol=1e-15)
    there = of_axis(axis, 1.0)
    assert product(there, inverse(there)) == pytest.approx((0, 0, 0, 1))
