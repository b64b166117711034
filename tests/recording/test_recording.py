"""Recordings: what goes in comes out, also from a file that was cut off."""

import contextlib
import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge.errors import ErrorFlag, RecordingError
from axbridge.recording.mcap_file import CYCLE_FIELDS, Entry
from axbridge.recording.mcap_grouped import GroupedWriter
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.sample_facts import ServoFacts, Tally
from axbridge.recording.stored import open_recording, write_recording
from axbridge.state import ServoState, Truth


def state(time, position=0.1, **more):
    values = {"velocity": 0.0, "torque": math.nan, "load": 0.0, "voltage": 11.1, "temperature": 30.0}
    return ServoState(time=time, position=position, **(values | more), errors=ErrorFlag(0))


def test_what_was_recorded_is_read_back(tmp_path):
    path = tmp_path / "run.mcap"
    with Recorder(path, {"backend": "sim", "seed": 3}) as recorder:
        recorder.event(0.0, "segment", name="step", target=1.5)
        for index in range(100):
            recorder.record_state(
                "shoulder", state(index * 0.02, index / 100), command=1.5, torque_enabled=True, truth=Truth(0.1, 0.2)
            )
            recorder.cycle(index * 0.02, late_ms=0.1)
        recorder.event(1.0, "segment", name="fall")
    found = open_recording(path)
    assert found.complete
    assert found.metadata == {"backend": "sim", "seed": 3}
    assert list(found) == ["shoulder"]
    track = found["shoulder"]
    np.testing.assert_allclose(track.time, np.arange(100) * 0.02)
    np.testing.assert_array_equal(track.position, np.arange(100) / 100)
    assert set(track.command) == {1.5}
    assert track.enabled.all()
    assert np.isnan(track.torque).all()
    assert set(track.true_position) == {0.1}
    assert set(track.true_torque) == {0.2}
    assert [(s.name, s.start) for s in found.segments] == [("step", 0.0), ("fall", 1.0)]
    assert found.segments[0].data["target"] == 1.5
    assert len(found.cycles["late_ms"]) == 100


def test_a_closed_recording_is_compressed_and_indexed(tmp_path):
    from mcap.reader import make_reader

    path = tmp_path / "run.mcap"
    with Recorder(path, {}) as recorder:
        for index in range(2000):
            recorder.record_state("a", state(index * 0.01))
    with path.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary.statistics.message_count == 2000
    assert {chunk.compression for chunk in summary.chunk_indexes} == {"zstd"}
    assert {schema.encoding for schema in summary.schemas.values()} == {"jsonschema"}
    assert path.stat().st_size < 100_000  # 250 kB plain
    assert list(tmp_path.iterdir()) == [path]


def test_states_never_read_and_samples_reported_twice_are_left_out(tmp_path):
    with Recorder(tmp_path / "run.mcap", {}) as recorder:
        recorder.record_state("a", state(math.nan))
        for index in (0, 0, 1, 1, 2):
            recorder.record_state("a", state(index * 0.1))
    np.testing.assert_allclose(open_recording(tmp_path / "run.mcap")["a"].time, [0, 0.1, 0.2])


def test_an_exception_leaves_a_whole_recording_that_says_so(tmp_path):
    def fail():
        with Recorder(tmp_path / "run.mcap", {}) as recorder:
            recorder.record_state("a", state(0.5))
            raise ZeroDivisionError("oops")

    with pytest.raises(ZeroDivisionError):
        fail()
    found = open_recording(tmp_path / "run.mcap")
    assert found.complete
    assert [(event.name, event.time, event.data) for event in found.events] == [
        ("aborted", 0.5, {"error": "ZeroDivisionError: oops"})
    ]


def test_after_kill_nine_everything_older_than_50_ms_is_there(tmp_path):
    path = tmp_path / "run.mcap"
    script = textwrap.dedent(
        """
        import math, sys, time
        from axbridge.errors import ErrorFlag
        from axbridge.recording.recorder import Recorder
        from axbridge.state import ServoState, Truth
        recorder = Recorder(sys.argv[1], {"experiment": "step"})
        start = time.monotonic()
        while True:
            now = time.monotonic() - start
            recorder.record_state("a", ServoState(now, now, 0.0, math.nan, 0.0, 11.1, 30.0, ErrorFlag(0)))
            print(now, flush=True)
            time.sleep(0.002)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    seen = []
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and (not seen or seen[-1] < 0.4):
        seen.append(float(process.stdout.readline()))
    process.send_signal(signal.SIGKILL)
    seen += [float(line) for line in process.stdout]
    process.wait()
    process.stdout.close()
    found = open_recording(path)
    assert not found.complete
    assert found.metadata == {"experiment": "step"}
    wanted = [value for value in seen if value < seen[-1] - 0.05]
    assert len(found["a"]) >= len(wanted)
    np.testing.assert_array_equal(found["a"].time[: len(wanted)], wanted)


def sample(tracks=1, length=200):
    time_ = np.linspace(0, 2, length)
    columns = {"position": np.sin(time_), "command": np.cos(time_)}
    return Recording(
        "x",
        {f"servo {i}": Track.of(f"servo {i}", time_, **columns) for i in range(tracks)},
        (Event(0.5, "note"),),
        {},
        {"a": [1]},
    )


def test_a_recording_cut_anywhere_is_read_or_refused_in_words(tmp_path):
    whole = tmp_path / "whole.mcap"
    write_recording(sample(), whole)
    data = whole.read_bytes()
    cut = tmp_path / "cut.mcap"

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, len(data) - 1))
    def check(length):
        cut.write_bytes(data[:length])
        try:
            found = open_recording(cut)
        except RecordingError:
            return  # in words; anything else would be a crash
        assert not found.complete

    check()


def test_damaged_bytes_are_read_or_refused_in_words(tmp_path):
    whole = tmp_path / "whole.mcap"
    write_recording(sample(), whole)
    data = whole.read_bytes()
    damaged = tmp_path / "damaged.mcap"

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, len(data) - 1), st.integers(1, 255))
    def check(place, flip):
        damaged.write_bytes(data[:place] + bytes((data[place] ^ flip,)) + data[place + 1 :])
        with contextlib.suppress(RecordingError), warnings.catch_warnings():  # in words; all else would be a crash
            warnings.simplefilter("ignore")
            for track in open_recording(damaged).values():
                assert len(track.position) == len(track)

    check()


@pytest.mark.parametrize("content", [b"", b"\x89MCAP", b"time,position\n0,1\n", b"\0" * 4000])
def test_what_is_no_recording_is_refused(tmp_path, content):
    path = tmp_path / "x.mcap"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match="no MCAP recording"):
        open_recording(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(RecordingError, match="No such file"):
        open_recording(tmp_path / "none.mcap")
    with pytest.raises(RecordingError, match="is a folder, and no file"):
        open_recording(tmp_path)


def test_an_unwritable_place_is_named_at_once(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordingError, match="cannot be written: .*(exists|directory)"):
        Recorder(tmp_path / "file" / "run.mcap", {})
    with pytest.raises(RecordingError, match="cannot be written: .*(exists|directory)"):
        write_recording(sample(), tmp_path / "file" / "run.mcap")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_stops_the_recording_and_replaces_nothing():
    def fill():
        with Recorder("/dev/full", {}) as recorder:
            for index in range(100):
                recorder.record_state("a", state(index * 0.01))
                time.sleep(0.002)

    with pytest.raises(RecordingError, match="No space left"):
        fill()
    with pytest.raises(RecordingError, match="No space left"):
        write_recording(sample(), "/dev/full")
    assert not Path("/dev/full").is_file()


def test_recording_after_the_end_is_an_error(tmp_path):
    recorder = Recorder(tmp_path / "run.mcap", {})
    recorder.close()
    recorder.close()
    with pytest.raises(RecordingError, match="closed"):
        recorder.event(0, "late")


def test_an_unknown_column_is_refused(tmp_path):
    with Recorder(tmp_path / "run.mcap", {}) as recorder, pytest.raises(TypeError, match="colour"):
        recorder.record_state("a", state(0.0), colour=3.0)


def test_messages_of_other_programs_in_the_file_are_passed_over(tmp_path):
    from mcap.writer import Writer

    path = tmp_path / "other.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        schema = writer.register_schema("other.Thing", "jsonschema", b"{}")
        channel = writer.register_channel("/thing", "json", schema)
        writer.add_message(channel, 0, json.dumps({"x": 1}).encode(), 0)
        writer.finish()
    with pytest.raises(RecordingError, match="holds nothing"):
        open_recording(path)


def messages(path):
    from mcap.reader import make_reader

    with path.open("rb") as stream:
        found = list(make_reader(stream, validate_crcs=True).iter_messages())
    return [(channel.topic, message.log_time, json.loads(message.data)) for _, channel, message in found]


def test_log_time_is_wall_clock_and_robot_time_a_field(tmp_path):
    began = time.time_ns()
    with Recorder(tmp_path / "run.mcap", {"backend": "real"}) as recorder:
        recorder.record_state("a", state(5.0))
        recorder.record_state("b", state(5.1), logged=began - 7)
        recorder.cycle(5.2, late_ms=0.0)
    found = messages(tmp_path / "run.mcap")
    assert [body["time"] for _, _, body in found] == [5.1, 5.0, 5.2]
    assert found[0][1] == began - 7
    assert all(began <= logged <= time.time_ns() for _, logged, _ in found[1:])


def test_a_simulation_is_logged_at_its_own_pace_from_the_wall_clock_on(tmp_path):
    began = time.time_ns()
    with Recorder(tmp_path / "run.mcap", {"backend": "sim"}) as recorder:
        for index in range(100):
            recorder.record_state("a", state(index * 10.0))
    logged = [moment for _, moment, _ in messages(tmp_path / "run.mcap")]
    assert began <= logged[0] <= time.time_ns()
    np.testing.assert_array_equal(np.diff(logged), 10_000_000_000)


def test_what_is_written_later_is_logged_from_when_it_was_recorded(tmp_path):
    facts = {"recorded": "2026-01-02T03:04:05+00:00"}
    write_recording(Recording("x", sample().tracks, (), {}, facts), tmp_path / "run.mcap")
    assert messages(tmp_path / "run.mcap")[0][1] == 1767323045 * 10**9


def test_a_cycles_schema_declares_all_its_fields(tmp_path):
    from mcap.reader import make_reader

    path = tmp_path / "run.mcap"
    fields = dict.fromkeys(CYCLE_FIELDS, 0.5)
    with Recorder(path, {}) as recorder:
        recorder.cycle(0.0, **fields)
        with pytest.raises(TypeError, match="no field colour"):
            recorder.cycle(0.1, colour=3.0)
    with path.open("rb") as stream:
        schemas = make_reader(stream).get_summary().schemas.values()
    declared = next(json.loads(schema.data)["properties"] for schema in schemas if schema.name == "axbridge.Cycle")
    ((_, _, body),) = messages(path)
    assert declared.keys() == body.keys() == {"time", *fields}


@pytest.mark.ci
def test_memory_does_not_grow_with_the_recording(tmp_path):
    script = textwrap.dedent(
        """
        import math, resource, sys
        from axbridge.errors import ErrorFlag
        from axbridge.recording.recorder import Recorder
        from axbridge.recording.stored import open_recording
        from axbridge.state import ServoState
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        def record(count):
            with Recorder(sys.argv[1], {}) as recorder:
                for index in range(count):
                    state = ServoState(index / 50, index / 7, 0.1, math.nan, 0.0, 11.1, 30.0, ErrorFlag(0))
                    recorder.record_state(f"servo {index % 18}", state, command=0.5, torque_enabled=True)
            assert open_recording(sys.argv[1]).end > 0
        record(25_000)
        before = peak()
        record(100_000)
        print(peak() - before)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "run.mcap")], stdout=subprocess.PIPE, text=True, check=True
    )
    assert float(done.stdout) < 10.0  # MB; a hundred thousand samples as objects take 130


def damaged_after(path, topic, number=0):
    """Damage a chunk of a topic."""
    from mcap.reader import make_reader

    with path.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    content = bytearray(path.read_bytes())
    mine = [
        chunk
        for chunk in summary.chunk_indexes
        if topic in [summary.channels[channel].topic for channel in chunk.message_index_offsets]
    ]
    content[mine[number].chunk_start_offset + mine[number].chunk_length - 20] ^= 0xFF
    path.write_bytes(content)


def test_one_servo_is_read_without_the_others(tmp_path):
    path = tmp_path / "run.mcap"
    with path.open("wb") as stream:
        writer = GroupedWriter(stream, {})
        for servo, text in (("a", b'{"time": 1.0}'), ("b", b"no JSON")):
            writer.write(Entry(f"/servo/{servo}", {}, text=text))
        writer.finish({name: ServoFacts(1, 1.0, 1.0) for name in ("a", "b")})
    found = open_recording(path)
    assert found.complete
    assert [found.facts(name).samples for name in found] == [1, 1]  # known without a sample
    assert len(found["a"]) == 1
    with pytest.raises(RecordingError, match=r"run.mcap: holds a message of /servo/b that makes no sense"):
        assert found["b"]


def test_a_recording_whose_only_part_is_damaged_is_not_whole(tmp_path):
    path = tmp_path / "run.mcap"
    write_recording(sample(2), path)
    damaged_after(path, "/servo/servo 1")
    found = open_recording(path)
    assert not found.complete
    assert found.flaw == (
        "is damaged: 1 of 1 parts of /events, 1 of 1 parts of servo 0, 1 of 1 parts of servo 1 cannot be read"
    )
    assert [found.facts(name).samples for name in found] == [0, 0]
    assert len(found["servo 1"]) == 0


@pytest.mark.slow
def test_a_damaged_part_of_one_servo_costs_the_others_nothing(tmp_path):
    path = tmp_path / "run.mcap"
    write_recording(sample(2, length=20_000), path)
    damaged_after(path, "/servo/servo 1", number=1)
    found = open_recording(path)
    (lost,) = found.lost
    assert re.fullmatch(r"1 of \d+ parts of servo 1", lost)
    np.testing.assert_array_equal(found["servo 0"].position, sample(length=20_000)["servo 0"].position)


@pytest.mark.slow
def test_of_a_servo_with_a_damaged_part_the_rest_is_read(tmp_path):
    path = tmp_path / "run.mcap"
    write_recording(sample(length=20_000), path)
    damaged_after(path, "/servo/servo 0", number=2)
    found = open_recording(path)
    (lost,) = found.lost
    parts = int(re.fullmatch(r"1 of (\d+) parts of servo 0", lost)[1])
    assert parts > 3
    assert 20_000 - 2 * 20_000 / parts < len(found["servo 0"]) == found.facts("servo 0").samples < 20_000
    assert set(found["servo 0"].time) < set(sample(length=20_000)["servo 0"].time)


def test_columns_are_those_of_the_track(tmp_path):
    path = tmp_path / "run.mcap"
    write_recording(sample(2), path)
    for found in (open_recording(path), sample(2)):
        columns = found.columns("servo 1", "time", "position", "load")
        track = sample(2)["servo 1"]
        assert list(columns) == ["time", "position", "load"]
        for name, values in columns.items():
            np.testing.assert_array_equal(values, getattr(track, name))
        with pytest.raises(KeyError):
            found.columns("servo 7", "time")


def test_tracks_that_are_not_kept_are_read_again(tmp_path, monkeypatch):
    path = tmp_path / "run.mcap"
    write_recording(sample(3), path)
    monkeypatch.setattr("axbridge.recording.stored._KEPT", 1)
    found = open_recording(path)
    for _ in range(2):
        for name, track in found.items():
            np.testing.assert_array_equal(track.position, sample(3)[name].position)
    assert found["servo 2"] is found["servo 2"]


def test_more_servos_than_a_robot_has_are_neither_written_nor_read(tmp_path, monkeypatch):
    path = tmp_path / "run.mcap"
    with pytest.raises(RecordingError, match="holds 1001 servos, and 1000 are the most"):
        write_recording(sample(1001, 2), path)
    assert not path.exists()
    write_recording(sample(12, 2), path)
    monkeypatch.setattr("axbridge.recording.metadata._MOST", 11)
    with pytest.raises(RecordingError, match="holds 12 servos, and 11 are the most"):
        open_recording(path)


def test_asking_each_servo_for_its_span_looks_at_each_once():
    class Watched(dict):
        asked = 0

        def __getitem__(self, name):
            self.asked += 1
            return super().__getitem__(name)

    tracks = Watched(sample(100, 2).tracks)
    assert Recording(Path("x"), tracks).end == 2.0
    assert tracks.asked == 100


def test_an_open_recording_survives_what_takes_its_place(tmp_path):
    path = tmp_path / "run.mcap"
    write_recording(sample(), path)
    found = open_recording(path)
    with Recorder(path, {}) as recorder:
        recorder.record_state("other", state(0.0))
        assert len(found["servo 0"]) == 200
    assert list(open_recording(path)) == ["other"]
    np.testing.assert_array_equal(found["servo 0"].command, sample()["servo 0"].command)


def test_recordings_of_earlier_versions_are_read(tmp_path):
    from mcap.writer import Writer

    path = tmp_path / "old.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream, chunk_size=4096)
        writer.start()
        writer.add_metadata("axbridge", {"backend": '"sim"'})
        schema = writer.register_schema("axbridge.ServoSample", "jsonschema", b"{}")
        channels = [writer.register_channel(f"/servo/{name}", "json", schema) for name in "ab"]
        for index in range(500):
            for channel in channels:
                body = {"time": index / 50, "position": index + channel}
                writer.add_message(channel, index * 20_000_000, json.dumps(body).encode(), index * 20_000_000)
        writer.finish()
    found = open_recording(path)
    assert found.complete
    assert found.metadata == {"backend": "sim"}
    np.testing.assert_array_equal(found["b"].position, np.arange(500) + 2)
    assert found.facts("a").rate == pytest.approx(50)


def test_where_compression_fails_the_plain_file_stays_whole(tmp_path):
    path = tmp_path / "run.mcap"
    recorder = Recorder(path, {})
    recorder.record_state("a", state(0.5))
    (tmp_path / f".{zlib.crc32(b'run.mcap'):08x}.{os.getpid()}.part").mkdir()  # in the way
    with pytest.raises(RecordingError, match="is whole, but could not be compressed"):
        recorder.close()
    found = open_recording(path)
    assert found.complete
    assert list(found["a"].time) == [0.5]


def test_folders_are_made(tmp_path):
    with Recorder(tmp_path / "a" / "b" / "run.mcap", {}) as recorder:
        recorder.record_state("a", state(0.0))
    write_recording(sample(), tmp_path / "c" / "d.mcap")
    assert len(open_recording(tmp_path / "a" / "b" / "run.mcap")["a"]) == 1
    assert len(open_recording(tmp_path / "c" / "d.mcap")["servo 0"]) == 200


def test_gaps_jumps_and_a_clock_that_goes_back_are_counted_as_they_come():
    tally = Tally()
    moments = [*np.arange(0, 1, 0.02), *np.arange(1.5, 2, 0.02), 1.0, 1.0, 2.0, 2.02]
    for moment in moments:
        position = 3.0 if 1.6 < moment < 1.7 else 0.1 * math.sin(moment)
        tally.add({"time": float(moment), "position": position, "load": 0.1})
    facts = tally.facts()
    assert facts.samples == len(moments) - 1
    assert (facts.gaps, facts.backwards, facts.jumps) == (2, 1, 2)
    assert facts.longest_gap == pytest.approx(1.0)
    assert facts.first_jump_at == pytest.approx(1.62)
    assert (facts.lowest, facts.highest) == (0.0, 3.0)
    assert facts.columns == ("position", "load")
    assert ServoFacts.of(json.loads(json.dumps(facts.document()))) == facts


def test_a_wheel_that_turns_round_does_not_jump():
    tally = Tally()
    for index in range(200):
        tally.add({"time": index / 50, "position": (index * 0.1) % 5.2 - 2.6, "duty": 0.5})
    assert tally.facts().jumps == 0


def test_a_recording_travels_to_another_process(tmp_path):
    path = tmp_path / "run.mcap"
    with Recorder(path, {"seed": 3}) as recorder:
        recorder.record_state("a", state(0.5))
        recorder.cycle(0.5, late_ms=0.25)
    found = pickle.loads(pickle.dumps(open_recording(path)))
    path.unlink()
    assert (found.metadata, list(found["a"].time), list(found.cycles["late_ms"])) == ({"seed": 3}, [0.5], [0.25])
    assert found.facts("a").samples == 1


def test_an_event_that_is_no_json_is_refused_and_what_follows_is_kept(tmp_path):
    with Recorder(tmp_path / "run.mcap", {}) as recorder:
        with pytest.raises(TypeError, match="not JSON serializable"):
            recorder.event(0.0, "odd", value={1, 2})
        recorder.record_state("a", state(0.5))
    assert len(open_recording(tmp_path / "run.mcap")["a"]) == 1
