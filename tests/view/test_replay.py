"""Replay pages of recordings, and live pages that other verbs open."""

import json
import math
import re
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest

import axbridge
from axbridge.cli import app
from axbridge.errors import RecordingError
from axbridge.recording.provenance import describe, rig_of
from axbridge.recording.recording import Event, Track
from axbridge.view.replay import replay_page

pytest.importorskip("websockets")


def record_swing(path, steps=100, limp_ms=0):
    """Record a sine of a simulated servo, after a time in which it is limp and has no goal."""
    with (
        axbridge.open("bench_arm") as robot,
        axbridge.Recorder(path, describe(robot.rig, backend="sim")) as recorder,
        axbridge.RobotRecorder(robot, recorder),
    ):
        if limp_ms:
            robot.step(limp_ms)
        for step in range(steps):
            robot["shoulder"].set_position(0.5 * math.sin(0.1 * step))
            robot.step(20)
    return axbridge.open_recording(path)


@pytest.fixture
def recording(tmp_path):
    return record_swing(tmp_path / "swing.mcap")


def description_of(page):
    return json.loads(re.search(r'<script type="application/json" id="robot">(.*?)</script>', page, re.DOTALL)[1])


def numbers(text, low, step):
    """Decode values as `heights` in web/plots.js does."""
    shares = np.frombuffer(b64decode(text), "<i2")
    return np.where(shares == -32768, np.nan, low + (shares + 32767.0) * step)


def test_the_page_holds_every_sample_as_it_was_measured(recording):
    description = description_of(replay_page(rig_of(recording), [recording, recording], ["real", "simulated"]))
    track, (first, second) = recording.tracks["shoulder"], description["recordings"]
    assert [first["label"], second["label"]] == ["real", "simulated"]
    times = np.frombuffer(b64decode(first["times"]), "<f4")
    np.testing.assert_allclose(times, track.time - recording.start, atol=1e-5)
    for what, column in (("position", track.position), ("goal", track.command), ("load", track.load)):
        got = numbers(*first["columns"][what][0])
        np.testing.assert_allclose(got, column, atol=1e-4, equal_nan=True)
    np.testing.assert_allclose(numbers(*second["columns"]["position"][0]), track.position, atol=1e-4)


def test_a_long_recording_keeps_its_page_small_and_the_page_says_so(recording):
    rig = rig_of(recording)
    track = recording.tracks["shoulder"]
    time_ = np.arange(0.0, 3600.0, 0.02)  # an hour
    columns = {key: np.resize(column, len(time_)) for key, column in track.columns.items()}
    hour = replace(recording, tracks={"shoulder": Track.of("shoulder", time_, **columns)})
    page = replay_page(rig, [hour])
    assert len(page) < 2_000_000
    assert any("samples one is here" in note for note in description_of(page)["notes"])


def test_text_in_a_recording_cannot_end_the_script_of_the_page(recording):
    texts = ["</script><script>alert(1)</script>", "<!--<script>", "</SCRIPT >", "\u2028 & <b>"]
    hostile = replace(recording, events=tuple(Event(recording.start, text) for text in texts))
    page = replay_page(rig_of(recording), [hostile], ["<b>&"])
    assert not any(text in page for text in texts)
    assert "<title>&lt;b&gt;&amp;" in page
    assert [text for _, text in description_of(page)["flags"]] == sorted(texts)


def test_a_recording_of_another_robot_is_refused_by_name(recording):
    stranger = replace(recording, tracks={"pan": recording.tracks["shoulder"]}, path=recording.path.with_name("b.mcap"))
    for both in ([recording, stranger], [stranger, recording]):
        with pytest.raises(RecordingError, match=r"b\.mcap: holds nothing of rig bench_arm"):
            replay_page(rig_of(recording), both)


def test_a_recording_of_one_joint_of_a_robot_is_shown(recording):
    pan = replace(recording, tracks={"pan": recording.tracks["shoulder"]})
    assert len(description_of(replay_page(axbridge.Rig.load("pan_tilt"), [pan]))["servos"]) == 1


def test_a_recording_without_body_or_positions_is_shown(recording):
    rig = rig_of(recording).model_copy(update={"world": None})
    track = recording.tracks["shoulder"]
    blind = replace(recording, tracks={"shoulder": Track.of("shoulder", track.time, command=track.command)})
    description = description_of(replay_page(rig, [blind]))
    assert (description["links"], description["recordings"][0]["columns"]["position"]) == ([], [None])
    assert description["servos"][0]["ends"][0] < description["servos"][0]["ends"][1]


def test_the_verb_plays_two_recordings_and_writes_a_page_but_replaces_none_without_force(recording, tmp_path, said):
    view = ("view", recording.path, "--out")
    said(*view, "page.html")
    assert "connect-src" not in (tmp_path / "page.html").read_text()  # it sends no requests
    assert "--force" in said(*view, "page.html", code=app.MISUSE)
    before = recording.path.read_bytes()
    assert "is both read and to be written" in said(*view, recording.path, "--force", code=app.MISUSE)
    assert recording.path.read_bytes() == before
    assert "--out is for recordings" in said("view", "bench_arm", "--out", "other.html", code=app.MISUSE)
    beside = said("view", *2 * [recording.path], "--no-open", "--page-port", "0", "--duration", "0.2")
    assert beside.startswith("page: http://127.0.0.1:")


def test_a_script_that_runs_with_a_page_is_shown_in_real_time(tmp_path, said, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    monkeypatch.setenv("AXBRIDGE_REALTIME", "")  # the verb sets it; taken back at the end
    (tmp_path / "swing.py").write_text(
        "import axbridge, time\n"
        'with axbridge.open("bench_arm") as robot:\n'
        "    robot.step()\n"
        "    begun = time.monotonic()\n"
        "    robot.step(700)\n"
        "    assert time.monotonic() - begun > 0.65\n"
    )
    assert "page: http://127.0.0.1:" in said("run", "swing.py", "--view")  # the script opens its robot itself


@pytest.mark.parametrize(
    ("line", "arguments", "why"),
    [
        ("from controller import Robot", [], "swing.py is a Webots controller\nname its robot with --rig"),
        ("import axbridge", ["--duration", "1"], "--duration is for the robot of a Webots controller"),
    ],
)
def test_a_script_that_needs_a_rig_gives_an_error_without_one(tmp_path, said, line, arguments, why):
    (tmp_path / "swing.py").write_text(f"{line}\n")
    assert why in said("run", "swing.py", *arguments, code=app.MISUSE)
