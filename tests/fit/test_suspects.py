import math
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axbridge.cli import app, import_  # noqa: F401 - registers it
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.fit import Fit, identify
from axbridge.fit.least_squares import polish
from axbridge.fit.pipeline import scores_of
from axbridge.fit.prepare import base_model, prepare
from axbridge.fit.search import COARSE
from axbridge.fit.suspects import import_again, sampling, suspects_of
from axbridge.recording.import_logs import import_log, parse_columns
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Recording, Track
from axbridge.recording.stored import open_recording
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts
from tests.fit.test_identify import COUNT, RIG

pytestmark = pytest.mark.slow

VOLTS = 11.1
SUPPLIED = RIG.with_buses(supply_voltage=VOLTS)


def motion(name, goal, seconds, *, limp=False):
    """Return the motion of an arm with `goal` as a function of time, an AX-12's rounding, and no recorded voltage."""
    row = packed(base_model(RIG, "ax12"), RIG)
    row[[Param.SLOPE, Param.PUNCH, Param.ARMATURE, Param.COULOMB, Param.LATENCY]] = [0.2, 0.05, 0.006, 0.03, 0.03]
    time = np.arange(0, seconds, 0.01)
    goals = np.array([goal(now) for now in time])
    track = Track.of(
        "shoulder", time, command=goals, position=np.full(len(time), goals[0]), commanded=time,
        torque_enabled=np.full(len(time), float(not limp)), voltage=np.full(len(time), VOLTS),
    )  # fmt: skip
    recording = Recording(Path(f"{name}.mcap"), {"shoulder": track}, (), {}, describe(backend="imported"))
    seen = rollouts(row[None], runs_of([recording], RIG), 5e-4)[0]
    seen = seen + np.random.default_rng(0).normal(0, math.radians(0.1), len(time))
    return changed(recording, position=np.round(seen / COUNT) * COUNT, voltage=np.full(len(time), np.nan))


def changed(recording, **columns):
    return replace(recording, tracks={"shoulder": replace(recording["shoulder"], **columns)})


@pytest.fixture(scope="module")
def good():
    """Steps, a chirp and a fall."""
    return [
        motion("steps", lambda now: math.radians((0, 60, -30, -90, 20)[int(now)]), 5.0),
        motion("chirp", lambda now: math.radians(40) * math.sin(2 * math.pi * (0.3 * now + 0.1 * now**2)), 6.0),
        motion("fall", lambda _now: 2.0, 1.5, limp=True),
    ]


def suspects_in(recordings, rig=SUPPLIED, model="ax12"):
    """Return the suspects of a fit by least squares from the model's own constants, without a search."""
    problem = prepare(recordings, rig, model)
    space, runs = problem.space, problem.runs
    row = space.sets(polish(space, runs, space.point(space.base), rounds=12, step=COARSE)[None])[0]
    seen = rollouts(row[None], runs)[0]
    results = {"scores": scores_of(problem, seen), "simulated": seen, "starts": (), "warnings": (), "rollouts": 0}
    fit = Fit.of(problem, space.unknowns, row, None, **results)
    return "\n".join((*sampling(recordings), *suspects_of(fit, recordings)))


def test_a_good_recording_has_no_suspects(good):
    assert suspects_in(good) == ""


@pytest.mark.ci
def test_a_complete_fit_reports_suspects(good):
    fit = identify(
        [changed(good[0], position=-good[0]["shoulder"].position)], SUPPLIED, "ax12",
        starts=1, generations=4, richer=False, where=map,
    )  # fmt: skip
    assert fit.warnings[0].startswith("this looks like a mirrored angle")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("column", "factor", "words", "remedy"),
    [
        ("position", -1.0, "a mirrored angle", "--column position=HEADER:-1"),
        ("position", 1.2, "a scaled angle: positions are 1.2", "--column position=HEADER:0.83"),
        ("time", 1.01, "two clocks: that of the samples runs 1.01 times as fast", "--column time=HEADER:0.99"),
    ],
)
def test_a_factor_that_explains_large_errors_is_named(good, column, factor, words, remedy):
    text = suspects_in([changed(log, **{column: factor * getattr(log["shoulder"], column)}) for log in good])
    assert f"this looks like {words}" in text, text
    assert remedy in text


def test_the_factor_is_found_although_the_fit_to_wrong_angles_ended_far_from_the_servo():
    rig = Rig.load("xl330_pendulum")
    row = packed(base_model(rig, "xl330"), rig)
    row[[Param.ARMATURE, Param.COULOMB, Param.LOAD]] = [0.003, 0.02, 0.2]  # a servo unlike the model's start
    time = np.arange(0, 6, 0.005)
    track = Track.of(
        "pendulum", time, command=1.2 * np.sin(0.2 * np.pi * time**2), position=np.zeros(len(time)), commanded=time,
        torque_enabled=np.ones(len(time)), voltage=np.full(len(time), 7.4),
    )  # fmt: skip
    log = Recording(Path("log.mcap"), {"pendulum": track}, (), {}, describe(backend="imported"))
    noise = np.random.default_rng(0).normal(0, math.radians(0.1), len(time))
    seen = rollouts(row[None], runs_of([log], rig), 5e-4)[0] + noise
    doubled = replace(log, tracks={"pendulum": replace(track, position=2.0 * seen)})
    text = suspects_in([doubled], rig, "pendulum-servo")
    assert "this looks like a scaled angle" in text, text
    assert float(text.partition("positions are ")[2].split()[0]) == pytest.approx(2.0, rel=0.06)


def test_random_errors_of_time_stamps_are_reported(good):
    rng = np.random.default_rng(1)
    text = suspects_in([changed(log, time=np.sort(log["shoulder"].time + rng.uniform(-0.01, 0.01, len(log["shoulder"]))))
                 for log in good])  # fmt: skip
    assert "time stamps are off at random" in text


def without(recording, share):
    """Return the recording without a random share of its samples."""
    track = recording["shoulder"]
    keep = np.random.default_rng(2).random(len(track)) >= share
    keep[0] = True
    columns = {key: column[keep] for key, column in vars(track).items() if isinstance(column, np.ndarray)}
    return replace(recording, tracks={"shoulder": Track(name="shoulder", **columns)})


def test_missing_samples_and_jumps_are_reported_as_by_info(good):
    steps, chirp, fall = good
    assert sampling(good) == ()
    assert sampling([without(steps, 0.02)]) == ()  # occasional missing replies
    (missing,) = sampling([without(steps, 0.3), chirp])
    assert missing.startswith("samples are missing: steps.mcap 3")
    position = chirp["shoulder"].position.copy()
    position[100:400:100] += math.radians(60)
    (jumps,) = sampling([steps, changed(chirp, position=position)])
    assert jumps.startswith("positions jump faster than a servo turns: chirp.mcap 6 (first at 1.000 s)")
    blank = fall["shoulder"].position.copy()
    blank[50:80] = np.nan
    assert sampling([changed(fall, position=blank)])[0].startswith("samples are missing: fall.mcap 20 %")


def test_the_suggested_import_runs_as_it_is_typed(good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("t,Joint Angle\n0,1\n20,2\n")
    columns = parse_columns(["time=t:ms", "position=Joint Angle:0.5"])
    imported = import_log("log.csv", columns=columns)
    _, *words = shlex.split(import_again(imported, "position", -1.0))
    assert app.run(words) == 0
    np.testing.assert_allclose(open_recording("FILE.mcap")["servo"].position, [-0.5, -1])
    np.testing.assert_allclose(open_recording("FILE.mcap")["servo"].time, [0, 0.02])
    counts = import_log("log.csv", columns=parse_columns(["time=t:ms", "position=Joint Angle:counts"]))
    assert import_again(counts, "position", 2.0).startswith("multiply Joint Angle - 512 by 2 in the log")
