"""Mechanics without an engine: joints on their own, each with a small hanging arm; for rigs without a world."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray

__all__ = ["Pendulums"]

_STANDARD_GRAVITY = 9.80665


class Pendulums:
    """Independent revolute joints; see `Mechanics` for what the methods promise.

    Each carries a point mass at the end of a massless arm that hangs down at 0 rad: inertia m·l², load m·g·l·sin θ.

    Args:
        joints: Names.
        time_step: s.
        mass: kg.
        length: m.
        start: Initial positions, rad.
    """

    def __init__(
        self,
        joints: Sequence[str],
        *,
        time_step: float,
        mass: float = 0.05,
        length: float = 0.1,
        start: Sequence[float] | None = None,
    ) -> None:
        self.joints = tuple(joints)
        self.time_step = time_step
        self.kinds = ("revolute",) * len(self.joints)
        self.weightless: frozenset[str] = frozenset()
        self.limits = ((-math.inf, math.inf),) * len(self.joints)
        self.resting = False  # nothing to touch
        self._inertia = mass * length * length
        self._weight = mass * _STANDARD_GRAVITY * length
        self._position = np.array(start if start is not None else np.zeros(len(self.joints)), dtype=np.float64)
        self._speed = np.zeros(len(self.joints))

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Positions and speeds."""
        return self._position.copy(), self._speed.copy()

    def dynamics(self) -> tuple[FloatArray, FloatArray]:
        """Inertia, diagonal, and gravity's torque."""
        return np.eye(len(self.joints)) * self._inertia, self._weight * np.sin(self._position)

    def step(self, speed: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Advance one step at `speed`, as far as torques between `low` and `high` can hold it."""
        load = self._weight * np.sin(self._position)
        wanted = self._inertia * (speed - self._speed) / self.time_step + load
        torque = np.clip(wanted, low, high)
        self._speed = self._speed + (torque - load) / self._inertia * self.time_step
        self._position = self._position + self._speed * self.time_step
        return torque

    def close(self) -> None:
        """Nothing to release."""
