"""Logs of other programs whose parts were named at import: figures as of an experiment of our own."""

import math

import numpy as np
import pytest

from axbridge.cli import app, import_  # noqa: F401 - registers it
from axbridge.comparison.comparison import following, summary
from axbridge.errors import RecordingError, UsageError
from axbridge.recording.import_logs import import_log, parse_columns
from axbridge.recording.imported import marked, parse_mark, trimmed
from axbridge.recording.provenance import rig_of
from axbridge.recording.stored import open_recording


@pytest.fixture
def log(tmp_path):
    """Two seconds at rest, a step to 60 degrees at 2 s that arrives at 2.3 s, and a fall from there at 4 s."""
    time = np.arange(0, 6, 0.01)
    goal = np.where(time >= 2, 60.0, 0.0)
    angle = np.interp(time, [0, 2.1, 2.3, 4.1, 4.6, 6], [0, 0, 60, 60, 0, 0])
    lines = [f"{t:.2f},{a:.3f},{g:.0f}" for t, a, g in zip(time, angle, goal, strict=True)]
    path = tmp_path / "log.csv"
    path.write_text("t,angle,goal\n" + "\n".join(lines))
    return path


COLUMNS = ["time=t", "position=angle", "command=goal"]


def read(log, unit="deg"):
    return import_log(log, columns=parse_columns(COLUMNS, unit), servo="knee")


def test_an_imported_step_and_fall_have_their_figures(log):
    found = marked(read(log), [parse_mark("step-60=1.5:4"), parse_mark("fall=4:6")])
    step, fall = (part for part in summary(following(found))["servos"]["knee"]["segments"] if part["kind"])
    assert step["step"]["position"]["rise"] == pytest.approx(0.16, abs=0.02)
    assert found.segments[0].start == pytest.approx(2.0)  # where the goal changes
    assert fall["fall_time_s"]["position"] == pytest.approx(0.56, abs=0.02)
    track = found["knee"]
    assert not track.enabled[(track.time > 4) & (track.time < 6)].any()
    assert track.enabled[track.time < 4].all()


def test_all_of_a_log_can_be_of_one_kind(log):
    found = marked(trimmed(read(log), 4.0, None), [parse_mark("fall=:")])
    (segment,) = found.segments
    assert (segment.name, segment.data["kind"], segment.start) == ("fall", "fall", 4.0)
    assert not found["knee"].enabled.any()


def test_what_is_trimmed_keeps_the_part_under_way(log):
    found = trimmed(marked(read(log), [parse_mark("hold=0.5:")]), 1.0, 1.5)
    assert (found.start, found.end) == (1.0, 1.5)
    assert [(segment.name, segment.start) for segment in found.segments] == [("hold", 1.0)]
    with pytest.raises(UsageError, match="no sample lies between 7 and 9 s"):
        trimmed(read(log), 7, 9)


def test_angles_in_counts_of_the_register(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("t,angle,goal\n0,512,512\n20,853,1023\n")
    track = import_log(log, columns=parse_columns(["time=t:ms", *COLUMNS[1:]], "counts"), servo="knee")["knee"]
    np.testing.assert_allclose(np.degrees(track.position), [0.0, 100.0], atol=1e-9)
    mixed = parse_columns(["time=t:ms", "position=angle:counts", "command=goal:deg"], profile="mx-28")
    track = import_log(log, columns=mixed, servo="knee")["knee"]
    np.testing.assert_allclose(np.degrees(track.position[1]), (853 - 2048) * 360 / 4096)
    np.testing.assert_allclose(np.degrees(track.command), [512, 1023])


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (["fall=2"], "is no segment"),
        (["fall=3:2"], "ends before it starts"),
        (["a=0:3", "b=2:4"], "begins before the one before it ends"),
        (["a=7:8"], "fewer than two samples"),
        (["step=0:1.5"], "its goal does not change"),
    ],
)
def test_parts_that_cannot_be(log, marks, message):
    with pytest.raises((UsageError, RecordingError), match=message):
        marked(read(log), [parse_mark(text) for text in marks])


def test_the_command_marks_and_trims_and_notes_the_rig(log, monkeypatch, capsys):
    monkeypatch.chdir(log.parent)
    columns = [part for item in COLUMNS for part in ("--column", item)]
    more = ("--unit", "deg", "--servo", "knee", "--from", "1", "--segment", "step=1.5:4", "--segment", "drop=4:5.5")
    assert app.run(["import", "log.csv", "log.mcap", *columns, *more]) == app.DONE
    found = open_recording(log.parent / "log.mcap")
    assert [(s.name, s.data.get("kind")) for s in found.segments] == [
        ("step", "step"), ("drop", ""), ("between", None),
    ]  # fmt: skip
    assert found.segments[0].data["target"] == pytest.approx(math.radians(60))
    assert found.start == 1.0
    for rig, status in (("bench_arm", app.MISUSE), ("leg", app.DONE)):  # of which one has a servo "knee"
        assert app.run(["import", "log.csv", f"{rig}.mcap", *columns, *more, "--rig", rig]) == status
    assert rig_of(open_recording(log.parent / "leg.mcap")).name == "leg"
    assert "bench_arm has no servo knee\nit has shoulder" in capsys.readouterr().err
