"""dynamixel-sdk on its own: python sdk.py PORT"""

import sys
import time

from asking import done, opened
from dynamixel_sdk import GroupSyncWrite, PacketHandler

port, packets = opened(sys.argv[1]), PacketHandler(1.0)

results = {}
for id_ in range(1, 21):
    model, result, _ = packets.ping(port, id_)
    if result == 0:
        results[id_] = model
assert results == dict.fromkeys(range(1, 19), 12), results

table = done(packets.readTxRx, port, 1, 0, 50)
assert len(table) == 50
assert table[:2] == [12, 0]
position = done(packets.read2ByteTxRx, port, 1, 36)
assert abs(position - (table[36] | table[37] << 8)) < 60, (position, table[36:38])  # arms without torque swing

done(packets.write2ByteTxRx, port, 1, 30, 600)
several = GroupSyncWrite(port, packets, 30, 4)
for id_ in range(2, 19):
    assert several.addParam(id_, [(400 + 10 * id_) & 0xFF, (400 + 10 * id_) >> 8, 0, 0])
assert several.txPacket() == 0
time.sleep(1.5)
for id_ in range(1, 19):
    goal = 600 if id_ == 1 else 400 + 10 * id_
    assert done(packets.read2ByteTxRx, port, id_, 30) == goal
position = done(packets.read2ByteTxRx, port, 1, 36)
assert abs(position - 600) < 30, position

done(packets.write1ByteTxRx, port, 5, 3, 30)
time.sleep(0.02)
done(packets.ping, port, 30)
done(packets.write1ByteTxRx, port, 30, 3, 5)
time.sleep(0.02)

done(packets.write1ByteTxRx, port, 5, 4, 3)
time.sleep(0.02)
assert packets.ping(port, 5)[1] != 0
assert port.setBaudRate(500_000)
done(packets.ping, port, 5)
done(packets.write1ByteTxRx, port, 5, 4, 1)
time.sleep(0.02)
assert port.setBaudRate(1_000_000)
done(packets.ping, port, 5)

error = packets.write2ByteTxRx(port, 1, 30, 4000)[1]
assert error == 0x08, error
port.closePort()
print("ok")
