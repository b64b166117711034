"""What is learned on one soft arm is of use on others: the benchmark's training at its smallest."""

import numpy as np
import pytest

pytest.importorskip("mujoco")
from benchmarks import learn_sim_to_real as example

pytestmark = pytest.mark.slow
SPREAD = 0.1


def world():
    return example.worlds(SPREAD, np.random.default_rng(0))["five servos' intervals"]


@pytest.mark.ci
def test_a_policy_learned_on_drawn_arms_reaches_with_other_ones():
    learned = example.train(*world(), generations=5, episodes=2, seed=0)
    robots = example.met(SPREAD, 2, np.random.default_rng(1))
    untaught, taught = (example.reached(policy, robots, targets=2).mean() for policy in (np.zeros(4), learned))
    assert taught < 0.7 * untaught


def test_a_training_depends_on_its_seed_and_on_nothing_else():
    first, again, other = (example.train(*world(), generations=1, episodes=1, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_servos_that_a_policy_meets_differ_from_each_other_and_from_those_measured():
    robots = example.met(SPREAD, 3, np.random.default_rng(1))
    found = {rig.model_of(rig.servos[0]).motor.armature for rig in robots}
    _, measured = world()
    assert len(found) == 3
    assert not found & {float(fit.value[example.NAMES.index("motor.armature")]) for fit in measured.parameters}
