"""What is said before a fit, what stands beside it, and fits of data whose truth is known."""

import math

import numpy as np
import pytest

from axbridge.cli import app
from axbridge.cli import identify as identify_verb  # noqa: F401 - registers it
from axbridge.errors import UsageError
from axbridge.fit.html import estimate_table
from axbridge.fit.identify import identify
from axbridge.fit.pipeline import beside_others, hidden
from axbridge.fit.prepare import excitation, prepare
from axbridge.fit.residuals import predicted
from axbridge.fit.result import Score, summary
from axbridge.servo.columns import Param
from tests.fit.test_identify import RIG, ax12_data, ax12_truth, motion


def test_a_fall_tells_friction_and_nothing_of_the_loop():
    fall = motion(ax12_truth(), step=1.2, fall=True)
    sampled, *lines = excitation(prepare([fall], RIG, "ax12"))
    told = {line.partition(":")[0]: line for line in lines}
    assert sampled.startswith("1 recording, 1 s, 100 Hz, gaps: 0")
    assert "well identified" in told["friction.coulomb"]
    assert "not identified" in told["controller.slope"]
    assert "; record steps of several sizes" in told["controller.slope"]


def test_a_held_out_recording_stands_beside_simpler_models_and_its_repeat():
    small, middle, *_ = ax12_data(ax12_truth())
    first, again = (motion(ax12_truth(), step=math.radians(60), seed=seed) for seed in (8, 9))
    problem = prepare([middle], RIG, "ax12", held_out=[first], again=[again])
    scores = beside_others(problem, [Score(str(k), 0.1, 0.1, held_out=k == 1) for k in range(2)])
    assert math.isnan(scores[0].perfect)
    assert 0.0 < scores[1].floor < 0.3
    assert scores[1].floor < scores[1].lagging < scores[1].perfect
    with pytest.raises(UsageError, match="repeats no recording that is held out"):
        prepare([small], RIG, "ax12", held_out=[middle], again=[motion(ax12_truth(), step=-1.0)])


def test_the_data_are_what_a_truth_near_the_model_does_with_their_noise_and_rounding():
    problem = prepare(ax12_data(ax12_truth()), RIG, "ax12")
    made, row = hidden(problem, seed=1)
    again, _ = hidden(problem, seed=1)
    _, other = hidden(problem, seed=2)
    count = row[Param.COUNT]
    np.testing.assert_array_equal(made.runs.position, again.runs.position)
    assert not np.array_equal(row, other)
    assert np.abs(made.runs.position / count - np.round(made.runs.position / count)).max() < 1e-9
    assert np.degrees(made.runs.errors(predicted(row[None], made.runs)[0])).std() < 0.3
    np.testing.assert_array_equal(made.runs.goal, problem.runs.goal)
    assert (np.abs(made.space.point(row) - made.space.point(problem.space.base)) < 4 * made.space.usual).all()


def test_each_parameter_stands_beside_the_hidden_one():
    fit = identify(ax12_data(ax12_truth()), RIG, "ax12", prove=True, starts=1, generations=2, budget=1.0, where=map)
    table = estimate_table(fit)
    assert table.header == ("parameter", "hidden", "value", "95 % from", "to", "")
    marks = {row[0]: row[-1] for row in table.rows}
    assert marks["motor.armature"] == "comes back"
    assert set(marks.values()) <= {"comes back", "missed", "these recordings do not identify it"}
    assert summary(fit)["parameters"]["motor.armature"]["hidden"] == fit.truth[Param.ARMATURE]


@pytest.mark.parametrize(("options", "said"), [(["--prove", "--out", "x.toml"], "leave --out out"), ([], "add --out")])
def test_made_up_data_leave_no_model_behind(options, said, capsys):
    assert app.run(["identify", "r.mcap", "--rig", "bench_arm", "--model", "ax12", *options]) == app.MISUSE
    assert said in capsys.readouterr().err
