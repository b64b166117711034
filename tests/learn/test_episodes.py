"""Episodes of many policies: what they earn, wherever that is worked out."""

import os
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import pytest

gymnasium = pytest.importorskip("gymnasium")

from axbridge.config.rig import Rig  # noqa: E402
from axbridge.errors import UsageError  # noqa: E402
from axbridge.learn.episodes import returns  # noqa: E402
from axbridge.learn.randomise import LineQuality, Randomisation  # noqa: E402
from axbridge.pool import workers  # noqa: E402

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DRAWN = Randomisation(line=LineQuality(loss=0.05, jitter=0.003))
MAKE = partial(gymnasium.make, "axbridge/Reach-v0", rig=Rig.load("bench_arm"), randomise=DRAWN, max_episode_steps=25)


class Follower:
    """Goes a share of the way to the target, and counts its steps: a policy may remember."""

    def __init__(self, point):
        self.share, self.steps = point[0], 0

    def __call__(self, seen):
        self.steps += 1
        assert self.steps <= 25  # a new one for every episode
        return [self.share * seen[2]]


@pytest.mark.ci
def test_policies_earn_the_same_in_processes_that_run_already():
    done = []
    with workers(most=2) as pool:
        there = returns(MAKE, Follower, [[0.2], [1.0]], range(3), where=pool, report=lambda *told: done.append(told))
        again = returns(MAKE, Follower, [[1.0]], [1], where=pool)
    assert there.shape == (2, 3)
    assert (there[1] > there[0]).all()
    assert again[0, 0] == there[1, 1]
    assert done == [(k, 6) for k in range(7)]
    environment = MAKE()
    seen, _ = environment.reset(seed=1)
    total, over, act = 0.0, False, Follower([1.0])
    while not over:
        seen, reward, _, over, _ = environment.step(act(seen))
        total += reward
    environment.close()
    assert total == again[0, 0]


def test_numbers_of_one_policy_alone_are_asked_back():
    with pytest.raises(UsageError, match="a row of numbers"):
        returns(MAKE, Follower, [0.2, 1.0], [1])


@pytest.mark.ci
def test_a_dask_cluster_gives_the_same_and_may_lose_a_worker(tmp_path):
    script = textwrap.dedent("""
        import os, signal
        from distributed import LocalCluster
        from axbridge.learn.episodes import returns
        from tests.learn.test_episodes import MAKE, Follower

        if __name__ == "__main__":
            points, seeds = [[0.2], [0.5], [1.0]], range(4)
            with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
                address = cluster.scheduler_address.replace("tcp", "dask")
                killed = []

                def report(done, of):
                    if done == 3 and not killed:
                        killed.append(next(iter(cluster.workers.values())).pid)
                        os.kill(killed[0], signal.SIGKILL)

                there = returns(MAKE, Follower, points, seeds, where=address, report=report)
            assert killed
            assert (there == returns(MAKE, Follower, points, seeds)).all()
            print("same")
    """)
    (tmp_path / "both.py").write_text(script)
    done = subprocess.run(
        [sys.executable, tmp_path / "both.py"], capture_output=True, text=True, timeout=180,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )  # fmt: skip
    assert done.stdout.strip().endswith("same"), done.stderr[-2000:]
