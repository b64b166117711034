from functools import partial
from itertools import product
from random import Random

import numpy as np
import pytest

from axbridge.bus.base import Bus, Reply
from axbridge.servo.columns import State
from axbridge.virtual.bus import VirtualBus
from axbridge.virtual.sensors import Counters
from axbridge.virtual.world import World
from tests.support.virtual_rig import make_rig, make_world

IDS = (1, 2, 3, 4, 5, 6, 7)


class PacketBus(VirtualBus):
    """Sends a packet for every read; each servo computes its own goals, readings and alarms."""

    def __init__(self, world):
        super().__init__(world)
        for servo in world.servos.values():
            servo.firmware.follow = servo.firmware.alarm_limits = lambda *_: None
            servo.push(world.now())

    def _read_next(self, requests, answers):
        Bus._read_next(self, requests, answers)


def comparable(answers):
    return [a if isinstance(a, Reply) else (type(a), a.args) for a in answers]


def history(kind, world, rounds=18, disturb=None):
    """Return data of host, servos and line in some rounds of goals and reads, and the number of goals set together."""
    bus, protocol, followed = kind(world), world.servos["s1"].protocol, 0
    bus.sync_write(protocol.torque_enable, dict.fromkeys(IDS, b"\1"))
    seen = []
    for turn in range(rounds):
        if disturb is not None:
            disturb(world, bus, turn)
        goals = {id_: protocol.goal_bytes((id_ * 97 + turn * 31) % 1024, 64 * (turn % 3)) for id_ in IDS}
        bus.sync_write(protocol.goal, goals)
        followed += sum(servo.goal is not None for servo in world.servos.values())
        world.sleep_until(world.now() + 0.004 * (turn % 3))
        spans = [protocol.with_limit if turn % len(IDS) == id_ - 1 else protocol.usual for id_ in IDS]
        requests = [(id_, *span) for id_, span in zip(IDS, spans, strict=True)]
        seen.append((comparable(bus.read_many(requests)), world.now(), world.bank.command.tolist()))
        seen.append([bytes(servo.table.data) for servo in world.servos.values()])
    line = world.lines["main"]
    return (seen, line.host_free, line.packets, world.next_watch), followed


def disturb(world, bus, turn):
    """Write other registers than goals."""
    writes = {
        3: (1, 16, b"\0"),  # no replies
        5: (1, 16, b"\1"),  # replies to reads
        7: (2, 4, b"\x22"),  # another baud rate: unreachable
        9: (3, 3, b"\x2a"),  # another id: unreachable
        11: (4, 6, bytes(4)),  # wheel mode
        13: (5, 24, b"\0"),
        15: (6, 5, b"\x10"),
    }
    if turn in writes:
        bus.write(*writes[turn], answered=False)
    bus.read_many([(1, 0, 50), (2, 49, 4), (9, 36, 8), (3, 36, 8), (3, 36, 0), (4, 40, 10), (5, 36, 8)])


UNUSUAL = ((1, "profile_acceleration", 20), (2, "bus_watchdog", 1), (3, "goal_time", 500), (4, "torque_enable", 0),
           (1, "profile_acceleration", 0), (5, "torque_limit", 300), (6, "goal_velocity", 30), (4, "lock", 0),
           (4, "max_position_limit", 700), (4, "ccw_angle_limit", 700), (4, "drive_mode", 4), (4, "torque_enable", 1),
           (7, "torque_enable", 0), (7, "operating_mode", 1), (7, "torque_enable", 1))  # fmt: skip


def unsettle(world, bus, turn):
    """Write registers that change what a goal does, one servo in each round."""
    registers = world.servos["s1"].profile.registers
    unusual = [write for write in UNUSUAL if write[1] in registers]
    if 2 <= turn < 2 + len(unusual):
        id_, name, value = unusual[turn - 2]
        bus.write(id_, registers[name].address, registers[name].encode(value), answered=False)
    world.sleep_until(world.now() + 0.025 * (turn % 3))


def faulty(spec):
    world = make_world(IDS, seed=5)
    world.inject(spec)
    return world


def slow():
    """Return a line at 9600 bit/s, on which one round takes 0.15 s."""
    world = World(make_rig(IDS).with_model("ax12"), seed=2)
    world.lines["main"].baud = 2e6 / 208
    for servo in world.servos.values():
        servo.write(4, b"\xcf", world.now())
    return world


FAULTS = ("drop=0.1,corrupt=0.1", "echo", "overload:3@0.05", "dead:2@0.06", "stuck:4@0.03", "brownout:0.05s@0.03",
          "overheat:5:0.05s@0.02", "collision:6@0.04")  # fmt: skip


@pytest.mark.parametrize(
    ("make", "disturb"),
    [
        *(
            pytest.param(partial(make_world, IDS, *kind, seed=3, return_delay_time=delay), None, id=f"{kind}, {delay}")
            for kind in product(("ax-12a", "mx-28"), ("wire", "none"))
            for delay in (0, 250)
        ),
        *(
            pytest.param(partial(make_world, IDS, kind, seed=3), unsettle, id=kind)
            for kind in ("ax-12a", "mx-28", "scs0009", "sts3215", "mx-28-2.0", "xl430-w250")
        ),
        *(pytest.param(partial(faulty, spec), None, id=spec) for spec in FAULTS),
        *(
            pytest.param(lambda model=model: World(make_rig(IDS).with_model(model), seed=2), None, id=model)
            for model in ("lima2009", "ax12")
        ),
        pytest.param(partial(make_world, IDS, seed=7), disturb, id="while registers change"),
        pytest.param(slow, None, id="slow"),
    ],
)
def test_a_host_gets_the_same_bytes_at_the_same_times(make, disturb):
    (ahead, followed), (packets, alone) = (history(kind, make(), disturb=disturb) for kind in (VirtualBus, PacketBus))
    assert ahead == packets
    assert followed > len(IDS)
    assert alone == 0


@pytest.mark.parametrize("profile", ["ax-12a", "mx-28", "xl430-w250", "sts3215", "scs0009"])
@pytest.mark.parametrize("driven", [True, False])
def test_many_servos_report_any_state_as_single_servos_do(profile, driven):
    random = Random(profile)
    world = make_world(range(1, 41), profile, seed=1)
    servos = list(world.servos.values())
    span = servos[0].protocol.usual
    for servo in servos:
        servo.write(servo.protocol.torque_enable, bytes((driven,)), 0.0)
    for width in (0.1, 0.4, 1.0, 12.0):
        states = np.array([[random.gauss(0.0, width) for _ in State] for _ in servos])
        states[::2, [State.VOLTAGE, State.TEMPERATURE]] += 12.0
        counts = Counters().count([servo.sensors for servo in servos], states)
        together = [servo.peek(*span, 0.0, *row) for servo, *row in zip(servos, states, counts, strict=True)]
        tables = [bytes(servo.table.data) for servo in servos]
        assert together == [servo.peek(*span, 0.0, row) for servo, row in zip(servos, states.tolist(), strict=True)]
        assert tables == [bytes(servo.table.data) for servo in servos]
