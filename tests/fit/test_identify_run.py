import hashlib
import html
import json
import math
import re
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from axbridge.cli import app
from axbridge.cli.app import emit_json
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.fit import identify, write_params
from axbridge.fit.html import residual_panel, trace_panels, write_page
from axbridge.fit.pipeline import check
from axbridge.fit.prepare import base_model
from axbridge.fit.result import Score, summary
from axbridge.fit.search import Job, StartOutcome, minimise
from axbridge.fit.unknowns import space_of
from axbridge.recording.stored import open_recording, write_recording
from axbridge.servo.columns import Param
from axbridge.servo.steady import SteadyServo
from axbridge.sim.runs import Regime
from tests.fit.test_identify import RIG, ax12_data, ax12_truth
from tests.support.warm import run

pytestmark = pytest.mark.slow

SPACE = space_of("ax12", None, packed(base_model(RIG, "ax12"), RIG))
TRUTH = ax12_truth()
LOG = Path(__file__).parents[2] / "docs" / "real" / "xl330_pendulum" / "xl330_kp400_lift_and_drop.json"
PENDULUM = ("identify", "--rig", "xl330_pendulum", "--model")
FIT = (*PENDULUM, "pendulum-servo")
COMPARE = (*FIT, "--friction", "compare")


def test_a_job_gives_the_same_result_on_each_executor(spread):
    runs = runs_of(ax12_data(TRUTH)[:2], RIG)
    job = Job(SPACE, runs, seed=3, generations=3)
    here = minimise(job)
    (there,) = spread(minimise, [job])
    assert isinstance(there, StartOutcome)
    np.testing.assert_array_equal(here.point, there.point)


@pytest.mark.ci
def test_a_fit_finds_its_truth_and_writes_a_model_that_rigs_can_use(tmp_path, spread):
    data = ax12_data(TRUTH)
    fit = identify(data[1:], RIG, "ax12", held_out=data[:1], starts=2, generations=150, where=spread)
    held = [score for score in fit.scores if score.held_out]
    assert [score.name for score in held] == ["step0.3.mcap"]
    assert held[0].rmse < 0.5
    assert fit.row[Param.NOISE] == pytest.approx(math.radians(0.1), rel=0.3)
    path = tmp_path / "mine.toml"
    write_params(fit, path)
    model = RIG.specs[RIG.servos[0].name].load_model(str(path))
    assert model.name == "mine"
    np.testing.assert_allclose(packed(model, RIG), fit.row, rtol=1e-9, atol=1e-12)
    assert model.prediction.held_out_error == pytest.approx(math.radians(held[0].rmse), rel=0.01)
    plain = packed(RIG.specs[RIG.servos[0].name].load_model("ax12"), RIG)
    result, expected = (SteadyServo.of(row).duty(0.1, 9.6, 0.0) for row in (fit.row, plain))
    assert abs(result / expected - 1) < model.prediction.load_share < 0.5  # the truth is within the interval


@pytest.mark.ci
def test_a_real_log_becomes_a_model_that_predicts_it_better(tmp_path):
    def ran(*arguments):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    ran("import", LOG, "log.mcap")
    compared = ("compare", "log.mcap", "--rig", "xl330_pendulum", "--json")
    before = json.loads(ran(*compared))["mae_deg"]
    result = json.loads(
        ran(
            "identify", "log.mcap", "--rig", "xl330_pendulum", "--model", "pendulum-servo", "--starts", "1", "--budget",
            "20s", "--out", "mine.toml", "--html", "mine.html", "--json", "--fail-if", "mae>5", "--fail-if", "rmse>90",
        )
    )  # fmt: skip
    after = json.loads(ran(*compared, "--model", "mine.toml"))["mae_deg"]
    assert after == pytest.approx(result["mae_deg"], abs=1e-6)
    assert after < 1.0 < before
    page = (tmp_path / "mine.html").read_text()
    assert "uPlot" in page  # self-contained, without a network
    assert page.count("residual, °") == 1
    written = (tmp_path / "mine.toml").read_text()
    digest = hashlib.sha256((tmp_path / "log.mcap").read_bytes()).hexdigest()
    assert f"# fitted: log.mcap, sha256 {digest}" in written
    assert [source["role"] for source in result["inputs"]] == ["rig", "fitted"]
    assert result["versions"]["numpy"] in written
    for place in (written, result["condition"], page):
        assert "scale with the mass given" in place


def test_a_fit_with_a_larger_error_than_allowed_fails_the_check():
    scores = (Score("a.mcap", 0.4, 0.6, held_out=False), Score("b.mcap", 1.4, 2.2, held_out=True))
    fit = SimpleNamespace(scores=scores)
    assert check(fit, "rmse>1") == ["b.mcap: rmse = 2.2"]
    assert check(fit, "mae>=0.4") == ["a.mcap: mae = 0.4", "b.mcap: mae = 1.4"]
    assert check(fit, "held_out_mae>2") == []
    (failure,) = check(SimpleNamespace(scores=scores[:1]), "held_out_mae>2")
    assert failure == "held_out_mae is not known: no recording is held out"
    with pytest.raises(UsageError, match="is no condition"):
        check(fit, "shift>1")


def test_recorded_falls_and_steps_give_the_papers_constants(tmp_path):
    shutil.copytree(Path(Rig.load("bench_arm").path).parent, tmp_path / "rig")
    # Without noise, the rounding error alone would bias the estimated gain.
    with (tmp_path / "rig/bench_arm.toml").open("a") as rig:
        rig.write("[servo.params.sensor]\nquantised = true\nposition_noise = 0.00175\n")  # rad: 0.1 degrees
    for name, more in (("fall", ()), ("step", ("--angle", "45", "--angle", "90", "--angle=-60", "--duration", "0.8"))):
        done = run("record", name, "--rig", "rig/bench_arm.toml", "--out", f"{name}.mcap", *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = run(
        "identify", "fall.mcap", "step.mcap", "--rig", "bench_arm", "--model", "lima2009", "--method", "grid", "--out",
        "p.toml", "--html", "p.html", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert re.search(r"its start \(lima2009\) .*, a delay and a lag .*, a perfect servo ", document["verdict"])
    result = {name: entry["value"] for name, entry in document["parameters"].items()}
    assert result["friction.viscous"] == pytest.approx(0.01278, rel=0.03)
    assert result["controller.k_theta"] == pytest.approx(30, rel=0.03)
    assert result["controller.k_omega"] == pytest.approx(-1.2, rel=0.03)
    page = (tmp_path / "p.html").read_text()
    assert page.count("<script>figure(") == 2  # each recording
    assert page.count('class="map"') == 1  # the correlations


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("convert", "log.mcap", "log.xlsx"), "no such kind of table"),
        (("convert", "log.mcap", "log.csv"), "log.csv is already there"),
        (("convert", "log.mcap", "./log.mcap", "--force"), "no such kind of table"),
        (("record", "replay", "--rig", "xl330_pendulum", "--source", "log.mcap", "--out", "./log.mcap", "--force"),
         "both read and to be written"),
        (("record", "sine", "--rig", "bench_arm", "--out", "log.mcap"), "log.mcap is already there"),
        (("record", "step", "--rig", "bench_arm", "--out", "text.mcap/step.mcap"), "cannot be written"),
        (("record", "sine", "--rig", "bioloid", "--angle", "30", "--tick", "10ms"), "too short: the bus takes 1"),
        (("record", "replay", "--rig", "bench_arm"), "replay needs a recording"),
        (("walk", "--rig", "bioloid", "--record", "log.mcap"), "log.mcap is already there"),
        (("walk", "--rig", "bioloid", "--period", "0.3", "--record", "w.mcap"), "the gait needs"),
        (("compare", "log.mcap", "log.mcap", "--rig", "bench_arm"), "both a second recording and something to simulate"),
        (("compare", "none.mcap", "--fail-if", "rmse"), "is no condition"),  # before anything is read or simulated
        ((*FIT, "log.mcap", "--budget", "0s", "--out", "x.toml"), "generations and 0 s"),
        ((*PENDULUM, "best", "log.mcap", "--out", "x.toml"), "best: no such file or name"),
        ((*FIT, "log.mcap", "--out", "x.toml", "--free", "motor.colour"), "no parameter 'motor.colour' to free"),
        ((*PENDULUM, "ax12", "log.mcap", "--method", "grid", "--out", "x.toml"), "the grid is the paper's"),
        ((*PENDULUM, "lima2009", "log.mcap", "--out", "x.toml", "--json"), "no fall among the segments"),
        ((*FIT, "log.mcap", "--executor", "slurm://x", "--out", "x.toml", "--json"), "no executor"),
        ((*PENDULUM, "ax12", "log.mcap", "--out", "x.toml"), "xl330-m288 has no registers for the loop of ax12"),
        (("identify", "log.mcap", "--rig", "bench_arm", "--model", FIT[-1], "--out", "x.toml"), "registers for the loop of"),
        ((*COMPARE, "log.mcap", "--holdout", "text.mcap", "--out", "x.toml"), "no MCAP recording"),
        ((*COMPARE, "empty.mcap", "log.mcap", "--out", "x.toml"), "empty.mcap: holds no samples"),
        ((*COMPARE, "log.mcap", "knee.mcap", "--out", "x.toml"), "knee.mcap: is of servo knee, the rig's is "),
        (("identify", "leg.mcap", "--rig", "leg", "--model", "ax12", "--out", "x.toml"), "2 servos, and none is chosen"),
        ((*COMPARE, "log.mcap", "--out", "x.toml"), "one recording does not separate friction laws"),
        ((*COMPARE, "log.mcap", "--holdout", "../here/log.mcap", "--out", "x.toml"), "every recording is held out"),
        ((*COMPARE, "log.mcap", "log.mcap", "--out", "text.mcap/x.toml"), "text.mcap/x.toml: cannot be written"),
        ((*COMPARE, "log.mcap", "log.mcap", "--out", "x.toml", "--html", "."), "cannot be written: is a folder"),
        ((*COMPARE[:-1], "M7", "log.mcap", "--out", "x.toml"), "no friction law 'M7'"),
        ((*PENDULUM, "ax12", "log.mcap", "--fail-if", "mae", "--out", "x.toml"), "is no condition"),
        ((*FIT, "log.mcap", "./log.mcap", "--out", "x.toml"), "log.mcap is given twice"),
        ((*FIT, "log.mcap", "--holdout", "copy.mcap", "--out", "x.toml"), "copy.mcap is a copy of log.mcap"),
        ((*FIT, "log.mcap", "--out", "./log.mcap"), "both read and to be written"),
        ((*FIT, "log.mcap", "--holdout", "empty.mcap", "--out", "x.toml", "--html", "empty.mcap"), "both read"),
        ((*FIT, "log.mcap", "--out", "x.toml", "--html", "./x.toml"), "two files are to be written to x.toml"),
        ((*FIT, "unpowered.mcap", "--out", "x.toml"), "unpowered.mcap: has a supply of 0 V"),
        (("compare", "log.mcap", "--out", "log.mcap"), "both read and to be written"),
    ],
)  # fmt: skip
def test_invalid_input_gives_an_error_of_one_or_two_lines(tmp_path, logged, monkeypatch, capsys, arguments, message):
    folder = shutil.copytree(logged, tmp_path / "here")
    monkeypatch.chdir(folder)
    assert app.run(list(arguments)) == app.MISUSE
    lines = capsys.readouterr().err.splitlines()
    assert message in lines[0]
    assert len(lines) <= 2
    contents = {path.name: path.read_bytes() for path in logged.iterdir()}
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logged")
    assert run("import", LOG, "log.mcap", cwd=folder).returncode == 0
    shutil.copy(folder / "log.mcap", folder / "copy.mcap")
    (folder / "text.mcap").write_text("hello")
    (folder / "log.csv").write_text("mine")
    whole = open_recording(folder / "log.mcap")
    write_recording(replace(whole, tracks={}), folder / "empty.mcap")
    knee = replace(next(iter(whole.values())), name="knee")
    write_recording(replace(whole, tracks={"knee": knee}, metadata={"rig": {"name": "leg"}}), folder / "knee.mcap")
    both = {"knee": knee, "hip_twist": replace(knee, name="hip_twist")}
    write_recording(replace(whole, tracks=both, metadata={"rig": {"name": "leg"}}), folder / "leg.mcap")
    (name, track), *_ = whole.items()
    pendulum = {key: value for key, value in whole.metadata["pendulum"].items() if key != "vin"}
    dead = {name: replace(track, voltage=np.zeros(len(track)))}
    unpowered = replace(whole, tracks=dead, metadata={**whole.metadata, "pendulum": pendulum})
    write_recording(unpowered, folder / "unpowered.mcap")
    return folder


@pytest.mark.ci
@pytest.mark.parametrize(("model", "law", "unknowns"), [("xl330", "M4", 13), ("xl330_paper.toml", "M1", 9)])
def test_a_fit_recovers_an_x_servo_from_recordings_through_its_registers(
    tmp_path, monkeypatch, capsys, model, law, unknowns
):
    monkeypatch.chdir(tmp_path)
    rig = ("--rig", "xl330_pendulum")
    for name in ("step", "fall", "sin-time-square", "lift-and-drop"):
        assert app.run(["record", name, *rig, "--model", model, "--tick", "5ms"]) == app.DONE
    fitted = ("step.mcap", "fall.mcap", "sin-time-square.mcap", "--holdout", "lift-and-drop.mcap")
    capsys.readouterr()
    search = ("--model", "pendulum-servo", "--friction", law, "--starts", "4", "--json")
    code = app.run(["identify", *fitted, *rig, *search, "--out", "found.toml"])
    assert code in {app.DONE, app.FAILED_CHECK}  # the rig's model is the truth here, so the fit may be worse than it
    result = json.loads(capsys.readouterr().out)
    assert result["mae_deg"] < 0.1
    assert result["held_out_mae_deg"] < 0.4
    bench = Rig.load("xl330_pendulum")
    true = bench.specs[bench.servos[0].name].load_model(model).model_dump()  # the paper's model has no armature
    outside = {}
    for name, estimate in result["parameters"].items():
        table, key = name.split(".")
        if not estimate["low"] <= true[table][key] <= estimate["high"]:
            outside[name] = estimate | {"true": true[table][key]}
    assert len(result["parameters"]) == unknowns
    assert len(outside) <= 2, outside  # one in twenty is expected outside its interval


@pytest.fixture(scope="module")
def fit():
    short = (replace(run, tracks={"shoulder": run["shoulder"].between(0.0, 0.45)}) for run in ax12_data(ax12_truth()))
    step, *others = short
    held = [replace(step, path=step.path.with_name("unseen.mcap"))]
    return identify(others, RIG, "ax12", held_out=held, starts=1, generations=2, budget=1.0, richer=False, where=map)


def test_residuals_are_measured_minus_simulated_as_on_the_live_page(fit, tmp_path):
    traces = trace_panels(fit)
    for trace, score in zip(traces, fit.scores, strict=True):
        measured, simulated = trace.curves
        (left,) = residual_panel(trace).curves
        np.testing.assert_allclose(simulated.y + left.y, measured.y)
        assert np.mean(np.abs(left.y)) == pytest.approx(score.mae, rel=0.05)
    write_page(fit, tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text()
    assert page.count("residual, °") == len(traces) == 4
    assert "<figcaption>unseen: " in page
    assert f"Verdict: {fit.verdict}" in html.unescape(page)  # on the page, too, that another model predicts better


def test_the_verdict_names_each_model_that_predicts_better_than_the_fit(fit):
    assert fit.verdict.held_out
    assert [*fit.verdict.others] == ["its start (ax12)", "the rig's lima2009", "a delay and a lag", "a perfect servo"]
    assert fit.verdict.worse == []
    fitted, held = (replace(score, mae=2.36, start=3.0, own=1.6, lagging=1.0, perfect=9.0) for score in fit.scores[-2:])
    poor = replace(fit, scores=(replace(fitted, mae=0.1), held)).verdict
    assert poor.worse == ["the rig's lima2009", "a delay and a lag"]
    assert str(poor) == (
        "held-out error 2.36° beside its start (ax12) 3.00°, the rig's lima2009 1.60°, a delay and a lag 1.00°, "
        "a perfect servo 9.00°: worse than the rig's lima2009 and a delay and a lag"
    )
    alike = replace(fit, scores=(replace(held, mae=0.5248, start=0.5196, own=0.6, lagging=0.6),)).verdict
    assert alike.worse == []  # both are printed as 0.52°
    assert str(alike).endswith(": as good as the best of them, within 0.01°")
    limp = replace(held, mae=0.2, lagging=math.nan)
    partly = replace(fit, scores=(replace(held, mae=1.0, lagging=0.8), limp)).verdict
    assert "error 0.60° " in str(partly)
    assert "a delay and a lag 0.80° (where the fit has 1.00°)" in str(partly)


def test_a_fit_starts_from_a_model_by_name_or_file_and_frees_the_given_parameters(tmp_path):
    rig = RIG.with_servos(lambda _: {"profile": "ax-18a", "model": "ax18"})
    truth = packed(rig.specs[rig.servos[0].name].model, rig)
    data = ax12_data(truth)[:1]
    quick = {"starts": 1, "generations": 2, "budget": 1.0, "richer": False, "where": map}
    named = identify(data, rig, "ax18", free=["motor.torque_constant"], **quick)
    assert named.kind == "ax12"
    assert "motor.torque_constant" in [unknown.name for unknown in named.unknowns]
    assert named.base.motor.gear_ratio == rig.specs[rig.servos[0].name].model.motor.gear_ratio
    write_params(named, tmp_path / "mine.toml")
    again = identify(data, rig, str(tmp_path / "mine.toml"), **quick)
    assert again.base.name == "mine"
    assert again.verdict.worse == []


def test_a_fit_that_is_worse_than_its_rigs_own_model_ends_with_exit_code_1(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = ax12_data(TRUTH)[:2]
    for recording, name in zip(data, ("a.mcap", "b.mcap"), strict=True):
        write_recording(recording, tmp_path / name)
    (tmp_path / "arm.toml").write_text('base = "bench_arm"\n[[servo]]\nname = "shoulder"\nmodel = "ax12"\n')
    few = ("--method", "cma", "--starts", "1", "--budget", "1s")
    monkeypatch.setattr("axbridge.fit.pipeline.executor", lambda _: nullcontext(map))  # in this process
    fit = "identify a.mcap --holdout b.mcap --rig arm.toml --model lima2009 --out x.toml"
    assert app.run([*fit.split(), *few]) == app.FAILED_CHECK
    out, err = capsys.readouterr()
    assert "worse than the rig's ax12" in next(line for line in out.splitlines() if line.startswith("verdict: "))
    assert "failed: it predicts worse than the rig's ax12" in err
    assert (tmp_path / "x.toml").exists()


def test_followed_samples_are_not_shown_as_simulated(fit):
    driven = fit.runs.driven.copy()
    driven[5:20] = Regime.FOLLOWED
    followed = replace(fit, runs=fit.runs._replace(driven=driven))
    measured, simulated = trace_panels(followed)[0].curves
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(simulated.y)), np.arange(5, 20))
    assert not np.isnan(measured.y).any()


def test_json_has_null_for_unknown_scores(fit, capsys):
    unknown = dict.fromkeys(("chance", "perfect", "lagging", "floor"), math.nan)
    scores = tuple(replace(score, **unknown) for score in fit.scores)
    emit_json("identify-1", summary(replace(fit, scores=scores)))
    text = capsys.readouterr().out
    assert "NaN" not in text
    for result, score in zip(json.loads(text)["recordings"], fit.scores, strict=True):
        assert result["mae"] == score.mae
        assert [result[key] for key in unknown] == [None] * 4
