"""The unknowns of each model, their ranges, and the experiment that identifies each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import Remedy, UsageError
from axbridge.servo.columns import Param
from axbridge.servo.friction import TERMS


@dataclass(frozen=True)
class Unknown:
    """An unknown parameter of a fit."""

    name: str  # as in the parameter file: ``table.key``
    column: Param  # column of a parameter set
    low: float  # lower end of its range, SI
    high: float  # upper end
    logarithmic: bool  # whether its logarithm is searched
    best_experiment: str  # the experiment that identifies this unknown best
    scale: float = 1.0  # file unit over SI (1000 for ms)
    # Standard deviation of single servos from a model of their kind (of the logarithm, if that is searched); infinite =
    # unknown. For AX-12s, see docs/how-real.md.
    usual: float = math.inf


_FALLS = Remedy("record", "fall", rig="RIG", says="falls from several angles ({})")
STEPS = Remedy("record", "step", rig="RIG", says="steps of several sizes ({})")
_SLOW = Remedy("record", "sine", rig="RIG", period=5, says="slow sweeps and reversals under load ({})")
DUTY = Remedy("record", "duty", rig="RIG", says="wheel-mode duty steps ({})")
HOLD = Remedy("record", "lift-and-drop", rig="RIG", says="lifting and holding the arm at several angles ({})")
_BOTH = "the same motions to both sides of the vertical, and falls"
_WARM = "the same motions with the servo cold and warm"

_CONSTANT = Unknown("motor.torque_constant", Param.CONSTANT, 0.2, 4.0, True, DUTY, usual=0.1)
_RESISTANCE = Unknown("motor.resistance", Param.RESISTANCE, 0.8, 20.0, True, HOLD)
_RESISTANCE_DUTY = Unknown("motor.resistance_per_duty", Param.RESISTANCE_PER_DUTY, 0.0, 8.0, False, HOLD)
_RESISTANCE_KELVIN = Unknown("motor.resistance_per_kelvin", Param.RESISTANCE_PER_KELVIN, 0.0, 0.06, False, _WARM)
_EFFICIENCY = Unknown("motor.efficiency", Param.EFFICIENCY, 0.3, 1.0, False, HOLD, usual=0.08)
_ASYMMETRY = Unknown("motor.asymmetry", Param.ASYMMETRY, -0.15, 0.15, False, _BOTH)
_DEAD_DUTY = Unknown("motor.dead_duty", Param.DEAD_DUTY, 0.0, 0.2, False, HOLD, usual=0.02)
_ARMATURE = Unknown("motor.armature", Param.ARMATURE, 3e-4, 0.03, True, _FALLS, usual=0.3)
_ARMATURE_FROM_NONE = replace(_ARMATURE, low=0.0, logarithmic=False, usual=math.inf)  # log(0) is undefined
_OUTPUT = Unknown("friction.output", Param.OUTPUT, 0.0, 0.2, False, STEPS, usual=0.02)
_BACKLASH = Unknown("motor.backlash", Param.BACKLASH, 0.0, math.radians(2), False, STEPS, usual=math.radians(0.3))
_MAX_CURRENT = Unknown("motor.max_current", Param.MAX_CURRENT, 0.5, 6.0, True, STEPS, usual=0.3)
_SLOPE = Unknown("controller.slope", Param.SLOPE, math.radians(0.5), math.radians(45), True, STEPS, usual=0.7)
_PUNCH = Unknown("controller.punch", Param.PUNCH, 0.0, 0.4, False, _SLOW, usual=0.05)
_K_THETA = Unknown("controller.k_theta", Param.K_THETA, 2.0, 120.0, True, STEPS)
_K_OMEGA = Unknown("controller.k_omega", Param.K_OMEGA, -1.7, 3.0, False, STEPS)
# May be negative because time stamps are not exact; a negative value is written as 0.
_LATENCY = Unknown("sensor.latency_ms", Param.LATENCY, -0.004, 0.06, False, STEPS, 1e3, usual=0.01)
_SHORT_LATENCY = Unknown("sensor.latency_ms", Param.LATENCY, 0.0, 0.015, False, STEPS, 1e3)
_LAG = Unknown("sensor.lag_ms", Param.LAG, 0.0, 0.025, False, STEPS, 1e3, usual=0.004)
_OFFSET = Unknown("sensor.angle_offset", Param.OFFSET, -0.05, 0.05, False, HOLD)

_FRICTION = {  # the exponent is not searched: it correlates with the Stribeck speed
    unknown.name.removeprefix("friction."): unknown
    for unknown in (
        Unknown("friction.coulomb", Param.COULOMB, 1e-5, 0.4, True, _FALLS, usual=0.5),
        Unknown("friction.viscous", Param.VISCOUS, 1e-4, 0.1, True, _FALLS, usual=1.0),
        Unknown("friction.stribeck", Param.STRIBECK, 1e-4, 0.4, True, _SLOW),
        Unknown("friction.stribeck_speed", Param.STRIBECK_SPEED, 0.05, 3.0, True, _SLOW),
        Unknown("friction.load", Param.LOAD, 0.0, 0.4, False, HOLD),
        Unknown("friction.load_stribeck", Param.LOAD_STRIBECK, 0.0, 0.4, False, HOLD),
        Unknown("friction.load_external", Param.LOAD_EXTERNAL, 0.0, 0.4, False, HOLD),
        Unknown("friction.load_external_stribeck", Param.LOAD_EXTERNAL_STRIBECK, 0.0, 0.4, False, HOLD),
        Unknown("friction.quadratic", Param.QUADRATIC, 0.0, 0.02, False, _FALLS),
    )
}
FRICTION_LAWS: dict[str, tuple[Unknown, ...]] = {
    law: tuple(_FRICTION[term] for term in terms if term in _FRICTION) for law, terms in TERMS.items()
}
_REST: dict[str, tuple[Unknown, ...]] = {
    "pendulum-servo": (_CONSTANT, _RESISTANCE, _RESISTANCE_DUTY, _ASYMMETRY, _ARMATURE, _OFFSET, _SHORT_LATENCY),
    "ax12": (_EFFICIENCY, _ARMATURE, _SLOPE, _PUNCH, _LATENCY),
    "lima2009": (_K_THETA, _K_OMEGA, _LATENCY),
}
_NO_TIMES = (_CONSTANT, _EFFICIENCY, _DEAD_DUTY, _ARMATURE, _LAG)
_IF_IN_MODEL = (_MAX_CURRENT, _BACKLASH, _OUTPUT)  # searched only if the base's value is above 0
# Unknowns that `free` can add to those of a model, by name.
_ADDABLE = {
    unknown.name: unknown
    for unknown in (
        _CONSTANT, _RESISTANCE, _RESISTANCE_DUTY, _RESISTANCE_KELVIN, _EFFICIENCY, _ASYMMETRY, _DEAD_DUTY, _ARMATURE,
        _MAX_CURRENT, _BACKLASH, _OUTPUT, _LAG, _OFFSET,
    )
}  # fmt: skip
KINDS = {"compliance": "ax12", "pid": "pendulum-servo", "state_feedback": "lima2009"}  # by the law of a model's loop
KNOWN = ("ax12",)  # models that were fitted to servos of their kind
MODELS = {"pendulum-servo": "M4", "ax12": "M1", "lima2009": "M1"}  # default friction law of each model


@dataclass(frozen=True)
class Space:
    """The unknowns of a fit; a point has a coordinate in 0..1 for each."""

    unknowns: tuple[Unknown, ...]
    base: FloatArray  # parameter set (len(Param),) with all other parameters
    # whether the base was fitted to a servo of this kind: a prior then keeps unknowns near it
    anchored: bool = False

    @property
    def usual(self) -> FloatArray:
        """Standard deviation of single servos from the base, as shares of the ranges (len(self),); inf = unknown."""
        spans = [math.log(u.high / u.low) if u.logarithmic else u.high - u.low for u in self.unknowns]
        known = [u.usual if self.anchored else math.inf for u in self.unknowns]
        result: FloatArray = np.array(known) / np.array(spans)
        return result

    def __len__(self) -> int:
        return len(self.unknowns)

    def sets(self, points: FloatArray) -> FloatArray:
        """Return the parameter sets (k, len(Param)) of points (k, len(self)), clipped to the ranges."""
        rows = np.repeat(self.base[None], len(points), axis=0)
        for index, unknown in enumerate(self.unknowns):
            share, low, high = np.clip(points[:, index], 0.0, 1.0), unknown.low, unknown.high
            rows[:, unknown.column] = low * (high / low) ** share if unknown.logarithmic else low + (high - low) * share
        return rows

    def row(self, point: FloatArray) -> FloatArray:
        """Return the parameter set (len(Param),) of a point, clipped to the ranges."""
        row: FloatArray = self.sets(point[None])[0]
        return row

    def values(self, point: FloatArray) -> FloatArray:
        """Return the unknowns' values at a point, SI, (len(self),), clipped to the ranges."""
        return self.row(point)[[unknown.column for unknown in self.unknowns]]

    def point(self, row: FloatArray) -> FloatArray:
        """Return the point (len(self),) of a parameter set, clipped to the ranges."""
        shares = []
        for unknown in self.unknowns:
            log, low, high = unknown.logarithmic, unknown.low, unknown.high
            value = min(max(float(row[unknown.column]), low), high)
            shares.append(math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low))
        return np.array(shares)

    @property
    def from_none(self) -> Space:
        """The same space with an armature that may be 0."""
        changed = (_ARMATURE_FROM_NONE if unknown == _ARMATURE else unknown for unknown in self.unknowns)
        return replace(self, unknowns=tuple(changed))

    def without(self, names: Sequence[str]) -> Space:
        """Return the same space with some unknowns fixed at the base's values."""
        return replace(self, unknowns=tuple(unknown for unknown in self.unknowns if unknown.name not in names))


def space_of(
    kind: str, friction: str | None, base: FloatArray, *, turning: bool = False, warming: bool = False,
    unknown_command_times: bool = False, free: Sequence[str] = (),
) -> Space:  # fmt: skip
    """Return the unknowns of a kind of model (a key of `MODELS`) and those named in `free`; raise UsageError."""
    law = friction or MODELS[kind]
    if law not in FRICTION_LAWS:
        raise UsageError(f"there is no friction law {law!r}", f"laws: {', '.join(FRICTION_LAWS)}")
    row = base.copy()
    for term, unknown in _FRICTION.items():
        if term not in TERMS[law] and term != "stribeck_speed":  # each model has this one
            row[unknown.column] = -1.0 if term == "load_external" else 0.0  # -1: equal to the motor's
    rest = _NO_TIMES if unknown_command_times and kind == "ax12" else _REST[kind]
    if unknown_command_times:
        rest += tuple(unknown for unknown in _IF_IN_MODEL if base[unknown.column] > 0.0)
        rest = tuple(unknown for unknown in rest if unknown.column is not Param.LATENCY)
    if turning and _CONSTANT not in rest:
        rest = (_CONSTANT, *rest)
    if warming and _RESISTANCE in rest:
        rest = (*rest, _RESISTANCE_KELVIN)
    if unknown_names := [name for name in free if name not in _ADDABLE]:
        raise UsageError(f"there is no parameter {unknown_names[0]!r} to free", f"choose of: {', '.join(_ADDABLE)}")
    terms = rest + FRICTION_LAWS[law]
    known = {unknown.name for unknown in terms}
    return Space((*(_ADDABLE[name] for name in dict.fromkeys(free) if name not in known), *terms), row, kind in KNOWN)


def richer_than(law: str) -> tuple[str, ...]:
    """Return the friction laws that have all terms of a law, and more."""
    return tuple(name for name, terms in FRICTION_LAWS.items() if set(terms) > set(FRICTION_LAWS[law]))


def enriched(space: Space, law: str) -> Space:
    """Return the unknowns of a fit with a richer friction law."""
    rest = (unknown for unknown in space.unknowns if not unknown.name.startswith("friction."))
    return replace(space, unknowns=(*rest, *FRICTION_LAWS[law]))
