"""Series instead of calls of the C library: as exact as it."""

import math

import numpy as np
import pytest

from axbridge.servo.branch_free import decayed, erf


def test_the_series_are_as_exact_as_their_numbers():
    x = np.concatenate((np.linspace(0.0, 60.0, 5001), np.logspace(-12, 0, 500)))
    assert [decayed(value) for value in x] == pytest.approx(-np.expm1(-x), rel=1e-15, abs=0)
    x = np.linspace(-4.0, 4.0, 5001)
    assert [erf(value) for value in x] == pytest.approx([math.erf(value) for value in x], rel=1e-14)
