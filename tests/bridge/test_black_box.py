"""Recordings of a bridge for any program, reads of second programs, and a recorded run as a server."""

import json
import math
import time
from contextlib import ExitStack, closing

import numpy as np
import pytest
import serial

from axbridge.bridge.black_box import BlackBox, in_words
from axbridge.bridge.bridge import Bridge
from axbridge.bridge.relay import Relay
from axbridge.bridge.replay import Replay
from axbridge.bridge.rules import Notice
from axbridge.bus.port import Port
from axbridge.bus.protocols import v1, v2
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.protocols.packet import Packet
from axbridge.config.profile import FirmwareProfile
from axbridge.errors import PortError, RecordingError, UsageError
from axbridge.recording.recorder import Recorder
from axbridge.recording.step_format import Passed, Source, packed_packets, packets
from axbridge.recording.stored import open_recording, recorded_packets
from axbridge.virtual.channel import DirectReader, PtyChannel
from axbridge.virtual.world import World
from tests.support.bridge_client import Client
from tests.support.bridged_line import IDS, bridged, client, write
from tests.support.pty_line import PtyLine
from tests.support.virtual_rig import FakeBank, make_rig
from tests.support.waiting import until
from tests.support.warm import serving, start

PROFILES = ("ax-12a", "xl330-m288", "sts3215", "scs0009")


def test_packets_are_unchanged_by_encoding_and_decoding():
    some = [Passed(0.5, Source.PROGRAM, b"abc"), Passed(1.5, Source.SERVOS, b""), Passed(2.0, Source.BRIDGE, b"\xff")]
    for few in (some, some[:1], some[1:]):
        assert packets(packed_packets(few)) == few
    with pytest.raises(ValueError, match="number"):
        packets(b"\0\1\0\0")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("watch", [True, False])
def test_a_recording_has_samples_and_goals_of_any_program(tmp_path, profile, watch):
    path = tmp_path / "day.mcap"
    with bridged(profile, path=path, watch=watch) as (line, port, _), client(port, line) as bus:
        protocol, units, middle = line[1].protocol, line[1].profile.units, line[1].zero
        for id_ in IDS:
            write(bus, line, id_, "torque_enable", 1)
        write(bus, line, 1, "goal_position", middle)  # before the first sample
        time.sleep(0.02)
        for step in range(3):
            line.set(1, present_position=middle + step)
            bus.read_many([(id_, *protocol.present_position) for id_ in IDS])
            write(bus, line, 1, "goal_position", middle + 10 + step)
            time.sleep(0.02)
    track = open_recording(path)["s1"]
    seen = {
        (round(track.position[row] / units.position), round(track.command[row] / units.position)): row
        for row in range(len(track))
        if not math.isnan(track.position[row] + track.command[row])
    }
    assert seen.keys() >= {(0, 10), (1, 11), (2, 12)}
    row = seen[1, 11]
    assert track.commanded[row] > track.time[row]
    assert track.torque_enabled[row] == 1
    assert math.isnan(track.temperature[row]) or not watch  # the bridge reads it for its rules


@pytest.mark.parametrize("profile", PROFILES)
def test_registers_that_the_program_does_not_read_are_read_in_its_pauses(tmp_path, profile):
    path = tmp_path / "day.mcap"
    with bridged(profile, path=path, poll=0.02) as (line, port, _), client(port, line) as bus:
        first = line.box.rows
        for _ in range(5):
            bus.read(1, *line[1].protocol.present_position)
            time.sleep(0.03)
        until(lambda: line.box.rows > first + 4)
        temperature = line[1].table["present_temperature"]
    track = open_recording(path)["s1"]
    known = track.temperature[~(track.temperature != track.temperature)]
    assert len(known) >= 2
    assert known[-1] == temperature


def test_every_byte_is_recorded_with_its_sender(tmp_path):
    path = tmp_path / "day.mcap"
    with bridged(path=path) as (line, port, _), client(port, line) as bus:
        before = len(line.received)
        for id_ in (1, 2, 1):
            bus.read(id_, 36, 2)
        assert write(bus, line, 1, "return_delay_time", 7).error  # its address differs on the line
        own = bytes(PROTOCOLS[1].with_torque)  # a READ of the bridge, for its rules
        packets = [(packet[0], packet[1], packet[2]) for packet in line.received[before:] if packet[2] != own]
    chunks = recorded_packets(path)
    program = b"".join(chunk.data for chunk in chunks if chunk.source is Source.PROGRAM)
    sent = [packet[:3] for packet in PROTOCOLS[1].decoder().feed(program)]
    assert sent[-len(packets) :] == packets
    (changed,) = [chunk.data for chunk in chunks if chunk.source is Source.CHANGED]
    (original, instead) = PROTOCOLS[1].decoder().feed(changed)
    assert original.params == b"\x05\x07"
    assert instead[:3] in sent
    answers = PROTOCOLS[1].decoder().feed(b"".join(chunk.data for chunk in chunks if chunk.source is Source.SERVOS))
    assert len(answers) >= len(packets)
    assert [chunk.time for chunk in chunks] == sorted(chunk.time for chunk in chunks)


def test_bytes_are_passed_on_before_the_packets_until_then_are_decoded():
    box = BlackBox(make_rig(IDS, dict.fromkeys(IDS, "ax-12a")))
    with ExitStack() as held:
        line = held.enter_context(PtyLine(dict.fromkeys(IDS, "ax-12a")))
        port = held.enter_context(closing(Port(line.port, 1_000_000)))
        channel = held.enter_context(closing(PtyChannel(1_000_000, listen=DirectReader)))
        relay, program = Relay(channel, port), held.enter_context(serial.Serial(channel.address, 1_000_000))
        box.watch(port, relay)
        for _ in range(2):
            port.send(v1.encode(1, 3, bytes((25, 1))))
        program.write(v1.encode(1, 3, bytes((25, 0))))
        until(relay.bytes_wait)
        box.work(relay.bytes_wait)
        assert (box.traffic.questions, box.pending) == (1, True)


def test_a_program_gets_only_the_replies_to_its_own_packets_even_if_they_are_late():
    with bridged(poll=0.01) as (line, port, _), client(port, line) as bus:
        protocol = line[1].protocol
        line.mishap = lambda _: 0.016  # s, as an FTDI adapter with its usual latency timer
        for frame, size in [(protocol.write_frame(1, 24, b"\1"), 6), (protocol.read_frame(1, 36, 2), 8)] * 10:
            bus.port.send(frame)
            assert len(whole_answer(bus.port, protocol)) == size
            assert bus.port.receive(time.monotonic() + 0.05) == b""  # the bridge polls meanwhile


def test_a_summary_names_losses_alarms_and_rules():
    box, protocol = BlackBox(make_rig(IDS)), PROTOCOLS[1]
    question, answer = protocol.read_frame(1, 36, 2), protocol.encode_status(1, 0x20, b"\0\2")
    lost = [b"", answer[:-1] + b"\0", answer[:4], answer + answer]  # no reply, damaged twice, repeated
    for number, came in enumerate([answer, *lost, answer]):
        box.traffic.decode_sent(question, float(number), 1e-5)
        box.traffic.decode_received(came, number + 0.002)
    box.traffic.decode_sent(protocol.encode(254, 1), 8.0, 1e-5)  # a PING to all is a question to none of them
    box.traffic.decode_received(b"".join(protocol.encode_status(id_, 0) for id_ in IDS), 8.1)
    box.traffic.decode_sent(protocol.write_frame(2, 24, b"\1"), 9.0, 1e-5)  # servos may be set not to acknowledge it
    box.note(Notice("s1", "top speed", ""), said=False)
    box.close()
    summary = box.summary()
    counts = {"asked": 6, "timeouts": 1, "corrupt": 2, "late": 1, "loss": 0.5, "alarms": {"overload": 3}}
    assert summary["servos"] == {"s1": counts, "s2": {**dict.fromkeys(counts, 0), "alarms": {}}}
    assert summary["rules"] == {"top speed": 1}
    assert summary["reply_ms"] == {"p50": pytest.approx(2), "p99": pytest.approx(2)}
    assert in_words(summary)[1:] == [
        "answers: median 2.00 ms, 99 % within 2.00 ms",
        "  s1: of 6 questions: 1 without an answer, 2 damaged, 1 late or repeated, overload in 3 answers",
        "rules: top speed 1",
    ]


@pytest.mark.parametrize(
    ("size", "first", "last"),  # bytes of the reply, 8 a block; time-outs and damaged replies
    [(None, (0, 0), (0, 0)), (8, (1, 0), (1, 0)), (16, (0, 0), (1, 0)), (20, (0, 0), (0, 1))],
)
def test_a_fast_read_may_have_servos_that_the_rig_lacks_and_end_at_a_missing_one(size, first, last):
    box = BlackBox(make_rig(IDS, dict.fromkeys(IDS, "xl330-m288")))
    blocks = [Packet(id_, 0, b"\0\7\0\0") for id_ in (1, 9, 2)]
    box.traffic.decode_sent(PROTOCOLS[2].group_question(0x8A, (1, 9, 2), 132, 4)[0], 0.0, 1e-5)
    box.traffic.decode_received(v2.encode_fast_status(blocks)[:size], 0.01)
    box.close()
    for id_, lost in zip(IDS, (first, last), strict=True):
        counts = box.traffic.stats.of(id_)
        assert (counts.asked, counts.timeouts, counts.corrupt) == (1, *lost)
        assert box.traffic.table.servos[id_].data(132, 4) == (None if any(lost) else b"\0\7\0\0")


@pytest.mark.parametrize("watch", [True, False])
def test_a_second_program_reads_through_the_bridge_and_does_not_write(watch):
    with bridged(watch=watch) as (line, port, _), client(port, line) as bus:
        before = bus.read(1, 36, 2).data
        with client(line.port, line) as second:
            assert second.read(1, 36, 2).data == before
            assert second.ping(2).error == 0
            assert bus.read(1, 36, 2).data == before
            with pytest.raises(PortError, match=r"`axbridge bridge` \(process \d+\) has this port"):
                write(second, line, 1, "torque_enable", 1)
        assert line[1].table["torque_enable"] == 0


def test_writes_of_a_foreign_second_program_reach_no_servo():
    with bridged(watch=True) as (line, _, notices):
        second = Port(line.port, 1_000_000)
        second.bridge = None
        count = len(line.received)
        second.send(PROTOCOLS[1].write_frame(1, 24, b"\1"))
        until(lambda: notices)
        second.close()
        assert len(line.received) == count
        assert "refused" in notices[0].text


def test_a_second_bridge_on_the_same_port_is_refused():
    with bridged() as (line, *_), pytest.raises(PortError, match="has this port"):
        Bridge(make_rig(IDS, return_delay_time=0), line.port, lambda _: None)


def test_motors_are_switched_off_after_a_recording_error(tmp_path):
    path = tmp_path / "day.mcap"
    bridge = bridged(path=path)
    line, port, _ = bridge.__enter__()
    with client(port, line) as bus:
        write(bus, line, 1, "torque_enable", 1)
        line.box._recorder._failure = OSError(28, "No space left on device")
        bus.port.send(PROTOCOLS[1].read_frame(1, 36, 2))
        until(lambda: line.box.failure)
    with pytest.raises(RecordingError, match="No space left"):
        bridge.__exit__(None, None, None)
    assert line[1].table["torque_enable"] == 0


@pytest.mark.ci
def test_the_run_of_a_foreign_program_is_viewed_and_identified(tmp_path):
    path, link = tmp_path / "day.mcap", tmp_path / "arm"
    with serving("bench_arm", "--timing", "wire") as port:
        options = ["--port", port, "--link", link, "--record", path, "--poll", "20", "--json"]
        with start("bridge", "bench_arm", *options) as bridge:
            bridge.stdout.readline()
            program = Client(str(link), "ax")
            program.write(1, program.torque, 1)
            since = time.monotonic()
            while (passed := time.monotonic() - since) < 6.0:
                sway = 0.4 * min(passed, 1.0) * math.sin(2 * math.pi * (0.3 + 0.15 * passed) * passed)
                program.write(1, program.goal, program.counts(sway))
                program.read(1, program.position)
                time.sleep(0.015)
            program.line.closePort()
            assert '"exit"' in bridge.stdout.readline()
            bridge.terminate()
            said = bridge.communicate()[0]
    assert json.loads(said.splitlines()[0])["summary"]["rules"] == {"exit": 1}
    with start("view", path, "--rig", "bench_arm", "--no-open", "--duration", "0.5") as page:
        assert "page: http" in page.communicate()[0]
        assert page.returncode == 0
    fit = ["--rig", "bench_arm", "--model", "lima2009", "--method", "cma", "--budget", "10s", "--out"]
    with start("identify", path, *fit, tmp_path / "fit.toml") as fitting:
        assert "mean absolute error" in fitting.communicate()[0]
    assert (tmp_path / "fit.toml").exists()


# -- replay -----------------------------------------------------------------------------------------------------------


def whole_answer(port, protocol):
    data, decoder = b"", protocol.decoder()
    while True:
        data += (chunk := until(lambda: port.receive(time.monotonic() + 0.1), 2.0))
        if decoder.feed(chunk):
            return data


def replayed(path, profile="ax-12a"):
    """Return a world that replays, its messages, and a function that returns a reply and its delay, s."""
    bank = FakeBank(2, np.full(2, FirmwareProfile.load(profile).electrics.nominal_voltage))
    world, said = World(make_rig(IDS, profile, return_delay_time=0), bank=bank), []
    Replay(path, world, said.append)
    (line,) = world.lines.values()

    def ask(frame):
        start = world.now() + 0.01
        line.send(frame, start)
        data, ended = b"", start
        while (due := line.next_due) < math.inf:
            world.sleep_until(due)
            for delivery in line.collect(due):
                data, ended = data + delivery.data, delivery.due
        world.sleep_until(world.now() + 0.01)
        return data, ended - start

    return world, said, ask


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("watch", [True, pytest.param(False, marks=pytest.mark.alone)])  # the bridge itself polls, too
def test_a_replay_answers_as_recorded_and_then_simulates(tmp_path, profile, watch):
    path, frames, answers = tmp_path / "day.mcap", [], []
    with bridged(profile, path=path, watch=watch) as (line, port, _), client(port, line) as bus:
        protocol, goal = line[1].protocol, line[1].profile.register("goal_position")
        line.set(1, present_position=line[1].zero + 100)
        for frame in (
            protocol.read_frame(1, *protocol.present_position),
            protocol.write_frame(1, protocol.torque_enable, b"\1"),
            protocol.write_frame(1, goal.address, goal.encode(line[1].zero + 90)),
            protocol.read_frame(2, *protocol.present_position),
        ):
            frames.append(frame)
            bus.port.send(frame)
            answers.append(whole_answer(bus.port, protocol))
    times = [chunk.time for chunk in recorded_packets(path)]
    world, said, ask = replayed(path, profile)
    for number in (3, 0, 1, 2):  # the order only matters for each id
        answer, delay = ask(frames[number])
        assert answer == answers[number]
        assert 0 < delay < times[-1] - times[0] + 0.001  # none of the recorded delays is longer than the recording
    assert said == []
    here, _ = ask(protocol.read_frame(1, *protocol.present_position))
    assert said[0].startswith("packet 5 differs: expected nothing more to this id, got READ to id 1")
    servo = world.servos["s1"]
    position = servo.profile.register("present_position")
    start = 9 if protocol.version == 2 else 5
    assert abs(position.decode(here[start : start + position.size]) - servo.zero - 100) <= 1
    assert servo.table["torque_enable"] == 1
    assert servo.table["goal_position"] == servo.zero + 90
    world.sleep_until(world.now() + 1.0)
    last, _ = ask(protocol.read_frame(1, *protocol.present_position))
    assert abs(position.decode(last[start : start + position.size]) - servo.zero - 90) <= 1


def test_a_replayed_overload_lasts_beyond_the_difference(tmp_path):
    path = tmp_path / "day.mcap"
    with bridged(path=path) as (line, port, _), client(port, line) as bus:
        write(bus, line, 1, "torque_enable", 1)
        line.errors[1] = 0x20
        overload = bus.read(1, 36, 2)
        line.errors.clear()
    assert overload.error == 0x20
    world, said, ask = replayed(path)
    assert ask(PROTOCOLS[1].write_frame(1, 24, b"\1"))[0]
    assert ask(PROTOCOLS[1].read_frame(1, 36, 2))[0][4] == 0x20
    assert ask(PROTOCOLS[1].read_frame(1, 30, 2))[0][4] == 0x20
    assert "expected nothing more" in said[0]
    assert world.servos["s1"].table["torque_limit"] == 0


def test_a_recording_without_packets_cannot_be_replayed(tmp_path):
    path = tmp_path / "day.mcap"
    Recorder(path, {}).close()
    world = World(make_rig(IDS), bank=FakeBank(2))
    with pytest.raises(RecordingError, match="holds no packets of a program"):
        Replay(path, world, print)
    world.lines["other"] = world.lines["main"]
    with pytest.raises(UsageError, match="one line"):
        Replay(path, world, print)
