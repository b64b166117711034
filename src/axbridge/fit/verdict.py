"""What a fitted model is worth to whoever relies on it: its held-out error, and what its intervals leave open."""

from __future__ import annotations

import math

import numpy as np

from axbridge.config.model import PredictionParams
from axbridge.fit.result import Fit
from axbridge.fit.uncertainty import QUANTILE
from axbridge.servo.steady import SteadyServo

_HELD = 0.2  # of its stall torque: what a joint of a small robot lifts


def worth_of(fit: Fit) -> PredictionParams:
    """How far off the fitted model may be.

    The error is the root mean square over the recordings held out, each counted alike; there is none without them. The
    share is the half width of the 95 % interval of the duty with which the servo lifts a fifth of its stall torque:
    the unknowns' intervals and correlations, propagated linearly, with the constants that the fit held: what another
    constant does to an unknown, it does not do to the torque of a duty.
    """
    held = [score.rmse for score in fit.scores if score.held_out]
    error = math.radians(math.sqrt(np.mean(np.square(held)))) if held else None
    voltage = float(np.mean(fit.runs.supply))
    row = fit.row
    torque = _HELD * SteadyServo.of(row).drive(1.0, voltage, 0.0)
    width, space = np.empty(len(fit.estimates)), fit.space
    point, reach = space.point(row), QUANTILE * fit.uncertainty.share
    bounds = space.sets(np.array([point - reach, point + reach]))
    for index, unknown in enumerate(space.unknowns):
        ends = np.repeat(row[None], 2, axis=0)
        ends[:, unknown.column] = bounds[:, unknown.column]
        low, high = (SteadyServo.of(end).duty(torque, voltage, 0.0) for end in ends)
        width[index] = high - low
    variance = float(width @ fit.uncertainty.correlation @ width)
    share = math.sqrt(max(variance, 0.0)) / 2 / SteadyServo.of(row).duty(torque, voltage, 0.0)
    apart = [score.chance for score in fit.scores if not math.isnan(score.chance)]
    chance = math.radians(math.sqrt(np.mean(np.square(apart)))) if apart else None
    return PredictionParams(held_out_error=error or None, load_share=share, chance=chance)
