"""A Bioloid that is to stand, in its own pose, with little load on its servos."""

from __future__ import annotations

from typing import Any

import numpy as np

from axbridge.config.rig import Rig
from axbridge.learn.randomise import Randomisation
from axbridge.learn.servo_env import ServoEnv
from axbridge.robot.backends.backend import BackendName
from axbridge.robot.robot import Robot
from axbridge.robot.simulation import hold_up

_HELD = 25  # steps
_FALLEN = 0.7  # share of its height below which a simulated robot has fallen


class BioloidStand(ServoEnv):
    """A step is worth 1, less how far the joints are from the pose and how much they are loaded.

    That a robot has fallen is seen in the simulator alone: no servo can tell.

    Args:
        rig: As of `ServoEnv`, like the rest.
        backend: See there.
        port: See there.
        step_ms: See there.
        randomise: See there.
    """

    def __init__(
        self,
        rig: str | Rig = "bioloid",
        backend: BackendName = "sim",
        *,
        port: str | None = None,
        step_ms: float | None = None,
        randomise: Randomisation | None = None,
    ) -> None:
        super().__init__(rig, backend, port=port, step_ms=step_ms, randomise=randomise)

    def begin(self, robot: Robot) -> None:
        """Hold a simulated robot as by a hand until its motors bear it: it is limp at first, and would sink."""
        for count in range(_HELD if self._backend == "sim" else 0):
            robot.set_positions(self.start)
            hold_up(robot.simulation, (count + 1) / _HELD)
            robot.step(self._step_ms)

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
