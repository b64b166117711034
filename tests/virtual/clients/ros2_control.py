"""The packets of ros2_control's dynamixel_hardware, with dynamixel-sdk: python ros2_control.py PORT.

From its workbench_driver.cpp: ping; torque off, Operating Mode, torque on; then in each cycle a sync read of
position, velocity and load or current in one window, and a sync write of the goals.
"""

import math
import sys
import time

from asking import done, opened
from dynamixel_sdk import GroupSyncRead, GroupSyncWrite, PacketHandler

IDS, MODELS = range(1, 7), [1060, 1060, 1200, 1200, 1200, 1200]
OPERATING_MODE, TORQUE, GOAL, PRESENT = 11, 64, 116, 126
VELOCITY, POSITION = 128, 132
COUNT = math.tau / 4096

port, packets = opened(sys.argv[1]), PacketHandler(2.0)


def signed(value, size):
    return value - (1 << 8 * size) if value >> 8 * size - 1 else value


assert [done(packets.ping, port, id_) for id_ in IDS] == MODELS
for id_ in IDS:
    for address, value in ((TORQUE, 0), (OPERATING_MODE, 3), (TORQUE, 1)):
        done(packets.write1ByteTxRx, port, id_, address, value)

states = GroupSyncRead(port, packets, PRESENT, 12)
for id_ in IDS:
    assert states.addParam(id_)
goals = GroupSyncWrite(port, packets, GOAL, 4)


def state():
    """Return positions (rad), velocities and efforts (counts) of all servos."""
    done(states.txRxPacket)
    return [
        (
            (states.getData(id_, POSITION, 4) - 2048) * COUNT,
            signed(states.getData(id_, VELOCITY, 4), 4),
            signed(states.getData(id_, PRESENT, 2), 2),
        )
        for id_ in IDS
    ]


begin, wanted = [position for position, _, _ in state()], {1: 0.4, 4: 0.3, 5: -0.3}
fastest, began = 0, time.monotonic()
while True:
    share = min(1.0, (time.monotonic() - began) / 1.0)
    goals.clearParam()
    for id_, start in zip(IDS, begin, strict=True):
        goal = start + share * (wanted[id_] - start) if id_ in wanted else start
        assert goals.addParam(id_, list(round(goal / COUNT + 2048).to_bytes(4, "little")))
    done(goals.txPacket)
    now = state()
    fastest = max(fastest, abs(now[0][1]))
    if share == 1.0 and all(abs(now[id_ - 1][0] - goal) < 0.03 for id_, goal in wanted.items()):
        break
    assert time.monotonic() - began < 30, now
assert fastest > 0  # the velocity is in its own place
assert now[1][2] != 0  # and so is the load of the arm's weight
for id_ in IDS:
    done(packets.write1ByteTxRx, port, id_, TORQUE, 0)
port.closePort()
print("ok")
