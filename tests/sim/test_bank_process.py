import os
import time
from contextlib import closing

import numpy as np
import pytest

from axbridge.errors import AxBridgeError
from axbridge.servo.columns import Command, State
from axbridge.sim.bank_process import RemoteBank
from axbridge.virtual.world import World
from tests.support.virtual_rig import FakeBank, make_rig
from tests.support.waiting import raise_priority

pytestmark = [pytest.mark.slow, pytest.mark.real_time]


class Breaking(FakeBank):
    def __init__(self, message="the arm flew away"):
        super().__init__()
        self.message = message

    def advance(self, until):
        super().advance(until)
        if self.time > 0.1:
            raise ValueError(self.message)


def run(bank, seconds):
    start = time.monotonic()
    while (now := time.monotonic() - start) < seconds:
        bank.advance(now)
        time.sleep(0.005)


def test_the_motors_move_with_the_wall_clock_and_follow_commands():
    bank = RemoteBank(FakeBank(2))
    world = World(make_rig(ids=(1, 2)), bank=bank)
    servo = world.servos["s2"]
    servo.table["torque_enable"] = 1
    servo.table["goal_position"] = 700
    servo.push(0.0)
    bank.supply[:] = 5.0
    run(bank, 0.6)
    assert bank.state[0, State.VOLTAGE] == 5.0  # the supply is shared
    assert bank.state[1, State.ANGLE] == pytest.approx((700 - 512) * 0.00511826, abs=0.05)
    assert bank.state[0, State.ANGLE] == 0
    world.close()
    world.close()


@pytest.mark.parametrize("length", [17, 500, 512, 4084, 4096, 100_000])  # bytes; the message has at most 4096
def test_the_error_of_the_child_process_is_raised(length):
    bank = RemoteBank(Breaking("the arm flew away".ljust(length, "€")))
    with pytest.raises(AxBridgeError, match="ValueError: the arm flew away") as caught:
        run(bank, 2.0)
    assert len(caught.value.message) > min(length, 1300)
    bank.close()


class SlowBank(FakeBank):
    """Applies a command when its clock reaches the command's time; a command with a punch delays it once."""

    def __init__(self, delay):
        super().__init__()
        self.delay, self.due, self.stall = delay, [], False

    def set_command(self, index, row, when):
        self.due.append((when, row[Command.GOAL]))
        self.stall = self.stall or row[Command.PUNCH] > 0

    def sampled(self, rows, times):
        return self.state[rows]

    def advance(self, until):
        if self.stall:
            self.stall = False
            time.sleep(self.delay)
        self.time = max(self.time, until)
        for when, goal in [entry for entry in self.due if entry[0] <= self.time]:
            self.state[0, State.ANGLE] = goal
            self.due.remove((when, goal))


def row(goal, punch=0.0):
    values = [0.0] * len(Command)
    values[Command.GOAL], values[Command.PUNCH] = goal, punch
    return values


@pytest.mark.parametrize("delay", [0.4, 1.4])  # s; it catches up after the first, not after the second
def test_commands_act_at_once_after_the_simulation_was_delayed(delay):
    with closing(RemoteBank(SlowBank(delay))) as bank:
        start, behind = time.monotonic(), []
        bank.advance(0.0)
        bank.set_command(0, row(0.1, punch=1.0), 0.0)
        while (now := time.monotonic() - start) < delay + 0.4:
            bank.advance(now)
            behind.append(bank.behind)
            time.sleep(0.005)
        assert max(behind) > min(delay, 1.0) - 0.1
        assert behind[-1] < 0.2
        sent = time.monotonic()
        bank.set_command(0, row(0.5), sent - start)
        while bank.state[0, State.ANGLE] != 0.5:
            bank.advance(time.monotonic() - start)
            time.sleep(0.005)
            assert time.monotonic() - sent < 0.3, "the command was delayed by the lost time"


class Clockwork(FakeBank):
    """A shaft whose angle is the time. Commands act after 20 ms. Each advance takes 3 ms."""

    def __init__(self):
        super().__init__()
        self.foresight = 0.02

    def sampled(self, rows, times):
        assert max(times) <= self.time + 1e-9, "a state after the bank's time does not exist"
        states = np.zeros((len(rows), len(State)))
        states[:, State.ANGLE], states[:, State.SPEED] = times, 1.0
        return states

    def advance(self, until):
        self.time = max(self.time, until)
        time.sleep(0.003)


def test_a_read_returns_the_state_at_its_own_time_and_not_at_the_last_wake_up(monkeypatch):
    monkeypatch.setattr(os, "nice", lambda _: raise_priority())  # so that a busy computer does not delay the child
    with closing(RemoteBank(Clockwork())) as bank:
        start, late = time.monotonic(), []
        while (now := time.monotonic() - start) < 0.5:
            bank.advance(now)
            if now > 0.1:
                late.append(now - bank.sampled(np.array([0]), [now])[0, State.ANGLE])
            time.sleep(0.0007)
        assert np.median(np.abs(late)) < 1e-6
        # A busy computer delays the child now and then, but there are 30 reads in a row of which none is late.
        assert min(np.abs(late[first : first + 30]).max() for first in range(len(late) - 30)) < 1e-6
