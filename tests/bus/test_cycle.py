import time

import pytest

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.protocols.known import PROTOCOLS, SECOND
from axbridge.bus.protocols.protocol import FIRST
from axbridge.bus.rows import decoded, replaced
from axbridge.bus.serial import SerialBus
from axbridge.bus.stats import wire_time
from axbridge.config import toml_tables
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import BusTimeout, HardwareError
from axbridge.virtual.bus import VirtualBus
from tests.support.pty_line import PtyLine
from tests.support.virtual_rig import make_world

SERVOS = [CycleServo("hip", 1), CycleServo("knee", 2), CycleServo("ankle", 3)]
X = {"protocol": SECOND, "goal_range": (0, 4095)}


@pytest.fixture
def cycle(bus):
    bus.latency = 0.1
    return Cycle(bus, SERVOS)


@pytest.fixture
def mixed():
    with PtyLine({1: "xl330-m288", 2: "xl430-w250", 3: "ax-12a"}) as line, SerialBus(line.port) as bus:
        for id_ in (1, 2, 3):
            line.set(id_, torque_enable=1)
        bus.latency = 0.1
        yield line, Cycle(bus, [CycleServo("wrist", 1, **X), CycleServo("elbow", 2, **X), CycleServo("head", 3)])


@pytest.mark.parametrize("name", toml_tables.shipped_names("firmware_profiles"))
def test_a_sampled_position_has_the_sign_of_its_register(name):
    profile = FirmwareProfile.load(name)
    protocol, register = PROTOCOLS[profile.protocol], profile.register("present_position")
    place, length = protocol.usual
    for value in {register.minimum, -1, 0, 1, register.maximum}:
        if register.minimum <= value <= register.maximum:
            sample = bytes(register.address - place) + register.encode(value)
            assert decoded(protocol, sample.ljust(length, b"\0"), "position").tolist() == [value]
            other = bytes(range(length))
            changed = replaced(protocol, other, "position", value)
            assert decoded(protocol, changed, "position").tolist() == [value]
            assert decoded(protocol, changed, "load") == decoded(protocol, other, "load")


def test_a_position_corrected_after_torque_on_stays_while_the_servo_does_not_answer():
    world = make_world((1, 2), "xl430-w250")
    cycle = Cycle(VirtualBus(world), [CycleServo("hip", 1, **X), CycleServo("knee", 2, **X)])
    cycle.receive()
    cycle.place("hip", -5000)
    world.inject("dead:1")
    assert [cycle.receive().rows["position"].tolist() for _ in range(2)] == [[-5000, 2048]] * 2


def test_each_servo_gets_goals_and_gives_samples_in_its_own_registers(mixed):
    line, cycle = mixed
    line.set(1, present_position=3000, present_velocity=-7)
    line.set(3, present_position=400)
    result = cycle.exchange({"wrist": Goal(2100, 50), "elbow": Goal(9999, 0, 442), "head": Goal(512, 100)})
    assert result.faults == {}
    positions = {name: state.position for name, state in result.states.items()}
    assert positions == {"wrist": 3000, "elbow": 2048, "head": 400}
    wrist = result.states["wrist"]
    assert (wrist.speed, wrist.voltage, wrist.temperature, wrist.torque_limit) == (-7, 50, 43, None)
    assert (line[1].table["goal_position"], line[1].table["profile_velocity"]) == (2100, 50)
    assert (line[2].table["goal_position"], line[2].table["goal_pwm"]) == (4095, 442)
    assert (line[3].table["goal_position"], line[3].table["moving_speed"]) == (512, 100)


def test_goals_beyond_a_limit_are_clipped_and_a_servo_without_a_goal_gets_no_torque(line):
    with SerialBus(line.port) as bus:
        cycle = Cycle(bus, [CycleServo("hip", 1, goal_range=(300, 700), top_speed=100, top_torque=500), *SERVOS[1:]])
        cycle.exchange({"hip": Goal(5, 0, 1023)})  # speed 0 would mean maximum speed
    words = [int.from_bytes(line.tables[1][at : at + 2], "little") for at in (30, 32, 34)]
    assert words == [300, 100, 500]
    assert (line.tables[1][24], line.tables[2][24]) == (1, 0)


def test_a_missing_servo_does_not_delay_the_others_and_gets_no_goals_until_it_returns(line, cycle):
    line.deaf.add(2)
    events = []
    for _ in range(20):
        result = cycle.exchange({"knee": Goal(900, 0)})
        events += result.events
        assert set(result.states) == {"hip", "ankle"}
        assert isinstance(result.faults["knee"], BusTimeout)
    assert [event.kind for event in events] == ["missing"]
    reads = [packet[0] for packet in line.received].count(2)
    assert reads < 10  # after two losses it is read only after pauses, which grow
    line.deaf.clear()
    cycle.send({"knee": Goal(900, 0)})
    cycle.bus.ping(1)
    assert line.tables[2][24] == 0
    deadline = time.monotonic() + 10.0
    while "knee" not in (result := cycle.receive()).states:
        assert time.monotonic() < deadline
    assert [event.kind for event in result.events] == ["returned"]


def test_the_torque_limit_rotates_through_the_servos(line, cycle):
    line.tables[2][34:36] = b"\0\0"  # an overload shutdown
    for _ in range(3):
        result = cycle.receive()
    assert [state.torque_limit for state in result.states.values()] == [1023, 0, 1023]


def test_a_soft_start_raises_the_torque_limit_or_the_duty_limit_of_an_x_servo_in_steps(mixed):
    line, cycle = mixed
    cycle.soften(["wrist", "head"], 0.3)
    limits = []
    while not limits or limits[-1] < (885, 1023):
        cycle.exchange({"wrist": Goal(2048, 0), "head": Goal(501, 0)})
        limits.append((line[1].table["goal_pwm"], line[3].table["torque_limit"]))
    assert limits[0] < (300, 300)
    assert limits == sorted(limits)


def test_a_cap_neither_exceeds_the_servos_own_limit_nor_drives_a_duty_backwards(mixed):
    line, cycle = mixed
    cycle.narrow("head", 700)
    duty = Goal(0, -600, register=SECOND.torque_limit)
    for cap, held in ((900, (-600, 700)), (300, (-300, 300))):
        cycle.exchange({"wrist": duty, "head": Goal(501, 0, 1023)})
        for name in ("wrist", "head"):
            cycle.cap(name, cap)
        cycle.receive()  # the packets have arrived
        assert (line[1].table["goal_pwm"], line[3].table["torque_limit"]) == (-600, held[1])
        cycle.exchange({"wrist": duty})
        assert line[1].table["goal_pwm"] == held[0]
    assert cycle.final_limits == {(3, FIRST.torque_limit): FIRST.word(700)}


def test_an_x_servo_that_shuts_down_is_reported_once_and_gets_no_goals(mixed):
    line, cycle = mixed
    line[1].overload(0.0)
    goals = {"wrist": Goal(2100, 50), "elbow": Goal(2000, 0), "head": Goal(512, 100)}
    events = [event for _ in range(3) for event in cycle.exchange(goals).events]
    assert [(event.kind, event.name, event.flags) for event in events] == [("fault", "wrist", HardwareError.OVERLOAD)]
    assert cycle.withheld == {"wrist"}
    line[1].table["goal_position"] = 7
    assert cycle.exchange(goals).states["wrist"].error == HardwareError.OVERLOAD
    assert line[1].table["goal_position"] == 7


def test_the_wire_time_is_the_time_of_all_bytes():
    assert 1 / wire_time([FIRST] * 18) == pytest.approx(187, abs=1)
    goals, request, reply = 14 + 6 * 9, 14 + 6, 8 + 6 * (1 + 1 + 23 + 2)
    assert wire_time([SECOND] * 6) == pytest.approx((goals + request + reply) * 10e-6 + 22e-6)
