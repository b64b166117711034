"""A recording of a virtual bus that stood still for a while: nobody draws conclusions from that stretch."""

from dataclasses import replace

import pytest

import axbridge
from axbridge.comparison.comparison import compare, lacks
from axbridge.comparison.findings import headline
from axbridge.comparison.recorded_runs import runs_of
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.motion.experiments import step_and_fall
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Event
from axbridge.recording.stored import open_recording


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A step and a fall of the bench arm."""
    path = tmp_path_factory.mktemp("standstill") / "arm.mcap"
    with (
        axbridge.open("bench_arm", backend="sim") as robot,
        Recorder(path, describe(robot.rig)) as recorder,
    ):
        step_and_fall(robot, "shoulder", recorder)
    return open_recording(path)


@pytest.fixture(scope="module")
def spoilt(sound):
    """The same, of a bus that stood still for 0.6 s of the fall: the arm seems to hang in the air, and falls later."""
    fall = sound.segments[-1]
    event = Event(fall.start + 0.7, "stood still", {"seconds": 0.65})

    def hang(track):
        late = track.time - 0.6
        moved = track.position.copy()
        falls = track.time > fall.start + 0.05
        moved[falls] = [track.position[track.time <= max(at, fall.start)][-1] for at in late[falls]]
        return replace(track, position=moved)

    events = tuple(sorted((*sound.events, event), key=lambda event: event.time))
    return replace(sound, tracks={name: hang(sound[name]) for name in sound}, events=events)


def test_a_stretch_lasts_to_the_end_of_its_part(spoilt):
    ((begin, end),) = spoilt.stood_still
    fall = spoilt.segments[-1]
    assert begin == pytest.approx(fall.start + 0.05)
    assert end == fall.end


def test_without_parts_it_lasts_half_a_second_longer_than_the_standstill(sound):
    alone = replace(sound, events=(Event(1.0, "stood still", {"seconds": 0.25}),))
    assert alone.stood_still == ((0.75, 1.5),)


def test_a_short_standstill_is_caught_up_with(sound):
    short = replace(sound, events=(*sound.events, Event(1.0, "stood still", {"seconds": 0.125})))
    assert short.stood_still == ((0.875, 1.0),)


def test_no_conclusion_is_drawn_from_a_fall_that_stood_still(spoilt, sound):
    unmarked = replace(spoilt, events=tuple(event for event in spoilt.events if event.name != "stood still"))
    assert "falls 600 ms earlier" in headline(compare(unmarked, sound))
    found = compare(spoilt, sound)
    (pair,) = found.pairs
    step, fall = pair.parts[-2:]
    assert step.results is not None
    assert fall.results is None
    assert pair.plain.rmse < 0.1
    assert "falls" not in headline(found)
    assert "this computer was too busy" in headline(found)
    assert any("not compared" in line for line in lacks(found))


def test_a_fit_does_not_look_at_it(spoilt):
    runs = runs_of([spoilt], Rig.load("bench_arm"))
    inside = spoilt.within_standstill(spoilt["shoulder"].time)
    assert inside.any()
    assert not runs.judged[inside].any()
    assert runs.judged[~inside].all()


def test_a_recording_that_stood_still_all_the_time_is_refused(sound):
    over = Event(sound.end, "stood still", {"seconds": sound.end - sound.start + 1.0})
    useless = replace(sound, events=(*sound.events, over))
    with pytest.raises(RecordingError, match="too busy"):
        compare(useless, sound)
    with pytest.raises(RecordingError, match="too busy"):
        runs_of([useless], Rig.load("bench_arm"))
