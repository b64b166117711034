"""dynamixel-sdk on a served arm of Protocol 2.0: ids 1 and 2 XL430-W250, 3 to 6 XL330-M288."""

import sys
import time

from asking import done, opened
from dynamixel_sdk import COMM_SUCCESS, GroupBulkRead, GroupBulkWrite, GroupSyncRead, GroupSyncWrite, PacketHandler

IDS = range(1, 7)
OPERATING_MODE, TORQUE, P_GAIN, PWM, GOAL, POSITION, TEMPERATURE = 11, 64, 84, 100, 116, 132, 146

port, packets = opened(sys.argv[1]), PacketHandler(2.0)

# Scan
assert [done(packets.ping, port, id_) for id_ in IDS] == [1060, 1060, 1200, 1200, 1200, 1200]
servos, result = packets.broadcastPing(port)
assert result == COMM_SUCCESS
assert servos == {1: [1060, 46], 2: [1060, 46], **{id_: [1200, 52] for id_ in (3, 4, 5, 6)}}

# One, two and four bytes
for id_ in IDS:
    done(packets.write1ByteTxRx, port, id_, OPERATING_MODE, 4)
    done(packets.write1ByteTxRx, port, id_, TORQUE, 1)
    assert done(packets.read1ByteTxRx, port, id_, TORQUE) == 1
done(packets.write2ByteTxRx, port, 3, P_GAIN, 800)
assert done(packets.read2ByteTxRx, port, 3, P_GAIN) == 800
done(packets.write4ByteTxRx, port, 5, GOAL, 2300)
assert done(packets.read4ByteTxRx, port, 5, GOAL) == 2300
while (refused := packets.write1ByteTxRx(port, 3, 7, 9))[0] != COMM_SUCCESS:
    pass
assert refused[1] == 7  # an id while torque is on: access error

# Group instructions
write = GroupSyncWrite(port, packets, GOAL, 4)
for id_ in IDS:
    assert write.addParam(id_, list((2048 + 50 * id_).to_bytes(4, "little")))
done(write.txPacket)
read = GroupSyncRead(port, packets, POSITION, 4)
for id_ in IDS:
    read.addParam(id_)
end = time.monotonic() + 60
while True:  # until they stand still
    done(read.txRxPacket)
    slow = [read.getData(id_, POSITION, 4) for id_ in IDS]
    done(read.fastSyncRead)
    fast = [read.getData(id_, POSITION, 4) for id_ in IDS]
    if abs(slow[4] - 2298) < 40 and all(abs(a - b) < 100 for a, b in zip(slow, fast, strict=True)):
        break
    assert time.monotonic() < end, (slow, fast)

bulk = GroupBulkWrite(port, packets)
assert bulk.addParam(1, P_GAIN, 2, list((700).to_bytes(2, "little")))
assert bulk.addParam(3, PWM, 2, list((500).to_bytes(2, "little")))
done(bulk.txPacket)
bulk = GroupBulkRead(port, packets)
for id_, address, size in ((1, P_GAIN, 2), (3, PWM, 2), (6, TEMPERATURE, 1)):
    assert bulk.addParam(id_, address, size)
for ask in (bulk.txRxPacket, bulk.fastBulkRead):
    done(ask)
    assert (bulk.getData(1, P_GAIN, 2), bulk.getData(3, PWM, 2)) == (700, 500)
    assert 20 < bulk.getData(6, TEMPERATURE, 1) < 60

# REG_WRITE and ACTION
done(packets.regWriteTxRx, port, 4, GOAL, 4, list((2100).to_bytes(4, "little")))
assert done(packets.read4ByteTxRx, port, 4, GOAL) != 2100
while done(packets.read4ByteTxRx, port, 4, GOAL) != 2100:
    packets.action(port, 4)  # a repeat after a lost reply has no effect

# Bytes like a header, in a packet that this SDK does not stuff
done(packets.writeTxRx, port, 3, 208, 4, [0xFF, 0xFF, 0xFD, 0x00])
assert done(packets.read4ByteTxRx, port, 3, 208) == 0x00FDFFFF

# CLEAR and restart
done(packets.write1ByteTxRx, port, 5, TORQUE, 0)
end = time.monotonic() + 60
while packets.clearMultiTurn(port, 5) != (COMM_SUCCESS, 0):
    assert time.monotonic() < end, "it does not stand still"
done(packets.reboot, port, 3)
time.sleep(0.7)
assert (done(packets.read1ByteTxRx, port, 3, TORQUE), done(packets.read2ByteTxRx, port, 3, P_GAIN)) == (0, 400)
done(packets.factoryReset, port, 3, 0x02)
time.sleep(0.7)
assert done(packets.read1ByteTxRx, port, 3, OPERATING_MODE) == 3
port.closePort()
print("ok")
