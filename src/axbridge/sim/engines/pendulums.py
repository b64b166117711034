"""An engine without a world: joints on their own, for rigs that have no URDF."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import UsageError
from axbridge.rotations import LinkPose
from axbridge.sim.engine import Contact, LinkMotion, substeps
from axbridge.sim.engines.bullet.ahead import AheadEngine, StepState, System, settle_at, workspace

_STANDARD_GRAVITY = 9.80665


class Pendulums(AheadEngine):
    """An `Engine` of revolute joints, each with a point `mass` (kg) at the end of an arm that hangs down at 0 rad.

    In every physics step the load m·g·l·sin θ starts from its true value and slope.
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
        self._left = 0  # substeps until the load is looked at again
        self._weight = mass * _STANDARD_GRAVITY * length
        inertia = np.eye(n) * (mass * length * length)
        self._system = System(inertia, np.zeros((2, n)), np.zeros((n, len(StepState))), workspace(n))
        self._book = self._system.book
        self._book[:, StepState.ANGLE] = start if start is not None else 0.0
        self._follow()

    def load(self) -> FloatArray:
        return self._weight * np.sin(self._book[:, StepState.ANGLE])

    def base(self) -> LinkPose | None:
        return None

    def place_base(self, pose: LinkPose) -> None:  # noqa: ARG002 - of the contract
        raise UsageError("joints without a world have no base", 'add [world] urdf = "…" to the rig')

    def place_joint(self, joint: int, position: float) -> None:
        settle_at(self._book[joint], position)

    def poses(self) -> dict[str, LinkPose]:
        return {}

    def motion(self, link: str) -> LinkMotion:
        raise UsageError(f"joints without a world have no link {link!r}", 'add [world] urdf = "…" to the rig')

    def contacts(self) -> list[Contact]:
        return []

    def close(self) -> None:
        pass

    def _follow(self) -> None:
        angle, speed = self.state()
        self._system.loads[0] = self._weight * np.sin(angle)
        self._system.loads[1] = self._weight * np.cos(angle) * speed
        self._book[:, StepState.CLOCK] = 0.0
        self._left = self._substeps
