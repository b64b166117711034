"""The report says what the comparison found, in a sentence, a page, a picture and text."""

import math
import re
from pathlib import Path
from time import process_time

import numpy as np
import pytest

from axbridge.comparison.comparison import compare, following
from axbridge.comparison.html import worst_seconds, write_html
from axbridge.comparison.page import Curve, Panel, fewer, table_text
from axbridge.comparison.png import mark_rows, write_png
from axbridge.comparison.tables import (
    beside_table,
    deviation_table,
    errors_beside,
    headline,
    panels_of,
    response_tables,
)
from axbridge.errors import RecordingError
from axbridge.recording.recording import Event, Recording, Track
from tests.comparison.test_metrics import recording


@pytest.fixture(scope="module")
def comparison():
    return compare(recording(), recording(lag=0.03, scale=1.02), labels=("real", "sim"))


def test_tables_are_lined_up(comparison):
    text = table_text(deviation_table(comparison))
    assert text.startswith("sim against real\nservo")
    assert len({len(line) for line in text.splitlines()[1:]}) == 1


def test_a_step_is_one_row_with_its_name(comparison):
    step, other = response_tables(comparison, comparison.pairs[0])
    assert step.header[:2] == ("step", "delay, ms")
    (row,) = step.rows
    assert row[0] == "step"
    real, simulated = row[step.header.index("steady-state error, °")].split(" / ")
    assert (float(real), float(simulated)) == pytest.approx((0.0, -1.72), abs=0.02)
    assert [row[0] for row in other.rows] == ["rest"]
    assert "-0.00" not in table_text(step)


def test_a_shift_is_said_in_words_and_never_negative():
    early, late = compare(recording(lag=0.03), recording()), compare(recording(), recording(lag=0.03))
    for found, text in ((early, "30.0 ms earlier"), (late, "30.0 ms later")):
        (row,) = deviation_table(found).rows
        assert row[5] == text


def test_the_goal_is_drawn_below_the_motions_as_the_legend_says(comparison):
    for found in (comparison, following(recording())):
        goal, *motions = panels_of(found, found.pairs[0])[0].curves
        assert (goal.label, goal.colour, goal.held) == ("goal", "command", True)
        assert all(goal.width > motion.width for motion in motions)
        assert set(goal.y[~np.isnan(goal.y)].round(3)) == {0.0, 85.944}


def test_the_page_is_self_contained(comparison, tmp_path):
    write_html(comparison, tmp_path / "report.html", title="a <servo>")
    page = (tmp_path / "report.html").read_text()
    assert "a &lt;servo&gt;" in page
    assert "rise time 10-90 %" in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)


def strides(count, lag=0.0):
    """Steps there and back."""
    time = np.arange(0, 1.0 * count, 0.01)
    goal = np.floor(time) % 2
    position = np.interp(time - lag, time, goal)
    events = tuple(
        Event(float(k), "segment", {"name": f"step {k}", "kind": "step", "target": float(k % 2)}) for k in range(count)
    )
    return Recording(Path("s.mcap"), {"a": Track.of("a", time, position=position, command=goal)}, events)


@pytest.mark.slow
def test_many_servos_fit_into_one_picture(tmp_path):
    tracks = {f"joint_{i}": recording().tracks["a"] for i in range(14)}
    both = Recording(Path("x.mcap"), tracks)
    write_png(compare(both, both), tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_robot_of_25_servos_is_on_its_page_in_seconds_and_500_kilobytes(tmp_path):
    time = np.arange(3000) * 0.02
    noise = np.random.default_rng(0)
    events = tuple(Event(3.0 * k, "segment", {"name": f"stride {k}"}) for k in range(20))

    def walk(lag):
        columns = {
            f"joint_{i}": {"position": np.sin((1 + i / 10) * (time - lag)), "command": np.sin((1 + i / 10) * time)}
            | {key: noise.normal(size=len(time)) for key in ("torque", "velocity", "power", "load")}
            for i in range(25)
        }
        tracks = {name: Track.of(name, time, **column) for name, column in columns.items()}
        return Recording(Path("walk.mcap"), tracks, events)

    found = compare(walk(0.0), walk(0.03))
    started = process_time()
    write_html(found, tmp_path / "walk.html")
    assert process_time() - started < 15
    assert (tmp_path / "walk.html").stat().st_size < 500e3


def test_a_report_that_cannot_be_written_leaves_what_was_there(comparison, tmp_path):
    (tmp_path / "file").touch()
    for write in (write_html, write_png):
        with pytest.raises(RecordingError, match="cannot be written"):
            write(comparison, tmp_path / "file" / "x")
        with pytest.raises(RecordingError, match="folder"):
            write(comparison, tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_the_worst_seconds_come_first():
    time = np.arange(0, 9, 0.01)
    off = np.select([time < 5, time < 6], [0.0, 3.0], 1.0)
    still, other = (Track.of("knee", time, position=position) for position in (0 * time, np.radians(off)))
    sides = [Recording(Path("x.mcap"), {"knee": track}) for track in (still, other)]
    first, second, *_ = worst_seconds(compare(*sides, same_clock=True))
    assert (first.servo, first.start, first.rmse) == ("knee", 5.0, pytest.approx(3.0))
    assert second.rmse == pytest.approx(1.0)


def test_a_model_stands_beside_a_perfect_servo_and_a_lag_while_it_is_driven():
    time = np.arange(0, 20, 0.02)
    goal = np.floor(time / 2) % 2 * 0.5
    late = np.interp(time - 0.1, time, goal)
    driven = np.where(time < 18, 1.0, 0.0)

    def side(position):
        track = Track.of("knee", time, position=position, command=goal, torque_enabled=driven)
        return Recording(Path("x.mcap"), {"knee": track})

    model = side(np.where(time < 18, late, late + 1.0) + np.radians(0.5))
    found = compare(side(late), model, labels=("real", "model"), same_clock=True)
    errors = perfect, lag, beside = errors_beside(found)["knee"]
    assert perfect.rmse == pytest.approx(np.degrees(0.5) * np.sqrt(0.1 / 2), rel=0.2)
    assert lag.rmse < 0.5
    assert (beside.mae, beside.rmse) == (pytest.approx(0.5), pytest.approx(0.5))
    table = beside_table({"knee": errors}, found)
    assert table.header == ("servo", "perfect servo", "delay and lag", "model")
    assert table.rows[0][-1] == "0.50 / 0.50"


def test_names_that_would_touch_stand_in_two_rows_or_not_at_all():
    marks = ((0.0, "rest"), (1.0, "step to 20°"), (2.0, "step back"), (3.0, "step"), (8.0, "fall"), (9.5, "too long"))
    # 40 letters to 10 s: 5 letters reach 1.25 s, 12 reach 3 s
    assert mark_rows(marks, 0.0, 10.0, 40) == {0: 0, 1: 1, 2: 0, 4: 0}
    assert mark_rows(((0.0, ""), (5.0, "fall")), 0.0, 10.0, 40) == {1: 0}


def test_long_lines_keep_their_peaks_their_gaps_and_the_stretch_that_is_wanted_whole():
    x = np.arange(100_000.0)
    y, other = np.sin(x / 5000), np.cos(x / 5000)
    y[31_234], y[77_777], other[44_444] = 9.0, -9.0, 7.0
    y[50_000:50_003] = np.nan
    (panel,) = fewer([Panel((Curve(x, y, "goal", "command", held=True), Curve(x, other, "", "other")), "x", "y")], 1000,
                     [(20_000, 20_100)])  # fmt: skip
    goal, beside = panel.curves
    assert goal.x is beside.x
    assert len(goal.x) <= 1410
    assert (goal.x[0], goal.x[-1]) == (0, 99_999)
    assert np.all(np.diff(goal.x) > 0)
    assert {9.0, -9.0} <= set(goal.y)
    assert 7.0 in beside.y
    assert np.isnan(goal.y).any()
    assert set(range(20_000, 20_100)) <= set(goal.x)
    assert not goal.held  # between what is left, nothing holds
    short = [Panel((Curve(x[:900], y[:900], "goal", "command", held=True),), "x", "y")]
    assert fewer(short, 1000) == short


TIME = np.arange(0, 4, 0.01)


def bench(*, late=0.0, seconds=0.6, rest=0.0, top=90, backend="sim"):
    """A step to 90° at 0.5 s that ends at `top`, and a fall from 2 s on, of `seconds`, that ends at `rest`, degrees."""
    rising = np.interp(TIME, [0.5 + late, 0.75 + late], [0, top])
    falling = np.interp(TIME, [2.0, 2.0 + seconds], [90, rest])
    position = np.radians(np.where(TIME < 2.0, rising, falling))
    command = np.where(TIME >= 0.5, math.pi / 2, 0.0)
    events = (
        Event(0.0, "segment", {"name": "rest", "kind": "rest"}),
        Event(0.5, "segment", {"name": "step", "kind": "step", "target": math.pi / 2}),
        Event(2.0, "segment", {"name": "fall", "kind": "fall", "start": math.pi / 2}),
    )
    track = Track.of("a", TIME, position=position, command=command, torque_enabled=(TIME < 2.0).astype(float))
    return Recording(Path("a.mcap"), {"a": track}, events, metadata={"backend": backend})


def said(real, other):
    return headline(compare(real, other, labels=("recorded", "simulated")))


def test_an_early_fall_and_steps_that_lack_latency_are_told():
    text = said(bench(late=0.038, rest=4.0), bench(seconds=0.4))
    assert text.startswith("The simulation falls 2")
    assert "ms too early: its friction or its rotor inertia is too low; steps agree to 0." in text
    assert "once 38 ms of latency, which the simulation lacks, are taken out." in text


def test_steps_that_are_far_apart_do_not_agree_whatever_is_taken_out():
    text = said(bench(late=0.15), bench(top=96))
    assert re.search(r"teps are [5-7]\.\d° apart even once 1\d\d ms of latency, which the simulation lacks,", text)


@pytest.mark.parametrize(
    ("real", "other", "words"),
    [
        ({}, {"seconds": 0.9}, r".* too late: its friction or its rotor inertia is too high;"),
        ({}, {"rest": 30.0}, "The simulation does not fall all the way, the recording does: its friction is too high;"),
        ({"rest": 30.0}, {}, "The simulation falls all the way, the recording does not: its friction is too low;"),
    ],
)
def test_a_fall_that_is_slow_or_does_not_end_is_blamed_on_friction(real, other, words):
    assert re.match(words, said(bench(**real), bench(**other)))


def test_a_servo_of_copper_is_not_blamed_for_its_friction():
    text = headline(compare(bench(), bench(seconds=0.4, backend="real"), labels=("monday", "friday")))
    assert text == "friday falls 189 ms earlier than monday; steps agree to 0.0°."


def test_a_step_in_which_samples_are_missing_is_named_and_not_judged():
    time = np.arange(0, 4, 0.01)
    events = tuple(
        Event(at, "segment", {"name": name, "kind": "step", "target": goal})
        for at, name, goal in ((0.5, "step to 90", math.pi / 2), (2.0, "step back", 0.0))
    )

    def steps(back, seen):
        position = np.radians(np.interp(time, [0.5, 0.75, back, back + 0.25], [0, 90, 90, 0]))
        command = np.where((time >= 0.5) & (time < 2.0), math.pi / 2, 0.0)
        track = Track.of("a", time[seen], position=position[seen], command=command[seen])
        return Recording(Path("a.mcap"), {"a": track}, events, metadata={"backend": "sim"})

    gap = (time > 2.05) & (time < 2.44)
    text = said(steps(2.3, ~gap), steps(2.0, time >= 0))
    assert text == "Steps agree to 0.0°. Not judged, as samples are missing: 'step back' (0.39 s)."


def test_motions_that_agree_are_said_to():
    assert said(recording(), recording()) == "Steps agree to 0.0°."
    assert headline(waves(0.0, 0.003)).startswith("The servo agrees with the goal to 0.")


def waves(late, off):
    """A servo that follows a sine so much later, s, and at another frequency."""
    track = Track.of("a", TIME, position=np.sin((3 + off) * (TIME - late)), command=np.sin(3 * TIME))
    return following(Recording(Path("s.mcap"), {"a": track}))


def test_late_motions_without_steps_are_said_to_be_late():
    text = headline(waves(0.065, 0.0))
    assert text.startswith("The servo is 65 ms later than the goal; they agree to 0.")
    assert text.endswith("once that is taken out.")


def test_motions_that_differ_in_shape_are_said_to_be_apart():
    assert re.fullmatch(r"The servo is \d+\.\d° from the goal \(RMSE\), and \d+° at worst\.", headline(waves(0.0, 2.0)))
    assert re.fullmatch(r"Steps are \d+\.\d° apart\.", said(bench(), bench(late=0.5)))


def test_of_many_servos_the_worst_is_named():
    tracks = {name: recording().tracks["a"] for name in "abc"}
    worse = {**tracks, "b": recording(lag=0.03).tracks["a"]}
    text = headline(compare(Recording(Path("x"), tracks), Recording(Path("y"), worse)))
    assert text.startswith("Half of the 3 servos are within 0.0° (RMSE). The worst is b: ")
