"""Which devices a rig offers to a Webots controller, and under which names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from axbridge.webots.session import Session

__all__ = ["Kind", "absent_class", "device_names", "find", "own_name", "servo_name"]

Kind = Literal["motor", "sensor", "brake"]
_SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "sensor": ("_sensor", " sensor", "S", "_position_sensor", " position sensor"),
    "brake": ("_brake", " brake"),
}
_GUESSES = {  # part of a lower-case device name -> class of a sensor that no rig here has
    "camera": "Camera",
    "gps": "GPS",
    "accelerometer": "Accelerometer",
    "gyro": "Gyro",
    "compass": "Compass",
    "inertial": "InertialUnit",
    "imu": "InertialUnit",
    "altimeter": "Altimeter",
    "lidar": "Lidar",
    "radar": "Radar",
    "range": "RangeFinder",
    "distance": "DistanceSensor",
    "touch": "TouchSensor",
    "bumper": "TouchSensor",
    "light": "LightSensor",
    "led": "LED",
    "speaker": "Speaker",
    "display": "Display",
    "emitter": "Emitter",
    "receiver": "Receiver",
    "pen": "Pen",
    "connector": "Connector",
}


def find(session: Session, name: str) -> tuple[Kind, str] | None:
    """Kind of the joint device called `name`, and the servo behind it: by the rig's aliases, else by its suffix."""
    servos = {servo.name for servo in session.rig.servos}
    aliases = session.rig.webots.aliases
    if name in servos:
        return "motor", name
    if name in aliases:
        return _aliased(session, name)
    for kind, suffixes in _SUFFIXES.items():
        for suffix in suffixes:
            base = name.removesuffix(suffix)
            for candidate in (base, base + suffix[0] + "motor") if base != name else ():
                if candidate in servos:
                    return kind, candidate
                if candidate in aliases and aliases[candidate] in servos:
                    return kind, aliases[candidate]
    return None


def _aliased(session: Session, name: str) -> tuple[Kind, str] | None:
    """An alias may name a servo, or one of its devices: ``shoulder_sensor``."""
    meant = session.rig.webots.aliases[name]
    if meant in session.rig.webots.aliases:
        return None  # an alias of an alias would need an order
    return find(session, meant)


def servo_name(session: Session, name: str) -> str | None:
    """The servo behind any device name of its joint."""
    found = find(session, name)
    return None if found is None else found[1]


def own_name(session: Session, kind: Kind, servo: str) -> str:
    """What a joint's device is called when no controller asked for it by name: by the rig's aliases, else its own."""
    for alias in session.rig.webots.aliases:
        if find(session, alias) == (kind, servo):
            return alias
    return servo if kind == "motor" else f"{servo}_{kind}"


def device_names(session: Session) -> Iterator[str]:
    """Every device in the rig's order: motor, sensor and, on ideal joints, brake; then those it says are absent."""
    for servo in session.rig.servos:
        yield servo.name
        yield f"{servo.name}_sensor"
        if servo.drive == "ideal":
            yield f"{servo.name}_brake"
    yield from session.rig.webots.devices


def absent_class(session: Session, name: str) -> str | None:
    """Webots class of a device that no backend here has: as the rig says, else by its name; None = no such device."""
    given = session.rig.webots.devices.get(name)
    if given:
        return given
    lower = name.lower()
    return next((kind for part, kind in _GUESSES.items() if part in lower), None)
