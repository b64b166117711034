"""Delay and lag of joints of which there is no rig."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axbridge.cli import app, compare, identify  # noqa: F401 - registers them
from axbridge.comparison.lag import lags
from axbridge.config import toml_tables
from axbridge.errors import RecordingError
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Recording, Track
from axbridge.recording.stored import write_recording


def joint(name, delay, lag, *, ramped, period=0.05, offset=0.5, seed=0):
    """A joint that goes to a new goal every second, by the closed solution for steps and lines, read in 0.3° steps."""
    time = np.arange(0.0, 30.0, period)
    rng = np.random.default_rng(seed)
    goals = np.radians(rng.uniform(-40, 40, 30))
    command = goals[np.minimum(time.astype(int), 29)]
    fine = np.arange(-1.0, 30.0, 1e-3)
    if ramped:
        last = np.floor((np.arange(30) + 1 - 1e-9) / period) * period
        knots = np.concatenate([(k, end) for k, end in enumerate(last)])
        values = np.repeat(np.concatenate(([0.0], goals)), 2)[1:-1]
        goal = np.interp(fine - delay, knots, values)
    else:
        goal = np.where(fine < delay, 0.0, goals[np.clip(np.floor(fine - delay).astype(int), 0, 29)])
    path = np.zeros(len(fine))
    for k in range(1, len(fine)):
        path[k] = path[k - 1] + (goal[k] - path[k - 1]) * (1 - math.exp(-1e-3 / lag))
    position = np.degrees(np.interp(time, fine, path)) + offset + rng.normal(0, 0.1, len(time))
    return Track.of(name, time, command=command, position=np.radians(0.3 * np.round(position / 0.3)))


def recording(*tracks):
    return Recording(Path("walk.mcap"), {track.name: track for track in tracks}, (), {}, describe(backend="imported"))


@pytest.mark.parametrize("ramped", [False, True])
@pytest.mark.slow
def test_delay_and_lag_of_each_joint_are_found(ramped):
    still = Track.of("neck", np.arange(0, 30, 0.05), command=np.zeros(600), position=np.zeros(600))
    found = lags(
        recording(joint("knee", 0.05, 0.06, ramped=ramped), still, joint("hip", 0.03, 0.1, ramped=ramped, seed=1))
    )
    assert found.ramped == ramped
    assert found.still == ("neck",)
    for one, delay, lag in zip(found.joints, (0.05, 0.03), (0.06, 0.1), strict=True):
        assert one.total[0] == pytest.approx(delay + lag, abs=0.01)
        assert one.total[1] <= delay + lag <= one.total[2]
        assert one.delay[1] - 0.002 <= delay <= one.delay[2] + 0.002
        assert math.degrees(one.offset) == pytest.approx(0.5, abs=0.1)
        assert one.after < 0.3 < one.before


def test_samples_without_torque_or_position_are_left_out():
    knee = joint("knee", 0.05, 0.06, ramped=False)
    gap = (knee.time > 12) & (knee.time < 14)
    limp = (knee.time > 20) & (knee.time < 23)
    torn = replace(
        knee,
        position=np.where(gap, np.nan, np.where(limp, 2.0, knee.position)),
        torque_enabled=np.where(limp, 0.0, 1.0),
    )
    (one,) = lags(recording(torn)).joints
    assert one.total[0] == pytest.approx(0.11, abs=0.015)


def test_a_robot_that_was_not_told_to_move_is_refused():
    still = Track.of("neck", np.arange(0, 30, 0.05), command=np.zeros(600), position=np.zeros(600))
    with pytest.raises(RecordingError, match="tells no joint to move"):
        lags(recording(still))


def test_the_command_needs_no_rig_for_it_and_says_when_it_needs_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_recording(recording(joint("knee", 0.05, 0.06, ramped=False)), tmp_path / "walk.mcap")
    assert app.run(["identify", "walk.mcap", "--model", "lag", "--out", "lag.toml", "--json"]) == app.DONE
    told = json.loads(capsys.readouterr().out)["joints"]["knee"]
    written = toml_tables.tomllib.loads((tmp_path / "lag.toml").read_text())["joint"]["knee"]
    assert written["delay_ms"] == pytest.approx(told["delay_ms"]["value"], abs=0.06)
    assert app.run(["identify", "walk.mcap", "--model", "ax12", "--out", "x.toml"]) == app.MISUSE
    assert "--rig is missing" in capsys.readouterr().err


@pytest.fixture
def fitted(tmp_path, monkeypatch):
    """Delays and lags of two joints, and another recording of them."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("walk.mcap", 0), ("other.mcap", 5)):
        knee = joint("knee", 0.05, 0.06, ramped=False, seed=seed)
        hip = joint("hip", 0.03, 0.1, ramped=False, seed=seed + 1, offset=-1.0)
        write_recording(recording(knee, hip), tmp_path / name)
    assert app.run(["identify", "walk.mcap", "--model", "lag", "--out", "lag.toml"]) == app.DONE
    return tmp_path


@pytest.mark.slow
def test_what_was_found_predicts_another_recording(fitted, capsys):
    capsys.readouterr()
    assert app.run(["compare", "other.mcap", "--model", "lag.toml", "--out", "it.html", "--json"]) == app.DONE
    told = json.loads(capsys.readouterr().out)["servos"]
    assert set(told) == {"knee", "hip"}
    assert all(one["deviation"]["mae"] < 0.3 for one in told.values())  # goals alone are 4° off and more
    assert "lag" in (fitted / "it.html").read_text()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--rig", "bench_arm"), "it is the model alone"),
        (("walk.mcap",), "it is the model alone"),
        (("--model", "ax12"), "--model needs the rig"),
    ],
)
@pytest.mark.slow
def test_delays_and_lags_are_a_model_of_their_own(fitted, capsys, more, words):
    assert app.run(["compare", "other.mcap", "--model", "lag.toml", *more]) == app.MISUSE
    assert words in capsys.readouterr().err


@pytest.mark.slow
def test_a_recording_of_other_joints_is_refused(fitted, capsys):
    write_recording(recording(joint("elbow", 0.05, 0.06, ramped=False)), fitted / "arm.mcap")
    assert app.run(["compare", "arm.mcap", "--model", "lag.toml"]) == app.MISUSE
    assert "no goals of lag.toml's joints: knee, hip" in capsys.readouterr().err


@pytest.mark.slow
def test_a_lag_as_long_as_the_search_goes_has_no_interval(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_recording(recording(joint("knee", 0.05, 1.5, ramped=False)), tmp_path / "slow.mcap")
    assert app.run(["identify", "slow.mcap", "--model", "lag", "--out", "lag.toml"]) == app.DONE
    said = capsys.readouterr().out
    assert "or more)" in said
    assert "note: knee: the lag ended at 400 ms, as far as is searched" in said.replace("delay and the ", "")
    assert "or more" in (tmp_path / "lag.toml").read_text()
    assert app.run(["identify", "slow.mcap", "--model", "lag", "--out", "again.toml", "--json"]) == app.DONE
    told = json.loads(capsys.readouterr().out)["joints"]["knee"]
    assert "lag" in told["ended"]
    assert told["lag_ms"]["high"] is None
    assert told["both_ms"]["high"] is None


def test_without_numba_the_command_says_at_once_how_long_it_will_take(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("axbridge.jit.COMPILED", False)
    write_recording(recording(joint("knee", 0.05, 0.06, ramped=False)), tmp_path / "walk.mcap")
    asked = (
        "identify",
        "walk.mcap",
        "--rig",
        "bench_arm",
        "--model",
        "lima2009",
        "--ks-pairs",
        "no.csv",
        "--out",
        "x.toml",
    )
    assert app.run(list(asked)) == app.MISUSE
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert "takes hours instead of minutes; python -m pip install numba" in first
    assert "no.csv" in second
