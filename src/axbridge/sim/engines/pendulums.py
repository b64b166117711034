"""An engine of uncoupled joints: each joint turns or slides with its own inertia and weight."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import SLIDES
from axbridge.errors import RigError, UsageError
from axbridge.rotations import LinkPose
from axbridge.sim.body.kinematics import path_to_base, posed
from axbridge.sim.engine import Contact, LinkMotion, Scene, arrange, substeps
from axbridge.sim.engines.bullet.ahead import AheadEngine, StepState, System, settle_at, workspace

_STANDARD_GRAVITY = 9.80665
_LEAST = 1e-9  # kg·m² or kg, of a joint that moves no mass
_WORLD = 'add [world] urdf = "…" to the rig, or take an engine: --engine mujoco'


class Pendulums(AheadEngine):
    """An `Engine` of revolute joints with a point `mass` (kg) at the end of an arm, which hangs down at 0 rad.

    `length` of the arm in m. In every physics step the load m·g·l·sin θ starts with its true value and slope.
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
        self._left = 0  # substeps until the load is computed again
        self._weight = np.zeros((3, n))  # coefficients of the load: of sin θ, of cos θ, and the constant part
        self._weight[0] = mass * _STANDARD_GRAVITY * length
        self._begin(np.full(n, mass * length * length), start)

    @classmethod
    def of(cls, scene: Scene) -> Pendulums:
        """Build the joints of a scene, uncoupled: each carries the links behind it in their initial pose.

        Inertia about the axis and the moment of the weight come from the URDF. There are no forces between joints and
        no contacts, and the base is at rest, also a free one.

        Raises:
            RigError: the scene has ideal joints, or its URDF has a mistake.
        """
        if scene.ideal:
            reason = f"joint {scene.ideal[0].joint!r} is ideal, and moves in an engine's world alone"
            raise RigError(scene.urdf, "", reason, 'choose engine = "mujoco"')
        tree, facts, limits, start = arrange(scene)
        self = cls([fact.name for fact in facts], time_step=scene.time_step, mass=0.0, start=start)
        self.kinds = tuple("prismatic" if fact.linear else "revolute" for fact in facts)
        self.limits = limits
        self.damping = np.array([fact.damping for fact in facts])
        self.friction = np.array([fact.friction for fact in facts])
        here = posed(tree, tree.pose(dict(zip(self.joints, start, strict=True)))[None])
        gravity, inertia = np.array(scene.gravity), np.full(len(facts), _LEAST)
        for j, (name, angle) in enumerate(zip(self.joints, start, strict=True)):
            link = tree.moved[name]
            axis, origin = here.axis[link, 0], here.place[link, 0]
            carried = [child for child in range(len(tree.links)) if link in path_to_base(tree, child)]
            if tree.kind[link] == SLIDES:
                inertia[j] += tree.mass[carried].sum()
                self._weight[2, j] = -float(gravity @ axis) * tree.mass[carried].sum()
                continue
            moment = np.zeros(2)  # of the weight about the axis, in this pose and a quarter turn further
            for child in carried:
                arm, turn, mass = here.centres[child, 0] - origin, here.turn[child, 0], float(tree.mass[child])
                across = np.cross(axis, arm)
                inertia[j] += mass * float(across @ across) + float(axis @ turn @ tree.inertia[child] @ turn.T @ axis)
                moment -= mass * np.array([across @ gravity, np.cross(axis, across) @ gravity])
            self._weight[0, j] = moment[0] * math.sin(angle) + moment[1] * math.cos(angle)
            self._weight[1, j] = moment[0] * math.cos(angle) - moment[1] * math.sin(angle)
        self._begin(inertia, start)
        return self

    def _begin(self, inertia: FloatArray, start: Sequence[float] | None) -> None:
        n = len(self.joints)
        self._system = System(np.diag(inertia), np.zeros((2, n)), np.zeros((n, len(StepState))), workspace(n))
        self._book = self._system.book
        self._book[:, StepState.ANGLE] = start if start is not None else 0.0
        self._follow()

    def load(self) -> FloatArray:
        angle = self._book[:, StepState.ANGLE]
        load: FloatArray = self._weight[0] * np.sin(angle) + self._weight[1] * np.cos(angle) + self._weight[2]
        return load

    def base(self) -> LinkPose | None:
        return None

    def place_base(self, pose: LinkPose) -> None:  # noqa: ARG002 - the signature of `Engine`
        raise UsageError("joints without a world have no base", _WORLD)

    def place_joint(self, joint: int, position: float) -> None:
        settle_at(self._book[joint], position)

    def poses(self) -> dict[str, LinkPose]:
        return {}

    def motion(self, link: str) -> LinkMotion:
        raise UsageError(f"joints without a world have no link {link!r}", _WORLD)

    def contacts(self) -> list[Contact]:
        return []

    def close(self) -> None:
        pass

    def _follow(self) -> None:
        angle, speed = self.state()
        self._system.loads[0] = self.load()
        self._system.loads[1] = (self._weight[0] * np.cos(angle) - self._weight[1] * np.sin(angle)) * speed
        self._book[:, StepState.CLOCK] = 0.0
        self._left = self._substeps
