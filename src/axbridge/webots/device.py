"""Device and Sensor, the bases of everything a robot's `getDevice` returns, and the node type numbers."""

from __future__ import annotations

from axbridge.webots.session import current, say

_NODES = (
    "ROBOT ACCELEROMETER ALTIMETER BRAKE CAMERA COMPASS CONNECTOR DISPLAY DISTANCE_SENSOR EMITTER GPS GYRO"
    " INERTIAL_UNIT LED LIDAR LIGHT_SENSOR LINEAR_MOTOR PEN POSITION_SENSOR PROPELLER RADAR RANGE_FINDER RECEIVER"
    " ROTATIONAL_MOTOR SKIN SPEAKER TOUCH_SENSOR VACUUM_GRIPPER"
)


class Node:
    """Node type numbers of R2025a, as `Node.ROTATIONAL_MOTOR`."""

    NO_NODE = 0


for _number, _name in enumerate(_NODES.split(), start=34):
    setattr(Node, _name, _number)


class Device:
    """Something with a name."""

    _node = "NO_NODE"

    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:
        return self._name

    def getModel(self) -> str:
        """The rig's description of the model; empty here."""
        return ""

    def getNodeType(self) -> int:
        return int(getattr(Node, self._node))

    name = property(getName)
    model = property(getModel)

    @property
    def node_type(self) -> int:
        """As `getNodeType`."""
        return self.getNodeType()


class Sensor(Device):
    """A device with a sampling period, ms; constructed by name it enables itself, from `getDevice` it does not."""

    def __init__(self, name: str, sampling_period: int | None = None, *, found: bool = False) -> None:
        super().__init__(name)
        if not found:
            self.enable(int(current().time_step) if sampling_period is None else sampling_period)

    def enable(self, samplingPeriod: int) -> None:
        """Sample every so many ms; 0 disables, a negative period is refused."""
        if samplingPeriod < 0:
            say(f"Error: {self._name}: sampling period must not be negative: {samplingPeriod}")
            return
        self._enable(int(samplingPeriod))

    def disable(self) -> None:
        """Stop sampling."""
        self._enable(0)

    def getSamplingPeriod(self) -> int:
        raise NotImplementedError

    def _enable(self, period: int) -> None:
        raise NotImplementedError

    @property
    def sampling_period(self) -> int:
        """As `getSamplingPeriod` and `enable`."""
        return self.getSamplingPeriod()

    @sampling_period.setter
    def sampling_period(self, period: int | None) -> None:
        self.enable(0 if period is None else period)

    def _say_disabled(self, what: str) -> None:
        kind = type(self).__name__
        say(f"Error: {kind}.{what}() called for a disabled device! Please use: {kind}.enable().")
