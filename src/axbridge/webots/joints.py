"""Motor, PositionSensor and Brake of today's Webots, and the Servo of releases before 7.2, on an axbridge servo."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from axbridge.robot.drives.drive import EMULATION
from axbridge.robot.robot import Robot
from axbridge.robot.servo import Servo as NativeServo
from axbridge.webots.catalogue import Kind, find, missing, own_name
from axbridge.webots.devices import Device, Sensor, newer_names
from axbridge.webots.session import Sampler, current, is_negative, reported, say

_Quantity = Literal["position", "torque"]
_Get = Callable[[Any], Any]
_Sampling = tuple[Callable[[Any, int], None], _Get, _Get, _Get]


def _joint(name: str) -> NativeServo | None:
    """Return the servo of a device name; None, with messages, if the rig has none."""
    if named := find(current(), name):
        return current().robot[named[1]]
    say(f'Warning: "{name}" device not found.')
    current().say_once(missing(current(), name))
    return None


def truncated(value: float, resolution: float) -> float:
    """Round as Webots' sensors do: add half a resolution, then truncate towards zero; -0.3 at 0.1 gives -0.2."""
    if not resolution or not math.isfinite(value):
        return value
    return int(value / resolution + 0.5) * resolution


@newer_names("type")
class _JointDevice(Device):
    """A device of a joint; for a missing joint its methods return NaN, 0 or None with a message."""

    ROTATIONAL, LINEAR = 0, 1

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._servo = _joint(name)

    @property
    def _native(self) -> NativeServo | None:
        if self._servo is None:
            say(f"Error: {type(self).__name__}: invalid device tag.")
        return self._servo

    def _command(self, command: str, *values: float, **how: bool) -> None:
        servo = self._native
        if servo is None:
            return
        for value in values:
            math.isnan(value)  # None or text: TypeError, as Webots' module raises
        with reported(self._name):
            getattr(servo, command)(*values, **how)

    def _ask(self, reading: str, missing: Any = 0.0) -> Any:
        servo = self._native
        return missing if servo is None else getattr(servo, reading)

    def _sampler_of(self, quantity: _Quantity) -> Sampler[float]:
        """Return the sampler of a quantity of the servo; a disabled one for a missing joint."""
        servo = self._native
        if servo is None:
            return Sampler()
        name = servo.name

        def read(robot: Robot) -> float:
            servo = robot[name]
            return servo.torque if quantity == "torque" else truncated(servo.turned, servo.config.resolution)

        return current().sampler(name, quantity, read)

    def _sample_every(self, quantity: _Quantity, period: int) -> None:
        """Enable the joint's sensor of this quantity; 0 disables, a negative period is refused."""
        servo = self._native
        if servo is not None and not is_negative(self._name, period):
            if quantity == "torque" and period and servo.capabilities["torque_feedback"] == "emulated":
                current().say_once(f"Warning: {self._name}: servo {servo.name!r} {EMULATION['torque_feedback']}")
            self._sampler_of(quantity).enable(period, current().robot.time)

    def getType(self) -> int:
        return self.LINEAR if self._ask("type") == "linear" else self.ROTATIONAL


def _getter(reading: str, missing: float = 0.0) -> Callable[[Any], float]:
    """Return a method that returns a number of the servo; 0 for an infinite limit."""

    def figure(device: Any) -> float:
        value = float(device._ask(reading, missing))  # noqa: SLF001 - a method of the class above
        return 0.0 if math.isinf(value) else value

    return figure


def _device(kind: Kind) -> Callable[[Any], Any]:
    """Return a method that returns another device of the joint: a new object each time, with sensors disabled."""

    def other(device: Any) -> Any:
        servo = device._native  # noqa: SLF001 - as above
        if servo is None or (kind == "brake" and not servo.has_brake):
            return None
        name = own_name(current(), kind, servo.name)
        if kind == "sensor":
            return PositionSensor(name, registered=True)
        return Motor(name) if kind == "motor" else Brake(name)

    return other


def _sampling(quantity: _Quantity) -> _Sampling:
    """Return the methods of a quantity's sensor: enable, disable, sampling period, latest sample."""
    return (
        lambda device, samplingPeriod: device._sample_every(quantity, int(samplingPeriod)),  # noqa: SLF001
        lambda device: device._sample_every(quantity, 0),  # noqa: SLF001
        lambda device: device._sampler_of(quantity).period,  # noqa: SLF001
        lambda device: device._sampler_of(quantity).value,  # noqa: SLF001
    )


@newer_names("torque_feedback force_feedback brake position_sensor")
@newer_names("available_torque available_force min_position max_position max_velocity max_torque max_force multiplier")
class Motor(_JointDevice):
    """RotationalMotor or LinearMotor."""

    getAcceleration, getMultiplier = _getter("acceleration"), _getter("multiplier", 1.0)
    getAvailableTorque, getMaxTorque, getMaxVelocity = map(_getter, ("available_torque", "max_torque", "max_velocity"))
    getMinPosition, getMaxPosition = _getter("min_position"), _getter("max_position")

    def _kind(self) -> str:
        return "LINEAR_MOTOR" if self.getType() == self.LINEAR else "ROTATIONAL_MOTOR"

    def setPosition(self, position: float) -> None:
        """Set the target position, rad or m; ±inf = velocity control."""
        self._command("set_position", position, clip=True)

    def getTargetPosition(self) -> float:
        """Return the latest request; before the first one the joint's position: a Dynamixel is limp until then."""
        target = float(self._ask("requested", (0.0, 0.0))[0])
        return float(self._ask("position")) if math.isnan(target) else target

    def setVelocity(self, velocity: float) -> None:
        self._command("set_velocity", velocity)

    def getVelocity(self) -> float:
        return float(self._ask("requested", (0.0, 0.0))[1])

    def setAcceleration(self, acceleration: float) -> None:
        self._command("set_acceleration", acceleration)

    def setAvailableTorque(self, torque: float) -> None:
        self._command("set_available_torque", torque)

    def setTorque(self, torque: float) -> None:
        self._command("set_torque", torque)

    def setControlPID(self, p: float, i: float, d: float) -> None:
        self._command("set_control_pid", p, i, d)

    getBrake, getPositionSensor = _device("brake"), _device("sensor")
    enableTorqueFeedback, disableTorqueFeedback, getTorqueFeedbackSamplingPeriod, getTorqueFeedback = _sampling(
        "torque"
    )
    setForce = setTorque
    setAvailableForce, getAvailableForce, getMaxForce = setAvailableTorque, getAvailableTorque, getMaxTorque
    enableForceFeedback, disableForceFeedback = enableTorqueFeedback, disableTorqueFeedback
    getForceFeedback, getForceFeedbackSamplingPeriod = getTorqueFeedback, getTorqueFeedbackSamplingPeriod

    target_position = property(getTargetPosition, setPosition)
    target_velocity = property(getVelocity, setVelocity)
    target_acceleration = property(getAcceleration, setAcceleration)
    torque = force = property(None, setTorque)
    torque_feedback_sampling_period = force_feedback_sampling_period = property(
        getTorqueFeedbackSamplingPeriod, enableTorqueFeedback
    )


@newer_names("value motor brake")
class PositionSensor(Sensor, _JointDevice):
    """Position of a joint, rad or m."""

    def __init__(self, name: str, sampling_period: int | None = None, *, registered: bool = False) -> None:
        self._servo = _joint(name)
        Sensor.__init__(self, name, sampling_period, registered=registered or self._servo is None)

    def _enable(self, period: int) -> None:
        self._sample_every("position", period)

    def getSamplingPeriod(self) -> int:
        return self._sampler_of("position").period

    def getValue(self) -> float:
        sampler = self._sampler_of("position")
        if not sampler.period:
            self._say_disabled("getValue")
        return sampler.value

    getMotor, getBrake = _device("motor"), _device("brake")


@newer_names("motor position_sensor")
class Brake(_JointDevice):
    """Damping added to a joint at run time."""

    def setDampingConstant(self, dampingConstant: float) -> None:
        self._command("set_damping_constant", dampingConstant)

    getMotor, getPositionSensor = _device("motor"), _device("sensor")
    dampingConstant = property(None, setDampingConstant)


class Servo(Motor):
    """The Servo node of Webots before 7.2: motor and position sensor in one, forces instead of torques."""

    def setMotorForce(self, force: float) -> None:
        self.setAvailableTorque(force)

    def setControlP(self, p: float) -> None:
        self.setControlPID(p, 0.0, 0.0)

    enablePosition, disablePosition, getPositionSamplingPeriod, getPosition = _sampling("position")
    enableMotorForceFeedback = Motor.enableTorqueFeedback
    disableMotorForceFeedback = Motor.disableTorqueFeedback
    getMotorForceFeedback = Motor.getTorqueFeedback
    getMotorForceFeedbackSamplingPeriod = Motor.getTorqueFeedbackSamplingPeriod
