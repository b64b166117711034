"""Pictures of a robot, for ``render_mode="rgb_array"``: PyBullet's software renderer, which needs no display."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from axbridge.config.rig import Rig
from axbridge.errors import require
from axbridge.robot.robot import Robot
from axbridge.rotations import matrix

_WIDTH, _HEIGHT = 480, 360  # pixels
_FIELD = 45.0  # degrees
_YAW, _PITCH = 50.0, -20.0  # degrees: from the front on the robot's right, a little above it
_AWAY = 2.2  # times the robot's size

Picture = npt.NDArray[np.uint8]


class Camera:
    """Draws a robot of a rig, simulated or real, as its servos report it. It looks from where it first saw it.

    Raises:
        UnsupportedOperation: PyBullet is not installed.
        RigError: it cannot hold the rig.
    """

    def __init__(self, rig: Rig) -> None:
        require("drawing a picture", "pybullet")
        import pybullet

        from axbridge.sim.engine import Scene
        from axbridge.sim.engines.bullet.engine import BulletEngine

        self._bullet = pybullet
        self._model = BulletEngine(Scene.of(rig, ()))
        self._row = {name: row for row, name in enumerate(self._model.joints)}
        self._joints = [servo.joint for servo in rig.servos]
        self._shapes = rig.shapes("visual")
        self._view: list[float] | None = None

    def picture(self, robot: Robot) -> Picture:
        """The robot now, (360, 480, 3)."""
        for joint, position in zip(self._joints, robot.positions.tolist(), strict=True):
            self._model.place_joint(self._row[joint], position)
        base = robot.simulation.base if robot.simulation is not None else None
        if base is not None:
            self._model.place_base(base)
        lens = self._bullet.computeProjectionMatrixFOV(_FIELD, _WIDTH / _HEIGHT, 0.01, 20.0)
        how = {"renderer": self._bullet.ER_TINY_RENDERER, "physicsClientId": self._model.client}
        _, _, pixels, *_ = self._bullet.getCameraImage(_WIDTH, _HEIGHT, self._look(), lens, **how)
        picture: Picture = np.reshape(np.asarray(pixels, dtype=np.uint8), (_HEIGHT, _WIDTH, 4))[..., :3].copy()
        return picture

    def close(self) -> None:
        """Release what draws; may be called twice."""
        self._model.close()

    def _look(self) -> list[float]:
        """The view, by the robot's size and place in the first picture."""
        if self._view is None:
            poses = self._model.poses()
            places = {link: np.array(place) for link, (place, _) in poses.items()}
            shown = [places[shape.link] + matrix(poses[shape.link][1]) @ shape.place for shape in self._shapes]
            points = np.array([*places.values(), *shown])
            low, high = points.min(axis=0), points.max(axis=0)
            away = max(_AWAY * float(np.linalg.norm(high - low)), 0.1)
            middle = ((low + high) / 2).tolist()
            self._view = self._bullet.computeViewMatrixFromYawPitchRoll(middle, away, _YAW, _PITCH, 0.0, 2)
        return self._view
