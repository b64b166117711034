"""Recordings: what goes in comes out, also from a file that was cut off."""

import contextlib
import json
import math
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge.errors import ErrorFlag, RecordingError
from axbridge.record.recorder import Recorder
from axbridge.record.recording import Event, Recording, Track, open_recording, write_recording
from axbridge.robot.state import ServoState, Truth


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
        from axbridge.record.recorder import Recorder
        from axbridge.robot.state import ServoState, Truth
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
        with contextlib.suppress(RecordingError):  # in words; anything else would be a crash
            open_recording(damaged)

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
    with pytest.raises(RecordingError, match="directory"):
        open_recording(tmp_path)


def test_an_unwritable_place_is_named_at_once(tmp_path):
    with pytest.raises(RecordingError, match="no folder .*nowhere"):
        Recorder(tmp_path / "nowhere" / "run.mcap", {})
    with pytest.raises(RecordingError, match="no folder .*nowhere"):
        write_recording(sample(), tmp_path / "nowhere" / "run.mcap")


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
