"""The environments: gymnasium's own check, reproducible episodes for a seed, and one class for every backend."""

import math
import time

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from axbridge.config.rig import Rig  # noqa: E402
from axbridge.errors import UsageError  # noqa: E402
from axbridge.learn.randomise import LineQuality, Randomisation  # noqa: E402
from axbridge.learn.servo_env import Reach, ServoEnv  # noqa: E402
from tests.support.warm import serving  # noqa: E402

pytestmark = pytest.mark.slow


def rolled(environment, seed, steps=15):
    seen = [environment.reset(seed=seed)[0]]
    random = np.random.default_rng(seed)
    low, high = environment.action_space.low, environment.action_space.high
    for _ in range(steps):
        observation, reward, *_ = environment.step((0.3 * random.uniform(low, high)).astype(np.float32))
        seen.append(np.append(observation, reward))
    return np.concatenate(seen)


@pytest.mark.filterwarnings("ignore:.*symmetric and normalized space:UserWarning")  # actions are rad
@pytest.mark.parametrize("name", ["axbridge/Reach-v0", pytest.param("axbridge/BioloidStand-v0", marks=pytest.mark.ci)])
def test_environments_pass_gymnasiums_check(name):
    environment = gymnasium.make(name, backend="sim")
    check_env(environment.unwrapped, skip_render_check=True)
    environment.close()


def test_the_same_seed_gives_the_same_bits_and_another_one_another_episode():
    randomise = Randomisation(line=LineQuality(loss=0.05, jitter=0.003))
    with gymnasium.make("axbridge/Reach-v0", randomise=randomise) as environment:
        first, second, other = (rolled(environment, seed) for seed in (3, 3, 4))
    assert first.tobytes() == second.tobytes()
    assert first.tobytes() != other.tobytes()


def test_actions_and_observations_are_radians_within_the_rigs_limits():
    with gymnasium.make("axbridge/Reach-v0", rig="head_gripper") as environment:
        assert environment.action_space.low == pytest.approx([-2.0, -1.2, -0.1])  # the last is a stop of its URDF
        environment.reset(seed=1)
        for _ in range(60):
            observation, *_ = environment.step(environment.action_space.high)
        assert observation[:3] == pytest.approx(environment.action_space.high, abs=math.radians(3))
        for action, message in (
            ([math.nan, 0.0, 0.0], "not all finite"),
            ([0.1, 0.2], "expected 3 goals, got 2"),
            ([0.0, -1.3, 0.0], r"goal -1.3 rad of .* is outside of -1.200 to"),
            (["a", 0.0, 0.0], r"\['a', 0.0, 0.0\] are no goals"),
            ([90.0, 0.0, 0.0], "radians\\? 90° is 1.571"),
        ):
            with pytest.raises(UsageError, match=message):
                environment.unwrapped.step(action)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"randomise": True}, "randomise is a Randomisation, not bool"),
        ({"randomise": {"friction": (0, 1)}}, "randomise is a Randomisation, not dict"),
        ({"randomize": None}, "did you mean 'randomise'"),
        ({"rig": None}, "None is no rig"),
        ({"render_mode": "ansi"}, "no render_mode 'ansi'"),
        ({"step_ms": 0}, "a step_ms of 0"),
        ({"step_ms": "20"}, "a step_ms of '20'"),
        ({"span": -1.0}, "a span of -1.0"),
        ({"span": "x"}, "a span of 'x'"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(UsageError, match=message):
        Reach(**{"rig": "bench_arm", **options})


@pytest.mark.bullet
@pytest.mark.parametrize("engine", ["bullet", "mujoco"])
def test_a_picture_shows_the_robot_where_it_is(engine):
    rig = Rig.load("bench_arm").with_engine(engine)
    with gymnasium.make("axbridge/Reach-v0", rig=rig, render_mode="rgb_array") as environment:
        environment.reset(seed=1)
        before = environment.render()
        assert before.shape == (360, 480, 3)
        assert before.dtype == np.uint8
        assert len(np.unique(before.reshape(-1, 3), axis=0)) > 5
        for _ in range(30):
            environment.step(np.array([1.0], np.float32))
        changed = (environment.render() != before).any(axis=2)
        assert 0.005 < changed.mean() < 0.5


@pytest.mark.parametrize("step_ms", [20, pytest.param(50, marks=pytest.mark.ci)])
def test_a_free_robot_stands_in_a_task_without_support(step_ms):
    class Upright(ServoEnv):
        def judge(self, robot):
            return robot.simulation.base[0][2] / robot.simulation.base_start[0][2], False, {}

    with Upright("bioloid", step_ms=step_ms) as environment:
        environment.reset(seed=1)
        heights = [environment.step(environment.start)[1] for _ in range(1500 // step_ms)]
    assert min(heights) > 0.95


def test_a_humanoid_stands_and_a_fall_ends_the_episode():
    with gymnasium.make("axbridge/BioloidStand-v0") as environment:
        environment.reset(seed=1)
        start = environment.unwrapped.start
        for _ in range(25):
            _, reward, terminated, _, _ = environment.step(start)
        assert (reward > 0.95, terminated) == (True, False)
        knees = [servo.name.endswith("knee") for servo in environment.unwrapped.rig.servos]
        tipped = start + 1.2 * np.array(knees, np.float32)
        while not terminated:
            assert environment.unwrapped.robot.time < 2.6
            *_, reward, terminated, _, info = environment.step(tipped)
        assert reward < 0.0
        assert "fault" not in info


def test_an_environment_on_a_served_robot_runs_in_real_time_and_goes_limp_in_a_pause():
    with pytest.raises(UsageError, match="whose parameters cannot be drawn"):
        gymnasium.make("axbridge/Reach-v0", backend="real", port="/dev/null", randomise=Randomisation())
    with serving("bench_arm") as port, gymnasium.make("axbridge/Reach-v0", backend="twin", port=port) as environment:
        environment.reset(seed=2)
        began = time.monotonic()
        for _ in range(25):
            observation, _, terminated, _, info = environment.step(np.array([0.5], dtype=np.float32))
        assert info["shadow"]["shoulder"] == pytest.approx(observation[0], abs=0.05)
        assert 0.45 < time.monotonic() - began < 1.5  # 25 steps of 20 ms, the first one begun before
        assert observation[0] == pytest.approx(0.5, abs=0.05)
        assert not terminated
        assert info["late_ms"] >= 0.0
        time.sleep(0.8)
        assert environment.unwrapped.robot["shoulder"].read("torque_enable") == 0
        fallen, _, terminated, _, info = environment.step(np.array([0.5], dtype=np.float32))
        assert terminated
        assert "switched off" in info["fault"]
        assert fallen[0] < observation[0] - 0.01  # no goal has lifted it again
        environment.reset()
        *_, terminated, _, _ = environment.step(np.array([0.1], dtype=np.float32))
        assert not terminated


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")  # that it stays limp
def test_an_overload_ends_the_episode_with_its_fault():
    with gymnasium.make("axbridge/Reach-v0") as environment:
        environment.reset(seed=2)
        environment.unwrapped.robot.simulation.inject("overload:1")
        for _ in range(5):
            *_, terminated, _, info = environment.step(np.array([0.1], dtype=np.float32))
    assert terminated
    assert "overload" in info["fault"]
