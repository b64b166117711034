import pytest

from axbridge.bus.serial import SerialBus
from axbridge.errors import PortError
from axbridge.testing import check_bus
from axbridge.virtual.bus import VirtualBus
from tests.support.pty_line import PtyLine
from tests.support.virtual_rig import make_world

PROFILES = ["ax-12a", "xl330-m288", "sts3215", "scs0009"]


@pytest.mark.parametrize(("profile", "timing"), [*((profile, "wire") for profile in PROFILES), ("ax-12a", "none")])
def test_the_bus_in_process(profile, timing):
    assert len(check_bus(lambda: VirtualBus(make_world((1, 2), profile, timing)))) >= 13


def test_no_such_bus_names_those_there_are():
    with pytest.raises(PortError, match="main"):
        VirtualBus(make_world(), "left")


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize("profile", PROFILES)
def test_the_serial_bus_on_a_pseudo_terminal(profile):
    def opened():
        bus = SerialBus(line.port)
        bus.set_protocol(1, line[1].protocol)
        return bus

    with PtyLine({1: profile, 2: profile}) as line:
        check_bus(opened)


@pytest.mark.hardware
def test_the_serial_bus_on_copper(hardware_port):
    check_bus(lambda: SerialBus(hardware_port))


class _Forgetful(VirtualBus):
    """A bus that loses every second byte of what it reads."""

    def read(self, id, address, length):
        reply = super().read(id, address, length)
        return reply._replace(data=reply.data[::2])


class _Stubborn(VirtualBus):
    """A bus that writes twice, to be sure."""

    def write(self, id, address, data, **options):
        super().write(id, address, data, **options)
        return super().write(id, address, data, **options)


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (_Stubborn, "a write is sent again only when it has not arrived"),
        (_Forgetful, "a read returns exactly the bytes asked for"),
    ],
)
def test_the_error_names_the_promise_that_a_bus_breaks(kind, promise):
    with pytest.raises(AssertionError, match=promise):
        check_bus(lambda: kind(make_world()))
