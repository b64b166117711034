import pytest

from axbridge.bus.commission import (
    answers_ping,
    apply_registers,
    read_register,
    read_start,
    reboot,
    write_blindly,
    write_register,
)
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import Instruction
from axbridge.errors import BusTimeout, ServoFault, UsageError
from axbridge.virtual.bus import VirtualBus
from tests.support.virtual_rig import make_world

AX = FirmwareProfile.load("ax-12a")


class Lossy(VirtualBus):
    """Loses requests or replies of writes as planned, and records the frames of all writes."""

    def __init__(self, world, fates=()):
        super().__init__(world)
        # one for each write: "ok", or the "question", the "answer" or the "last answer" is lost
        self.fates = iter(fates)
        self.sent, self.fate = [], ""

    def _transfer(self, frame, id, length):
        if self.fate == "last answer":
            raise BusTimeout(id)
        if frame[4] != Instruction.WRITE:
            return super()._transfer(frame, id, length)
        self.sent.append(frame)
        fate = self.fate = next(self.fates, "ok")
        if fate == "question":
            self.clock.sleep_until(self.clock.now() + 0.003)
        reply = (None, self.clock.now()) if fate == "question" else super()._transfer(frame, id, length)
        if fate != "ok" and length is not None:
            raise BusTimeout(id)
        return reply


@pytest.fixture(params=["", "deaf"])
def strict(request):
    return request.param


def bus_with(strict="", fates=(), **registers):
    world = make_world(**registers)
    world.inject(strict)
    bus = Lossy(world, fates)
    if registers.get("status_return_level", 2) < 2:
        bus.no_write_ack_ids = frozenset({1})
    return bus


@pytest.mark.parametrize(
    ("level", "fates", "sent"),
    [(1, [], 1), (2, ["answer"], 1), (1, ["question", "question"], 3), (2, ["question", "question"], 3)],
)
def test_a_write_is_stored_and_wears_the_eeprom_once_for_each_packet(level, fates, sent, strict):
    bus = bus_with(strict, fates, status_return_level=level)
    for value in (800, 801, 700):
        worn = bus.eeprom_writes
        assert write_register(bus, 1, AX, "ccw_angle_limit", value) == 2 * sent == bus.eeprom_writes - worn
        assert read_register(bus, 1, AX.register("ccw_angle_limit")) == value
        assert len(bus.sent) == sent
        bus.sent.clear()
        sent = 1  # all losses have happened


@pytest.mark.parametrize(("level", "fates"), [(2, []), (2, ["answer"]), (2, ["question"]), (1, []), (1, ["question"])])
def test_a_new_id_is_verified_at_the_new_id(level, fates, strict):
    bus = bus_with(strict, fates, status_return_level=level)
    write_register(bus, 1, AX, "id", 9)
    assert len(bus.sent) == 1 + fates.count("question")
    assert bus.ping(9).error == 0
    assert bus.no_write_ack_ids == ({9} if level == 1 else frozenset())


def test_a_servo_that_stops_answering_after_a_write_may_have_stored_it():
    bus = bus_with("", ["last answer"])
    with pytest.raises(BusTimeout, match="return_delay_time = 7 was sent, and may be written"):
        write_register(bus, 1, AX, "return_delay_time", 7)
    assert len(bus.sent) == 1


def test_a_write_to_a_missing_servo_is_sent_once():
    bus = bus_with()
    bus._world.inject("dead:1")
    bus._world.sleep_until(0.1)
    with pytest.raises(BusTimeout):
        bus.write(1, 5, b"\x07")
    assert len(bus.sent) == 1


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("name", ["id", "return_delay_time", "baud_rate"])
def test_a_locked_servo_is_reported_with_the_remedy_before_anything_is_sent(level, name):
    bus = bus_with(status_return_level=level)
    write_register(bus, 1, AX, "lock", 1)
    sent = len(bus.sent)
    with pytest.raises(ServoFault, match=f"servo 1 is locked: {name} cannot be written.*\n.*supply"):
        write_register(bus, 1, AX, name, 9)
    assert len(bus.sent) == sent
    assert write_register(bus, 1, AX, "led", 1) == 0  # RAM is not locked
    assert apply_registers(bus, 1, AX, {name: 9, "led": 0}).keys() == {name}


def test_a_lock_of_more_registers_than_in_the_profile_is_reported_and_no_write_ends_it():
    bus = bus_with(profile="ax-12")  # the lock leaves 24..35 writable (manual of 2006)
    write_register(bus, 1, AX, "lock", 1)
    with pytest.raises(ServoFault, match="servo 1 is locked: punch is 32 after writing 40"):
        write_register(bus, 1, AX, "punch", 40)
    with pytest.raises(UsageError, match="supply"):
        write_register(bus, 1, AX, "lock", 0)


@pytest.mark.parametrize("level", [1, 2])
def test_status_return_level_0_is_verified_by_a_ping(level, strict):
    bus = bus_with(strict, ["answer"], status_return_level=level)
    assert write_register(bus, 1, AX, "status_return_level", 0) == 1
    assert answers_ping(bus, 1)
    with pytest.raises(BusTimeout):
        bus.read(1, 3, 1)


def test_a_servo_at_status_return_level_0_accepts_an_unverified_write(strict):
    bus = bus_with(strict, status_return_level=0)
    write_blindly(bus, 1, AX, "status_return_level", 2)
    assert len(bus.sent) == 1
    assert write_register(bus, 1, AX, "led", 1) == 0


def test_lost_reads_are_not_mistaken_for_status_return_level_0():
    world = make_world()
    bus = VirtualBus(world)
    lost = iter([True] * 3)

    def reads_lost(id, address, length):
        if next(lost, False):
            raise BusTimeout(id)
        return VirtualBus._read_once(bus, id, address, length)

    bus._read_once = reads_lost
    assert read_start(bus, 1, 3) == bytes((12, 0, 24))
    assert read_start(bus_with(status_return_level=0), 1, 3) is None
    with pytest.raises(BusTimeout):
        read_start(bus, 7, 3)


@pytest.mark.parametrize("lost", ["reboot", "status"])
@pytest.mark.parametrize("name", ["xl430-w250", "sts3215"])
def test_a_reboot_succeeds_although_a_packet_is_lost(name, lost):
    profile, world = FirmwareProfile.load(name), make_world(profile=name)
    bus = VirtualBus(world)
    bus.set_protocol(1, PROTOCOLS[profile.protocol])
    bus.write(1, profile.register("torque_enable").address, b"\1")
    world.inject(f"drop#1:{lost}:1")
    assert reboot(bus, 1, profile)
    assert world.servos["s1"].table["torque_enable"] == 0
