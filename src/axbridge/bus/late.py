"""Replies that were given up and may still come, and packets that only look whole."""

from __future__ import annotations

import time

__all__ = ["LateReplies", "may_be_longer"]


class LateReplies:
    """Who still owes a reply of which length.

    Args:
        window: How long a reply may still turn up after its question was given up, s.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._until: dict[tuple[int, int], float] = {}
        self._last = 0.0

    def __bool__(self) -> bool:
        if self._until and time.monotonic() >= self._last:
            self._until.clear()
        return bool(self._until)

    def add(self, id: int, length: int) -> None:
        """Servo `id` may still send a reply with `length` parameter bytes."""
        self._until[id, length] = self._last = time.monotonic() + self._window

    def owes(self, id: int, length: int) -> bool:
        """Whether such a reply may still come."""
        until = self._until.get((id, length))
        if until is None:
            return False
        if time.monotonic() < until:
            return True
        del self._until[id, length]
        return False

    def latest(self, id: int) -> float:
        """When the last reply of servo `id` is past (`time.monotonic`); 0.0 when it owes none."""
        return max((until for (owing, _), until in self._until.items() if owing == id), default=0.0)

    def forgive(self, id: int | None = None) -> None:
        """Nothing can come from `id` any more; None: from nobody."""
        self._until = {key: until for key, until in self._until.items() if id is not None and key[0] != id}


def may_be_longer(raw: bytes, following: bytes) -> bool:
    """Whether `raw`, intact as it looks, could be a longer damaged packet: a stray byte in it, its checksum behind it.

    A stray byte inside a packet passes the 8-bit checksum once in 256 times; the byte that then follows gives it away.
    """
    if not following:
        return False
    body = raw[2:]
    total = sum(body)
    return any(~(total - stray) & 0xFF == following[0] for stray in body[2:-1])
