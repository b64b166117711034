"""A rig as a robot of LeRobot."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lerobot.robots import Robot
from lerobot.utils.decorators import check_if_already_connected, check_if_not_connected

from lerobot_robot_axbridge.config import AxbridgeConfig
from lerobot_robot_axbridge.joints import Joints

__all__ = ["Axbridge"]


class Axbridge(Robot):
    """Any rig of axbridge: simulated, real, or real with a simulated twin."""

    config_class = AxbridgeConfig
    name = "axbridge"

    def __init__(self, config: AxbridgeConfig) -> None:
        super().__init__(config)
        self.config = config
        self._joints = Joints(config.rig, config.backend, config.port)

    @cached_property
    def observation_features(self) -> dict[str, type]:
        """``NAME.pos`` of each joint, degrees."""
        return dict(self._joints.features)

    @cached_property
    def action_features(self) -> dict[str, type]:
        """The same."""
        return dict(self._joints.features)

    @property
    def is_connected(self) -> bool:
        """Whether the rig is open."""
        return self._joints.connected

    @check_if_already_connected
    def connect(self, calibrate: bool = True) -> None:
        """Open the rig. No motor is on before the first action."""
        self._joints.connect()

    @property
    def is_calibrated(self) -> bool:
        """Always: zeros and directions stand in the rig."""
        return True

    def calibrate(self) -> None:
        """Nothing to do: `axbridge calibrate` finds zeros, and the rig keeps them."""

    def configure(self) -> None:
        """Nothing to do: the rig says which registers a servo gets, and they are written when it is opened."""

    @check_if_not_connected
    def get_observation(self) -> dict[str, Any]:
        """Where the joints are now, degrees."""
        return dict(self._joints.read())

    @check_if_not_connected
    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Send goals, degrees; what was sent is within the joints' limits, and within `max_relative_target`."""
        goals = {key: float(value) for key, value in action.items()}
        return dict(self._joints.send(goals, self.config.max_relative_target))

    def disconnect(self) -> None:
        """Switch every motor off and let the port go; once more does nothing.

        LeRobot's tools disconnect one device after the other when something has failed. An error here, because this
        one is closed already, would keep them from the next.
        """
        self._joints.close()
