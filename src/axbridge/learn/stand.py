"""A Bioloid that is to stand, in its own pose, with little load on its servos."""

from __future__ import annotations

from typing import Any

import numpy as np

from axbridge.learn.servo_env import ServoEnv
from axbridge.robot.robot import Robot

_FALLEN = 0.7  # share of its height below which a simulated robot has fallen


class BioloidStand(ServoEnv):
    """A step is worth 1, less how far the joints are from the pose and how much they are loaded.

    That a robot has fallen is seen in the simulator alone: no servo can tell.
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
