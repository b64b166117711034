"""Which devices a rig offers to a Webots controller, and under which names."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Literal

from axbridge.webots.session import Session
from axbridge.webots.usage import class_by_use

__all__ = ["Kind", "absent_class", "device_names", "find", "missing", "own_name", "servo_name"]

Kind = Literal["motor", "sensor", "brake"]
_SHOWN = 12  # names listed when one is not found
_SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "sensor": ("_sensor", " sensor", "S", "_position_sensor", " position sensor"),
    "brake": ("_brake", " brake"),
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
    """Webots class of a device that no backend here has: as the rig says, else by its use; None = not to be told.

    Never by its name: a motor that the rig calls otherwise must not become a device that swallows its commands.
    """
    return session.rig.webots.devices.get(name) or class_by_use(name)


def missing(session: Session, name: str) -> str:
    """What to say of a name that the rig does not have: those it has, the likeliest first."""
    known = list(device_names(session))
    known += [alias for alias in session.rig.webots.aliases if alias not in known]
    close = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    shown = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")
    return f"  {meant}it has: {shown}; other names go into [webots] of {session.rig.path.name}"
