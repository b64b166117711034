"""How a controller uses a device that its robot does not have: the methods it calls, read from its own source."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parents[1])
# methods of Motor, PositionSensor, Brake and the old Servo: nothing else takes a position, a force or a damping
_JOINT = re.compile(
    r"(set|get|enable)\w*(Position|Velocity|Acceleration|Torque|Force|Motor|Brake|Control|Damping)\w*|\w+_(position|velocity|torque)"
)
_TELLING: Mapping[str, str] = {  # a method or property that one kind of device alone has -> its class
    method: kind
    for kind, methods in {
        "Camera": "getImage getImageArray saveImage recognitionEnable hasRecognition getRecognitionObjects",
        "RangeFinder": "getRangeImage getRangeImageArray",
        "Lidar": "getPointCloud enablePointCloud getLayerRangeImage getNumberOfLayers",
        "Radar": "getTargets getNumberOfTargets",
        "InertialUnit": "getRollPitchYaw getQuaternion roll_pitch_yaw",
        "GPS": "getSpeedVector getCoordinateSystem",
        "Receiver": "getQueueLength nextPacket getDataSize getSignalStrength queue_length",
        "Emitter": "send getBufferSize",
        "Speaker": "playSound speak setEngine",
        "Display": "drawPixel drawLine drawText drawRectangle fillRectangle fillOval imageNew imagePaste setColor",
        "Pen": "write setInkColor",
        "DistanceSensor": "getAperture getMaxValue getMinValue",
        "LED": "set",
        "Connector": "lock unlock getPresence enablePresence",
        "VacuumGripper": "turnOn turnOff",
    }.items()
    for method in methods.split()
}

_VECTORS = ("Accelerometer", "Gyro", "GPS", "Compass")  # all with getValues, as no joint's device; which, says the name


def class_by_use(name: str) -> str | None:
    """Webots class of the device `name`, judged by what the running controller does with it; None = not known.

    What moves or reads a joint is no absent device but a name that the rig does not have.
    """
    called = methods_called(name)
    if any(_JOINT.fullmatch(method) for method in called):
        return None
    if "getValues" in called:
        return next((kind for kind in _VECTORS if kind.lower() in name.lower()), _VECTORS[-1])
    return next((kind for method, kind in _TELLING.items() if method in called), None)


def methods_called(name: str) -> frozenset[str]:
    """Methods and properties that the calling script uses of what its ``getDevice(name)`` returned."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the interpreter's way to ask who called
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return frozenset()
    return _uses("".join(linecache.getlines(frame.f_code.co_filename)), name)


@lru_cache(maxsize=64)
def _uses(source: str, name: str) -> frozenset[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # of a prompt, or none at all
        return frozenset()
    holders: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_request(node.value, name):
            holders |= {ast.unparse(target) for target in node.targets}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (_is_request(node.value, name) or ast.unparse(node.value) in holders):
            used.add(node.attr)
    return frozenset(used)


def _is_request(node: ast.expr, name: str) -> bool:
    """Whether this is ``….getDevice("name")``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "getDevice"
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == name
    )
