"""pyserial and bytes: python raw.py PORT"""

import sys
import time

import serial


def packet(id_, code, *params):
    body = [id_, len(params) + 2, code, *params]
    return bytes([0xFF, 0xFF, *body, ~sum(body) & 0xFF])


def ask(port, data, expected):
    port.reset_input_buffer()
    port.write(data)
    return port.read(expected)


port = serial.serial_for_url(sys.argv[1], baudrate=1_000_000, timeout=0.05)
assert [id_ for id_ in range(1, 21) if ask(port, packet(id_, 1), 6)] == list(range(1, 19))
assert ask(port, packet(1, 2, 0, 2), 8) == packet(1, 0, 12, 0)
assert len(ask(port, packet(1, 2, 0, 50), 56)) == 56
assert ask(port, packet(1, 3, 30, 0x58, 0x02), 6) == packet(1, 0)
port.write(packet(0xFE, 0x83, 30, 2, *(byte for id_ in range(2, 19) for byte in (id_, 0x00, 0x02))))
assert ask(port, packet(7, 2, 30, 2), 8) == packet(7, 0, 0x00, 0x02)
time.sleep(1)
reply = ask(port, packet(1, 2, 36, 2), 8)
assert abs((reply[5] | reply[6] << 8) - 600) < 30, reply.hex(" ")
assert ask(port, packet(1, 2, 1), 6) == packet(1, 0x40)
assert ask(port, b"\xff\xff\x01\x02\x01\x00", 6) == packet(1, 0x10)
assert ask(port, b"\x00\xff" + packet(1, 1), 6) == packet(1, 0)

assert ask(port, packet(5, 3, 3, 30), 6) == packet(5, 0)
time.sleep(0.02)
assert ask(port, packet(30, 3, 3, 5), 6) == packet(30, 0)
time.sleep(0.02)
assert ask(port, packet(5, 1), 6) == packet(5, 0)
port.close()
print("ok")
