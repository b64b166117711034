"""Bus Watchdogs: servos that have one stop when no packet has come for a while.

By the e-manual the torque stays on. A servo in a position mode holds, others get no drive; goals are refused until 0 is
written to the watchdog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from axbridge.bus.base import Bus, Reply

PERIOD = 0.5  # s: some times what a busy computer keeps a thread waiting
_COUNTS = bytes((round(PERIOD / 0.02),))
_OFF, _EXPIRED = b"\0", b"\xff"


class Watchdogs:
    """The watchdogs of the servos of one bus."""

    def __init__(self, bus: Bus) -> None:
        self.wanted = False  # whether servos that get goals are to be armed
        self.armed: frozenset[int] = frozenset()  # ids, as far as is known
        self.maybe_armed: frozenset[int] = frozenset()  # ids of those that may be
        self._bus = bus
        self._reset: set[int] = set()  # found off although they were armed
        self._fed_at = 0.0
        self._doubt = False

    def arm(self, ids: Collection[int]) -> None:
        """Arm those that are not, also where one has expired; what does not confirm it is armed the next time."""
        new = [id_ for id_ in ids if id_ not in self.armed and self._bus.protocol(id_).watchdog is not None]
        if not new:
            return
        if not self.armed:
            self._fed_at = self._bus.clock.now()
        self.maybe_armed |= set(new)
        for value in (_OFF, _COUNTS):
            for protocol, here in self._bus.by_protocol(new).items():
                self._bus.sync_write(protocol.watchdog or 0, dict.fromkeys(here, value))
        self.armed |= {id_ for id_, value in self._read(new) if value == _COUNTS}

    def forget(self, ids: Iterable[int]) -> None:
        """These may have been without power, or have expired: they are armed with their next goals."""
        self.armed -= set(ids)
        self._reset -= set(ids)

    def was_reset(self, id: int) -> bool:
        """Whether this one was armed, and is not any more: it has lost its power since."""
        return id in self._reset or (id in self.armed and self._read([id]) == [(id, _OFF)])

    def note_answer(self) -> None:
        """Note that a packet has just gone to all servos."""
        if self.armed:
            now = self._bus.clock.now()
            self._doubt = self._doubt or now - self._fed_at > PERIOD / 2
            self._fed_at = now

    @property
    def feed_due(self) -> bool:
        """Whether they need a packet soon."""
        return bool(self.armed) and self._bus.clock.now() - self._fed_at > PERIOD / 4

    @property
    def doubtful(self) -> bool:
        """Whether the line was silent for so long that one may have expired."""
        return bool(self.armed) and (self._doubt or self._bus.clock.now() - self._fed_at > PERIOD / 2)

    def poll(self) -> list[int]:
        """Ask all that are armed, which feeds them; the ids of those that have expired."""
        values = self._read(sorted(self.armed))
        self._doubt, self._fed_at = False, self._bus.clock.now()
        off = {id_ for id_, value in values if value == _OFF}
        self.armed -= off
        self._reset |= off
        return [id_ for id_, value in values if value == _EXPIRED]

    def _read(self, ids: Collection[int]) -> list[tuple[int, bytes]]:
        answers = self._bus.read_many([(id_, self._bus.protocol(id_).watchdog or 0, 1) for id_ in ids])
        return [(id_, answer.data) for id_, answer in zip(ids, answers, strict=True) if isinstance(answer, Reply)]
