"""dynamixel-sdk moves a Koch arm as its examples do: python sdk_driver.py PORT"""

import sys
import time

from dynamixel_sdk import COMM_SUCCESS, PacketHandler, PortHandler

port, packets = PortHandler(sys.argv[1]), PacketHandler(2.0)
port.openPort()
port.setBaudRate(1_000_000)


def checked(result, error):
    if result != COMM_SUCCESS:
        sys.exit(packets.getTxRxResult(result))
    if error:
        sys.exit(packets.getRxPacketError(error))


for id_ in (1, 2):
    checked(*packets.write1ByteTxRx(port, id_, 64, 1))  # Torque Enable
    checked(*packets.write4ByteTxRx(port, id_, 116, 2200))  # Goal Position
for _ in range(10):
    for id_ in (1, 2):
        position, *status = packets.read4ByteTxRx(port, id_, 132)  # Present Position
        checked(*status)
    time.sleep(0.1)
print(packets.read4ByteTxRx(port, 1, 132)[0])
for id_ in (1, 2):
    checked(*packets.write1ByteTxRx(port, id_, 64, 0))
port.closePort()
