"""Batches: the very bits of a robot that is stepped by itself, and workers that end, fail and are killed in the open."""

import os
import signal

import numpy as np
import pytest

from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, UsageError
from axbridge.learn.fleet import Fleet
from axbridge.learn.randomise import LineQuality, Randomisation
from axbridge.robot.open import open_robot

pytest.importorskip("mujoco")
pytestmark = pytest.mark.slow


def on_mujoco(name, **changes):
    return Rig.load(name).overridden({"world": {"engine": "mujoco"}, **changes})


def waves(rig, ticks):
    random = np.random.default_rng(0)
    start, ends = np.array([s.position for s in rig.servos]), np.array([s.soft_limits for s in rig.servos]).T
    return [np.clip(start + random.uniform(-0.2, 0.2, len(start)), *ends) for _ in range(ticks)]


@pytest.mark.parametrize("name", ["pan_tilt", "bioloid"])  # latency, noise and compliance; contacts
def test_a_batch_moves_as_a_robot_does(name):
    rig = on_mujoco(name, bus=[{"name": "main", "bus_timing": "none"}])
    goals = waves(rig, 20)
    alone = []
    with open_robot(rig, "sim", seed=5) as robot:
        robot.set_positions([servo.position for servo in rig.servos])
        robot.exchange()
        for goal in goals:
            robot.set_positions(goal)
            robot.step(20)
            alone.append([robot.positions, robot.velocities, [servo.truth.position for servo in robot.values()]])
    together = []
    with Fleet(rig, 3, workers=0) as fleet:
        fleet.reset({0: 5, 1: 6, 2: 5})
        for goal in goals:
            fleet.tell(np.tile(goal, (3, 1)))
            fleet.step(0.02)
            together.append([fleet.positions, fleet.velocities, fleet.true_positions])
    alone, together = np.array(alone), np.array(together)
    assert np.abs(alone[:, 2]).max() > 0.1
    assert np.abs(together[:, :, 0] - alone).max() < 1e-6
    assert np.array_equal(together[:, :, 0], together[:, :, 2])


@pytest.mark.ci
def test_workers_give_what_one_process_gives():
    rig = on_mujoco("bench_arm")
    ends = []
    for workers in (0, 2):
        with Fleet(rig, 3, workers=workers, randomise=Randomisation(line=LineQuality(jitter=0.01))) as fleet:
            fleet.reset({0: 1, 1: 2, 2: 3})
            fleet.tell(np.array([[0.3], [0.6], [-0.4]]))
            for _ in range(20):
                fleet.step(0.02)
            ends.append(fleet.true_positions)
    assert np.array_equal(*ends)
    assert ends[0][:, 0] == pytest.approx([0.3, 0.6, -0.4], abs=0.05)


def test_a_worker_that_is_killed_or_fails_is_told():
    fleet = Fleet(on_mujoco("bench_arm"), 2, workers=1)
    try:
        fleet.reset({0: 1, 1: 2})
        os.kill(fleet._batch._workers[0].pid, signal.SIGKILL)
        with pytest.raises(AxBridgeError, match="ended from outside"):
            fleet.step(0.02)
    finally:
        fleet.close()
    with pytest.raises(UsageError, match="0 robots"):
        Fleet(on_mujoco("bench_arm"), 0)


def test_many_environments_at_once():
    gymnasium = pytest.importorskip("gymnasium")
    import axbridge.learn  # noqa: F401 - registers them

    seen = []
    for _ in range(2):
        environments = gymnasium.make_vec(
            "axbridge/Reach-v0", num_envs=3, vectorization_mode="vector_entry_point", rig=on_mujoco("bench_arm"),
            max_episode_steps=5, workers=0,
        )  # fmt: skip
        first, _ = environments.reset(seed=7)
        assert environments.observation_space.contains(first)
        for step in range(1, 8):
            observation, reward, terminated, truncated, _ = environments.step(first[:, 2:])
            assert not terminated.any()
            assert truncated.all() == (step == 5)
            assert (reward == 0.0).all() == (step == 6)  # a new episode begins
        assert not np.array_equal(observation[:, 2], first[:, 2])
        seen.append(observation)
        environments.close()
    assert np.array_equal(*seen)
