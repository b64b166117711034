"""A hand that holds a served robot upright until its motors do: a bus has nobody else to do it.

A robot that nobody holds lies on the floor long before a client comes. So a robot with a free base stays where the
rig puts it while all its servos are limp. When the first motor is on, the hand puts the robot on its soles and lets
go.
"""

from __future__ import annotations

from axbridge.config.rig import Rig
from axbridge.servo.columns import Command
from axbridge.sim.bank import ServoBank
from axbridge.sim.support import Hand


def held(bank: ServoBank, rig: Rig) -> ServoBank:
    """The bank of a rig, with a hand where its robot could fall."""
    if bank.engine.base() is None:
        return bank
    hand = Hand(rig, bank.engine)
    on: float | None = None  # since when a motor is on, s

    def hold_or_let_go() -> None:
        nonlocal on
        if not bank.command[:, Command.TORQUE].any():
            on = None
        elif on is None:
            on = bank.time
        hand.holds(0.0 if on is None else bank.time - on)

    bank.before = hold_or_let_go
    return bank
