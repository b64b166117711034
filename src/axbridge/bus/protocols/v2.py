"""Dynamixel Protocol 2.0 packets: encode, and decode from chunks of any size. No I/O.

Instruction packet ``FF FF FD 00 ID LEN_L LEN_H INST P1..PN CRC_L CRC_H``; a status packet has INST = 0x55 and an error
byte before the parameters. ``LEN`` counts all bytes after it. A byte FD is inserted after each ``FF FF FD`` between LEN
and CRC ("byte stuffing"); LEN counts it. The CRC has the polynomial 0x8005 and the initial value 0, and covers all
bytes before it (e-manual, "Protocol 2.0").
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from axbridge.bus.protocols.packet import BROADCAST, ByteStream, Packet, Search
from axbridge.errors import UsageError

CLEAR_TURNS = bytes.fromhex("0144584c22")  # parameters of CLEAR: remove whole turns from Present Position
HEADER = b"\xff\xff\xfd"
STATUS = 0x55
ALERT = 0x80  # bit of the error byte: Hardware Error Status is not 0
NUMBER = 0x7F  # other bits of the error byte: error number of the instruction; 0: none
MAX_ID = 252
OVERHEAD = 10  # header, reserved byte, id, length, instruction, CRC
_BEFORE_LENGTH_ENDS = 7  # bytes from the header to the length
_LONGEST = 1024  # highest LEN: the buffer size of dynamixel-sdk; a higher one is damaged


def _after_zeros(count: int) -> list[int]:
    """Return the CRC of each byte that `count` zeros follow."""
    values = [byte << 8 for byte in range(256)]
    for _ in range(8 * (count + 1)):
        values = [(value << 1 & 0xFFFF) ^ 0x8005 * (value >> 15) for value in values]
    return values


_LOW, _HIGH = _after_zeros(0), _after_zeros(1)


def crc(data: bytes, value: int = 0) -> int:
    """Return the CRC-16 of `data`, continued from `value`; two bytes a turn take half the time."""
    if odd := len(data) % 2:
        value = (value << 8 & 0xFFFF) ^ _LOW[value >> 8 ^ data[0]]
    for word in struct.unpack(f">{len(data) // 2}H", data[odd:]):
        value ^= word
        value = _HIGH[value >> 8] ^ _LOW[value & 0xFF]
    return value


def encode(id: int, code: int, params: bytes = b"") -> bytes:
    """Build an instruction packet."""
    return _frame(id, bytes((code,)) + params)


def encode_status(id: int, code: int, params: bytes = b"") -> bytes:
    """Build a status packet; `code` is its error byte."""
    return _frame(id, bytes((STATUS, code)) + params)


def encode_fast_status(blocks: Sequence[Packet]) -> bytes:
    """Build the reply to a fast read that servos share; each CRC covers all bytes before it.

    A block is a servo's part: id, error byte and registers.
    """
    if not blocks:
        raise UsageError("a fast read is answered by one servo at least")
    length = 1 + sum(4 + len(block.params) for block in blocks)
    frame = HEADER + bytes((0, BROADCAST)) + length.to_bytes(2, "little") + bytes((STATUS,))
    value = crc(frame)
    for block in blocks:
        part = bytes((block.code, block.id)) + block.params
        value = crc(part, value)
        check = value.to_bytes(2, "little")
        value = crc(check, value)
        frame += part + check
    return frame


def fast_blocks(packet: Packet, lengths: Sequence[int]) -> list[Packet]:
    """Return the blocks of a fast read's reply, of these data lengths, up to a damaged one."""
    raw = bytes((packet.code,)) + packet.params
    head = HEADER + bytes((0, BROADCAST)) + (len(raw) + 3).to_bytes(2, "little") + bytes((STATUS,))
    value, blocks, place = crc(head), [], 0
    whole = packet.intact and len(raw) + 2 == sum(length + 4 for length in lengths)
    for number, length in enumerate(lengths, 1):
        end = place + 2 + length
        value, check = crc(raw[place:end], value), raw[end : end + 2]
        if not (whole if number == len(lengths) else check == value.to_bytes(2, "little")):
            break
        value = crc(check, value)
        blocks.append(Packet(raw[place + 1], raw[place], raw[place + 2 : end]))
        place = end + 2
    return blocks


@lru_cache(maxsize=4)  # a long reply is decoded twice: when it comes in, and when it is used
def _packet(frame: bytes) -> Packet:
    intact = crc(frame[:-2]).to_bytes(2, "little") == frame[-2:]
    id_, code, body = frame[4], frame[7], frame[8:-2]
    if code == STATUS and id_ == BROADCAST:  # replies to fast reads have no byte stuffing
        return Packet(id_, body[0] if body else 0, body[1:], intact, status=True)
    body = body.replace(HEADER + b"\xfd", HEADER)
    if code == STATUS:
        return Packet(id_, body[0] if body else 0, body[1:], intact and bool(body), status=True)
    return Packet(id_, code, body, intact)


class Decoder(ByteStream):
    """Finds packets in a byte stream of any chunks; an impossible length or id is junk."""

    _packet = staticmethod(_packet)

    def _size(self) -> int:
        buffer = self._buffer
        while True:
            start = buffer.find(HEADER)
            if start < 0:  # the last bytes may be the start of a header
                self._skip(len(buffer) - (2 if buffer.endswith(b"\xff\xff") else buffer.endswith(b"\xff")))
                return 0
            self._skip(start)
            length = buffer[5] | buffer[6] << 8 if len(buffer) >= _BEFORE_LENGTH_ENDS else 3
            if any(buffer[3:4]) or any(MAX_ID < id_ != BROADCAST for id_ in buffer[4:5]) or not 3 <= length <= _LONGEST:
                self._skip(1)
            else:
                size = _BEFORE_LENGTH_ENDS + length
                return size if len(buffer) >= size else 0


def _frame(id: int, body: bytes) -> bytes:
    if not 0 <= id <= MAX_ID and id != BROADCAST:
        raise UsageError(f"id {id} is neither 0..{MAX_ID} nor {BROADCAST}")
    body = body.replace(HEADER, HEADER + b"\xfd")
    if len(body) + 2 > _LONGEST:
        raise UsageError(f"{len(body) - 1} parameter bytes do not fit into one packet (at most {_LONGEST - 3})")
    frame = HEADER + bytes((0, id)) + (len(body) + 2).to_bytes(2, "little") + body
    return frame + crc(frame).to_bytes(2, "little")


def find_answer(buffer: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
    """See `axbridge.bus.protocols.protocol.Protocol.find_answer`; status packets are marked."""
    decoder = Decoder()
    damaged = False
    for packet, end, size in zip(decoder.feed(buffer), decoder.ends, decoder.sizes, strict=True):
        if not packet.status:
            echo = echo or buffer[end - size : end] == frame  # not detected at open
        elif packet.id == id:
            refusal = not packet.params and bool(packet.code & NUMBER)
            if packet.intact and (len(packet.params) == length or (refusal and refusable)):
                return Search(packet, buffer[: end - size] + buffer[end:], damaged, echo)
            damaged = damaged or not packet.intact
    return Search(None, buffer, damaged, echo)
