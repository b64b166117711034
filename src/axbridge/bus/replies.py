"""Finding the one right answer in what was heard: past echoes, junk, late replies and packets that only look whole."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import NamedTuple

from axbridge.errors import ErrorFlag
from axbridge.protocols.packet import Packet
from axbridge.protocols.v1 import HEADER, OVERHEAD, Instruction, encode

__all__ = ["SUM_OK", "LateReplies", "Search", "expected", "find_answer", "may_be_longer"]

SUM_OK = 0xFD  # low byte of the sum over a whole intact packet: 0xFF + 0xFF + 0xFF
_REFUSED = int(ErrorFlag.RANGE | ErrorFlag.CHECKSUM | ErrorFlag.INSTRUCTION)


class Search(NamedTuple):
    """Outcome of `find_answer`.

    Attributes:
        packet: The answer; None when it is not there (yet).
        rest: What was heard besides, without the echo.
        damaged: Whether something that looks like the answer is there, but broken.
        echo: Whether the adapter echoes: as given, or because the question itself came back.
    """

    packet: Packet | None
    rest: bytes
    damaged: bool
    echo: bool


@lru_cache(maxsize=1024)
def expected(request: tuple[int, int, int]) -> tuple[bytes, bytes, int]:
    """Packet of a READ of `(id, address, length)`, the first bytes of its answer, and that one's length in bytes."""
    id_, address, length = request
    frame = encode(id_, Instruction.READ, bytes((address, length)))
    return frame, HEADER + bytes((id_, length + 2)), length + OVERHEAD


def find_answer(heard: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
    """Look for the status packet of servo `id` with `length` parameter bytes.

    Args:
        heard: All bytes since the question `frame` was sent.
        frame: The question.
        id: Who was asked.
        length: Parameter bytes of the answer.
        echo: Whether the adapter returns what is sent; then no answer comes before that.
        refusable: Whether an error without parameters may be the answer (not while an old acknowledgement is owed).
    """
    start = 0
    if echo:
        start = heard.find(frame)
        if start < 0:
            return Search(None, heard, damaged=False, echo=True)
        start += len(frame)
    damaged = False
    for size in (length, 0) if length and refusable else (length,):
        refusal = size != length
        header = HEADER + bytes((id, size + 2))
        at = heard.find(header, start)
        while at >= 0 and (end := at + size + OVERHEAD) <= len(heard):
            raw = heard[at:end]
            if sum(raw) & 0xFF == SUM_OK and (not refusal or raw[4] & _REFUSED):
                if raw == frame and frame[4] == Instruction.READ and not echo:
                    echo = True  # missed at open
                elif not may_be_longer(raw, heard[end : end + 2]):
                    rest = heard[start:at] + heard[end:]
                    return Search(Packet(id, raw[4], raw[5:-1]), rest, damaged, echo)
            damaged = damaged or not refusal
            at = heard.find(header, at + 1)
    return Search(None, heard[start:], damaged, echo)


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


def may_be_longer(raw: bytes, following: bytes) -> bool:
    """Whether `raw`, intact as it looks, could be a longer damaged packet: a stray byte in it, its checksum behind it.

    A stray byte inside a packet passes the 8-bit checksum once in 256 times; the byte that then follows gives it away.
    What follows as a packet of its own, such as a late reply, is no checksum.
    """
    if not following or following.startswith(HEADER):
        return False
    body = raw[2:]
    total = sum(body)
    return any(~(total - stray) & 0xFF == following[0] for stray in body[2:-1])
