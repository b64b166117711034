"""What happened to a robot, as a list that stays: the same again is the same line, with how often and when last."""

from __future__ import annotations

import threading
from typing import NamedTuple

_MOST = 100  # lines; the one that was last seen the longest ago makes room


class LoggedEvent(NamedTuple):
    """One thing that happened, times in s on the robot's clock."""

    text: str
    first: float
    last: float
    times: int


class Events:
    """Lines by what they say; methods may be called from any thread."""

    def __init__(self) -> None:
        self._lines: dict[str, LoggedEvent] = {}  # the latest at the end
        self._lock = threading.Lock()

    def note(self, time: float, text: str) -> None:
        """Something happened at `time`, s; the same again is one line with a count."""
        with self._lock:
            line = self._lines.pop(text, LoggedEvent(text, time, time, 0))
            self._lines[text] = line._replace(last=time, times=line.times + 1)
            if len(self._lines) > _MOST:
                del self._lines[next(iter(self._lines))]

    def go_on(self, time: float, text: str) -> None:
        """What was noted is so still."""
        with self._lock:
            if text in self._lines:
                self._lines[text] = self._lines[text]._replace(last=time)

    def latest(self) -> list[LoggedEvent]:
        """All lines, the latest first."""
        with self._lock:
            return list(reversed(self._lines.values()))
