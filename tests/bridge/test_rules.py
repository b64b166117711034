"""What a program sends, and what the servo gets instead: each rule, for each family and form of instruction."""

import pytest

from axbridge.bridge.known import Known, Table
from axbridge.bridge.rules import checked, powered
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.packet import BROADCAST, Packet
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import Instruction

FAMILIES = ("ax-12a", "mx-28", "xl330-m288", "sts3215", "scs0009")
LOW, HIGH, SPEED, TORQUE = 300, 700, 90, 400


def table_of(name, ids=(1, 2), **known):
    profile = FirmwareProfile.load(name)
    protocol = PROTOCOLS[profile.protocol]
    servos = [Known(f"s{id_}", id_, profile, protocol, (LOW, HIGH), SPEED, TORQUE) for id_ in ids]
    for servo in servos:
        for register in profile.registers.values():
            initial = register.initial if isinstance(register.initial, int) else 0
            servo.note(register.address, register.encode(initial))
        servo.note(protocol.mode[0], {1: b"\0\0\xff\x03", "scs": b"\0\0\x03\xff", 2: b"\3"}.get(protocol.name, b"\0"))
        for key, value in known.items():
            servo.note(profile.register(key).address, profile.register(key).encode(value))
    return profile, protocol, Table(servos)


def packed(protocol, form, address, data, id_=1):
    if form == "sync":
        params = protocol.sync_write_params(address, {2: data, id_: data})
        return Packet(BROADCAST, Instruction.SYNC_WRITE, params)
    if form == "bulk":
        head = bytes((id_,)) + address.to_bytes(2, "little") + len(data).to_bytes(2, "little")
        return Packet(BROADCAST, Instruction.BULK_WRITE, head + data)
    code = Instruction.REG_WRITE if form == "reg_write" else Instruction.WRITE
    return Packet(BROADCAST if form == "broadcast" else id_, code, protocol.write_params(address, data))


FORMS = [
    (family, form)
    for family in FAMILIES
    for form in ("write", "reg_write", "sync", "broadcast", "bulk")
    if form != "bulk" or family == "xl330-m288"
]


@pytest.mark.parametrize(("family", "form"), FORMS)
@pytest.mark.parametrize(
    ("what", "sent", "got"),
    [
        ("goal_position", 900, HIGH),
        ("goal_position", 10, LOW),
        ("goal_position", 500, 500),
        ("speed", 0, SPEED),
        ("speed", 200, SPEED),
        ("speed", 40, 40),
        ("torque", 800, TORQUE),
        ("torque", 100, 100),
    ],
)
def test_a_value_is_limited_in_each_form_of_a_write(family, form, what, sent, got):
    profile, protocol, table = table_of(family)
    if what == "torque" and family == "scs0009":
        pytest.skip("its only limit of the torque is in EEPROM")
    name = {"speed": protocol.names.speed, "torque": protocol.names.torque}.get(what, what)
    register = profile.register(name)
    packet = packed(protocol, form, register.address, register.encode(sent))
    passed, notices = checked(protocol, packet, table)
    assert passed == packed(protocol, form, register.address, register.encode(got))
    assert (passed is packet) == (sent == got) == (not notices)


@pytest.mark.parametrize(("family", "form"), FORMS)
def test_the_servo_itself_refuses_a_write_to_its_eeprom(family, form):
    profile, protocol, table = table_of(family)
    register = profile.register("return_delay_time")
    packet = packed(protocol, form, register.address, b"\x07")
    passed, notices = checked(protocol, packet, table)
    table.sent(protocol, passed)
    assert table.servos[1].value("return_delay_time") == register.initial
    assert {notice.rule for notice in notices} == {"service"}
    assert (passed.code, len(passed.params)) == (packet.code, len(packet.params))
    assert checked(protocol, packet, table, service=True) == (packet, ())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_factory_reset_is_answered_and_resets_nothing(family):
    _, protocol, table = table_of(family)
    for id_ in (1, BROADCAST):
        passed, notices = checked(protocol, Packet(id_, Instruction.FACTORY_RESET, b""), table)
        silent = protocol.name in {"sts", "scs"} and id_ != BROADCAST  # to an instruction that it does not have
        assert passed == Packet(id_, Instruction.PING if silent else 0x7E, b"")
        assert len(notices) == 1


def test_a_goal_by_indirect_addresses_is_limited():
    profile, protocol, table = table_of("xl330-m288")
    goal = profile.register("goal_position")
    for number in range(4):
        pointer = profile.register(f"indirect_address_{number + 1}")
        table.sent(protocol, packed(protocol, "sync", pointer.address, pointer.encode(goal.address + number)))
    data = profile.register("indirect_data_1").address
    passed, notices = checked(protocol, packed(protocol, "sync", data, goal.encode(4000)), table)
    assert passed == packed(protocol, "sync", data, goal.encode(HIGH))
    assert len(notices) == 2


def test_half_a_register_does_not_bring_a_goal_beyond_its_limit():
    profile, protocol, table = table_of("sts3215", goal_position=500)
    high = profile.register("goal_position").address + 1
    passed, _ = checked(protocol, packed(protocol, "write", high, b"\x0f"), table)
    assert passed == packed(protocol, "write", high, b"\x01")


@pytest.mark.parametrize(("sent", "got"), [(0x400 | 1000, 0x400 | SPEED), (1000, SPEED), (0, 0)])
def test_a_wheel_keeps_its_direction_at_its_top_speed(sent, got):
    profile, protocol, table = table_of("ax-12a")
    table.servos[1].note(protocol.mode[0], bytes(4))
    register = profile.register("moving_speed")
    passed, _ = checked(protocol, packed(protocol, "write", register.address, register.encode(sent)), table)
    assert passed == packed(protocol, "write", register.address, register.encode(got))


@pytest.mark.parametrize("family", FAMILIES)
def test_questions_and_unknown_instructions_stay_the_same_packet(family):
    _, protocol, table = table_of(family)
    for code in (Instruction.PING, Instruction.READ, Instruction.ACTION, 0x55, 0xE0):
        packet = Packet(1, int(code), b"\x24\0\2\0"[: 2 * protocol.address_size])
        assert checked(protocol, packet, table)[0] is packet


@pytest.mark.parametrize("family", FAMILIES)
def test_torque_that_comes_on_is_seen_once(family):
    profile, protocol, table = table_of(family)
    on = packed(protocol, "sync", profile.register("torque_enable").address, b"\1")
    assert powered(protocol, on, table) == {1, 2}
    table.sent(protocol, on)
    assert powered(protocol, on, table) == set()


def test_a_time_in_the_register_of_the_speed_is_no_speed():
    profile, protocol, table = table_of("xl330-m288", drive_mode=4)
    register = profile.register("profile_velocity")
    packet = packed(protocol, "write", register.address, register.encode(1000))
    assert checked(protocol, packet, table) == (packet, ())
