"""Friction at the output shaft: Lima et al. 2009, equation (5), and the budget models of BAM (arXiv 2410.08650).

Dry friction is a budget, not `Fc·sign(ω)`: what would stop the joint within the step is applied, up to the budget, so
that a joint at rest stays there instead of creeping. `M1` is equation (5); the others add terms. A packed model has
zeros in the terms its law does not have, so one formula serves all:

    s = exp(-(|ω|/stribeck_speed)^stribeck_exponent)                       1 at rest, 0 when it turns fast
    budget = coulomb + stribeck·s + quadratic·ω²
           + (load + load_stribeck·s)·|Tm - Te|                            M3, M4: load_external below 0
           or + |load·Tm - load_external·Te|                               M5: motor and load weigh differently,
              + s·|load_stribeck·Tm - load_external_stribeck·Te|           and so they do at rest

Tm is the motor's torque, Te that of the load; both press the teeth of the gear against each other.
"""

from __future__ import annotations

from typing import NamedTuple

from axbridge.jit import jit
from axbridge.servo.branch_free import decayed

# Which terms each law has, by their names in a model file.
_ALWAYS = ("coulomb", "viscous")
_STRIBECK = ("stribeck", "stribeck_speed", "stribeck_exponent")
_APART = ("load_external", "load_external_stribeck")  # the load's share has figures of its own

TERMS: dict[str, tuple[str, ...]] = {
    "M1": _ALWAYS,
    "M2": (*_ALWAYS, *_STRIBECK),
    "M3": (*_ALWAYS, "load"),
    "M4": (*_ALWAYS, *_STRIBECK, "load", "load_stribeck"),
    "M5": (*_ALWAYS, *_STRIBECK, "load", "load_stribeck", *_APART),
    "M6": (*_ALWAYS, *_STRIBECK, "load", "load_stribeck", *_APART, "quadratic"),
}


class Friction(NamedTuple):
    """Dry friction of one gear."""

    coulomb: float  # Fc, N·m (M1)
    stribeck: float  # added at rest, N·m (M2)
    stribeck_speed: float  # rad/s
    stribeck_exponent: float  # shape of the fading
    load: float  # share of the torque through the gear (M3)
    load_stribeck: float  # added to it at rest (M4)
    # weight of the external torque in the torque through the gear; negative = the same as the motor's (M3, M4), else
    # motor and load count on their own (M5)
    load_external: float
    load_external_stribeck: float  # added to it at rest (M5)
    quadratic: float  # N·m·s²/rad² (M6)


@jit
def budget(friction: Friction, speed: float, motor_torque: float, external_torque: float) -> float:
    """Largest dry friction torque, N·m; viscous friction comes on top. `motor_torque` is Tm, `external_torque` Te."""
    at_rest = 0.0
    if friction.stribeck > 0.0 or friction.load_stribeck > 0.0 or friction.load_external_stribeck > 0.0:
        ratio = abs(speed) / friction.stribeck_speed
        at_rest = 1.0 - decayed(ratio if friction.stribeck_exponent == 1.0 else ratio**friction.stribeck_exponent)
    return budget_at(friction, speed, at_rest, motor_torque, external_torque)


@jit
def budget_at(friction: Friction, speed: float, at_rest: float, motor_torque: float, external_torque: float) -> float:
    """`budget`, where it is known how far the shaft is `at_rest`: s, 1 to 0."""
    total = friction.coulomb + friction.stribeck * at_rest + friction.quadratic * speed * speed
    share = friction.load + friction.load_stribeck * at_rest
    if share > 0.0 or friction.load_external > 0.0 or friction.load_external_stribeck > 0.0:
        if friction.load_external < 0.0:
            total += share * abs(motor_torque - external_torque)
        else:
            total += abs(friction.load * motor_torque - friction.load_external * external_torque)
            apart = friction.load_stribeck * motor_torque - friction.load_external_stribeck * external_torque
            total += at_rest * abs(apart)
    return total
