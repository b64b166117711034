import pytest

from axbridge.bus.cycle import Cycle, CycleServo, Goal
from axbridge.bus.protocols.known import SECOND
from axbridge.bus.watchdogs import PERIOD
from axbridge.config.registers import XAddress
from axbridge.config.rig import Rig
from axbridge.robot.safety.policies import disarm, hold, limp
from axbridge.virtual.bus import VirtualBus
from axbridge.virtual.world import World

pytestmark = pytest.mark.slow
GOALS = {name: Goal(2048, 50) for name in ("lift", "gripper")}


@pytest.fixture
def world():
    made = World(Rig.load("koch"))
    yield made
    made.close()


@pytest.fixture
def cycle(world):
    made = Cycle(
        VirtualBus(world),
        [CycleServo("lift", 2, (0, 4095), protocol=SECOND), CycleServo("gripper", 6, (0, 4095), protocol=SECOND)],
    )
    made.watchdogs.wanted = True
    for id_ in (2, 6):
        made.bus.write(id_, XAddress.TORQUE_ENABLE, b"\1")
    return made


def registers(world):
    return [world.servos[name].table["bus_watchdog"] for name in ("shoulder_lift", "gripper")]


def pause(world, seconds):
    world.sleep_until(world.now() + seconds)


def test_first_goals_arm_watchdogs_and_cycles_and_polls_feed_them(world, cycle):
    cycle.watchdogs.wanted = False
    cycle.exchange(GOALS)
    assert registers(world) == [0, 0]
    cycle.watchdogs.wanted = True
    cycle.exchange({"gripper": GOALS["gripper"]})
    assert (registers(world), cycle.watchdogs.armed) == ([0, 25], {6})
    for _ in range(3):
        cycle.exchange(GOALS)
        pause(world, 0.6 * PERIOD)
        assert cycle.watchdogs.feed_due
        assert cycle.watchdogs.poll() == []
        assert not cycle.watchdogs.feed_due
        pause(world, 0.6 * PERIOD)
    assert registers(world) == [25, 25]
    cycle.watchdogs.poll()
    cycle.exchange(GOALS)
    assert not cycle.watchdogs.doubtful
    pause(world, 0.8 * PERIOD)
    cycle.exchange(GOALS)
    assert cycle.watchdogs.doubtful
    assert cycle.watchdogs.poll() == []
    assert not cycle.watchdogs.doubtful


def test_a_servo_with_an_expired_watchdog_stops_and_refuses_goals_until_it_is_disarmed(world, cycle):
    cycle.exchange({name: goal._replace(position=2600) for name, goal in GOALS.items()})
    pause(world, 1.2 * PERIOD)
    assert registers(world) == [-1, -1]
    assert cycle.watchdogs.doubtful
    assert sorted(cycle.watchdogs.poll()) == [2, 6]
    stopped = world.servos["gripper"].table["goal_position"]
    cycle.exchange(GOALS)
    assert world.servos["gripper"].table["goal_position"] == stopped
    disarm(cycle)
    assert hold(cycle) == {}
    assert registers(world) == [0, 0]
    cycle.exchange(GOALS)
    assert registers(world) == [25, 25]
    assert world.servos["gripper"].table["goal_position"] == 2048


def test_the_watchdog_of_a_servo_that_returns_is_armed_again_and_disarmed(world, cycle):
    cycle.exchange(GOALS)
    gripper = world.servos["gripper"]
    gripper.power_off(world.now())
    for _ in range(3):
        cycle.exchange(GOALS)
    assert cycle.watchdogs.armed == {2}
    gripper.power_cycle(world.now())
    pause(world, 3.0)
    assert gripper.table["bus_watchdog"] == 0
    for _ in range(3):
        cycle.exchange(GOALS)
    cycle.recover("gripper")  # its torque is off
    cycle.exchange(GOALS)
    assert gripper.table["bus_watchdog"] == 25
    cycle.watchdogs.mark_unarmed([6])  # as after two lost answers
    disarm(cycle)
    assert registers(world) == [0, 0]
    assert cycle.watchdogs.maybe_armed == frozenset()
    cycle.exchange(GOALS)
    limp(cycle, ["gripper"])
    disarm(cycle, {"lift"})  # a servo that did not confirm torque off
    assert registers(world) == [25, 0]
