"""Devices of a Webots robot that no backend here has: they say so once, and give empty values.

The values are of the types that Webots gives, so that controllers go on. Source: the Python API of Webots R2025a,
`lib/controller/python/controller/*.py`: each method's result type.
"""

from __future__ import annotations

import math
import re
from typing import Any

from axbridge.webots.device import Device, Node, Sensor
from axbridge.webots.session import say

_NAN, _NANS = math.nan, [math.nan]
_BY_METHOD: dict[str, Any] = {
    method: value
    for value, methods in [
        (0, "getQueueLength getDataSize getChannel getBufferSize getWidth getHeight getType getId getCount getSFInt32"),
        (0, "getNumberOfPoints getNumberOfLayers getHorizontalResolution getNumberOfTargets getPresence"),
        (0, "getRecognitionNumberOfObjects getRecognitionSamplingPeriod getNumberOfFields getBaseNodeNumberOfFields"),
        (0, "getNumberOfAxes getNumberOfPovs getAxisValue getPovValue"),
        (-1, "getPressedButton"),
        (_NAN, "getValue getMaxValue getMinValue getAperture getNoise getSpeed getSignalStrength getRange getSFFloat"),
        (_NAN, "getFov getVerticalFov getMinFov getMaxFov getNear getMinRange getMaxRange getExposure"),
        (_NAN, "getFrequency getMinFrequency getMaxFrequency"),
        (_NAN, "getFocalLength getFocalDistance getMinFocalDistance getMaxFocalDistance"),
        (_NANS * 2, "getSFVec2f"),
        (_NANS * 3, "getValues getRollPitchYaw getSpeedVector getEmitterDirection"),
        (_NANS * 3, "getPosition getCenterOfMass getSFVec3f getSFColor"),
        (_NANS * 4, "getQuaternion getSFRotation"),
        (_NANS * 6, "getVelocity"),
        (_NANS * 9, "getOrientation"),
        ([], "getRangeImage getLayerRangeImage getPointCloud getLayerPointCloud getTargets getRecognitionObjects"),
        ([], "getLookupTable getFloats getInts getContactPoints"),
        ("", "getString getLanguage getEngine getCoordinateSystem getTypeName getBaseTypeName getDef getSFString"),
        (b"", "getBytes getData"),
        (False, "isConnected isLocked isOn isSpeaking isSoundPlaying hasRecognition"),
    ]
    for method in methods.split()
}
_BY_PROPERTY = {
    re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", method).lower().removeprefix("get_"): value
    for method, value in _BY_METHOD.items()
}


def is_property(name: str) -> bool:
    """Whether this is a property (``queue_length``), which is not called."""
    return name in _BY_PROPERTY


def absent_value(name: str) -> Any:
    """What a method or property returns: a list of its own each time; None where Webots may return None, too."""
    value = _BY_METHOD.get(name, _BY_PROPERTY.get(name))
    if name.startswith(("is", "has")) and value is None:
        return False
    return list(value) if isinstance(value, list) else value


_ABSENT = (  # sensors, actuators, and what some of them return
    "Altimeter Camera Compass Lidar LightSensor Radar RangeFinder Receiver Joystick Mouse"
    " Connector Display Emitter LED Pen Skin Speaker VacuumGripper"
    " CameraRecognitionObject ContactPoint Field LidarPoint MouseState Proto RadarTarget"
)
_NODE_NAMES = {"LightSensor": "LIGHT_SENSOR"}
_OBJECTS = {  # what gives an object, and its class
    **dict.fromkeys(["getSelf", "getRoot", "getParentNode", "getSelected"], "Node"),
    **dict.fromkeys(["getField", "getBaseNodeField", "getProtoField"], "Field"),
    "getProto": "Proto",
    "getState": "MouseState",
}
_said: set[tuple[str, str]] = set()


class AbsentDevice(Sensor):
    """Any other device: its methods do nothing, and its values are NaN, 0 or empty, of the kind that Webots gives."""

    def __init__(self, name: str = "", sampling_period: int | None = None, *, found: bool = True) -> None:  # noqa: ARG002
        Device.__init__(self, name)
        self._period = 0
        self._value: Any = 0

    def getSamplingPeriod(self) -> int:
        return self._period

    def _enable(self, period: int) -> None:
        self._say()
        self._period = period

    def _say(self) -> None:
        key = (type(self).__name__, self._name)
        if key not in _said:
            _said.add(key)
            say(f'Warning: {key[0]} "{self._name}": this robot has none; it reads nothing and does nothing.')

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._say()
        kind = _OBJECTS.get(name)
        value = absent_value(name) if kind is None else AbsentNode(name) if kind == "Node" else ABSENT[kind](name)
        return value if is_property(name) else lambda *_arguments, **_named: value


def _set(self: AbsentDevice, value: int) -> None:
    """Keep the value, and say once that no lamp shows it."""
    self._say()
    self._value = value


def _make(name: str) -> type[AbsentDevice]:
    extra: dict[str, Any] = {}
    node = _NODE_NAMES.get(name, name.upper())
    if name == "MouseState":
        extra |= dict.fromkeys("uvxyz", math.nan) | dict.fromkeys(["left", "middle", "right"], False)
    if name == "LED":
        extra |= {"set": _set, "get": lambda self: self._value, "value": property(lambda self: self._value, _set)}
    return type(name, (AbsentDevice,), {"__doc__": f"{name}: not on any robot here.", "_node": node, **extra})


ABSENT: dict[str, type[AbsentDevice]] = {name: _make(name) for name in _ABSENT.split()}


class AbsentNode(AbsentDevice, Node):
    """A node of the scene tree, which no robot here has."""


class AnsiCodes:
    """Colours of the console."""

    RESET, BOLD, UNDERLINE, CLEAR_SCREEN = "\x1b[0m", "\x1b[1m", "\x1b[4m", "\x1b[2J"


for _number, _colour in enumerate(["BLACK", "RED", "GREEN", "YELLOW", "BLUE", "MAGENTA", "CYAN", "WHITE"]):
    setattr(AnsiCodes, f"{_colour}_FOREGROUND", f"\x1b[{30 + _number}m")
    setattr(AnsiCodes, f"{_colour}_BACKGROUND", f"\x1b[{40 + _number}m")
