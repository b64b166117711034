"""A program behind the bridge, and what its servos do when it starts badly or is gone."""

import threading
import time
from contextlib import contextmanager

import pytest
import serial
from dynamixel_sdk import COMM_RX_TIMEOUT, GroupBulkRead, GroupSyncRead, GroupSyncWrite, PacketHandler, PortHandler

from axbridge.bridge.bridge import Bridge
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.serial import SerialBus
from axbridge.errors import BusTimeout, UsageError
from axbridge.virtual.channel import DirectReader, PtyChannel
from tests.support.pty_line import PtyLine
from tests.support.virtual_rig import make_rig
from tests.support.waiting import until
from tests.support.warm import start

IDS = (1, 2)
PROFILES = ("ax-12a", "xl330-m288", "sts3215")


@contextmanager
def bridged(profile="ax-12a", virtual=(), **safety):
    """Servos, the port of the bridge before them, and its notices."""
    ids = (*IDS, *virtual)
    rig = make_rig(ids, dict.fromkeys(ids, profile), return_delay_time=0).overridden({"safety": safety})
    volts = rig.profile_of(rig.servos[0]).electrics.nominal_voltage
    rig = rig.overridden({"bus": [{"name": "main", "supply_voltage": volts}]})
    notices, over = [], threading.Event()
    with PtyLine(dict.fromkeys(IDS, profile)) as line:
        bridge = Bridge(rig, line.port, notices.append, virtual=map(str, virtual))
        channel = PtyChannel(1_000_000, listen=DirectReader)
        thread = threading.Thread(target=bridge.run, args=(channel, over.is_set))
        thread.start()
        try:
            yield line, channel.address, notices
        finally:
            over.set()
            thread.join()
            channel.close()
            bridge.close()


def client(port, line):
    bus = SerialBus(port)
    for id_ in IDS:
        bus.set_protocol(id_, PROTOCOLS[line[id_].profile.protocol])
    return bus


def write(bus, line, id_, name, value):
    register = line[id_].profile.register(name)
    return bus.write(id_, register.address, register.encode(value))


@pytest.mark.parametrize("profile", PROFILES)
def test_motors_are_off_when_the_program_closes_its_port(profile):
    with bridged(profile) as (line, port, notices):
        with client(port, line) as bus:
            for id_ in IDS:
                write(bus, line, id_, "torque_enable", 1)
            assert [line[id_].table["torque_enable"] for id_ in IDS] == [1, 1]
        until(lambda: notices and notices[-1].rule == "exit")
        assert [line[id_].table["torque_enable"] for id_ in IDS] == [0, 0]
        assert notices[-1].text == "client gone: limp (2 of 2 confirmed)"


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
def test_torque_comes_on_where_the_servo_is(profile):
    with bridged(profile) as (line, port, notices):
        here = line[1].profile.units.counts // 4
        line.set(1, present_position=here)
        with client(port, line) as bus:
            write(bus, line, 1, "torque_enable", 1)
            assert abs(line[1].table["goal_position"] - here) <= 1
        assert "torque on" in {notice.rule for notice in notices}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_first_goal_far_away_is_approached_slowly_and_the_speed_is_given_back(profile):
    with bridged(profile) as (line, port, notices), client(port, line) as bus:
        speed = line[1].protocol.names.speed
        top, far = line[1].table[speed], line[1].profile.units.counts // 4
        write(bus, line, 1, "goal_position", far)
        slow = line[1].table[speed] * line[1].profile.units.speed
        assert slow == pytest.approx(0.785, rel=0.02)
        line.set(1, present_position=far)
        until(lambda: line[1].table[speed] == top)
        assert [notice.rule for notice in notices] == ["far goal"]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_program_that_ends_on_the_way_leaves_no_slow_servo_behind(profile):
    with bridged(profile) as (line, port, notices):
        speed = line[1].protocol.names.speed
        top = line[1].table[speed]
        with client(port, line) as bus:
            write(bus, line, 1, "torque_enable", 1)
            write(bus, line, 1, "goal_position", line[1].profile.units.counts // 4)
            assert line[1].table[speed] != top
        until(lambda: line[1].table[speed] == top)
        assert line[1].table["torque_enable"] == 0
        assert [notice.rule for notice in notices] == ["far goal", "exit"]


def test_a_servo_that_is_missing_is_refused_before_the_program_may_start():
    with PtyLine((1,)) as line, pytest.raises(BusTimeout):
        Bridge(make_rig(IDS, return_delay_time=0), line.port, lambda _: None)


def test_a_rig_with_two_lines_is_refused():
    rig = make_rig().overridden({"bus": [{"name": "main", "port": "a"}, {"name": "arm", "port": "b"}]})
    with pytest.raises(UsageError, match="a bridge has one line"):
        Bridge(rig, None, lambda _: None)


def test_foreign_bytes_reach_the_line_as_they_are():
    with bridged() as (line, port, _), serial.Serial(port, 1_000_000) as bare:
        count = len(line.heard)
        bare.write(b"hello\xff\xff\x01\x02\xe0\x1c")
        until(lambda: len(line.heard) > count)
        assert line.heard[-1][:2] == (1, 0xE0)


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
            assert [sdk.ping(port, id_)[1] for id_ in (*ids, 5)] == [0, 0, 0, 0, COMM_RX_TIMEOUT]
            assert [sdk.write1ByteTxRx(port, id_, lamp, 1) for id_ in ids] == [(0, 0)] * 4
            together = GroupSyncWrite(port, sdk, lamp, 1)
            for id_ in (2, 3):
                together.addParam(id_, [0])
            assert together.txPacket() == 0
            assert [sdk.read1ByteTxRx(port, id_, lamp)[0] for id_ in ids] == [1, 0, 0, 1]
            if servo.protocol.version == 2:
                found, result = sdk.broadcastPing(port)
                assert (sorted(found), result) == ([1, 2, 3, 4], 0)
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
    """The positions of these servos by each way in which the SDK reads several at once."""
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


@pytest.mark.real_time
@pytest.mark.parametrize("options", [(), pytest.param(("--watch",), marks=pytest.mark.ci)])
def test_the_command_makes_servos_virtual_and_leaves_the_real_ones_safe_when_it_is_killed(options, tmp_path):
    servos = "".join(f'[[servo]]\nname = "s{id_}"\njoint = "j{id_}"\nid = {id_}\nzero = 512\n' for id_ in (1, 2, 3, 4))
    (tmp_path / "rig.toml").write_text(f'name = "test"\n[[bus]]\nname = "main"\n{servos}')
    words = ("bridge", tmp_path / "rig.toml", "--virtual", "s3", "--virtual", "4-9", *options)
    with PtyLine(IDS) as line, start(*words, "--port", line.port) as program:
        said = program.stdout.readline()
        assert said.startswith("ready: "), said + program.communicate()[1]
        with SerialBus(said.split()[1]) as bus:
            assert [bus.read(id_, 3, 1).data[0] for id_ in (1, 2, 3, 4)] == [1, 2, 3, 4]
            for id_ in (2, 3):
                bus.write(id_, 24, b"\1")
            assert [bus.read(id_, 24, 1).data[0] for id_ in (1, 2, 3, 4)] == [0, 1, 1, 0]
            program.kill()
            until(lambda: options or not line.powered)
