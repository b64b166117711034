"""Import and export of BAM's parameter files: published ones reproduce BAM's simulation of a log."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from axbridge import samples
from axbridge.cli.app import run
from axbridge.comparison.recorded_runs import runs_of
from axbridge.config.rig import Rig
from axbridge.export.bam import ERROR_GAINS, from_bam, to_bam
from axbridge.recording.import_logs import import_log
from axbridge.servo.columns import pack
from axbridge.sim.rollout import rollouts

pytestmark = pytest.mark.slow
PUBLISHED = json.loads((Path(__file__).parents[1] / "support" / "bam_xl330.json").read_text())["files"]


# ---- BAM's pendulum bench as its paper and documentation describe it, written again

# Logs are put on an even 5 ms grid, goals between two samples on the line between them. A step: duty = gain · kp · error;
# torque = kt·(U - kt·ω)/R; the friction budget, with the viscous part in it, stops the arm or slows it; semi-implicit Euler.
STEP = 0.005  # s
GRAVITY = 9.80665


def processed(log):
    """A log on the even grid."""
    entries = log["entries"]
    times = [entry["timestamp"] for entry in entries]
    grid = np.arange(0.0, times[-1], STEP)
    columns = {
        name: np.interp(grid, times, [float(entry[name]) for entry in entries]) for name in entries[0] if name != "load"
    }
    columns["torque_enable"] = columns["torque_enable"] > 0.5
    rows = [
        {"load": 0, **{name: column[k].item() for name, column in columns.items()}, "timestamp": time.item()}
        for k, time in enumerate(grid)
    ]
    return {**log, "entries": rows}


def budget(p, motor, external, speed):
    at_rest = math.exp(-(abs(speed / p["dtheta_stribeck"]) ** p["alpha"])) if "alpha" in p else 0.0
    total = p["friction_base"] + at_rest * p.get("friction_stribeck", 0.0)
    if "load_friction_base" in p:
        total += (p["load_friction_base"] + at_rest * p.get("load_friction_stribeck", 0.0)) * abs(external - motor)
    if "load_friction_motor" in p:
        total += abs(external * p["load_friction_external"] - motor * p["load_friction_motor"])
        apart = external * p["load_friction_external_stribeck"] - motor * p["load_friction_motor_stribeck"]
        total += at_rest * abs(apart)
    if "load_friction_motor_quad" in p and motor * external < 0.0:
        stronger = abs(motor) > abs(external)
        total += at_rest * (
            p["load_friction_external_quad"] * external**2 if stronger else p["load_friction_motor_quad"] * motor**2
        )
    return total


def mean_error(p, log, gain):
    """Mean absolute error of a processed log, degrees."""
    entries = log["entries"]
    inertia = log["mass"] * log["length"] ** 2 + p["armature"]
    angle, speed = entries[0]["position"], entries[0]["speed"]
    wrong = []
    for entry in entries:
        wrong.append(abs(angle - entry["position"]))
        volts = log["vin"] * min(max((entry["goal_position"] - angle) * log["kp"] * gain, -1.0), 1.0)
        external = -GRAVITY * log["mass"] * log["length"] * math.sin(angle + p.get("q_offset", 0.0))
        motor = p["kt"] * (volts - p["kt"] * speed) / p["R"] if entry["torque_enable"] else 0.0
        most = budget(p, motor, external, speed) + p["friction_viscous"] * abs(speed)
        stopping = inertia / STEP * speed + motor + external
        speed += STEP / inertia * (motor + external - math.copysign(min(abs(stopping), most), stopping))
        angle += STEP * speed
    return math.degrees(np.mean(wrong))


# ---- parameter files


@pytest.fixture
def published(tmp_path):
    for name, values in PUBLISHED.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(values))
    return tmp_path


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return one of BAM's logs on BAM's time grid, as a dictionary and as axbridge runs."""
    published_log = processed(json.loads(samples.path("xl330").read_text()))
    path = tmp_path_factory.mktemp("logs") / "processed.json"
    path.write_text(json.dumps(published_log))
    return published_log, runs_of([import_log(path)], Rig.load("xl330_pendulum"))


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_parameters_have_the_same_error_as_in_bam(published, log, name):
    document, runs = log
    rig = Rig.load("xl330_pendulum")
    row = pack(from_bam(published / f"{name}.json"), rig.specs[rig.servos[0].name].profile.units.position)
    ours = np.degrees(np.mean(np.abs(rollouts(row[None], runs)[0] - runs.position)))
    theirs = mean_error(PUBLISHED[name], document, ERROR_GAINS["xl330"])
    assert theirs > 4.0  # else nothing would be told by the next line
    assert ours == pytest.approx(theirs, abs=0.1)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_an_exported_import_differs_only_in_the_reported_parts(published, name):
    back, lost = to_bam(from_bam(published / f"{name}.json"), "xl330")
    quadratic = {key for key in PUBLISHED[name] if key.endswith("quad")}
    for key, value in PUBLISHED[name].items():
        assert back[key] == (0.0 if key in quadratic else pytest.approx(value)), key
    assert set(back) - set(PUBLISHED[name]) == {"command_delay"}
    assert ["pid loop" in words for words in lost] == [True]  # the position loop, which is BAM's code's


def test_the_verbs_for_bam_replace_nothing_that_they_read(published, monkeypatch, capsys, said):
    monkeypatch.chdir(published)
    assert run(["import", "m6.json", "my.toml"]) == 0
    assert "quadratic terms" in capsys.readouterr().err
    model = (published / "my.toml").read_bytes()
    named = "--rig", "xl330_pendulum", "--actuator", "xl330"
    assert run(["export", "bam", "my.toml", *named, "--out", "back.json"]) == 0
    assert json.loads((published / "back.json").read_text())["R"] == PUBLISHED["m6"]["R"]
    for kind in ("bam", "mujoco"):
        refused = said("export", kind, "my.toml", "--out", "./my.toml", "--force", code=2)
        assert "both read and to be written" in refused
    assert (published / "my.toml").read_bytes() == model


@pytest.mark.parametrize("latency_ms", [20.0, 0.0])
def test_gear_loss_becomes_resistance_and_left_out_parts_are_reported(latency_ms):
    rig = Rig.load("pan_tilt")
    model = rig.specs[rig.servos[0].name].model
    model = model.model_copy(update={"sensor": model.sensor.model_copy(update={"latency_ms": latency_ms})})
    document, lost = to_bam(model, "ax12")
    motor = model.motor
    stall = motor.efficiency * motor.output_constant / (motor.resistance + motor.resistance_per_duty)
    assert document["kt"] / document["R"] == pytest.approx(stall)
    assert document["command_delay"] == latency_ms / 1000
    assert any("20 ms of latency" in words for words in lost) == (latency_ms > 0)  # BAM has it for logs alone
    assert any("bridge swallows" in words for words in lost)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "m9"}, "no friction law"),
        ({"actuator": "erob80_50"}, "in BAM's code"),
        ({"kt": None}, "kt: missing, or no number"),
        ({"R": -1.0}, "R: -1.0: should be greater than 0"),
    ],
)
def test_an_unusable_file_is_refused_with_the_reason(published, change, words, said):
    (published / "bad.json").write_text(json.dumps(PUBLISHED["m1"] | change))
    assert words in said("import", published / "bad.json", published / "bad.toml", code=2)
    assert not (published / "bad.toml").exists()
