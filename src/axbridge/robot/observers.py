"""Whoever wants to see each step of a robot, and what is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from axbridge.state import Observer, ServoState, StepReport

__all__ = ["Observers"]


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
