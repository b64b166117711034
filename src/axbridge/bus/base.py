"""The narrow waist: register bytes to and from servos by id, whatever the line is made of.

A bus turns calls into Protocol 1.0 frames and replies into bytes or typed errors; what moves the frames is the one
method a subclass fills in, `_transfer`. A packet may get lost on any line: `ping`, `read` and `write` ask again, a
write after a look whether it has arrived; what a control cycle asks (`read_many`) is asked once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import NamedTuple, TypeVar

from typing_extensions import Self

from axbridge.bus.turn import Turn
from axbridge.clock import Clock
from axbridge.errors import BusError, BusTimeout, CorruptPacket
from axbridge.packets import BROADCAST, Instruction, Packet, encode, sync_write_params

__all__ = ["Bus", "Reply"]

B = TypeVar("B", bound="Bus")


class Reply(NamedTuple):
    """A servo's answer.

    Attributes:
        error: Error byte (`axbridge.errors.ErrorFlag`); 0 = none. Not raised here: a flag must not stop a robot.
        data: Register bytes; empty for anything but a READ.
        time: When the servo took the sample, s on the bus's clock (the end of the instruction packet).
    """

    error: int
    data: bytes
    time: float


class Bus(ABC):
    """A half-duplex line with servos on it.

    Attributes:
        clock: The time of `Reply.time`.
        baud: Bits per second.
        silent: Ids whose status return level silences the answer to a write; `axbridge.bus.handshake` fills it.
    """

    clock: Clock
    baud: int
    silent: frozenset[int] = frozenset()

    @cached_property
    def turn(self) -> Turn:
        """Who is in a transaction; taken for several in a row, it keeps other threads off the line meanwhile."""
        return Turn()

    @abstractmethod
    def _transfer(self, frame: bytes, id: int, length: int | None) -> tuple[Packet | None, float]:
        """Send `frame`; wait for the status packet of `id` with `length` parameter bytes, unless `length` is None.

        Returns the packet (None when none was asked for) and the time the servo had the frame. An error byte with fewer
        parameters than asked is a valid reply.

        Raises:
            BusTimeout: no complete reply in time.
            CorruptPacket: bytes, but no reply of that servo with that length and a right checksum.
            PortError: the line is gone.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the line; further calls raise `PortError`. May be called twice."""

    def ping(self, id: int) -> Reply:
        """Ask whether servo `id` (0..253) is there.

        Raises:
            BusTimeout, CorruptPacket, PortError: as `_transfer`.
        """
        return self._ask(encode(id, Instruction.PING), id, 0)

    def read(self, id: int, address: int, length: int) -> Reply:
        """Read `length` bytes from `address` of servo `id`.

        A reply without data and with an error byte (a refused read) is returned as it is.

        Raises:
            BusTimeout, CorruptPacket, PortError: as `_transfer`.
        """
        return self._ask(encode(id, Instruction.READ, bytes((address, length))), id, length)

    def read_many(self, requests: Sequence[tuple[int, int, int]]) -> list[Reply | BusError]:
        """Read once each of `(id, address, length)`, in order; a servo that fails is an error in its place.

        Raises:
            PortError: the line is gone.
        """
        answers: list[Reply | BusError] = []
        for id_, address, length in requests:
            try:
                answers.append(self.read(id_, address, length))
            except (BusTimeout, CorruptPacket) as error:
                answers.append(error)
        return answers

    def read_each(self, requests: Sequence[tuple[int, int, int]]) -> Generator[Reply | BusError, None, None]:
        """`read_many`, one after the other: where a line allows it, a servo speaks while the caller looks at others.

        Raises:
            PortError: the line is gone.
        """
        yield from self.read_many(requests)

    def reopen(self) -> None:  # noqa: B027  # most lines have nothing to do
        """Open a lost line again; nothing to do where a line cannot be lost.

        Raises:
            PortError: it is still away.
        """

    def write(self, id: int, address: int, data: bytes, *, answered: bool = True) -> Reply | None:
        """Write `data` at `address` of servo `id` (254 = all, never answered).

        Args:
            id: Servo.
            address: First register address.
            data: Bytes, little-endian registers.
            answered: False when the servo's status return level silences writes.

        Raises:
            BusTimeout, CorruptPacket, PortError: as `_transfer`.
        """
        return self._tell(id, Instruction.WRITE, bytes((address,)) + data, answered)

    def reg_write(self, id: int, address: int, data: bytes, *, answered: bool = True) -> Reply | None:
        """Write that waits for `action`."""
        return self._tell(id, Instruction.REG_WRITE, bytes((address,)) + data, answered)

    def action(self, id: int = BROADCAST, *, answered: bool = True) -> Reply | None:
        """Execute the waiting writes, all at the same moment when broadcast."""
        return self._tell(id, Instruction.ACTION, b"", answered)

    def instruct(self, id: int, code: int, params: bytes = b"", *, answered: bool = True) -> Reply | None:
        """Send any other instruction that is answered without data (factory reset, reboot)."""
        return self._tell(id, code, params, answered)

    def sync_write(self, address: int, data: Mapping[int, bytes]) -> None:
        """Write equally long `data` per id in one packet; never answered.

        Raises:
            UsageError: no data, or data of different lengths.
            PortError: the line is gone.
        """
        self._transfer(encode(BROADCAST, Instruction.SYNC_WRITE, sync_write_params(address, data)), BROADCAST, None)

    def _ask(self, frame: bytes, id: int, length: int) -> Reply:
        packet, time = self._transfer(frame, id, length)
        assert packet is not None  # a length was given
        return Reply(packet.code, packet.params, time)

    def _tell(self, id: int, code: int, params: bytes, answered: bool) -> Reply | None:
        frame = encode(id, code, params)
        if answered and id != BROADCAST and id not in self.silent:
            return self._ask(frame, id, 0)
        self._transfer(frame, id, None)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
