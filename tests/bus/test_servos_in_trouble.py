import math

import pytest

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.protocols.known import SECOND, STS
from axbridge.bus.protocols.protocol import FIRST
from axbridge.config.registers import FeetechAddress
from axbridge.errors import FeetechError
from axbridge.servo.columns import State
from axbridge.virtual.bus import VirtualBus
from tests.support.virtual_rig import make_world


class Loop:
    """A 50 Hz loop in simulated time that sends one goal to servo 1 and another to servo 2."""

    def __init__(self, profile="ax-12a"):
        self.x = profile.startswith("xl")
        known = {"xl330-m288": SECOND, "sts3215": STS}.get(profile)
        self.world = make_world((1, 2), profile, **({} if known else {"shutdown": 36}))
        kind = {"protocol": known, "goal_range": (0, 4095)} if known else {}
        servos = [CycleServo("hip", 1, **kind), CycleServo("knee", 2, **kind)]
        self.cycle = Cycle(VirtualBus(self.world), servos, soft_start=0.1)
        self.goals = {"hip": 2136, "knee": 1936} if self.x else {"hip": 600, "knee": 400}
        self.full = self.limit = FIRST.full_torque if known is None else known.full_torque
        self.torque_limit = "goal_pwm" if self.x else "torque_limit"
        self.events = []
        for servo in servos:
            self.cycle.bus.write(servo.id, servo.protocol.torque_enable, b"\1")

    def run(self, steps):
        limits = {"hip": self.limit, "knee": self.full}
        for _ in range(steps):
            result = self.cycle.exchange({name: Goal(goal, 0, limits[name]) for name, goal in self.goals.items()})
            self.events += [(event.kind, event.name) for event in result.events]
            for name in tuple(self.cycle.unpowered):
                if self.x:  # a goal switches the torque of an AX-12 on
                    self.cycle.bus.write(1 + list(self.goals).index(name), SECOND.torque_enable, b"\1")
                self.cycle.revived(name)
            self.world.sleep_until(self.world.now() + 0.02)

    def hip(self, name):
        return self.world.servos["s1"].table[name]

    def limp(self):
        return not (self.hip(self.torque_limit) and self.hip("torque_enable"))


def lose_some_packets(loop):
    loop.world.inject("drop=1")
    loop.run(3)
    loop.world.inject("none")


def change_its_limit(loop):
    for loop.limit in range(300, 800, 20):  # the last value is 780
        loop.run(1)


def lose_the_port(loop):
    loop.world.inject("unplug:50ms")
    loop.run(3)


def take_its_power(loop):
    loop.world.inject("drop=1")
    loop.run(3)
    loop.world.power_cycle()
    loop.world.inject("none")


@pytest.mark.parametrize("profile", ["ax-12a", "ax-12"])  # a shutdown sets Torque Limit to 0, or Torque Enable
@pytest.mark.parametrize("mishap", [lose_some_packets, change_its_limit, lose_the_port, take_its_power])
@pytest.mark.slow
def test_only_recover_ends_the_shutdown_of_a_servo(profile, mishap):
    loop = Loop(profile)
    loop.run(10)
    loop.world.inject("overload:1")
    loop.run(3)
    assert ("fault", "hip") in loop.events
    mishap(loop)
    for _ in range(100):
        loop.run(1)
        assert loop.limp() or mishap is take_its_power
    assert loop.cycle.receive().states["knee"].position == pytest.approx(loop.goals["knee"], abs=3)  # not affected
    assert not loop.hip("torque_enable") or mishap is not take_its_power
    loop.cycle.recover("hip")
    loop.run(1)
    assert 0 < loop.hip("torque_limit") < 300
    loop.run(100)
    assert loop.hip(loop.torque_limit) == loop.limit
    assert loop.hip("present_position") == pytest.approx(loop.goals["hip"], abs=3)


@pytest.mark.parametrize("mode", [0, 1, 2])  # position, velocity, duty
def test_a_servo_that_shut_down_by_overcurrent_gets_no_goal_until_recover(mode):
    world = make_world(profile="sts3215", operating_mode=mode, overcurrent_time=20)
    servo, bank = world.servos["s1"], world.bank
    cycle = Cycle(VirtualBus(world), [CycleServo("grip", 1, protocol=STS, goal_range=(0, 4095), top_torque=1000)])
    goal = Goal(3000, 500, register=(0, FeetechAddress.GOAL_VELOCITY, FeetechAddress.GOAL_TIME)[mode])
    events = []

    def run(steps):
        for _ in range(steps):
            events.extend(cycle.exchange({"grip": goal}).events)
            world.sleep_until(world.now() + 0.02)

    cycle.bus.write(1, STS.torque_enable, b"\1")
    run(10)
    bank.state[0, State.CURRENT] = 2.5
    run(30)
    bank.state[0, State.CURRENT] = 0.0
    run(100)
    assert [(event.kind, event.flags) for event in events] == [("fault", FeetechError.OVERCURRENT)]
    status = servo.profile.registers["status"].address
    assert (cycle.withheld, servo.table["torque_enable"]) == ({"grip"}, 0)
    assert cycle.bus.read(1, status, 1).data == b"\x08"
    for value in b"\0", b"\1":
        cycle.bus.write(1, STS.torque_enable, value)
    cycle.recover("grip")
    run(10)
    assert (cycle.withheld, servo.table["torque_enable"]) == (set(), 1)
    assert cycle.bus.read(1, status, 1).data == b"\0"


@pytest.mark.parametrize("profile", ["ax-12a", "xl330-m288"])
@pytest.mark.parametrize(("missed", "soft"), [(4, False), (60, True)])  # steps of 20 ms
def test_a_servo_whose_replies_were_lost_briefly_continues_at_full_torque(missed, soft, profile):
    loop = Loop(profile)
    loop.cycle.soft_start = 0.5
    loop.run(10)
    loop.world.inject("drop=1")
    loop.run(missed)
    loop.world.inject("none")
    while ("returned", "hip") not in loop.events:
        loop.run(1)
    limits = []
    for _ in range(5):
        loop.run(1)
        limits.append(loop.hip(loop.torque_limit))
    assert (min(limits) < loop.limit) == soft
    assert loop.events.count(("missing", "hip")) == 1


@pytest.mark.parametrize("why", ["overload", "heat"])
def test_a_servo_that_shut_down_while_missing_or_returns_too_hot_stays_limp(why):
    loop = Loop()
    loop.run(10)
    loop.world.inject("drop=1")
    loop.run(3)
    if why == "heat":
        loop.world.power_cycle()
    else:
        loop.world.servos["s1"].overload(loop.world.now())
        loop.world.servos["s1"].alarms.reset()  # only the torque limit of 0 remains
    loop.world.inject("none" if why == "overload" else "none,overheat:1")
    loop.events.clear()
    loop.run(50)
    if why == "heat":
        assert not loop.hip("torque_enable")
    else:
        assert loop.limp()
        assert loop.events.index(("returned", "hip")) < loop.events.index(("fault", "hip"))


@pytest.mark.parametrize("lost", range(1, 7))  # the last of these packets ends the rise
@pytest.mark.parametrize("profile", ["ax-12a", "xl330-m288", "sts3215"])
def test_a_soft_start_ends_at_the_full_limit_although_one_of_its_packets_was_lost(profile, lost):
    loop = Loop(profile)
    loop.run(5)
    loop.cycle.soften(["hip", "knee"], 0.1)
    loop.run(lost - 1)
    loop.world.inject("drop#1:write")
    loop.run(100)
    assert loop.hip(loop.torque_limit) == loop.full


@pytest.mark.parametrize("profile", ["ax-12a", "xl330-m288", "sts3215"])
def test_a_torque_limit_of_another_program_stays(profile):
    loop = Loop(profile)
    loop.run(100)
    loop.cycle.bus.write(1, loop.cycle.servos[0].protocol.torque_limit, (300).to_bytes(2, "little"))
    loop.run(100)
    assert loop.hip(loop.torque_limit) == 300


def test_a_torque_limit_of_0_that_the_program_wrote_is_no_shutdown():
    loop = Loop()
    loop.limit = 0
    loop.run(10)
    lose_some_packets(loop)
    loop.run(50)
    assert loop.hip("torque_limit") == 0
    assert ("fault", "hip") not in loop.events
    loop.limit = 500
    loop.world.inject("drop=1")
    loop.run(1)  # the packet that raises it again is lost
    loop.world.inject("none")
    loop.run(10)
    assert loop.hip("torque_limit") == 500


def test_servos_that_lost_power_while_the_program_was_paused_are_read_before_a_goal():
    loop = Loop()
    loop.run(60)
    exchange = loop.cycle.bus.exchange

    def paused(writes, reads):  # all servos lose power after the first reply
        first = exchange(writes, reads[:1])[1]
        loop.world.inject("brownout:100ms")
        loop.world.sleep_until(loop.world.now() + 0.8)
        for answer in exchange((), reads[1:])[1].singly():
            first.add(answer)
        return -math.inf, first

    loop.cycle.bus.exchange = paused
    loop.run(1)
    loop.cycle.bus.exchange = exchange
    assert {name for kind, name in loop.events if kind == "without power"} == {"hip", "knee"}
    assert loop.limp()


def test_a_soft_start_requested_during_the_reads_starts_all_servos_together():
    ids = range(1, 7)
    cycle = Cycle(VirtualBus(make_world(ids, "ax-12a")), [CycleServo(f"s{id_}", id_) for id_ in ids])
    exchange, goals, sent = cycle.bus.exchange, {f"s{id_}": Goal(512, 100) for id_ in ids}, []

    def counted(writes, reads):
        writes = [(address, dict(data)) for address, data in writes]
        sent.append(sum(len(data) for address, data in writes if address == FIRST.goal))
        return exchange(writes, reads)

    def restarting(writes, reads):
        answer = counted(writes, reads)
        if reads:
            cycle.restart_softly()
            cycle.bus.exchange = counted
        return answer

    for _ in range(60):
        cycle.exchange(goals)
    for id_ in ids:  # so that the reply with the torque limit is examined
        cycle.bus.write(id_, FIRST.torque_limit, (1000).to_bytes(2, "little"))
    cycle.bus.exchange = restarting
    for _ in range(8):
        cycle.exchange(goals)
    assert sent[4] == 6  # all servos in one cycle, not first the examined one
