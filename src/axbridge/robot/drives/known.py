"""The drives of all servo families, by the names of their units; AX and MX servos have the base class, `BusDrive`.

X series, and MX with Protocol 2.0: each control mode is an Operating Mode. A position is Goal Position with a Profile
Velocity, a speed Goal Velocity, a duty Goal PWM, a torque Goal Current if the servo has it; Goal PWM caps the torque.
Each needs its Operating Mode, in EEPROM, and a velocity-based profile.
`restore` writes the original registers back.

Feetech: endless turning uses the velocity mode, a duty the PWM mode. The mode is an EEPROM register. The EEPROM lock is
set while the servo is driven, so a change of mode is lost when its power is cut. A servo of the SCS family has no
modes: it is a wheel while both position limits are 0, as an AX-12 is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from axbridge.bus.base import Bus
from axbridge.bus.commission import reboot
from axbridge.bus.cycle import Goal
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import GOAL_CURRENT, POSITION_MODES, DriveMode, FeetechAddress, OperatingMode, XAddress
from axbridge.config.rig import ServoSpec
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import BusTimeout, warn
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.robot.drives.drive import AX_CAPABILITIES, Capability, LatestSample
from axbridge.servo.setpoints import Limits, Setpoints, towards

_REST_GOALS = {  # goal that is set to 0 when torque comes on, by mode; the other modes get the present position
    OperatingMode.VELOCITY: "goal_velocity",
    OperatingMode.PWM: "goal_pwm",
    OperatingMode.CURRENT: "goal_current",
}
_ACCELERATION = 214.577 * 2 * math.pi / 3600  # rad/s² a count of Profile Acceleration
_MOST_ACCELERATION = 32767
_HALF_TURN = 2048  # counts
_AMPERE = 1e-3  # A a count of Goal Current
_FEETECH_VELOCITY, _FEETECH_DUTY = {"operating_mode": 1}, {"operating_mode": 2}


class XDrive(BusDrive):
    """One X servo on a bus; arguments and errors as for `BusDrive`.

    Positions use Operating Mode 4 or 5 if the rig's `registers` say so, else mode 3.
    """

    def __init__(self, config: ServoConfig, profile: FirmwareProfile, model: ServoModel, bus: Bus) -> None:
        mode = config.registers.get("operating_mode")
        self._home = OperatingMode(mode) if mode in POSITION_MODES else OperatingMode.POSITION
        super().__init__(config, profile, model, bus)
        self.has_own_limits = self._home == OperatingMode.POSITION
        self._top_speed = profile.units.top_speed  # Velocity Limit, counts; read when torque comes on
        self._cap = profile.units.full_scale
        self._top_current = 0
        self._current = -1  # Goal Current written last, counts, if it caps the torque
        self._acceleration = -1.0  # written last, rad/s²
        ends = map(self.calibration.angle, profile.reach({**config.registers, "operating_mode": int(self._home)}))
        low, high = sorted(ends)
        self.limits = Limits(low, high, self.limits.velocity)
        self._low, self._high = self.limits.low, self.limits.high

    def _own_capabilities(self, profile: FirmwareProfile) -> Mapping[str, Capability]:
        return {
            **AX_CAPABILITIES,
            "wheel": "native",
            "acceleration": "native",
            "extended_position": "unsupported" if self._home == OperatingMode.POSITION else "native",
            "torque": "native" if "goal_current" in profile.registers else "emulated",
            "available_torque": "native" if self._home == OperatingMode.CURRENT_BASED_POSITION else "emulated",
        }

    @property
    def shut_down(self) -> bool:
        """Return whether the servo has shut itself down for an error that its Shutdown register names."""
        errors = self.read("hardware_error_status")
        return errors != 0 and errors & self.read("shutdown") != 0

    def power(self, *, on: bool) -> float:
        """Switch the motor; on: in its latest mode, after the present position was made the goal. Return that, rad."""
        if not on:
            return super().power(on=False)
        return self._start(self._home if self._mode is None else self._mode)  # mode 0 is valid

    def _start(self, mode: OperatingMode) -> float:
        """Switch torque on in this mode, at rest; return the present position, rad."""
        if self.read("bus_watchdog") < 0:  # expired: the servo refuses goals
            self.write("bus_watchdog", 0)
        self._set_mode(mode)
        given, read = self.config.registers, self.read("present_position")
        own = {**given, "operating_mode": int(mode)}
        present = read if self.read("torque_enable") else self.profile.put_back(read, own)
        self._top_speed = self.read("velocity_limit")
        self.top_duty = min(self.read("pwm_limit"), given.get("goal_pwm", self.profile.units.full_scale))
        if "goal_current" in self.profile.registers:
            self._top_current = self.read("current_limit")
            self._top_current = min(self._top_current, given.get("goal_current", self._top_current))
        self._acceleration, self._current = math.nan, -1  # unknown: the next command writes them
        self.powered = True
        if not self.shut_down:  # else it refuses torque enable until a reboot
            if mode in _REST_GOALS:
                self.write(_REST_GOALS[mode], 0)
            else:
                self._hold_at(present, mode)
            self.write("torque_enable", 1)
            if mode == OperatingMode.POSITION and abs(self.read("present_position") - present) > _HALF_TURN:
                present = self.read("present_position")
                self._hold_at(present, mode)
            if present != read:
                warn(
                    f"servo {self.config.name!r} was beyond the end of its turn when torque came on: it has put its "
                    f"count back, from {read} to {present}, and stays where it is"
                )
        self._speed = self._correction = 0.0
        self._mode, self.is_wheel = mode, mode in _REST_GOALS
        return self.calibration.angle(present)

    def _hold_at(self, present: int, mode: OperatingMode) -> None:
        """Make the present position, counts, the goal."""
        if mode == OperatingMode.POSITION:
            low, high = self.read("min_position_limit"), self.read("max_position_limit")
            if not low <= present <= high:
                return  # the servo refuses such a goal, and itself holds the present position
        self.write("goal_position", present)

    def wake(self, *, on: bool) -> float:
        """Reboot the servo if it is shut down; if `on`, switch torque on and return the position, rad, else NaN."""
        if self.shut_down:
            if not reboot(self.bus, self.id, self.profile):
                raise BusTimeout(self.id, f"servo {self.config.name!r} was rebooted, and has not answered since")
            self._apply(self.config.registers)
        return self.power(on=True) if on else math.nan

    def command(self, setpoints: Setpoints, sample: LatestSample, period: float) -> Goal | None:
        """See `BusDrive.command`; the servo itself limits the acceleration."""
        if not (self.powered and setpoints.enabled):
            return None
        self._cap = self._torque_counts(setpoints.available_torque)
        limit = setpoints.acceleration
        if limit != -1:
            setpoints = replace(setpoints, acceleration=-1.0)
        self._full_speed = 0 if limit < 0 else self._top_speed  # Profile Velocity 0 ignores the acceleration
        goal = super().command(setpoints, sample, period)  # a change of mode resets the profile
        if limit != self._acceleration:
            counts = 0 if limit < 0 else max(round(min(limit / _ACCELERATION, _MOST_ACCELERATION)), 1)
            self.write("profile_acceleration", counts)
            self._acceleration = limit
        if self._mode == OperatingMode.CURRENT_BASED_POSITION:
            self._cap_current(setpoints.available_torque)
        return goal

    def turned(self, sample: LatestSample) -> float:
        """Return the position, rad: the servo counts its turns itself."""
        return sample("position")

    def _set_mode(self, mode: OperatingMode) -> None:
        """Set this mode and a velocity-based profile; keep the old registers for `restore`."""
        held = self._read_all(("drive_mode", "operating_mode"))
        wanted = {"drive_mode": held["drive_mode"] & ~DriveMode.TIMED, "operating_mode": int(mode)}
        if held == wanted:
            return
        self.write("torque_enable", 0)  # EEPROM is locked while torque is on
        own = dict(held)
        if held["operating_mode"] not in POSITION_MODES and "operating_mode" not in self.config.registers:
            own["operating_mode"] = int(self._home)  # a killed program has left another mode
        self._change(own, wanted)
        self.fill_ram()  # a change of mode resets gains
        if mode != OperatingMode.PWM:
            self.write("goal_pwm", min(self._cap, self.top_duty, self.read("pwm_limit")))

    def _enter(self, mode: OperatingMode) -> None:
        if self._mode != mode:
            self._start(mode)

    def _enter_wheel(self, sample: LatestSample) -> None:  # noqa: ARG002 - an AX needs it
        self._enter(OperatingMode.PWM)

    def enter_position(self) -> float:
        """See `BusDrive.enter_position`; a change of mode resets the count of turns."""
        return math.nan if self._mode == self._home else self._start(self._home)

    def _duty_goal(self, duty: float, limit: int) -> Goal:
        most = min(limit, self.top_duty)
        counts = min(max(round(duty * self.profile.units.full_scale), -most), most)
        return Goal(0, self.config.direction * counts, register=XAddress.GOAL_PWM)

    def _velocity_goal(self, wanted: Setpoints, sample: LatestSample, period: float, limit: int) -> Goal:  # noqa: ARG002 - likewise
        self._enter(OperatingMode.VELOCITY)
        counts = min(max(round(wanted.velocity / self.profile.units.speed), -self._top_speed), self._top_speed)
        return Goal(0, self.config.direction * counts, min(limit, self.top_duty), register=XAddress.GOAL_VELOCITY)

    def _torque_goal(self, torque: float, sample: LatestSample, period: float) -> Goal:
        """Return a Goal Current for the torque; without a current loop, a duty by the model."""
        if self.capabilities["torque"] != "native":
            self._enter_wheel(sample)
            return super()._torque_goal(torque, sample, period)
        self._enter(OperatingMode.CURRENT)
        voltage = sample("voltage") or self.profile.electrics.nominal_voltage
        velocity = self._forecast.update(sample("time"), sample("velocity"), torque, period)
        position = sample("position")
        outward = (torque > 0 and position >= self._high) or (torque < 0 and position <= self._low)
        steady = self.steady.at(sample("temperature"))
        current = 0.0 if outward else steady.loop_current(torque, voltage, velocity)
        counts = min(max(round(current / _AMPERE), -self._top_current), self._top_current)
        return Goal(0, self.config.direction * counts, self.top_duty, register=GOAL_CURRENT)

    def _torque_counts(self, torque: float) -> int:
        if self._home == OperatingMode.CURRENT_BASED_POSITION:
            return self.profile.units.full_scale  # Goal Current caps the torque
        return super()._torque_counts(torque)

    @property
    def torque_limits(self) -> tuple[int, int | None]:
        """See `BusDrive.torque_limits`."""
        counts = self.config.registers.get("goal_current")
        if self.max_torque < self.profile.electrics.stall_torque:
            counts = min(self._current_of(self.max_torque), 1 << 16 if counts is None else counts)
        return super().torque_limits[0], counts

    def _current_of(self, torque: float) -> int:
        """Return the Goal Current that gives this torque, N·m, at stall and nominal voltage, counts."""
        return round(self.steady.loop_current(torque, self.profile.electrics.nominal_voltage, 0.0) / _AMPERE)

    def _cap_current(self, torque: float) -> None:
        """Cap the torque, N·m, by Goal Current: exact at stall and nominal voltage."""
        counts = self._top_current
        if torque < self.max_torque:
            counts = min(self._current_of(torque), counts)
        if counts != self._current:
            self.write("goal_current", counts)
            self._current = counts

    def _goal(self, position: float, speed: int, limit: int) -> Goal:
        return super()._goal(position, min(speed, self._top_speed), min(limit, self.top_duty))


class FeetechDrive(BusDrive):
    """One Feetech servo on a bus; arguments and errors as for `BusDrive`."""

    slow_start = True
    _endless_left = False  # whether a killed program has left the servo in an endless mode

    def _own_capabilities(self, profile: FirmwareProfile) -> Mapping[str, Capability]:
        self._modal = "operating_mode" in profile.registers
        return {**AX_CAPABILITIES, "wheel": "native" if self._modal else "emulated"}

    def narrow(self) -> tuple[float, float]:
        """See `BusDrive.narrow`; also reads whether a killed program has left the servo in an endless mode."""
        self._endless_left = self._endless_now()
        return super().narrow()

    def counted(self, position: int) -> int:
        """See `BusDrive.counted`; endless modes do not subtract the Homing Offset."""
        offset = self.config.registers.get("homing_offset", 0)
        if not (offset and (self.is_wheel or self._endless_left)):
            return position
        turn = self.profile.units.counts + 1
        return (position - offset) % turn if 0 <= position < turn else position - offset

    def _endless_now(self) -> bool:
        return self.protocol.endless_goal(self.bus.read(self.id, *self.protocol.mode).data) is not None

    @property
    def shut_down(self) -> bool:
        """Return whether an error that Unloading Condition names has reduced or cut the torque."""
        return self.read("status") & self.read("shutdown") != 0

    def wake(self, *, on: bool) -> float:
        """Switch torque off, which clears an overload; if `on`, switch it on and return the position, rad, else NaN."""
        self.write("torque_enable", 0)
        return self.power(on=True) if on else math.nan

    def power(self, *, on: bool) -> float:
        """Switch the motor; on: at rest, after the present position was made the goal. Return the position, rad."""
        if not on:
            return super().power(on=False)
        if not self._borrowed and self._endless_now():
            self._borrow({"operating_mode": 0} if self._modal else {**self._no_limits, "max_position_limit": 1023})
            self.restore()  # a killed program has left it in another mode
        self._endless_left = False
        self.write("lock", 1)
        if self._modal:
            self.top_duty = min(self.top_duty, self.read("max_torque"))  # another program may have lowered it
        if self.is_wheel:
            self._endless()
        present = self.read("present_position")
        if not self.is_wheel:
            self.write("goal_position", present)
        self.write("torque_enable", 1)
        self.powered = True
        self._speed = self._correction = 0.0
        return self.calibration.angle(self.counted(present))

    def _begin_motion_here(self) -> None:
        self.write("torque_enable", 0)  # with torque on, the servo's trajectory to a new goal starts at the old goal
        self.power(on=True)

    def _endless(self) -> None:
        """Write the endless mode, which a power loss resets, and zero speed: the goal's unit differs between modes."""
        self.write("goal_time", 0)
        self.write("goal_velocity", 0)
        mode: Mapping[str, int] = self._mode or {}
        if (held := self._read_all(mode)) != mode:
            self._change(held, mode)
            self.write("goal_time", 0)
            self.write("goal_velocity", 0)

    def _enter(self, mode: Mapping[str, int]) -> None:
        if self._mode != mode:
            self.write("torque_enable", 0)
            self._mode, self.is_wheel = mode, True
            self._endless()
            self._speed = self._correction = 0.0
            self.write("torque_enable", 1)

    def _enter_wheel(self, sample: LatestSample) -> None:  # noqa: ARG002 - an AX needs it
        self._enter(_FEETECH_DUTY if self._modal else self._no_limits)

    def _velocity_goal(self, wanted: Setpoints, sample: LatestSample, period: float, limit: int) -> Goal:
        if not self._modal:
            return super()._velocity_goal(wanted, sample, period, limit)
        self._enter(_FEETECH_VELOCITY)
        step = math.inf if wanted.acceleration == -1 else wanted.acceleration * period
        self._speed = towards(self._speed, wanted.velocity, step)
        counts = round(self._speed / self.profile.units.speed) * self.config.direction
        return Goal(0, counts, limit, register=FeetechAddress.GOAL_VELOCITY)

    def _duty_goal(self, duty: float, limit: int) -> Goal:
        return Goal(0, self._duty_counts(duty, limit), limit, register=FeetechAddress.GOAL_TIME)


DRIVES = {"x": XDrive, "sts": FeetechDrive, "scs": FeetechDrive}  # by units


def drive_of(spec: ServoSpec, bus: Bus) -> BusDrive:
    """Return the drive of a servo on a bus."""
    return DRIVES.get(spec.profile.units_name, BusDrive)(spec.config, spec.profile, spec.model, bus)
