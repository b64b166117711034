"""The devices of `getDevice` apart from joints: body sensors, and devices that axbridge does not have.

An absent device warns once and returns empty values of Webots' types, so that controllers continue (source: the Python
API of Webots R2025a, `lib/controller/python/controller/*.py`: each method's result type).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from axbridge.webots import catalogue
from axbridge.webots.session import Sampler, current, is_negative, say

Owner = TypeVar("Owner")


def snake(name: str) -> str:
    """Return a name in the style of Webots' newer Python API: ``position_sensor`` for ``PositionSensor``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


_NODES = (
    "ROBOT ACCELEROMETER ALTIMETER BRAKE CAMERA COMPASS CONNECTOR DISPLAY DISTANCE_SENSOR EMITTER GPS GYRO"
    " INERTIAL_UNIT LED LIDAR LIGHT_SENSOR LINEAR_MOTOR PEN POSITION_SENSOR PROPELLER RADAR RANGE_FINDER RECEIVER"
    " ROTATIONAL_MOTOR SKIN SPEAKER TOUCH_SENSOR VACUUM_GRIPPER"
)


def newer_names(names: str) -> Callable[[type[Owner]], type[Owner]]:
    """Add properties of Webots' newer Python API to a class: `max_value` for getMaxValue and, if any, setMaxValue."""

    def named(owner: type[Owner]) -> type[Owner]:
        for name in names.split():
            method = name.title().replace("_", "")
            setattr(owner, name, property(getattr(owner, f"get{method}"), getattr(owner, f"set{method}", None)))
        return owner

    return named


def getter(path: str) -> Callable[[Any], Any]:
    """Return a method that returns the attribute at a dotted path from its object."""
    return lambda own: attrgetter(path)(own)  # noqa: PLW0108 - only functions become methods


class Node:
    """Node type numbers of Webots R2025a, as `Node.ROTATIONAL_MOTOR`."""

    NO_NODE = 0


for _number, _name in enumerate(_NODES.split(), start=34):
    setattr(Node, _name, _number)


@newer_names("name model node_type")
class Device:
    """A device with a name."""

    _model = ""  # a rig has no models of devices

    def __init__(self, name: str) -> None:
        self._name = name

    getName, getModel = getter("_name"), getter("_model")

    def getNodeType(self) -> int:
        return int(getattr(Node, self._kind(), Node.NO_NODE))

    def _kind(self) -> str:
        return snake(type(self).__name__).upper()


class Sensor(Device):
    """A device with a sampling period, ms; enabled when constructed by name, but not by `getDevice`."""

    _sampler: Sampler[Any]

    def __init__(self, name: str, sampling_period: int | None = None, *, registered: bool = False) -> None:
        super().__init__(name)
        if not registered:
            self.enable(int(current().time_step) if sampling_period is None else sampling_period)

    def enable(self, samplingPeriod: int) -> None:
        """Sample every `samplingPeriod` ms; 0 disables, a negative period is refused."""
        if not is_negative(self._name, samplingPeriod):
            self._enable(int(samplingPeriod))

    def disable(self) -> None:
        self._enable(0)

    getSamplingPeriod = getter("_sampler.period")

    def _enable(self, period: int) -> None:
        self._sampler.enable(period, current().robot.time)

    sampling_period = property(lambda own: own.getSamplingPeriod(), lambda own, ms: own.enable(ms or 0))

    def _say_disabled(self, what: str) -> None:
        kind = type(self).__name__
        say(f"Error: {kind}.{what}() called for a disabled device! Please use: {kind}.enable().")


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
_BY_PROPERTY = {snake(method).removeprefix("get_"): value for method, value in _BY_METHOD.items()}


def absent_value(name: str) -> Any:
    """Return the value of an absent device's method or property: a new list each time; None for an unknown one."""
    value = _BY_METHOD.get(name, _BY_PROPERTY.get(name))
    if name.startswith(("is", "has")) and value is None:
        return False
    return list(value) if isinstance(value, list) else value


_ABSENT = (  # sensors, actuators, and the classes of some of their results
    "Altimeter Camera Compass Lidar LightSensor Radar RangeFinder Receiver Joystick Mouse"
    " Connector Display Emitter Pen Skin Speaker VacuumGripper"
    " CameraRecognitionObject ContactPoint Field LidarPoint Proto RadarTarget"
)
_OBJECTS = {  # methods that return an object, and its class
    **dict.fromkeys(["getSelf", "getRoot", "getParentNode", "getSelected"], "Node"),
    **dict.fromkeys(["getField", "getBaseNodeField", "getProtoField"], "Field"),
    "getProto": "Proto",
    "getState": "MouseState",
}


class AbsentDevice(Sensor):
    """A device that axbridge does not have: its methods do nothing, and return NaN, 0 or empty values."""

    def __init__(self, name: str = "", sampling_period: int | None = None, *, registered: bool = True) -> None:  # noqa: ARG002
        Device.__init__(self, name)
        self._sampler = Sampler()

    def _enable(self, period: int) -> None:
        self._say()
        self._sampler.period = period

    def _say(self) -> None:
        kind = type(self).__name__
        current().say_once(f'Warning: {kind} "{self._name}": this robot has none; it reads nothing and does nothing.')

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._say()
        kind = _OBJECTS.get(name)
        value = absent_value(name) if kind is None else AbsentNode(name) if kind == "Node" else ABSENT[kind](name)
        return value if name in _BY_PROPERTY else lambda *_arguments, **_named: value


class LED(AbsentDevice):
    """An LED that is not shown; it stores its value."""

    _value = 0

    def set(self, value: int) -> None:
        self._say()
        self._value = value

    get = getter("_value")
    value = property(get, lambda lamp, value: lamp.set(value))


class MouseState(AbsentDevice):
    """The state of an absent mouse."""

    u = v = x = y = z = math.nan
    left = middle = right = False


ABSENT: dict[str, type[AbsentDevice]] = {
    **{name: type(name, (AbsentDevice,), {"__doc__": f"{name}: an absent device."}) for name in _ABSENT.split()},
    "LED": LED,
    "MouseState": MouseState,
}


class AbsentNode(AbsentDevice, Node):
    """A node of the scene tree, which axbridge does not have."""


@newer_names("lookup_table")
class _BodySensor(AbsentDevice):
    """A device that reads a sensor of the rig; NaN before the first sample and while the sensor is lost."""

    def __init__(self, name: str = "", sampling_period: int | None = None, *, registered: bool = False) -> None:
        super().__init__(name)
        self._config = catalogue.sensor_behind(current(), type(self).__name__, name)
        if self._config is not None:
            sensor = self._config.name
            self._sampler = current().sampler(name, "", lambda robot: robot.sensors.get(sensor))
            Sensor.__init__(self, name, sampling_period, registered=registered)

    def _enable(self, period: int) -> None:
        if self._config is None:
            super()._enable(period)
        else:
            Sensor._enable(self, period)  # noqa: SLF001 - its own

    def _read(self, method: str, part: Callable[[Any], Any]) -> Any:
        """Return a part of the latest sample, or without one the value of an absent device."""
        if self._config is None:
            self._say()
            return absent_value(method)
        if not self._sampler.period:
            self._say_disabled(method)
        sample = self._sampler.value
        return absent_value(method) if sample is None or isinstance(sample, float) else part(sample)

    def getLookupTable(self) -> list[float]:
        return []


def _vector(method: str, field: str) -> Callable[[Any], list[float]]:
    """Return a Webots method that returns a vector of the sample."""
    return lambda sensor: list(sensor._read(method, attrgetter(field)))  # noqa: SLF001 - a method of the class below


@newer_names("roll_pitch_yaw quaternion noise")
class InertialUnit(_BodySensor):
    """Orientation of an IMU."""

    getRollPitchYaw = _vector("getRollPitchYaw", "roll_pitch_yaw")
    getQuaternion = _vector("getQuaternion", "orientation")

    def getNoise(self) -> float:
        return math.nan if self._config is None else self._config.orientation_noise


class Gyro(_BodySensor):
    """Angular velocity of an IMU, rad/s."""

    getValues = _vector("getValues", "rates")
    value = property(getValues)


class Accelerometer(_BodySensor):
    """Specific force of an IMU in its axes, m/s²; at rest 9.81 upwards."""

    getValues = _vector("getValues", "acceleration")
    value = property(getValues)


@newer_names("speed_vector speed coordinate_system")
class GPS(_BodySensor):
    """Position, m, and velocity, m/s, in the world."""

    LOCAL, WGS84 = 0, 1
    getValues = _vector("getValues", "position")
    getSpeedVector = _vector("getSpeedVector", "speed")

    def getSpeed(self) -> float:
        return float(self._read("getSpeed", lambda sample: math.hypot(*sample.speed)))

    getCoordinateSystem = getter("LOCAL")
    value = property(getValues)


@newer_names("type value values")
class TouchSensor(_BodySensor):
    """Contact force on a link, N, or whether it has a contact."""

    BUMPER, FORCE, FORCE3D = 0, 1, 2
    _types: ClassVar = {"bumper": BUMPER, "force": FORCE, "force-3d": FORCE3D}
    getValues = _vector("getValues", "force")

    def getType(self) -> int:
        return self.BUMPER if self._config is None else self._types[self._config.kind]

    def getValue(self) -> float:
        """Return for a bumper 1 while its link has a contact, else 0; else the force on the sensor's face, N."""
        bumper = self._config is not None and self._config.kind == "bumper"
        return float(self._read("getValue", attrgetter("touched" if bumper else "pressed")))


@newer_names("type value max_value min_value aperture")
class DistanceSensor(_BodySensor):
    """Distance to the floor along the sensor's x axis, m; its range if the beam does not reach the floor."""

    GENERIC, INFRA_RED, SONAR, LASER = 0, 1, 2, 3
    getType = getter("GENERIC")

    def getValue(self) -> float:
        return float(self._read("getValue", attrgetter("distance")))

    def getMaxValue(self) -> float:
        return math.nan if self._config is None else self._config.range

    def getMinValue(self) -> float:
        return math.nan if self._config is None else 0.0

    getAperture = getMinValue


_BODY = (Accelerometer, DistanceSensor, GPS, Gyro, InertialUnit, TouchSensor)
DEVICES: dict[str, type[AbsentDevice]] = {**ABSENT, **{kind.__name__: kind for kind in _BODY}}


class AnsiCodes:
    """Escape codes for console colours."""

    RESET, BOLD, UNDERLINE, CLEAR_SCREEN = "\x1b[0m", "\x1b[1m", "\x1b[4m", "\x1b[2J"


for _number, _colour in enumerate(["BLACK", "RED", "GREEN", "YELLOW", "BLUE", "MAGENTA", "CYAN", "WHITE"]):
    setattr(AnsiCodes, f"{_colour}_FOREGROUND", f"\x1b[{30 + _number}m")
    setattr(AnsiCodes, f"{_colour}_BACKGROUND", f"\x1b[{40 + _number}m")
