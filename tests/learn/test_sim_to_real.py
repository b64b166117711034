"""What is learned on one soft arm is of use on another: the benchmark's training at its smallest."""

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.learn.fleet import Fleet

pytest.importorskip("mujoco")
from benchmarks import learn_sim_to_real as example

pytestmark = pytest.mark.slow


def test_a_policy_learned_on_drawn_arms_reaches_with_another_one(tmp_path):
    rig, randomise = example.worlds()["ax12 drawn"]
    learned = example.train(rig, randomise, generations=5, episodes=2, workers=0)
    path = tmp_path / "another.toml"
    path.write_text('name = "another"\n' + example.ANOTHER.strip() + "\n")
    with Fleet(Rig.load(path), 8, workers=0) as fleet:
        untaught, taught = example.cost([np.zeros(4), learned], fleet, seeds=range(4))
    assert taught < 0.7 * untaught
