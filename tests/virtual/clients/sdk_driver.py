"""dynamixel-sdk moves servos 1 and 2 of a Koch arm as its examples do: python sdk_driver.py PORT

It ends where a servo does not answer or reports an error.
"""

import sys
import time

from dynamixel_sdk import COMM_SUCCESS, PacketHandler, PortHandler

TORQUE, GOAL, POSITION = 64, 116, 132

port, packets = PortHandler(sys.argv[1]), PacketHandler(2.0)
port.openPort()
port.setBaudRate(1_000_000)


def checked(result, error):
    if result != COMM_SUCCESS:
        sys.exit(packets.getTxRxResult(result))
    if error:
        sys.exit(packets.getRxPacketError(error))


for id_ in (1, 2):
    checked(*packets.write1ByteTxRx(port, id_, TORQUE, 1))
    checked(*packets.write4ByteTxRx(port, id_, GOAL, 2200))
for _ in range(10):
    for id_ in (1, 2):
        checked(*packets.read4ByteTxRx(port, id_, POSITION)[1:])
    time.sleep(0.1)
print(packets.read4ByteTxRx(port, 1, POSITION)[0])
for id_ in (1, 2):
    checked(*packets.write1ByteTxRx(port, id_, TORQUE, 0))
port.closePort()
