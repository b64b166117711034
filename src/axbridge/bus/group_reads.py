"""Several servos of Protocol 2.0 asked at once, by sync read or fast sync read: a bus that can take many answers.

If one servo does not answer, those behind it stay silent, too: whoever did not answer is asked alone afterwards.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

from axbridge.bus.base import Bus, Reply
from axbridge.bus.protocols import v2
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.protocols.protocol import PROTOCOLS
from axbridge.config.instructions import Instruction
from axbridge.config.registers import ADDRESSES
from axbridge.errors import BusTimeout, CorruptPacket

SHORTEST_BLOCK = 16  # bytes of a servo's part of an answer to all: each waits for its own return delay
_FAST_LOOKS = 2  # before a servo is taken for one that does not know the fast sync read


class GroupReadingBus(Bus):
    """A line that hears several answers to one question. A subclass fills in `_gather`, beside `Bus._transfer`.

    Attributes:
        fast: Whether a servo of Protocol 2.0 knows the fast sync read, by id; asked once, when it is first of use.
    """

    @cached_property
    def fast(self) -> dict[int, bool]:
        """See the class."""
        return {}

    @abstractmethod
    def _gather(self, frame: bytes, answers: int, size: int) -> tuple[bytes, float]:
        """Send `frame`; what is heard until as many status packets of Protocol 2.0 came, or their time is over.

        Args:
            frame: The question.
            answers: Status packets.
            size: Bytes of all of them, at most.

        Returns:
            What was heard, and when the servos had the question.

        Raises:
            PortError: the line is gone.
        """

    def _same_room(self, ids: Sequence[int], address: int, length: int) -> tuple[int, int] | None:  # noqa: ARG002
        """From where on, and how many bytes, to ask all of `ids` for, so that no older answer fits; None: not now."""
        return address, length

    def _note_answers(self, heard: Iterable[int], missing: Iterable[int], count: int) -> None:
        """Servos have answered with `count` parameter bytes, or should have. A fast read is answered by id 254."""

    def _read_together(self, requests: Sequence[tuple[int, int, int]]) -> dict[int, Reply]:
        """Answers by place among the requests, of those servos of Protocol 2.0 that could be asked in one question."""
        groups: dict[tuple[int, int], dict[int, int]] = {}  # places by id, by what is asked for
        for place, (id_, address, length) in enumerate(requests):
            if id_ in self.second:
                groups.setdefault((address, length), {}).setdefault(id_, place)
        answers: dict[int, Reply] = {}
        for (address, length), places in groups.items():
            if len(places) > 1:
                fast = [id_ for id_ in places if self.knows_fast(id_)]
                slow = [id_ for id_ in places if self.fast.get(id_) is False]
                for ids, code in ((fast, Instruction.FAST_SYNC_READ), (slow, Instruction.SYNC_READ)):
                    if len(ids) > 1:
                        found = self._read_group(code, ids, address, length)
                        answers.update({places[id_]: reply for id_, reply in found.items()})
        return answers

    def knows_fast(self, id: int) -> bool:
        """Whether a servo of Protocol 2.0 knows the fast sync read. If it does not answer at all, that stays open.

        Raises:
            PortError: the line is gone.
        """
        if id not in self.fast:
            code, place = Instruction.FAST_SYNC_READ, ADDRESSES[2].ID
            if any(self._read_group(code, [id], place, 1) for _ in range(_FAST_LOOKS)):
                self.fast[id] = True
            else:
                try:
                    self._ping_once(id)
                except (BusTimeout, CorruptPacket):
                    return False
                self.fast[id] = False
        return self.fast[id]

    def _read_group(self, code: int, ids: Sequence[int], address: int, length: int) -> dict[int, Reply]:
        """One sync read or fast sync read; the answers that came, by id."""
        room = self._same_room(ids, address, length)
        if room is None:
            return {}
        first, count = room
        frame = v2.encode(BROADCAST, code, v2.sync_read_params(first, count, ids))
        skipped, fast = address - first, code == Instruction.FAST_SYNC_READ
        size = PROTOCOLS[2].longest(len(ids) * (count + 4)) if fast else len(ids) * PROTOCOLS[2].longest(count)
        heard, sampled = self._gather(frame, 1 if fast else len(ids), size)
        found: dict[int, Reply] = {}
        for packet in v2.Decoder().feed(heard):
            if fast and packet.status and packet.id == BROADCAST:
                blocks = v2.fast_blocks(packet, [count] * len(ids))
                if [block.id for block in blocks] != list(ids[: len(blocks)]):
                    continue
                for block in blocks:
                    found[block.id] = Reply(block.error, block.data[skipped : skipped + length], sampled)
            elif not fast and packet.status and packet.intact and packet.id in ids and len(packet.params) == count:
                found[packet.id] = Reply(packet.code, packet.params[skipped : skipped + length], sampled)
        missing = [id_ for id_ in ids if id_ not in found]
        if fast:
            self._note_answers(found, [BROADCAST] if missing else (), len(ids) * (count + 4))
        else:
            self._note_answers(found, missing, count)
        return found
