"""Conversions of register counts to SI units and back."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axbridge.config.registers import AX, MX, X
from axbridge.units import Calibration, bits_to_signed, from_sign_magnitude, sign_magnitude, signed_to_bits


def test_an_ax_turns_300_degrees_over_1023_counts():
    assert Calibration(AX, 512, 1).angle(1023) == pytest.approx(math.radians(511 * 300 / 1023))
    assert Calibration(AX, 512, 1).goal(math.pi / 2) == 819


def test_a_reversed_servo_counts_down():
    mounted = Calibration(AX, 512, -1)
    assert mounted.goal(math.pi / 2) == 205
    assert mounted.speed(0x400 | 100) > 0 > mounted.speed(100)
    assert mounted.load(0x400 | 1023) == 1.0
    assert np.degrees(mounted.range) == pytest.approx([-149.85, 150.15], abs=0.01)


@given(counts=st.integers(0, 1023), zero=st.integers(0, 1023), direction=st.sampled_from([1, -1]))
def test_every_count_is_the_same_after_a_conversion_to_radians_and_back(counts, zero, direction):
    mounted = Calibration(AX, zero, direction)
    assert mounted.goal(mounted.angle(counts)) == counts


@given(st.integers(-1023, 1023))
def test_signed_magnitude_round_trip_where_clockwise_zero_is_zero_and_high_bits_are_ignored(value):
    assert bits_to_signed(signed_to_bits(value)) == bits_to_signed(0xF800 | signed_to_bits(value)) == value
    assert bits_to_signed(1024) == 0


@pytest.mark.parametrize("bit", [10, 11, 15])
def test_a_sign_beside_a_magnitude_is_decoded_alike_of_a_number_and_of_an_array(bit):
    values = np.array([0, 1, -1, (1 << bit) - 1, 1 - (1 << bit)])
    words = [sign_magnitude(int(value), bit) for value in values]
    assert [from_sign_magnitude(word, bit) for word in words] == from_sign_magnitude(np.array(words), bit).tolist()
    assert [from_sign_magnitude(word, bit) for word in words] == values.tolist()


def test_a_tiny_speed_limit_is_never_converted_to_full_speed():
    assert Calibration(AX, 512, 1).speed_limit(1e-9) == 1
    assert Calibration(MX, 2048, 1).speed_limit(1e9) == 1023


def test_an_x_servo_has_a_list_of_rates():
    rates = [9600, 57600, 115200, 1e6, 2e6, 3e6, 4e6, 4.5e6]
    assert [X.baud(value) for value in range(8)] == rates
    assert [X.baud_register(rate) for rate in rates] == list(range(8))
    assert X.baud_register(500_000) is None
    assert math.isnan(X.baud(8))
    assert X.rates == "9600, 57600, 115200, 1000000, 2000000, 3000000, 4000000, 4500000"
    assert AX.rates.startswith("2000000/(n+1): 1000000, ")


@given(st.integers(0, 254), st.sampled_from([AX, MX]))
def test_every_baud_rate_of_a_servo_is_the_same_after_a_round_trip(value, units):
    register = units.baud_register(units.baud(value))
    assert units.baud(register) == units.baud(value)


def test_host_rates_near_a_servos_rate_are_accepted_and_others_are_refused():
    assert [AX.baud_register(baud) for baud in (1_000_000, 115_200, 57_600, 9_600)] == [1, 16, 34, 207]
    assert [AX.baud_register(baud) for baud in (900_000, 1_500_000, 3_000_000, 1)] == [None] * 4
    assert MX.baud_register(3_000_000) == 252
