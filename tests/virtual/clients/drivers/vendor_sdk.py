"""Moves servos 1 and 2 as the examples of vendors' SDKs do, and ends where one does not answer or reports an error."""

import sys
import time


def move(sdk, protocol, registers, size):
    """Torque on, a goal, reads for a second, torque off; `registers` are the addresses of torque, goal and position."""
    port, packets = sdk.PortHandler(sys.argv[1]), sdk.PacketHandler(protocol)
    torque, goal, present = registers
    read, write = (getattr(packets, f"{verb}{size}ByteTxRx") for verb in ("read", "write"))
    port.openPort()
    port.setBaudRate(1_000_000)

    def checked(result, error):
        if result != sdk.COMM_SUCCESS:
            sys.exit(packets.getTxRxResult(result))
        if error:
            sys.exit(packets.getRxPacketError(error))

    for id_ in (1, 2):
        checked(*packets.write1ByteTxRx(port, id_, torque, 1))
        checked(*write(port, id_, goal, 2200))
    for _ in range(10):
        for id_ in (1, 2):
            _, *status = read(port, id_, present)
            checked(*status)
        time.sleep(0.1)
    print(read(port, 1, present)[0])
    for id_ in (1, 2):
        checked(*packets.write1ByteTxRx(port, id_, torque, 0))
    port.closePort()
