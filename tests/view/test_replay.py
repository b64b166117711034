"""A recording seen again, and pages that other verbs open."""

import math
import threading
import time
from urllib.request import urlopen

import numpy as np
import pytest

import axbridge
from axbridge import RecordingError
from axbridge.cli import app
from axbridge.cli import run as run_verb  # noqa: F401 - registers it
from axbridge.cli import view as view_verb  # noqa: F401
from axbridge.recording.provenance import describe, rig_of
from axbridge.view import web_server
from axbridge.view.replay import Replay

pytest.importorskip("viser")


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "swing.mcap"
    with (
        axbridge.open("bench_arm") as robot,
        axbridge.Recorder(path, describe(robot.rig, backend="sim")) as recorder,
        axbridge.RobotRecorder(robot, recorder),
    ):
        for step in range(100):
            robot["shoulder"].set_position(0.5 * math.sin(0.1 * step))
            robot.step()
    return axbridge.open_recording(path)


@pytest.fixture
def replay(recording):
    server, _ = web_server.start(0, "127.0.0.1", "test")
    yield Replay(server, rig_of(recording), recording, recording)
    web_server.stop(server)


def test_the_body_is_where_the_recording_says_at_that_moment_and_the_ghost_beside_it(replay, recording):
    track = recording.tracks["shoulder"]
    for share in (0.0, 0.37, 1.0):
        replay.time = share * (recording.end - recording.start)
        replay.show()
        seen = replay._picture()
        measured = np.interp(recording.start + replay.time, track.time, track.position)
        assert seen.states["shoulder"].position == pytest.approx(measured)
        assert seen.ghost["shoulder"] == pytest.approx(measured)


def test_it_plays_in_time_starts_again_at_the_end_and_stops_where_it_should_not(replay):
    replay.run(0.5)
    assert replay.time == pytest.approx(0.5, abs=0.25)
    replay._again.value = False
    replay._pace = 5.0
    replay.run(0.8)
    assert replay.time == replay.length
    assert not replay.playing


def test_a_recording_of_a_robot_with_sensors_tells_which_robot_it_is_of(tmp_path):
    rig = axbridge.Rig.load("bioloid")
    assert rig.sensors
    with axbridge.Recorder(tmp_path / "a.mcap", describe(rig, backend="sim")):
        pass
    assert rig_of(axbridge.open_recording(tmp_path / "a.mcap")).sensors == rig.sensors


def test_a_recording_of_no_robot_says_what_to_give(recording, tmp_path):
    recording.metadata.pop("rig")
    with pytest.raises(RecordingError, match="--rig"):
        rig_of(recording)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.mcap", "b.mcap", "--rig", "bench_arm"], "both a second recording and --rig"),
        (["a.mcap", "--model", "p.toml"], "--model needs the rig"),
        (["missing.mcap"], "missing.mcap"),
    ],
)
def test_what_cannot_be_shown_is_said_in_two_lines(arguments, said, capsys):
    assert app.run(["view", *arguments]) == app.MISUSE
    text = capsys.readouterr().err
    assert said in text
    assert len(text.splitlines()) <= 2


def test_the_verb_plays_two_recordings_beside_each_other(recording, capsys):
    arguments = ["view", *2 * [str(recording.path)], "--no-open", "--page-port", "0", "--duration", "0.2"]
    assert app.run(arguments) == app.DONE
    assert capsys.readouterr().out.startswith("page: http://127.0.0.1:")


def test_a_script_that_runs_with_a_page_shows_its_robot_at_a_pace_at_which_one_can_watch_it(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    monkeypatch.setenv("AXBRIDGE_REALTIME", "")  # the verb sets it; taken back at the end
    script = tmp_path / "swing.py"
    script.write_text(
        "import axbridge, time\n"
        'with axbridge.open("bench_arm") as robot:\n'
        "    robot.step()\n"
        "    begun = time.monotonic()\n"
        "    robot.step(700)\n"
        "    assert time.monotonic() - begun > 0.65\n"
    )
    monkeypatch.chdir(tmp_path)
    assert app.run(["run", str(script), "--view"]) == app.DONE  # the script opens its robot itself
    assert "page: http://127.0.0.1:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "arguments", "said"),
    [
        ("from controller import Robot", [], "swing.py is a Webots controller\nname its robot with --rig"),
        ("import axbridge", ["--duration", "1"], "--gui and --duration are for the robot of a Webots controller"),
    ],
)
def test_a_script_that_cannot_run_without_a_rig_is_told_so(tmp_path, capsys, monkeypatch, line, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "swing.py").write_text(f"{line}\n")
    assert app.run(["run", "swing.py", *arguments]) == app.MISUSE
    assert said in capsys.readouterr().err


def test_the_live_verb_serves_its_page_while_the_robot_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with axbridge.open("bench_arm", realtime=True) as robot:
        page = robot.view(port=0, open=False)
        loop = threading.Thread(target=page.run)
        loop.start()
        try:
            assert urlopen(page.url, timeout=5).status == 200
            page.desk.ask("way", lambda: page.actions.way({"shoulder": 0.4}, 0.3))
            until = time.monotonic() + 10
            while abs(robot["shoulder"].state.position - 0.4) > 0.05:
                assert time.monotonic() < until
                time.sleep(0.01)
        finally:
            page.close()
            loop.join()
