"""Packets of a program, and their replacements for the servo: each rule, for each family and instruction."""

import pytest

from axbridge.bridge.known import Known, Table
from axbridge.bridge.rules import checked, powered, wanted
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


LIMITED = {  # by register, the sent values and the limited ones
    "goal_position": {900: HIGH, 10: LOW, 500: 500},
    "speed": {0: SPEED, 200: SPEED, 40: 40},
    "torque": {800: TORQUE, 100: 100},
}


@pytest.mark.parametrize(("family", "form"), FORMS)
@pytest.mark.parametrize("what", LIMITED)
def test_a_value_is_limited_in_each_form_of_a_write(family, form, what):
    profile, protocol, table = table_of(family)
    if what == "torque" and family == "scs0009":
        pytest.skip("its only limit of the torque is in EEPROM")
    name = {"speed": protocol.names.speed, "torque": protocol.names.torque}.get(what, what)
    register = profile.register(name)
    for sent, got in LIMITED[what].items():
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


@pytest.mark.parametrize(
    ("family", "code", "params"),
    [*((family, Instruction.FACTORY_RESET, b"") for family in FAMILIES), ("xl330-m288", Instruction.BACKUP, b"\2CTRL")],
)
def test_a_reset_and_a_backup_are_answered_and_change_nothing(family, code, params):
    _, protocol, table = table_of(family)
    for id_ in (1, BROADCAST):
        passed, notices = checked(protocol, Packet(id_, code, params), table)
        silent = protocol.name in {"sts", "scs"} and id_ != BROADCAST  # to an unknown instruction
        assert passed == Packet(id_, Instruction.PING if silent else 0x7E, b"")
        words = code.name.lower().replace("_", " ")
        assert [notice.text for notice in notices] == [f"{words} refused: --allow-service lets it pass"]


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
    for packet in (packed(protocol, "reg_write", data, goal.encode(300)), Packet(BROADCAST, Instruction.ACTION, b"")):
        assert table.servos[1].value("goal_position") != 300
        table.sent(protocol, packet)
    assert table.servos[1].value("goal_position") == 300


def test_a_write_to_half_a_register_cannot_exceed_the_limit():
    profile, protocol, table = table_of("sts3215", goal_position=500)
    high = profile.register("goal_position").address + 1
    passed, _ = checked(protocol, packed(protocol, "write", high, b"\x0f"), table)
    assert passed == packed(protocol, "write", high, b"\x01")


@pytest.mark.parametrize("family", FAMILIES)
def test_questions_and_unknown_instructions_stay_the_same_packet(family):
    _, protocol, table = table_of(family)
    for code in (Instruction.PING, Instruction.READ, Instruction.ACTION, 0x55, 0xE0):
        packet = Packet(1, int(code), b"\x24\0\2\0"[: 2 * protocol.address_size])
        assert checked(protocol, packet, table)[0] is packet


@pytest.mark.parametrize(("wheel", "flags", "on"), [(False, 0, 1), (True, 0, 0), (False, 0x20, 0)])
def test_the_goal_of_an_ax_switches_its_torque_on_in_the_table(wheel, flags, on):
    profile, protocol, table = table_of("ax-12a", torque_enable=0)
    servo = table.servos[1]
    servo.flags = flags
    if wheel:
        servo.note(protocol.mode[0], bytes(4))
    goal = profile.register("goal_position")
    table.sent(protocol, packed(protocol, "write", goal.address, goal.encode(500)))
    assert servo.value("torque_enable") == on


@pytest.mark.parametrize("family", FAMILIES)
def test_torque_on_is_detected_once_also_by_a_goal(family):
    profile, protocol, table = table_of(family)
    register = profile.register("goal_position")
    goal = packed(protocol, "write", register.address, register.encode(500))
    assert powered(protocol, goal, table) == (set() if family == "xl330-m288" else {1})
    assert wanted(protocol, goal, table) == {"goal_position": {1: 500}}
    on = packed(protocol, "sync", profile.register("torque_enable").address, b"\1")
    assert powered(protocol, on, table) == {1, 2}
    table.sent(protocol, on)
    assert powered(protocol, on, table) == set()


def limited(table, protocol, name, sent):
    """Return the value that the servo gets, and the rules that acted."""
    register = table.servos[1].profile.register(name)
    passed, notices = checked(protocol, packed(protocol, "write", register.address, register.encode(sent)), table)
    return register.decode(passed.params[protocol.address_size :]), [notice.rule for notice in notices]


WHEEL = {"cw_angle_limit": 0, "ccw_angle_limit": 0}


@pytest.mark.parametrize(
    ("family", "mode", "name", "sent", "got"),
    [
        ("xl330-m288", 0, "goal_current", 900, 300),
        ("xl330-m288", 5, "goal_current", -900, -300),
        ("xl330-m288", 16, "goal_pwm", -800, -TORQUE),
        ("xl330-m288", 1, "goal_velocity", -200, -SPEED),
        ("sts3215", 2, "goal_time", 0x400 | 900, 0x400 | TORQUE),
        ("sts3215", 0, "goal_time", 900, 900),  # a time in this mode
        ("sts3215", 1, "goal_velocity", -200, -SPEED),
        ("sts3215", 3, "goal_velocity", 0, SPEED),
        ("sts3215", 3, "goal_position", 600, HIGH - 500),
        ("sts3215", 3, "goal_position", -600, LOW - 500),
        ("sts3215", 3, "goal_position", 100, 100),
        *(("ax-12a", WHEEL, "moving_speed", *pair) for pair in ((0x400 | 1000, 0x400 | SPEED), (1000, SPEED), (0, 0))),
    ],
)
def test_a_goal_of_each_mode_is_limited(family, mode, name, sent, got):
    registers = WHEEL if mode is WHEEL else {"operating_mode": mode}
    _, protocol, table = table_of(family, **registers, present_position=500)
    table.servos[1].top_current = 300
    speeds = dict.fromkeys(("goal_velocity", "moving_speed"), "top speed")
    rule = {"goal_position": "soft limits", **speeds}.get(name, "top torque")
    assert limited(table, protocol, name, sent) == (got, [] if sent == got else [rule])


@pytest.mark.parametrize(
    ("here", "end", "steps"),
    [(800, None, {300: 0, -300: -300}), (200, None, {-300: 0, 300: 300}), (500, 650, {100: 50, -300: -200})],
)
def test_a_step_is_limited_from_the_end_of_the_steps_and_one_back_from_the_joint(here, end, steps):
    _, protocol, table = table_of("sts3215", operating_mode=3, present_position=here)
    table.servos[1].step_end = end
    assert {step: limited(table, protocol, "goal_position", step)[0] for step in steps} == steps


def test_a_program_cannot_set_the_middle_of_a_feetech_servo():
    _, protocol, table = table_of("sts3215", torque_enable=1)
    assert limited(table, protocol, "torque_enable", 128) == (1, ["service"])
