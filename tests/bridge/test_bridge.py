"""A program behind the bridge: its servos at unsafe first goals, and after its end."""

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import pytest
import serial
from dynamixel_sdk import COMM_RX_TIMEOUT, GroupBulkRead, GroupSyncRead, GroupSyncWrite, PacketHandler, PortHandler

from axbridge.bridge import bridge as bridge_module
from axbridge.bridge.bridge import Bridge
from axbridge.bus.port_name import bridge_at, bridge_file
from axbridge.bus.protocols import v1
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import HARDWARE
from axbridge.config.registers import Instruction
from axbridge.errors import BusTimeout, ErrorFlag, UsageError
from axbridge.servo.columns import State
from tests.support.bridged_line import IDS, bridged, client, write
from tests.support.pty_line import PtyLine
from tests.support.virtual_rig import make_rig
from tests.support.waiting import until
from tests.support.warm import start

PROFILES = ("ax-12a", "xl330-m288", "sts3215")


def test_motors_are_off_when_a_program_opens_writes_and_closes_within_a_moment():
    torque_on = b"".join(v1.encode(id_, Instruction.WRITE, bytes((24, 1))) for id_ in IDS)
    with bridged() as (line, port, notices):
        for visit in range(1, 4):
            program = os.open(port, os.O_RDWR | os.O_NOCTTY)
            os.write(program, torque_on)
            os.close(program)
            until(lambda visit=visit: len(texts(notices, "exit")) == visit)
            assert line.powered == []


def test_a_program_whose_two_opens_the_system_reports_as_one_keeps_its_motors_on():
    script = f"""
import os, time
ends = [os.open(os.sys.argv[1], os.O_RDWR | os.O_NOCTTY) for _ in range(20)]
for end in ends[1:]:
    os.close(end)
for _ in range(20):
    os.write(ends[0], {v1.encode(1, Instruction.WRITE, bytes((24, 1)))})
    time.sleep(0.02)
"""
    with bridged() as (line, port, notices):
        subprocess.run((sys.executable, "-c", script, port), check=True)
        until(lambda: texts(notices, "exit"))
        assert len(notices) == 1
        assert sum(code == Instruction.WRITE for _, code, *_ in line.received) >= 20
        assert line.powered == []


def test_a_program_that_falls_silent_leaves_the_motors_as_the_rig_says():
    with bridged(stale_command_ms=100.0) as (line, port, notices), client(port, line) as bus:
        write(bus, line, 1, "torque_enable", 1)
        until(lambda: notices and notices[-1].rule == "exit")
        assert line[1].table["torque_enable"] == 0
        assert "client silent" in notices[-1].text


def test_a_program_that_only_reads_leaves_the_motors_as_they_are():
    with bridged() as (line, port, notices):
        line[1].table["torque_enable"] = 1
        with client(port, line) as bus:
            bus.read(1, 36, 2)
        time.sleep(0.1)
        assert (line[1].table["torque_enable"], notices) == (1, [])


@pytest.mark.parametrize("profile", PROFILES)
def test_torque_on_holds_the_present_position(profile):
    with bridged(profile) as (line, port, notices):
        here = line[1].profile.units.counts // 4
        line.set(1, present_position=here)
        with client(port, line) as bus:
            write(bus, line, 1, "torque_enable", 1)
            assert abs(line[1].table["goal_position"] - here) <= 1
        assert "torque on" in {notice.rule for notice in notices}


TIMED = {"drive_mode": 4, "profile_velocity": 500}
FIRST_GOALS = [*((profile, {}) for profile in PROFILES), ("xl330-m288", TIMED)]


@pytest.mark.parametrize(("profile", "registers"), FIRST_GOALS)
def test_a_far_first_goal_is_approached_slowly_and_the_speed_limit_restored(profile, registers):
    with bridged(profile, registers=registers) as (line, port, notices), client(port, line) as bus:
        speed, units = line[1].protocol.names.speed, line[1].profile.units
        top, far = line[1].table[speed], line[1].table["present_position"] + units.counts // 4
        write(bus, line, 1, "goal_position", far)
        held = line[1].table[speed]  # in ms with TIMED
        slow = 1000 * math.tau / 4 / held if registers else held * units.speed
        assert slow == pytest.approx(0.785, rel=0.02)  # rad/s
        line.set(1, present_position=far)
        until(lambda: line[1].table[speed] == top)
        assert [notice.rule for notice in notices] == ["far goal"]


@pytest.mark.parametrize("profile", PROFILES)
def test_motors_are_off_and_speed_limits_restored_when_a_program_closes_its_port_during_a_motion(profile):
    with bridged(profile) as (line, port, notices):
        speed = line[1].protocol.names.speed
        top = line[1].table[speed]
        with client(port, line) as bus:
            for id_ in IDS:
                write(bus, line, id_, "torque_enable", 1)
            write(bus, line, 1, "goal_position", line[1].profile.units.counts // 4)
            assert line[1].table[speed] != top
            assert [line[id_].table["torque_enable"] for id_ in IDS] == [1, 1]
        until(lambda: line[1].table[speed] == top)
        assert [line[id_].table["torque_enable"] for id_ in IDS] == [0, 0]
        assert [notice.rule for notice in notices] == ["far goal", "exit"]
        assert notices[-1].text == "client gone: limp (2 of 2 confirmed)"


def test_a_servo_that_is_missing_is_refused_before_the_program_may_start():
    with PtyLine((1,)) as line, pytest.raises(BusTimeout):
        Bridge(make_rig(IDS, return_delay_time=0), line.port, lambda _: None)


def test_a_rig_with_two_lines_is_refused():
    rig = make_rig().overridden({"bus": [{"name": "main", "port": "a"}, {"name": "arm", "port": "b"}]})
    with pytest.raises(UsageError, match="a bridge has one line"):
        Bridge(rig, None, lambda _: None)


def test_foreign_bytes_reach_the_line_as_they_are():
    with bridged() as (line, port, _), serial.Serial(port, 1_000_000) as bare:
        count = len(line.received)
        bare.write(b"hello\xff\xff\x01\x02\xe0\x1c")
        until(lambda: len(line.received) > count)
        assert line.received[-1][:2] == (1, 0xE0)


SUPPLY = {"ax-12a": 12.1, "xl330-m288": 5.0, "sts3215": 7.4, "scs0009": 6.0}  # V, of a `PtyLine`


def texts(notices, rule):
    return [notice.text for notice in notices if notice.rule == rule]


def push(line, id_, share):
    """Set the duty of a motor that stands still."""
    line._bank.state[line[id_].row, State.DUTY] = share


@pytest.mark.parametrize(
    ("profile", "rules", "left", "free"),
    [
        ("sts3215", {}, 300, "its goal goes back"),
        ("sts3215", {}, 300, "it moves"),
        ("xl330-m288", {}, 266, "its goal goes back"),
        ("ax-12a", {}, None, ""),
        ("ax-12a", {"stall": 0.5}, 512, "its goal goes back"),
        ("sts3215", {"stall": 1.0}, None, ""),
    ],
)
def test_a_blocked_servo_keeps_a_share_of_its_torque_until_it_is_free(profile, rules, left, free):
    with bridged(profile, bridge=rules) as (line, port, notices), client(port, line) as bus:
        name = line[1].protocol.names.torque
        full = line[1].table[name]
        here = line[1].table["present_position"]
        write(bus, line, 1, "torque_enable", 1)
        write(bus, line, 1, "goal_position", here + 100)
        push(line, 1, 0.8)
        if left is None:
            time.sleep(0.4)
            assert line[1].table[name] == full
            return
        until(lambda: texts(notices, "stall"))
        until(lambda: line[1].table[name] == left)
        write(bus, line, 1, name, full)
        assert line[1].table[name] == left
        if free == "it moves":
            line.set(1, present_position=here + 50)
        else:
            write(bus, line, 1, "goal_position", here)
        until(lambda: line[1].table[name] == full)


@pytest.mark.parametrize("profile", [*PROFILES, "scs0009"])
@pytest.mark.parametrize(("column", "value"), [(State.TEMPERATURE, 70.0), (State.VOLTAGE, None)])
def test_a_servo_beyond_the_rigs_limits_is_off_until_it_is_within(profile, column, value):
    with (
        bridged(profile, max_temperature=60.0, voltage=[4.0, SUPPLY[profile] + 0.2]) as (line, port, notices),
        client(port, line) as bus,
    ):
        state = line._bank.state[line[1].row]
        before = state[column]
        write(bus, line, 1, "torque_enable", 1)
        state[column] = value or before + 0.5
        until(lambda: bus.read(1, *line[1].protocol.usual) and line[1].table["torque_enable"] == 0)
        write(bus, line, 1, "torque_enable", 1)
        assert line[1].table["torque_enable"] == 0
        state[column] = before
        until(lambda: "may be switched on" in notices[-1].text)
        write(bus, line, 1, "torque_enable", 1)
        assert line[1].table["torque_enable"] == 1
        assert line[1].table[line[1].protocol.names.torque] == line[1].profile.units.full_scale


def test_alarms_are_named_once():
    with bridged() as (line, port, notices), client(port, line) as bus:
        line.errors[1] = ErrorFlag.OVERHEATING
        bus.read(1, 36, 2)
        until(lambda: texts(notices, "alarm"))
        for _ in range(20):
            bus.read(1, 36, 2)
        assert texts(notices, "alarm") == ["reports overheating"]


def test_the_duration_of_a_time_based_profile_follows_from_the_speed_limit():
    speed = {"max_velocity": 2.0, "min_position": -3.0, "max_position": 3.0}
    with bridged("xl330-m288", registers=TIMED, servo=speed) as (line, port, notices), client(port, line) as bus:
        here, times = line[1].table["present_position"], []
        for away in (100, 300, 1000, 1000):  # the first and the second are near, the third is not the first goal
            line.set(1, present_position=here)
            write(bus, line, 1, "goal_position", here + away)
            times.append(line[1].table["profile_velocity"])
        bus.write(1, 112, bytes(4), answered=False)
        until(lambda: notices)
        assert times == [500, 500, 771, 771]  # ms for 1000 counts at 83 counts of 0.229 rpm
        assert line[1].table["profile_velocity"] == 771
        assert notices[-1].text == "profile_velocity 0: limited to 771"


def test_goals_stay_within_the_stops_of_a_joint_without_limits():
    with bridged(servo={"min_stop": -1.0, "max_stop": 0.5}) as (line, port, notices), client(port, line) as bus:
        for goal, got in ((1000, 610), (0, 316), (400, 400)):
            write(bus, line, 1, "goal_position", goal)
            assert abs(line[1].table["goal_position"] - got) <= 1
        assert texts(notices, "soft limits")


def test_steps_stay_within_the_limits():
    limits = {"min_position": -1.0, "max_position": 0.5}  # rad: 326 counts
    with (
        bridged("sts3215", registers={"operating_mode": 3}, servo=limits) as (line, port, _),
        client(port, line) as bus,
    ):
        for step, got in ((300, 300), (300, 26), (300, 0), (-500, -500)):
            write(bus, line, 1, "goal_position", step)
            assert line[1].table["goal_position"] == got
        write(bus, line, 1, "torque_enable", 0)
        write(bus, line, 1, "goal_position", 300)  # its steps begin anew at the joint
        assert line[1].table["goal_position"] == 300


@pytest.mark.parametrize("profile", [*PROFILES, "scs0009"])
def test_limits_that_a_program_never_writes_hold_once_the_torque_is_on(profile):
    with bridged(profile, servo={"max_velocity": 2.0, "max_torque": 0.1}) as (line, port, _), client(port, line) as bus:
        names, units = line[1].protocol.names, line[1].profile.units
        own = line[1].table[names.torque]
        write(bus, line, 1, "torque_enable", 1)
        assert line[1].table[names.speed] * units.speed == pytest.approx(2.0, rel=0.02)
        share = 0.1 / line[1].profile.electrics.stall_torque
        in_eeprom = profile == "scs0009"
        assert line[1].table[names.torque] == (own if in_eeprom else pytest.approx(share * units.full_scale, abs=1))
        if profile == "xl330-m288":
            assert 0 < line[1].table["goal_current"] < 600
            write(bus, line, 1, "goal_current", 1000)
            assert 0 < line[1].table["goal_current"] < 600


@pytest.mark.parametrize(
    ("rule", "off", "name", "value"),
    [
        ("limits", False, "goal_position", 1000),
        ("far_goal_speed", 0.0, "goal_position", 700),
        ("torque_on", False, "torque_enable", 1),
        ("allow_service", True, "return_delay_time", 7),
    ],
)
def test_the_rig_switches_a_rule_off(rule, off, name, value):
    limits = {"min_position": -1.0, "max_position": 1.0}
    with bridged(bridge={rule: off}, servo=limits) as (line, port, notices), client(port, line) as bus:
        line.set(1, present_position=600)
        write(bus, line, 1, name, value)
        assert line[1].table[name] == value
        assert rule.removesuffix("_speed") not in {notice.rule.replace(" ", "_") for notice in notices}


def test_reopening_the_port_at_once_does_not_end_the_program(monkeypatch):
    monkeypatch.setattr(bridge_module, "_GRACE", 0.5)  # s, for a busy machine
    with bridged() as (line, port, notices), client(port, line) as bus:
        write(bus, line, 1, "torque_enable", 1)
        bus.close()
        with serial.Serial(port, 1_000_000):
            time.sleep(0.6)
            assert (line[1].table["torque_enable"], notices) == (1, [])
        until(lambda: notices)
        assert line[1].table["torque_enable"] == 0


@pytest.mark.parametrize("service", [False, True])
def test_a_program_at_another_baud_rate_reaches_no_servo_and_the_exit_policy_still_does(service):
    with bridged(bridge={"allow_service": service}) as (line, port, notices):
        with client(port, line) as bus:
            write(bus, line, 1, "torque_enable", 1)
            with serial.Serial(port, 57_600) as other:
                other.write(v1.encode(1, 3, bytes((25, 1))))
                time.sleep(0.1) if service else until(lambda: notices)
        until(lambda: notices and notices[-1].rule == "exit")
        assert [line[1].table[name] for name in ("led", "torque_enable")] == [0, 0]
        assert ["57600 baud" in notice.text for notice in notices] == [True, False][service:]
        assert notices[-1].text == "client gone: limp (2 of 2 confirmed)"


@pytest.mark.parametrize(("profile", "how"), [("ax-12a", "follows"), ("ax-12a", "leaves"), ("xl330-m288", "resets")])
def test_with_service_allowed_a_servo_with_a_new_rate_goes_limp_with_the_others(profile, how, capfd):
    with bridged(profile, bridge={"allow_service": True}) as (line, port, notices):
        with client(port, line) as bus:
            for id_ in IDS:
                write(bus, line, id_, "torque_enable", 1)
            if how == "resets":
                bus.instruct(1, Instruction.FACTORY_RESET, b"\xff")
            else:
                write(bus, line, 1, "baud_rate", 34)  # 57,142 bit/s
            if how == "follows":
                bus.set_baud(57_142)
                bus.ping(1)
        until(lambda: notices)
        assert [line[id_].table["torque_enable"] for id_ in IDS] == [0, 0]
        assert notices[-1].text == "client gone: limp (2 of 2 confirmed)"
    assert capfd.readouterr().err == ""


def test_a_servo_that_gets_the_id_of_another_one_is_named_with_the_remedy():
    with bridged(bridge={"allow_service": True}) as (line, port, notices), client(port, line) as bus:
        bus.write(2, 3, b"\1", answered=False)
        (text,) = until(lambda: texts(notices, "service"))
        assert text.startswith("it has id 1 now, as s1 has; both move and answer at once; connect them one at a time")
        bus.close()
        until(lambda: notices[-1].text == f"may still be powered: {text.partition('; connect')[0]}")
        assert not line.powered


@pytest.mark.parametrize("profile", PROFILES)
def test_with_service_allowed_a_servo_is_driven_and_switched_off_at_its_new_id(profile):
    with bridged(profile, bridge={"allow_service": True}) as (line, port, notices):
        with client(port, line) as bus:
            if profile == "sts3215":
                write(bus, line, 1, "lock", 0)
            place = line[1].profile.register("id").address
            bus.write(1, place, b"\x09", answered=False)
            until(lambda: line._line.servos[0].id == 9)
            bus.set_protocol(9, bus.protocol(1))
            write(bus, line, 9, "torque_enable", 1)
            far = line[9].profile.units.counts // 4
            write(bus, line, 9, "goal_position", far)
            write(bus, line, 2, "torque_enable", 1)
        until(lambda: notices and notices[-1].rule == "exit")
        assert [line[id_].table["torque_enable"] for id_ in (9, 2)] == [0, 0]
        assert notices[-1].text == "client gone: limp (2 of 2 confirmed)"
        rules = [(notice.servo, notice.rule) for notice in notices]
        assert ("s1", "service") in rules
        assert ("s1", "far goal") in rules  # its rules hold at the new id


@pytest.mark.parametrize("drives", [True, False])
def test_after_one_of_two_programs_leaves_the_other_must_write_to_keep_torque(drives):
    with bridged() as (line, port, notices), serial.Serial(port, 1_000_000) as other:
        with client(port, line) as bus:
            write(bus, line, 1, "torque_enable", 1)
        led = v1.encode(1, 3, bytes((25, 1)))
        end = time.monotonic() + 0.4
        while drives and time.monotonic() < end:
            other.write(led)
            time.sleep(0.01)
        if not drives:
            until(lambda: notices)
        assert line[1].table["torque_enable"] == drives
        assert [notice.rule for notice in notices] == ([] if drives else ["exit"])


@pytest.mark.real_time
@pytest.mark.parametrize("profile", ["ax-12a", "mx-28", "xl330-m288"])
def test_a_foreign_client_sees_one_line_of_real_and_virtual_servos(profile):
    with bridged(profile, virtual=(3, 4)) as (line, address, notices):
        servo, ids = line[1], (1, 2, 3, 4)
        port, sdk = PortHandler(address), PacketHandler(float(servo.protocol.version))
        assert port.openPort()
        try:
            assert port.setBaudRate(1_000_000)
            lamp = servo.protocol.torque_enable + 1
            until(lambda: [sdk.ping(port, id_)[1] for id_ in (*ids, 5)] == [0, 0, 0, 0, COMM_RX_TIMEOUT])
            assert [sdk.write1ByteTxRx(port, id_, lamp, 1) for id_ in ids] == [(0, 0)] * 4
            together = GroupSyncWrite(port, sdk, lamp, 1)
            for id_ in (2, 3):
                together.addParam(id_, [0])
            assert together.txPacket() == 0
            assert [sdk.read1ByteTxRx(port, id_, lamp)[0] for id_ in ids] == [1, 0, 0, 1]
            if servo.protocol.version == 2:
                servos, result = sdk.broadcastPing(port)
                assert (sorted(servos), result) == ([1, 2, 3, 4], 0)
            line.set(2, present_position=300)
            middle = servo.zero
            for counts in _read_together(port, sdk, servo.profile, ids):
                assert counts[1:] == [300, middle, middle]
            sdk.write1ByteTxRx(port, 3, servo.protocol.torque_enable, 1)
            assert sdk.read1ByteTxRx(port, 3, servo.protocol.torque_enable)[0] == 1
        finally:
            port.closePort()
        until(lambda: notices and notices[-1].rule == "exit")
        assert notices[-1].text == "client gone: limp (4 of 4 confirmed)"


def _read_together(port, sdk, profile, ids):
    """Return the positions of these servos by each group read of the SDK."""
    register = profile.register("present_position")
    address, size = register.address, register.size
    if profile.protocol == 1 and "BULK_READ" in profile.instructions:  # the SDK's own class for it is broken
        assert sdk.bulkReadTx(port, [number for id_ in ids for number in (size, id_, address)], 3 * len(ids)) == 0
        yield [register.decode(bytes(sdk.readRx(port, id_, size)[0])) for id_ in ids]
    for reader in (GroupBulkRead(port, sdk), GroupSyncRead(port, sdk, address, size)) if profile.protocol == 2 else ():
        for id_ in ids:
            reader.addParam(id_, *((address, size) if isinstance(reader, GroupBulkRead) else ()))
        assert reader.txRxPacket() == 0
        yield [reader.getData(id_, address, size) for id_ in ids]


@contextmanager
def command(line, *words):
    """Run `axbridge bridge` before a line; yield its process and the port of its program."""
    with start("bridge", *words, "--port", line.port) as program:
        ready = program.stdout.readline()
        assert ready.startswith("ready: "), ready + program.communicate()[1]
        yield program, ready.split()[1]
        program.terminate()


@pytest.mark.real_time
@pytest.mark.parametrize("options", [(), pytest.param(("--watch",), marks=pytest.mark.ci)])
def test_the_command_makes_servos_virtual_and_leaves_the_real_ones_safe_when_it_is_killed(options, tmp_path):
    servos = "".join(f'[[servo]]\nname = "s{id_}"\njoint = "j{id_}"\nid = {id_}\nzero = 512\n' for id_ in (1, 2, 3, 4))
    (tmp_path / "rig.toml").write_text(f'name = "test"\n[[bus]]\nname = "main"\n{servos}')
    words = (tmp_path / "rig.toml", "--virtual", "s3", "--virtual", "4-9", *options)
    with PtyLine(IDS) as line, command(line, *words) as (program, port), SerialBus(port) as bus:
        assert [bus.read(id_, 3, 1).data[0] for id_ in (1, 2, 3, 4)] == [1, 2, 3, 4]
        for id_ in (2, 3):
            bus.write(id_, 24, b"\1")
        assert [bus.read(id_, 24, 1).data[0] for id_ in (1, 2, 3, 4)] == [0, 1, 1, 0]
        program.kill()
        until(lambda: options or not line.powered)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_servo_with_a_new_id_is_off_when_its_bridge_ends(sign):
    bridge = command(line := PtyLine(), "bench_arm", "--allow-service")
    with line, bridge as (program, port), SerialBus(port) as bus:
        bus.write(1, 3, b"\x09", answered=False)
        assert "its id is 9 now" in program.stdout.readline()
        bus.write(9, 24, b"\1")
        line.received.clear()
        program.send_signal(sign)
        errors = program.communicate()[1]
        until(lambda: not line.powered)
        until(lambda: any(id_ == 9 and code == Instruction.READ for id_, code, *_ in line.received))  # it confirms
        assert "may still be powered" not in errors


@pytest.mark.parametrize("options", [(), ("--watch",)], ids=["rules", "watch"])
def test_off_ends_a_bridge_while_its_program_drives_the_robot(options, said, tmp_path):
    link = tmp_path / "arm"
    with PtyLine(IDS) as line:
        with command(line, "pan_tilt", "--link", link, *options) as (program, port):
            with SerialBus(port) as bus:
                for id_ in IDS:
                    bus.write(id_, 24, b"\1")
                assert line.powered == list(IDS)
                off = said("off", "--rig", "pan_tilt", "--port", line.port)
                assert "off and confirmed: pan (id 1), tilt (id 2)" in off
            assert program.wait(10) != 0
            assert not link.is_symlink()  # the next program with that terminal is another one
        assert not line.powered


def test_off_ends_a_bridge_whose_port_has_come_back_as_another_device(said, tmp_path):
    with PtyLine(link=tmp_path / "device") as line:
        with command(line, "bench_arm") as (program, _):
            line.unplug()
            assert "the port was lost" in program.stdout.readline()
            taken = os.openpty()  # the number of the old device
            line.replug()
            assert "the port is back" in program.stdout.readline()
            until(lambda: bridge_at(line.port))
            assert "off and confirmed: servo 1" in said("off", "--port", line.port)
            assert program.wait(10) != 0
        for end in taken:
            os.close(end)


def test_a_file_that_a_killed_bridge_has_left_names_no_bridge(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bridge_file("port").write_text(f"{os.getpid()}\nsocket://127.0.0.1:1\n")  # its process number is in use again
    assert bridge_at("port") is None


@pytest.mark.ci
def test_a_missing_servo_is_a_time_out_for_a_program_that_reads_through_the_bridge():
    with PtyLine(IDS) as line, command(line, "pan_tilt"), SerialBus(line.port) as bus:
        assert bus.port.bridge is not None
        with pytest.raises(BusTimeout):
            bus.ping(9)
        assert bus.ping(1)


def test_motors_that_the_bridge_cannot_reach_are_named_and_end_it_with_an_error(tmp_path, said):
    recording = tmp_path / "day.mcap"
    bridge = command(line := PtyLine(), "bench_arm", "--record", recording)
    with line, bridge as (program, port), SerialBus(port) as bus:
        bus.write(1, 24, b"\1")
        line.unplug()
        assert "the port was lost" in program.stdout.readline()
        program.terminate()
        errors = program.communicate()[1]
    assert program.returncode == HARDWARE
    assert errors.count("these servos may still be powered: shoulder") == 1
    assert "the port was lost" in said("info", recording)
