"""Feetech's own SDK makes all its calls: python feetech_sdk.py PORT"""

import sys
import time

from scservo_sdk import COMM_RX_TIMEOUT, COMM_SUCCESS, GroupSyncRead, GroupSyncWrite, PacketHandler, PortHandler

BIG = "big" in sys.argv  # SCS servos: words are big-endian, and there is no sync read
IDS, MIDDLE = (1, 2, 3), 512 if BIG else 2048
GOAL, PRESENT, VELOCITY = 42, 56, 46
MODEL = 1284 if BIG else 777
FAR = MIDDLE + (90 if BIG else 400)

port, packets = PortHandler(sys.argv[1]), PacketHandler(int(BIG))
assert port.openPort()
assert port.setBaudRate(1_000_000)


def word(value):
    return [value >> 8, value & 0xFF] if BIG else [value & 0xFF, value >> 8]


def close_to(value, goal):
    return abs(value - goal) <= (8 if BIG else 12)


assert [packets.ping(port, id_) for id_ in IDS] == [(MODEL, COMM_SUCCESS, 0)] * 3
assert packets.ping(port, 9)[1] == COMM_RX_TIMEOUT
assert packets.read1ByteTxRx(port, 2, 5) == (2, COMM_SUCCESS, 0)
assert packets.read2ByteTxRx(port, 2, PRESENT) == (MIDDLE, COMM_SUCCESS, 0)
assert packets.readTxRx(port, 1, 0, 6)[0][3:] == [*word(MODEL), 1]
assert packets.write1ByteTxRx(port, 1, 40, 1) == (COMM_SUCCESS, 0)
assert packets.write2ByteTxRx(port, 1, GOAL, FAR) == (COMM_SUCCESS, 0)
time.sleep(0.6)
assert close_to(packets.read2ByteTxRx(port, 1, PRESENT)[0], FAR)
assert packets.write2ByteTxOnly(port, 254, GOAL, MIDDLE) == COMM_SUCCESS
time.sleep(0.6)
assert close_to(packets.read2ByteTxRx(port, 1, PRESENT)[0], MIDDLE)
assert packets.regWriteTxRx(port, 2, GOAL, 2, word(FAR)) == (COMM_SUCCESS, 0)
time.sleep(0.3)
assert packets.read2ByteTxRx(port, 2, PRESENT)[0] == MIDDLE
assert packets.action(port, 254) == COMM_SUCCESS
time.sleep(0.6)
assert close_to(packets.read2ByteTxRx(port, 2, PRESENT)[0], FAR)
write = GroupSyncWrite(port, packets, GOAL, 6)
for id_ in IDS:
    assert write.addParam(id_, [*word(MIDDLE), 0, 0, *word(1000)])
assert write.txPacket() == COMM_SUCCESS
time.sleep(0.6)
if not BIG:
    read = GroupSyncRead(port, packets, PRESENT, 8)
    for id_ in IDS:
        assert read.addParam(id_)
    assert read.txRxPacket() == COMM_SUCCESS
    assert all(close_to(read.getData(id_, PRESENT, 2), MIDDLE) for id_ in IDS)
    assert read.getData(3, 62, 1) in range(70, 78)
lock = 48 if BIG else 55
assert packets.write1ByteTxRx(port, 3, lock, 0) == (COMM_SUCCESS, 0)
assert packets.write1ByteTxRx(port, 3, 5, 7) == (COMM_SUCCESS, 0)
assert packets.write1ByteTxRx(port, 7, lock, 1) == (COMM_SUCCESS, 0)
assert packets.ping(port, 7) == (MODEL, COMM_SUCCESS, 0)
for id_ in (1, 2, 7):
    assert packets.write1ByteTxRx(port, id_, 40, 0) == (COMM_SUCCESS, 0)
port.closePort()
print("ok")
