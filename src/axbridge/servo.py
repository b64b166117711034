"""A servo as users hold it: SI units, limits, set-points and the last sample, whatever drives the joint.

Names and rules follow Webots' Motor and PositionSensor nodes. Commands act in the next `Robot.step`; readings are
those of the last one. Set-points out of range are clipped with a `ControlWarning`; impossible ones (NaN, a negative
speed) are refused with one, and the old value stays.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Literal

from axbridge.bus.base import Bus
from axbridge.bus.cycle import CycleServo, Goal, RawState
from axbridge.control import Sampler
from axbridge.errors import ErrorFlag, ServoFault, UnsupportedOperation, UsageError
from axbridge.model import ServoModel
from axbridge.profile import FirmwareProfile
from axbridge.rig import ServoConfig
from axbridge.state import ServoState
from axbridge.units import Calibration

__all__ = ["Capability", "ControlWarning", "Servo"]

Capability = Literal["native", "emulated", "unsupported"]

_CAPABILITIES: dict[str, Capability] = {
    "position": "native",
    "velocity": "native",
    "wheel": "unsupported",
    "torque": "unsupported",
    "pid": "unsupported",
    "acceleration": "unsupported",
    "torque_feedback": "emulated",
}
_RPM = 2 * math.pi / 60
_UNREAD = ServoState(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, ErrorFlag(0))


class ControlWarning(UserWarning):
    """A set-point was clipped or refused; the message has both values."""


def _warn(message: str) -> None:
    warnings.warn(message, ControlWarning, stacklevel=3)


class Servo:
    """One joint of a robot, driven by a Dynamixel on a bus. Made by `Robot`, which owns the bus."""

    def __init__(
        self, config: ServoConfig, profile: FirmwareProfile, model: ServoModel, bus: Bus, now: Callable[[], float]
    ) -> None:
        if config.id is None:
            raise UsageError(f"servo {config.name!r} has no bus id")
        self.config = config
        self.profile = profile
        self.model = model
        self.name = config.name
        self.id = config.id
        self._bus = bus
        self._now = now
        self._calibration = Calibration(profile.units, config.zero, config.direction)
        self._target = math.nan
        self._velocity = self.max_velocity
        self._available_torque = self.max_torque
        self._hold = math.nan  # where velocity 0 stopped it
        self._torque_enabled = False
        self._state = _UNREAD
        self._position_sampler = Sampler()
        self._torque_sampler = Sampler()

    # ---- commands

    def set_position(self, position: float) -> None:
        """Move towards `position`, rad, from the next step on; switches torque on (without a jump) when it is off.

        Clipped to the soft limits and to what the position register can say. NaN is refused.

        Raises:
            UnsupportedOperation: infinite position (velocity control).
        """
        if math.isnan(position):
            _warn("position must not be NaN; the target stays")
            return
        if math.isinf(position):
            raise UnsupportedOperation(f"servo {self.name!r} cannot turn endlessly", "give a finite position in rad")
        low, high = self.min_position, self.max_position
        target = min(max(position, low), high)
        if not self._torque_enabled:
            self.torque_on()
        self._target = target
        if position > high:
            _warn(f"too big requested position: {position:g} > {high:g}")
        elif position < low:
            _warn(f"too low requested position: {position:g} < {low:g}")

    def set_velocity(self, velocity: float) -> None:
        """Limit the speed of the approach, rad/s; 0 holds still, `max_velocity` (the start value) is full speed.

        Clipped to `max_velocity`. NaN and negative values are refused.
        """
        if math.isnan(velocity) or velocity < 0:
            _warn(f"velocity must be positive in position control, not {velocity:g}; it stays {self._velocity:g}")
            return
        self._velocity = min(velocity, self.max_velocity)
        self._hold = self._state.position
        if velocity > self.max_velocity:
            _warn(f"requested velocity {velocity:g} exceeds max_velocity {self.max_velocity:g}")

    def set_available_torque(self, torque: float) -> None:
        """Cap the torque, N·m, by the torque limit register (a cap on duty: exact at stall); 0 leaves the motor limp.

        Clipped to `max_torque`. NaN and negative values are refused.
        """
        if math.isnan(torque) or torque < 0:
            _warn(f"available torque must be positive, not {torque:g}; it stays {self._available_torque:g}")
            return
        self._available_torque = min(torque, self.max_torque)
        if torque > self.max_torque:
            _warn(f"requested available torque {torque:g} exceeds max_torque {self.max_torque:g}")

    def set_acceleration(self, acceleration: float) -> None:
        """Not available on this servo.

        Raises:
            UnsupportedOperation: always, but for -1 (unlimited, what the servo does anyway).
        """
        if acceleration != -1:
            raise self._unsupported("acceleration")

    def set_control_pid(self, p: float, i: float, d: float) -> None:
        """Not available on this servo: its position loop is its firmware's.

        Raises:
            UnsupportedOperation: always.
        """
        raise self._unsupported("pid", p, i, d)

    def set_torque(self, torque: float) -> None:
        """Not available on this servo.

        Raises:
            UnsupportedOperation: always.
        """
        raise self._unsupported("torque", torque)

    def torque_on(self) -> None:
        """Switch the motor on where the joint is: goal := present position first, so that nothing snaps.

        Raises:
            BusError: the servo does not answer; torque stays off.
        """
        register = self.profile.register("present_position")
        present = self._bus.read(self.id, register.address, register.size)
        if len(present.data) != register.size:
            raise ServoFault(self.id, present.error)
        counts = int.from_bytes(present.data, "little")
        self.write("goal_position", counts)
        self.write("torque_enable", 1)
        self._target = self._calibration.angle(counts)
        self._torque_enabled = True

    def torque_off(self) -> None:
        """Leave the joint limp.

        Raises:
            BusError: the servo does not answer, so it may still be powered.
        """
        self._torque_enabled = False
        self.write("torque_enable", 0)

    def read(self, register: str) -> int:
        """Read a register by name, in counts.

        Raises:
            ProfileError: this model has no such register.
            ServoFault: the servo refused.
            BusError: it does not answer.
        """
        entry = self.profile.register(register)
        reply = self._bus.read(self.id, entry.address, entry.size)
        if len(reply.data) != entry.size:
            raise ServoFault(self.id, reply.error)
        return int.from_bytes(reply.data, "little", signed=entry.signed)

    def write(self, register: str, value: int) -> None:
        """Write a register by name, in counts; checked against the profile's range before anything is sent.

        Raises:
            ProfileError: this model has no such register.
            UsageError: read-only register, or a value out of its range.
            ServoFault: the servo refused the value.
            BusError: it does not answer.
        """
        entry = self.profile.register(register)
        if not entry.writable:
            raise UsageError(f"{register} of servo {self.name!r} is read-only")
        if not entry.minimum <= value <= entry.maximum:
            raise UsageError(f"{register} = {value} is outside {entry.minimum}..{entry.maximum}")
        data = value.to_bytes(entry.size, "little", signed=entry.signed)
        reply = self._bus.write(self.id, entry.address, data)
        refused = ErrorFlag.RANGE | ErrorFlag.ANGLE_LIMIT | ErrorFlag.INSTRUCTION
        if reply is not None and reply.error & refused:
            raise ServoFault(self.id, reply.error, f"the servo did not take {register} = {value}")

    def _unsupported(self, what: str, *values: float) -> UnsupportedOperation:
        given = f" ({', '.join(f'{value:g}' for value in values)})" if values else ""
        return UnsupportedOperation(
            f"servo {self.name!r} ({self.profile.name}) has no {what} control{given}",
            "Servo.capabilities says what it can do",
        )

    # ---- set-points and limits

    @property
    def target_position(self) -> float:
        """The position asked for, rad, after clipping; NaN before the first."""
        return self._target

    @property
    def velocity(self) -> float:
        """The speed set-point, rad/s (the measured speed is `state.velocity`)."""
        return self._velocity

    @property
    def acceleration(self) -> float:
        """The acceleration limit, rad/s²; -1 = unlimited."""
        return -1.0

    @property
    def available_torque(self) -> float:
        """The torque cap, N·m."""
        return self._available_torque

    @property
    def torque_enabled(self) -> bool:
        """Whether torque was switched on last."""
        return self._torque_enabled

    @property
    def min_position(self) -> float:
        """Lowest position `set_position` passes on, rad."""
        return max(self.config.soft_limits[0], self._calibration.range[0])

    @property
    def max_position(self) -> float:
        """Highest position `set_position` passes on, rad."""
        return min(self.config.soft_limits[1], self._calibration.range[1])

    @property
    def max_velocity(self) -> float:
        """Highest speed, rad/s: the rig's, or the data sheet's no-load speed."""
        return self.config.max_velocity or self.profile.electrics.no_load_speed * _RPM

    @property
    def max_torque(self) -> float:
        """Highest torque, N·m: the rig's, or the data sheet's stall torque."""
        return self.config.max_torque or self.profile.electrics.stall_torque

    @property
    def multiplier(self) -> float:
        """Webots' coupling factor."""
        return self.config.multiplier

    @property
    def type(self) -> Literal["rotational", "linear"]:
        """Kind of joint."""
        return "rotational"

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """What the drive does itself, what axbridge does for it, and what cannot be done."""
        return _CAPABILITIES

    # ---- readings

    @property
    def state(self) -> ServoState:
        """The last sample."""
        return self._state

    @property
    def position(self) -> float:
        """Sampled position, rad, by Webots' rule: NaN until the period passed to `enable_position` is over."""
        return self._position_sampler.value

    @property
    def position_sampling_period(self) -> int:
        """ms; 0 = disabled."""
        return self._position_sampler.period

    def enable_position(self, period: int) -> None:
        """Sample `position` every `period` ms; 0 disables.

        Raises:
            UsageError: a negative period.
        """
        self._position_sampler.enable(period, self._now())

    def disable_position(self) -> None:
        """Stop sampling `position`."""
        self.enable_position(0)

    @property
    def torque_feedback(self) -> float:
        """Sampled torque, N·m, estimated by the motor model from load, speed and supply; NaN as `position`."""
        return self._torque_sampler.value

    @property
    def torque_feedback_sampling_period(self) -> int:
        """ms; 0 = disabled."""
        return self._torque_sampler.period

    def enable_torque_feedback(self, period: int) -> None:
        """Sample `torque_feedback` every `period` ms; 0 disables.

        Raises:
            UsageError: a negative period.
        """
        self._torque_sampler.enable(period, self._now())

    def disable_torque_feedback(self) -> None:
        """Stop sampling `torque_feedback`."""
        self.enable_torque_feedback(0)

    # ---- what Robot needs each cycle

    def _cycle_servo(self) -> CycleServo:
        """This servo and its limits in register counts; the cycle clips to them whatever it is asked to send."""
        ends = sorted(self._calibration.goal(position) for position in (self.min_position, self.max_position))
        speed = None if self.config.max_velocity is None else self._calibration.speed_limit(self.config.max_velocity)
        return CycleServo(self.name, self.id, (ends[0], ends[1]), speed)

    def _goal(self) -> Goal | None:
        """Registers of the next SYNC_WRITE; None while torque is off (a goal would switch it on)."""
        if not self._torque_enabled:
            return None
        counts = self._calibration.goal(self._target if self._velocity else self._hold)
        speed = 0 if self._velocity >= self.max_velocity else self._calibration.speed_limit(self._velocity)
        limit = round(self._available_torque / self.max_torque * self.profile.units.full_scale)
        return Goal(min(max(counts, 0), self.profile.units.counts), speed, limit)

    def _take(self, sample: RawState, start: float, now: float) -> None:
        """Take in a sample; `start` is the robot's time 0 on the bus's clock, `now` the robot's time."""
        self._state = self._state_of(sample, start)
        self._position_sampler.offer(self._state.position, now)
        self._torque_sampler.offer(self._state.torque, now)

    def _state_of(self, sample: RawState, start: float) -> ServoState:
        """A sample's registers in SI units."""
        velocity = self._calibration.speed(sample.speed)
        load = self._calibration.load(sample.load)
        voltage = sample.voltage * self.profile.units.voltage
        motor = self.model.motor
        constant = motor.output_constant
        resistance = motor.resistance + motor.resistance_per_duty * abs(load)
        torque = motor.efficiency * constant * (load * voltage - constant * velocity) / resistance
        return ServoState(
            time=sample.time - start,
            position=self._calibration.angle(sample.position),
            velocity=velocity,
            torque=torque if self._torque_enabled else 0.0,
            load=load,
            voltage=voltage,
            temperature=float(sample.temperature),
            errors=ErrorFlag(sample.error & 0x7F),
        )
