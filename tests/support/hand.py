"""A served bus of AX-12 with a hand that leads every limp shaft, when it is told to.

`python -m tests.support.hand RIG` serves on a pseudo-terminal, as `axbridge serve` does; each line on standard input
makes the hand lead the shafts whose motors are limp then: 0.8 rad up within 1.2 s, half the way back within 0.8 s. A
line such as `1 -0.5` makes it turn the second shaft, if that is limp, to -0.5 rad; it says `there` when it has. Told
to `stop`, the whole process stands still, and no servo answers, until it gets SIGCONT.
`register led` asks for that register of every servo, as it is in the servo, and `stall 1` takes hold of the second
shaft, whatever its motor does.
"""

import os
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from axbridge.config.rig import Rig
from axbridge.control import minimum_jerk
from axbridge.physics.columns import Command, State
from axbridge.serve.pty import PtyChannel
from axbridge.serve.server import serve
from axbridge.virtual.world import World
from tests.support.fake_bank import FakeBank
from tests.support.warm import Warm

UP, BACK = 1.2, 0.8  # s
HIGH, LEFT = 0.8, 0.4  # rad above where it took hold
QUICK = 6.0  # rad/s, of a shaft that is turned


def lead(passed):
    """How far the hand has led a shaft, rad, `passed` s after it took hold."""
    up, back = minimum_jerk.way(passed / UP), minimum_jerk.way((passed - UP) / BACK)
    return HIGH * up - (HIGH - LEFT) * back


class LedBank(FakeBank):
    """Shafts that a hand leads."""

    def __init__(self, directions):
        super().__init__(len(directions))
        self.directions = directions  # a bank's angles are the servos'; a hand turns joints
        self.told = False
        self.since = None
        self.held = {}  # angle by row, when the hand took hold
        self.goals = {}  # angle by row, where the hand turns it to

    def _step(self, h):
        super()._step(h)
        if self.told:
            self.told, self.since = False, self.time
            limp = np.flatnonzero(self.command[:, Command.TORQUE] == 0)
            self.held = {row: self.state[row, State.ANGLE] for row in limp}
        for row, angle in self.held.items():
            if self.command[row, Command.TORQUE] == 0:
                self.state[row, [State.ANGLE, State.READING]] = angle + lead(self.time - self.since)
        for row, goal in list(self.goals.items()):
            if self.command[row, Command.TORQUE] == 0:
                left = self.directions[row] * goal - self.state[row, State.ANGLE]
                self.state[row, [State.ANGLE, State.READING]] += np.clip(left, -QUICK * h, QUICK * h)
                if abs(left) < QUICK * h:
                    del self.goals[row]
                    print("there", flush=True)


def main(name):
    rig = Rig.load(name)
    bank = LedBank([servo.direction for servo in rig.servos])
    channel = PtyChannel(1_000_000, None)

    def listen():
        for line in sys.stdin:
            word, *more = line.split()
            if word == "lead":
                bank.told = True
            elif word == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            elif word == "register":
                print(*(servo.table[more[0]] for servo in world.servos.values()), flush=True)
            elif word == "stall":
                bank.stall[int(more[0])] = True
                print("there", flush=True)
            else:
                bank.goals[int(word)] = float(more[0])

    world = World(rig, bank=bank)
    threading.Thread(target=listen, daemon=True).start()
    serve(world, {"main": channel}, lambda: False, lambda: print(f"ready: {channel.address}", flush=True))


@contextmanager
def led(rig):
    """Serve in a process of its own.

    Yields the port, and a function that tells the hand `"lead"`, `"ROW ANGLE"` or `"stall ROW"`, or asks it for
    `"register NAME"`: a list of the values in the servos.
    """
    root = Path(__file__).parents[2]
    with Warm("-m", "tests.support.hand", rig, cwd=root, stderr=None) as server:

        def tell(what="lead"):
            server.stdin.write(f"{what}\n")
            server.stdin.flush()
            if what in {"lead", "stop"}:
                return None
            said = server.stdout.readline().split()
            if what.startswith("register"):
                return [int(value) for value in said]
            assert said == ["there"]
            return None

        try:
            yield server.stdout.readline().split()[1], tell
        finally:
            server.kill()


if __name__ == "__main__":
    main(sys.argv[1])
