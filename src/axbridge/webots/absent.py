"""Devices of a Webots robot that no backend here has: they say so once, and give empty values."""

from __future__ import annotations

import math
from typing import Any

from axbridge.webots.absent_values import absent_value, is_property
from axbridge.webots.device import Device, Node, Sensor
from axbridge.webots.session import say

_SENSORS = [
    "Altimeter",
    "Camera",
    "Compass",
    "Lidar",
    "LightSensor",
    "Radar",
    "RangeFinder",
    "Receiver",
    "Joystick",
    "Mouse",
]
_ACTUATORS = ["Connector", "Display", "Emitter", "LED", "Pen", "Skin", "Speaker", "VacuumGripper"]
_RECORDS = ["CameraRecognitionObject", "ContactPoint", "Field", "LidarPoint", "MouseState", "Proto", "RadarTarget"]
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


ABSENT: dict[str, type[AbsentDevice]] = {name: _make(name) for name in (*_SENSORS, *_ACTUATORS, *_RECORDS)}


class AbsentNode(AbsentDevice, Node):
    """A node of the scene tree, which no robot here has."""


class AnsiCodes:
    """Colours of the console."""

    RESET, BOLD, UNDERLINE, CLEAR_SCREEN = "\x1b[0m", "\x1b[1m", "\x1b[4m", "\x1b[2J"


for _number, _colour in enumerate(["BLACK", "RED", "GREEN", "YELLOW", "BLUE", "MAGENTA", "CYAN", "WHITE"]):
    setattr(AnsiCodes, f"{_colour}_FOREGROUND", f"\x1b[{30 + _number}m")
    setattr(AnsiCodes, f"{_colour}_BACKGROUND", f"\x1b[{40 + _number}m")
