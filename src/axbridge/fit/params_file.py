"""A fit as a parameters file for rigs, as JSON, and as text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from axbridge import __version__
from axbridge.config.model import PredictionParams, ServoModel, to_toml
from axbridge.files import write_whole, writing
from axbridge.fit.least_squares import QUANTILE
from axbridge.fit.result import Estimate, Fit
from axbridge.fit.unknowns import Unknown
from axbridge.recording.provenance import versions
from axbridge.servo.steady import SteadyServo

_MOTOR_SIDE = "motor.torque_constant"  # searched at the output shaft, kept at the motor: over the gear ratio
_HELD = 0.2  # of its stall torque: what a joint of a small robot lifts


def servo_model(fit: Fit, name: str) -> ServoModel:
    """The fitted model: what was searched over what it started from."""
    tables: dict[str, Any] = fit.base.model_dump(exclude={"path"})
    for estimate in fit.estimates:
        table, key = estimate.unknown.name.split(".")
        value = in_file(fit, estimate.unknown, estimate.value)
        tables[table][key] = max(0.0, value) if key == "latency_ms" else value
    tables["friction"]["law"] = fit.friction
    tables["prediction"] = worth_of(fit).model_dump()
    fitted, held = fit.errors(held_out=False), fit.errors(held_out=True)
    tables["name"] = name
    tables["description"] = f"identified {fit.kind} with friction {fit.friction}"
    tables["provenance"] = (
        f"axbridge {__version__} identify, seed {fit.seed}: fitted to {len(fitted)} recordings, mean absolute error "
        f"{np.mean(fitted):.2f} degrees" + (f"; held out {len(held)}: {np.mean(held):.2f} degrees" if held else "")
    )
    return ServoModel.model_validate(tables)


def write_params(fit: Fit, path: Path | str) -> None:
    """Write the parameters as TOML, for ``model = "…"`` in a rig and ``--model``; intervals stand as comments."""
    path = Path(path)
    model = servo_model(fit, path.stem)
    lines = [to_toml(model, {estimate.unknown.name: _interval(fit, estimate) for estimate in fit.estimates})]
    lines += [f"# {fit.condition}", *(f"# {warning}" for warning in fit.warnings), ""]
    lines += [f"# {one.role}: {one.name}, sha256 {one.sha256}" for one in fit.inputs]
    lines.append("# made with " + ", ".join(f"{name} {found}" for name, found in versions().items() if found))
    with writing(path):
        write_whole(path, "\n".join(lines).rstrip() + "\n")


def summary(fit: Fit) -> dict[str, Any]:
    """The fit as one document for `emit_json`, which writes what is not known, NaN, as null."""
    held, names, parameters = fit.errors(held_out=True), [unknown.name for unknown in fit.unknowns], {}
    for one in fit.estimates:
        found = {"value": one.value, "low": one.low, "high": one.high}
        if fit.truth is not None:
            found["hidden"] = float(fit.truth[one.unknown.column])
        parameters[one.unknown.name] = {key: in_file(fit, one.unknown, value) for key, value in found.items()}
    compared = fit.laws and {
        "friction_laws": [vars(score) | {"chosen": score.law == fit.laws.chosen} for score in fit.laws.scores],
        "friction_chosen_by": fit.laws.rule,
        "friction_note": fit.laws.note,
    }
    return {
        "model": fit.kind,
        "friction": fit.friction,
        "parameters": parameters,
        "mae_deg": float(np.mean(fit.errors(held_out=False))),
        "held_out_mae_deg": float(np.mean(held)) if held else None,
        "recordings": [vars(score) for score in fit.scores],
        "correlations": {
            name: dict(zip(names, map(float, row), strict=True))
            for name, row in zip(names, fit.uncertainty.correlation, strict=True)
        },
        "cannot_tell": list(fit.uncertainty.flat),
        "condition": fit.condition,
        "friction_allowed": fit.allowed,
        "warnings": list(fit.warnings),
        "starts": list(fit.starts),
        "rollouts": fit.rollouts,
        "seconds": fit.seconds,
        "seed": fit.seed,
        "inputs": [vars(one) for one in fit.inputs],
        "versions": versions(),
    } | (compared or {})


def in_file(fit: Fit, unknown: Unknown, value: float) -> float:
    """A value at the output shaft, SI, as it stands in the parameters file."""
    return value / fit.base.motor.gear_ratio if unknown.name == _MOTOR_SIDE else value * unknown.scale


def _interval(fit: Fit, estimate: Estimate) -> str:
    if estimate.unknown.name in fit.uncertainty.flat:
        return "the data do not identify it"
    low, high = (in_file(fit, estimate.unknown, end) for end in (estimate.low, estimate.high))
    return f"95 %: {low:.4g} to {high:.4g}"


def worth_of(fit: Fit) -> PredictionParams:
    """How far off the fitted model may be.

    `load_share` is half the 95 % interval of the duty that lifts a fifth of the stall torque: the unknowns' intervals
    propagated linearly, constants as the fit held them: what another does to an unknown, it does not do to that duty.
    """
    held = [score.rmse for score in fit.scores if score.held_out]
    error = math.radians(math.sqrt(np.mean(np.square(held)))) if held else None
    voltage = float(np.mean(fit.runs.supply))
    row = fit.row
    torque = _HELD * SteadyServo.of(row).drive(1.0, voltage, 0.0)
    width, space = np.empty(len(fit.unknowns)), fit.space
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
    values = {"held_out_error": error or None, "load_share": share, "chance": chance}
    return PredictionParams(**{key: value and float(f"{value:.3g}") for key, value in values.items()})
