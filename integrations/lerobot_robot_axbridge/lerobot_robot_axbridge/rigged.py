"""What a robot and a teleoperator of LeRobot have in common here: both are a rig."""

from __future__ import annotations

from lerobot.utils.decorators import check_if_already_connected

from lerobot_robot_axbridge.joints import Joints

__all__ = ["Rigged"]


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
