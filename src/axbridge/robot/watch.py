"""Check whether a moving robot can continue after faults, and after missing replies."""

from __future__ import annotations

from axbridge.errors import BusError, Remedy
from axbridge.robot.robot import Robot
from axbridge.robot.trajectory_time import REPLY_TIMEOUT

_TROUBLE = ("fault", "limit", "without power", "torque off")


class ServoLost(BusError):
    """A servo or its bus no longer replies; it may return."""


class Watch:
    """Checks after each step whether the robot can continue."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._silent: dict[str, float] = {}  # time of the first missing reply, s, by servo

    def check(self) -> None:
        """Raise BusError for a fault, and ServoLost for a lost port or a servo without replies for `REPLY_TIMEOUT`."""
        robot = self._robot
        for event in robot.last_step.events:
            if event.kind == "missing":
                self._silent.setdefault(event.name, robot.time)
            elif event.kind == "returned":
                self._silent.pop(event.name, None)
            elif event.kind in _TROUBLE or event.kind == "port lost":
                raise self._stopped(event.name, event.kind)
        for name, since in self._silent.items():
            if robot.time - since > REPLY_TIMEOUT:
                raise self._stopped(name, "missing")

    def _stopped(self, name: str, why: str) -> BusError:
        subject = f"servo {name!r}" if name else "the line"
        kind = BusError if why in _TROUBLE else ServoLost
        when = f"stopped {self._robot.time:.1f} s after the start"
        return kind(f"{when}: {subject}: {why}", Remedy("doctor", says="run {}"))
