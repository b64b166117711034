"""Several servos asked at once, by one question of their protocol: a bus that can take many answers.

If one servo does not answer, those behind it stay silent, too: each that did not answer is asked alone afterwards.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

from axbridge.bus.base import Bus, Reply
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.protocols.protocol import Protocol
from axbridge.config.instructions import Instruction
from axbridge.errors import BusTimeout, CorruptPacket

SHORTEST_BLOCK = 16  # bytes of a servo's part of an answer to all: each waits for its own return delay
_LOOKS = 2  # before a servo is taken for one that does not know a question


class GroupReadingBus(Bus):
    """A line that hears several answers to one question. A subclass fills in `_gather`, beside `Bus._transfer`."""

    @cached_property
    def group_codes(self) -> dict[int, int | None]:
        """The best of `Protocol.group_reads` that a servo knows, by id; None: none. Asked when it is first of use."""
        return {}

    @abstractmethod
    def _gather(self, protocol: Protocol, frame: bytes, answers: int, size: int) -> tuple[bytes, float]:
        """Send `frame`; what is heard until as many status packets came, or their time is over."""

    def _same_room(self, _: Protocol, __: Sequence[int], address: int, length: int) -> tuple[int, int] | None:
        """From where on, and how many bytes, to ask these servos for, so that no older answer fits; None: not now."""
        return address, length

    def _note_answers(self, heard: Iterable[int], missing: Iterable[int], count: int) -> None:
        """Servos have answered with `count` parameter bytes, or should have. A shared answer is that of id 254."""

    def _read_together(self, requests: Sequence[tuple[int, int, int]]) -> dict[int, Reply]:
        """Answers by place among the requests, of those servos that could be asked in one question."""
        groups: dict[tuple[Protocol, int, int], dict[int, int]] = {}  # places by id, by what is asked for
        for place, (id_, address, length) in enumerate(requests):
            protocol = self.protocol(id_)
            if protocol.group_reads:
                groups.setdefault((protocol, address, length), {}).setdefault(id_, place)
        answers: dict[int, Reply] = {}
        for (protocol, address, length), places in groups.items():
            if len(places) > 1:
                codes = {id_: self._group_code(id_) for id_ in places}
                for code in protocol.group_reads:
                    ids = [id_ for id_ in places if codes[id_] == code]
                    if len(ids) > 1:
                        found = self._read_group(code, ids, address, length)
                        answers.update({places[id_]: reply for id_, reply in found.items()})
        return answers

    def knows_best(self, id: int) -> bool:
        """Whether a servo knows the best question of its protocol to several; open as long as it does not answer."""
        return self._group_code(id) in self.protocol(id).group_reads[:1]

    def _group_code(self, id: int) -> int | None:
        """By which question it is asked with others; None: alone."""
        if id not in self.group_codes:
            protocol = self.protocol(id)
            best, *others = protocol.group_reads
            if any(self._read_group(best, [id], protocol.id_place, 1) for _ in range(_LOOKS)):
                self.group_codes[id] = best
            else:
                try:
                    self._ping_once(id)
                except (BusTimeout, CorruptPacket):
                    return None
                self.group_codes[id] = others[0] if others else None
        return self.group_codes[id]

    def _read_group(self, code: int, ids: Sequence[int], address: int, length: int) -> dict[int, Reply]:
        """One question to several; the answers that came, by id."""
        protocol = self.protocol(ids[0])
        room = self._same_room(protocol, ids, address, length)
        if room is None:
            return {}
        first, count = room
        frame, number, size = protocol.group_question(code, ids, first, count)
        skipped = address - first
        shared = code == Instruction.FAST_SYNC_READ
        debt = ([BROADCAST], len(ids) * (count + 4)) if shared else (ids, count)
        try:
            heard, sampled = self._gather(protocol, frame, number, size)
        except BaseException:
            self._note_answers((), *debt)
            raise
        found = {
            id_: Reply(error, data[skipped : skipped + length], sampled)
            for id_, (error, data) in protocol.group_answers(code, heard, ids, count).items()
        }
        missing = [id_ for id_ in ids if id_ not in found]
        self._note_answers(found, debt[0] if shared and missing else missing, debt[1])
        return found
