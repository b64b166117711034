"""The replay inside a report: in a browser, as people see it, and without one."""

import math
import time

import numpy as np
import pytest

import axbridge
from axbridge.cli import app
from axbridge.cli import compare as compare_verb  # noqa: F401 - registers it
from axbridge.cli import import_ as import_verb  # noqa: F401
from axbridge.recording.provenance import describe
from axbridge.view.replay_page import seen_at
from tests.support.browser import CHROMIUM, browsing
from tests.support.robot_files import write_comb

pytest.importorskip("viser")

INSIDE = "document.querySelector('iframe').contentDocument"
CLOCK = f"Number(({INSIDE}.querySelector('.mantine-NumberInput-input') || {{value: 'nothing'}}).value)"
PLAY = f"{INSIDE}.querySelector('.mantine-ActionIcon-root')"


def record(path, rig="bench_arm", seed=0, seconds=4.0):
    with (
        axbridge.open(rig, seed=seed) as robot,
        axbridge.Recorder(path, describe(robot.rig, backend="sim")) as recorder,
        axbridge.RobotRecorder(robot, recorder),
    ):
        while robot.time < seconds:
            for servo in robot.values():
                servo.set_position(0.8 * math.sin((2 + seed) * robot.time))
            robot.step()
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("replay")
    record(made / "a.mcap")
    record(made / "b.mcap", seed=1)
    return made


def compared(folder, *arguments):
    page = folder / f"{len(list(folder.iterdir()))}.html"
    assert app.run(["compare", *map(str, arguments), "--out", str(page)]) == app.DONE
    return page


@pytest.mark.slow
def test_a_report_shows_the_motion_in_less_than_three_megabytes_unless_it_is_not_wanted(folder):
    bare = compared(folder, folder / "a.mcap", folder / "b.mcap", "--no-replay")
    assert "<iframe" not in bare.read_text()
    for others in ([folder / "b.mcap"], ["--rig", "bench_arm"], []):
        page = compared(folder, folder / "a.mcap", *others)
        assert "<iframe" in page.read_text()
        assert page.stat().st_size - bare.stat().st_size < 3e6


def test_pictures_of_some_moments_need_only_the_samples_beside_them(folder):
    whole = axbridge.open_recording(folder / "a.mcap")
    times = np.arange(5) * 0.9013
    few = seen_at(whole, times)
    assert (few.start, few.end) == (whole.start, whole.end)
    track, kept = whole["shoulder"], few["shoulder"]
    assert len(kept) <= 12 < len(track)
    at = whole.start + times
    np.testing.assert_array_equal(np.interp(at, kept.time, kept.position), np.interp(at, track.time, track.position))
    latest, as_before = (one.command[np.searchsorted(one.time, at, side="right") - 1] for one in (kept, track))
    np.testing.assert_array_equal(latest, as_before)


def test_a_robot_without_a_body_gets_a_report_without_a_replay(tmp_path, capsys):
    recording = record(tmp_path / "a.mcap", write_comb(tmp_path, 1, world=False), seconds=1.0)
    assert "<iframe" not in compared(tmp_path, recording).read_text()
    assert "replay" not in capsys.readouterr().err


def test_a_log_that_calls_its_servo_otherwise_is_seen_on_the_rig_that_is_named(tmp_path):
    log = tmp_path / "log.mcap"
    assert app.run(["import", "sample:xl330", str(log)]) == app.DONE
    assert "shoulder" not in axbridge.open_recording(log)
    assert "<iframe" in compared(tmp_path, log, "--rig", "bench_arm").read_text()


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.alone
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser_it_plays_stops_and_goes_to_a_moment_and_asks_nobody(folder, tmp_path):
    page = compared(folder, folder / "a.mcap", folder / "b.mcap")
    with browsing(tmp_path, 900, 700) as opened:
        tab = opened(page.as_uri())
        tab.box("iframe")  # looking for it brings it on the screen, where it is drawn
        tab.wait_for(f"{CLOCK} > 0", 40)
        begun = tab.run(CLOCK)
        tab.wait_for(f"{CLOCK} !== {begun}")  # it plays
        tab.run(f"{PLAY}.click()")
        time.sleep(0.3)
        stopped, here = tab.run(CLOCK), tab.picture()
        time.sleep(0.5)
        assert tab.run(CLOCK) == stopped
        assert len(set(here)) > 100
        box = tab.run(
            f"(f => (b => ({{x: f.x + b.x, y: f.y + b.y, width: b.width, height: b.height}}))"
            f"({INSIDE}.querySelector('.mantine-Slider-trackContainer').getBoundingClientRect()))"
            f"(document.querySelector('iframe').getBoundingClientRect())"
        )
        tab.click_at(box["x"] + 0.2 * box["width"], box["y"] + box["height"] / 2)
        tab.wait_for(f"Math.abs({CLOCK} - 0.8) < 0.2")  # a fifth of four seconds
        assert tab.picture() != here
        assert tab.hosts == {""}  # the file itself
        assert tab.complaints == []
