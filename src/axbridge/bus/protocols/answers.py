"""Finding the one right answer in what was heard: past echoes, junk, late replies and packets that only look whole."""

from __future__ import annotations

from typing import NamedTuple

from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.packet import Packet
from axbridge.config.instructions import Instruction
from axbridge.errors import ErrorFlag

SUM_OK = 0xFD  # low byte of the sum over a whole intact packet of Protocol 1.0: 0xFF + 0xFF + 0xFF
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


def find_answer(heard: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
    """Look for the status packet of Protocol 1.0 of servo `id` with `length` parameter bytes.

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
        header = v1.HEADER + bytes((id, size + 2))
        at = heard.find(header, start)
        while at >= 0 and (end := at + size + v1.OVERHEAD) <= len(heard):
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


def find_answer_2(heard: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
    """`find_answer` for Protocol 2.0, whose packets say whether they are answers, and have a checksum of 16 bits."""
    start = 0
    if echo:
        start = heard.find(frame)
        if start < 0:
            return Search(None, heard, damaged=False, echo=True)
        start += len(frame)
    decoder = v2.Decoder()
    damaged = False
    for packet, end, size in zip(decoder.feed(heard[start:]), decoder.ends, decoder.sizes, strict=True):
        if not packet.status:
            echo = echo or heard[start:][end - size : end] == frame  # missed at open
        elif packet.id == id:
            refusal = not packet.params and bool(packet.code & v2.NUMBER)
            if packet.intact and (len(packet.params) == length or (refusal and refusable)):
                rest = heard[start : start + end - size] + heard[start + end :]
                return Search(packet, rest, damaged, echo)
            damaged = damaged or not packet.intact
    return Search(None, heard[start:], damaged, echo)


def may_be_longer(raw: bytes, following: bytes) -> bool:
    """Whether `raw`, intact as it looks, could be a longer damaged packet: a stray byte in it, its checksum behind it.

    A stray byte inside a packet passes the 8-bit checksum once in 256 times; the byte that then follows gives it away.
    What follows as a packet of its own, such as a late reply, is no checksum.
    """
    if not following or following.startswith(v1.HEADER):
        return False
    body = raw[2:]
    total = sum(body)
    return any(~(total - stray) & 0xFF == following[0] for stray in body[2:-1])
