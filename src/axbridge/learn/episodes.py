"""Episodes of many policies, on all cores or on a dask cluster: what each earns is the same wherever it is worked out.

A task is one episode: a policy's numbers and the seed go out, a number comes back. So nothing is lost but time when a
worker dies, and no worker waits for the others as in a batch (`axbridge.sim.batch`), whose robots step together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.errors import UsageError
from axbridge.pool import Workers, results

__all__ = ["Episode", "Policy", "play", "returns"]

Policy = Callable[[FloatArray], Callable[[Any], npt.ArrayLike]]  # numbers -> what acts on observations, for an episode


@dataclass(frozen=True)
class Episode:
    """One episode of one policy.

    Attributes:
        make: Makes the environment.
        policy: Makes what acts in it.
        point: The policy's numbers, (n,).
        seed: Of the episode.
    """

    make: Callable[[], gymnasium.Env[Any, Any]]
    policy: Policy
    point: FloatArray
    seed: int


def play(episode: Episode) -> float:
    """The sum of its rewards."""
    environment = episode.make()
    try:
        act = episode.policy(episode.point)
        seen, _ = environment.reset(seed=episode.seed)
        total, over = 0.0, False
        while not over:
            seen, reward, terminated, truncated, _ = environment.step(act(seen))
            total += float(reward)
            over = terminated or truncated
    finally:
        environment.close()
    return total


def returns(
    make: Callable[[], gymnasium.Env[Any, Any]],
    policy: Policy,
    points: npt.ArrayLike,
    seeds: Sequence[int],
    *,
    where: str | Workers | None = None,
    report: Callable[[int, int], None] = lambda _done, _all: None,
) -> FloatArray:
    """What each policy earns in each episode: the sum of its rewards.

    Args:
        make: Makes an environment that ends its episodes: ``functools.partial(gymnasium.make, "axbridge/Reach-v0")``.
        policy: Turns the numbers of one policy into a function from observation to action; called for every episode,
            so the function may remember. Like `make`, to be importable in another process.
        points: Numbers of k policies, (k, n).
        seeds: Of the s episodes that every policy has.
        where: ``dask://HOST:PORT``; processes that run already, from `axbridge.pool.workers`; None = the cores of
            this machine. The results are the same.
        report: Called with how many episodes are done, and how many there are.

    Returns:
        (k, s).

    Raises:
        UsageError: points that are not (k, n), or no such executor.
        AxBridgeError: what an environment raised, or an episode killed its workers again and again.
    """
    numbers = np.asarray(points, dtype=float)
    if numbers.ndim != 2:
        raise UsageError(f"points of shape {numbers.shape}", "give a row of numbers for each policy")
    jobs = [Episode(make, policy, point, int(seed)) for point in numbers for seed in seeds]
    found = np.full(len(jobs), np.nan)
    report(0, len(jobs))
    for done, (index, earned) in enumerate(results(play, jobs, where), 1):
        found[index] = earned
        report(done, len(jobs))
    return found.reshape(len(numbers), len(seeds))
