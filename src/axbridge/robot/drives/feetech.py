"""The drive of a Feetech servo: endless turning uses its velocity mode, a duty its PWM mode.

The mode is an EEPROM register. The EEPROM lock is set while the servo is driven, so a change of mode is lost when its
power is cut. A servo of the SCS family has no modes: it is a wheel while both position limits are 0, as an AX-12 is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from axbridge.bus.cycle import Goal
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import FeetechAddress
from axbridge.robot.drives.bus_drive import AX_CAPABILITIES, BusDrive
from axbridge.robot.drives.drive import Capability, LatestSample
from axbridge.servo.setpoints import Setpoints, towards

_VELOCITY, _DUTY = {"operating_mode": 1}, {"operating_mode": 2}


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
        """See `BusDrive.counted`; in endless modes the servo does not subtract its Homing Offset."""
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
            self._top_duty = min(self._top_duty, self.read("max_torque"))  # another program may have lowered it
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
        self._enter(_DUTY if self._modal else self._no_limits)

    def _velocity_goal(self, wanted: Setpoints, sample: LatestSample, period: float, limit: int) -> Goal:
        if not self._modal:
            return super()._velocity_goal(wanted, sample, period, limit)
        self._enter(_VELOCITY)
        step = math.inf if wanted.acceleration == -1 else wanted.acceleration * period
        self._speed = towards(self._speed, wanted.velocity, step)
        counts = round(self._speed / self.profile.units.speed) * self.config.direction
        return Goal(0, counts, limit, register=FeetechAddress.GOAL_VELOCITY)

    def _duty_goal(self, duty: float, limit: int) -> Goal:
        return Goal(0, self._duty_counts(duty, limit), limit, register=FeetechAddress.GOAL_TIME)
