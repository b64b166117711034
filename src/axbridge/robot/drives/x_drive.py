"""The drive of a servo of the X series (or MX with Protocol 2.0): position, speed and acceleration by its own profile.

A goal is Goal Position with a Profile Velocity; the torque is capped by Goal PWM. The servo must be in position mode,
with a profile by velocity. If it is not, both are changed while the robot is open (EEPROM, once), and put back after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from axbridge.bus.base import Bus
from axbridge.bus.commission import answers_ping, apply_registers
from axbridge.bus.cycle import CycleServo, Goal, RawState
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import BusError, BusTimeout, HardwareError
from axbridge.protocols.v1 import Instruction
from axbridge.robot.drives.drive import Capability, Sensed
from axbridge.robot.drives.dynamixel import DYNAMIXEL_CAPABILITIES, DynamixelDrive
from axbridge.servo.setpoints import Setpoints
from axbridge.state import ServoState

__all__ = ["XDrive"]

X_CAPABILITIES: dict[str, Capability] = {
    **DYNAMIXEL_CAPABILITIES,
    "wheel": "unsupported",
    "acceleration": "native",
}
_POSITION_MODE = 3
_TIMED = 4  # bit of Drive Mode: the profile counts milliseconds
_ACCELERATION = 214.577 * 2 * math.pi / 3600  # rad/s² a count of Profile Acceleration
_MOST_ACCELERATION = 32767
_BOOT_LOOKS = 10


class XDrive(DynamixelDrive):
    """One servo on a bus; arguments and errors as of `DynamixelDrive`."""

    def __init__(
        self,
        config: ServoConfig,
        profile: FirmwareProfile,
        model: ServoModel,
        bus: Bus,
        truth: Callable[[str, float], tuple[float, float]] | None = None,
    ) -> None:
        super().__init__(config, profile, model, bus, truth)
        pid: Capability = self.capabilities["pid"]
        self.capabilities: Mapping[str, Capability] = {**X_CAPABILITIES, "pid": pid}
        self._top_speed = profile.units.top_speed  # counts that it takes; read when it is switched on
        self._top_duty = profile.units.full_scale
        self._acceleration = -1.0  # as written last, rad/s²
        self._own: dict[str, int] = {}  # registers that were changed for good, with what they held

    @property
    def shut_down(self) -> bool:
        """Whether it has switched itself off."""
        return self.read("hardware_error_status") != 0

    def power(self, *, on: bool) -> float:
        """Switch the motor; on: in position mode, and the present position becomes the goal first."""
        if not on:
            return super().power(on=False)
        self._direct_goal = None
        self._set_mode()
        present = self.read("present_position")
        low, high = self.read("min_position_limit"), self.read("max_position_limit")
        self._top_speed, self._top_duty = self.read("velocity_limit"), self.read("pwm_limit")
        self._acceleration = math.nan  # unknown: the next command writes it
        self._powered = True
        if not self.shut_down:  # else it takes no torque until it is woken
            self.write("goal_position", min(max(present, low), high))
            self.write("torque_enable", 1)
        self._speed = self._correction = 0.0
        return self.calibration.angle(present)

    def wake(self) -> None:
        """Start it anew if it shut itself down, and give it its torque back if it should have it."""
        if self.shut_down:
            self.bus.instruct(self.id, Instruction.REBOOT)
            for _ in range(_BOOT_LOOKS):
                self.bus.clock.sleep_until(self.bus.clock.now() + 1e-3 * self.profile.timing.boot_ms)
                if answers_ping(self.bus, self.id):
                    break
            else:
                raise BusTimeout(self.id, f"servo {self.config.name!r} was rebooted, and does not answer since")
            _, errors = apply_registers(self.bus, self.id, self.profile, self.config.registers)
            for error in errors.values():
                raise error
        if self._powered:
            self.power(on=True)

    def cycle_servo(self, low: float, high: float) -> CycleServo | None:
        """Its limits for the bus cycle."""
        servo = super().cycle_servo(low, high)
        return None if servo is None else replace(servo, protocol=2, top_torque=self.profile.units.full_scale)

    def command(self, setpoints: Setpoints, sensed: Sensed, period: float) -> Goal | None:
        """As of every drive; the acceleration is the servo's own."""
        if self._powered and setpoints.enabled and setpoints.acceleration != self._acceleration:
            limit = setpoints.acceleration
            counts = 0 if limit < 0 else min(max(round(limit / _ACCELERATION), 1), _MOST_ACCELERATION)
            self.write("profile_acceleration", counts)
            self._acceleration = limit
        if setpoints.acceleration != -1:
            setpoints = replace(setpoints, acceleration=-1.0)
        return super().command(setpoints, sensed, period)

    def state(self, raw: RawState | None, start: float) -> ServoState:
        """Registers in SI units; the torque is an estimate, the load is the duty."""
        assert raw is not None
        units, direction = self.profile.units, self.config.direction
        velocity = direction * raw.speed * units.speed
        load = direction * raw.load / units.full_scale
        voltage, temperature = raw.voltage * units.voltage, float(raw.temperature)
        torque = self.steady.at(temperature).torque(load, voltage, velocity) if self._powered else 0.0
        position, errors = self.position(raw), HardwareError(raw.error)
        return ServoState(raw.time - start, position, velocity, torque, load, voltage, temperature, errors)

    def restore(self) -> None:
        """Put mode and profile back, limp; see `Drive.restore`."""
        if not self._own:
            return
        try:
            self.write("torque_enable", 0)
            for name, value in list(self._own.items()):
                self.write(name, value)
                del self._own[name]
        except BusError as failure:
            port = getattr(self.bus, "port_name", None)
            where = f" --port {port}" if port else ""
            commands = [f"axbridge servo write {self.id} {name} {value}{where}" for name, value in self._own.items()]
            names, who = ", ".join(self._own), f"servo {self.config.name!r} (id {self.id})"
            raise BusError(
                f"{who} did not take {names} back ({failure.message})",
                "when that is seen to, mend it: " + " && ".join(commands),
            ) from failure

    def _set_mode(self) -> None:
        """Position mode, and a profile by velocity; what was there is kept, to be put back."""
        drive = self.read("drive_mode")
        wanted = {"operating_mode": _POSITION_MODE, "drive_mode": drive & ~_TIMED}
        held = {"operating_mode": self.read("operating_mode"), "drive_mode": drive}
        changes = {name: value for name, value in wanted.items() if held[name] != value}
        if changes:
            self.write("torque_enable", 0)  # the EEPROM takes nothing while it is on
        for name, value in changes.items():
            self._own.setdefault(name, held[name])  # from here on: a write that seems to fail may have arrived
            self.write(name, value)

    def _goal(self, position: float, speed: int, limit: int) -> Goal:
        return super()._goal(position, min(speed, self._top_speed), min(limit, self._top_duty))
