"""dynamixel-sdk in a program that tolerates time-outs of a busy computer."""

import time

from dynamixel_sdk import COMM_SUCCESS, PacketHandler, PortHandler


def opened(name):
    port = PortHandler(name)
    assert port.openPort()
    assert port.setBaudRate(1_000_000)
    return port


def done(ask, *arguments):
    """Return the result of a call without a servo error; repeat the call after time-outs of a busy computer."""
    end = time.monotonic() + 60
    while True:
        try:
            answer = ask(*arguments)
        except IndexError:  # this SDK takes a late reply for the reply to this packet
            assert time.monotonic() < end
            continue
        *value, result, error = answer if isinstance(answer, tuple) else (answer, 0)
        if result == COMM_SUCCESS or time.monotonic() > end:
            break
    assert (result, error) == (COMM_SUCCESS, 0), (ask, arguments, PacketHandler(2.0).getTxRxResult(result), error)
    return value[0] if value else None
