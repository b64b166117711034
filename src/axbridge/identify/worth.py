"""What a fitted model is worth to whoever relies on it: its held-out error, and what its intervals leave open."""

from __future__ import annotations

import math

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.model import PredictionParams
from axbridge.identify.fit import Fit
from axbridge.physics.columns import Param
from axbridge.physics.position_laws import asked

__all__ = ["held_duty", "worth_of"]

_HELD = 0.2  # of its stall torque: what a joint of a small robot holds


def worth_of(fit: Fit) -> PredictionParams:
    """How far off the fitted model may be.

    The error is the root mean square over the recordings held out, each counted alike; there is none without them. The
    share is the half width of the 95 % interval of the duty with which the servo holds a fifth of its stall torque:
    the unknowns' intervals and correlations, propagated linearly.
    """
    held = [score.rmse for score in fit.scores if score.held_out]
    error = math.radians(math.sqrt(np.mean(np.square(held)))) if held else None
    voltage = float(np.mean(fit.runs.supply))
    row = fit.row
    stall = (
        row[Param.EFFICIENCY] * row[Param.CONSTANT] * voltage / (row[Param.RESISTANCE] + row[Param.RESISTANCE_PER_DUTY])
    )
    width = np.empty(len(fit.estimates))
    for index, estimate in enumerate(fit.estimates):
        ends = np.repeat(row[None], 2, axis=0)
        ends[:, estimate.unknown.column] = estimate.low, estimate.high
        low, high = (held_duty(end, _HELD * stall, voltage) for end in ends)
        width[index] = high - low
    variance = float(width @ fit.uncertainty.correlation @ width)
    share = math.sqrt(max(variance, 0.0)) / 2 / held_duty(row, _HELD * stall, voltage)
    return PredictionParams(held_out_error=error or None, load_share=share)


def held_duty(row: FloatArray, torque: float, voltage: float) -> float:
    """Duty with which a servo holds a torque, against friction; over 1 where it cannot.

    Args:
        row: Its model, (len(Param),).
        torque: At the output shaft, N·m.
        voltage: V.
    """
    dry = row[Param.COULOMB] + row[Param.STRIBECK]
    drive = (torque + dry) / (1.0 - min(row[Param.LOAD] + row[Param.LOAD_STRIBECK], 0.9))
    current = drive / (row[Param.EFFICIENCY] * row[Param.CONSTANT])
    duty = current * row[Param.RESISTANCE] / max(voltage - current * row[Param.RESISTANCE_PER_DUTY], 0.1)
    return float(asked(duty, row[Param.DEAD_DUTY]))
