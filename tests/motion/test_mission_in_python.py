"""The mission's verbs in Python, as on the command line: record, simulate, compare, identify."""

import math

import pytest

import axbridge
from axbridge.motion.experiments import Options

pytestmark = pytest.mark.slow

STEP = Options(angles=(math.radians(60),))


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    """A step of a servo that is an `ax12`."""
    out = tmp_path_factory.mktemp("mission") / "step.mcap"
    return axbridge.record("step", axbridge.Rig.load("bench_arm").with_model("ax12"), out, options=STEP, seed=3)


def test_a_recording_is_nearest_to_the_model_it_is_of(step):
    off = {
        name: axbridge.compare(step, axbridge.simulate(step, "bench_arm", name)).pairs[0].plain.rmse  # degrees
        for name in ("ax12", "lima2009")
    }
    assert off["ax12"] < 0.2  # degrees
    assert off["lima2009"] > 2.0


@pytest.mark.ci
def test_a_recording_tells_the_model(step):
    fit = axbridge.identify([step], "bench_arm", "ax12", starts=1, generations=20, budget=5.0, richer=False)
    assert fit.kind == "ax12"
    assert fit.scores[0].rmse < 1.0  # degrees
