"""The virtual Feetech servo at its registers, byte for byte (SMS/STS memory table)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.config.instructions import Instruction
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import FeetechError
from axbridge.servo.columns import Command, Mode
from tests.support.virtual_rig import Host, make_world

COUNT = FirmwareProfile.load("sts3215").units.position
NAMES = ("sts3215", "sts3250", "scs0009")


def host_of(profile="sts3215", ids=(1,), volts=7.4):
    return Host(make_world(ids, profile, volts=volts, return_delay_time=0), ids[0])


@pytest.fixture
def host():
    return host_of()


def turn_to(host, counts):
    """Let the shaft be so many counts from the middle."""
    host.state(angle=counts * COUNT, reading=counts * COUNT)


def power_cycle(host):
    host.servo.power_cycle(host.world.now())
    host.wait(0.6)


# -- bytes of the line -----------------------------------------------------------------------------------------------

GOLDEN = {  # question: answer
    "FF FF 01 02 01 FB": "FF FF 01 02 00 FC",  # ping
    "FF FF 01 04 02 03 02 F3": "FF FF 01 04 00 09 03 EE",  # model 777, little-endian
    "FF FF 01 04 02 38 02 BE": "FF FF 01 04 00 00 08 F2",  # present position 2048
    "FF FF 01 05 03 2A E8 03 E1": "FF FF 01 02 00 FC",  # goal position 1000
    "FF FF 01 02 7F 7D": "",  # an unknown instruction
    "FF FF 01 02 01 00": "",  # a bad checksum
    "FF FF FE 02 01 FE": "FF FF 01 02 00 FC",  # a ping to all
}


@pytest.mark.parametrize(("request_", "reply"), GOLDEN.items())
def test_golden_packets(host, request_, reply):
    host.wire.expect(request_, reply)


def test_words_of_scs_servos_are_big_endian():
    host = host_of("scs0009", volts=6.0)
    host.wire.expect("FF FF 01 04 02 03 02 F3", "FF FF 01 04 00 05 04 F1")  # model 1284
    host.wire.expect("FF FF 01 04 02 38 02 BE", "FF FF 01 04 00 02 00 F8")  # position 512


def test_a_sync_read_is_answered_by_each_servo_in_the_order_asked():
    host = host_of(ids=(1, 2, 3))
    host.wire.expect("FF FF FE 06 82 38 02 03 01 3B", "FF FF 03 04 00 00 08 F0 FF FF 01 04 00 00 08 F2")


def test_scs_servos_know_no_sync_read():
    host = host_of("scs0009", (1, 2), 6.0)
    host.wire.expect("FF FF FE 06 82 38 02 01 02 3C", "")


@pytest.mark.parametrize(("profile", "ids"), [("sts3215", [1, 2, 9]), ("sts3250", [1, 2, 9]), ("scs0009", [])])
def test_a_ping_to_all_is_answered_by_each_in_its_own_time(profile, ids):
    host = host_of(profile, (2, 1, 9), 6.0)
    assert [packet.id for packet in host.ask(Instruction.PING, id=BROADCAST) if packet.intact] == ids


def test_what_each_level_answers(host):
    assert host.write("status_return_level", 0) == 0
    assert host.write("torque_enable", 1) is None
    assert host.read("torque_enable") == 1
    assert len(host.ask(Instruction.PING)) == 1


@pytest.mark.parametrize("profile", NAMES)
@given(data=st.data())
def test_a_register_says_what_was_put_into_it(profile, data):
    registers = FirmwareProfile.load(profile).registers
    at = registers[data.draw(st.sampled_from(sorted(registers)))]
    value = data.draw(st.integers(*at.span))
    assert at.decode(at.encode(value)) == value


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("homing_offset", -1000, "E8 0B"),
        ("present_load", -1000, "E8 07"),
        ("goal_velocity", -2, "02 80"),
        ("present_position", -5, "05 80"),
    ],
)
def test_signs_are_a_bit_beside_a_magnitude(name, value, data):
    assert FirmwareProfile.load("sts3215").register(name).encode(value) == bytes.fromhex(data)


@pytest.mark.parametrize("name", ["sts", "scs"])
@given(values=st.lists(st.tuples(st.integers(0, 252), st.binary(min_size=8, max_size=8)), min_size=1, max_size=20))
def test_what_servos_answer_together_is_told_apart(name, values):
    protocol = PROTOCOLS[name]
    heard = b"".join(protocol.encode_status(id_, 0, data) for id_, data in values)
    found = protocol.group_answers(Instruction.SYNC_READ, heard, [id_ for id_, _ in values], 8)
    assert found == {id_: (0, data) for id_, data in values}


# -- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", NAMES)
def test_eeprom_that_was_written_while_locked_acts_at_once_and_is_forgotten(profile):
    host = host_of(profile, volts=6.0)
    factory = host.read("p_gain")
    host.write("p_gain", 7)
    assert host.read("p_gain") == host.command[Command.P_GAIN] == 7
    power_cycle(host)
    assert host.read("p_gain") == factory
    host.write("lock", 0)
    host.write("p_gain", 8)
    host.write("lock", 1)
    host.write("p_gain", 9)
    power_cycle(host)
    assert (host.read("p_gain"), host.read("lock")) == (8, 1)


def test_a_factory_reset_lasts(host):
    host.write("lock", 0)
    host.write("p_gain", 8)
    host.ask(Instruction.FACTORY_RESET)
    host.wait(1.0)
    power_cycle(host)
    assert host.read("p_gain") == 32


# -- position --------------------------------------------------------------------------------------------------------


def test_the_homing_offset_is_taken_from_the_encoder_and_given_back_to_goals(host):
    host.write("homing_offset", 100)
    assert host.read("present_position") == 1948
    host.write("goal_position", 1948)
    assert host.command[Command.GOAL] == pytest.approx(0.0)


def test_positions_stay_within_a_turn_unless_phase_says_otherwise(host):
    turn_to(host, 2100)
    assert host.read("present_position") == 2048 + 2100 - 4096
    host.write("goal_position", 60)  # a little further on
    assert host.command[Command.GOAL] == pytest.approx(2108 * COUNT)
    host.write("torque_enable", 0)
    host.write("phase", 0x10)
    turn_to(host, 2100)
    assert host.read("present_position") == 2048 + 2100


def test_128_in_torque_enable_makes_the_present_place_the_middle_for_good(host):
    turn_to(host, -700)
    assert host.write("torque_enable", 128) == 0
    assert (host.read("present_position"), host.read("homing_offset"), host.read("torque_enable")) == (2048, -700, 0)
    power_cycle(host)
    assert host.read("present_position") == 2048


def test_a_goal_outside_the_limits_is_clipped_in_silence(host):
    host.write("max_position_limit", 3000)
    assert host.write("goal_position", 4000) == 0
    assert host.read("goal_position") == 3000


# -- the loop --------------------------------------------------------------------------------------------------------


def test_the_goal_moves_within_the_servo_at_most_3400_counts_a_second(host):
    host.write("goal_position", 3000)
    assert host.command[Command.SPEED] == pytest.approx(3400 * COUNT)
    host.write("goal_velocity", 500)
    assert host.command[Command.SPEED] == pytest.approx(500 * COUNT)


def test_a_goal_time_is_how_long_the_way_takes(host):
    host.write("goal_time", 2000)
    host.write("goal_position", 2548)
    assert host.command[Command.SPEED] == pytest.approx(250 * COUNT)


def test_registers_of_the_loop_reach_the_motor(host):
    for name, value in {"acceleration": 3, "cw_dead_zone": 4, "ccw_dead_zone": 5, "minimum_startup_force": 50}.items():
        host.write(name, value)
    row = host.command
    assert row[Command.ACCELERATION] == pytest.approx(300 * COUNT)
    assert (row[Command.MARGIN_CW], row[Command.MARGIN_CCW]) == pytest.approx((4 * COUNT, 5 * COUNT))
    assert row[Command.PUNCH] == pytest.approx(0.05)
    assert row[Command.TORQUE_LIMIT] == pytest.approx(0.97)
    host.write("torque_limit", 300)
    assert host.command[Command.TORQUE_LIMIT] == pytest.approx(0.3)


def test_modes_of_a_velocity_a_duty_and_steps(host):
    host.write("operating_mode", 1)
    host.write("goal_velocity", -500)
    assert (host.command[Command.MODE], host.command[Command.SPEED]) == pytest.approx((Mode.WHEEL_SPEED, -500 * COUNT))
    host.write("operating_mode", 2)
    host.write("goal_time", 300 | 0x400)
    assert (host.command[Command.MODE], host.command[Command.DUTY]) == pytest.approx((Mode.WHEEL_DUTY, -0.3))
    host.write("torque_enable", 0)
    turn_to(host, 300)
    host.write("operating_mode", 3)
    host.write("torque_enable", 1)
    assert (host.command[Command.MODE], host.command[Command.GOAL]) == pytest.approx((Mode.JOINT, 300 * COUNT))
    host.write("goal_position", -100)
    assert host.command[Command.GOAL] == pytest.approx(200 * COUNT)


# -- protection ------------------------------------------------------------------------------------------------------


def test_an_overload_leaves_protective_torque_until_the_goal_is_on_the_other_side(host):
    host.world.bank.stall[0] = True
    host.write("protection_time", 20)  # 0.2 s
    host.write("goal_position", 3000)
    host.wait(0.1)
    assert host.ask(Instruction.PING)[0].code == 0
    host.wait(0.2)
    assert host.ask(Instruction.PING)[0].code == host.read("status") == FeetechError.OVERLOAD
    assert host.command[Command.TORQUE_LIMIT] == pytest.approx(0.2)
    host.write("goal_position", 2900)
    assert host.command[Command.TORQUE_LIMIT] == pytest.approx(0.2)
    assert host.read("torque_enable") == 1
    host.write("goal_position", 1000)
    assert host.command[Command.TORQUE_LIMIT] == pytest.approx(0.97)
    host.wait(0.1)
    assert host.ask(Instruction.PING)[0].code == 0


def test_switching_the_torque_ends_an_overload(host):
    host.write("torque_enable", 1)
    host.servo.overload(host.world.now())
    assert host.ask(Instruction.PING)[0].code == FeetechError.OVERLOAD
    host.write("torque_enable", 0)
    assert host.write("torque_enable", 1) == 0
    assert host.command[Command.TORQUE_LIMIT] == pytest.approx(0.97)


def test_too_much_current_for_too_long_takes_the_torque_away(host):
    host.write("overcurrent_time", 20)
    host.write("goal_position", 3000)
    host.state(current=310 * 0.0065 + 0.1)
    host.wait(0.3)
    assert host.read("torque_enable") == 0
    host.state(current=0.0)
    host.wait(0.1)
    assert host.write("torque_enable", 1) == 0
    assert host.read("torque_enable") == 1


def test_what_it_measures(host):
    host.write("goal_position", 1048)
    host.state(current=-0.65, temperature=41.0)
    host.wait(0.05)
    names = ("present_load", "present_current", "present_velocity", "present_voltage", "present_temperature", "moving")
    assert [host.read(name) for name in names] == [-970, 100, -3400, 74, 41, 1]
