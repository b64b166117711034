"""Bytes pass unchanged in chunks of any size, unless an intact packet is changed."""

from random import Random

import pytest

from axbridge.bridge import relay
from axbridge.bridge.relay import Packets
from axbridge.bus.protocols import v1, v2

FRAMES = [
    v1.encode(1, 3, b"\x1e\x00\x02"),
    v2.encode(2, 3, b"\x74\x00\xff\xff\xfd\x00"),
    v1.encode(5, 0xE0, b"abc"),  # an instruction that no servo has
    v1.encode(1, 2, b"\x24\x02")[:-1] + b"\x00",  # damaged
    v2.encode(3, 2, b"\x84\x00\x04\x00")[:-1] + b"\x00",
    b"AT+CMD\r\n",  # of another vendor
    b"\xff",
    b"\xff\xff\xfd",
]


@pytest.mark.parametrize("versions", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("seed", range(20))
def test_bytes_pass_unchanged_and_in_order(versions, seed, monkeypatch):
    monkeypatch.setattr(relay, "_PATIENCE", 0.0)
    dice = Random(seed)
    stream = b"".join(dice.choice([*FRAMES, dice.randbytes(4)]) for _ in range(200))
    packets, out, place = Packets(versions, lambda _v, _p, frame: frame), b"", 0
    while place < len(stream):
        size = dice.randrange(1, 40)
        out += packets.feed(stream[place : place + size])
        place += size
        if dice.random() < 0.1:
            out += packets.overdue()
    assert out + packets.overdue() == stream


def test_a_packet_in_chunks_of_any_size_is_examined_whole():
    frame, seen = FRAMES[0], []

    def examine(version, packet, raw):
        seen.append((version, packet.id, raw))
        return b"other"

    packets = Packets((1,), examine)
    pieces = [packets.feed(bytes((byte,))) for byte in frame]
    assert pieces == [b""] * (len(frame) - 1) + [b"other"]
    assert seen == [(1, 1, frame)]
