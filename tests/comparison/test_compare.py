"""A comparison reports what it did not compare, and gives no figure that is unknown."""

import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axbridge.cli import app
from axbridge.comparison.comparison import check, compare, following, lacks, shift_text, summary
from axbridge.comparison.html import write_html
from axbridge.comparison.png import write_png
from axbridge.comparison.recorded_runs import arm_of, packed, runs_of
from axbridge.comparison.simulate import simulate
from axbridge.comparison.tables import deviation_table
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, RigError, UsageError
from axbridge.recording import step_format
from axbridge.recording.import_logs import import_log
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Event, Recording, Track
from axbridge.recording.stored import Message, MessageWriter, open_recording, write_recording
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import FREE
from axbridge.state import SERVO_ROW

TIME = np.arange(0, 9, 0.02)


def wave(name="knee", *, time=TIME, lag=0.0, scale=1.0, **columns):
    return Track.of(name, time, position=scale * np.sin(2 * (time - lag)), **columns)


def recording(*tracks, events=(), path="a.mcap"):
    return Recording(Path(path), {track.name: track for track in tracks}, tuple(events))


WHOLE, HOLED = wave(), replace(wave(), position=np.where((TIME > 3) & (TIME < 3.5), np.nan, wave().position))
SHORTER, TORN = wave(time=TIME[TIME < 4]), wave(time=TIME[(TIME <= 3) | (TIME >= 5)], lag=0.05)


@pytest.mark.parametrize(
    ("reference", "other", "hole", "beyond", "words"),
    [
        (WHOLE, SHORTER, 5.0, 0.0, "44.4%; other lacks 5.00 s of it at a stretch"),
        (SHORTER, WHOLE, 0.0, 5.0, "100.0%; other has 5.00 s that reference lacks"),
        (WHOLE, wave(time=TIME[:-1]), 0.0, 0.0, None),
        (WHOLE, HOLED, 0.5, 0.0, "94.7%; other lacks 0.48 s of it at a stretch"),
        (HOLED, WHOLE, 0.0, 0.5, "100.0%; other has 0.50 s that reference lacks"),
        (HOLED, HOLED, 0.0, 0.0, None),
        (WHOLE, TORN, 2.0, 0.0, "78.0%; other lacks 1.98 s of it at a stretch"),
        (TORN, WHOLE, 0.0, 2.0, "100.0%; other has 2.00 s that reference lacks"),
    ],
)
def test_a_comparison_with_gaps_is_incomplete(reference, other, hole, beyond, words):
    comparison = compare(recording(reference), recording(other))
    (pair,) = comparison.pairs
    assert (pair.coverage.hole, pair.coverage.beyond) == pytest.approx((hole, beyond), abs=0.05)
    text = [] if words is None else ["knee: " + words.replace("%", "% of reference was compared")]
    assert lacks(comparison) == text
    late = 0.05 if TORN is reference or TORN is other else 0.0
    assert abs(pair.shift) == pytest.approx(late, abs=1e-3)
    assert pair.aligned.worst < 0.05  # no interpolation across the gap
    blank = replace(WHOLE, position=np.where(TIME[7] == TIME, np.nan, WHOLE.position))
    assert compare(recording(WHOLE), recording(blank)).pairs[0].coverage.lacking == 1


def test_servos_missing_on_one_side_are_named():
    real, sim = recording(wave("hip"), wave("knee")), recording(wave("knee"), wave("neck"))
    comparison = compare(real, sim, labels=("real", "sim"))
    assert comparison.missing == {"hip": "sim has no such servo", "neck": "real has no such servo"}
    assert lacks(comparison) == [f"{name}: not compared: {why}" for name, why in comparison.missing.items()]
    with pytest.raises(RecordingError, match="none of the servos hip, knee\nit has neck, toe"):
        compare(real, recording(wave("neck"), wave("toe")))
    document = summary(comparison)
    assert (document["missing"], document["whole"]) == (comparison.missing, False)
    names = ("hip", "knee", "toe")  # equal gaps of several servos give one line
    early = recording(*(wave(name, time=TIME[:end]) for name, end in zip(names, (300, 250, 200), strict=True)))
    (line,) = lacks(compare(recording(*map(wave, names)), early))
    assert line.startswith("toe: 44.4% of reference was compared; other lacks 5.00 s")
    assert line.endswith("; 2 more of its servos lack as much, or less")


def test_recordings_may_be_given_as_files(tmp_path):
    reference, late = recording(wave()), recording(wave(lag=0.04))
    paths = [write_recording(side, tmp_path / name).path for side, name in ((reference, "a.mcap"), (late, "b.mcap"))]
    assert compare(paths[0], str(paths[1])).pairs == compare(reference, late).pairs
    with pytest.raises(RecordingError, match=r"c\.mcap: No such file"):
        compare(reference, tmp_path / "c.mcap")


def test_a_servo_without_positions_is_reported_as_missing(tmp_path):
    unread = Track.of("hip", TIME, command=np.zeros(len(TIME)))
    comparison = compare(recording(unread, wave()), recording(wave("hip"), wave()))
    assert comparison.missing == {"hip": "reference has no position of it"}
    assert [pair.name for pair in comparison.pairs] == ["knee"]
    write_html(comparison, tmp_path / "a.html")
    assert "reference has no position of it" in (tmp_path / "a.html").read_text()
    with pytest.raises(RecordingError, match="nothing can be compared: hip: reference has no"):
        compare(recording(unread), recording(wave("hip")))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"limit": 0.0}, "a limit of 0 s allows no shift"),
        ({"limit": math.nan}, "a limit of nan s"),
        ({"limit": "1 s"}, "limit must be a number"),
        ({"labels": ("real",)}, "are not two names"),
        ({"labels": "ab"}, "are not two names"),
    ],
)
def test_an_invalid_limit_or_label_is_refused(wrong, message):
    with pytest.raises(UsageError, match=message):
        compare(recording(wave()), recording(wave()), **wrong)
    assert compare(recording(wave()), recording(wave()), limit=1e9).pairs[0].shift is None


@pytest.mark.parametrize("lag", [0.5, -0.5])
def test_a_shift_beyond_the_range_is_not_found(lag, tmp_path):
    comparison = compare(recording(wave()), recording(wave(lag=lag)), limit=0.2)
    pair = comparison.pairs[0]
    assert (pair.shift, pair.aligned) == (None, None)
    assert shift_text(comparison, pair) == "not found within ±200 ms"
    assert "not found within ±200 ms" in deviation_table(comparison).rows[0]
    assert json.loads(json.dumps(summary(comparison)["servos"]["knee"]["shift_s"])) is None
    assert check(comparison, "aligned_rmse>100") == ["knee: aligned_rmse is not known: shift not found within ±200 ms"]
    assert check(comparison, "shift>0.1") == ["knee: shift is not known: shift not found within ±200 ms"]
    write_html(comparison, tmp_path / "a.html")
    assert "not found within ±200 ms" in (tmp_path / "a.html").read_text()
    write_png(comparison, tmp_path / "a.png")


def test_a_joint_at_rest_has_no_shift_and_a_limp_joint_is_left_out():
    comparison = compare(recording(wave(scale=0.0)), recording(wave(scale=0.0)))
    assert shift_text(comparison, comparison.pairs[0]) == "hardly moves"
    assert check(comparison, "aligned_rmse>1") == check(comparison, "shift>0.1") == []
    driven = wave(command=np.sin(2 * TIME), torque_enabled=np.where(TIME < 5, 1.0, 0.0))
    limp = wave("hip", command=np.zeros(len(TIME)), torque_enabled=np.zeros(len(TIME)))
    comparison = following(recording(driven, limp))
    assert [pair.name for pair in comparison.pairs] == ["knee"]
    assert not lacks(comparison)


def stepping(late=0.0):
    """Return a step at 0.5 s. A first control cycle that was `late` (s) delays all later times."""
    time = np.arange(0, 2 + late, 0.01)
    start = 0.5 + late
    sent = time + 0.001 + np.where(time == 0, late, 0.0)
    position = 1.5 * (1 - np.exp(-np.maximum(time - start, 0) / 0.1))
    track = Track.of("knee", time, position=position, command=np.where(time >= start, 1.5, 0.0), commanded=sent)
    events = (
        Event(0.0, "segment", {"name": "rest", "kind": "rest"}),
        Event(start, "segment", {"name": "step", "kind": "step", "target": 1.5}),
    )
    return recording(track, events=events)


@pytest.mark.parametrize("late", [-0.2, 0.2])
def test_time_before_the_first_command_is_not_compared(late):
    comparison = compare(stepping(late=0.2), stepping()) if late < 0 else compare(stepping(), stepping(late=0.2))
    assert not lacks(comparison)
    assert comparison.pairs[0].plain.rmse < 0.01  # and the delay is no error of the model
    step = comparison.pairs[0].parts[1].results
    assert step[0].delay == pytest.approx(step[1].delay, abs=1e-3)


@pytest.mark.parametrize(("name", "kind", "measured"), [("Sprung", "step", True), ("step", "rest", False)])
def test_a_segments_figures_depend_on_its_kind_not_its_name(name, kind, measured):
    plain = stepping()
    events = (plain.events[0], Event(0.5, "segment", {"name": name, "kind": kind, "target": 1.5}))
    comparison = compare(replace(plain, events=events), replace(plain, events=events))
    assert (comparison.pairs[0].parts[1].results is not None) == measured
    assert ("step" in summary(comparison)["servos"]["knee"]["segments"][1]) == measured


def goals(blank):
    """Return a bench arm with three goals; after each of them `blank` samples have no position."""
    time = np.arange(0, 6, 0.02)
    command = np.select([time < 1, time < 3, time < 5], [0.0, 1.0, -0.5], 0.4)
    known = {"command": command, "torque_enabled": np.ones(len(time)), "voltage": np.full(len(time), 9.6)}
    start = Track.of("shoulder", time, position=np.zeros(len(time)), **known)
    rig = Rig.load("bench_arm")
    meta = describe(rig, backend="sim")
    truth = simulate(Recording(Path("x"), {"shoulder": start}, (), {}, meta), rig)["shoulder"].position
    for index in np.flatnonzero(np.diff(command)) + 1:
        truth[index : index + blank] = np.nan
    track = Track.of("shoulder", time, position=truth, **known)
    return Recording(Path("x.mcap"), {"shoulder": track}, (), {}, meta), rig


def test_a_blank_position_keeps_the_command_of_its_row():
    whole, rig = goals(0)
    blanked, _ = goals(5)
    simulated = simulate(blanked, rig)
    np.testing.assert_array_equal(simulated["shoulder"].position, simulate(whole, rig)["shoulder"].position)
    assert compare(blanked, simulated, same_clock=True).pairs[0].plain.rmse < 0.01
    both = runs_of([whole, blanked], rig)  # the input of a fit
    assert both.compared.tolist() == [300, 285]
    assert both.only([1]).compared.tolist() == [285]
    far = both.errors(both.position + 1.0)
    assert far[300:].sum() == pytest.approx(285)
    assert both.means(far) == pytest.approx([1.0, 1.0])


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_recording(recording(wave("hip"), wave("knee")), "whole.mcap")
    write_recording(recording(wave("hip"), wave("knee", time=TIME[TIME < 4])), "short.mcap")
    write_recording(recording(wave("hip")), "one.mcap")


@pytest.mark.parametrize("other", ["short.mcap", "one.mcap"])
@pytest.mark.slow
def test_fail_if_fails_on_incomplete_comparisons_unless_allowed(files, capsys, other):
    condition = ("compare", "whole.mcap", other, "--fail-if", "rmse>2")
    assert app.run([*condition]) == app.FAILED_CHECK
    output = capsys.readouterr().err
    assert "failed: knee: " in output
    assert "--allow-partial" in output
    assert app.run([*condition, "--json"]) == app.FAILED_CHECK
    assert len(json.loads(capsys.readouterr().out)["failed"]) == 1
    assert app.run([*condition, "--allow-partial"]) == app.DONE
    assert "note: knee: " in capsys.readouterr().err
    assert app.run(["compare", "whole.mcap", other]) == app.DONE
    assert app.run(["compare", "whole.mcap", other, "--out", "page.pdf"]) == app.MISUSE
    assert app.run(["compare", "whole.mcap", "whole.mcap", "--fail-if", "rmse>2"]) == app.DONE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk here")
@pytest.mark.slow
def test_figures_are_printed_also_when_the_page_cannot_be_written(files, capsys):
    Path("page.html").symlink_to("/dev/full")
    assert app.run(["compare", "whole.mcap", "short.mcap", "--out", "page.html"]) == app.MISUSE
    printed = capsys.readouterr()
    assert "RMSE" in printed.out
    assert "wrote" not in printed.out
    assert "page.html: cannot be written" in printed.err


def test_errors_of_a_repetition_are_listed_beside_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    time = np.arange(0.0, 20.0, 0.02)
    goal, driven = np.where(time % 4 < 2, 0.0, 0.5), np.where(time < 18, 1.0, 0.0)
    late = np.interp(time - 0.1, time, goal)
    for name, off in (("real", 0.0), ("model", 0.3), ("again", 0.1)):
        position = np.where(time < 18, late, late + off) + np.radians(off)  # limp at the end
        track = Track.of("knee", time, command=goal, position=position, torque_enabled=driven)
        facts = describe(backend="sim" if name == "model" else "real")
        write_recording(Recording(Path(name), {"knee": track}, (), {}, facts), Path(f"{name}.mcap"))
    compared = ["compare", "real.mcap", "model.mcap", "--again", "again.mcap", "--html", "page.html"]
    assert app.run(compared) == app.DONE
    row = next(line for line in capsys.readouterr().out.splitlines() if line.endswith("0.10 / 0.10"))
    assert "0.30 / 0.30" in row
    assert "repeat" in Path("page.html").read_text()
    assert app.run([*compared[:-2], "--json"]) == app.DONE
    knee = json.loads(capsys.readouterr().out)["while_driven"]["knee"]
    assert knee["perfect_servo"]["rmse"] == pytest.approx(np.degrees(0.5) * np.sqrt(0.1 / 2), rel=0.2)
    assert knee["delay_and_lag"]["rmse"] < 0.5
    assert [knee[key]["mae"] for key in ("model", "repeat")] == pytest.approx([0.3, 0.1])
    assert app.run(["compare", "real.mcap", "model.mcap", "--again", "real.mcap"]) == app.MISUSE
    assert "real.mcap is given twice" in capsys.readouterr().err


def test_sorting_a_recording_whose_clock_jumps_back_is_reported(files, capsys):
    """Another program may write such a file: samples of two motions in their order of arrival."""
    with Path("back.mcap").open("wb") as stream:
        writer = MessageWriter(stream, {"experiment": "two motions"}, chunked=True)
        for time in (0.0, 0.02, 0.04, 0.01, 0.03):
            row = np.full(1, np.nan, SERVO_ROW)
            row["time"], row["position"] = time, 0.0
            writer.write(Message(step_format.STEP, step_format.packed(row), 0, ("knee",)))
        writer.finish()
    back = open_recording("back.mcap")
    assert back["knee"].time.tolist() == [0.0, 0.01, 0.02, 0.03, 0.04]
    (event,) = back.events
    assert (event.time, event.name, event.data) == (0.01, "clock jumped back", {"servo": "knee", "from": 0.04})
    assert app.run(["compare", "back.mcap", "back.mcap"]) == app.DONE
    assert "knee: the clock jumped back to 0.01 s" in capsys.readouterr().err


@pytest.mark.ci
def test_memory_does_not_grow_with_the_servos(tmp_path, monkeypatch):
    monkeypatch.setattr("axbridge.recording.recording._IN_MEMORY", 1)
    needed = []
    for count in (1, 1, 5):  # the first one also imports
        servos = [wave(f"servo {k}", time=np.arange(10_000) / 50, command=np.zeros(10_000)) for k in range(count)]
        side = write_recording(recording(*servos), tmp_path / f"{count}.mcap")
        tracemalloc.start()
        comparison = compare(side, side)
        needed.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
        assert len(comparison.pairs) == count
    motions = 4 * 6 * 10_000 * 8 / 1e6  # MB, of the four additional servos
    assert needed[2] < needed[1] + motions / 2


# ---- simulation of recorded commands: the pendulum's energy, its rest position, and a real log

SHORT, REAL = np.arange(0, 2, 0.01), Path(__file__).parents[2] / "docs" / "real"


def test_an_arm_that_does_not_hang_at_zero_has_a_phase_and_a_rig_with_another_joint_no_single_arm():
    rig = Rig.load("bench_arm")
    for rpy, phase in (("0 0 0", 0.0), ("0 -0.5 0", 0.5)):
        text = rig.urdf_text().replace('<origin xyz="0 0 0"/>', f'<origin xyz="0 0 0" rpy="{rpy}"/>')
        arm = arm_of(rig.with_urdf(text), rig.servos[0])
        assert arm.inertia == pytest.approx(7.2e-4, rel=1e-3)
        assert math.remainder(arm.phase - phase, 2 * math.pi) == pytest.approx(0, abs=1e-6)
    mass = '<inertial><mass value="0.1"/><inertia ixx="1e-5" iyy="1e-5" izz="1e-5"/></inertial>'
    wrist = '<joint name="wrist" type="continuous"><parent link="arm"/><child link="hand"/></joint>'
    text = rig.urdf_text().replace("</robot>", f'<link name="hand">{mass}</link>{wrist}</robot>')
    with pytest.raises(RigError, match="several moving parts"):
        arm_of(rig.with_urdf(text), rig.servos[0])


def swing(position=0.0, goal=math.nan, temperature=math.nan, **params):
    """Return the simulated positions of a bench arm, rad, (200,); without a goal it is limp."""
    rig = Rig.load("bench_arm").with_servos(lambda _: {"params": params})
    values = {"position": position, "command": goal, "torque_enabled": not math.isnan(goal), "voltage": 9.6}
    columns = {
        name: np.full(len(SHORT), float(value)) for name, value in {**values, "temperature": temperature}.items()
    }
    return simulate(Recording(Path("x"), {"shoulder": Track.of("shoulder", SHORT, **columns)}), rig)[
        "shoulder"
    ].position


def test_a_limp_arm_without_friction_swings_at_its_frequency_and_a_step_ends_where_the_paper_says():
    angle = swing(0.1, friction={"viscous": 0.0, "coulomb": 0.0})
    np.testing.assert_allclose(angle, 0.1 * np.cos(math.sqrt(0.081 / 7.2e-4) * SHORT), atol=0.004)
    angle = np.degrees(swing(goal=math.pi / 2))
    assert angle[-1] == pytest.approx(89.29, abs=0.1)
    rise = np.subtract(*np.interp([0.9 * angle[-1], 0.1 * angle[-1]], angle, SHORT))
    assert rise == pytest.approx(0.24, abs=0.02)


def test_a_warm_winding_has_more_resistance_and_an_asymmetric_motor_more_torque_in_one_direction():
    law = {"resistance_per_kelvin": 0.02, "ambient_temperature": 25.0}
    warm, cold = swing(goal=1.0, temperature=45.0, motor=law), swing(goal=1.0, motor={"resistance": 8.0 * 1.4})
    np.testing.assert_allclose(warm, cold, rtol=1e-9)
    lopsided, strong = (
        swing(goal=1.0, motor={"efficiency": 0.8, "asymmetry": 0.1}),
        swing(goal=1.0, motor={"efficiency": 0.88}),
    )
    np.testing.assert_allclose(lopsided, strong, rtol=1e-9)


def test_the_papers_structure_on_a_real_log_is_a_few_degrees_off():
    log = import_log(REAL / "xl330_pendulum" / "xl330_kp400_lift_and_drop.json")
    simulated = simulate(log, Rig.load("xl330_pendulum"))
    assert simulated["servo"].position[0] == log["servo"].position[0]
    assert "closed form" in simulated.metadata["engine"]
    assert 1.0 < compare(log, simulated).pairs[0].plain.mae < 8.0


def test_a_goal_does_not_act_before_it_was_sent():
    still, steady = np.zeros(len(SHORT)), np.full(len(SHORT), 0.3)
    columns = {"position": still, "velocity": still, "command": steady, "torque_enabled": still + 1.0}
    track = Track.of("shoulder", SHORT, **columns, commanded=np.maximum(SHORT + 0.005, 0.2))
    simulated = simulate(Recording(Path("late.mcap"), {"shoulder": track}), "bench_arm")["shoulder"]
    before = simulated.position[(simulated.time > 0.05) & (simulated.time < 0.19)]
    assert np.abs(np.degrees(before)).max() < 2.0
    assert math.degrees(simulated.position[-1]) > 14.0


def test_goals_act_at_their_send_times_and_samples_have_their_own_times():
    """A late loop reads the servos one by one, and goals are not sent at whole periods."""
    rig = Rig.load("leg")
    period, latency = rig.robot.basic_time_step_ms / 1000, 0.02
    stamps = np.arange(0.0, 0.6, period)
    stamps[12:] += 0.4 * period  # a late cycle delays all later ones
    went_out, goal = stamps[15] + 0.007, np.where(stamps >= stamps[15], 0.1, 0.0)
    still = {"position": 0 * goal, "torque_enabled": 0 * goal + 1}
    columns = {**still, "command": goal, "commanded": stamps + 0.007}
    names = [servo.name for servo in rig.servos]
    tracks = {name: Track.of(name, stamps + 0.0003 * k, **columns) for k, name in enumerate(names)}
    simulated = simulate(Recording(Path("late.mcap"), tracks), rig, "ax12")
    for name, track in simulated.items():
        np.testing.assert_array_equal(track.time, tracks[name].time)
        start = track.time[np.argmax(np.abs(track.load) > 0.3)]
        assert went_out + latency <= start < went_out + latency + 1.3 * period, name


@pytest.mark.parametrize("more", [1e-4, -1e-4, 0.0])
def test_goals_that_are_hardly_more_than_some_steps_apart_are_simulated(more):
    """A busy computer sends goals at any intervals, and none of them is a step too short for the simulator."""
    stamps = np.cumsum([0.0, 0.0001, 0.02, 0.018 + more, 0.036 + more, 0.02, 0.005, 0.00505, 0.02, 0.02])
    goal = np.linspace(0.0, 0.2, 10)
    still = {"position": 0 * goal, "torque_enabled": 0 * goal + 1}
    columns = {**still, "command": goal, "commanded": stamps}
    tracks = {name: Track.of(name, stamps - 0.0001, **columns) for name in ("pan", "tilt")}
    simulated = simulate(Recording(Path("busy.mcap"), tracks), "pan_tilt", "ax12")
    for name, track in simulated.items():
        np.testing.assert_array_equal(track.time, tracks[name].time)
        assert track.position[-1] > 0.1, name


def test_a_joint_whose_reading_is_beyond_its_stop_starts_at_the_stop():
    rig = Rig.load("bioloid").overridden({"world": {"fixed_base": True, "ground": False}})
    low, _ = rig.specs["left_knee"].stops
    time = np.arange(0.0, 0.1, rig.robot.basic_time_step_ms / 1000)
    where = np.full(len(time), low - 0.01)
    limp = Track.of("left_knee", time, position=where, command=where, torque_enabled=np.zeros(len(time)))
    simulated = simulate(Recording(Path("limp.mcap"), {"left_knee": limp}), rig)["left_knee"]
    assert simulated.position[0] == pytest.approx(low, abs=0.005)


def turning(duty, position):
    """Return a recording in wheel mode with these positions."""
    n = len(SHORT)
    track = Track.of(
        "shoulder", SHORT, duty=np.full(n, duty), position=position, torque_enabled=np.ones(n), voltage=np.full(n, 9.6),
        velocity=np.gradient(position, SHORT),
    )  # fmt: skip
    return Recording(Path("duty.mcap"), {"shoulder": track}, (), {}, {})


def test_an_arm_in_wheel_mode_continues_at_its_first_reading_after_the_dead_zone():
    rig = Rig.load("bench_arm")
    row = packed(rig.specs["shoulder"].model, rig)[None]
    angle = rollouts(row, runs_of([turning(0.8, 0 * SHORT)], rig)._replace(passive=FREE[None]))[0]
    assert angle[-1] > math.radians(250)
    turn, end = 2 * math.pi, math.radians(150)
    within = (angle + math.pi) % turn - math.pi
    made = turning(0.8, np.clip(within, -end, end))
    seen = np.abs(within) < math.radians(149)
    simulated = simulate(made, rig)["shoulder"].position
    assert np.isnan(simulated[np.abs(within) > end]).all()
    assert np.isfinite(simulated[seen]).mean() > 0.97
    error = np.degrees(simulated - within)[seen]
    assert np.nanmax(np.abs(error)) < 2.0
    (pair,) = compare(made, simulate(made, rig)).pairs
    assert pair.plain.rmse < 1.0
    assert pair.plain.samples <= np.isfinite(simulated).sum()
    with pytest.raises(RecordingError, match="cannot see it"):  # never within the sensor's range
        simulate(turning(0.5, np.full(len(SHORT), end)), rig)


@pytest.mark.parametrize("judge", [following, lambda made: simulate(made, "bare_horn")])
def test_the_hint_for_a_graph_without_goals_is_an_import_with_a_goal(judge):
    graph = REAL / "ax12a_steps" / "AX12A_NOLOAD_1.csv"
    with pytest.raises(RecordingError, match=r"holds no commands\nimport it again with `--goal COUNTS@auto --force`"):
        judge(import_log(graph, servo="horn"))
