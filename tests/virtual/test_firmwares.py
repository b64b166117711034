"""What differs between firmwares: the AX-12 of 2006, alarms and recovery, the MX-28."""

import math

import pytest

from axbridge.bus.protocols.v1 import Decoder, encode
from axbridge.errors import ErrorFlag
from axbridge.servo.columns import Command, State
from tests.support.virtual_rig import Wire, make_world

READ, WRITE, ACTION, RESET, REBOOT, BULK_READ = 2, 3, 5, 6, 8, 0x92


def word(value):
    return tuple((value & 0xFFFF).to_bytes(2, "little"))


def error(wire, id=1):
    return wire(encode(id, 1))[4]


@pytest.fixture
def old():
    return Wire(make_world(ids=(0,), profile="ax-12"), patience=0.03)


@pytest.fixture
def mx():
    return Wire(make_world(profile="mx-28", return_delay_time=0), patience=0.03)


# -- the AX-12 of 2006 -----------------------------------------------------------------------------------------------


def test_voltage_limits_up_to_25_volts(old):
    old.expect("FF FF 00 05 03 0C 64 AA DD", "FF FF 00 02 00 FD")


def test_lock_leaves_only_24_to_35(old):
    old.expect("FF FF 00 04 03 2F 01 C8", "FF FF 00 02 00 FD")
    old.expect("FF FF 00 05 03 30 40 00 87", "FF FF 00 02 08 F5")
    assert old.write(34, *word(500), id=0) == 0
    assert old.write(35, 1, id=0) == 0x08


def test_a_shutdown_takes_torque_enable_and_only_that_gives_it_back(old):
    servo = old.world.servos["s0"]
    old.write(18, 0x24, id=0)
    old.write(30, *word(600), id=0)
    old.world.inject("overload:0")
    old.wait(0.05)
    assert error(old, 0) == ErrorFlag.OVERLOAD
    assert old.read(24, 1, id=0) == 0
    old.write(30, *word(500), id=0)
    old.write(34, *word(1000), id=0)
    assert old.read(24, 1, id=0) == 0
    old.write(24, 1, id=0)
    old.wait(0.05)
    assert error(old, 0) == 0
    assert servo.firmware.driven


def test_one_byte_of_a_word_where_a_profile_takes_it(tmp_path):
    path = tmp_path / "dx.toml"
    path.write_text('base = "ax-12a"\nname = "dx"\n[behaviour]\nsplit_word_write = "accept"', encoding="utf-8")
    wire = Wire(make_world(profile=str(path), cw_angle_limit=1))
    assert wire.write(30, 0) == 0
    assert wire.read(30, 2) == 512
    assert wire.write(31, 1) == 0
    assert wire.read(30, 2) == 256


@pytest.mark.parametrize(
    ("flag", "request_", "reply"),
    [
        ('out_of_table = "silent"', encode(1, READ, b"\x31\x04"), b""),
        ('out_of_table = "zeros"', encode(1, READ, b"\x31\x04"), encode(1, 0, b"\0\0\0\0")),
        ('read_only_write = "ignore"', encode(1, WRITE, b"\x24\x01\x01"), encode(1, 0)),
        ('bad_checksum = "silent"', b"\xff\xff\x01\x02\x01\x00", b""),
        ('broadcast_ping = "ignore"', encode(0xFE, 1), b""),
        ('reset_0x06 = "ignore"', encode(1, RESET), b""),
        ('short_instruction = "reply_0x08"', encode(1, READ, b"\x01"), encode(1, 0x08)),
        ('goal_outside_limits = "clamp"', encode(1, WRITE, b"\x1e\x00\x00"), encode(1, 0x02)),
    ],
)
def test_flags_of_a_profile(tmp_path, flag, request_, reply):
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "ax-12a"\nname = "mine"\n[behaviour]\n{flag}', encoding="utf-8")
    wire = Wire(make_world(profile=str(path), cw_angle_limit=100))
    assert wire(request_) == reply
    if "clamp" in flag:
        assert wire.read(30, 2) == 100


# -- alarms ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def wire():
    return Wire(make_world(return_delay_time=0))


def test_a_stalled_servo_shuts_down_and_revives_by_its_torque_limit(wire):
    wire.world.bank.stall[0] = True
    wire.write(30, *word(900))
    wire.wait(1.0)
    assert error(wire) == 0
    wire.wait(1.0)
    assert error(wire) == ErrorFlag.OVERLOAD
    assert wire.read(34, 2) == 0
    assert wire.read(24, 1) == 1
    assert wire.world.bank.command[0, Command.TORQUE] == 0
    wire.world.bank.stall[0] = False
    assert wire.write(34, *word(1023)) == ErrorFlag.OVERLOAD
    wire.wait(0.5)
    assert error(wire) == 0
    assert wire.world.bank.command[0, Command.TORQUE] == 1


def test_without_its_bit_in_shutdown_an_overload_is_only_reported(wire):
    wire.write(18, 0)
    wire.wait(0.05)
    wire.world.bank.stall[0] = True
    wire.write(30, *word(900))
    wire.wait(2.0)
    assert error(wire) == ErrorFlag.OVERLOAD
    assert wire.read(34, 2) == 1023
    wire.world.bank.stall[0] = False
    wire.wait(0.5)
    assert error(wire) == 0


def test_input_voltage_is_a_state_bit_of_every_answer(wire):
    wire.world.bank.supply[:] = 5.5
    wire.wait(0.1)
    assert error(wire) == ErrorFlag.INPUT_VOLTAGE
    assert wire.write(30, *word(4000)) == ErrorFlag.INPUT_VOLTAGE | ErrorFlag.RANGE
    assert wire.read(42, 1) == 55
    wire.world.bank.supply[:] = 11.1
    wire.wait(0.1)
    assert error(wire) == 0


def test_overheating_shuts_down(wire):
    wire.write(30, *word(600))
    wire.world.bank.state[0, State.TEMPERATURE] = 75
    wire.wait(0.05)
    assert error(wire) == ErrorFlag.OVERHEATING
    assert wire.world.bank.command[0, Command.TORQUE] == 0


# -- MX-28 -----------------------------------------------------------------------------------------------------------


def test_mx_knows_reboot(mx):
    mx.write(26, 5)
    mx.expect("FF FF 01 02 08 F4", "FF FF 01 02 00 FC")
    mx.wait(0.2)
    assert mx.read(26, 1) == 0


def test_bulk_read_is_answered_in_the_order_listed():
    wire = Wire(make_world(ids=(1, 2), profile="mx-28", return_delay_time=0))
    heard = wire("FF FF FE 09 92 00 02 01 1E 02 02 24 1D")
    assert [(packet.id, len(packet.params), packet.intact) for packet in Decoder().feed(heard)] == [
        (1, 2, True),
        (2, 2, True),
    ]
    heard = wire(encode(0xFE, BULK_READ, b"\x00\x02\x02\x24\x01\x01\x2b"))
    assert [packet.id for packet in Decoder().feed(heard)] == [2, 1]


def test_bulk_read_waits_in_vain_for_a_servo_that_is_not_there():
    wire = Wire(make_world(ids=(1, 2), profile="mx-28", return_delay_time=0))
    assert [
        packet.id for packet in Decoder().feed(wire(encode(0xFE, BULK_READ, b"\x00\x02\x09\x24\x02\x01\x24")))
    ] == []


def test_mx_wheel_is_a_speed(mx):
    mx.write(6, *word(0), *word(0))
    mx.wait(0.1)
    mx.write(24, 1)
    mx.write(32, *word(0x400 | 100))
    mx.wait(0.1)
    assert mx.world.bank.command[0, Command.SPEED] == pytest.approx(-100 * 0.114 * 2 * 3.14159265 / 60)
    assert mx.read(38, 2) == 0x400 | 100


def test_mx_multi_turn_takes_signed_goals_beyond_a_turn(mx):
    assert mx.write(30, *word(5000)) == 0x08
    mx.write(6, *word(4095), *word(4095))
    mx.wait(0.1)
    assert mx.write(30, *word(-3000)) == 0
    mx.wait(3)
    assert abs(mx.read(36, 2, signed=True) + 3000) <= 2
    assert mx.write(30, *word(28673)) == 0x08


def test_mx_divider_and_offset_count_within_the_first_turn_too(mx):
    mx.write(6, *word(4095), *word(4095))
    mx.wait(0.1)
    before = mx.read(36, 2)
    mx.write(20, *word(100), 2)  # Multi Turn Offset and Resolution Divider
    mx.wait(0.1)
    assert mx.read(36, 2) == before // 2 + 100


@pytest.mark.slow
@pytest.mark.ci
def test_mx_tick_counts_milliseconds_and_wraps(mx):
    mx.wait(40)
    first = mx.read(50, 2)
    assert first == pytest.approx(40_000 - 32_768, abs=150)


def test_mx_overload_stays_until_a_power_cycle(mx):
    mx.world.inject("overload:1")
    mx.wait(0.05)
    mx.write(34, *word(1023))
    assert mx.read(34, 2) == 0
    mx.wait(0.1)
    assert error(mx) == ErrorFlag.OVERLOAD
    mx.world.power_cycle()
    mx.wait(0.2)
    assert error(mx) == 0


def test_gains_and_acceleration_reach_the_loop(mx):
    mx.write(26, 3, 2, 40)
    mx.write(73, 10)
    row = mx.world.bank.command[0]
    assert (row[Command.D_GAIN], row[Command.I_GAIN], row[Command.P_GAIN]) == (3, 2, 40)
    assert row[Command.ACCELERATION] == pytest.approx(1.498, abs=1e-3)


@pytest.mark.parametrize(
    ("written", "effective"), [(0, 2), (3, 2), (4, 4), (15, 8), (16, 16), (63, 32), (64, 64), (128, 128), (254, 128)]
)
def test_compliance_slopes_snap(wire, written, effective):
    wire.write(28, written)
    assert wire.read(28, 1) == written
    assert wire.world.bank.command[0, Command.SLOPE_CW] == pytest.approx(effective * 0.00511826, rel=1e-4)


# -- sensors ---------------------------------------------------------------------------------------------------------


def turned(tmp_path, degrees, quirk="none"):
    """A wheel of an AX-12A at an angle of its own scale, read as position and speed."""
    path = tmp_path / f"{quirk}.toml"  # a profile is read once a process
    path.write_text(f'base = "ax-12a"\nname = "quirky"\n[behaviour]\nspeed_quirk = "{quirk}"', encoding="utf-8")
    wire = Wire(make_world(profile=str(path), cw_angle_limit=0, ccw_angle_limit=0))
    wire.write(32, *word(300))
    wire.wait(0.05)
    state = wire.world.bank.state
    wire.world.bank.advance = lambda _: None
    state[0, State.READING] = math.radians(degrees - 512 * 300 / 1023)
    return wire


@pytest.mark.parametrize(("degrees", "count"), [(0, 0), (150, 512), (300, 1023), (310, 1023), (350, 0), (510, 512)])
def test_the_dead_zone_reads_as_its_nearer_end(tmp_path, degrees, count):
    assert turned(tmp_path, degrees).read(36, 2) == pytest.approx(count, abs=1)


def test_some_firmwares_set_stray_bits_in_the_speed_of_a_wheel(tmp_path):
    assert turned(tmp_path, 100, "none").read(38, 2) < 0x800
    assert turned(tmp_path, 100, "garbage_high_bits").read(38, 2) >= 0x800


def test_some_firmwares_keep_the_speed_of_a_shaft_that_has_stopped(tmp_path):
    wire = turned(tmp_path, 100, "stale")
    moving = wire.read(38, 2)
    wire.world.bank.state[0, State.SPEED] = 0.0
    assert wire.read(38, 2) == moving > 0
    wire.world.bank.state[0, State.READING] += 0.1
    assert wire.read(38, 2) == 0
