"""Variation of a robot's parameters by name: sweeps change all servos alike, learning changes each separately."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree as ET

from axbridge.config import toml_tables
from axbridge.config.model import FrictionParams, ServoModel
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import BusConfig, ServoConfig
from axbridge.errors import UsageError, nearest

SHORT = {
    "armature": "motor.armature",
    "backlash": "motor.backlash",
    "efficiency": "motor.efficiency",
    "friction": "friction.dry",
    "latency": "sensor.latency_ms",
    "noise": "sensor.position_noise",
    "resistance": "motor.resistance",
    "supply": "bus.supply_voltage",
    "sag": "bus.supply_resistance",
    "viscous": "friction.viscous",
}
_SCALED = {"value", "ixx", "ixy", "ixz", "iyy", "iyz", "izz"}  # attributes of <mass> and <inertia>


def check_name(name: str, *more: str) -> None:
    """Check that a name can be varied; `more` are names apart from those of servos, buses and the rig's parameters.

    Raises:
        UsageError: the name is unknown; the hint lists the known and the most similar names.
    """
    table, _, key = SHORT.get(name, name).partition(".")
    known: dict[str, Any] = {"bus": BusConfig}
    known |= {t: ServoModel.model_fields[t].annotation for t in ("motor", "friction", "controller", "sensor")}
    fields_of = known[table].model_fields if table in known else ()
    if name in {"friction", *more} or (table == "parameters" and key) or key in fields_of:
        return
    hint = f"{nearest(name, [*SHORT, *more])}known: {', '.join((*SHORT, *more))}, or a key of the servo's parameters"
    raise UsageError(f"{name!r} cannot be varied", f"{hint}, as motor.dead_duty")


def changed(
    rig: Rig, values: Mapping[str, float], each: Callable[[ServoConfig], Mapping[str, float]] = lambda _: {}
) -> Rig:
    """Return the rig with `values` in all its servos and buses, and the values of `each(servo)` in that servo.

    Raises:
        RigError, ProfileError: a value is impossible.
    """
    bus, numbers, params = dict[str, float](), dict[str, float](), dict[str, float]()
    for name, value in values.items():
        table, _, key = SHORT.get(name, name).partition(".")
        if table == "bus":
            bus[key] = value
        elif table == "parameters":
            numbers[key] = value
        elif name != "seed":
            params[name] = value
    if numbers:
        rig = rig.overridden({"parameters": numbers})
    wired = rig.overridden({"bus": [table.model_dump() | bus for table in rig.buses]}) if bus else rig
    changed_rig = wired.with_servos(lambda servo: _params(rig, servo, {**params, **each(servo)}))
    for servo in changed_rig.dynamixels:
        _ = changed_rig.specs[servo.name].model  # raises for a value out of range
    return changed_rig


def _params(rig: Rig, servo: ServoConfig, values: Mapping[str, float]) -> dict[str, Any]:
    """Return the changes of a servo's entry of the rig."""
    if servo.drive != "dynamixel" or not values:
        return {}
    tables: dict[str, Any] = {}
    if "friction" in values:
        tables["friction"] = _dry(rig.specs[servo.name].model.friction, values["friction"])
    for name, value in values.items():
        if name != "friction":
            table, _, key = SHORT.get(name, name).partition(".")
            tables.setdefault(table, {})[key] = value
    return {"params": toml_tables.merged(servo.params, tables)}


def _dry(friction: FrictionParams, total: float) -> dict[str, float]:
    """Return the friction terms for a total dry friction, N·m, before and behind the backlash, in unchanged shares."""
    now = friction.coulomb + friction.output
    if now == 0:
        return {"coulomb": total}
    return {name: getattr(friction, name) * total / now for name in ("coulomb", "output", "stribeck")}


def with_masses(text: str, factor: Callable[[], float]) -> str:
    """Return a URDF with each link's mass and moments of inertia times `factor()`, which is called for each link."""
    root = ET.fromstring(text)  # noqa: S314 - the rig's own file, read before
    for inertial in root.iter("inertial"):
        times = factor()
        for element in inertial.iter():
            for key in _SCALED & element.attrib.keys():
                element.set(key, repr(float(element.attrib[key]) * times))
    return ET.tostring(root, encoding="unicode")


def with_grip(text: str, friction: float) -> str:
    """Return a URDF whose links have this coefficient of friction on the floor."""
    root = ET.fromstring(text)  # noqa: S314 - as above
    for link in filter(len, root.iter("link")):
        for contact in link.findall("contact"):
            link.remove(contact)
        ET.SubElement(ET.SubElement(link, "contact"), "lateral_friction", value=repr(friction))
    return ET.tostring(root, encoding="unicode")
