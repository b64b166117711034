"""Motors in a process of their own."""

import time

import pytest

from axbridge.errors import AxBridgeError
from axbridge.firmware.bank import State
from axbridge.firmware.remote import RemoteBank
from axbridge.firmware.world import World
from fakebank import FakeBank
from virtualrig import make_rig


class Breaking(FakeBank):
    def advance(self, until):
        super().advance(until)
        if self.time > 0.1:
            raise ValueError("the arm flew away")


def run(bank, seconds):
    start = time.monotonic()
    while (now := time.monotonic() - start) < seconds:
        bank.advance(now)
        time.sleep(0.005)


def test_it_moves_with_the_wall_clock_and_takes_commands():
    bank = RemoteBank(FakeBank(2))
    world = World(make_rig(ids=(1, 2)), bank=bank)
    servo = world.servos["s2"]
    servo.table["torque_enable"] = 1
    servo.table["goal_position"] = 700
    servo._push(0.0)
    run(bank, 0.6)
    assert bank.state[1, State.ANGLE] == pytest.approx((700 - 512) * 0.00511826, abs=0.05)
    assert bank.state[0, State.ANGLE] == 0
    world.close()
    world.close()


def test_its_supply_is_shared():
    bank = RemoteBank(FakeBank(1))
    bank.supply[:] = 5.0
    run(bank, 0.1)
    assert bank.state[0, State.VOLTAGE] == 5.0
    bank.close()


def test_a_simulation_that_breaks_down_says_why():
    bank = RemoteBank(Breaking(1))
    with pytest.raises(AxBridgeError, match="the arm flew away"):
        run(bank, 2.0)
    bank.close()
