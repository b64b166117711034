"""Recordings are read as they were written, also from files that were cut off."""

import io
import json
import math
import os
import pickle
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import zlib
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.reader import make_reader
from mcap.records import Chunk
from mcap.writer import Writer
from rosbags.highlevel import AnyReader

import axbridge
from axbridge.comparison.comparison import compare, following
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import copy_rig
from axbridge.errors import ErrorFlag, FeetechError, HardwareError, RecordingError
from axbridge.motion.experiments import Options, conduct
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.step_format import CYCLE, CYCLE_FIELDS, EVENTS, STEP, packed, packed_event
from axbridge.recording.stored import Message, MessageWriter, open_recording, write_recording
from axbridge.state import SERVO_ROW, BusEvent, StepReport
from tests.support.samples import record
from tests.support.waiting import run as go
from tests.support.waiting import until

FIELDS = tuple(name for name in CYCLE_FIELDS if name != "time")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.mcap"


def test_what_was_recorded_is_read_back_from_a_compressed_and_indexed_file(tmp_path):
    path = tmp_path / "made" / "run.mcap"
    known = {"command": 1.5, "torque_enabled": True, "true_position": 0.1, "true_torque": 0.2}
    with Recorder(path, {"backend": "sim", "seed": 3}) as recorder:
        recorder.event(0.0, "segment", name="step", target=1.5)
        for index in range(100):
            record(recorder, index * 0.02, servo="shoulder", position=index / 100, **known)
            recorder.cycle(index * 0.02, late_ms=0.1)
        recorder.event(1.0, "segment", name="fall")
    recording = pickle.loads(pickle.dumps(open_recording(path)))  # as for another process
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_size < 20_000  # 47 kB plain
    with path.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary.statistics.message_count == 202
    assert {chunk.compression for chunk in summary.chunk_indexes} == {"zstd"}
    assert {schema.encoding for schema in summary.schemas.values()} == {"ros2msg"}
    path.unlink()
    assert recording.complete
    assert recording.metadata == {"backend": "sim", "seed": 3}
    assert list(recording) == ["shoulder"]
    track = recording["shoulder"]
    np.testing.assert_allclose(track.time, np.arange(100) * 0.02)
    np.testing.assert_array_equal(track.position, np.arange(100) / 100)
    assert {name: set(getattr(track, name)) for name in known} == {name: {value} for name, value in known.items()}
    assert track.enabled.all()
    assert np.isnan(track.torque).all()
    assert [(s.name, s.start) for s in recording.segments] == [("step", 0.0), ("fall", 1.0)]
    assert recording.segments[0].data["target"] == 1.5
    assert len(recording.cycles["late_ms"]) == 100


def test_an_exception_leaves_a_complete_recording_with_an_aborted_event(path):
    with pytest.raises(ZeroDivisionError), Recorder(path, {}) as recorder:  # noqa: PT012
        record(recorder, 0.5)
        raise ZeroDivisionError("oops")
    recording = open_recording(path)
    assert recording.complete
    (event,) = recording.events
    assert (event.name, event.time, event.data) == ("aborted", 0.5, {"error": "ZeroDivisionError: oops"})


FOR_EVER = """
import sys, time
from axbridge.recording.recorder import Recorder
from tests.support.samples import record
recorder = Recorder(sys.argv[1], {"experiment": "step"})
start = time.monotonic()
while True:
    now = time.monotonic() - start
    record(recorder, now, position=now)
    print(now, flush=True)
    time.sleep(0.002)
"""


def test_after_sigkill_all_samples_older_than_50_ms_are_stored(path):
    seen, deadline = [0.0], time.monotonic() + 20
    with subprocess.Popen([sys.executable, "-c", FOR_EVER, path], stdout=subprocess.PIPE, text=True) as process:
        while time.monotonic() < deadline and seen[-1] < 0.4:
            seen.append(float(process.stdout.readline()))
        process.kill()
        seen += [float(line) for line in process.stdout]
    recording = open_recording(path)
    assert not recording.complete
    assert recording.metadata == {"experiment": "step"}
    expected = [value for value in seen[1:] if value < seen[-1] - 0.05]
    assert len(recording["a"]) >= len(expected)
    np.testing.assert_array_equal(recording["a"].time[: len(expected)], expected)


def sample(tracks=1, length=200):
    time_ = np.linspace(0, 2, length)
    columns = {"position": np.sin(time_), "command": np.cos(time_)}
    servos = {f"servo {i}": Track.of(f"servo {i}", time_, **columns) for i in range(tracks)}
    return Recording("x", servos, (Event(0.5, "note"),), {}, {"a": [1]})


def foreign():
    """Return a file of another program."""
    writer = Writer(stream := io.BytesIO())
    writer.start()
    channel = writer.register_channel("/thing", "json", writer.register_schema("other.Thing", "jsonschema", b"{}"))
    writer.add_message(channel, 0, b"{}", 0)
    writer.finish()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"time,position\n0,1\n", "this is no MCAP recording\ngive a .mcap file"),
        (b"\0" * 4000, "this is no MCAP recording\ngive a .mcap file"),
        (b"", "holds no samples: it was stopped before the first one\nrecord it again"),
        (b"\x89MCAP", "holds no samples: it was stopped before the first one\nrecord it again"),
        (foreign(), "is no recording of axbridge"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path, content, message):
    path = tmp_path / "x.mcap"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=message):
        open_recording(path)


def test_a_log_is_refused_with_the_command_that_imports_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my log.csv").write_text("time_s,hip.position_rad\n0,1\n")
    for name, command in (("my log.csv", '"my log.csv" "my log.mcap"'), ("sample:xl330", "sample:xl330 xl330.mcap")):
        with pytest.raises(RecordingError, match=f"make a recording of it: `axbridge import {command}`"):
            open_recording(name)


def test_a_segment_that_begins_after_the_last_sample_does_not_end_before_it_begins():
    track = Track.of("hip", np.array([0.0, 1.0]), position=np.zeros(2))
    marks = tuple(Event(time, "segment", {"name": "part"}) for time in (0.0, 1.9))
    assert [(s.start, s.end) for s in Recording("x", {"hip": track}, marks).segments] == [(0.0, 1.9), (1.9, 1.9)]


def test_a_recording_without_samples_is_described_as_such(tmp_path):
    path = tmp_path / "x.mcap"
    with Recorder(path, {"backend": "sim"}) as recorder:
        recorder.event(0.0, "aborted", error="Stop")
        cut = path.read_bytes()
    for content, flaw in ((path.read_bytes(), "holds no samples"), (cut, "was cut off before its first sample")):
        path.write_bytes(content)
        recording = open_recording(path)
        assert (recording.flaw, len(recording)) == (flaw, 0)
        for judge in (following, lambda empty: compare(sample(), empty)):
            with pytest.raises(RecordingError, match=f"x.mcap: {flaw}\nrecord it again"):
                judge(recording)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("write", [lambda p: Recorder(p, {}), lambda p: write_recording(sample(), p)])
def test_a_full_disk_stops_the_recording_and_replaces_nothing(write):
    with pytest.raises(RecordingError, match="/dev/full: cannot be written: No space left"):
        write("/dev/full")
    assert not Path("/dev/full").is_file()


@pytest.mark.parametrize("error", [MemoryError(), ValueError("no such encoding"), OSError(5, "Input/output error")])
def test_an_error_of_the_writing_thread_is_raised_and_the_file_is_cut_off(path, error):
    recorder = Recorder(path, {"backend": "real"})
    record(recorder, 0.0)
    until(recorder._queue.empty)

    def fail(_message):
        raise error

    recorder._writer.write = fail
    record(recorder, 0.02)
    until(lambda: not recorder._thread.is_alive())
    message = getattr(error, "strerror", None) or str(error) or "MemoryError"
    with pytest.raises(RecordingError, match=f"cannot be written: {message}"):
        record(recorder, 0.04)
    with pytest.raises(RecordingError, match=f"cannot be written: {message}"):
        recorder.close()
    assert not axbridge.open_recording(path).complete


def messages(path):
    """Return topic, log time, ns, and the first number of each message by MCAP's own reader."""
    with path.open("rb") as stream:
        recording = list(make_reader(stream, validate_crcs=True).iter_messages())
    return [
        (kind.topic, message.log_time, *struct.unpack_from("<d", message.data, 4)) for _, kind, message in recording
    ]


def test_log_time_is_wall_clock_and_robot_time_a_field(path):
    begin = time.time_ns()
    with Recorder(path, {"backend": "real"}) as recorder:
        record(recorder, 5.0)
        record(recorder, 5.1, servo="b", logged=begin - 7)
        recorder.cycle(5.2, late_ms=0.0)
    recording = messages(path)
    assert [robots for _, _, robots in recording] == [5.1, 5.0, 5.2]
    assert recording[0][1] == begin - 7
    assert all(begin <= logged <= time.time_ns() for _, logged, _ in recording[1:])
    with Recorder(path, {"backend": "sim"}) as recorder:  # which does not run in real time
        for index in range(100):
            record(recorder, index * 10.0)
    logged = [moment for _, moment, _ in messages(path)]
    assert begin <= logged[0] <= time.time_ns()
    np.testing.assert_array_equal(np.diff(logged), 10_000_000_000)
    facts = {"recorded": "2026-01-02T03:04:05+00:00"}
    write_recording(Recording("x", sample().tracks, (), {}, facts), path)
    assert messages(path)[0][1] == 1767323045 * 10**9


def test_other_programs_read_each_servo_by_name(path):
    """rosbags has no types of axbridge: it reads the message definitions from the file."""
    with Recorder(path, {}) as recorder:
        rows = np.zeros(3, SERVO_ROW)
        rows["time"], rows["position"] = 0.5, [0.1, 0.2, 0.3]
        recorder.step(("Left Knee", "left_knee", "7"), rows)
        recorder.event(0.5, "segment", name="step")
        recorder.cycle(0.25, **dict.fromkeys(FIELDS, 0.25))
    with AnyReader([path]) as reader:
        recording = {kind.topic: reader.deserialize(raw, kind.msgtype) for kind, _, raw in reader.messages()}
    assert [recording["/step"].left_knee.position, recording["/step"].left_knee_2.position] == [0.1, 0.2]
    assert recording["/step"].servo_7.position == 0.3
    assert json.loads(recording["/events"].data) == {"time": 0.5, "name": "segment", "data": {"name": "step"}}
    assert {getattr(recording["/cycle"], name) for name in ("time", *FIELDS)} == {0.25}


def test_servos_that_are_sampled_together_share_their_messages(path):
    time_ = np.arange(50) * 0.02
    tracks = {
        "knee": Track.of("knee", time_, position=time_),
        "hip": Track.of("hip", time_ + 0.001, position=-time_),
        "neck": Track.of("neck", time_[:20] * 3, voltage=time_[:20]),
    }
    recording = write_recording(Recording("x", tracks), path)
    topics = [topic for topic, *_ in messages(path)]
    assert (topics.count("/step"), topics.count("/step2")) == (50, 20)
    for name, track in tracks.items():
        np.testing.assert_array_equal(recording[name].time, track.time)
        np.testing.assert_array_equal(recording[name].position, track.position)
    np.testing.assert_array_equal(recording["neck"].voltage, time_[:20])


LONG = """
import resource, sys
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from tests.support.samples import record
for count in (25_000, 100_000):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Recorder(sys.argv[1], {}) as recorder:
        for index in range(count):
            record(recorder, index / 50, position=index / 7, velocity=0.1, voltage=11.1, command=0.5)
    assert open_recording(sys.argv[1]).end > 0
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.ci
def test_memory_does_not_grow_with_the_recording(path):
    command = [sys.executable, "-c", LONG, path]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert float(done.stdout) < 10.0  # MB; a hundred thousand samples as objects take 130


def damage(path, number, place=-20):
    """Change a byte of a chunk: counted from its end, or in its header, which has the length."""
    with path.open("rb") as stream:
        chunk = make_reader(stream).get_summary().chunk_indexes[number]
    content = bytearray(path.read_bytes())
    content[chunk.chunk_start_offset + place % chunk.chunk_length] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("number", [0, 2, -1])
def test_a_damaged_chunk_loses_only_its_own_samples(path, number):
    write_recording(sample(length=20_000), path)
    damage(path, number)
    recording = open_recording(path)
    (lost,) = recording.lost
    assert recording.flaw == f"is damaged: {lost} cannot be read"
    parts = int(re.fullmatch(r"1 of (\d+) parts", lost)[1])
    assert parts > 3
    assert 20_000 - 2 * 20_000 / parts < len(recording["servo 0"]) < 20_000
    assert set(recording["servo 0"].time) < set(sample(length=20_000)["servo 0"].time)
    write_recording(sample(length=20_000), path)
    damage(path, 1, place=3)  # the length: a complete file is read by its index
    assert len(open_recording(path)["servo 0"]) == 20_000


def test_more_servos_than_a_robot_has_are_neither_written_nor_read(path, monkeypatch):
    with pytest.raises(RecordingError, match="holds 1001 servos, and 1000 are the most"):
        write_recording(sample(1001, 2), path)
    assert not path.exists()
    write_recording(sample(12, 2), path)
    monkeypatch.setattr("axbridge.recording.provenance._MAX_SERVOS", 11)
    with pytest.raises(RecordingError, match="holds 12 servos, and 11 are the most"):
        open_recording(path)


def test_an_open_recording_can_be_read_after_its_file_is_replaced(path):
    write_recording(sample(), path)
    recording = open_recording(path)
    with Recorder(path, {}) as recorder:
        record(recorder, 0.0, servo="other")
        assert len(recording["servo 0"]) == 200
    assert list(open_recording(path)) == ["other"]
    np.testing.assert_array_equal(recording["servo 0"].command, sample()["servo 0"].command)


def test_ctrl_c_during_close_leaves_the_file_complete_and_unlocked(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path / "a.mcap", {})
    finished = recorder._thread.join
    monkeypatch.setattr(recorder._thread, "join", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        recorder.close()
    finished()
    assert open_recording(tmp_path / "a.mcap").complete
    Recorder(tmp_path / "a.mcap", {}).close()


def test_if_compression_fails_the_plain_file_stays_complete(tmp_path, path):
    recorder = Recorder(path, {})
    record(recorder, 0.5)
    (tmp_path / f".{zlib.crc32(b'run.mcap'):08x}.{os.getpid()}.part").mkdir()  # blocks the temporary file's name
    with pytest.raises(RecordingError, match="is whole, but could not be compressed"):
        recorder.close()
    recording = open_recording(path)
    assert recording.complete
    assert list(recording["a"].time) == [0.5]


def test_invalid_records_are_refused_and_later_ones_are_stored_once(path):
    path.write_text("an old file")
    for wrong in ({"notes": "no list"}, {"other": {1, 2}}):
        with pytest.raises((RecordingError, TypeError), match=r"notes: must be a list|not JSON"):
            Recorder(path, wrong)
    assert path.read_text() == "an old file"
    with Recorder(path, {}) as recorder:
        with pytest.raises(RecordingError, match="target: must be a finite number"):
            recorder.event(0.0, "segment", target=math.nan)
        with pytest.raises(TypeError, match="not JSON serializable"):
            recorder.event(0.0, "odd", value={1, 2})
        with pytest.raises(TypeError, match="no field colour"):
            recorder.cycle(0.1, colour=3.0)
        record(recorder, math.nan)  # a state that was never read
        for index in (0, 0, 1, 1, 2):
            record(recorder, index * 0.1)
    np.testing.assert_allclose(open_recording(path)["a"].time, [0, 0.1, 0.2])
    recorder.close()
    with pytest.raises(RecordingError, match="closed"):
        recorder.event(0, "late")
    with pytest.raises(TypeError, match="not JSON serializable"):  # and the file stays, unlocked
        Recorder(path, {"place": path})
    assert len(open_recording(path)["a"]) == 3
    Recorder(path, {}).close()


RECORD = """
import sys
from axbridge.recording.recorder import Recorder
from tests.support.samples import record
with Recorder(sys.argv[1], {}) as recorder:
    record(recorder, 0.5)
    print("on", flush=True)
    input()
"""


@pytest.mark.parametrize("killed", [False, True])
def test_of_programs_that_start_together_one_records_and_its_end_unlocks_the_file(path, killed):
    if killed:
        path.write_text("an older one")  # the first program replaces it
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    programs = [subprocess.Popen([sys.executable, "-c", RECORD, path], text=True, **pipes) for _ in range(3)]
    message = [program.stdout.readline() for program in programs]
    assert sorted(message) == ["", "", "on\n"]
    first = programs.pop(message.index("on\n"))
    taken = "run.mcap: is being recorded by another program\ngive another name"
    assert all(taken in program.communicate()[1] for program in programs)
    if killed:
        first.kill()
    assert first.communicate("\n")[1] == ""
    assert (open_recording(path).complete, list(open_recording(path)["a"].time)) == (not killed, [0.5])
    Recorder(path, {}).close()
    assert list(path.parent.iterdir()) == [path]


def test_a_file_moved_during_its_recording_is_complete(tmp_path, path):
    recorder = Recorder(path, {})
    record(recorder, 0.01)
    path.rename(tmp_path / "moved.mcap")
    with Recorder(path, {}) as other:
        record(other, 0.01)
        record(other, 0.02)
        recorder.close()
    assert len(open_recording(tmp_path / "moved.mcap")["a"]) == 1
    assert len(open_recording(path)["a"]) == 2


COPY = "FSIZE", 9000, lambda path, _: copy_rig(Rig.load("bioloid"), path)


@pytest.mark.parametrize(("limit", "most", "write"), [("FSIZE", 0, Recorder), ("NOFILE", 1, Recorder), COPY])
def test_a_failed_write_leaves_no_file(tmp_path, path, limit, most, write):
    kind, free = getattr(resource, f"RLIMIT_{limit}"), os.dup(0)
    os.close(free)
    before = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (most + free * (limit == "NOFILE"), before[1]))
        with pytest.raises((RecordingError, OSError), match="File too large|Too many open files"):
            write(path, {})
    finally:
        resource.setrlimit(kind, before)
    assert not list(tmp_path.iterdir())


# ---- invalid recordings are refused in two lines, or read as far as they are valid

DEEP = b"[" * 100_000


def written(path, *messages, chunked=False, metadata=None):
    """Write a file; messages are (topic, bytes)."""
    with path.open("wb") as stream:
        writer = MessageWriter(stream, {"experiment": "step"}, chunked=chunked)
        if metadata is not None:
            writer._writer.add_metadata("axbridge", metadata)
        for topic, data in messages:
            writer.write(Message(topic, data, 0, ("a",) if topic == STEP else ()))
        writer.finish()


def sampled(**columns):
    row = np.full(1, np.nan, SERVO_ROW)
    for name, value in columns.items():
        row[name] = value
    return STEP, packed(row)


GOOD = sampled(time=0.5, position=0.1)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    "message",
    [(STEP, b""), (STEP, GOOD[1][:-1]), (STEP, GOOD[1] + b"\0"), (STEP, b"\0\0\0\0" + GOOD[1][4:]), (CYCLE, b"\0"),
     (EVENTS, b""), (EVENTS, b"\0\1\0\0\6\0\0\0" + DEEP), (EVENTS, packed_event({})[:-2]), (EVENTS, packed_event({})),
     (EVENTS, packed_event({"time": 1})), (EVENTS, packed_event({"time": math.nan, "name": "x"})),
     (EVENTS, packed_event({"time": 1, "name": 5})), (EVENTS, packed_event({"time": 1, "name": "x", "data": []}))],
)  # fmt: skip
def test_an_invalid_message_is_refused_with_a_reason(path, message, chunked):
    written(path, GOOD, message, chunked=chunked)
    with pytest.raises(RecordingError, match=r"run.mcap: (holds|has|is damaged|is no JSON|is empty|is nested).*\n"):
        open_recording(path)


def test_implausible_numbers_are_unknown_and_samples_without_a_time_are_left_out(path):
    for chunked in (False, True):
        times = [sampled(time=time, position=0.2) for time in (math.nan, math.inf, 1e300)]
        last = sampled(time=1.7e9 + 1 / 64, position=1e300, load=-math.inf, voltage=12)  # a clock that counts from 1970
        written(path, GOOD, *times, last, chunked=chunked)
        track = open_recording(path)["a"]
        np.testing.assert_array_equal(track.time, [0.5, 1.7e9 + 1 / 64])
        np.testing.assert_array_equal(track.position, [0.1, np.nan])
        np.testing.assert_array_equal(track.load, [np.nan, np.nan])
        assert track.voltage[1] == 12


@pytest.mark.parametrize("servos", [None, "5", "[]", "[5]", '["a", "a"]', "no JSON", DEEP.decode()])
def test_a_channel_without_servo_names_is_refused_or_ignored(path, servos):
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        writer.add_metadata("axbridge", {})
        channel = writer.register_channel(STEP, "cdr", 0, {} if servos is None else {"servos": servos})
        writer.add_message(channel, 0, GOOD[1], 0)
        writer.finish()
    if servos is None:
        assert list(open_recording(path)) == []
        return
    with pytest.raises(RecordingError, match=r"run.mcap: (is damaged|is no JSON|is empty|is nested)"):
        open_recording(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rig", '{"servo": [5]}', r"rig.servo.0: "),
        ("models", '{"a": 5}', r"models.a: must be a table"),
        ("registers", '{"a": {"punch": 1e400}}', r"registers.a.punch: "),
        ("pendulum", '{"mass": NaN, "length": 1}', r"pendulum.mass: "),
        ("pendulum", '{"mass": 0, "length": 1}', r"pendulum.mass: must be more than 0"),
        ("experiment", "{}", r"experiment: must be a text"),
        ("rig", DEEP.decode(), "is nested too deeply"),
        ("rig", "9" * 5000, "has a number that is too large"),
        ("rig", "no JSON", "is no JSON: "),
    ],
)
def test_invalid_metadata_are_named_by_their_key(path, key, value, message):
    written(path, GOOD, metadata={key: value})
    with pytest.raises(RecordingError, match=rf"run.mcap: (has invalid metadata: )?{message}.*\n(record|give)"):
        open_recording(path)


@pytest.fixture(scope="module")
def bomb():
    """A compressed chunk of 2.6 GB zeros."""
    huge = zstandard.ZstdCompressor().compressobj(size=2_600_000_000)
    packed = b"".join([*(huge.compress(bytes(100_000_000)) for _ in range(26)), huge.flush()])
    assert len(packed) < 300_000
    return packed


@pytest.mark.slow
@pytest.mark.parametrize("stated_size", [2_600_000_000, 50_000_000, 0])
def test_a_small_chunk_of_gigabytes_counts_as_damaged(path, bomb, stated_size):
    written(path, GOOD)
    content = path.read_bytes()
    end = content.index(b"\x0f" + (4).to_bytes(8, "little"))  # the end of the data
    builder = RecordBuilder()
    Chunk("zstd", bomb, 0, 0, 0, stated_size).write(builder)
    chunk = bytes(builder.end())
    path.write_bytes(content[:end] + chunk + content[end:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    recording = open_recording(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
    assert not recording.complete
    assert len(recording["a"]) == 1


def test_a_chunk_that_the_index_repeats_is_read_once(path):
    """Otherwise reading a file of 1 MB could take hours."""
    with path.open("wb") as stream:
        writer = MessageWriter(stream, {}, chunked=True)
        writer._writer._Writer__chunk_size = 1
        writer.write(Message(*GOOD, 0, ("a",)))
        writer._writer._Writer__chunk_indices *= 3
        writer.finish()
    assert open_recording(path)["a"].time.tolist() == [0.5]


# ---- a robot recorded by an observer: goals, limits, changes on the bus, and elapsed real time


def recorded(path, rig, act, **options):
    with axbridge.open(rig) as robot, Recorder(path, {"backend": "sim"}) as recorder:
        with RobotRecorder(robot, recorder, **options) as log:
            act(robot, log)
        robot.step(20)  # the observer is removed
    return open_recording(path)


def test_each_kind_of_command_has_its_columns_from_the_sample_at_which_it_acts(tmp_path):
    def act(robot, log):
        servo = robot["shoulder"]
        for command in (
            lambda: None,
            lambda: servo.set_position(0.5),
            lambda: (servo.set_velocity(1.0), servo.set_available_torque(0.5 * servo.max_torque)),
            lambda: (servo.set_velocity(9e9), servo.set_available_torque(9e9)),
            lambda: servo.set_velocity(0.0),
            lambda: servo.set_torque(0.1),
            servo.torque_off,
        ):
            command()
            go(robot, 0.1)

    with pytest.warns(axbridge.ControlWarning):
        recording = recorded(tmp_path / "a.mcap", "bench_arm", act)
    track = recording["shoulder"]
    assert len(track) == 36
    parts = np.arange(36) // 5
    still = parts == 4

    def column(name):
        return [float(getattr(track, name)[5 * part]) for part in range(7)]

    most = float(track.speed_limit[15])
    np.testing.assert_array_equal(column("torque_enabled"), [0, 1, 1, 1, 1, 1, 0])
    np.testing.assert_allclose(column("command")[:4], [math.nan, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(column("speed_limit")[:4], [math.nan, math.nan, 1.0, most])
    np.testing.assert_allclose(column("torque_limit")[:4], [math.nan, math.nan, 0.5, 1.0])
    assert most > 5  # the removal of the limit is recorded
    assert set(track.command[still]) == {track.position[20]}  # speed 0 holds the position
    assert np.isnan(track.command[25:30]).all()  # torque control


@pytest.mark.parametrize("error", [None, ValueError])
def test_the_last_event_has_the_statistics_of_each_bus_also_after_an_error(tmp_path, error):
    def act(robot, log):
        go(robot, 0.2)
        if error is not None:
            raise error

    with nullcontext() if error is None else pytest.raises(error):
        recorded(tmp_path / "a.mcap", "bench_arm", act)
    statistics = next(event for event in open_recording(tmp_path / "a.mcap").events if event.name == "bus statistics")
    assert statistics.time == pytest.approx(0.2)
    assert statistics.data["main"]["cycle"]["count"] >= 10


def test_changes_on_the_bus_are_events(tmp_path):
    def act(robot, log):
        robot["shoulder"].set_position(0.3)
        robot.simulation.inject("dead:1@0.2s")
        go(robot, 0.8)

    recording = recorded(tmp_path / "a.mcap", "bench_arm", act)
    missing, _ = recording.events
    assert (missing.name, missing.data["servo"]) == ("missing", "shoulder")
    assert 0.2 < missing.time < 0.4
    assert "1" in missing.data["error"]
    assert recording.cycles["errors"].max() == 1


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (ErrorFlag.CHECKSUM | ErrorFlag.RANGE, ["RANGE", "CHECKSUM"]),
        (HardwareError.ELECTRICAL_SHOCK | HardwareError.ENCODER, ["ENCODER", "ELECTRICAL_SHOCK"]),
        (FeetechError.OVERCURRENT | FeetechError.ENCODER, ["ENCODER", "OVERCURRENT"]),
        (FeetechError.OVERLOAD, ["OVERLOAD"]),
    ],
    ids=repr,
)
def test_an_alarm_is_recorded_by_its_name_in_the_servo_family(tmp_path, flags, names):
    def act(robot, log):
        alarm = BusEvent("fault", "shoulder", flags=flags)
        log._step(StepReport(20.0, 20.0, 0.0, {}, events=(alarm,)), robot.table)

    fault, _statistics = recorded(tmp_path / "a.mcap", "bench_arm", act).events
    assert fault.data == {"servo": "shoulder", "flags": names}


def test_samples_during_a_pause_are_not_recorded(tmp_path):
    def act(robot, log):
        for paused in (False, True, False):
            log.paused = paused
            go(robot, 0.1)

    recording = recorded(tmp_path / "a.mcap", "bench_arm", act, servos=["shoulder"], cycle=lambda: {"base_x": 1.5})
    assert np.diff(recording["shoulder"].time).max() == pytest.approx(0.12, abs=1e-3)
    assert len(recording["shoulder"]) == 11
    assert set(recording.cycles["base_x"]) == {1.5}


@pytest.mark.parametrize("direction", [1, -1])
def test_the_sign_of_a_duty_gives_the_direction_on_the_bus_and_in_the_simulation(tmp_path, direction):
    """Before, the experiment wrote the register itself: on a servo with direction -1, +30 % turned backwards."""
    rig = Rig.load("pendulum").with_servos(lambda _: {"direction": direction})
    path, name = tmp_path / "a.mcap", rig.servos[0].name
    with axbridge.open(rig) as robot, Recorder(path, {"backend": "sim"}) as recorder:
        conduct("duty", robot, name, recorder, Options(duties=(0.3,), duration=0.3))
        assert (robot[name].read("cw_angle_limit"), robot[name].read("ccw_angle_limit")) == (0, 1023)
        assert not robot[name].torque_enabled
    track = open_recording(path)[name]
    assert 0 < track.position[15] < 2.0
    # the motor was on; before, a direct write of the register was recorded as torque 0
    assert track.torque[:15].max() > 0.1
    assert track.power[:15].max() > 0.1
    again = simulate(open_recording(path), rig)[name]
    assert np.nanmax(np.abs(again.position - track.position)) < 0.1
