"""Figures of a comparison on motions with known figures, and their headline, page and picture."""

import math
import re
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from matplotlib.figure import Figure

from axbridge.comparison.comparison import check, compare, following, summary
from axbridge.comparison.html import worst_seconds, write_html
from axbridge.comparison.lag import apart, baseline, baselines, check_repeat, lag_of
from axbridge.comparison.metrics import MEASURES, best_shift, deviation, fall_time, step_response
from axbridge.comparison.page import Curve, Panel, Table, fewer, table_text
from axbridge.comparison.png import draw, write_png
from axbridge.comparison.tables import deviation_table, headline, panels_of, response_tables
from axbridge.errors import RecordingError, UsageError
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Event, Recording, Track

TIME, LONG = np.arange(0, 3, 0.01), np.arange(0, 4, 0.01)


def second_order(time, zeta=0.5, wn=20.0):
    """Return the unit step response of a second-order system; overshoot exp(-πζ/√(1-ζ²))."""
    time = np.maximum(time, 0)
    wd = wn * math.sqrt(1 - zeta**2)
    return 1 - np.exp(-zeta * wn * time) * (np.cos(wd * time) + zeta * wn / wd * np.sin(wd * time))


def test_deviation_in_degrees_fall_time_and_shift():
    result = deviation(np.radians([0.0, 0, 0, math.nan]), np.radians([1.0, -1, 2, 5]))
    assert (result.mae, result.mse, result.worst, result.samples) == pytest.approx((4 / 3, 2, 2, 3))
    assert result.rmse == pytest.approx(math.sqrt(2))
    assert fall_time(TIME, np.maximum(0, math.radians(90) - math.radians(100) * (TIME - 1)), 1.0) == pytest.approx(0.85)
    for lag in (-0.05, 0.0, 0.0137, 0.08):
        assert best_shift(TIME, np.sin(3 * TIME), np.sin(3 * (TIME - lag))) == pytest.approx(lag, abs=2e-4)
    noise = np.random.default_rng(1).normal(0, 2e-3, (2, len(TIME)))
    for starts in ((0.05, 0.05), (1.0, 2.9)):  # too early, and never together
        steps = 1 - np.exp(-np.maximum(TIME - np.array([starts]).T, 0) / 0.02) + noise
        assert best_shift(TIME, *steps) is None


def test_a_step_response_of_a_known_system():
    time = np.arange(-0.5, 3, 0.001)
    result = step_response(time, 1.5 * second_order(time - 0.1), target=1.52, commanded=0.1)
    assert result.overshoot == pytest.approx(math.degrees(1.5) * math.exp(-math.pi * 0.5 / math.sqrt(0.75)), rel=0.01)
    assert result.rise == pytest.approx(1.64 / 20, rel=0.02)  # 10-90 % at ζ = 0.5: 1.64/ωn
    assert result.steady_state_error == pytest.approx(math.degrees(0.02), abs=0.01)
    assert 0 < result.delay < 0.02
    assert result.settling == pytest.approx(0.4, abs=0.05)


def test_a_motion_starts_at_a_command_between_two_samples():
    time = np.arange(0, 2, 0.02)
    result = step_response(time, np.interp(time, [0.511, 0.611], [0.0, 1.0]), 1.0, commanded=0.511)
    assert result.delay == pytest.approx(math.radians(1) * 0.1, abs=5e-4)
    still = step_response(TIME, np.zeros(len(TIME)), target=1.0, commanded=0.0)
    assert math.isnan(still.rise)
    for moving in (TIME / 3, np.sin(20 * TIME) + 1):  # still on its way, and swinging
        assert math.isnan(step_response(TIME, moving, target=1.0, commanded=0.0).settling)
    assert still.steady_state_error == pytest.approx(math.degrees(1.0))


def test_bandwidth_and_phase_of_a_first_order_lag():
    time = np.arange(0, 20, 0.005)
    command = np.sin(2 * math.pi * (0.2 * time + (5 - 0.2) / 40 * time**2))
    position = np.zeros_like(command)
    for i in range(1, len(time)):
        position[i] = position[i - 1] + 0.005 * (command[i - 1] - position[i - 1]) * 2 * math.pi * 2.0
    position[0] = math.nan  # a missing sample does not change the figures
    track = Track.of("a", time, command=command, position=position)
    for low, high in ((0.3, 5.0), (5.0, 0.3), (0.0, 5.0)):  # the second gets slower
        result = MEASURES["chirp"].of(track, 0.0, {"low": low, "high": high})
        assert result.bandwidth == pytest.approx(2.0, abs=0.1)
        known = (result.frequency > 0.3) & (result.frequency < 3)
        ratio = result.frequency[known] / 2
        assert result.gain[known] == pytest.approx(1 / np.hypot(1, ratio), rel=0.03)
        assert result.phase[known] == pytest.approx(-np.degrees(np.arctan(ratio)), abs=2)


def recording(lag=0.0, offset=0.0, scale=1.0, name="a"):
    time = TIME + offset
    position = scale * 1.5 * second_order(TIME - 0.5 - lag, 0.9)
    command = np.where(TIME >= 0.5, 1.5, 0.0)
    events = (
        Event(offset, "segment", {"name": "rest"}),
        Event(0.5 + offset, "segment", {"name": "step", "kind": "step", "target": 1.5}),
    )
    return Recording(Path(f"{name}.mcap"), {name: Track.of(name, time, position=position, command=command)}, events)


def test_a_lag_is_distinguished_from_an_error():
    result = compare(recording(), recording(lag=0.03, offset=7.0, name="b"))
    pair = result.pairs[0]
    assert deviation_table(result).rows[0][5] == "30.0 ms later"
    early = compare(recording(lag=0.03), recording())
    assert deviation_table(early).rows[0][5] == "30.0 ms earlier"
    assert pair.name == "a"
    assert pair.shift == pytest.approx(0.03, abs=1e-3)
    assert pair.plain.rmse > 2
    assert pair.aligned.rmse < 0.1
    assert [part.name for part in pair.parts] == ["rest", "step"]
    first, second = pair.parts[1].results
    assert second.delay - first.delay == pytest.approx(0.03, abs=1e-3)


def test_a_condition_holds_or_not():
    result = compare(recording(), recording(scale=1.1))
    assert check(result, "rmse>2")
    assert not check(result, "rmse > 200")
    assert not check(result, "shift>0.1")
    assert check(result, "aligned_mae>=0.5")[0].startswith("a: aligned_mae")
    for wrong in ("rmse", "colour>2", "rmse>x", "rmse=2"):
        with pytest.raises(UsageError, match="no condition"):
            check(result, wrong)


def joint(name, delay, lag, *, offset=0.5, seed=0):
    """Return a joint with a new goal each second, rounded to 0.3°."""
    time, fine = np.arange(0.0, 30.0, 0.05), np.arange(-1.0, 30.0, 1e-3)
    rng = np.random.default_rng(seed)
    goals = np.radians(rng.uniform(-40, 40, 30))
    goal = np.where(fine < delay, 0.0, goals[np.clip(np.floor(fine - delay).astype(int), 0, 29)])
    path = np.zeros(len(fine))
    for k in range(1, len(fine)):
        path[k] = path[k - 1] + (goal[k] - path[k - 1]) * (1 - math.exp(-1e-3 / lag))
    position = np.degrees(np.interp(time, fine, path)) + offset + rng.normal(0, 0.1, len(time))
    return Track.of(name, time, command=goals[time.astype(int)], position=np.radians(0.3 * np.round(position / 0.3)))


def recording_of(*tracks):
    return Recording(Path("walk.mcap"), {track.name: track for track in tracks}, (), {}, describe(backend="imported"))


def test_delay_and_lag_are_identified_and_predict_another_recording():
    knee = joint("knee", 0.05, 0.06)
    # samples that are left out
    gap, limp = (knee.time > 12) & (knee.time < 12.5), (knee.time > 20) & (knee.time < 20.5)
    position = np.where(gap, np.nan, np.where(limp, 2.0, knee.position))
    torn = replace(knee, position=position, torque_enabled=np.where(limp, 0.0, 1.0))
    lag = lag_of([torn, joint("knee", 0.05, 0.06, seed=1)])
    assert lag.delay + lag.lag == pytest.approx(0.11, abs=0.01)
    assert math.degrees(lag.offset) == pytest.approx(0.5, abs=0.1)
    other = joint("knee", 0.05, 0.06, seed=5)
    perfect, lagging = baseline(other, lag)
    assert lagging.mae < 0.3
    assert perfect.mae > 2.0
    to_and_fro = Track.of("knee", TIME, command=np.sign(np.sin(30 * TIME)), position=0 * TIME)
    later = replace(to_and_fro, time=TIME + 1.7e9)  # on a clock that counts from 1970
    assert baseline(later, lag)[1].mae == pytest.approx(baseline(to_and_fro, lag)[1].mae, abs=1e-4)
    still = Track.of("neck", other.time, command=0 * other.time, position=0 * other.time)
    errors = baselines(recording_of(other, still))
    assert list(errors) == ["knee"]
    assert errors["knee"][1].rmse == pytest.approx(lagging.rmse, abs=0.05)
    assert lag_of([Track.of("knee", np.arange(30.0), position=np.zeros(30))]) is None


def test_a_repetition_has_the_same_goals_and_a_position_error():
    knee, hip = joint("knee", 0.05, 0.1, seed=1), joint("hip", 0.05, 0.1, seed=2)
    off = replace(knee, time=knee.time + 3.0, position=knee.position + math.radians(0.4))
    repeat = recording_of(off, replace(hip, time=hip.time + 3.0))
    check_repeat(recording_of(knee, hip), repeat)
    assert apart(knee, repeat) == (pytest.approx(0.0, abs=1e-6), pytest.approx(0.4))
    assert math.isinf(apart(replace(knee, name="ankle"), repeat)[0])
    with pytest.raises(UsageError, match="no repeat"):
        check_repeat(recording_of(knee, hip), recording_of(off, replace(joint("hip", 0.05, 0.1, seed=3))))
    with pytest.raises(UsageError, match="no repeat"):
        check_repeat(recording_of(knee), recording_of(hip))


# ---- the report


@pytest.fixture(scope="module")
def comparison():
    return compare(recording(), recording(lag=0.03, scale=1.02), labels=("real", "sim"))


def test_tables_are_aligned_and_a_step_is_one_row(comparison):
    title, *lines = table_text(deviation_table(comparison)).splitlines()
    assert (title, lines[-2].split()[0], lines[-1].split()[0]) == ("sim against real", "servo", "a")
    assert {len(line) for line in lines[-2:]} == {max(map(len, lines))}
    assert max(map(len, lines)) <= 80  # characters in a line of a terminal: headers are folded
    cells = tuple(map(str, range(12)))
    wide = Table("wide", ("name", *(f"column {cell}" for cell in cells)), (("a", *cells),) * 2)
    lines = table_text(wide).splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line.split()[1:] for line in lines if line.startswith("a")]
    assert len(rows) == 4  # the other columns are below, beside the names again
    assert (*rows[0], *rows[2]) == (*rows[1], *rows[3]) == cells
    step, other = response_tables(comparison, comparison.pairs[0])
    assert step.header[:2] == ("step", "delay, ms")
    (row,) = step.rows
    assert row[0] == "step"
    real, simulated = row[step.header.index("steady-state error, °")].split(" / ")
    assert (float(real), float(simulated)) == pytest.approx((0.0, -1.72), abs=0.02)
    assert [row[0] for row in other.rows] == ["rest"]
    assert "-0.00" not in table_text(step)


def test_the_goal_is_drawn_below_the_motions(comparison):
    for result in (comparison, following(recording())):
        goal, *motions = panels_of(result, result.pairs[0])[0].curves
        assert (goal.label, goal.colour, goal.held) == ("goal", "command", True)
        assert all(goal.width > motion.width for motion in motions)
        assert set(goal.y[~np.isnan(goal.y)].round(3)) == {0.0, 85.944}


@pytest.mark.slow
def test_many_servos_fit_into_one_picture(tmp_path):
    tracks = {f"joint_{i}": recording().tracks["a"] for i in range(14)}
    both = Recording(Path("x.mcap"), tracks)
    write_png(compare(both, both), tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize(("servos", "most"), [(8, 350e3), pytest.param(25, 500e3, marks=pytest.mark.ci)])
def test_the_page_of_many_servos_takes_seconds_and_few_kilobytes(tmp_path, servos, most):
    time = np.arange(3000) * 0.02
    noise = np.random.default_rng(0)
    events = tuple(Event(3.0 * k, "segment", {"name": f"stride {k}"}) for k in range(20))

    def walk(lag):
        columns = {
            f"joint_{i}": {"position": np.sin((1 + i / 10) * (time - lag)), "command": np.sin((1 + i / 10) * time)}
            | {key: noise.normal(size=len(time)) for key in ("torque", "velocity", "power", "load")}
            for i in range(servos)
        }
        tracks = {name: Track.of(name, time, **column) for name, column in columns.items()}
        return Recording(Path("walk.mcap"), tracks, events)

    result = compare(walk(0.0), walk(0.03))
    started = process_time()
    write_html(result, tmp_path / "walk.html")
    assert process_time() - started < 15
    assert (tmp_path / "walk.html").stat().st_size < most


def test_a_page_is_self_contained_and_a_failed_one_leaves_the_old_file(comparison, tmp_path):
    write_html(comparison, tmp_path / "report.html", title="a <servo>")
    page = (tmp_path / "report.html").read_text()
    assert "a &lt;servo&gt;" in page
    assert "rise time 10-90 %" in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)
    (tmp_path / "file").touch()
    for write in (write_html, write_png):
        with pytest.raises(RecordingError, match="cannot be written"):
            write(comparison, tmp_path / "file" / "x")
        with pytest.raises(RecordingError, match="folder"):
            write(comparison, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "report.html"}


def test_the_worst_seconds_come_first():
    time = np.arange(0, 9.005, 0.01)  # one sample at 9.0 s is no second
    off = np.select([time < 5, time < 6], [0.0, 3.0], 1.0)
    still, other = (Track.of("knee", time, position=position) for position in (0 * time, np.radians(off)))
    sides = [Recording(Path("x.mcap"), {"knee": track}) for track in (still, other)]
    first, second, *rest = worst_seconds(compare(*sides, same_clock=True))
    assert (first.servo, first.start, first.rmse) == ("knee", 5.0, pytest.approx(3.0))
    assert second.rmse == pytest.approx(1.0)
    assert max(other.start for other in (second, *rest)) == 8.0


def test_overlapping_names_of_marks_are_put_in_two_rows_or_left_out():
    marks = ((0.0, "rest"), (1.0, "step to 20°"), (2.0, "step back"), (3.0, "step"), (8.0, "fall"), (9.5, "too long"))
    axes = Figure(figsize=(40 / 11, 1)).add_axes((0, 0, 1, 1))  # 10 s have 40 letters
    draw(axes, Panel((Curve(np.array([0.0, 10.0]), np.zeros(2), "", "other"),), "x", "y", marks=marks))
    heights = [(text.get_text(), text.xyann[1]) for text in axes.texts]
    assert heights == [("rest", 3), ("step to 20°", 14), ("step back", 3), ("fall", 3)]


def test_reduced_curves_keep_peaks_gaps_and_the_complete_spans():
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
    assert not goal.held  # reduced curves are not held
    short = [Panel((Curve(x[:900], y[:900], "goal", "command", held=True),), "x", "y")]
    assert fewer(short, 1000) == short


def bench(*, late=0.0, seconds=0.6, rest=0.0, top=90, backend="sim"):
    """Return a step at 0.5 s to `top`, °, and a fall from 2 s on, of `seconds`, to `rest`, °."""
    rising = np.interp(LONG, [0.5 + late, 0.75 + late], [0, top])
    falling = np.interp(LONG, [2.0, 2.0 + seconds], [90, rest])
    position = np.radians(np.where(LONG < 2.0, rising, falling))
    command = np.where(LONG >= 0.5, math.pi / 2, 0.0)
    events = (
        Event(0.0, "segment", {"name": "rest", "kind": "rest"}),
        Event(0.5, "segment", {"name": "step", "kind": "step", "target": math.pi / 2}),
        Event(2.0, "segment", {"name": "fall", "kind": "fall", "start": math.pi / 2}),
    )
    track = Track.of("a", LONG, position=position, command=command, torque_enabled=(LONG < 2.0).astype(float))
    return Recording(Path("a.mcap"), {"a": track}, events, metadata={"backend": backend})


def headline_of(real, other):
    return headline(compare(real, other, labels=("recorded", "simulated")))


@pytest.mark.parametrize(
    ("real", "other", "words"),
    [
        (
            {"late": 0.038, "rest": 4.0}, {"seconds": 0.4},
            r".* falls 2\d+ ms too early: its friction or .* is too low; steps agree to 0\.\d° if a delay of 38 ms is .*",
        ),
        ({"late": 0.15}, {"top": 96}, r"Steps are [5-7]\.\d° apart even if a delay of 1\d\d ms is added .*"),
        ({}, {"seconds": 0.9}, r".* too late: its friction or its rotor inertia is too high;.*"),
        ({}, {"rest": 30.0}, "The simulation does not fall all .*, the recording does: its friction is too high;.*"),
        ({"rest": 30.0}, {}, "The simulation falls all .*, the recording does not: its friction is too low;.*"),
        ({}, {}, r"Steps agree to 0\.00°\."),
        ({}, {"late": 0.5}, r"Steps are \d+\.\d° apart \(RMSE\), \d+° at worst\."),
    ],
)  # fmt: skip
def test_the_headline_attributes_falls_to_friction_and_a_shift_of_steps_to_latency(real, other, words):
    assert re.fullmatch(words, headline_of(bench(**real), bench(**other)))


def test_the_headline_of_a_real_servo_names_no_model_parameter():
    text = headline(compare(bench(), bench(seconds=0.4, backend="real"), labels=("monday", "friday")))
    assert text == "friday falls 189 ms earlier than monday; steps agree to 0.00°."


def test_a_step_with_missing_samples_is_named_and_not_judged():
    time = LONG
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
    text = headline_of(steps(2.3, ~gap), steps(2.0, time >= 0))
    assert text == "Steps agree to 0.00°. Not judged, as samples are missing: 'step back' (0.39 s)."


@pytest.mark.parametrize(
    ("late", "off", "words"),
    [
        (0.0, 0.003, r"agree to 0\.\d\d°\."),
        (0.065, 0.0, r"agree to 0\.\d° if the servo is moved 65 ms earlier\."),
        (0.0, 2.0, r"are \d+\.\d° apart \(RMSE\), \d+° at worst\."),
    ],
)
def test_the_headline_of_one_recording_compares_the_servo_with_its_goals(late, off, words):
    track = Track.of("a", LONG, position=np.sin((3 + off) * (LONG - late)), command=np.sin(3 * LONG))
    assert re.fullmatch(f"The goal and the servo {words}", headline(following(Recording(Path("s"), {"a": track}))))


def test_summary_and_headline_begin_with_the_worst_of_many_servos():
    tracks = {name: recording().tracks["a"] for name in "abc"}
    worse = {**tracks, "b": recording(lag=0.03).tracks["a"]}
    result = compare(Recording(Path("x"), tracks), Recording(Path("y"), worse))
    servos = summary(result)["servos"]
    assert (next(iter(servos)), servos["a"]["deviation"]["mae"]) == ("b", 0)
    text = headline(result)
    assert re.match(r"RMSE: a 0\.0°, c 0\.0°, b \d+\.\d°\. The worst is b: ", text)
