"""A rig as a robot of LeRobot."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lerobot.robots import Robot
from lerobot.utils.decorators import check_if_not_connected

from lerobot_robot_axbridge.config import AxbridgeConfig
from lerobot_robot_axbridge.joints import Joints
from lerobot_robot_axbridge.rigged import Rigged

__all__ = ["Axbridge"]


class Axbridge(Rigged, Robot):
    """Any rig of axbridge: simulated, real, or real with a simulated twin."""

    config_class = AxbridgeConfig
    name = "axbridge"

    def __init__(self, config: AxbridgeConfig) -> None:
        super().__init__(config)
        self.config = config
        self.cameras: dict[str, Any] = {}  # none, but LeRobot's recorder counts them
        self._joints = Joints(config.rig, config.backend, config.port)

    @cached_property
    def observation_features(self) -> dict[str, type]:
        """``NAME.pos`` of each joint, degrees."""
        return dict(self._joints.features)

    @cached_property
    def action_features(self) -> dict[str, type]:
        """The same."""
        return dict(self._joints.features)

    @check_if_not_connected
    def get_observation(self) -> dict[str, Any]:
        """Where the joints are now, degrees."""
        return dict(self._joints.read())

    @check_if_not_connected
    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Send goals, degrees; what was sent is within the joints' limits, and within `max_relative_target`."""
        goals = {key: float(value) for key, value in action.items()}
        return dict(self._joints.send(goals, self.config.max_relative_target))
