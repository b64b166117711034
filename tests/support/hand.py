"""A served bus with a hand that leads limp shafts, as standard input says: `hand RIG [FAULTS [MODEL]]`.

A robot's free base is held in the air. Without a model, shafts have no load.

- `lead`: limp shafts go 0.8 rad up within 1.2 s, half the way back within 0.8 s.
- `1 -0.5`, `all 0`: the second joint, or all, are turned there, rad, where they are limp; then it says `there`.
- `seen`: says `there` once a client has read every servo; `stall 1`: blocks the second shaft until the end.
- `stop`: the process stands still until SIGCONT, and no servo answers; `pause 2`: for 2 s.
- `register led`: prints that register of every servo, as it is in the servo; -1: it has none.
- `mark`: says `there`; from then on `moved` prints how far the first motor has gone down and up, rad.
- `power-cycle`, or a fault as of `axbridge serve`: says `there` when it has happened.
"""

import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from axbridge import minimum_jerk
from axbridge.config.rig import Rig
from axbridge.servo.columns import Command, State
from axbridge.sim.bank_process import RemoteBank
from axbridge.virtual.assembly import build_bank
from axbridge.virtual.channel import PtyChannel
from axbridge.virtual.server import serve
from axbridge.virtual.world import World
from tests.support.virtual_rig import FakeBank
from tests.support.warm import Warm, start

UP, BACK = 1.2, 0.8  # s
HIGH, LEFT = 0.8, 0.4  # rad above the first angle
QUICK = 6.0  # rad/s, of a shaft that is turned
LOST = "missing: waiting until all answer"  # a verb's line when a servo does not answer
NEAR = 0.004  # rad between a joint and the angle it is led to


def lead(passed):
    """How far the hand has led a shaft, rad, `passed` s after the start."""
    up, back = minimum_jerk.eased(passed / UP), minimum_jerk.eased((passed - UP) / BACK)
    return HIGH * up - (HIGH - LEFT) * back


class HandledBank:
    """Joints, each held where it was led to while its motor is off; by shared memory, as the bank may live elsewhere."""

    def __init__(self, bank, directions):
        self._bank = bank
        self.directions = directions
        shared = np.frombuffer(mmap.mmap(-1, 6 * len(directions) * 8), dtype=np.float64).reshape(6, len(directions))
        self.goals, self.left, self.known = shared[:3]  # rad; NaN: free; how far it is still to those known
        self.marked, self.lowest, self.highest = shared[3:]  # rad, of joints; NaN: to be marked
        self.goals[:] = self.known[:] = np.nan

    def __getattr__(self, name):
        return getattr(self._bank, name)

    def advance(self, until):
        for moment in np.arange(self._bank.time + 0.005, until, 0.005):  # a late process lets nothing fall meanwhile
            self._advance(float(moment))
        self._advance(until)

    def _advance(self, until):
        bank = self._bank
        on = bank.command[:, Command.TORQUE] > 0
        self.goals[on] = np.nan  # the motor moves it now
        goals = self.goals.copy()  # other threads write there at any time
        for row in np.flatnonzero(~np.isnan(goals)):
            here = bank.state[row, State.ANGLE]
            left = self.directions[row] * goals[row] - here
            if abs(left) > NEAR / 2:
                most = QUICK * max(until - bank.time, 0.0)
                bank.place(row, here + float(np.clip(left, -most, most)))
        self.left[:] = self.directions * goals - bank.state[:, State.ANGLE]
        self.known[:] = goals
        bank.advance(until)
        here = self.directions * bank.state[:, State.ANGLE]
        driven = np.where(bank.command[:, Command.TORQUE] > 0, here, np.nan)  # what falls moves by itself
        self.lowest[:], self.highest[:] = np.fmin(self.lowest, driven), np.fmax(self.highest, driven)
        self.marked[:] = np.where(np.isnan(self.marked), here, self.marked)

    def mark(self):
        """Measure motion from here."""
        self.lowest[:] = self.highest[:] = self.marked[:] = np.nan
        while np.isnan(self.marked).any():
            time.sleep(0.002)
        print("there", flush=True)

    def turn(self, goals):
        """Lead joints to angles, by row; says `there` when all are."""
        rows, wanted = list(goals), list(goals.values())
        self.known[rows] = np.nan
        self.goals[rows] = wanted
        while not (np.isnan(self.goals[rows]) | (self.known[rows] == wanted) & (np.abs(self.left[rows]) <= NEAR)).all():
            time.sleep(0.002)
        print("there", flush=True)

    def lead(self):
        """Lead every shaft that is limp now, whatever its joint's direction, as `lead` says."""
        limp = np.flatnonzero(self._bank.command[:, Command.TORQUE] == 0)  # the others stay when they become limp, too
        directions, since = self.directions[limp], time.monotonic()
        angles = directions * self._bank.state[limp, State.ANGLE]
        while (passed := time.monotonic() - since) < UP + BACK + 0.1:
            self.goals[limp] = angles + directions * lead(passed)
            time.sleep(0.002)


def main(name, faults="none", model=""):
    rig = Rig.load(name)
    directions = [servo.direction for servo in rig.servos]
    if model:
        if rig.world is not None:
            rig = rig.overridden({"world": {"fixed_base": True, "ground": False}})
        hand = HandledBank(build_bank(rig.with_model(model if model != "own" else None)), np.array(directions))
        bank = RemoteBank(hand)
    else:
        volts = np.array([rig.specs[servo.name].supply for servo in rig.servos])  # an XL330 bears 7 V at most
        bank = hand = HandledBank(FakeBank(len(directions), volts), np.array(directions))
    channel = PtyChannel(1_000_000, None)

    def listen():
        for line in sys.stdin:
            word, *more = line.split()
            if word == "lead":
                threading.Thread(target=hand.lead, daemon=True).start()
            elif word == "seen":
                wanted, end = served.packets + 4 * len(world.servos), time.monotonic() + 60.0
                while served.packets < wanted and time.monotonic() < end:
                    time.sleep(0.002)
                print("there" if served.packets >= wanted else "no client", flush=True)
            elif word == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            elif word == "pause":
                subprocess.Popen(["sh", "-c", f"sleep {float(more[0])}; kill -CONT {os.getpid()}"])
                os.kill(os.getpid(), signal.SIGSTOP)
            elif word == "register":
                tables = (servo.table for servo in world.servos.values())
                print(*(table.get(more[0], -1) for table in tables), flush=True)
            elif word == "stall":
                bank.stall[int(more[0])] = True
                print("there", flush=True)
            elif word == "mark":
                hand.mark()
            elif word == "moved":
                ways = np.nan_to_num([hand.lowest[0], hand.highest[0]] - hand.marked[0])
                print(*ways.tolist(), flush=True)
            elif word == "power-cycle":
                struck.append(world.power_cycle)
            elif word[0].isalpha() and word != "all":
                struck.append(partial(world.inject, line.strip()))
            elif word == "all":
                hand.turn(dict.fromkeys(range(len(directions)), float(more[0])))
            else:
                hand.turn({int(word): float(more[0])})

    struck = deque()

    def strike():
        while struck:
            struck.popleft()()
            print("there", flush=True)

    world = World(rig, bank=bank, faults=faults)
    served = world.lines["main"]
    threading.Thread(target=listen, daemon=True).start()
    serve(world, {"main": channel}, strike, lambda: print(f"ready: {channel.address}", flush=True))


@contextmanager
def led(rig, *options):
    """Serve in a process of its own; yields the port, and a function that sends the hand a line and returns its answer."""
    root = Path(__file__).parents[2]
    with Warm("-m", "tests.support.hand", rig, *options, cwd=root, stderr=None) as server:

        def tell(what="lead"):
            server.stdin.write(f"{what}\n")
            server.stdin.flush()
            if what in {"lead", "stop"} or what.startswith("pause"):
                return None
            said = server.stdout.readline().split()
            if what.startswith("register"):
                return [int(value) for value in said]
            if what == "moved":
                return [float(value) for value in said]
            assert said == ["there"]
            return None

        try:
            yield server.stdout.readline().split()[1], tell
        finally:
            server.kill()


class Typist:
    """A verb of the program with a person at its keyboard."""

    def __init__(self, *arguments):
        self.process, self.said = start(*arguments), ""
        self._patience = threading.Timer(180, self.process.kill)  # a test that fails must not wait for ever
        self._patience.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._patience.cancel()
        self.process.kill()
        with self.process:  # closes its pipes
            pass

    def until(self, words, press=""):
        """Wait until it has printed this, then press these keys."""
        while words not in (line := self.process.stdout.readline()):
            self.said += line
            assert line, self.said + self.process.stderr.read()
            assert LOST not in line, self.said  # a busy computer: the verb repeats the joint, and waits
        self.said += line
        self.press(press)

    def press(self, key):
        self.process.stdin.write(key)
        self.process.stdin.flush()

    def end(self):
        """Its exit code, and its output on both streams."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, self.said + out, err


if __name__ == "__main__":
    main(*sys.argv[1:])
