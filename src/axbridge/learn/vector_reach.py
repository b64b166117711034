"""Many `Reach` robots at once, without packets, on all cores: ``gymnasium.make_vec`` with the vector entry point.

What a policy learns here is run on `axbridge.learn.reach.Reach`, on any backend: observations, actions and rewards are
the same.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from axbridge.config.rig import Rig
from axbridge.learn.fleet import Fleet
from axbridge.learn.randomise import Randomisation
from axbridge.learn.reach import Reach
from axbridge.learn.servo_env import Observation

__all__ = ["VectorReach"]


class VectorReach(gymnasium.vector.VectorEnv):  # type: ignore[misc]  # gymnasium is skipped
    """Robots whose episode is over begin a new one in the next step, as gymnasium's `NEXT_STEP` has it.

    Args:
        num_envs: How many.
        rig: As of `Reach`.
        randomise: See there.
        span: See there.
        max_episode_steps: Length of an episode.
        workers: Processes; by default one for each core, 0 = none.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        rig: str | Rig = "bench_arm",
        *,
        randomise: Randomisation | None = None,
        span: float = 1.2,
        max_episode_steps: int = 100,
        workers: int | None = None,
    ) -> None:
        one = Reach(rig, span=span)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = one.observation_space, one.action_space
        self.observation_space = batch_space(one.observation_space, num_envs)
        self.action_space = batch_space(one.action_space, num_envs)
        self._bounds = one.bounds()
        self._seconds = one.rig.robot.basic_time_step_ms / 1000
        self._most = max_episode_steps
        self._fleet = Fleet(one.rig, num_envs, workers=workers, randomise=randomise)
        self._targets = np.tile(one.start, (num_envs, 1))
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._over = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all episodes; the same seed begins the same ones."""
        super().reset(seed=seed if isinstance(seed, int) else None, options=options)
        self._begin(np.ones(self.num_envs, dtype=bool))
        return self._seen(), {}

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[Observation, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """A control period of all of them."""
        begin, self._over = self._over, np.zeros(self.num_envs, dtype=bool)
        self._fleet.tell(np.asarray(actions, dtype=float))
        self._fleet.step(self._seconds)
        self._steps += 1
        distance = np.abs(self._fleet.positions - self._targets)
        reward = -distance.mean(axis=1)
        terminated = self._fleet.diverged > 0
        truncated = (self._steps >= self._most) & ~terminated
        if begin.any():
            self._begin(begin)
            reward[begin], terminated[begin], truncated[begin] = 0.0, False, False
        self._over = terminated | truncated
        return self._seen(), reward, terminated, truncated, {"distance": distance.max(axis=1)}

    def close_extras(self, **_: Any) -> None:
        """End the workers."""
        self._fleet.close()

    def _begin(self, which: npt.NDArray[np.bool_]) -> None:
        numbers = np.flatnonzero(which).tolist()
        self._fleet.reset({number: int(self.np_random.integers(2**31)) for number in numbers})
        low, high = self._bounds
        for number in numbers:
            self._targets[number] = self.np_random.uniform(low, high)
        self._steps[which] = 0

    def _seen(self) -> Observation:
        seen = np.concatenate([self._fleet.positions, self._fleet.velocities, self._targets], axis=1)
        box = self.single_observation_space
        found: Observation = np.clip(seen, box.low, box.high).astype(np.float32)
        return found
