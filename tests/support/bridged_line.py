"""A program behind a bridge, as a bus on the bridge's port."""

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus


def client(port, line):
    """A bus on the port of a bridge, whose servos are those of a line."""
    bus = SerialBus(port)
    bus.latency = 0.1  # s: more than the bridge takes for its own questions on a busy machine
    for id_ in line.tables:
        bus.set_protocol(id_, PROTOCOLS[line[id_].profile.protocol])
    return bus


def write(bus, line, id_, name, value):
    """Write to a register by its name."""
    register = line[id_].profile.register(name)
    return bus.write(id_, register.address, register.encode(value))
