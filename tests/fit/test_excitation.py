"""What is said before a fit, and what stands beside it."""

import math

import pytest

from axbridge.errors import UsageError
from axbridge.fit.excitation import excitation
from axbridge.fit.pipeline import beside_others
from axbridge.fit.prepare import prepare
from axbridge.fit.result import Score
from tests.fit.test_identify import RIG, ax12_data, ax12_truth, motion


def test_a_fall_tells_friction_and_nothing_of_the_loop():
    fall = motion(ax12_truth(), step=1.2, fall=True)
    sampled, *lines = excitation(prepare([fall], RIG, "ax12"))
    told = {line.partition(":")[0]: line for line in lines}
    assert sampled.startswith("1 recording, 1 s, 100 Hz, gaps: 0")
    assert "well identified" in told["friction.coulomb"]
    assert "not identified" in told["controller.slope"]
    assert "; record steps of several sizes" in told["controller.slope"]


def test_steps_tell_the_loop():
    lines = excitation(prepare(ax12_data(ax12_truth()), RIG, "ax12"))
    assert any(line.startswith("controller.slope: well identified") for line in lines)


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
