from pathlib import Path

import numpy as np
import pytest

from axbridge.bus.protocols.known import SECOND
from axbridge.comparison.simulate import simulate
from axbridge.config.registers import XAddress
from axbridge.config.rig import Rig
from axbridge.recording.import_logs import import_log
from axbridge.robot.backend import open_sim
from axbridge.servo.columns import State
from axbridge.virtual.world import World
from tests.support.virtual_rig import Host

LOG = Path(__file__).parents[2] / "docs" / "real" / "xl330_pendulum" / "xl330_kp400_lift_and_drop.json"
COUNT = 2 * np.pi / 4096


class Joint(Host):
    """A servo of the Koch, by its id."""

    def __init__(self, id):
        super().__init__(World(Rig.load("koch")), id, patience=0.004)

    def set(self, **registers):
        for name, value in registers.items():
            assert self.write(name, value) == 0, name

    @property
    def motor(self):
        return self.world.bank.state[self.servo.row]


@pytest.fixture
def wrist():
    yield (joint := Joint(5))
    joint.world.close()


def test_a_time_based_profile_ends_on_time(wrist):
    wrist.set(drive_mode=4, torque_enable=1, profile_velocity=800, profile_acceleration=200, goal_position=2600)
    start = wrist.world.now()
    while wrist.read("moving_status") & 0x02:
        wrist.wait(0.006)
    assert wrist.world.now() - start == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("warmer", [0.0, 30.0])
def test_a_loop_of_the_current_keeps_its_current_however_warm_the_winding_is(wrist, warmer):
    wrist.motor[State.TEMPERATURE] += warmer  # K: the resistance grows by 2 % with each
    wrist.set(operating_mode=0)
    wrist.set(torque_enable=1, goal_current=200)
    wrist.wait(0.02)
    motor = wrist.motor
    assert motor[State.CURRENT] * abs(motor[State.DUTY]) == pytest.approx(0.2, rel=0.01)  # the supply current
    assert wrist.read("present_current") == pytest.approx(200, rel=0.05)


def through_registers(log, rig):
    """The positions that a virtual servo reports at the times of a log, rad; it gets the log's goals at their times."""
    (track,) = log.values()
    written = {**rig.servos[0].registers, **log.metadata["registers"][track.name], "return_delay_time": 0}
    supply = log.metadata["pendulum"]["vin"]
    rig = rig.with_servos(lambda _: {"registers": written}).with_buses(bus_timing="none", supply_voltage=supply)
    sim = open_sim(rig)
    bus, world = sim.buses["main"], sim.world
    bus.set_protocol(1, SECOND)
    world.place(rig.servos[0].name, track.position[0])
    world.bank.state[0, State.TEMPERATURE] = track.temperature.mean()
    begin = world.now() - min(track.sent[0], track.time[0])
    turns = [(time, writes, i) for writes, times in enumerate((track.time, track.sent)) for i, time in enumerate(times)]
    position, driven = np.empty(len(track)), False
    for time, writes, index in sorted(turns):
        world.sleep_until(begin + time)
        if not writes:
            count = int.from_bytes(bus.read(1, XAddress.PRESENT_POSITION, 4).data, "little", signed=True)
            position[index] = (count - 2048) * COUNT
            continue
        if track.enabled[index] != driven:
            driven = bool(track.enabled[index])
            bus.write(1, XAddress.TORQUE_ENABLE, bytes([driven]))
        if driven:
            goal = round(2048 + track.command[index] / COUNT)
            bus.write(1, XAddress.GOAL_POSITION, goal.to_bytes(4, "little", signed=True))
    sim.close()
    return position


def test_a_servo_with_registers_follows_a_real_log_as_its_model_does():
    real, rig = import_log(LOG), Rig.load("xl330_pendulum").with_model("xl330")
    (plain,), (log,) = simulate(real, rig).values(), real.values()
    through = through_registers(real, rig)
    assert np.degrees(np.abs(through - plain.position).mean()) < 0.08  # 0.19 with goals as late as their samples
    off, off_plain = (np.degrees(np.abs(path - log.position).mean()) for path in (through, plain.position))
    assert off < off_plain + 0.02 < 2.5
