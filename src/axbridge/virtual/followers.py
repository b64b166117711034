"""Servos that do nothing with a new goal but follow it: one SYNC_WRITE is carried out a column at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from axbridge.bus.protocols.packet import Packet
from axbridge.servo.columns import State
from axbridge.virtual.servo import VirtualServo


class Followers:
    """Those of a line; they are chosen anew when one of its servos got a whole command since the latest packet."""

    def __init__(self) -> None:
        self._key: object = None
        self._own: list[VirtualServo] = []
        self._others: Sequence[VirtualServo] = ()
        self._latest: list[bytes] = []

    def obey(self, servos: Sequence[VirtualServo], packet: Packet, time: float) -> Sequence[VirtualServo]:
        """Carry out a SYNC_WRITE that these servos hear at `time` (s); returns those that are to do it themselves."""
        found = servos[0].protocol.blocks(packet)
        assert found is not None  # of a SYNC_WRITE
        ((address, blocks),) = found
        key = servos, [servo.commands for servo in servos], address, list(blocks), len(packet.params)
        if key != self._key:
            self._key = key
            self._choose(servos, address, blocks)
        if not self._own:
            return servos
        data = [blocks[servo.id] for servo in self._own]
        words = np.frombuffer(b"".join(data), "<u2").reshape(-1, 2)
        if np.count_nonzero((words < self._low) | (words > self._high)):
            return servos  # each finds out itself whether it refuses or clips
        for servo, block in zip(self._own, data, strict=True):
            servo.firmware.take_goal(block, time)
        if data != self._latest:  # else the motors have these goals already, or will have them first
            self._latest = data
            motors, (middle, zero, position, speed) = self._own[0].motors, self._scales
            turns = np.rint((motors.state[self._rows, State.READING] - middle) / math.tau) * math.tau
            goals = np.empty(words.shape)
            goals[:, 0] = (words[:, 0] - zero) * position + turns
            goals[:, 1] = words[:, 1] * speed
            motors.set_goals(self._rows, goals, time)
        return self._others

    def _choose(self, servos: Sequence[VirtualServo], address: int, blocks: Mapping[int, bytes]) -> None:
        """Part servos into those that follow and the others."""
        found = {servo: servo.following(address, len(blocks[servo.id])) for servo in servos if servo.id in blocks}
        kinds = [(servo, kind) for servo, kind in found.items() if kind and servo.motors is servos[0].motors]
        self._own, self._latest = [servo for servo, _ in kinds], []
        self._others = [servo for servo in servos if servo not in dict(kinds)]
        self._rows = np.array([servo.row for servo in self._own], dtype=np.int64)
        if kinds:
            self._low, self._high, *self._scales = map(np.array, zip(*(kind for _, kind in kinds), strict=True))
