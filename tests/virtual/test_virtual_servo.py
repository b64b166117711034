"""The virtual servo at its registers, byte for byte."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge.bus.protocols.v1 import encode
from axbridge.servo.columns import Command, State
from tests.support.virtual_rig import Wire, make_world

PING, READ, WRITE, REG_WRITE, ACTION, RESET, REBOOT, SYNC_WRITE = 1, 2, 3, 4, 5, 6, 8, 0x83


@pytest.fixture
def wire():
    return Wire(make_world(return_delay_time=0))


# -- golden vectors --------------------------------------------------------------------------------------------------


OK_0, OK_1, PING_0, PING_1 = "FF FF 00 02 00 FD", "FF FF 01 02 00 FC", "FF FF 00 02 01 FC", "FF FF 01 02 01 FB"


@pytest.mark.parametrize(
    ("id_", "exchanges"),
    [
        pytest.param(1, [(PING_1, OK_1)], id="ping"),
        pytest.param(1, [("FF FF 01 04 02 2B 01 CC", "FF FF 01 03 00 1E DD")], id="temperature"),
        pytest.param(
            5, [("FF FF FE 02 01 FE", "FF FF 05 02 00 F8")], id="a broadcast ping has the own id in its answer"
        ),
        pytest.param(7, [("FF FF FE 04 03 03 01 F6", ""), (PING_1, OK_1)], id="an id by broadcast is taken in silence"),
        pytest.param(
            1, [("FF FF 01 04 03 03 00 F4", OK_1), (PING_1, ""), (PING_0, OK_0)], id="a new id counts after the answer"
        ),
        pytest.param(1, [("FF FF 01 02 05 F7", "FF FF 01 02 40 BC")], id="action without a registered instruction"),
        pytest.param(1, [("FF FF 01 02 08 F4", "FF FF 01 02 40 BC")], id="no reboot"),
        pytest.param(1, [("FF FF FE 09 92 00 02 01 1E 02 02 24 1D", "")], id="no bulk read"),
        pytest.param(
            1, [("FF FF 01 02 7F 7D", "FF FF 01 02 40 BC"), ("FF FF FE 02 7F 80", "")], id="unknown instruction"
        ),
        pytest.param(1, [("FF FF 01 02 01 00", "FF FF 01 02 10 EC")], id="bad checksum for the own id"),
        pytest.param(1, [("FF FF FE 02 01 00", ""), ("FF FF 02 02 01 00", "")], id="bad checksum for all or another"),
        pytest.param(0, [("FF FF 00 04 03 04 01 F3", OK_0)], id="set baud 1"),
        pytest.param(0, [("FF FF 00 04 03 05 02 F1", OK_0)], id="return delay 2"),
        pytest.param(0, [("FF FF 00 05 03 08 FF 01 EF", OK_0)], id="angle limit"),
        pytest.param(0, [("FF FF 00 04 03 0B 50 9D", OK_0)], id="temperature limit"),
        pytest.param(0, [("FF FF 00 05 03 0E FF 01 E9", OK_0)], id="max torque"),
        pytest.param(0, [("FF FF 00 05 03 11 04 04 DE", OK_0)], id="alarms"),
        pytest.param(
            0,
            [
                ("FF FF 00 04 03 10 00 E8", OK_0),
                ("FF FF 00 04 02 2B 01 CD", ""),
                ("FF FF 00 04 03 19 01 DE", ""),
                (PING_0, OK_0),
            ],
            id="status return level 0 is acknowledged and then silent",
        ),
    ],
)
def test_golden_packets(id_, exchanges):
    wire = Wire(make_world(ids=(id_,)), patience=0.03)
    for request, reply in exchanges:
        wire.expect(request, reply)
        wire.wait(0.1)


def test_full_table_is_one_status_of_56_bytes(wire):
    reply = wire("FF FF 01 04 02 00 32 C6")
    assert len(reply) == 56
    assert reply[:5] == bytes.fromhex("FF FF 01 34 00")
    assert reply[5] == 12
    assert sum(reply[2:]) & 0xFF == 0xFF


def test_registered_goal_waits_for_action(wire):
    wire.expect("FF FF 01 05 04 1E F4 01 E2", "FF FF 01 02 00 FC")
    assert wire.read(44, 1) == 1
    assert wire.read(30, 2) == 512
    wire.expect("FF FF FE 02 05 FA", "")
    assert wire.read(44, 1) == 0
    assert wire.read(30, 2) == 500


def test_new_baud_counts_after_the_answer():
    wire = Wire(make_world(ids=(0,)))
    wire.expect(encode(0, WRITE, b"\x04\x03").hex(" "), "FF FF 00 02 00 FD")
    wire.wait(0.1)
    wire.expect("FF FF 00 02 01 FC", "")
    wire.line.baud = 500_000
    wire.expect("FF FF 00 02 01 FC", "FF FF 00 02 00 FD")


def test_several_state_bits_in_one_answer(wire):
    wire.world.inject("overload:1,overheat:1")
    wire.wait(0.1)
    wire.expect("FF FF 01 02 01 FB", "FF FF 01 02 24 D8")


def test_lock_keeps_the_eeprom():
    wire = Wire(make_world(ids=(0,)))
    wire.expect("FF FF 00 04 03 2F 01 C8", "FF FF 00 02 00 FD")
    assert wire.write(12, 70, id=0) == 0x08
    assert wire.write(25, 1, id=0) == 0


def test_factory_reset_answers_with_the_old_id():
    wire = Wire(make_world(ids=(0,), temperature_limit=50))
    wire.expect("FF FF 00 02 06 F7", "FF FF 00 02 00 FD")
    wire.wait(0.5)
    wire.expect("FF FF 01 02 01 FB", "FF FF 01 02 00 FC")
    assert wire.read(11, 1) == 70


def test_sync_write_of_goal_and_speed_to_four():
    wire = Wire(make_world(ids=(0, 1, 2, 3), return_delay_time=0))
    wire.expect("FF FF FE 18 83 1E 04 00 10 00 50 01 01 20 02 60 03 02 30 00 70 01 03 20 02 80 03 12", "")
    goals = [(wire.read(30, 2, id_), wire.read(32, 2, id_)) for id_ in range(4)]
    assert goals == [(0x10, 0x150), (0x220, 0x360), (0x30, 0x170), (0x220, 0x380)]


# -- register rules --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "data", "error"),
    [
        pytest.param(30, (0xA0, 0x0F), 0x08, id="a value out of range"),
        pytest.param(30, (100, 0), 0x02, id="a goal outside the angle limits"),
        pytest.param(24, (1, 5), 0x08, id="one bad value of two"),
        pytest.param(30, (0,), 0x08, id="the first half of a word"),
        pytest.param(31, (1,), 0x08, id="the second half of a word"),
        pytest.param(36, (0, 1), 0x08, id="read-only registers"),
        pytest.param(0, (13, 0), 0x08, id="the model number"),
        pytest.param(32, (0xDC, 5), 0x08, id="the speed of a wheel for a joint"),
        *(pytest.param(place, (1, 2, 3), 0x08, id=f"past the table at {place}") for place in (48, 49, 50, 200, 255)),
    ],
)
def test_a_write_that_is_refused_changes_nothing(address, data, error):
    wire = Wire(make_world(return_delay_time=0, cw_angle_limit=200, ccw_angle_limit=800))
    before = bytes(wire.world.servos["s1"].table.data)
    assert wire.write(address, *data) == error
    assert wire.world.servos["s1"].table.data == before


SIDE_EFFECTS = {24, 30, 31, 34, 35, 44, *range(36, 47)}  # torque, goal, torque limit, present registers


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 255), st.binary(min_size=1, max_size=60), st.sampled_from(["ax-12", "ax-12a", "mx-28"]))
def test_any_write_changes_its_own_range_or_nothing(address, data, profile):
    wire = Wire(make_world(profile=profile, timing="none"))
    table = wire.world.servos["s1"].table
    before = bytes(table.data)
    reply = wire(encode(1, WRITE, bytes((address,)) + data))
    after = bytes(table.data)
    assert len(after) == len(before)
    changed = {place for place in range(len(after)) if after[place] != before[place]}
    assert changed <= SIDE_EFFECTS | set(range(address, address + len(data)))
    if reply[4] & 0x08:
        assert changed <= set(range(36, 47))


def test_a_read_past_the_table_is_refused_without_data(wire):
    assert wire(encode(1, READ, bytes((49, 2)))) == encode(1, 0x08)


def test_several_registers_in_one_write(wire):
    assert wire.write(30, 0xF4, 0x01, 0xFF, 0x03) == 0
    assert (wire.read(30, 2), wire.read(32, 2)) == (500, 1023)


def test_lock_cannot_be_taken_back(wire):
    assert wire.write(47, 0) == 0x08
    assert wire.write(47, 1) == 0
    assert wire.write(47, 0) == 0x08
    wire.world.power_cycle()
    wire.wait(0.2)
    assert wire.read(47, 1) == 0


@pytest.mark.parametrize("instruction", [READ, WRITE, REG_WRITE])
def test_too_few_parameters(wire, instruction):
    assert wire(encode(1, instruction, b"\x1e")) == encode(1, 0x40)


# -- torque and motion -----------------------------------------------------------------------------------------------


def test_a_goal_switches_the_torque_on_and_the_shaft_arrives(wire):
    assert wire.read(24, 1) == 0
    wire.write(30, *(700).to_bytes(2, "little"))
    assert wire.read(24, 1) == 1
    assert wire.read(46, 1) == 1
    wire.wait(2)
    assert abs(wire.read(36, 2) - 700) <= 1
    assert wire.read(46, 1) == 0


def test_torque_on_holds_where_the_hand_has_put_it(wire):
    wire.world.bank.state[0, State.ANGLE] = wire.world.bank.state[0, State.READING] = 0.5
    wire.write(24, 1)
    assert wire.read(30, 2) == wire.read(36, 2) == 512 + round(0.5 / 0.0051182)


def test_speed_and_load_have_a_direction_bit(wire):
    wire.write(30, 0, 0)
    wire.wait(0.05)
    assert wire.read(38, 2) & 0x400
    assert wire.read(40, 2) & 0x400
    wire.write(30, *(1023).to_bytes(2, "little"))
    wire.wait(0.05)
    assert not wire.read(38, 2) & 0x400


def test_wheel_mode_is_a_duty_and_takes_no_goal():
    wire = Wire(make_world(cw_angle_limit=0, ccw_angle_limit=0))
    assert wire.write(30, 100, 0) == 0x02
    assert wire.write(32, *(1024 + 512).to_bytes(2, "little")) == 0
    assert wire.read(24, 1) == 0  # it turns although Torque Enable reads 0
    wire.wait(0.05)
    assert wire.world.bank.command[0, Command.DUTY] == pytest.approx(-512 / 1023)
    assert wire.world.bank.state[0, State.SPEED] < 0
    wire.write(24, 0)
    assert wire.world.bank.command[0, Command.TORQUE] == 0


def test_max_torque_is_loaded_at_power_on_only(wire):
    wire.write(14, 0, 2)
    wire.wait(0.1)
    assert wire.read(34, 2) == 1023
    wire.world.power_cycle()
    wire.wait(0.2)
    assert wire.read(34, 2) == 512


def test_power_cycle_keeps_eeprom_and_forgets_ram(wire):
    wire.write(11, 60)
    wire.wait(0.1)
    wire.write(30, 0, 2)
    wire.write(26, 9)
    wire.world.power_cycle()
    wire.wait(0.2)
    assert (wire.read(11, 1), wire.read(26, 1), wire.read(24, 1)) == (60, 1, 0)


def test_a_servo_told_to_write_eeprom_is_deaf_afterwards(wire):
    assert wire.write(12, 61, 139) == 0
    assert wire.write(25, 1) is None
    wire.wait(0.013)
    assert wire.write(25, 1) == 0


def test_an_eeprom_byte_that_keeps_its_value_makes_nobody_deaf(wire):
    assert wire.write(8, 255, 3) == 0  # as it was
    assert wire.write(8, 254, 3) == 0  # 10 ms later; one byte of two changes
    assert wire.write(25, 1) == 0


def test_a_strict_servo_burns_bytes_that_keep_their_value_too(wire):
    wire.world.inject("deaf")
    assert wire.write(8, 255, 3) == 0
    assert wire.write(25, 1) is None  # 10 ms later
    wire.world.inject("deaf=0")
    assert wire.write(8, 255, 3) == 0
    assert wire.write(25, 1) == 0


def modes(wire, ccw):
    """What ROBOTIS' dynamixel_workbench writes to make a joint or a wheel, 10 ms apart: error byte of each write."""
    return [wire.write(24, 0), wire.write(6, 0, 0), wire.write(8, ccw & 0xFF, ccw >> 8), wire.write(24, 1)]


def test_the_toolbox_of_robotis_makes_wheels_and_joints(wire):
    assert modes(wire, 1023) == [0, 0, 0, 0]  # a joint already
    assert modes(wire, 0) == [0, 0, 0, None]  # both bytes of the limit change: deaf for 12 ms
    wire.wait(0.01)
    assert wire.read(6, 4) == 0
    assert modes(wire, 0) == [0, 0, 0, 0]


def test_the_toolbox_of_robotis_makes_no_wheel_of_a_strict_servo(wire):
    wire.world.inject("deaf")
    assert modes(wire, 0) == [0, 0, None, 0]  # the second limit comes too early
    assert wire.read(6, 4) == 1023 << 16
