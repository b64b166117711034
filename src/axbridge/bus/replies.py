"""Which servos still owe a reply."""

from __future__ import annotations

import time


class LateReplies:
    """Who still owes a reply of which length.

    Args:
        window: How long a reply may still turn up after its question was given up, s, on a line that reorders replies.
            One that keeps their order may hold them back for any time: nothing is forgotten until `heard`.

    Attributes:
        silent: Whether no question has been answered since the last one that was not.
    """

    def __init__(self, window: float) -> None:
        self.silent = False
        self._window = window
        self._until: dict[tuple[int, int], float] = {}
        self._last = 0.0

    def __bool__(self) -> bool:
        if self._until and not self.silent and time.monotonic() >= self._last:
            self._until.clear()
        return bool(self._until)

    def add(self, id: int, length: int) -> None:
        """Servo `id` may still send a reply with `length` parameter bytes."""
        self._until[id, length] = self._last = time.monotonic() + self._window
        self.silent = True

    def heard(self) -> None:
        """A later question was answered."""
        self.silent = False

    def owes(self, id: int, length: int) -> bool:
        """Whether such a reply may still come."""
        until = self._until.get((id, length))
        if until is None:
            return False
        if self.silent or time.monotonic() < until:
            return True
        del self._until[id, length]
        return False

    def latest(self, id: int) -> float:
        """When the last reply of servo `id` is past (`time.monotonic`), unless silent; 0.0 when it owes none."""
        return max((until for (owing, _), until in self._until.items() if owing == id), default=0.0)

    def forgive(self, id: int | None = None) -> None:
        """Nothing can come from `id` any more; None: from nobody."""
        self._until = {key: until for key, until in self._until.items() if id is not None and key[0] != id}
