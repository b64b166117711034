"""Which terms each friction law has: M1 to M6 of BAM (arXiv 2410.08650), by their names in a model file."""

from __future__ import annotations

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
