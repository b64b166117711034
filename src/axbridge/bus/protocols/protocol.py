"""A protocol as its users see it: packets, and what a servo's registers mean for a cycle, a hold, a shut-down.

A family of servos is its profiles (where each register is) and one such object. What drives a line asks a servo's
protocol what to send, not which one it is.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from axbridge.bus.protocols import v1
from axbridge.bus.protocols.packet import BROADCAST, ByteStream, Packet, Search
from axbridge.config.instructions import Instruction, Version
from axbridge.config.registers import CALIBRATION, EEPROM_END, NAMES, PRESENT, TABLE_SIZE, Address
from axbridge.errors import ErrorFlag, ServoFlags, StatusError

Span = tuple[int, int]  # registers: from where on, bytes
_ALARMS = 0x7F
_RANGE, _INSTRUCTION = int(ErrorFlag.RANGE), int(ErrorFlag.INSTRUCTION)


class Refusals(NamedTuple):
    """What a servo puts into the error byte of an answer to what it does not do; 0 where it says nothing of it.

    Attributes:
        now: It cannot be done now.
        unknown: There is no such instruction, or nothing to carry out; None: it is silent.
        value: A value, or what stands for one, is outside its range.
        length: The data do not fill registers.
        short: The instruction has too many parameters, or too few.
        access: There is no such register, or it must not be written.
        damaged: The checksum is wrong; None: it is silent.
        goal: A goal is outside the servo's own limits.
    """

    now: int = 0
    unknown: int | None = None
    value: int = 0
    length: int = 0
    short: int = 0
    access: int = 0
    damaged: int | None = None
    goal: int = 0


class Protocol:
    """Protocol 1.0 of AX and MX servos; of the others, what differs. Instructions have the same codes in all.

    Attributes:
        name: As profiles give it.
        title: For people.
        version: Of Dynamixel's protocol, whose packets it has.
        max_id: Highest id of a servo.
        longest_packet: Bytes of the longest packet that a servo takes.
        address_size: Bytes of an address in a packet.
        refusals: What a servo says to what it does not do.
        resets: By the parameters of a FACTORY_RESET, the registers that it keeps.
        reboots_all: Whether servos obey a REBOOT to all.
        gaps: Whether a READ may ask for addresses of which none has a register.
        ping_length: Parameter bytes of the answer to a PING.
        ping_slots: Whether servos answer a PING to all in turn; else they answer at once.
        group_reads: Instructions that ask several servos at once, best first; a servo may know the last ones alone.
        byteorder: Of registers of two bytes.
        names: What its servos call the registers that all have.
        full_level: Status return level at which a servo answers writes, too; at two below it, PING alone.
        usual_profile: Name of the profile for a servo of an unknown model: all share its common registers.
        model_place, firmware_place: Where its servos say who they are, in two bytes and in one.
        id_place, torque_enable: Registers of one byte; RAM begins with the latter.
        burning: How long a servo hears nothing after a write, s for each byte of EEPROM in it.
        lock: Register that has to be 0 for a change of the EEPROM to outlast the power; None: it always does.
        torque_limit: What limits the torque while a servo follows positions; 2 bytes.
        full_torque: All of it, counts.
        goal: Where goal and speed limit are that `goal_bytes` makes.
        goal_position, present_position: In the same form.
        goal_wakes: Whether a goal switches the torque on.
        identity: What a servo is known by when the port was lost.
        usual, with_limit, with_torque: What a cycle reads: alone, with the torque limit, with all torque registers. All
            the same where the latter are asked for by themselves.
        sample: Of the usual read: column, numpy format and offset of position, speed, load, voltage and temperature.
        sign_bits: By column of it: the bit that is the sign of a magnitude; other columns are plain numbers.
        alarm: Where it says what is wrong, once the error byte has the bit `alert`; None: the error byte says it.
        alert: See `alarm`.
        alarms: What is wrong, as flags.
        read_errors: Error bytes that an answer with data may have.
        refusing: Bits of an error byte that say that a write was not carried out.
        shuts_down: Of an error byte: what a servo takes its torque back for, as it comes from the factory.
        revival: What `axbridge servo` is to do with a servo that has shut itself down; `id` is its number.
        watchdog: Register that stops a servo to which nobody speaks, in units of 20 ms; None: it has none.
        mode: What tells whether a servo follows positions; see `endless_goal`.
        whole, unlike: Registers in which two servos with one id differ: many, and those that surely do.
        park_speed, park_near: Counts: 11 rpm, about 2 degrees.
        room: Bytes from the first register on that one READ may ask for.
    """

    name: Version = 1
    title = "Protocol 1.0"
    version: Literal[1, 2] = 1
    max_id = v1.MAX_ID
    longest_packet = 143  # receive buffer of a servo (RX-64 manual p. 37; assumed for all)
    address_size = 1
    refusals = Refusals(
        _INSTRUCTION, _INSTRUCTION, _RANGE, _RANGE, short=_INSTRUCTION, access=_RANGE, damaged=int(ErrorFlag.CHECKSUM),
        goal=int(ErrorFlag.ANGLE_LIMIT),
    )  # fmt: skip
    resets: Mapping[bytes, tuple[str, ...]] = {b"": ()}
    reboots_all = False
    gaps = True
    ping_length = 0
    ping_slots = False
    group_reads: tuple[int, ...] = ()
    byteorder: Literal["little", "big"] = "little"
    names = NAMES[1]
    full_level = 2
    usual_profile = "ax-12a"
    model_place = int(Address.MODEL_NUMBER)
    firmware_place = int(Address.FIRMWARE_VERSION)
    id_place = int(Address.ID)
    torque_enable = int(Address.TORQUE_ENABLE)
    burning = 0.009  # longest time of one byte (data sheet); 6 +- 1 ms were measured on an AX-12
    lock: int | None = None
    torque_limit = int(Address.TORQUE_LIMIT)
    full_torque = 1023
    goal = int(Address.GOAL_POSITION)
    goal_position: Span = (int(Address.GOAL_POSITION), 2)
    present_position: Span = (int(Address.PRESENT_POSITION), 2)
    goal_wakes = True
    identity: Span = (0, EEPROM_END)
    usual: Span = (int(Address.PRESENT_POSITION), PRESENT.size)
    with_limit: Span = (int(Address.TORQUE_LIMIT), PRESENT.size + 2)
    with_torque: Span = (int(Address.TORQUE_ENABLE), PRESENT.size + 12)
    sample: tuple[tuple[str, str, int], ...] = (
        ("position", "<u2", 0), ("speed", "<u2", 2), ("load", "<u2", 4), ("voltage", "u1", 6), ("temperature", "u1", 7),
    )  # fmt: skip
    sign_bits: Mapping[str, int] = {"speed": 10, "load": 10}
    alarm: Span | None = None
    alert = 0
    alarms: type[ServoFlags] = ErrorFlag
    read_errors = tuple(byte for byte in range(0x80) if not byte & ErrorFlag.CHECKSUM)
    refusing = int(ErrorFlag.RANGE | ErrorFlag.ANGLE_LIMIT | ErrorFlag.INSTRUCTION)
    shuts_down = int(ErrorFlag.OVERLOAD | ErrorFlag.OVERHEATING)
    revival = "write {id} torque_limit 1023"
    watchdog: int | None = None
    mode: Span = (int(Address.CW_ANGLE_LIMIT), 4)
    whole: Span = (0, TABLE_SIZE)
    unlike: Span = (CALIBRATION, Address.PRESENT_TEMPERATURE + 1 - CALIBRATION)
    park_speed, park_near = 100, 6
    room = TABLE_SIZE
    _goal = struct.Struct("<HH")
    _search = staticmethod(v1.find_answer)

    # -- packets ------------------------------------------------------------------------------------------------------

    def encode(self, id: int, code: int, params: bytes = b"") -> bytes:
        """Instruction packet.

        Raises:
            UsageError: an id that no servo can have, or too many parameters.
        """
        return v1.encode(id, code, params)

    def encode_status(self, id: int, code: int, params: bytes = b"") -> bytes:
        """Status packet, whose code is its error byte."""
        return v1.encode(id, code, params)

    def read_params(self, address: int, length: int) -> bytes:
        """Parameters of a READ."""
        return bytes((address, length))

    def write_params(self, address: int, data: bytes) -> bytes:
        """Parameters of a WRITE or REG_WRITE."""
        return bytes((address,)) + data

    def sync_write_params(self, address: int, data: Mapping[int, bytes]) -> bytes:
        """Parameters of a SYNC_WRITE of equally long `data` per id.

        Raises:
            UsageError: no data, or data of different lengths.
        """
        return v1.sync_write_params(address, data)

    def blocks(self, packet: Packet) -> list[tuple[int, Mapping[int, bytes]]] | None:
        """Addresses, and the data for each id there, of a write to several servos; None for any other packet."""
        params = packet.params
        return [(params[0], v1.sync_write_blocks(params))] if packet.code == Instruction.SYNC_WRITE and params else None

    def reads(self, packet: Packet) -> list[tuple[int, int, int]]:
        """``(id, address, length)`` of a read of several servos, in the order asked; none if malformed."""
        listed = (packet.params[place : place + 3] for place in range(1, len(packet.params) - 2, 3))
        return [(id_, address, length) for length, id_, address in listed]  # 0, length, id, address, length, ...

    def longest(self, length: int) -> int:
        """Bytes on the line of an answer with so many parameter bytes, at most."""
        return length + v1.OVERHEAD

    def decoder(self) -> ByteStream:
        """What finds packets in a stream of bytes."""
        return v1.Decoder()

    def is_answer(self, packet: Packet) -> bool:
        """Whether a packet comes from a servo."""
        return packet.id != BROADCAST

    def find_answer(self, heard: bytes, frame: bytes, id: int, length: int, *, echo: bool, refusable: bool) -> Search:
        """Look for the status packet of servo `id` with `length` parameter bytes.

        Args:
            heard: All bytes since the question `frame` was sent.
            frame: The question.
            id: Who was asked.
            length: Parameter bytes of the answer.
            echo: Whether the adapter returns what is sent; then no answer comes before that.
            refusable: Whether an error without parameters may be the answer (not while an old acknowledgement is owed).
        """
        if echo:
            start = heard.find(frame)
            if start < 0:
                return Search(None, heard, damaged=False, echo=True)
            heard = heard[start + len(frame) :]
        return self._search(heard, frame, id, length, echo=echo, refusable=refusable and bool(self.refusing))

    def answer_head(self, id: int, length: int) -> bytes:
        """First bytes of an answer that is known by head, length and sum (`v1.SUM_OK`); empty: it is looked for."""
        return v1.HEADER + bytes((id, length + 2))

    def read_room(self, address: int, length: int) -> tuple[int, int]:  # noqa: ARG002 - it has no gaps
        """Begin and end of the registers around these that one READ may ask for."""
        return 0, self.room

    def error(self, byte: int) -> ServoFlags | StatusError:
        """What an error byte says; has `describe`."""
        return self.alarms(byte)

    def garbled(self, error: int) -> bool:
        """Whether an error byte says that the question came damaged: then it is no answer."""
        return bool(error & (self.refusals.damaged or 0))

    def refused(self, error: int) -> bool:
        """Whether an error byte says that a write was not carried out."""
        return bool(error & self.refusing)

    # -- several servos at once ---------------------------------------------------------------------------------------

    def group_question(self, code: int, ids: Sequence[int], address: int, length: int) -> tuple[bytes, int, int]:
        """Ask `ids` at once, by an instruction of `group_reads`: frame, how many answers, and all their bytes."""
        frame = v1.encode(BROADCAST, code, bytes((address, length, *ids)))
        return frame, len(ids), len(ids) * self.longest(length)

    def group_answers(self, code: int, heard: bytes, ids: Sequence[int], length: int) -> dict[int, tuple[int, bytes]]:  # noqa: ARG002 - one form
        """Error byte and data by id, of those that answered."""
        return {
            one.id: (one.code, one.params)
            for one in self.decoder().feed(heard)
            if self.is_answer(one) and one.intact and one.id in ids and len(one.params) == length
        }

    def exchange_bytes(self, count: int) -> tuple[int, int, int]:
        """Bytes of the goals of so many servos, bytes of reading them, and how often a servo begins to speak."""
        return 8 + 5 * count, 22 * count, count

    @property
    def asks(self) -> bool:
        """Whether what is wrong with a servo, and whether it has torque, is read apart from its samples."""
        return self.alarm is not None

    @property
    def heeded(self) -> int:
        """Bits of an error byte that tell something about the servo, not about a question."""
        return self.alert if self.asks else _ALARMS

    # -- registers ----------------------------------------------------------------------------------------------------

    def goal_bytes(self, position: int, speed: int) -> bytes:
        """A goal and its speed limit, for `goal`."""
        return self._goal.pack(position, speed)

    def endless_goal(self, mode: bytes) -> Span | None:
        """By the bytes of `mode`: the goal of a servo that follows no position; 0 there lets it stand. Else None."""
        return None if any(mode) else (int(Address.MOVING_SPEED), 2)  # both angle limits 0: a wheel

    def endless_bytes(self, address: int, value: int) -> bytes:
        """The signed goal at `address` of a servo that follows no position."""
        raise NotImplementedError

    def word(self, value: int) -> bytes:
        """A register of two bytes."""
        return value.to_bytes(2, self.byteorder)

    def number(self, data: bytes) -> int:
        """The value of a register of two bytes."""
        return int.from_bytes(data, self.byteorder)

    # -- whole frames, for who knows no protocol ----------------------------------------------------------------------

    def write_frame(self, id: int, address: int, data: bytes) -> bytes:
        """WRITE."""
        return self.encode(id, Instruction.WRITE, self.write_params(address, data))

    def read_frame(self, id: int, address: int, length: int) -> bytes:
        """READ."""
        return self.encode(id, Instruction.READ, self.read_params(address, length))

    def answers(self, id: int, data: bytes) -> list[bytes]:
        """Every answer of a servo to a READ that says `data`: one for each error byte."""
        return [self.encode_status(id, error, data) for error in self.read_errors]

    def limp_frame(self) -> bytes:
        """Torque off, for all at once."""
        return self.write_frame(BROADCAST, self.torque_enable, b"\0")


FIRST = Protocol()
