"""Webots' Robot class on an axbridge robot: devices by name and index, steps, time, battery, and the old names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

from axbridge.webots import catalogue
from axbridge.webots.devices import DEVICES, AbsentDevice, AbsentNode, getter, newer_names
from axbridge.webots.joints import Brake, Motor, PositionSensor, Servo
from axbridge.webots.keyboard import Keyboard
from axbridge.webots.session import Sampler, current, is_negative, say

_DEPRECATED = (  # robot.getMotor(name), and so on
    "Motor PositionSensor Brake LED Accelerometer Gyro InertialUnit TouchSensor Altimeter Camera Compass Connector"
    " Display DistanceSensor Emitter GPS Lidar LightSensor Pen Radar RangeFinder Receiver Skin Speaker"
)


@newer_names("project_path world_path supervisor synchronization")
@newer_names("number_of_devices basic_time_step time name model custom_data")
class Robot:
    """The robot of this controller process; subclass it or use it as it is."""

    EVENT_QUIT, EVENT_NO_EVENT, EVENT_MOUSE_CLICK, EVENT_MOUSE_MOVE, EVENT_KEYBOARD = -1, 0, 1, 2, 4
    EVENT_JOYSTICK_BUTTON, EVENT_JOYSTICK_AXIS, EVENT_JOYSTICK_POV = 8, 16, 32
    MODE_SIMULATION, MODE_CROSS_COMPILATION, MODE_REMOTE_CONTROL = 0, 1, 2
    KEYBOARD_END, KEYBOARD_HOME, KEYBOARD_LEFT, KEYBOARD_UP = 312, 313, 314, 315
    KEYBOARD_RIGHT, KEYBOARD_DOWN, KEYBOARD_PAGEUP, KEYBOARD_PAGEDOWN = 316, 317, 366, 367
    KEYBOARD_KEY, KEYBOARD_SHIFT, KEYBOARD_CONTROL, KEYBOARD_ALT = 0xFFFF, 0x10000, 0x20000, 0x40000
    created: ClassVar[Robot | None] = None

    def __init__(self) -> None:
        if Robot.created is not None:
            say("Error: only one Robot instance can be created per controller process.")
            return
        Robot.created = self
        self._session = current()
        self._battery = Sampler[float]()
        self._battery.value = -1.0
        self._ended = False
        self._began = False
        self._servos: dict[str, Servo] = {}
        self._custom_data = self._session.rig.webots.custom_data
        _ = self._session.robot  # opens the robot, so that a missing servo is reported before the controller begins
        self.keyboard = Keyboard(0)
        self.mouse = DEVICES["Mouse"]("mouse")
        self.joystick = DEVICES["Joystick"]("joystick")
        self.devices: dict[str, Any] = {name: self._make(name) for name in catalogue.device_names(self._session)}

    def _make(self, name: str) -> Any:
        kind, servo = catalogue.find(self._session, name) or (None, None)
        if kind == "motor":
            return Motor(name)
        if kind == "sensor":
            return PositionSensor(name, registered=True)
        if kind == "brake" and self._session.robot[servo or ""].has_brake:
            return Brake(name)
        other = catalogue.sensor_class(self._session, name) or self._session.rig.webots.devices.get(name)
        if other is not None and other not in DEVICES:
            say(f"Unsupported device type: {other}")
        return None if other is None else DEVICES.get(other, AbsentDevice)(name, registered=True)

    # ---- devices

    def getDevice(self, name: str) -> Any:
        """Return the device, always the same object; None, with a line on stderr, for an unknown name."""
        if name not in self.devices:
            made = self._make(name)
            if made is None:
                self._say_missing(name)
                return None
            self.devices[name] = made
        return self.devices[name]

    def _say_missing(self, name: str) -> None:
        say(f'Device "{name}" was not found on robot "{self.getName()}"')
        self._session.say_once(catalogue.missing(self._session, name))

    def getServo(self, name: str) -> Any:
        named = catalogue.find(self._session, name)
        if named is None:
            self._say_missing(name)
            return None
        return self._servos.setdefault(name, Servo(name))

    def getDeviceByIndex(self, index: int) -> Any:
        """Return the device at an index, in the rig's order; KeyError for an index out of range."""
        devices = list(self.devices.values())
        if not 0 <= index < len(devices):
            say(f"Error: getDeviceByIndex: index {index} is outside 0..{len(devices) - 1}")
            raise KeyError(index)
        return devices[index]

    def getNumberOfDevices(self) -> int:
        return len(self.devices)

    getKeyboard, getMouse, getJoystick = map(getter, ("keyboard", "mouse", "joystick"))

    # ---- time

    def step(self, time_step: float | None = None) -> int:
        """Step by `time_step` ms; return 0 or the delay, ms. At the end return -1 once; the next call exits."""
        if self._ended:
            sys.exit(0)
        if time_step is not None and time_step < 0:
            say(f"Error: Robot.step(): negative step {time_step}")
            return 0
        late = self._session.step(int(self._session.time_step) if time_step is None else time_step)
        self._ended = late == -1
        if not self._ended:
            self._battery.offer(self._session.robot.battery_energy, self._session.robot.time)
        return late

    def stepBegin(self, time_step: float | None = None) -> int:
        """Begin a step; the commands given so far act in it."""
        if self._began:
            say("Warning: Robot.stepBegin() called twice without stepEnd().")
        self._began = True
        self._half = time_step
        return -1 if self._session.ending else 0

    def stepEnd(self) -> int:
        if not self._began:
            say("Warning: Robot.stepEnd() called without stepBegin().")
            return 0
        self._began = False
        return self.step(self._half)

    getBasicTimeStep, getTime = getter("_session.time_step"), getter("_session.robot.time")

    # ---- facts

    getName, getModel = getter("_session.rig.name"), getter("_session.rig.webots.model")
    getSynchronization, getCustomData = getter("_session.rig.webots.synchronization"), getter("_custom_data")
    getMode = getter("_session.robot.mode")  # MODE_CROSS_COMPILATION is a real robot
    mode = property(getMode)

    def setCustomData(self, data: str) -> None:
        self._custom_data = str(data)

    def getProjectPath(self) -> str:
        """Return the rig's ``webots.project_path``, else the controller's folder."""
        return self._session.rig.webots.project_path or str(self._session.project)

    def getWorldPath(self) -> str:
        """Return the path of the rig file, which takes the place of a world file."""
        return str(Path(self._session.rig.path).resolve())

    def getSupervisor(self) -> bool:
        return False

    def setMode(self, mode: int, arg: Any = None) -> None:  # noqa: ARG002 - Webots' signature
        """Change the backend: 0 for the simulation, other numbers for the real robot."""
        self._session.robot.switch("sim" if mode == self.MODE_SIMULATION else "real", port=self._session.port)

    def getUrdf(self, prefix: str = "") -> str:  # noqa: ARG002 - Webots' signature
        return self._session.rig.urdf_text()

    def wwiSendText(self, text: str) -> None:  # noqa: ARG002 - Webots' signature
        DEVICES["Display"]("robot window").wwiSendText()

    def wwiReceiveText(self) -> None:
        """Return None: there is no robot window."""

    def waitForUserInputEvent(self, event_type: int, timeout: int) -> int:  # noqa: ARG002 - Webots' signature
        return self.EVENT_NO_EVENT

    # ---- battery

    def batterySensorEnable(self, samplingPeriod: int) -> None:
        if is_negative("battery sensor", samplingPeriod):
            return
        if self._session.rig.robot.battery is None:
            say("Warning: this robot has no battery; its sensor reads -1.")
        self._battery.enable(int(samplingPeriod), self.getTime())
        self._battery.value = -1.0

    def batterySensorDisable(self) -> None:
        self._battery.enable(0, 0.0)

    batterySensorGetSamplingPeriod = getter("_battery.period")
    batterySensorGetValue = getter("_battery.value")  # J; -1.0 = no battery, or no sample yet

    def _set_battery_period(self, period: int | None) -> None:
        self.batterySensorEnable(int(self._session.time_step) if period is None else period)

    battery_sensor_sampling_period = property(batterySensorGetSamplingPeriod, _set_battery_period)

    # ---- names of Webots before 8

    def keyboardEnable(self, ms: int) -> None:
        self.keyboard.enable(ms)

    def keyboardDisable(self) -> None:
        self.keyboard.disable()

    def keyboardGetKey(self) -> int:
        return max(self.keyboard.getKey(), 0)


def _deprecated(kind: str) -> Any:
    label = "Led" if kind == "LED" else kind  # as Webots prints it

    def get_device(self: Robot, name: str) -> Any:
        say(f"DEPRECATION: Robot.get{label} is deprecated, please use Robot.getDevice instead.")
        joint = catalogue.find(current(), name) is not None
        if kind in DEVICES and name not in self.devices and not joint:
            self.devices[name] = DEVICES[kind](name, registered=True)
        return self.getDevice(name)

    get_device.__name__ = f"get{kind}"
    get_device.__doc__ = f"As getDevice; deprecated. An absent {kind} warns once."
    return get_device


for _kind in _DEPRECATED.split():
    setattr(Robot, f"get{_kind}", _deprecated(_kind))


class Supervisor(Robot):
    """A robot; each function that only a supervisor has warns once that it is not supported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in {"devices", "keyboard", "mouse", "joystick"}:
            raise AttributeError(name)
        return getattr(AbsentNode("the scene tree"), name)
