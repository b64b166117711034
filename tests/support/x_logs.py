"""Pendulum logs of a real XL330, replayed through the registers of a virtual one."""

import numpy as np

from axbridge.bus.protocols.known import SECOND
from axbridge.config.registers import XAddress
from axbridge.robot.backend import open_sim
from axbridge.servo.columns import State

COUNT = 2 * np.pi / 4096
ZERO = 2048


def through_registers(log, rig):
    """The positions that a virtual servo reports at the times of a log, rad; it gets the log's goals at their times."""
    (track,) = log.values()
    metadata = log.metadata
    written = {**rig.servos[0].registers, **metadata["registers"][track.name], "return_delay_time": 0}
    supply = metadata["pendulum"]["vin"]
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
            position[index] = (count - ZERO) * COUNT
            continue
        if track.enabled[index] != driven:
            driven = bool(track.enabled[index])
            bus.write(1, XAddress.TORQUE_ENABLE, bytes([driven]))
        if driven:
            goal = round(ZERO + track.command[index] / COUNT)
            bus.write(1, XAddress.GOAL_POSITION, goal.to_bytes(4, "little", signed=True))
    sim.close()
    return position
