"""Which servo id is which joint, and how its counts become angles: from a rig, or from a table people type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.units import AX, Calibration

_CENTRE = 512


@dataclass(frozen=True)
class JointTable:
    """Joints that have an id.

    Attributes:
        names: Joint by id.
        calibrations: By joint.
        aliases: Joint by the name that Webots' motions have for it.
        twice: Which joints share an id, as they may on several buses; empty = none.
    """

    names: Mapping[int, str]
    calibrations: Mapping[str, Calibration]
    aliases: Mapping[str, str] = field(default_factory=dict)
    twice: str = ""

    @property
    def ids(self) -> dict[str, int]:
        """Id by joint."""
        return {name: id_ for id_, name in self.names.items()}


def joints_of(rig: Rig) -> JointTable:
    """The servos of a rig that are on a bus."""
    servos = [servo for servo in rig.servos if servo.id is not None]
    names: dict[int, str] = {}
    twice = ""
    for servo in servos:
        assert servo.id is not None
        if servo.id in names:
            twice = f"{names[servo.id]} and {servo.name} of rig {rig.name} have the same id {servo.id}"
        names.setdefault(servo.id, servo.name)
    calibrations = {
        servo.name: Calibration(rig.profile_of(servo).units, servo.zero, servo.direction) for servo in servos
    }
    every = {servo.name for servo in rig.servos}
    aliases = {alias: name for alias, name in rig.webots.aliases.items() if name in every}
    return JointTable(names, calibrations, aliases, twice)


def parse_joints(entries: Iterable[str]) -> JointTable:
    """A table of AX-12 as people type it.

    ``ID=NAME``; ``ID=NAME:-1`` for a servo that turns against its joint; ``ID=NAME:-1:480`` with its count at 0 rad
    (512 where nothing is said).
    """
    names: dict[int, str] = {}
    calibrations: dict[str, Calibration] = {}
    for entry in entries:
        id_, _, rest = entry.partition("=")
        name, *more = rest.split(":")
        try:
            direction, zero = int(more[0]) if more else 1, int(more[1]) if more[1:] else _CENTRE
            number = int(id_)
        except ValueError:
            number = direction = zero = -2
        if not (1 <= number <= 253 and name and direction in {1, -1} and 0 <= zero <= AX.counts and len(more) <= 2):
            raise UsageError(f"--joint {entry}: not understood", "write ID=NAME, ID=NAME:-1 or ID=NAME:-1:480")
        if number in names or name in calibrations:
            raise UsageError(f"--joint {entry}: the id or the name is there twice", "give each once")
        names[number] = name
        calibrations[name] = Calibration(AX, zero, direction)
    return JointTable(names, calibrations)
