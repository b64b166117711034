"""dynamixel-sdk on one port with servos of both protocols: ids 1 and 2 are AX-12A, 3 is an XL330-M288."""

import sys
import time

from asking import done, opened
from dynamixel_sdk import COMM_SUCCESS, GroupSyncWrite, PacketHandler

port, old, new = opened(sys.argv[1]), PacketHandler(1.0), PacketHandler(2.0)

assert [done(old.ping, port, id_) for id_ in (1, 2)] == [12, 12]
assert done(new.ping, port, 3) == 1200
assert new.broadcastPing(port) == ({3: [1200, 52]}, COMM_SUCCESS)
assert old.ping(port, 3)[1] != COMM_SUCCESS
assert new.ping(port, 1)[1] != COMM_SUCCESS

done(new.write1ByteTxRx, port, 3, 64, 1)
several = GroupSyncWrite(port, old, 30, 2)
for id_ in (1, 2):
    assert several.addParam(id_, [40, 2])
end = time.monotonic() + 10
while True:  # both kinds in one cycle
    assert several.txPacket() == COMM_SUCCESS
    done(new.write4ByteTxRx, port, 3, 116, 2500)
    seen = (
        done(old.read2ByteTxRx, port, 1, 36),
        done(old.read2ByteTxRx, port, 2, 36),
        done(new.read4ByteTxRx, port, 3, 132),
    )
    if all(abs(at - goal) < 25 for at, goal in zip(seen, (552, 552, 2500), strict=True)):
        break
    assert time.monotonic() < end, seen
port.closePort()
print("ok")
