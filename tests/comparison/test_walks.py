"""Walks compared: knees, power, zero-moment point; in the page, in the terminal and as JSON."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from axbridge.cli import app
from axbridge.cli import compare as verb  # noqa: F401 - registers it
from axbridge.comparison.comparison import compare, following
from axbridge.comparison.html import write_html
from axbridge.comparison.page import table_text
from axbridge.comparison.simulate import simulate
from axbridge.comparison.walks import document, knees, sides_of, walk_headline, walk_table, zmp_apart
from axbridge.config.rig import Rig
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.stored import write_recording
from tests.support.made_once import made_once

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def repeated(walked, tmp_path_factory):
    """The same goals with the same servos, and with those of the paper."""
    rig = Rig.load("bioloid").with_engine("mujoco")

    def repeat(_folder):
        return [simulate(walked, rig, model) for model in ("ax12", "lima2009")]

    return made_once(tmp_path_factory, "walk_repeated", repeat)


@pytest.fixture(scope="module")
def sides(walked, repeated, tmp_path_factory):
    def beside(_folder):
        same, paper = (
            compare(walked, other, labels=("real", label), same_clock=True)
            for label, other in zip(("ax12", "lima2009"), repeated, strict=True)
        )
        return sides_of(same, paper)

    return made_once(tmp_path_factory, "walk_sides", beside)


def imported_walk(path, late):
    """As another robot's walk comes in: goals on lines, loads and volts, no rig."""
    time = np.arange(0.0, 6.0, 0.1)
    goal = 0.5 * np.sin(time)
    columns = {
        "command": goal, "position": 0.5 * np.sin(time - late), "load": np.full(60, 0.2), "voltage": np.full(60, 12.0),
    }  # fmt: skip
    tracks = {name: Track.of(name, time, **columns) for name in ("l_knee_y", "r_knee_y", "head_y")}
    events = tuple(Event(start, "segment", {"name": f"walk 1 segment {start:.0f}"}) for start in (0.0, 2.0, 4.0))
    return Recording(path, tracks, events, {}, describe(backend="imported", experiment="walk"))


def test_a_walk_repeated_with_its_own_servos_is_near_and_with_others_it_is_not(sides):
    real, same, paper = sides
    near, far = knees(real, same), knees(real, paper)
    assert [knee.name for knee in near] == ["left_knee", "right_knee"]
    assert all(knee.share < 0.05 < other.share for knee, other in zip(near, far, strict=True))
    watts = [side.power.watt.mean() for side in sides]
    assert watts[1] == pytest.approx(watts[0], rel=0.05)
    assert watts[2] < 0.6 * watts[0]
    assert max(zmp_apart(real.zmp, same.zmp)) < 0.015
    assert [side.zmp.measured for side in sides] == [True, False, False]  # what a simulation measured is taken


def test_steps_begin_where_the_gait_says_and_share_the_energy(sides):
    real = sides[0]
    assert np.diff(real.steps) == pytest.approx([0.65] * 4, abs=0.01)  # three, and one that closes the feet
    stepping = (real.power.time >= real.steps[0]) & (real.power.time < real.steps[-1])
    assert 4 * real.power.step == pytest.approx(real.power.watt[stepping].sum() * 0.02)


def test_the_page_shows_knees_zmp_and_power(sides, walked, repeated, tmp_path):
    page = tmp_path / "walk.html"
    write_html(compare(walked, repeated[0], labels=("real", "ax12"), same_clock=True), page, walks=sides)
    text = page.read_text()
    for heading in ("The walk", "Knee angles", "Zero-moment point", "Power", "All joints, worst first"):
        assert re.search(rf"<h2>{heading}", text), heading
    assert text.count("const drawn = ") == 1  # one program draws all figures
    assert "lima2009" in text


def test_the_headline_says_how_near_knees_and_power_are(sides):
    text = walk_headline(sides)
    assert re.match(
        r"ax12 beside real: knees within \d\.\d° of each other \(\d% of their travel\), power \d% (less|more)\. ", text
    )
    assert re.search(r"lima2009 beside real: .* power [4-9]\d% less\.", text)
    assert walk_headline(sides[:1]) == ""


def test_walks_without_a_rig_have_knees(tmp_path):
    walks = [imported_walk(tmp_path / "a.mcap", 0.15), imported_walk(tmp_path / "b.mcap", 0.25)]
    sides = sides_of(compare(*walks, labels=("first", "second")))
    assert [knee.name for knee in knees(*sides)] == ["l_knee_y", "r_knee_y"]
    assert len(sides[0].steps) == 4  # three parts
    assert (sides[0].zmp, sides[0].power) == (None, None)
    assert "l_knee_y" in table_text(walk_table(sides))
    assert list(document(sides)["second"]) == ["steps", "knees"]
    write_html(compare(*walks), tmp_path / "page.html", walks=sides)
    alone = sides_of(following(walks[0]))
    assert [side.label for side in alone] == ["position"]
    write_html(following(walks[0]), tmp_path / "alone.html", walks=alone)


def test_a_robot_whose_body_is_not_to_be_had_is_compared_by_its_joints(walked):
    torn = replace(walked, metadata={**walked.metadata, "urdf": "<robot"})
    sides = sides_of(compare(torn, torn))
    assert sides[0].zmp is None
    assert len(knees(*sides)) == 2


def test_without_mujoco_walks_are_compared_but_for_how_they_stood(walked, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    sides = sides_of(compare(walked, walked))
    assert (sides[0].footing, sides[0].zmp.measured, len(knees(*sides))) == (None, True, 2)


def test_other_recordings_are_no_walks(walked):
    other = Recording(walked.path, walked.tracks, walked.events, {}, {"experiment": "step"})
    assert sides_of(compare(walked, other)) == []


def test_the_command_reports_walks_and_a_third_beside_them(tmp_path, capsys):
    names = []
    for name, late in (("real", 0.15), ("sim", 0.15), ("third", 0.25)):
        names.append(tmp_path / f"{name}.mcap")
        write_recording(imported_walk(names[-1], late), names[-1])
    first, second, third = map(str, names)
    assert app.run(["compare", first, second, "--beside", third, "--json"]) == app.DONE
    told = json.loads(capsys.readouterr().out)["walks"]
    assert list(told) == ["real, imported", "sim, imported", "third"]
    assert told["third"]["knees"]["l_knee_y"]["rmse_deg"] > 1.0
    assert app.run(["compare", first, second]) == app.DONE
    assert "The walk" in capsys.readouterr().out
    step = replace(imported_walk(tmp_path / "step.mcap", 0.1), metadata={"experiment": "step"})
    write_recording(step, tmp_path / "step.mcap")
    assert app.run(["compare", first, second, "--beside", str(tmp_path / "step.mcap")]) == app.MISUSE
    assert "not all of these are walks" in capsys.readouterr().err


def test_a_walk_that_a_busy_bus_made_longer_is_compared_beat_by_beat(walked):
    """A control period that comes late delays all goals after it; the same walk is no other for that."""
    begin = next(part.start for part in walked.segments if part.name == "walk")

    def later(times):  # every tenth of a second takes 12 ms longer from the walk's start on
        return times + 0.12 * np.maximum(0.0, times - begin)

    tracks = {
        name: replace(track, time=later(track.time), commanded=later(track.commanded)) for name, track in walked.items()
    }
    cycles = {**walked.cycles, "time": later(walked.cycles["time"])}
    events = tuple(Event(float(later(event.time)), event.name, event.data) for event in walked.events)
    slower = Recording(walked.path, tracks, events, cycles, walked.metadata)
    sides = sides_of(compare(slower, walked))
    assert sides[0].span[1] - sides[0].span[0] > 1.1 * (sides[1].span[1] - sides[1].span[0])
    assert all(knee.share < 0.01 for knee in knees(*sides))
    assert sides[1].shared(sides[1].steps) == pytest.approx(sides[0].steps, abs=0.03)
    assert max(pair.plain.rmse for pair in compare(slower, walked).pairs) < 1.0
