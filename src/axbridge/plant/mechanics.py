"""The seam between servos and what they move."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["FloatArray", "Mechanics"]

FloatArray = npt.NDArray[np.float64]


class Mechanics(Protocol):
    """n joints, their inertia and load, advanced in fixed steps: PyBullet's world, or one pendulum in closed form.

    Attributes:
        joints: Joint names, in the order of every array.
        time_step: One step, s.
        kinds: URDF types of the joints: ``revolute``, ``continuous``, ``prismatic``.
        limits: Lowest and highest position of each by the URDF; ±inf = none.
    """

    joints: tuple[str, ...]
    time_step: float
    kinds: tuple[str, ...]
    limits: tuple[tuple[float, float], ...]

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Joint positions (n,), rad, and speeds (n,), rad/s."""

    def dynamics(self) -> tuple[FloatArray, FloatArray]:
        """Effective joint-space inertia (n, n), kg·m², and load torque (n,), N·m: `M·dω/dt = τ - c`."""

    def step(self, speed: FloatArray, torque: FloatArray, limit: FloatArray, beside: FloatArray | None = None) -> None:
        """Advance one `time_step` towards joint speeds `speed` (n,) at its end.

        Args:
            speed: rad/s, predicted by the servos.
            torque: N·m, the servo torque that leads there if nothing unforeseen touches the robot.
            limit: N·m, how far the torque may be exceeded or missed to get there.
            beside: N·m, laid on in this step besides, whatever the speed.
        """

    def motor_torque(self) -> FloatArray:
        """What was used in the last step to get to the speeds asked for, (n,), N·m; without `beside`."""

    def close(self) -> None:
        """Release the engine; may be called twice."""
