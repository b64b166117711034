"""Dynamixel Protocol 1.0 packets: encode, and decode from chunks of any size. No I/O.

Instruction packet ``FF FF ID LEN INST P1..PN CHK``, status packet ``FF FF ID LEN ERR P1..PN CHK``, with
``LEN = N + 2`` and ``CHK = ~(ID + LEN + code + P1 + .. + PN) & 0xFF`` (e-manual, "Protocol 1.0").
"""

from __future__ import annotations

from axbridge.bus.protocols.packet import BROADCAST, ByteStream, Packet, Search
from axbridge.config.registers import Instruction
from axbridge.errors import ErrorFlag, UsageError

HEADER = b"\xff\xff"
MAX_ID = 253
OVERHEAD = 6  # header, id, length, code, checksum
SUM_OK = 0xFD  # low byte of the sum over a complete intact packet: 0xFF + 0xFF + 0xFF
_REFUSED = int(ErrorFlag.RANGE | ErrorFlag.CHECKSUM | ErrorFlag.INSTRUCTION)


def checksum(body: bytes) -> int:
    """Return the checksum over id, length, code and parameters."""
    return ~sum(body) & 0xFF


def encode(id: int, code: int, params: bytes = b"") -> bytes:
    """Build a packet (instruction or status)."""
    if not 0 <= id <= BROADCAST:
        raise UsageError(f"id {id} is outside 0..{BROADCAST}")
    if len(params) > 0xFF - 2:
        raise UsageError(f"{len(params)} parameter bytes do not fit into one packet (at most 253)")
    body = bytes((id, len(params) + 2, code)) + params
    return HEADER + body + bytes((checksum(body),))


def whole_packet(data: bytes) -> Packet | None:
    """Decode `data` if it is exactly one packet, even with a wrong checksum; else return None."""
    if len(data) < OVERHEAD or data[:2] != HEADER or data[3] != len(data) - 4 or data[2] == 0xFF:
        return None
    return _packet(data)


def _packet(frame: bytes) -> Packet:
    return Packet(frame[2], frame[4], frame[5:-1], frame[-1] == checksum(frame[2:-1]))


class Decoder(ByteStream):
    """Finds packets in a byte stream of any chunks; a third ``FF`` is junk, because no servo has id 255."""

    _packet = staticmethod(_packet)

    def _size(self) -> int:
        buffer = self._buffer
        while True:
            start = buffer.find(HEADER)
            if start < 0:
                self._skip(len(buffer) - buffer.endswith(b"\xff"))
                return 0
            while buffer[start + 2 : start + 3] == b"\xff":
                start += 1
            self._skip(start)
            if len(buffer) < 4:
                return 0
            size = buffer[3] + 4
            if size >= OVERHEAD:
                return size if len(buffer) >= size else 0
            self._skip(1)


def find_answer(buffer: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
    """See `axbridge.bus.protocols.protocol.Protocol.find_answer`; `buffer` has the bytes behind an echo."""
    damaged = False
    for size in (length, 0) if length and refusable else (length,):
        refusal = size != length
        header = HEADER + bytes((id, size + 2))
        at = buffer.find(header)
        while at >= 0 and (end := at + size + OVERHEAD) <= len(buffer):
            raw = buffer[at:end]
            if sum(raw) & 0xFF == SUM_OK and (not refusal or raw[4] & _REFUSED):
                if raw == frame and frame[4] == Instruction.READ and not echo:
                    echo = True  # not detected at open
                elif not may_be_other(raw, buffer[end : end + 3]):
                    return Search(Packet(id, raw[4], raw[5:-1]), buffer[:at] + buffer[end:], damaged, echo)
            damaged = damaged or not refusal
            at = buffer.find(header, at + 1)
    return Search(None, buffer, damaged, echo)


def ends_packet(following: bytes) -> bool:
    """Return whether no byte, or another packet's header, follows the end of a packet; ``FF FF FF`` is no header."""
    return not following or (following.startswith(HEADER) and following[2:3] != b"\xff")


def may_be_other(raw: bytes, following: bytes) -> bool:
    """Return whether `raw`, with a correct checksum, could be a damaged packet with one byte too many or too few.

    Too many: a stray byte is in it, and its checksum is behind it. One of 256 such packets passes the 8-bit checksum.
    Too few: it lost a byte FF, and the first FF of the next header stands in the place of its checksum.
    """
    if ends_packet(following):
        return False
    body = raw[2:]
    total = sum(body)
    shorter = (raw[-1:] + following).startswith(HEADER)
    return shorter or any(~(total - stray) & 0xFF == following[0] for stray in body[2:-1])
