"""Every write lands once, or it is said why not: by status return level, mishap and kind of register."""

import pytest

from axbridge.bus.commission import (
    answers_ping,
    apply_registers,
    read_register,
    read_start,
    write_blindly,
    write_register,
)
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import Instruction
from axbridge.errors import BusTimeout, ServoFault, UsageError
from axbridge.virtual.bus import VirtualBus
from tests.support.virtual_rig import make_world

AX = FirmwareProfile.load("ax-12a")


class Lossy(VirtualBus):
    """Loses questions and answers by plan; counts the writes that went out."""

    def __init__(self, world, fates=()):
        super().__init__(world)
        self.fates = iter(fates)  # one a write: "ok", "question" or "answer" is lost
        self.sent = []

    def _transfer(self, frame, id, length):
        if frame[4] != Instruction.WRITE:
            return super()._transfer(frame, id, length)
        self.sent.append(frame)
        fate = next(self.fates, "ok")
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
        bus.silent = frozenset({1})
    return bus


def test_eight_of_eight_eeprom_writes_land_at_level_1_with_one_write_each(strict):
    bus = bus_with(strict, status_return_level=1)
    for value in (0, 7, 0, 250, 13, 0, 3, 1):
        before = len(bus.sent)
        assert write_register(bus, 1, AX, "return_delay_time", value) == 1
        assert len(bus.sent) == before + 1
        assert read_register(bus, 1, AX.register("return_delay_time")) == value
    assert bus.eeprom_writes == 8


def test_a_write_whose_acknowledgement_is_lost_wears_the_eeprom_once(strict):
    bus = bus_with(strict, ["answer"])
    assert write_register(bus, 1, AX, "ccw_angle_limit", 800) == 2
    assert len(bus.sent) == 1
    assert bus.eeprom_writes == 2


@pytest.mark.parametrize("level", [1, 2])
def test_a_lost_write_is_sent_again_and_counted(level, strict):
    bus = bus_with(strict, ["question", "question"], status_return_level=level)
    assert write_register(bus, 1, AX, "ccw_angle_limit", 800) == 6  # as far as the host can tell, all three arrived
    assert len(bus.sent) == 3
    assert read_register(bus, 1, AX.register("ccw_angle_limit")) == 800


@pytest.mark.parametrize(("level", "fates"), [(2, []), (2, ["answer"]), (2, ["question"]), (1, []), (1, ["question"])])
def test_a_new_id_is_verified_where_the_servo_is_now(level, fates, strict):
    bus = bus_with(strict, fates, status_return_level=level)
    write_register(bus, 1, AX, "id", 9)
    assert len(bus.sent) == 1 + fates.count("question")
    assert bus.ping(9).error == 0
    assert bus.silent == ({9} if level == 1 else frozenset())


def test_a_servo_that_falls_silent_after_a_write_may_have_taken_it():
    bus = bus_with("", ["answer"])
    transfer = bus._transfer

    def breaking(frame, id, length):
        if bus.sent:
            raise BusTimeout(id)
        return transfer(frame, id, length)

    bus._transfer = breaking
    with pytest.raises(BusTimeout, match="return_delay_time = 7 was sent, and may be written"):
        write_register(bus, 1, AX, "return_delay_time", 7)
    assert len(bus.sent) == 1


def test_a_servo_that_is_gone_is_written_to_once():
    bus = bus_with()
    bus._world.inject("dead:1")
    bus._world.sleep_until(0.1)
    with pytest.raises(BusTimeout):
        bus.write(1, 5, b"\x07")
    assert len(bus.sent) == 1


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("name", ["id", "return_delay_time", "baud_rate"])
def test_a_locked_servo_is_named_with_the_remedy_before_anything_is_sent(level, name):
    bus = bus_with(status_return_level=level)
    write_register(bus, 1, AX, "lock", 1)
    sent = len(bus.sent)
    with pytest.raises(ServoFault, match=f"servo 1 is locked: {name} cannot be written") as caught:
        write_register(bus, 1, AX, name, 9)
    assert "supply" in caught.value.hint
    assert len(bus.sent) == sent
    assert write_register(bus, 1, AX, "led", 1) == 0  # RAM is free
    assert apply_registers(bus, 1, AX, {name: 9, "led": 0}).keys() == {name}


def test_a_lock_that_covers_more_than_the_profile_says_is_named_as_well_and_no_write_ends_it():
    bus = bus_with(profile="ax-12")  # the manual of 2006: 24..35 stay free
    write_register(bus, 1, AX, "lock", 1)
    with pytest.raises(ServoFault, match="servo 1 is locked: punch is 32 after writing 40"):
        write_register(bus, 1, AX, "punch", 40)
    with pytest.raises(UsageError, match="supply"):
        write_register(bus, 1, AX, "lock", 0)


@pytest.mark.parametrize("level", [1, 2])
def test_silencing_a_servo_is_verified_by_a_ping(level, strict):
    bus = bus_with(strict, ["answer"], status_return_level=level)
    assert write_register(bus, 1, AX, "status_return_level", 0) == 1
    assert answers_ping(bus, 1)
    with pytest.raises(BusTimeout):
        bus.read(1, 3, 1)


def test_a_mute_servo_takes_a_blind_write_and_answers_again(strict):
    bus = bus_with(strict, status_return_level=0)
    write_blindly(bus, 1, AX, "status_return_level", 2)
    assert len(bus.sent) == 1
    assert write_register(bus, 1, AX, "led", 1) == 0


def test_a_bad_line_makes_no_servo_a_silent_one():
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
