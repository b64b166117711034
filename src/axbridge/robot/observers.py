"""Whoever wants to see each step of a robot, and what is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from axbridge.bus.cycle import BusEvent
from axbridge.errors import BusError
from axbridge.state import ServoState

__all__ = ["Observer", "Observers", "StepReport"]


@dataclass(frozen=True)
class StepReport:
    """What the last step did; times in s on the robot's clock.

    Attributes:
        requested: Length of the step asked for, ms.
        actual: Length it took, ms.
        commanded: When the servos had their goals: the end of the command packets on the line.
        sampled: When each servo took its sample.
        errors: Why a servo did not answer, by its name: BusTimeout, CorruptPacket, PortError.
        events: What changed on the buses: a servo missing, returned, with a fault or beyond a limit; a port lost, back.
            On a twin also why a servo does not do as its model says: blocked, slipping, extra load, …
        late: How late it was, ms; 0 = on time.
        stood_still: For how long the servos of a virtual bus had stood still by then, s: its machine was too busy.
    """

    requested: float
    actual: float
    commanded: float
    sampled: Mapping[str, float]
    errors: Mapping[str, BusError] = field(default_factory=dict)
    events: tuple[BusEvent, ...] = ()
    late: float = 0.0
    stood_still: float = 0.0


Observer = Callable[[StepReport, Mapping[str, ServoState]], None]


class Observers:
    """Those of one robot."""

    def __init__(self) -> None:
        self._those: list[tuple[Observer, Callable[[], None]]] = []  # and whom to tell of the end

    def __bool__(self) -> bool:
        return bool(self._those)

    def add(self, observer: Observer, closed: Callable[[], None] | None) -> Callable[[], None]:
        """As of `axbridge.robot.robot.Robot.observe`."""
        one = observer, closed or (lambda: None)
        self._those.append(one)

        def leave() -> None:
            if one in self._those:
                self._those.remove(one)

        return leave

    def tell(self, report: StepReport, states: Mapping[str, ServoState]) -> None:
        """Show each of them a step."""
        for one in tuple(self._those):
            if one in self._those:  # an earlier one may have sent it away
                one[0](report, states)

    def close(self) -> None:
        """The robot has been closed."""
        for _, closed in tuple(self._those):
            closed()
