"""A rig as a robot of LeRobot, and with its motors off as a teleoperator: a hand moves it, another robot follows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lerobot.robots import Robot
from lerobot.teleoperators import Teleoperator
from lerobot.utils.decorators import check_if_already_connected, check_if_not_connected

from lerobot_robot_axbridge.config import AxbridgeConfig, AxbridgeLimpConfig
from lerobot_robot_axbridge.joints import Joints

__all__ = ["Axbridge", "AxbridgeLimp"]


class Rigged:
    """A device that is a rig; stands in front of LeRobot's class among the bases."""

    _joints: Joints

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

    def disconnect(self) -> None:
        """Switch every motor off and let the port go; once more does nothing.

        LeRobot's tools disconnect one device after the other when something has failed. An error here, because this
        one is closed already, would keep them from the next.
        """
        self._joints.close()


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
