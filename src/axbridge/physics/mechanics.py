"""The seam between servos and what they move."""

from __future__ import annotations

from typing import Protocol

from axbridge.arrays import FloatArray

__all__ = ["FIRM", "Mechanics"]

FIRM = 1.0  # N·m·s: what a hard stop may take within a step


class Mechanics(Protocol):
    """n joints, their inertia and load, advanced in fixed steps: PyBullet's world, or one pendulum in closed form.

    The mechanics know nothing of servos. A step is asked for in speeds, with the torque that may be spent on reaching
    them, so that an engine solves drives and contacts together.

    Attributes:
        joints: Joint names, in the order of every array.
        time_step: One step, s.
        kinds: URDF types of the joints: ``revolute`` (also for continuous ones) or ``prismatic``.
        limits: Lowest and highest position of each; ±inf = none.
        weightless: Joints that move nothing with a mass.
    """

    joints: tuple[str, ...]
    time_step: float
    kinds: tuple[str, ...]
    limits: tuple[tuple[float, float], ...]
    weightless: frozenset[str]

    @property
    def resting(self) -> bool:
        """Whether, as of the last `dynamics`, contacts at rest hold the robot; its inertia then has them in it."""

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Joint positions (n,), rad or m, and speeds (n,), rad/s or m/s."""

    def dynamics(self) -> tuple[FloatArray, FloatArray]:
        """Joint-space inertia (n, n) and load torque (n,): `M·dω/dt = τ - c`.

        What a free base and contacts at rest do is included.
        """

    def step(self, speed: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Advance one `time_step` at joint speeds `speed` as far as torques between `low` and `high` can hold them.

        Args:
            speed: Mean speed of the step, (n,).
            low: Lowest torque that may be applied, N·m or N, (n,).
            high: Highest.

        Returns:
            Torques applied, (n,).
        """

    def close(self) -> None:
        """Release the engine; may be called twice."""
