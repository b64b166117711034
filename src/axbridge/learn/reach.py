"""The task Reach: every joint moves to an angle that is drawn in each episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.learn.randomise import Randomisation
from axbridge.learn.servo_env import ServoEnv
from axbridge.robot.backend import BackendName
from axbridge.robot.robot import Robot


class Reach(ServoEnv):
    """The observation adds the targets, rad. The reward is minus the mean distance from them, rad.

    Args:
        rig: As of `ServoEnv`, like the rest.
        backend: See there.
        port: See there.
        step_ms: See there.
        randomise: See there.
        span: Targets are drawn so far from the start at most, rad.
    """

    def __init__(
        self,
        rig: str | Rig,
        backend: BackendName = "sim",
        *,
        port: str | None = None,
        step_ms: float | None = None,
        randomise: Randomisation | None = None,
        span: float = 1.2,
    ) -> None:
        self._span = span
        super().__init__(rig, backend, port=port, step_ms=step_ms, randomise=randomise)
        self.targets = self.start.copy()

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Where targets can be."""
        low, high = self._low, self._high
        return np.maximum(low, self.start - self._span), np.minimum(high, self.start + self._span)

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
