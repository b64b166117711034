"""A hand that holds a served robot upright until its motors do: a bus has nobody else to do it.

A robot that nobody holds lies on the floor long before a client comes. So a robot with a free base stays where the
rig puts it while all its servos are limp. When the first motor is on, the hand puts the robot on its soles and lets
go.
"""

from __future__ import annotations

from collections.abc import Sequence

from axbridge.arrays import FloatArray, IntArray
from axbridge.config.rig import Rig
from axbridge.servo.columns import Command
from axbridge.sim.bank import ServoBank
from axbridge.sim.hand import Hand

__all__ = ["HeldBank", "held"]


class HeldBank:
    """A bank whose robot a hand holds while it is limp; see `Bank`.

    Args:
        bank: Its engine has a free base.
        hand: What holds it.

    Attributes:
        state, supply, foresight: The bank's.
    """

    def __init__(self, bank: ServoBank, hand: Hand) -> None:
        self._bank, self._hand = bank, hand
        self.state: FloatArray = bank.state
        self.supply: FloatArray = bank.supply
        self.foresight = bank.foresight
        self._on: float | None = None  # since when a motor is on, s

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return self._bank.time

    @time.setter
    def time(self, value: float) -> None:
        self._bank.time = value

    def set_command(self, index: int, row: list[float], time: float) -> None:
        """See `ServoBank.set_command`."""
        self._bank.set_command(index, row, time)

    def set_goal(self, index: int, goal: float, speed: float, time: float) -> None:
        """See `ServoBank.set_goal`."""
        self._bank.set_goal(index, goal, speed, time)

    def sampled(self, rows: IntArray, times: Sequence[float]) -> FloatArray:
        """See `ServoBank.sampled`."""
        return self._bank.sampled(rows, times)

    def advance(self, until: float) -> None:
        """See `ServoBank.advance`; the hand holds or lets go."""
        bank = self._bank
        if not bank.command[:, Command.TORQUE].any():
            self._on = None
        elif self._on is None:
            self._on = bank.time
        self._hand.holds(0.0 if self._on is None else bank.time - self._on)
        bank.advance(until)

    def close(self) -> None:
        """Release the engine."""
        self._bank.close()


def held(bank: ServoBank, rig: Rig) -> ServoBank | HeldBank:
    """The bank of a rig, with a hand where its robot could fall."""
    return bank if bank.engine.base() is None else HeldBank(bank, Hand(rig, bank.engine))
