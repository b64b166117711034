"""How long servos take to answer: interrupts that delay answers, and reads whose times are known in advance.

Without these plans a controller's step on 18 servos takes 1.3 times as long (`benchmarks/plant_cost.py`, `without`).
"""

from __future__ import annotations

import random
from typing import NamedTuple

from axbridge.virtual.servo import VirtualServo


class Interrupts:
    """The motor-control interrupt of one servo: its phase is free, its period a little off."""

    def __init__(self, servo: VirtualServo, rng: random.Random) -> None:
        timing = servo.profile.timing
        self._length = timing.isr_length_us * 1e-6
        self._period = timing.isr_period_us * 1e-6 * rng.uniform(0.995, 1.005)
        self._phase = rng.uniform(0, self._period)

    def hold_up(self, start: float, duration: float, byte: float) -> tuple[float, float]:
        """Start and duration of a status packet once the interrupt has had its share of both."""
        if not self._length:
            return start, duration
        into = (start - self._phase) % self._period
        if into < self._length:
            start += self._length - into
            into = self._length
        if into + duration > self._period:  # it strikes inside the packet: the transmitter has two bytes in store
            duration += max(self._length - 2 * byte, 0.0)
        return start, duration


class PlainRead(NamedTuple):
    """A READ that only its servo's deafness can stop; the plan holds until a servo changes.

    Attributes:
        servo: Who is asked.
        address: The first register.
        length: How many bytes.
        delay: From the question's end to the answer's first start bit, without interruptions, s.
        byte: Time of one byte of the answer, s.
        duration: Of the answer without interruptions, s.
        interrupts: Of the servo.
    """

    servo: VirtualServo
    address: int
    length: int
    delay: float
    byte: float
    duration: float
    interrupts: Interrupts


class Forecast(NamedTuple):
    """READs that follow one another, before they are carried out.

    Attributes:
        reads: What is asked of whom.
        sent: When each question has been heard, s; the servo takes its sample then.
        due: When each answer has arrived, s.
    """

    reads: list[PlainRead]
    sent: list[float]
    due: list[float]
