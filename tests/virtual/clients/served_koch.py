"""`axbridge serve koch` with a hand at the arm: python served_koch.py FILE.

Prints `ready: PORT`, and serves until its standard input ends. The hand moves what has no torque, and does what the file
says: `middle`: it holds each joint in the middle; `sweep`: it moves each nearly from end to end and back; else nothing.
"""

import math
import select
import sys
from pathlib import Path

import numpy as np

from axbridge.config.rig import Rig
from axbridge.servo.columns import Command
from axbridge.sim.bank_process import RemoteBank
from axbridge.virtual.assembly import build_bank
from axbridge.virtual.channel import PtyChannel
from axbridge.virtual.server import serve
from axbridge.virtual.world import World

PERIOD, GRIP = 2.0, 0.01  # s from the middle to both ends and back, and between two moves of the hand


class Held:
    """A bank with a hand at its joints; see `axbridge.sim.bank.Bank`."""

    def __init__(self, bank, file):
        self._bank, self._file = bank, file
        self.state, self.supply, self.foresight, self.time = bank.state, bank.supply, bank.foresight, 0.0
        self.set_command, self.set_goal, self.sampled = bank.set_command, bank.set_goal, bank.sampled
        self.close, self._next = bank.close, 0.0
        low, high = np.array(bank.engine.limits).T
        self._middle, self._reach = 0.5 * (low + high), 0.45 * (high - low)

    def advance(self, until):
        while self.time < until:
            self.time = min(until, self.time + GRIP)
            task = self._file.read_text()
            if task in {"middle", "sweep"}:
                share = math.sin(2 * math.pi * self.time / PERIOD) if task == "sweep" else 0.0
                for row in np.flatnonzero(self._bank.command[:, Command.TORQUE] == 0.0):
                    self._bank.place(row, self._middle[row] + share * self._reach[row])
            self._bank.advance(self.time)


rig = Rig.load("koch")
world = World(rig, bank=RemoteBank(Held(build_bank(rig), Path(sys.argv[1]))))
channel = PtyChannel(1_000_000)
try:
    serve(
        world,
        {"main": channel},
        lambda: bool(select.select((0,), (), (), 0)[0]),
        lambda: print("ready:", channel.address, flush=True),
    )
finally:
    channel.close()
    world.close()
