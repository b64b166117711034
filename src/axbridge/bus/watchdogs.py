"""Bus Watchdogs: a servo with this register stops when no packet has come for the watchdog's period.

By the e-manual the torque stays on. A servo in a position mode holds its position; in other modes it is not driven.
Goals are refused until 0 is written to the watchdog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from axbridge.bus.base import Bus, Reply

PERIOD = 0.5  # s: several times the delay of a thread on a busy computer
_COUNTS = bytes((round(PERIOD / 0.02),))
_OFF, _EXPIRED = b"\0", b"\xff"


class Watchdogs:
    """The watchdogs of the servos of one bus."""

    def __init__(self, bus: Bus) -> None:
        self.wanted = False  # whether the watchdogs of servos that get goals are armed
        self.armed: frozenset[int] = frozenset()  # ids whose watchdog was confirmed as armed
        self.maybe_armed: frozenset[int] = frozenset()  # ids whose watchdog may be armed
        self._bus = bus
        self._reset: set[int] = set()  # ids of armed watchdogs that were read as off
        self._fed_at = 0.0  # time of the latest packet, s on the bus's clock
        self._doubt = False

    def arm(self, ids: Collection[int]) -> None:
        """Arm the watchdogs of `ids` that are not in `armed`; writing 0 first resets an expired one.

        One that is not confirmed stays out of `armed`, so the next call arms it again.
        """
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

    def mark_unarmed(self, ids: Iterable[int]) -> None:
        """Note that these may have lost power or expired: they are armed again with their next goals."""
        self.armed -= set(ids)
        self._reset -= set(ids)

    def was_reset(self, id: int) -> bool:
        """Return whether an armed watchdog is off now: its servo has lost power since."""
        return id in self._reset or (id in self.armed and self._read([id]) == [(id, _OFF)])

    def note_answer(self) -> None:
        """Note that a packet was just sent, which feeds all watchdogs."""
        if self.armed:
            now = self._bus.clock.now()
            self._doubt = self._doubt or now - self._fed_at > PERIOD / 2
            self._fed_at = now

    @property
    def feed_due(self) -> bool:
        """Return whether the watchdogs need a packet soon."""
        return bool(self.armed) and self._bus.clock.now() - self._fed_at > PERIOD / 4

    @property
    def doubtful(self) -> bool:
        """Return whether the line was silent for so long that a watchdog may have expired."""
        return bool(self.armed) and (self._doubt or self._bus.clock.now() - self._fed_at > PERIOD / 2)

    def poll(self) -> list[int]:
        """Read all armed watchdogs, which feeds them; return the ids of those that have expired."""
        values = self._read(sorted(self.armed))
        self._doubt, self._fed_at = False, self._bus.clock.now()
        off = {id_ for id_, value in values if value == _OFF}
        self.armed -= off
        self._reset |= off
        return [id_ for id_, value in values if value == _EXPIRED]

    def _read(self, ids: Collection[int]) -> list[tuple[int, bytes]]:
        answers = self._bus.read_many([(id_, self._bus.protocol(id_).watchdog or 0, 1) for id_ in ids])
        return [(id_, answer.data) for id_, answer in zip(ids, answers, strict=True) if isinstance(answer, Reply)]
