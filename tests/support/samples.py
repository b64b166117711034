"""Samples for recorders, with the fields that a test needs."""

import math

import numpy as np

from axbridge.state import SERVO_ROW


def record(recorder, time, *, servo="a", logged=None, **columns):
    """One servo's sample."""
    row = np.full(1, math.nan, SERVO_ROW)
    for name, value in {"time": time, **columns}.items():
        row[name] = value
    recorder.step((servo,), row, logged=logged)
