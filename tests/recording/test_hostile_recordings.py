"""Recordings and logs that nobody should write are refused in two lines, or read as far as they make sense."""

import math
import resource

import numpy as np
import pytest
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.records import Chunk

from axbridge.errors import RecordingError
from axbridge.recording.step_format import CYCLE, EVENTS, STEP, packed, packed_event
from axbridge.recording.stored import Message, MessageWriter, open_recording
from axbridge.state import SERVO_ROW

DEEP = b"[" * 100_000


def record(content):
    builder = RecordBuilder()
    content.write(builder)
    return bytes(builder.end())


def written(path, *messages, chunked=False, metadata=None):
    """A file; messages are (topic, bytes)."""
    with path.open("wb") as stream:
        writer = MessageWriter(stream, {"experiment": "step"}, chunked=chunked)
        if metadata is not None:
            writer._writer.add_metadata("axbridge", metadata)
        for topic, data in messages:
            writer.write(Message(topic, data, 0, ("a",) if topic == STEP else ()))
        writer.finish()


def sample(**columns):
    row = np.full(1, np.nan, SERVO_ROW)
    for name, value in columns.items():
        row[name] = value
    return STEP, packed(row)


GOOD = sample(time=0.5, position=0.1)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    "message",
    [(STEP, b""), (STEP, GOOD[1][:-1]), (STEP, GOOD[1] + b"\0"), (STEP, b"\0\0\0\0" + GOOD[1][4:]), (CYCLE, b"\0"),
     (EVENTS, b""), (EVENTS, b"\0\1\0\0\6\0\0\0" + DEEP), (EVENTS, packed_event({})[:-2]), (EVENTS, packed_event({})),
     (EVENTS, packed_event({"time": 1})), (EVENTS, packed_event({"time": math.nan, "name": "x"})),
     (EVENTS, packed_event({"time": 1, "name": 5})), (EVENTS, packed_event({"time": 1, "name": "x", "data": []}))],
)  # fmt: skip
def test_a_message_that_makes_no_sense_is_refused_in_words(tmp_path, message, chunked):
    written(tmp_path / "run.mcap", GOOD, message, chunked=chunked)
    with pytest.raises(RecordingError, match=r"run.mcap: (holds|has|makes no sense|is nested).*\n"):
        open_recording(tmp_path / "run.mcap")


def test_numbers_that_are_none_are_unknown_and_a_sample_without_a_time_is_none(tmp_path):
    path = tmp_path / "run.mcap"
    for chunked in (False, True):
        times = [sample(time=time, position=0.2) for time in (math.nan, math.inf, 1e300)]
        last = sample(time=1.7e9 + 1 / 64, position=math.inf, load=-math.inf, voltage=12)  # a clock that began in 1970
        written(path, GOOD, *times, last, chunked=chunked)
        track = open_recording(path)["a"]
        np.testing.assert_array_equal(track.time, [0.5, 1.7e9 + 1 / 64])
        np.testing.assert_array_equal(track.position, [0.1, np.nan])
        np.testing.assert_array_equal(track.load, [np.nan, np.nan])
        assert track.voltage[1] == 12


@pytest.mark.parametrize("servos", [None, "5", "[]", "[5]", '["a", "a"]', "no JSON", DEEP.decode()])
def test_a_channel_that_does_not_name_its_servos_is_refused_or_not_ours(tmp_path, servos):
    from mcap.writer import Writer

    with (tmp_path / "run.mcap").open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        writer.add_metadata("axbridge", {})
        channel = writer.register_channel(STEP, "cdr", 0, {} if servos is None else {"servos": servos})
        writer.add_message(channel, 0, GOOD[1], 0)
        writer.finish()
    if servos is None:
        assert list(open_recording(tmp_path / "run.mcap")) == []
        return
    with pytest.raises(RecordingError, match=r"run.mcap: (makes no sense|is nested)"):
        open_recording(tmp_path / "run.mcap")


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
        ("rig", DEEP.decode(), "is nested too deeply"),
        ("rig", "9" * 5000, "has a number that is too large"),
        ("rig", "no JSON", "makes no sense: "),
    ],
)
def test_metadata_that_are_no_such_thing_are_named_by_their_key(tmp_path, key, value, said):
    written(tmp_path / "run.mcap", GOOD, metadata={key: value})
    with pytest.raises(RecordingError, match=rf"run.mcap: (its metadata make no sense: )?{said}.*\n(record|give)"):
        open_recording(tmp_path / "run.mcap")


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
    written(tmp_path / "run.mcap", GOOD)
    content = (tmp_path / "run.mcap").read_bytes()
    end = content.index(b"\x0f" + (4).to_bytes(8, "little"))  # the end of the data
    chunk = record(Chunk("zstd", bomb, 0, 0, 0, said_size))
    (tmp_path / "run.mcap").write_bytes(content[:end] + chunk + content[end:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = open_recording(tmp_path / "run.mcap")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
    assert not found.complete
    assert len(found["a"]) == 1


def test_a_chunk_is_not_read_as_often_as_the_index_says(tmp_path):
    """Else a file of 1 MB keeps a computer busy for hours."""
    with (tmp_path / "run.mcap").open("wb") as stream:
        writer = MessageWriter(stream, {}, chunked=True)
        writer._writer._Writer__chunk_size = 1
        writer.write(Message(*GOOD, 0, ("a",)))
        writer._writer._Writer__chunk_indices *= 3
        writer.finish()
    assert open_recording(tmp_path / "run.mcap")["a"].time.tolist() == [0.5]
