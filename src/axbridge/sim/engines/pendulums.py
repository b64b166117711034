"""An engine without a world: joints on their own, each with a small hanging arm; for rigs that have no URDF."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import SimulationDiverged, UsageError
from axbridge.sim.engine import Actuation, Contact, LinkMotion, LinkPose, solved_ahead, substeps
from axbridge.sim.implicit import Book, settle_at, workspace

__all__ = ["Pendulums"]

_STANDARD_GRAVITY = 9.80665


class Pendulums:
    """Independent revolute joints; see `axbridge.sim.engine.Engine` for what the methods promise.

    Each carries a point mass at the end of a massless arm that hangs down at 0 rad: inertia m·l², load m·g·l·sin θ. So
    what is worked out ahead is all there is to do; in every physics step the load starts from its true value and slope.

    Args:
        joints: Names.
        time_step: Physics step, s.
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
        n = len(joints)
        self.joints = tuple(joints)
        self.kinds = ("revolute",) * n
        self.limits = ((-math.inf, math.inf),) * n
        self.damping = self.friction = np.zeros(n)
        self._substeps, self.time_step = substeps(time_step)
        self._weight = mass * _STANDARD_GRAVITY * length
        self._time = 0.0
        self.inertia = np.eye(n) * (mass * length * length)
        self.loads, self.book, self.work = np.zeros((2, n)), np.zeros((n, len(Book))), workspace(n)
        self.book[:, Book.ANGLE] = start if start is not None else 0.0
        self._begin()

    @property
    def ahead(self) -> Pendulums:
        """The joints as a linear system."""
        return self

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Positions and speeds."""
        return self.book[:, Book.ANGLE].copy(), self.book[:, Book.SPEED].copy()

    def load(self) -> FloatArray:
        """Gravity's torque."""
        load: FloatArray = self._weight * np.sin(self.book[:, Book.ANGLE])
        return load

    def advance(self, actuation: Actuation) -> FloatArray:
        """Go one substep ahead."""
        failed, friction = solved_ahead(self, actuation, self.time_step)
        if failed >= 0:
            raise SimulationDiverged(self.joints[failed], self._time)
        self.passed(1)
        return friction

    def passed(self, count: int) -> None:
        """See `Ahead.passed`."""
        self._time += count * self.time_step
        self.left -= count
        if self.left == 0:
            self._begin()

    def strike(self, joint: int, armature: float, speed: float) -> float:
        """A rotor meets its joint; see `Engine.strike`."""
        hit: float = (speed - self.book[joint, Book.SPEED]) / (1.0 / armature + 1.0 / self.inertia[joint, joint])
        self.book[joint, Book.SPEED] += hit / self.inertia[joint, joint]
        return hit

    def base(self) -> LinkPose | None:
        """Nothing stands free."""
        return None

    def place_base(self, pose: LinkPose) -> None:  # noqa: ARG002 - of the contract
        """There is no base."""
        raise UsageError("joints without a world have no base", 'add [world] urdf = "…" to the rig')

    def place_joint(self, joint: int, position: float) -> None:
        """Put a joint there, at rest."""
        settle_at(self.book[joint], position)

    def poses(self) -> dict[str, LinkPose]:
        """There are no links."""
        return {}

    def motion(self, link: str) -> LinkMotion:
        """There are no links."""
        raise UsageError(f"joints without a world have no link {link!r}", 'add [world] urdf = "…" to the rig')

    def contacts(self) -> list[Contact]:
        """Nothing touches."""
        return []

    def close(self) -> None:
        """Nothing to release."""

    def _begin(self) -> None:
        angle, speed = self.state()
        self.loads[0] = self._weight * np.sin(angle)
        self.loads[1] = self._weight * np.cos(angle) * speed
        self.book[:, Book.CLOCK] = 0.0
        self.left = self._substeps
