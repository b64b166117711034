"""Feetech's SDK moves an SO-101: python feetech_driver.py PORT"""

import sys
import time

from scservo_sdk import COMM_SUCCESS, PacketHandler, PortHandler

port, packets = PortHandler(sys.argv[1]), PacketHandler(0)
port.openPort()
port.setBaudRate(1_000_000)


def checked(result, error):
    if result != COMM_SUCCESS:
        sys.exit(packets.getTxRxResult(result))
    if error:
        sys.exit(packets.getRxPacketError(error))


for id_ in (1, 2):
    checked(*packets.write1ByteTxRx(port, id_, 40, 1))  # Torque Enable
    checked(*packets.write2ByteTxRx(port, id_, 42, 2200))  # Goal Position
for _ in range(10):
    for id_ in (1, 2):
        position, *status = packets.read2ByteTxRx(port, id_, 56)  # Present Position
        checked(*status)
    time.sleep(0.1)
print(packets.read2ByteTxRx(port, 1, 56)[0])
for id_ in (1, 2):
    checked(*packets.write1ByteTxRx(port, id_, 40, 0))
port.closePort()
