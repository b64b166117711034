"""Dynamixel Protocol 2.0 packets: encode, and decode from any chunking of bytes. No I/O.

Instruction packet ``FF FF FD 00 ID LEN_L LEN_H INST P1..PN CRC_L CRC_H``, status packet the same with INST = 0x55 and
an error byte before the parameters. ``LEN`` counts all that follows it. Whatever looks like a header between LEN and
CRC is broken up by one more FD ("byte stuffing"), which LEN counts. The CRC is that of polynomial 0x8005 from 0 on,
over all bytes before it (e-manual, "Protocol 2.0").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from axbridge.bus.protocols.packet import BROADCAST, ByteStream, Packet, Search, same_length
from axbridge.errors import UsageError

CLEAR_TURNS = bytes.fromhex("0144584c22")  # parameters of CLEAR: forget whole turns of Present Position
HEADER = b"\xff\xff\xfd"
STATUS = 0x55
ALERT = 0x80  # bit of the error byte: look at Hardware Error Status
NUMBER = 0x7F  # the others: what was wrong with the instruction; 0: nothing
MAX_ID = 252
OVERHEAD = 10  # header, reserved byte, id, length, instruction, CRC
_BEFORE_LENGTH_ENDS = 7  # bytes from the header to the length
_LONGEST = 1024  # bytes that LEN may count: the buffers of dynamixel-sdk; more is a damaged length


class Scope(IntEnum):
    """What a FACTORY_RESET resets: its parameter."""

    ALL = 0xFF
    KEEP_ID = 0x01
    KEEP_ID_AND_BAUD = 0x02


class Block(NamedTuple):
    """One servo's part of the answer to a fast read: its id, error byte and registers."""

    id: int
    error: int
    data: bytes


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte << 8
        for _ in range(8):
            value = value << 1 ^ (0x8005 if value & 0x8000 else 0)
        table.append(value & 0xFFFF)
    return tuple(table)


_CRC = _crc_table()


def crc(data: Iterable[int], value: int = 0) -> int:
    """CRC-16 of `data`, going on from `value`."""
    for byte in data:
        value = (value << 8 & 0xFFFF) ^ _CRC[value >> 8 ^ byte]
    return value


def encode(id: int, code: int, params: bytes = b"") -> bytes:
    """Build an instruction packet."""
    return _frame(id, _stuffed(bytes((code,)) + params))


def encode_status(id: int, code: int, params: bytes = b"") -> bytes:
    """Build a status packet, whose code is its error byte."""
    return _frame(id, _stuffed(bytes((STATUS, code)) + params))


def encode_fast_status(blocks: Sequence[Block]) -> bytes:
    """Build the one answer of several servos to a fast read; the CRC behind each block is that of all before it."""
    if not blocks:
        raise UsageError("a fast read is answered by one servo at least")
    length = 1 + sum(4 + len(block.data) for block in blocks)
    frame = HEADER + bytes((0, BROADCAST)) + length.to_bytes(2, "little") + bytes((STATUS,))
    for block in blocks:
        frame += bytes((block.error, block.id)) + block.data
        frame += crc(frame).to_bytes(2, "little")
    return frame


def fast_blocks(packet: Packet, lengths: Sequence[int]) -> list[Block]:
    """The servos' parts of the answer to a fast read, as far as they are whole."""
    raw = bytes((packet.code,)) + packet.params
    head = HEADER + bytes((0, BROADCAST)) + (len(raw) + 3).to_bytes(2, "little") + bytes((STATUS,))
    value, blocks, place = crc(head), [], 0
    for number, length in enumerate(lengths):
        end = place + 2 + length
        last = number == len(lengths) - 1
        if end + (0 if last else 2) > len(raw):
            break
        value = crc(raw[place:end], value)
        if last and not packet.intact:
            break
        if not last and raw[end : end + 2] != value.to_bytes(2, "little"):
            break
        value = crc(raw[end : end + 2], value)
        blocks.append(Block(raw[place + 1], raw[place], raw[place + 2 : end]))
        place = end + 2
    return blocks


def read_params(address: int, length: int) -> bytes:
    """Parameters of a READ."""
    return address.to_bytes(2, "little") + length.to_bytes(2, "little")


def write_params(address: int, data: bytes) -> bytes:
    """Parameters of a WRITE or REG_WRITE."""
    return address.to_bytes(2, "little") + data


def sync_read_params(address: int, length: int, ids: Iterable[int]) -> bytes:
    """Parameters of a SYNC_READ or FAST_SYNC_READ."""
    return read_params(address, length) + bytes(ids)


def sync_write_params(address: int, data: Mapping[int, bytes]) -> bytes:
    """Parameters of a SYNC_WRITE of equally long `data` per id."""
    length = same_length(data)
    return read_params(address, length) + b"".join(bytes((id_,)) + block for id_, block in data.items())


def sync_write_blocks(params: bytes) -> dict[int, bytes]:
    """Data by id of a SYNC_WRITE's parameters, the first where an id is there twice; none where lengths do not fit."""
    size = int.from_bytes(params[2:4], "little") + 1
    if size == 1 or len(params) < 5 or (len(params) - 4) % size:
        return {}
    return {params[i]: params[i + 1 : i + size] for i in range(len(params) - size, 3, -size)}


def bulk_read_requests(params: bytes) -> list[tuple[int, int, int]]:
    """``(id, address, length)`` of a BULK_READ's parameters; none where the bytes do not fit."""
    if len(params) % 5:
        return []
    parts = [params[i : i + 5] for i in range(0, len(params), 5)]
    return [(part[0], int.from_bytes(part[1:3], "little"), int.from_bytes(part[3:], "little")) for part in parts]


def bulk_write_blocks(params: bytes) -> list[tuple[int, int, bytes]]:
    """``(id, address, data)`` of a BULK_WRITE's parameters, as far as they are whole."""
    blocks, place = [], 0
    while place + 5 <= len(params):
        address, length = (int.from_bytes(params[place + at : place + at + 2], "little") for at in (1, 3))
        end = place + 5 + length
        if end > len(params):
            break
        blocks.append((params[place], address, params[place + 5 : end]))
        place = end
    return blocks


def _packet(frame: bytes) -> Packet:
    """The packet that a whole frame is."""
    intact = crc(frame[:-2]).to_bytes(2, "little") == frame[-2:]
    id_, code, body = frame[4], frame[7], frame[8:-2]
    if code == STATUS and id_ == BROADCAST:  # fast reads are not stuffed
        return Packet(id_, body[0] if body else 0, body[1:], intact, status=True)
    body = body.replace(HEADER + b"\xfd", HEADER)
    if code == STATUS:
        return Packet(id_, body[0] if body else 0, body[1:], intact and bool(body), status=True)
    return Packet(id_, code, body, intact)


class Decoder(ByteStream):
    """Finds packets in a byte stream, however it is cut into chunks.

    Junk before a header is skipped. A length that no packet can have, and an id that no servo can have, make the
    decoder look for the next header inside what it has.
    """

    _packet = staticmethod(_packet)

    def _size(self) -> int:
        buffer = self._buffer
        while True:
            start = buffer.find(HEADER)
            if start < 0:  # its last bytes may be the start of one
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
    if len(body) + 2 > _LONGEST:
        raise UsageError(f"{len(body) - 1} parameter bytes do not fit into one packet (at most {_LONGEST - 3})")
    frame = HEADER + bytes((0, id)) + (len(body) + 2).to_bytes(2, "little") + body
    return frame + crc(frame).to_bytes(2, "little")


def _stuffed(body: bytes) -> bytes:
    return body.replace(HEADER, HEADER + b"\xfd")


def find_answer(heard: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
    """See `axbridge.bus.protocols.protocol.Protocol.find_answer`; packets say whether they are answers."""
    decoder = Decoder()
    damaged = False
    for packet, end, size in zip(decoder.feed(heard), decoder.ends, decoder.sizes, strict=True):
        if not packet.status:
            echo = echo or heard[end - size : end] == frame  # missed at open
        elif packet.id == id:
            refusal = not packet.params and bool(packet.code & NUMBER)
            if packet.intact and (len(packet.params) == length or (refusal and refusable)):
                return Search(packet, heard[: end - size] + heard[end:], damaged, echo)
            damaged = damaged or not packet.intact
    return Search(None, heard, damaged, echo)
