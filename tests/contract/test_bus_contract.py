"""What every `Bus` does, whatever it is made of: `axbridge.testing.check_bus` on each kind there is."""

import pytest

from axbridge.bus.serial import SerialBus
from axbridge.bus.virtual import VirtualBus
from axbridge.serving import serving
from axbridge.testing import check_bus
from robotfiles import write_comb
from virtualrig import make_world


@pytest.mark.parametrize("timing", ["wire", "none"])
def test_the_bus_in_process(timing):
    assert len(check_bus(lambda: VirtualBus(make_world(timing=timing)))) >= 11


def test_the_serial_bus_on_the_served_pseudo_terminal(tmp_path):
    with serving(write_comb(tmp_path, count=2)) as port:
        check_bus(lambda: SerialBus(port))


def prepared(port):
    bus = SerialBus(port)
    bus.prepare()
    return bus


def test_the_serial_bus_ready_for_a_control_loop(tmp_path):
    with serving(write_comb(tmp_path, count=2)) as port:
        check_bus(lambda: prepared(port))


@pytest.mark.hardware
def test_the_serial_bus_on_copper(hardware_port):
    check_bus(lambda: SerialBus(hardware_port))


class _Forgetful(VirtualBus):
    """A bus that loses every second byte of what it reads."""

    def read(self, id, address, length):
        reply = super().read(id, address, length)
        return reply._replace(data=reply.data[::2])


def test_a_bus_that_breaks_the_contract_is_told_which_promise():
    with pytest.raises(AssertionError, match="a read returns exactly the bytes asked for"):
        check_bus(lambda: _Forgetful(make_world()))
