"""Pendulum logs of a real XL330, replayed through the registers of a virtual one."""

import numpy as np

from axbridge.bus.protocols.known import SECOND
from axbridge.config.registers import XAddress
from axbridge.robot.backend import open_sim
from axbridge.servo.columns import State

COUNT = 2 * np.pi / 4096
ZERO = 2048


def through_registers(log, rig, *, aside=0.0, late=0.0):
    """Where a virtual servo says it was at the times of a log, rad, whose goals are written to it when they went out.

    It starts `aside` (rad) of its first reading, and everything is written `late` (s).
    """
    (track,) = log.values()
    metadata = log.metadata
    written = {**rig.servos[0].registers, **metadata["registers"][track.name], "return_delay_time": 0}
    supply = metadata["pendulum"]["vin"]
    rig = rig.with_servos(lambda _: {"registers": written}).with_buses(bus_timing="none", supply_voltage=supply)
    sim = open_sim(rig)
    bus, world = sim.buses["main"], sim.world
    bus.set_protocol(1, SECOND)
    world.place(rig.servos[0].name, track.position[0] + aside)
    world.bank.state[0, State.TEMPERATURE] = track.temperature.mean()
    sent = track.sent + late
    begin = world.now() - min(sent[0], track.time[0])
    turns = [
        *((time, 0, index) for index, time in enumerate(track.time)),
        *((time, 1, i) for i, time in enumerate(sent)),
    ]
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
