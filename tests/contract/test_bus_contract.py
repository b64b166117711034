"""What every `Bus` does, whatever it is made of: `axbridge.testing.check_bus` on each kind there is."""

import pytest

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.config.profile import FirmwareProfile
from axbridge.testing import check_bus
from axbridge.virtual.background import serving
from axbridge.virtual.bus import VirtualBus
from tests.support.robot_files import write_comb, write_feetech_comb
from tests.support.virtual_rig import make_world

pytestmark = [pytest.mark.slow, pytest.mark.real_time]


@pytest.mark.parametrize("timing", ["wire", "none"])
def test_the_bus_in_process(timing):
    assert len(check_bus(lambda: VirtualBus(make_world(timing=timing)))) >= 14


@pytest.mark.parametrize("profile", ["sts3215", "scs0009"])
def test_the_bus_of_feetech_servos(profile, tmp_path):
    def speaking(bus):
        for id_ in (1, 2, 252):
            bus.speak(id_, PROTOCOLS[FirmwareProfile.load(profile).protocol])
        return bus

    check_bus(lambda: speaking(VirtualBus(make_world((1, 2), profile, volts=6.5))))
    with serving(write_feetech_comb(tmp_path, 2, profile)) as port:
        check_bus(lambda: speaking(SerialBus(port)))


def test_the_serial_bus_on_the_served_pseudo_terminal(tmp_path):
    with serving(write_comb(tmp_path, count=2)) as port:
        check_bus(lambda: SerialBus(port))


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


def test_a_bus_that_writes_what_has_arrived_is_told_so():
    with pytest.raises(AssertionError, match="a write is sent again only when it has not arrived"):
        check_bus(lambda: _Stubborn(make_world()))


def test_a_bus_that_breaks_the_contract_is_told_which_promise():
    with pytest.raises(AssertionError, match="a read returns exactly the bytes asked for"):
        check_bus(lambda: _Forgetful(make_world()))
