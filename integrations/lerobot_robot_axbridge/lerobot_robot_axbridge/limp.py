"""A rig with its motors off as a teleoperator: move it by hand, and another robot follows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lerobot.teleoperators import Teleoperator
from lerobot.utils.decorators import check_if_not_connected

from lerobot_robot_axbridge.config import AxbridgeLimpConfig
from lerobot_robot_axbridge.joints import Joints
from lerobot_robot_axbridge.rigged import Rigged

__all__ = ["AxbridgeLimp"]


class AxbridgeLimp(Rigged, Teleoperator):
    """Any rig of axbridge. Nothing here switches a motor on."""

    config_class = AxbridgeLimpConfig
    name = "axbridge_limp"

    def __init__(self, config: AxbridgeLimpConfig) -> None:
        super().__init__(config)
        self.config = config
        self._joints = Joints(config.rig, config.backend, config.port)

    @cached_property
    def action_features(self) -> dict[str, type]:
        """``NAME.pos`` of each joint, degrees."""
        return dict(self._joints.features)

    @cached_property
    def feedback_features(self) -> dict[str, type]:
        """None: its motors are off."""
        return {}

    @check_if_not_connected
    def get_action(self) -> dict[str, float]:
        """Where the joints are now, degrees."""
        return self._joints.read()

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        """Nothing to feel: its motors are off."""
