"""Preview control of the zero-moment point."""

import numpy as np
import pytest

from axbridge.motion.gait import GRAVITY, followed

STEP = 0.005
TIME = np.arange(0.0, 8.0, STEP)


def stairs(size=0.04, every=0.6):
    """A reference that stands at 0, takes eight steps to the side and ahead, and stays."""
    number = np.clip(np.floor((TIME - 1.0) / every) + 1, 0, 8)
    return np.stack((number * size, np.where((number > 0) & (number < 8), size * (-1) ** number, 0.0)), axis=1)


def test_the_zero_moment_point_follows_its_reference_and_comes_to_rest_on_it():
    reference = stairs()
    centre, point = followed(reference, 0.25, STEP)
    settled = np.abs(TIME[:, None] - (1.0 + 0.6 * np.arange(9))).min(axis=1) > 0.1  # away from the jumps
    assert np.abs(point - reference)[settled].max() < 0.002
    assert centre[-1] == pytest.approx(reference[-1], abs=1e-5)


def test_the_centre_of_mass_sets_off_before_the_point_and_swings_less():
    centre, _ = followed(stairs(), 0.25, STEP)
    assert abs(centre[TIME < 0.99][-1, 1]) > 0.01  # the first jump is at 1 s
    assert np.abs(centre[:, 1]).max() < 0.035


@pytest.mark.parametrize("height", [0.15, 0.25, 0.6])
def test_the_point_is_that_of_a_cart_on_a_table(height):
    centre, point = followed(stairs(), height, STEP)
    push = np.gradient(np.gradient(centre, STEP, axis=0), STEP, axis=0)
    quiet = np.abs(np.gradient(push, STEP, axis=0)).max(axis=1) < 20.0  # second differences are good there
    quiet[:5] = False  # one-sided differences
    assert quiet.sum() > 500
    np.testing.assert_allclose(point[quiet], (centre - height / GRAVITY * push)[quiet], atol=2e-3)
