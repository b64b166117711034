"""The virtual servo: what it does with Protocol 1.0 packets, and what it answers.

It knows nothing of lines and timing but how long its own firmware takes to answer.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from axbridge.config.profile import EEPROM_END
from axbridge.errors import ErrorFlag
from axbridge.packets import BROADCAST, Instruction, Packet, encode
from axbridge.virtual.registers import PRESENT
from axbridge.virtual.servo import GOAL_POSITION, ServoBody

__all__ = ["Status", "VirtualServo"]

_MOVING = 46  # address
_PLAIN_STOP = 44  # end of Present Temperature
_PRESENT_START, _PRESENT_STOP = PRESENT.start, PRESENT.stop
_CHECKSUM, _INSTRUCTION, _RANGE = int(ErrorFlag.CHECKSUM), int(ErrorFlag.INSTRUCTION), int(ErrorFlag.RANGE)


class Status(NamedTuple):
    """An answer.

    Attributes:
        frame: The status packet.
        delay: From the end of the instruction packet to the first start bit, without interruptions, s.
        turn: The other servos that answer first (BULK_READ).
    """

    frame: bytes
    delay: float
    turn: tuple[int, ...] = ()


class VirtualServo(ServoBody):
    """One servo; arguments and attributes are those of `ServoBody`."""

    @cached_property
    def _known(self) -> frozenset[int]:
        """Codes of the instructions that this model has."""
        return frozenset(int(Instruction[name]) for name in self.profile.instructions)

    @cached_property
    def _delays(self) -> dict[Instruction, float]:
        """Reply delay at return delay 0, s."""
        given = self.profile.timing.reply_us
        return {code: given.get(code.name, given["WRITE"]) * 1e-6 for code in Instruction}

    @cached_property
    def _read_delay(self) -> float:
        return self._delays[Instruction.READ]

    # -- packets -------------------------------------------------------------------------------------------------

    def handle(self, packet: Packet, time: float) -> Status | None:
        """Execute one packet whose last byte arrived at `time` (s); return the answer, None for silence.

        Effects of the packet count after its status: the answer carries the old id, level and delay.
        """
        broadcast = packet.id == BROADCAST
        if not self.powered or not (broadcast or packet.id == self.id):
            return None
        level = self.table.data[16]
        if not packet.intact:
            if broadcast or level < 2 or self.profile.behaviour.bad_checksum == "silent":
                return None
            return self._status(self.id, _CHECKSUM, b"", Instruction.PING)
        code = packet.code
        if code == Instruction.READ:
            return None if broadcast or level < 1 else self._read(packet.params, time)
        if code == Instruction.PING:
            if broadcast and self.profile.behaviour.broadcast_ping == "ignore":
                return None
            return self._status(self.id, 0, b"", Instruction.PING)
        if code == Instruction.BULK_READ and broadcast and code in self._known:
            return self._bulk_read(packet.params, time) if level >= 1 else None
        answer = (self.id, self.alarms.bits, self._return_delay)
        error = self._execute(code, packet.params, time, broadcast)
        if error is None or broadcast or level < 2:
            return None
        id_, alarms, return_delay = answer
        written = max(len(packet.params) - 1, 0) if code in {Instruction.WRITE, Instruction.REG_WRITE} else 0
        delay = self._delays.get(code, self._delays[Instruction.WRITE])  # type: ignore[call-overload]
        delay += written * self.profile.timing.reply_us_per_byte * 1e-6 + return_delay
        return Status(encode(id_, error | alarms), delay)

    def read_delay(self, address: int, length: int) -> float | None:
        """Delay of the answer to a READ of these registers, as in `Status`; None where they cannot be read just so."""
        if self.table.data[16] < 1 or address < 0 or length < 0 or address + length > self.table.size:
            return None
        return self._read_delay + self._return_delay

    def take_block(self, address: int, data: bytes, time: float) -> None:
        """Carry out its part of a SYNC_WRITE that ended at `time` (s); never answered."""
        if not (address == GOAL_POSITION and self._steer(data, time)):
            self._write(address, data, time)

    def _status(self, id: int, error: int, params: bytes, code: Instruction) -> Status:
        return Status(encode(id, error | self.alarms.bits, params), self._delays[code] + self._return_delay)

    def _read(self, params: bytes, time: float) -> Status | None:
        if len(params) != 2:
            return self._status(self.id, self._short, b"", Instruction.READ)
        address, length = params
        data = self.peek(address, length, time)
        if len(data) < length:
            choice = self.profile.behaviour.out_of_table
            if choice == "silent":
                return None
            if choice == "reply_0x08_no_params":
                return self._status(self.id, _RANGE, b"", Instruction.READ)
            data = data.ljust(length, b"\0")
        return self._status(self.id, 0, data, Instruction.READ)

    def peek(self, address: int, length: int, time: float, state: list[float] | None = None) -> bytes:
        """Register bytes as they are at `time` (s); fewer past the end of the table.

        Args:
            address: The first one's.
            length: How many.
            time: s.
            state: Row of the state array at that time; the present one when not given.
        """
        end = address + length
        if address < _PRESENT_STOP and end > _PRESENT_START:
            self._refresh(time, state, all_=end > _MOVING)
        return bytes(self.table.data[address:end])

    def show(self, address: int, length: int, present: bytes) -> bytes | None:
        """What `peek` would return, from registers 36..43 as `present` works them out; None where it takes more."""
        end = address + length
        if self.special or not _PRESENT_START < end <= _PLAIN_STOP:
            return None
        data = self.table.data
        data[_PRESENT_START:_PLAIN_STOP] = present
        return present if address == _PRESENT_START and end == _PLAIN_STOP else bytes(data[address:end])

    def _bulk_read(self, params: bytes, time: float) -> Status | None:
        """``00, (length, id, address) …``: each answers after the one listed before it."""
        listed = [params[i : i + 3] for i in range(1, len(params) - 2, 3)]
        for place, (length, id_, address) in enumerate(listed):
            if id_ == self.id:
                status = self._read(bytes((address, length)), time)
                return status and status._replace(turn=tuple(block[1] for block in listed[:place]))
        return None

    def _execute(self, code: int, params: bytes, time: float, broadcast: bool) -> int | None:
        """Carry out an instruction that is answered without data; return its error bits, None for silence."""
        if code not in self._known or code in {Instruction.SYNC_WRITE, Instruction.BULK_READ}:
            return _INSTRUCTION
        if code == Instruction.WRITE:
            return self._write(params[0], params[1:], time) if len(params) > 1 else self._short
        if code == Instruction.REG_WRITE:
            return self._register(params)
        if code == Instruction.ACTION:
            return self._action(time)
        if broadcast:
            return None  # neither reset nor reboot is for everyone at once
        if code == Instruction.REBOOT:
            self.power_cycle(time)
            self.deafness, self.deaf_until = self.profile.timing.boot_ms * 1e-3, time
            return 0
        return self._factory_reset(time)

    @property
    def _short(self) -> int:
        return _INSTRUCTION if self.profile.behaviour.short_instruction == "reply_0x40" else _RANGE

    def _register(self, params: bytes) -> int | None:
        if len(params) < 2:
            return self._short
        error, values = self._checked(params[0], params[1:])
        if values is not None:
            self._registered = (params[0], params[1:])
            self.table["registered_instruction"] = 1
        return error

    def _action(self, time: float) -> int:
        if self._registered is None:
            return _INSTRUCTION
        (address, data), self._registered = self._registered, None
        self.table["registered_instruction"] = 0
        self._write(address, data, time)
        return 0

    def _factory_reset(self, time: float) -> int | None:
        if self.profile.behaviour.reset_0x06 == "ignore":
            return None
        self.table.factory_reset()
        self.power_cycle(time)
        self.deafness, self.deaf_until = EEPROM_END * self.profile.timing.eeprom_deaf_us_per_byte * 1e-6, time
        return 0
