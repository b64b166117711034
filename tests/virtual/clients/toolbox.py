"""The writes of ROBOTIS' dynamixel_workbench in their order, 10 ms before each: python toolbox.py PORT

jointMode, wheelMode, changeID and changeBaudrate of an AX-12 at its factory limits; the mode goes by the last write.
"""

import sys
import time

from dynamixel_sdk import PacketHandler, PortHandler

ID, BAUD, CW_LIMIT, CCW_LIMIT, TORQUE, SPEED = 3, 4, 6, 8, 24, 32
port, packets = PortHandler(sys.argv[1]), PacketHandler(1.0)
assert port.openPort()
assert port.setBaudRate(1_000_000)


def write(id_, address, value, size=1):
    """Whether it was acknowledged without an error."""
    time.sleep(0.01)
    return packets.writeTxRx(port, id_, address, size, list(value.to_bytes(size, "little"))) == (0, 0)


def mode(id_, ccw, speed=None):
    """Torque off, both limits, speed, torque on: whether each write went well, up to the first that did not."""
    if not write(id_, TORQUE, 0):
        return ["torque off"]
    write(id_, CW_LIMIT, 0, 2)  # the toolbox does not look at this one's answer
    if not write(id_, CCW_LIMIT, ccw, 2):
        return ["ccw limit"]
    if speed is not None and not write(id_, SPEED, speed, 2):
        return ["speed"]
    return [] if write(id_, TORQUE, 1) else ["torque on"]


def limits(id_):
    time.sleep(0.05)
    data, result, error = packets.readTxRx(port, id_, CW_LIMIT, 4)
    assert (result, error) == (0, 0)
    return data[0] | data[1] << 8, data[2] | data[3] << 8


def change_id(id_, new):
    return write(id_, TORQUE, 0) and write(id_, ID, new)


def change_baud(id_, value, baud):
    done = write(id_, TORQUE, 0) and write(id_, BAUD, value)
    time.sleep(0.5)  # the toolbox waits for 2 s
    assert port.setBaudRate(baud)
    return done and packets.ping(port, id_)[1] == 0


assert limits(5) == (0, 1023)
assert mode(5, 1023, 0) == []  # it was a joint: no byte changes
assert mode(5, 0) in ([], ["torque on"])  # both bytes of the limit change: 12 ms, if the host is prompt
assert limits(5) == (0, 0)
assert mode(5, 0) == []  # asked again, it is one
assert mode(5, 1023, 0) in ([], ["speed"])
assert limits(5) == (0, 1023)
assert mode(5, 1023, 0) == []
assert write(5, TORQUE, 0)
assert change_id(5, 30)
assert change_id(30, 5)
assert change_baud(5, 3, 500_000)
assert change_baud(5, 1, 1_000_000)
port.closePort()
print("ok")
