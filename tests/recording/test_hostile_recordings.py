"""Recordings and logs that nobody should write are refused in two lines, or read as far as they make sense."""

import json
import resource
from io import BytesIO

import numpy as np
import pytest
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.records import Chunk

from axbridge.cli.info import info
from axbridge.errors import RecordingError
from axbridge.recording import mcap_grouped
from axbridge.recording.import_logs import import_log
from axbridge.recording.mcap_file import EVENTS, SERVO_PREFIX, Entry, RecordWriter, register
from axbridge.recording.mcap_grouped import GroupedWriter
from axbridge.recording.recording import Recording, Track
from axbridge.recording.sample_facts import ServoFacts
from axbridge.recording.stored import open_recording, write_recording

DEEP = b"[" * 100_000
DIGITS = b"9" * 400


def record(content):
    builder = RecordBuilder()
    content.write(builder)
    return bytes(builder.end())


def plain(path, *messages, metadata=None):
    """A file without an index; messages are (topic, text)."""
    stream = BytesIO()
    writer = RecordWriter(stream, {"experiment": "step"})
    if metadata is not None:
        writer._writer.add_metadata("axbridge", metadata)
    for topic, text in messages:
        channel = register(writer._writer, topic, writer._schemas)
        writer._writer.add_message(channel, 0, text, 0)
    writer.finish()
    path.write_bytes(stream.getvalue())


def grouped(path, *messages):
    """A whole file with an index."""
    with path.open("wb") as stream:
        writer = GroupedWriter(stream, {"experiment": "step"})
        for topic, text in messages:
            writer.write(Entry(topic, {}, text=text))
        names = {topic.removeprefix(SERVO_PREFIX) for topic, _ in messages if topic.startswith(SERVO_PREFIX)}
        writer.finish({name: ServoFacts(1, 0.0, 0.0) for name in names})


GOOD = (SERVO_PREFIX + "a", b'{"time": 0.5, "position": 0.1}')


@pytest.mark.parametrize(
    "text",
    [DEEP, b'{"time": 1, "position": ' + DEEP, b'{"time": ' + DIGITS + b"}", b'{"time": NaN}', b'{"time": 1e300}', b"5",
     b'{"time": 1, "position": "x"}', b'{"time": 1}, {"time": 2}', b'{"time": "\xff"}'],
)  # fmt: skip
def test_a_message_that_makes_no_sense_ends_a_plain_file_and_is_named_in_a_whole_one(tmp_path, text):
    path = tmp_path / "run.mcap"
    plain(path, GOOD, (SERVO_PREFIX + "a", text))
    found = open_recording(path)
    assert not found.complete
    assert found["a"].time.tolist() == [0.5]
    grouped(path, GOOD, (SERVO_PREFIX + "a", text))
    found = open_recording(path)
    with pytest.raises(RecordingError, match=r"run.mcap: holds a message of /servo/a that makes no sense.*\nrecord it"):
        assert found["a"]
    grouped(path, (EVENTS, text))
    with pytest.raises(RecordingError, match=r"run.mcap: holds a message of /events that makes no sense.*\nrecord it"):
        open_recording(path)


def test_numbers_that_no_float_holds_are_unknown(tmp_path):
    path = tmp_path / "run.mcap"
    for write in (plain, grouped):
        write(
            path,
            GOOD,
            (SERVO_PREFIX + "a", b'{"time": 1, "position": ' + DIGITS + b', "load": -Infinity, "voltage": 12}'),
        )
        track = open_recording(path)["a"]
        np.testing.assert_array_equal(track.position, [0.1, np.nan])
        np.testing.assert_array_equal(track.load, [np.nan, np.nan])
        assert track.voltage[1] == 12


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("rig", "5", r"rig: input should be a valid dictionary"),
        ("rig", '{"servo": [5]}', r"rig.servo.0: "),
        ("models", '{"a": 5}', r"models.a: input should be a valid dictionary"),
        ("registers", '{"a": {"punch": 1e400}}', r"registers.a.punch: "),
        ("pendulum", '{"mass": NaN, "length": 1}', r"pendulum.mass: "),
        ("pendulum", '{"mass": 0, "length": 1}', r"pendulum.mass: input should be greater than 0"),
        ("gait", "[]", r"gait: input should be a valid dictionary"),
        ("experiment", "{}", r"experiment: input should be a valid string"),
    ],
)
def test_metadata_that_are_no_such_thing_are_named_by_their_key(tmp_path, key, value, said):
    plain(tmp_path / "run.mcap", GOOD, metadata={key: value})
    with pytest.raises(RecordingError, match=rf"run.mcap: its metadata make no sense: {said}.*\nrecord or import"):
        open_recording(tmp_path / "run.mcap")


@pytest.mark.parametrize("value", [DEEP.decode(), "9" * 5000, "no JSON"])
def test_metadata_that_are_no_json_end_the_file_there(tmp_path, value):
    plain(tmp_path / "run.mcap", GOOD, metadata={"rig": value})
    found = open_recording(tmp_path / "run.mcap")
    assert not found.complete
    assert found.metadata == {"experiment": "step"}


@pytest.fixture(scope="module")
def bomb():
    """2.6 GB of nothing."""
    huge = zstandard.ZstdCompressor().compressobj(size=2_600_000_000)
    packed = b"".join([*(huge.compress(bytes(100_000_000)) for _ in range(26)), huge.flush()])
    assert len(packed) < 300_000
    return packed


@pytest.mark.slow
@pytest.mark.parametrize("said_size", [2_600_000_000, 50_000_000, 0])
def test_a_small_chunk_that_unpacks_to_gigabytes_is_damage(tmp_path, bomb, said_size):
    plain(tmp_path / "run.mcap", GOOD)
    content = (tmp_path / "run.mcap").read_bytes()
    end = content.index(b"\x0f" + (4).to_bytes(8, "little"))  # the end of the data
    chunk = record(Chunk("zstd", bomb, 0, 0, 0, said_size))
    (tmp_path / "run.mcap").write_bytes(content[:end] + chunk + content[end:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = open_recording(tmp_path / "run.mcap")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
    assert not found.complete
    assert len(found["a"]) == 1


def test_a_chunk_is_not_read_as_often_as_the_index_says(tmp_path, monkeypatch):
    """Else a file of 1 MB keeps a computer busy for hours."""
    with (tmp_path / "run.mcap").open("wb") as stream:
        writer = GroupedWriter(stream, {})
        monkeypatch.setattr(mcap_grouped, "_CHUNK", 1)
        monkeypatch.setattr(writer._writer, "_Writer__chunk_size", 1)
        writer.write(Entry(*GOOD[:1], {}, text=GOOD[1]))
        writer._writer._Writer__chunk_indices *= 3
        writer.finish({"a": ServoFacts(3, 0.5, 0.5)})
    assert mcap_grouped.GroupedFile.open(tmp_path / "run.mcap") is None
    assert len(open_recording(tmp_path / "run.mcap")["a"]) == 1  # from its first byte on


@pytest.mark.parametrize(
    "facts", [{"samples": "x"}, {"columns": 5}, {"columns": [5]}, {"start": "x"}, {"samples": None}]
)
def test_facts_that_are_none_are_found_out_again(tmp_path, facts, capsys):
    class Facts:
        def document(self):
            return {"samples": 1, "columns": [], **facts}

    with (tmp_path / "run.mcap").open("wb") as stream:
        writer = GroupedWriter(stream, {})
        writer.write(Entry(*GOOD[:1], {}, text=GOOD[1]))
        writer.finish({"a": Facts()})
    info(tmp_path / "run.mcap", json=False)
    assert "1 samples" in capsys.readouterr().out


BAM = {"mass": 0.1, "length": 0.2, "kp": 32, "vin": 12.0}
ROW = {"timestamp": 0.1, "goal_position": 0.1, "position": 0.1, "speed": 0.0, "input_volts": 5.0, "temp": 30}
ROW |= {"torque_enable": True, "load": 0}


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (DEEP.decode(), "is nested too deeply"),
        ('{"entries": ' + DEEP.decode(), "is nested too deeply"),
        (json.dumps({**BAM, "mass": float("nan"), "entries": [ROW]}), "field 'mass' is nan"),
        (json.dumps({**BAM, "mass": 10**400, "entries": [ROW]}), "has a number that is too large"),
        (json.dumps({**BAM, "length": 0, "entries": [ROW]}), "field 'length' is 0"),
        (json.dumps({**BAM, "kp": 32.5, "entries": [ROW]}), "field 'kp' is 32.5"),
        (json.dumps({**BAM, "entries": [{**ROW, "position": 10**400}]}), "has a number that is too large"),
        (json.dumps({**BAM, "entries": [{**ROW, "position": 1}, 5]}), "entries[1]: field 'timestamp'"),
        ('{"mass": ' + "9" * 5000 + "}", "has a number that is too large"),
    ],
)
def test_a_log_of_bam_that_makes_no_sense_is_refused(tmp_path, log, said):
    (tmp_path / "log.json").write_text(log)
    with pytest.raises(RecordingError) as caught:
        import_log(tmp_path / "log.json")
    first, _hint = str(caught.value).splitlines()
    assert "log.json: " in first
    assert said in first


@pytest.mark.parametrize("time", ["1e300", "-1e16", "nan", "inf"])
def test_a_log_whose_clock_no_clock_reads_is_refused_with_its_line(tmp_path, time):
    (tmp_path / "log.csv").write_text(f"servo,time_s,position_rad\na,0,0\na,{time},1\n")
    with pytest.raises(RecordingError, match=r"log.csv: a: the time of line 3 is .* s .*\ncorrect or remove that line"):
        import_log(tmp_path / "log.csv")


def test_times_of_a_clock_that_began_in_1970_are_kept_to_the_microsecond(tmp_path):
    time = 1.7e9 + np.arange(5) / 64
    write_recording(Recording(tmp_path, {"a": Track.of("a", time)}), tmp_path / "run.mcap")
    np.testing.assert_array_equal(open_recording(tmp_path / "run.mcap")["a"].time, time)


@pytest.mark.parametrize("start", [None, 1e300, 5.0])
def test_facts_of_a_servo_whose_times_cannot_be_are_no_facts(start):
    with pytest.raises(ValueError, match="without times"):
        ServoFacts.of({"samples": 3, "start": start, "end": 2.0})
