"""Find the servos on a line: all ids at one baud rate within a second, because pings do not wait for the time-out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from axbridge.bus.commission import MODEL_AND_FIRMWARE, answers_ping, answers_reads, read_register, read_start
from axbridge.bus.handshake import START, identify_model, is_unknown, profile_for
from axbridge.bus.port import REPLY_DELAY
from axbridge.bus.protocols import v2
from axbridge.bus.protocols.known import SECOND
from axbridge.bus.protocols.packet import BROADCAST, byte_seconds
from axbridge.bus.protocols.protocol import FIRST
from axbridge.bus.protocols.v1 import OVERHEAD, Decoder, encode
from axbridge.bus.serial import SerialBus
from axbridge.config.registers import UNITS, Instruction, Version
from axbridge.errors import BusTimeout, CorruptPacket, PortError, ServoFault

# rates of the manuals; 57143 covers 57600, too
BAUDS = (
    1_000_000, 500_000, 400_000, 250_000, 200_000, 128_000, 117_647, 57_143, 38_400, 19_231, 9_615, 2_000_000,
    2_250_000, 2_500_000, 3_000_000, 4_000_000, 4_500_000,
)  # fmt: skip
RATES = sorted({round(rate) for units in UNITS.values() for rate in units.bauds})  # bit/s; all rates of all servos
_RATE_TOLERANCE = 0.02  # relative rate error; a servo still receives at 3 %
_SHARED = 0.06  # relative difference of two rates at which one servo may answer
_FASTEST_FIRST = 3_000_000  # bit/s; highest rate in Protocol 1.0 (MX)
_GAP = 3  # byte times per lower id before a servo answers a broadcast PING in Protocol 2.0
_PASSES = 2  # number of pings, because a lost packet must not hide a servo
_PING_SIZE = _ANSWER = OVERHEAD  # bytes of a PING and of its status packet in Protocol 1.0


@dataclass(frozen=True)
class FoundServo:
    """A servo that answered a PING."""

    id: int
    model: int | None  # None: damaged replies (perhaps two servos with one id), or no answer to READ
    firmware: int | None
    mute: bool = False  # answers PING but no READ: status return level 0
    protocol: Version = 1


def scan(bus: SerialBus, ids: Iterable[int] = range(254), *, first: bool = True) -> list[FoundServo]:
    """Ping `ids`, read model and firmware of the servos that answer, and set their protocols in the bus."""
    wanted, second = list(ids), []
    for servo in ping_all(bus):
        if servo.id in wanted:
            bus.set_protocol(servo.id, SECOND)
            readable = servo.model and not is_unknown(SECOND, servo.model)
            second.append(replace(servo, mute=bool(readable) and not answers_reads(bus, servo.id)))
    if not first:
        return second
    there: set[int] = set()
    unclear: set[int] = set()  # ids with damaged replies in the latest pass: two servos may share the id
    for id_ in wanted:  # a Protocol 1.0 servo may have the same id
        bus.set_protocol(id_, FIRST)
    for _ in range(_PASSES):  # in the first pass, a late reply may follow another servo's ping
        answered, unclear = _sweep(bus, [id_ for id_ in wanted if id_ not in there])
        there |= answered
    there |= {id_ for id_ in unclear - there if answers_ping(bus, id_, damaged=True)}
    servos = [*(_identify(bus, id_) for id_ in sorted(there)), *second]
    for servo in second:
        if servo.id not in there:
            bus.set_protocol(servo.id, SECOND)
    return sorted(servos, key=lambda servo: servo.id)


def ping_all(bus: SerialBus) -> list[FoundServo]:
    """Find all Protocol 2.0 servos by two broadcast PINGs; they answer in the order of their ids."""
    servos: dict[int, FoundServo] = {}
    frame, byte = v2.encode(BROADCAST, Instruction.PING), byte_seconds(bus.baud)
    for _ in range(_PASSES):
        bus.port.send(frame)
        slots = len(frame) * (1 + bus.echo) + _GAP * (v2.MAX_ID + 1)
        deadline = time.monotonic() + slots * byte + REPLY_DELAY + bus.latency
        decoder = v2.Decoder()
        while chunk := bus.port.receive(deadline):
            deadline += len(chunk) * byte
            for packet in decoder.feed(chunk):
                if packet.status and packet.intact and len(packet.params) == MODEL_AND_FIRMWARE.size:
                    model, firmware = MODEL_AND_FIRMWARE.unpack(packet.params)
                    servos[packet.id] = FoundServo(packet.id, model, firmware, protocol=2)
                elif packet.status:
                    servos.setdefault(packet.id, FoundServo(packet.id, None, None, protocol=2))
    return sorted(servos.values(), key=lambda servo: servo.id)


def has_feetech(bus: SerialBus) -> bool:
    """Return whether Feetech servos are on the line, by the first servo that answers a broadcast PING."""
    packets = Decoder().feed(_broadcast_ping(bus, _GAP * (v2.MAX_ID + 1)))
    answered = [packet.id for packet in packets if packet.intact and packet.id != BROADCAST and not packet.params]
    return any(_identify(bus, id_).protocol != FIRST.name for id_ in answered[:1])


def all_bauds() -> list[int]:
    """Return rates for a scan such that every rate of a servo is near to one; the manuals' rates come first."""
    chosen = list(BAUDS)
    for rate in reversed(RATES):
        if all(abs(rate - other) > _RATE_TOLERANCE * rate for other in chosen):
            chosen.append(rate)
    return chosen


def _has_traffic(bus: SerialBus) -> bool:
    """Return whether any byte follows a broadcast PING in Protocol 1.0, which all servos answer at the same time."""
    echo = _PING_SIZE * bus.echo
    return any(len(_broadcast_ping(bus, _PING_SIZE + echo + _ANSWER)) > echo for _ in range(_PASSES))


def _broadcast_ping(bus: SerialBus, wait: int) -> bytes:
    """Send a broadcast PING in Protocol 1.0; return what comes within the time of `wait` bytes and a reply's delay."""
    bus.port.send(encode(BROADCAST, Instruction.PING))
    return bus.port.listen(time.monotonic() + wait * byte_seconds(bus.baud) + REPLY_DELAY + bus.latency)


def _sweep(bus: SerialBus, ids: list[int]) -> tuple[set[int], set[int]]:
    """Ping each id once; return the ids that answered, also late, and those with other bytes after their ping."""
    port, echo = bus.port, bus.echo
    received = bytearray()
    garbled = set()
    slot = 2 * _ANSWER * byte_seconds(bus.baud) + REPLY_DELAY
    for id_ in ids:
        frame = encode(id_, Instruction.PING)
        answer = frame[:4]
        port.send(frame)
        deadline = time.monotonic() + slot
        start, wanted = len(received), 2 * len(frame) if echo else len(frame)
        while chunk := port.receive(deadline):
            received += chunk
            if len(received) - start >= wanted and received.endswith(bytes(answer), start, len(received) - 2):
                break  # the reply is complete
        else:
            if len(received) - start > (len(frame) if echo else 0):
                garbled.add(id_)
    data = bytes(received) + port.listen(time.monotonic() + bus.latency + port.latency)  # with late replies
    for id_ in ids if echo else ():
        data = data.replace(encode(id_, Instruction.PING), b"", 1)
    there = {packet.id for packet in Decoder().feed(data) if not packet.params}.intersection(ids)
    return there, garbled - there


def _identify(bus: SerialBus, id: int) -> FoundServo:
    try:
        data = read_start(bus, id, START)
    except (BusTimeout, CorruptPacket):
        data = b""
    if data is None or len(data) < START:
        return FoundServo(id, None, None, mute=data is None)
    protocol, model, firmware = identify_model(id, data)
    bus.set_protocol(id, protocol)
    return FoundServo(id, model, firmware, protocol=protocol.name)


def scan_bauds(
    bus: SerialBus, bauds: Iterable[int], ids: Iterable[int] = range(254), progress: Callable[[int], None] | None = None
) -> dict[int, list[FoundServo]]:
    """Run `scan` at several rates, then restore the bus's rate.

    A rate that no manual lists is first tested by a broadcast PING, and skipped if no byte comes back. A servo that
    answers at several neighbouring rates is listed at the one that is nearest to its own.
    """
    wanted, rates, before = list(ids), list(bauds), bus.baud
    servos: dict[int, list[FoundServo]] = {}
    away: dict[tuple[int, FoundServo], float] = {}  # bit/s between a rate and the servo's own
    try:
        for baud in rates:
            if progress:
                progress(baud)
            try:
                bus.set_baud(baud)
            except PortError:
                if bus.closed:
                    raise
                continue
            if baud in BAUDS or len(rates) == 1 or _has_traffic(bus):
                servos[baud] = scan(bus, wanted, first=baud <= _FASTEST_FIRST or len(rates) == 1)
                away |= {(baud, servo): abs(_own_baud(bus, servo) - baud) for servo in servos[baud] if len(rates) > 1}
    finally:
        if not bus.closed:
            bus.set_baud(before)
    return {baud: [servo for servo in here if _is_nearest(baud, servo, away)] for baud, here in servos.items()}


def _own_baud(bus: SerialBus, servo: FoundServo) -> float:
    """Return the rate, bit/s, that the servo's register holds; infinity if it cannot be read."""
    profile = None if servo.mute else profile_for(servo.model, servo.firmware)
    if profile is not None:
        with suppress(BusTimeout, CorruptPacket, ServoFault):
            rate = profile.units.baud(read_register(bus, servo.id, profile.register("baud_rate")))
            return math.inf if math.isnan(rate) else rate
    return math.inf


def _is_nearest(baud: int, servo: FoundServo, away: dict[tuple[int, FoundServo], float]) -> bool:
    """Return whether a servo that was found at a rate was not found at a neighbouring one that is nearer to its own.

    Of equal ones, as without the servo's register, the first counts. A servo whose model was read at one rate may have
    sent damaged replies at the other.
    """
    same = [
        (other, answer)
        for other, answer in away
        if abs(other - baud) <= _SHARED * baud
        and (answer.id, answer.protocol) == (servo.id, servo.protocol)
        and (answer.model == servo.model or None in {answer.model, servo.model})
    ]
    return min(same, key=lambda reply: (reply[1].model is None, away[reply]), default=(baud, servo)) == (baud, servo)
