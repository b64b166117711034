"""A rig with its motors off as a teleoperator: move it by hand, and another robot follows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lerobot.teleoperators import Teleoperator
from lerobot.utils.decorators import check_if_already_connected, check_if_not_connected

from lerobot_robot_axbridge.config import AxbridgeLimpConfig
from lerobot_robot_axbridge.joints import Joints

__all__ = ["AxbridgeLimp"]


class AxbridgeLimp(Teleoperator):
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

    @property
    def is_connected(self) -> bool:
        """Whether the rig is open."""
        return self._joints.connected

    @check_if_already_connected
    def connect(self, calibrate: bool = True) -> None:
        """Open the rig."""
        self._joints.connect()

    @property
    def is_calibrated(self) -> bool:
        """Always: zeros and directions stand in the rig."""
        return True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    @check_if_not_connected
    def get_action(self) -> dict[str, float]:
        """Where the joints are now, degrees."""
        return self._joints.read()

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        """Nothing to feel: its motors are off."""

    def disconnect(self) -> None:
        """Let the port go; once more does nothing."""
        self._joints.close()
