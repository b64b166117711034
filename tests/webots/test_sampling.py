"""Webots' sampling rule: NaN until the period has passed, held between samples."""

import math

import pytest

from axbridge.errors import UsageError
from axbridge.webots.sampling import Sampler, truncated


def test_nothing_is_read_before_the_period_has_passed():
    sampler = Sampler()
    sampler.enable(40, now=1.0)
    sampler.offer(0.1, now=1.02)
    assert math.isnan(sampler.value)
    sampler.offer(0.2, now=1.04)
    assert sampler.value == 0.2


def test_a_sample_is_held_until_the_next_is_due():
    sampler = Sampler()
    sampler.enable(40, now=0.0)
    readings = []
    for tick in range(1, 7):
        sampler.offer(float(tick), now=tick * 0.02)
        readings.append(sampler.value)
    assert readings[1:] == [2, 2, 4, 4, 6]


def test_a_step_longer_than_the_period_keeps_the_grid():
    sampler = Sampler()
    sampler.enable(10, now=0.0)
    sampler.offer(1.0, now=0.035)
    sampler.offer(2.0, now=0.039)
    assert sampler.value == 1.0
    sampler.offer(3.0, now=0.040)
    assert sampler.value == 3.0


def test_period_zero_disables_and_negative_is_refused():
    sampler = Sampler()
    sampler.enable(10, now=0.0)
    sampler.enable(0, now=0.0)
    sampler.offer(1.0, now=9.0)
    assert math.isnan(sampler.value)
    with pytest.raises(UsageError, match="-5 ms is negative"):
        sampler.enable(-5, now=0.0)


def test_values_are_cut_as_webots_cuts_them():
    assert truncated(-0.3, 0.1) == pytest.approx(-0.2)
    assert truncated(0.26, 0.1) == pytest.approx(0.3)
    assert math.isnan(truncated(math.nan, 0.1))
