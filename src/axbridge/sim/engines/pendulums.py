"""An engine without a world: each joint turns or slides on its own, under its own inertia and weight."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import SLIDES
from axbridge.errors import RigError, UsageError
from axbridge.rotations import LinkPose
from axbridge.sim.body.kinematics import posed, way_to_base
from axbridge.sim.engine import Contact, LinkMotion, Scene, arrange, substeps
from axbridge.sim.engines.bullet.ahead import AheadEngine, Book, System, settle_at, workspace

_STANDARD_GRAVITY = 9.80665
_LEAST = 1e-9  # kg·m² or kg, of a joint that moves nothing
_WORLD = 'add [world] urdf = "…" to the rig, or take an engine: --engine mujoco'


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
        self._weight = np.zeros((3, n))  # of the load: what goes with sin θ, with cos θ, and what is constant
        self._weight[0] = mass * _STANDARD_GRAVITY * length
        self._begin(np.full(n, mass * length * length), start)

    @classmethod
    def of(cls, scene: Scene) -> Pendulums:
        """The joints of a scene, uncoupled: each carries what hangs on it as it is at the start, on a base at rest.

        Inertia about the axis and the moment of the weight come from the URDF. Joints do not push each other, nothing
        touches anything, and a base that stands free is bolted down.

        Raises:
            RigError: the scene has ideal joints, or its URDF has a mistake.
        """
        if scene.ideal:
            why = f"joint {scene.ideal[0].joint!r} is ideal, and moves in an engine's world alone"
            raise RigError(scene.urdf, "", why, 'choose engine = "mujoco"')
        tree, facts, limits, start = arrange(scene)
        self = cls([one.name for one in facts], time_step=scene.time_step, mass=0.0, start=start)
        self.kinds = tuple("prismatic" if one.linear else "revolute" for one in facts)
        self.limits = limits
        self.damping = np.array([one.damping for one in facts])
        self.friction = np.array([one.friction for one in facts])
        here = posed(tree, tree.pose(dict(zip(self.joints, start, strict=True)))[None])
        gravity, inertia = np.array(scene.gravity), np.full(len(facts), _LEAST)
        for j, (name, angle) in enumerate(zip(self.joints, start, strict=True)):
            link = tree.moved[name]
            axis, origin = here.axis[link, 0], here.place[link, 0]
            carried = [one for one in range(len(tree.links)) if link in way_to_base(tree, one)]
            if tree.kind[link] == SLIDES:
                inertia[j] += tree.mass[carried].sum()
                self._weight[2, j] = -float(gravity @ axis) * tree.mass[carried].sum()
                continue
            moment = np.zeros(2)  # of the weight about the axis, now and a quarter turn on
            for one in carried:
                arm, turn, mass = here.centres[one, 0] - origin, here.turn[one, 0], float(tree.mass[one])
                across = np.cross(axis, arm)
                inertia[j] += mass * float(across @ across) + float(axis @ turn @ tree.inertia[one] @ turn.T @ axis)
                moment -= mass * np.array([across @ gravity, np.cross(axis, across) @ gravity])
            self._weight[0, j] = moment[0] * math.sin(angle) + moment[1] * math.cos(angle)
            self._weight[1, j] = moment[0] * math.cos(angle) - moment[1] * math.sin(angle)
        self._begin(inertia, start)
        return self

    def _begin(self, inertia: FloatArray, start: Sequence[float] | None) -> None:
        n = len(self.joints)
        self._system = System(np.diag(inertia), np.zeros((2, n)), np.zeros((n, len(Book))), workspace(n))
        self._book = self._system.book
        self._book[:, Book.ANGLE] = start if start is not None else 0.0
        self._follow()

    def load(self) -> FloatArray:
        angle = self._book[:, Book.ANGLE]
        found: FloatArray = self._weight[0] * np.sin(angle) + self._weight[1] * np.cos(angle) + self._weight[2]
        return found

    def base(self) -> LinkPose | None:
        return None

    def place_base(self, pose: LinkPose) -> None:  # noqa: ARG002 - of the contract
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
        self._book[:, Book.CLOCK] = 0.0
        self._left = self._substeps
