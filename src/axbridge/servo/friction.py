"""Friction at the output shaft: Lima et al. 2009, equation (5), and the budget models of BAM (arXiv 2410.08650).

Dry friction is a budget, not `Fc·sign(ω)`. The applied torque is the one that stops the joint within the step, up to
the budget; so a joint at rest does not creep. `M1` is equation (5); the others add terms. In a packed model, terms that
its law does not have are 0, so one formula is enough:

    s = exp(-(|ω|/stribeck_speed)^stribeck_exponent)                       1 at rest, 0 at high speed
    budget = coulomb + stribeck·s + quadratic·ω²
           + (load + load_stribeck·s)·|Tm - Te|                            M3, M4: load_external below 0
           or + |load·Tm - load_external·Te|                               M5: motor and load have different weights,
              + s·|load_stribeck·Tm - load_external_stribeck·Te|           also at rest

Tm is the motor's torque, Te that of the load; both press the teeth of the gear against each other.
"""

from __future__ import annotations

from typing import NamedTuple

from axbridge.jit import jit
from axbridge.servo.branch_free import decayed

# Terms of each law, by their names in a model file.
_ALWAYS = ("coulomb", "viscous")
_STRIBECK = ("stribeck", "stribeck_speed", "stribeck_exponent")
_EXTERNAL = ("load_external", "load_external_stribeck")  # weights of the load, separate from the motor's

TERMS: dict[str, tuple[str, ...]] = {
    "M1": _ALWAYS,
    "M2": (*_ALWAYS, *_STRIBECK),
    "M3": (*_ALWAYS, "load"),
    "M4": (*_ALWAYS, *_STRIBECK, "load", "load_stribeck"),
    "M5": (*_ALWAYS, *_STRIBECK, "load", "load_stribeck", *_EXTERNAL),
    "M6": (*_ALWAYS, *_STRIBECK, "load", "load_stribeck", *_EXTERNAL, "quadratic"),
}


class Friction(NamedTuple):
    """Dry friction of one gear."""

    coulomb: float  # Fc, N·m (M1)
    stribeck: float  # added at rest, N·m (M2)
    stribeck_speed: float  # rad/s
    stribeck_exponent: float  # shape of the decrease over the speed
    load: float  # share of the torque through the gear (M3)
    load_stribeck: float  # added to `load` at rest (M4)
    # weight of the load's torque (M5); negative = the same as the motor's (M3, M4)
    load_external: float
    load_external_stribeck: float  # added to `load_external` at rest (M5)
    quadratic: float  # N·m·s²/rad² (M6)


@jit
def budget(friction: Friction, speed: float, motor_torque: float, external_torque: float) -> float:
    """Return the largest dry friction torque, N·m; viscous friction is extra. `motor_torque` is Tm, the other is Te."""
    at_rest = 0.0
    if friction.stribeck > 0.0 or friction.load_stribeck > 0.0 or friction.load_external_stribeck > 0.0:
        ratio = abs(speed) / friction.stribeck_speed
        at_rest = 1.0 - decayed(ratio if friction.stribeck_exponent == 1.0 else ratio**friction.stribeck_exponent)
    return budget_at(friction, speed, at_rest, motor_torque, external_torque)


@jit
def budget_at(friction: Friction, speed: float, at_rest: float, motor_torque: float, external_torque: float) -> float:
    """Return `budget` for a known `at_rest`: the factor s, from 1 at rest to 0."""
    total = friction.coulomb + friction.stribeck * at_rest + friction.quadratic * speed * speed
    share = friction.load + friction.load_stribeck * at_rest
    if share > 0.0 or friction.load_external > 0.0 or friction.load_external_stribeck > 0.0:
        if friction.load_external < 0.0:
            total += share * abs(motor_torque - external_torque)
        else:
            total += abs(friction.load * motor_torque - friction.load_external * external_torque)
            at_rest_load = friction.load_stribeck * motor_torque - friction.load_external_stribeck * external_torque
            total += at_rest * abs(at_rest_load)
    return total
