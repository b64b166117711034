"""The devices that a rig provides for a Webots controller, and their names."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Literal

from axbridge.config.rig_tables import SensorConfig
from axbridge.errors import listed, nearest
from axbridge.webots.session import Session

Kind = Literal["motor", "sensor", "brake"]
_SHOWN = 12  # names listed for an unknown name
_SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "sensor": ("_sensor", " sensor", "S", "_position_sensor", " position sensor"),
    "brake": ("_brake", " brake"),
}

_READS: dict[str, tuple[str, ...]] = {  # Webots' class -> kinds of the rig's sensors that it can read
    **dict.fromkeys(("InertialUnit", "Gyro", "Accelerometer"), ("imu",)),
    "GPS": ("gps",),
    "TouchSensor": ("bumper", "force", "force-3d"),
    "DistanceSensor": ("distance",),
}
_IMU_SUFFIXES = {"_gyro": "Gyro", "_accelerometer": "Accelerometer"}
_ONLY_ONE = ("imu", "gps")  # a robot with one sensor of this kind uses it for any device name


def find(session: Session, name: str) -> tuple[Kind, str] | None:
    """Return kind and servo of the joint device called `name`, by the rig's aliases or by a suffix; else None."""
    servos = {servo.name for servo in session.rig.servos}
    aliases = session.rig.webots.aliases
    if name in servos:
        return "motor", name
    if name in aliases:  # of a servo, or of one of its devices, as ``shoulder_sensor``
        meant = aliases[name]
        return None if meant in aliases else find(session, meant)  # an alias of an alias is not supported
    for kind, suffixes in _SUFFIXES.items():
        for suffix in suffixes:
            base = name.removesuffix(suffix)
            for candidate in (base, base + suffix[0] + "motor") if base != name else ():
                if candidate in servos:
                    return kind, candidate
                if candidate in aliases and aliases[candidate] in servos:
                    return kind, aliases[candidate]
    return None


def own_name(session: Session, kind: Kind, servo: str) -> str:
    """Return the name of a joint's device: an alias of the rig, else the servo's name with the kind."""
    for alias in session.rig.webots.aliases:
        if find(session, alias) == (kind, servo):
            return alias
    return servo if kind == "motor" else f"{servo}_{kind}"


def device_names(session: Session) -> Iterator[str]:
    """Yield every device in the rig's order: joint devices (brakes only of ideal joints), sensors, absent devices."""
    for servo in session.rig.servos:
        yield servo.name
        yield f"{servo.name}_sensor"
        if servo.drive == "ideal":
            yield f"{servo.name}_brake"
    yield from _sensor_devices(session)
    yield from session.rig.webots.devices


def _sensor_devices(session: Session) -> dict[str, tuple[str, SensorConfig]]:
    """Return Webots class and sensor of each device that reads a sensor of the rig, by name; an IMU has three."""
    devices = {}
    for sensor in session.rig.sensors:
        devices[sensor.name] = next(kind for kind, reads in _READS.items() if sensor.kind in reads), sensor
        if sensor.kind == "imu":
            devices |= {sensor.name + suffix: (kind, sensor) for suffix, kind in _IMU_SUFFIXES.items()}
    return devices


def sensor_class(session: Session, name: str) -> str | None:
    """Return the Webots class of a sensor of the rig, or of one of an IMU's three devices; else None."""
    return _sensor_devices(session).get(session.rig.webots.aliases.get(name, name), (None, None))[0]


def sensor_behind(session: Session, kind: str, name: str) -> SensorConfig | None:
    """Return the sensor that a device of this Webots class and name reads, or None.

    A GPS or a device of an IMU may have any name if the robot has only one.
    """
    _, named = _sensor_devices(session).get(session.rig.webots.aliases.get(name, name), ("", None))
    able = [sensor for sensor in session.rig.sensors if sensor.kind in _READS[kind]]
    if named in able:
        return named
    return able[0] if len(able) == 1 and able[0].kind in _ONLY_ONE else None


def missing(session: Session, name: str) -> str:
    """Return the message for an unknown name: the likeliest name, all names, and how to add an alias."""
    known, aliases = list(device_names(session)), session.rig.webots.aliases
    known += [alias for alias in aliases if alias not in (*known, name)]
    likely = _likeliest(session, name)
    meant = f"it is an alias of {aliases[name]!r}; " if name in aliases else nearest(name, known)
    if name not in aliases and likely in name:
        meant = f"did you mean {likely!r}? "
    where = f"another name goes into [webots] of {session.rig.path.name}"
    lines = f'aliases = {{ "{name}" = "{likely}" }}; for what is no joint: devices = {{ "{name}" = "CLASS OF WEBOTS" }}'
    return f"  {meant}it has: {listed(known, _SHOWN)}; {where}: {lines}"


def _likeliest(session: Session, name: str) -> str:
    """Return the joint device that a name probably means: its servo is contained in the name, else the most similar."""
    servos = [servo.name for servo in session.rig.servos]
    inside = [servo for servo in servos if servo.lower() in name.lower()]
    servo = max(inside, key=len) if inside else next(iter(get_close_matches(name, servos, 1, 0.0)))
    return f"{servo}_sensor" if "sens" in name.lower() else servo
