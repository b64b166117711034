"""Parameters of Rhoban's BAM (github.com/Rhoban/bam, arXiv 2410.08650): its ``m1.json`` to ``m6.json``, in and out.

BAM describes a servo at its output shaft: kt, R, armature, friction. The gain of the firmware's loop, duty per rad and
unit of the P gain, is not in its files but in its code, for each kind of servo.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from axbridge.config.model import ServoModel
from axbridge.config.registers import UNITS
from axbridge.errors import ProfileError, UnsupportedOperation
from axbridge.file_reading import reading, refuse_other_kind, regular
from axbridge.servo.friction import TERMS

# Duty per rad of error and unit of the P gain register, for BAM's voltage-driven servos. `_UNITS` has the units of
# their position counts.
ERROR_GAINS = {"mx64": 0.158, "mx106": 0.158, "xl320": 0.05048199, "xl330": 4096 / (2 * math.pi) / (256 * 885)}
_UNITS = {"mx64": "mx", "mx106": "mx", "xl320": "ax", "xl330": "mx"}
_MOTOR = {"kt": "motor.torque_constant", "R": "motor.resistance", "armature": "motor.armature"}
_TERMS = {  # BAM's keys of those `TERMS` that its files have
    "coulomb": "friction_base",
    "viscous": "friction_viscous",
    "stribeck": "friction_stribeck",
    "stribeck_speed": "dtheta_stribeck",
    "stribeck_exponent": "alpha",
    "load": "load_friction_base",
    "load_stribeck": "load_friction_stribeck",
    "load_external": "load_friction_external",
    "load_external_stribeck": "load_friction_external_stribeck",
}
# their other names in laws with both kinds of load
_APART = {"load": "load_friction_motor", "load_stribeck": "load_friction_motor_stribeck"}
_QUADRATIC = ("load_friction_motor_quad", "load_friction_external_quad")


def _keys(law: str) -> dict[str, str]:
    """Return the model's parameter for each of BAM's keys under a friction law."""
    words = _TERMS | (_APART if "load_external" in TERMS[law] else {})
    return _MOTOR | {words[term]: f"friction.{term}" for term in TERMS[law] if term in words}


def from_bam(path: Path) -> ServoModel:
    """Read a parameter file of BAM as a servo model; ProfileError if it is damaged or of another kind."""
    with reading(partial(ProfileError, path, ""), "give BAM's m1.json to m6.json"):
        refuse_other_kind(path, partial(ProfileError, path, ""))
        return _model(path, json.loads(regular(path).read_text(encoding="utf-8")))


def _model(path: Path, document: Any) -> ServoModel:
    if not (isinstance(document, Mapping) and {"model", "actuator", "kt", "R"} <= set(document)):
        raise ProfileError(path, "", "no parameter file of BAM", "it has model, actuator, kt, R and friction terms")
    law, kind = str(document["model"]).upper(), str(document["actuator"])
    if law not in TERMS:
        raise ProfileError(path, "model", f"{document['model']!r} is no friction law", "known ones: m1 to m6")
    if kind not in ERROR_GAINS:
        problem = f"{path}: the position loop of {kind!r} is in BAM's code and not in its files"
        raise UnsupportedOperation(problem, f"known here: {', '.join(ERROR_GAINS)}")
    left = "nothing of it is left out"
    if any(document.get(key) for key in _QUADRATIC):
        left = "left out: its quadratic terms, which are of the torque at rest (ours is of the speed)"
    tables: dict[str, Any] = {
        "name": f"{kind}_{law.lower()}",
        "description": f"{kind} with friction {law}, from BAM",
        "provenance": f"BAM's {path.name}; its error gain {ERROR_GAINS[kind]:.6g} 1/rad; {left}",
        "motor": {"inductance": 0.0, "gear_ratio": 1.0},
        "friction": {"law": law},
        "controller": {"law": "pid", "p_duty": ERROR_GAINS[kind] * UNITS[_UNITS[kind]].position},
        "sensor": {
            "angle_offset": -_number(path, document, "q_offset", 0.0),
            "latency_ms": 1000 * _number(path, document, "command_delay", 0.0),
        },
    }
    for key, name in _keys(law).items():
        table, constant = name.split(".")
        tables[table][constant] = _number(path, document, key)
    try:
        return ServoModel.model_validate(tables)
    except ValidationError as failure:
        own = {constant: key for key, constant in _keys(law).items()}
        own |= {"sensor.angle_offset": "q_offset", "sensor.latency_ms": "command_delay"}
        first = failure.errors()[0]
        constant = ".".join(map(str, first["loc"]))
        why = f"{first['input']}: {first['msg'].removeprefix('Input ')}"
        raise ProfileError(path, own.get(constant, constant), why, "correct it") from failure


def to_bam(model: ServoModel, kind: str) -> tuple[dict[str, Any], list[str]]:
    """Return a servo model as a parameter file of BAM, and the parts of the model that BAM does not support, in words.

    A gear with efficiency η becomes a resistance R/η, which gives the same torque at every speed.
    """
    motor, friction = model.motor, model.friction
    values = {
        "motor.torque_constant": motor.output_constant,
        "motor.resistance": (motor.resistance + motor.resistance_per_duty) / motor.efficiency,
        "motor.armature": motor.armature,
        **{f"friction.{key}": value for key, value in friction.model_dump().items() if key != "law"},
        "friction.coulomb": friction.coulomb + friction.output,
    }
    document: dict[str, Any] = {key: values[name] for key, name in _keys(friction.law).items()}
    if friction.law == "M6":
        document |= dict.fromkeys(_QUADRATIC, 0.0)
    document["q_offset"] = 0.0 - model.sensor.angle_offset
    document["command_delay"] = model.sensor.latency_ms / 1000
    latency = model.sensor.latency_ms
    parts = (
        (friction.quadratic > 0 and friction.law == "M6", "friction that grows with the square of the speed"),
        (motor.resistance_per_duty > 0, "resistance that grows with the duty: that of full duty is written"),
        (motor.resistance_per_kelvin > 0, "resistance that grows with the temperature"),
        (motor.backlash > 0, "backlash"),
        (motor.dead_duty > 0, "the duty that the bridge swallows"),
        (motor.asymmetry != 0, "a motor that pushes harder one way"),
        (motor.max_current > 0 or motor.current_step > 0, "limits of the current"),
        (motor.inductance > 0, "the winding's inductance"),
        (model.sensor.lag_ms > 0, "the loop's lag"),
        (latency > 0, f"{latency:.3g} ms of latency: command_delay is read by new BAMs alone, to replay logs"),
        (model.sensor.position_noise > 0 or model.sensor.quantised, "noise and rounding of the readings"),
        (True, f"the {model.controller.law.replace('_', ' ')} loop: BAM's code has one for each kind of servo"),
    )
    lost = [words for there, words in parts if there]
    return document | {"model": friction.law.lower(), "actuator": kind}, lost


def _number(path: Path, document: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = document.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ProfileError(path, key, "missing, or no number", f"a file of law {document['model']} has it")
    return float(value)
