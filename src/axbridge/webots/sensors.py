"""Webots' sensors of the body on those of the rig: an IMU is three devices; one that the rig lacks is an absent one."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

from axbridge.webots import catalogue
from axbridge.webots.absent import ABSENT, AbsentDevice, absent_value
from axbridge.webots.device import Sensor
from axbridge.webots.session import current


class _BodySensor(AbsentDevice):
    """A device that reads a sensor of the rig: NaN before the first sample, and while the sensor is lost."""

    def __init__(self, name: str = "", sampling_period: int | None = None, *, found: bool = False) -> None:
        super().__init__(name)
        self._config = catalogue.sensor_behind(current(), type(self).__name__, name)
        sensor = "" if self._config is None else self._config.name
        self._sampler = current().sensors.of(name, "", lambda robot: robot.sensors.get(sensor))
        if self._config is not None:
            Sensor.__init__(self, name, sampling_period, found=found)

    def getSamplingPeriod(self) -> int:
        return super().getSamplingPeriod() if self._config is None else self._sampler.period

    def _enable(self, period: int) -> None:
        if self._config is None:
            super()._enable(period)
        else:
            self._sampler.enable(period, current().robot.time)

    def _read(self, method: str, part: Callable[[Any], Any]) -> Any:
        """Part of the latest sample; what an absent device gives where there is none."""
        if self._config is None:
            self._say()
            return absent_value(method)
        if not self._sampler.period:
            self._say_disabled(method)
        sample = self._sampler.value
        return absent_value(method) if sample is None or isinstance(sample, float) else part(sample)

    def getLookupTable(self) -> list[float]:
        return []

    lookup_table = property(getLookupTable)


def _vector(method: str, field: str) -> Callable[[Any], list[float]]:
    """A method of Webots that gives a vector of the sample."""
    return lambda sensor: list(sensor._read(method, attrgetter(field)))  # noqa: SLF001 - a method of the class below


class InertialUnit(_BodySensor):
    """How an IMU is turned."""

    _node = "INERTIAL_UNIT"
    getRollPitchYaw = _vector("getRollPitchYaw", "roll_pitch_yaw")
    getQuaternion = _vector("getQuaternion", "orientation")

    def getNoise(self) -> float:
        return math.nan if self._config is None else self._config.orientation_noise

    roll_pitch_yaw = property(getRollPitchYaw)
    quaternion = property(getQuaternion)
    noise = property(getNoise)


class Gyro(_BodySensor):
    """How fast an IMU turns."""

    _node = "GYRO"
    getValues = _vector("getValues", "rates")
    value = property(getValues)


class Accelerometer(_BodySensor):
    """What an IMU is pushed with, along its x, y and z, m/s²; at rest 9.81 upwards."""

    _node = "ACCELEROMETER"
    getValues = _vector("getValues", "acceleration")
    value = property(getValues)


class GPS(_BodySensor):
    """Where it is."""

    _node = "GPS"
    LOCAL, WGS84 = 0, 1
    getValues = _vector("getValues", "position")
    getSpeedVector = _vector("getSpeedVector", "speed")

    def getSpeed(self) -> float:
        return float(self._read("getSpeed", lambda sample: math.hypot(*sample.speed)))

    def getCoordinateSystem(self) -> int:
        return self.LOCAL

    value = property(getValues)
    speed_vector = property(getSpeedVector)
    speed = property(getSpeed)
    coordinate_system = property(getCoordinateSystem)


class TouchSensor(_BodySensor):
    """What a link is pushed with, or whether anything touches it."""

    _node = "TOUCH_SENSOR"
    BUMPER, FORCE, FORCE3D = 0, 1, 2
    _types: ClassVar = {"bumper": BUMPER, "force": FORCE, "force-3d": FORCE3D}
    getValues = _vector("getValues", "force")

    def getType(self) -> int:
        return self.BUMPER if self._config is None else self._types[self._config.kind]

    def getValue(self) -> float:
        """A bumper: 1 while anything touches its link, else 0. Force: what presses on its face, N."""
        bumper = self._config is not None and self._config.kind == "bumper"
        return float(self._read("getValue", attrgetter("touched" if bumper else "pressed")))

    type = property(getType)
    value = property(getValue)
    values = property(getValues)


class DistanceSensor(_BodySensor):
    """How far the floor is, along its x axis, m; its range where there is none."""

    _node = "DISTANCE_SENSOR"
    GENERIC, INFRA_RED, SONAR, LASER = 0, 1, 2, 3

    def getType(self) -> int:
        return self.GENERIC

    def getValue(self) -> float:
        return float(self._read("getValue", attrgetter("distance")))

    def getMaxValue(self) -> float:
        return math.nan if self._config is None else self._config.range

    def getMinValue(self) -> float:
        return math.nan if self._config is None else 0.0

    getAperture = getMinValue
    type = property(getType)
    value = property(getValue)
    max_value = property(getMaxValue)
    min_value = aperture = property(getMinValue)


_BODY = (Accelerometer, DistanceSensor, GPS, Gyro, InertialUnit, TouchSensor)
DEVICES: dict[str, type[AbsentDevice]] = {**ABSENT, **{kind.__name__: kind for kind in _BODY}}
