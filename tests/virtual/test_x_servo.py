"""The virtual servo of Protocol 2.0 at its registers, byte for byte (e-manual, "Protocol 2.0" and XL330-M288)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge.bus.protocols import v2
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.config.instructions import Instruction
from axbridge.config.profile import Area, FirmwareProfile
from axbridge.servo.columns import Command, Mode, State
from tests.support.virtual_rig import Host, make_world

RESULT, INSTRUCTION, RANGE, LENGTH, LIMIT, ACCESS = 1, 2, 4, 5, 6, 7
PROFILES = ("xl330-m288", "xl330-m077", "xl430-w250", "mx-28-2.0")
COUNT = 2 * np.pi / 4096


@pytest.fixture
def host():
    return Host(make_world(profile="xl330-m288", return_delay_time=0))


# -- packets ---------------------------------------------------------------------------------------------------------


def test_ping_tells_model_and_firmware(host):
    (answer,) = host.ask(Instruction.PING)
    assert answer == (1, 0, bytes((0xB0, 4, 52)), True, True)


def test_a_damaged_packet_is_answered_by_silence(host):
    frame = bytearray(v2.encode(1, Instruction.PING))
    frame[-1] ^= 1
    assert host.wire(bytes(frame)) == b""


def test_an_unknown_instruction_and_an_action_without_a_registered_write_are_instruction_errors(host):
    assert host.ask(0x77)[0].code == INSTRUCTION
    assert host.ask(Instruction.ACTION)[0].code == INSTRUCTION


@pytest.mark.parametrize(("level", "reads", "writes"), [(0, False, False), (1, True, False), (2, True, True)])
def test_status_return_level_says_what_is_answered(host, level, reads, writes):
    host.write("status_return_level", level)
    assert host.ask(Instruction.PING)
    assert bool(host.ask(Instruction.READ, v2.read_params(64, 1))) is reads
    assert (host.write("led", 1) is not None) is writes


def test_the_answer_begins_after_the_return_delay():
    for units, expected in ((0, 50e-6), (250, 550e-6)):
        world = make_world(profile="xl330-m288", return_delay_time=units)
        line = world.lines["main"]
        line.baud = world.servos["s1"].baud
        line.send(v2.encode(1, Instruction.PING), 0.0)
        asked = line.host_free
        world.sleep_until(0.02)
        (answer,) = line.collect(0.02)
        assert answer.due - asked == pytest.approx(expected + line.seconds(14))


# -- what a write may do ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("register", "value", "size", "error"),
    [
        ("led", 1, 1, 0),
        ("led", 2, 1, RANGE),
        ("goal_position", 100, 2, LENGTH),
        ("present_position", 0, 4, ACCESS),
        ("operating_mode", 2, 1, RANGE),
        ("position_p_gain", 16384, 2, RANGE),
        ("goal_velocity", 446, 4, LIMIT),
        ("goal_pwm", -886, 2, RANGE),
        ("goal_position", 4096, 4, LIMIT),
        ("homing_offset", -1044480, 4, RANGE),
    ],
)
def test_a_write_outside_the_rules_is_refused_by_its_number(host, register, value, size, error):
    before = host.read(register)
    assert host.write(register, value, size) == error
    assert error == 0 or host.read(register) == before or register.startswith("present")


def test_addresses_without_a_register_are_refused(host):
    assert host.ask(Instruction.READ, v2.read_params(14, 2))[0][1:3] == (ACCESS, b"")
    assert host.ask(Instruction.READ, v2.read_params(220, 20))[0][1:3] == (ACCESS, b"")
    assert host.ask(Instruction.WRITE, v2.write_params(14, b"\0"))[0].code == ACCESS
    assert host.ask(Instruction.READ, v2.read_params(64, 5))[0][1:3] == (
        0,
        bytes((0, 0, 0, 0, 2)),
    )  # 66 and 67 are gaps


def test_eeprom_is_locked_while_torque_is_on(host):
    assert host.write("torque_enable", 1) == 0
    assert host.write("id", 2) == ACCESS
    assert host.write("torque_enable", 0) == 0
    assert host.write("id", 2) == 0
    assert not host.ask(Instruction.PING)
    assert host.ask(Instruction.PING, id=2)


def test_limits_are_registers(host):
    for register, value in (("min_position_limit", 1000), ("max_position_limit", 3000), ("velocity_limit", 100)):
        assert host.write(register, value) == 0
    assert host.write("goal_position", 999) == host.write("goal_position", 3001) == LIMIT
    assert host.write("goal_velocity", -101) == LIMIT
    assert host.write("goal_position", 1000) == host.write("goal_velocity", -100) == 0


def test_reg_write_waits_for_action(host):
    host.write("torque_enable", 1)
    assert host.write("goal_position", 3000, code=Instruction.REG_WRITE) == 0
    assert (host.read("registered_instruction"), host.read("goal_position")) == (1, 2048)
    assert host.ask(Instruction.ACTION)[0].code == 0
    assert (host.read("registered_instruction"), host.read("goal_position")) == (0, 3000)


def test_indirect_data_stands_for_other_registers():
    host = Host(make_world(profile="xl330-m288", return_delay_time=0))
    for number, address in enumerate((116, 117, 118, 119, 65), start=2):
        assert host.write(f"indirect_address_{number}", address) == 0
    host.write("torque_enable", 1)
    assert host.ask(Instruction.WRITE, v2.write_params(209, bytes((0, 4, 0, 0, 1))))[0].code == 0
    assert (host.read("goal_position"), host.read("led")) == (1024, 1)
    assert host.ask(Instruction.READ, v2.read_params(209, 5))[0].params == bytes((0, 4, 0, 0, 1))
    assert host.ask(Instruction.WRITE, v2.write_params(209, bytes((0, 4))))[0].code == LENGTH  # half a register
    assert host.write("indirect_address_1", 20) == RANGE  # EEPROM


def test_the_secondary_id_is_obeyed_in_silence_and_not_in_the_eeprom():
    host = Host(make_world(profile="xl330-m288", ids=(1, 5), return_delay_time=0))
    other = Host(host.world, id=5)
    assert host.write("secondary_shadow_id", 5) == other.write("secondary_shadow_id", 5) == 0
    assert [packet.id for packet in host.ask(Instruction.WRITE, v2.write_params(65, b"\1"), id=5)] == [5]
    assert host.read("led") == other.read("led") == 1
    assert other.write("moving_threshold", 20) == 0
    assert (host.read("moving_threshold"), other.read("moving_threshold")) == (10, 20)


# -- modes -----------------------------------------------------------------------------------------------------------


def test_a_change_of_mode_resets_gains_profiles_and_goals(host):
    changed = {"position_p_gain": 1, "profile_velocity": 5, "profile_acceleration": 5, "goal_pwm": 3, "goal_current": 3}
    for register, value in changed.items():
        host.write(register, value)
    assert host.write("operating_mode", 4) == 0
    assert {register: host.read(register) for register in changed} == {
        "position_p_gain": 400, "profile_velocity": 0, "profile_acceleration": 0, "goal_pwm": 885, "goal_current": 1750,
    }  # fmt: skip


def test_a_servo_without_current_control_refuses_its_modes():
    host = Host(make_world(profile="xl430-w250", volts=11.1, return_delay_time=0))
    assert [host.write("operating_mode", mode) for mode in (0, 1, 3, 4, 5, 16)] == [RANGE, 0, 0, 0, RANGE, 0]


@pytest.mark.parametrize(
    ("mode", "goal", "value", "column", "expected", "loop"),
    [
        (3, "goal_position", 3072, Command.GOAL, 1024 * COUNT, Mode.JOINT),
        (4, "goal_position", 2048 + 3 * 4096, Command.GOAL, 6 * np.pi, Mode.JOINT),
        (1, "goal_velocity", -100, Command.SPEED, -100 * 0.229 * 2 * np.pi / 60, Mode.SPEED),
        (16, "goal_pwm", 443, Command.DUTY, 443 / 885, Mode.WHEEL_DUTY),
        (0, "goal_current", -500, Command.CURRENT, -0.5, Mode.CURRENT),
        (5, "goal_current", 300, Command.CURRENT, 0.3, Mode.JOINT_CURRENT),
    ],
)
@pytest.mark.parametrize("reverse", [0, 1])
def test_goals_of_each_mode_reach_the_motor(host, mode, goal, value, column, expected, loop, reverse):
    assert host.write("drive_mode", reverse) == host.write("operating_mode", mode) == 0
    host.write("torque_enable", 1)
    if reverse and column == Command.GOAL:
        value = 4095 - value
    elif reverse and mode != 5:
        expected = -expected
    assert host.write(goal, value) == 0
    assert host.command[Command.MODE] == loop
    assert host.command[column] == pytest.approx(expected)


def test_goal_pwm_caps_the_duty_where_it_is_no_command(host):
    host.write("torque_enable", 1)
    host.write("goal_pwm", 200)
    assert host.command[Command.TORQUE_LIMIT] == pytest.approx(200 / 885)


def test_profile_registers_become_speed_and_acceleration(host):
    host.write("torque_enable", 1)
    host.write("profile_velocity", 100)
    host.write("profile_acceleration", 20)
    host.write("goal_position", 3072)
    rpm = 2 * np.pi / 60
    assert host.command[Command.SPEED] == pytest.approx(22.9 * rpm)
    assert host.command[Command.ACCELERATION] == pytest.approx(20 * 214.577 * rpm / 60)


def test_a_time_based_profile_takes_its_time(host):
    host.write("drive_mode", 4)
    host.write("torque_enable", 1)
    host.write("profile_velocity", 1000)
    host.write("profile_acceleration", 200)
    host.write("goal_position", 3072)
    speed, rise = host.command[Command.SPEED], host.command[Command.ACCELERATION]
    assert (speed / rise, speed * 0.8) == pytest.approx((0.2, 1024 * COUNT))


def test_torque_comes_on_by_a_goal_where_drive_mode_says_so(host):
    host.write("goal_position", 2100)
    assert host.read("torque_enable") == 0
    host.write("drive_mode", 8)
    host.write("goal_position", 2100)
    assert (host.read("torque_enable"), host.read("goal_position")) == (1, 2100)


# -- positions -------------------------------------------------------------------------------------------------------


def turn_by_hand(host, angle):
    host.state(angle=angle, reading=angle)
    host.wait(0.05)


def test_turns_count_without_torque_and_are_forgotten_with_torque_in_position_mode(host):
    turn_by_hand(host, 2 * np.pi * 2 + 0.5)
    assert host.read("present_position") == round(2048 + 2 * 4096 + 0.5 / COUNT)
    host.write("torque_enable", 1)
    assert host.read("present_position") == host.read("goal_position") == round(2048 + 0.5 / COUNT)
    assert host.command[Command.GOAL] == pytest.approx(2 * np.pi * 2 + 0.5, abs=COUNT)


def test_clear_forgets_turns_unless_it_moves(host):
    host.write("operating_mode", 4)
    turn_by_hand(host, -2 * np.pi * 3)
    assert host.read("present_position") == 2048 - 3 * 4096
    assert host.ask(Instruction.CLEAR, b"\x01DXL\x22")[0].code == 0
    assert host.read("present_position") == 2048
    host.write("torque_enable", 1)
    host.write("goal_position", 9000)
    assert host.ask(Instruction.CLEAR, b"\x01DXL\x22")[0].code == RESULT
    assert host.ask(Instruction.CLEAR, b"\x02DXL\x22")[0].code == RANGE


def test_the_homing_offset_is_added_and_a_large_one_ignored_in_position_mode(host):
    host.write("homing_offset", -1000)
    assert host.read("present_position") == 1048
    host.write("homing_offset", 1025)
    assert host.read("present_position") == 2048
    host.write("operating_mode", 4)
    assert host.read("present_position") == 3073


def test_reverse_mode_turns_positions_round(host):
    turn_by_hand(host, 100 * COUNT)
    host.write("drive_mode", 1)
    assert host.read("present_position") == 4095 - 2148


def test_moving_and_its_status_follow_the_profile(host):
    host.write("torque_enable", 1)
    assert (host.read("moving"), host.read("moving_status")) == (0, 0x01)
    host.write("profile_velocity", 50)
    host.world.bank.stall[:] = True
    host.write("goal_position", 3000)
    host.wait(0.01)
    assert host.read("moving_status") & 0x39 == 0x18  # rectangular, not where the trajectory is, not arrived


def test_the_load_that_a_simulation_tells_is_what_a_cycle_reads(host):
    host.write("torque_enable", 1)
    host.world.bank.state[0, [State.DUTY, State.CURRENT]] = 0.5, 0.3
    assert host.world.sample("s1").load == round(0.5 * 885)  # Present PWM, not Present Current


def test_the_realtime_tick_counts_milliseconds(host):
    first = host.read("realtime_tick")
    host.wait(1.0)
    assert host.read("realtime_tick") - first == pytest.approx(1010, abs=15)


# -- Bus Watchdog ----------------------------------------------------------------------------------------------------


def test_the_bus_watchdog_stops_a_servo_nobody_speaks_to(host):
    host.write("operating_mode", 1)
    host.write("torque_enable", 1)
    host.write("goal_velocity", 100)
    assert host.write("bus_watchdog", 10) == 0  # 200 ms
    for _ in range(20):
        host.wait(0.15)
        assert host.read("bus_watchdog") == 10
    assert host.command[Command.SPEED] > 0
    host.wait(0.25)
    assert host.command[Command.SPEED] == 0
    assert (host.read("bus_watchdog"), host.read("torque_enable")) == (-1, 1)
    assert host.write("goal_velocity", 100) == RANGE
    assert host.write("bus_watchdog", 0) == host.write("goal_velocity", 100) == 0


def test_the_bus_watchdog_waits_while_torque_is_off(host):
    host.write("bus_watchdog", 1)
    host.wait(1.0)
    assert host.read("bus_watchdog") == 1


@pytest.mark.parametrize(("mode", "column"), [(0, Command.CURRENT), (16, Command.DUTY)])
def test_an_expired_watchdog_takes_current_and_duty_away(host, mode, column):
    host.write("operating_mode", mode)
    host.write("torque_enable", 1)
    host.write("bus_watchdog", 1)
    assert host.command[column] != 0
    host.wait(0.1)
    assert host.command[column] == 0


# -- hardware errors -------------------------------------------------------------------------------------------------


def test_overload_takes_the_torque_until_a_reboot(host):
    host.write("torque_enable", 1)
    host.world.bank.stall[:] = True
    host.write("goal_position", 4000)
    host.wait(3.1)  # a real one held its load at full duty for so long (docs/servos.md)
    assert host.read("hardware_error_status") == 0
    host.wait(2.5)
    assert host.read("hardware_error_status") == 0x20
    assert (host.read("torque_enable"), host.command[Command.TORQUE]) == (0, 0)
    assert host.write("led", 1) == v2.ALERT
    assert host.write("torque_enable", 1) == v2.ALERT | RESULT
    host.world.bank.stall[:] = False
    assert host.ask(Instruction.REBOOT)[0].code == v2.ALERT
    assert not host.ask(Instruction.PING)  # it starts
    host.wait(0.5)
    assert (host.read("hardware_error_status"), host.write("torque_enable", 1)) == (0, 0)


def test_heat_and_voltage_are_errors_of_their_own(host):
    host.world.inject("overheat:1")
    host.wait(0.1)
    assert (host.read("hardware_error_status"), host.read("present_temperature")) == (0x04, 80)
    other = Host(make_world(profile="xl330-m288", return_delay_time=0))
    other.world.bank.supply[:] = 7.4
    other.wait(0.1)
    assert (other.read("hardware_error_status"), other.read("present_input_voltage")) == (0x01, 74)


def test_an_error_outside_the_shutdown_mask_only_alerts(host):
    host.write("shutdown", 0)
    host.write("torque_enable", 1)
    host.world.bank.supply[:] = 7.4
    host.wait(0.1)
    assert (host.read("hardware_error_status"), host.read("torque_enable")) == (1, 1)
    host.world.bank.supply[:] = 5.0
    host.wait(0.1)
    assert host.read("hardware_error_status") == 0


# -- start, reset, backup --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scope", "id", "baud"), [(0xFF, 1, 1), (0x01, 7, 1), (0x02, 7, 3)])
def test_a_factory_reset_keeps_what_its_scope_says(scope, id, baud):
    host = Host(make_world(profile="xl330-m288", return_delay_time=0))
    host.write("moving_threshold", 99)
    host.write("id", 7)
    host.ask(Instruction.WRITE, v2.write_params(8, b"\3"), id=7)
    servo, line = host.world.servos["s1"], host.world.lines["main"]
    line.baud = servo.baud
    assert host.ask(Instruction.FACTORY_RESET, bytes((scope,)), id=7)[0].code == 0
    assert (servo.id, servo.table["baud_rate"], servo.table["moving_threshold"]) == (id, baud, 10)


def test_nobody_resets_all_ids_by_a_broadcast(host):
    host.write("moving_threshold", 99)
    host.ask(Instruction.FACTORY_RESET, b"\xff", id=BROADCAST)
    host.wait(1.0)
    assert host.read("moving_threshold") == 99


def test_a_backup_comes_back_at_the_start_where_it_is_asked_for(host):
    host.write("position_p_gain", 777)
    host.write("startup_configuration", 3)
    assert host.ask(Instruction.BACKUP, b"\x01CTRL")[0].code == 0
    assert host.read("backup_ready") == 1
    host.write("position_p_gain", 100)
    host.ask(Instruction.REBOOT)
    host.wait(1.0)
    assert (host.read("position_p_gain"), host.read("torque_enable")) == (777, 1)


# -- several at once -------------------------------------------------------------------------------------------------


def test_a_broadcast_ping_is_answered_by_id_with_gaps():
    host = Host(make_world(profile="xl330-m288", ids=(7, 2, 4), return_delay_time=0), id=2)
    line, world = host.world.lines["main"], host.world
    line.baud = world.servos["s2"].baud
    line.send(v2.encode(BROADCAST, Instruction.PING), world.now())
    asked = line.host_free
    world.sleep_until(asked + 0.1)
    answers = line.collect(asked + 0.1)
    assert [v2.Decoder().feed(answer.data)[0].id for answer in answers] == [2, 4, 7]
    byte = line.seconds(1)
    ends = [asked, *(answer.due for answer in answers)]
    gaps = np.diff(ends) - 14 * byte - 50e-6
    assert gaps == pytest.approx([2 * 3 * byte, 3 * byte, 2 * 3 * byte])


def test_sync_and_bulk_reads_answer_in_the_order_asked():
    host = Host(make_world(profile="xl330-m288", ids=(1, 2, 3), return_delay_time=0))
    answers = host.ask(Instruction.SYNC_READ, v2.sync_read_params(132, 4, (3, 1, 2)), id=BROADCAST)
    assert [(packet.id, packet.params) for packet in answers] == [(id_, b"\0\x08\0\0") for id_ in (3, 1, 2)]
    answers = host.ask(Instruction.BULK_READ, v2.bulk_read_params([(2, 7, 1), (1, 144, 2)]), id=BROADCAST)
    assert [(packet.id, packet.params) for packet in answers] == [(2, b"\2"), (1, b"\x32\0")]


def test_after_a_servo_that_is_missing_nobody_answers():
    host = Host(make_world(profile="xl330-m288", ids=(1, 2), return_delay_time=0))
    answers = host.ask(Instruction.SYNC_READ, v2.sync_read_params(132, 4, (1, 9, 2)), id=BROADCAST)
    assert [packet.id for packet in answers] == [1]


@pytest.mark.parametrize("timing", ["wire", "none"])
def test_a_fast_read_is_one_packet_of_all(timing):
    host = Host(make_world(profile="xl330-m288", ids=(1, 2, 3), return_delay_time=0, timing=timing))
    (answer,) = host.ask(Instruction.FAST_SYNC_READ, v2.sync_read_params(132, 4, (3, 1)), id=BROADCAST)
    assert v2.fast_blocks(answer, [4, 4]) == [(3, 0, b"\0\x08\0\0"), (1, 0, b"\0\x08\0\0")]
    (answer,) = host.ask(Instruction.FAST_BULK_READ, v2.bulk_read_params([(2, 7, 1), (1, 144, 2)]), id=BROADCAST)
    assert v2.fast_blocks(answer, [1, 2]) == [(2, 0, b"\2"), (1, 0, b"\x32\0")]


def test_a_fast_read_ends_before_the_servo_that_is_missing():
    host = Host(make_world(profile="xl330-m288", ids=(1, 2), return_delay_time=0))
    heard = host.wire(v2.encode(BROADCAST, Instruction.FAST_SYNC_READ, v2.sync_read_params(132, 4, (1, 9, 2))))
    whole = v2.encode_fast_status([v2.Block(id_, 0, b"\0\x08\0\0") for id_ in (1, 9, 2)])
    assert heard == whole[: 8 + 8]


def test_sync_and_bulk_writes_reach_each_servo():
    host = Host(make_world(profile="xl330-m288", ids=(1, 2), return_delay_time=0))
    other = Host(host.world, id=2)
    assert not host.ask(Instruction.SYNC_WRITE, v2.sync_write_params(65, {1: b"\1", 2: b"\1"}), id=BROADCAST)
    assert (host.read("led"), other.read("led")) == (1, 1)
    block = [(1, 65, b"\0"), (2, 84, (500).to_bytes(2, "little"))]
    assert not host.ask(Instruction.BULK_WRITE, v2.bulk_write_params(block), id=BROADCAST)
    assert (host.read("led"), other.read("led"), other.read("position_p_gain")) == (0, 1, 500)


# -- all registers ---------------------------------------------------------------------------------------------------

TABLES = {name: FirmwareProfile.load(name) for name in PROFILES}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_register_keeps_its_own_rules(profile):
    volts = TABLES[profile].electrics.nominal_voltage
    host = Host(make_world(profile=profile, volts=volts, return_delay_time=0, timing="none"))
    special = {"id", "baud_rate", "protocol_type", "operating_mode", "torque_enable", "status_return_level"}
    for name, register in TABLES[profile].registers.items():
        if not register.writable:
            assert host.write(name, 0) == ACCESS, name
        elif name not in special:
            bits = 8 * register.size - register.signed
            for beyond in (register.minimum - 1, register.maximum + 1):
                if -register.signed << bits <= beyond < 1 << bits:
                    assert host.write(name, beyond) == RANGE, (name, beyond)
            if register.size > 1:
                assert host.write(name, 0, register.size - 1) == LENGTH, name


@settings(max_examples=300, deadline=None)
@given(
    profile=st.sampled_from(PROFILES),
    writes=st.lists(st.tuples(st.integers(0, 700), st.binary(min_size=0, max_size=12)), max_size=12),
)
@pytest.mark.slow
def test_no_write_puts_a_register_where_its_table_forbids(profile, writes):
    world = make_world(profile=profile, timing="none")
    servo = world.servos["s1"]
    for address, data in writes:
        before = bytes(servo.table.data[: servo.profile.eeprom_end])
        locked = servo.table["torque_enable"]
        servo.write(address, data, world.now())
        for name, register in servo.profile.registers.items():
            value = servo.table[name]
            assert not register.writable or register.minimum <= value <= register.maximum, name
            if register.area is Area.EEPROM and (locked or not register.writable):
                old = before[register.address : register.end]
                assert servo.table.data[register.address : register.end] == old, name
