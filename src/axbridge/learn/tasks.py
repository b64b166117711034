"""The tasks that come along: every joint reaches an angle; a Bioloid stands."""

from __future__ import annotations

from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.learn.servo_env import ServoEnv
from axbridge.robot.backend import BackendName
from axbridge.robot.robot import Robot

_FALLEN = 0.7  # share of its height below which a simulated robot has fallen


class Reach(ServoEnv):
    """Every joint moves to an angle that is drawn in each episode.

    The observation adds the targets, rad. The reward is minus the mean distance from them, rad.

    Args:
        rig: As of `ServoEnv`, like the rest.
        backend: See there.
        span: Targets are drawn so far from the start at most, rad.
        options: The other arguments of `ServoEnv`.
    """

    def __init__(self, rig: str | Rig, backend: BackendName = "sim", *, span: float = 1.2, **options: Any) -> None:
        self._span = span
        super().__init__(rig, backend, **options)
        self.targets = self.start.copy()

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Where targets can be."""
        return np.maximum(self._low, self.start - self._span), np.minimum(self._high, self.start + self._span)

    def begin(self, robot: Robot) -> None:  # noqa: ARG002 - the task is the same for every robot
        """Draw the targets."""
        self.targets = self.np_random.uniform(*self.bounds())

    def seen(self) -> FloatArray:
        """What an agent sees beside the servos: the targets, rad, one of each servo."""
        return self.targets

    def judge(self, robot: Robot) -> tuple[float, bool, dict[str, Any]]:
        """How far the joints are from their targets."""
        distance = np.abs(robot.positions - self.targets)
        return -float(distance.mean()), False, {"distance": float(distance.max())}


class BioloidStand(ServoEnv):
    """A Bioloid is to stand in its own pose, with little load on its servos.

    A step is worth 1, less how far the joints are from the pose and how much they are loaded. That a robot has fallen
    is seen in the simulator alone: no servo can tell.
    """

    def judge(self, robot: Robot) -> tuple[float, bool, dict[str, Any]]:
        """How it stands."""
        away = float(np.mean((robot.positions - self.start) ** 2))
        load = float(np.mean(np.nan_to_num(robot.loads) ** 2))
        reward = 1.0 - 10.0 * away - 0.5 * load
        base = robot.simulation.base if robot.simulation is not None else None
        first = robot.simulation.base_start if robot.simulation is not None else None
        if base is None or first is None:
            return reward, False, {}
        fallen = base[0][2] < _FALLEN * first[0][2]
        return reward - (10.0 if fallen else 0.0), fallen, {"height": base[0][2]}
