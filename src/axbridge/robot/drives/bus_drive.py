"""The drive of a servo on a bus: every mode of control, through registers alone.

This class drives an AX, or an MX of Protocol 1.0; the X series and Feetech override what differs. Position goals go to
the servo's own loop. Functions that it lacks are computed here, once a step: an acceleration limit and Webots' PID as a
varying Moving Speed, endless turning in wheel mode with a speed correction, and torque by the motor model. The same on
a real bus, on a virtual bus and in the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, Literal

from axbridge.bus.base import Bus
from axbridge.bus.commission import apply_registers, read_register, refuse_locked
from axbridge.bus.cycle import CycleServo, Goal
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.retries import RESTORE
from axbridge.config.model import ServoModel
from axbridge.config.profile import Area, FirmwareProfile
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import BusError, PortError, Remedy, ServoFault, UsageError
from axbridge.robot.drives.drive import Capability, LatestSample
from axbridge.robot.drives.shaft_speed import SpeedForecast, TurnCounter
from axbridge.servo.columns import Param, pack
from axbridge.servo.setpoints import Limits, Setpoints, VelocityController, braking_speed, towards
from axbridge.servo.steady import SteadyServo
from axbridge.units import RPM, Calibration, signed_to_bits

AX_CAPABILITIES: dict[str, Capability] = {
    "position": "native",
    "extended_position": "unsupported",
    "velocity": "native",
    "wheel": "emulated",
    "duty": "native",
    "torque": "emulated",
    "available_torque": "emulated",
    "pid": "emulated",
    "acceleration": "emulated",
    "torque_feedback": "emulated",
}
_LEAD = 0.15  # s: a goal that moves along with the joint is this far ahead, so that the joint stops when the host does
_SPEED_GAIN = 0.6  # duty per rad of speed error summed up, in wheel mode
_MOST_CORRECTION = 0.5  # duty
_RESPONSE = 0.08  # s: a wheel follows its command so late, and that is no error of its speed
_RESTORE_PAUSE = 0.1  # s between two attempts to restore the mode and the angle limits


class BusDrive:
    """One servo on a bus; see `axbridge.robot.drives.drive.Drive`."""

    type: Literal["rotational", "linear"] = "rotational"
    brake = False
    slow_start = False
    has_own_limits = True  # of position, which its goals must keep
    on_at_start = False

    def __init__(self, config: ServoConfig, profile: FirmwareProfile, model: ServoModel, bus: Bus) -> None:
        if config.id is None:
            raise UsageError(f"servo {config.name!r} has no bus id")
        self.config = config
        self.capabilities: Mapping[str, Capability] = self._own_capabilities(profile)
        self._on_host = config.controller == "pid"
        if not self._on_host:
            self.capabilities = {**self.capabilities, "pid": "unsupported"}
        self.id = config.id
        self.profile = profile
        self.protocol = PROTOCOLS[profile.protocol]
        self._no_limits = {self.protocol.names.low: 0, self.protocol.names.high: 0}  # a wheel, unless it has modes
        self.flags = self.protocol.alarms
        self.model_row = pack(model, profile.units.position)
        self.model_row[Param.ASYMMETRY] *= config.direction  # all torques here are the joint's
        self.steady = SteadyServo.of(self.model_row)
        self.bus = bus
        self.calibration = Calibration(profile.units, config.zero, config.direction)
        speed = profile.electrics.no_load_speed * RPM if config.max_velocity is None else config.max_velocity
        self.limits = Limits(*self.calibration.range, speed)
        self.max_torque = profile.electrics.stall_torque if config.max_torque is None else config.max_torque
        self._full_speed = 0  # Moving Speed without a limit
        self._top_duty = profile.units.full_scale  # highest Torque Limit or duty that the servo's own limits allow
        self._low, self._high = self.calibration.range
        self._pid = VelocityController(*config.control_pid)
        self._gains_set = 0
        self._speed = 0.0  # commanded by a loop on the host
        self._correction = 0.0
        self._wheel_velocity = 0.0
        self._expected = 0.0  # speed of a wheel that has had time to follow the command, rad/s
        self._duty = 0.0  # of a wheel, as commanded last
        self._forecast = SpeedForecast(model.motor, model.sensor.latency_ms / 1000)
        self._hold = math.nan  # where speed 0 stopped it
        self._goal_is_far = False  # its goal is the end of its range: in torque control it only gives the direction
        self.limp_at = -math.inf  # when it was switched off last, s on the bus's clock
        self.powered = False
        self._borrowed: dict[str, int] = {}  # what `restore` writes to the neighbouring registers changed here
        self.is_wheel = False
        self._mode: Any = None  # that it is in, where its family has several; None: unknown, or the usual one
        self._turns: TurnCounter | None = None  # of a wheel

    def _own_capabilities(self, profile: FirmwareProfile) -> Mapping[str, Capability]:
        if profile.behaviour.wheel_mode == "speed":  # a wheel of the MX takes a speed, not a duty
            return {**AX_CAPABILITIES, "duty": "unsupported"}
        return AX_CAPABILITIES

    # ---- registers

    def read(self, name: str) -> int:
        """Read a register, in counts."""
        return read_register(self.bus, self.id, self.profile.register(name))

    def write(self, name: str, value: int) -> float:
        """Write a register, in counts, checked against the profile's range before anything is sent."""
        entry = self.profile.register(name)
        if not entry.writable:
            raise UsageError(f"{name} of servo {self.config.name!r} is read-only")
        if not isinstance(value, Integral):
            raise UsageError(f"{name} = {value!r} is no whole number", "registers hold counts, not SI units")
        if not entry.minimum <= value <= entry.maximum:
            raise UsageError(f"{name} = {value} is outside {entry.minimum}..{entry.maximum}")
        return self._send({name: int(value)})

    def _send(self, values: Mapping[str, int]) -> float:
        """Write neighbouring registers in one packet: between two, the servo could be in the wrong mode, and deaf."""
        address, data = self._bytes(values)
        reply = self.bus.write(self.id, address, data)
        if reply is None:
            return self.bus.clock.now()
        if self.protocol.refused(reply.error):
            wanted = ", ".join(f"{name} = {value}" for name, value in values.items())
            flags, said = self.protocol.error(reply.error), f"the servo did not take {wanted}"
            raise ServoFault(self.id, flags, said, hardware=self.bus.hardware_error(self.id, flags))
        return reply.time

    def _bytes(self, values: Mapping[str, int]) -> tuple[int, bytes]:
        """Neighbouring registers: the first address, and all bytes."""
        entries = [self.profile.register(name) for name in values]
        pairs = zip(entries, values.values(), strict=True)
        return entries[0].address, b"".join(entry.encode(value) for entry, value in pairs)

    def _read_all(self, names: Iterable[str]) -> dict[str, int]:
        return {name: self.read(name) for name in names}

    # ---- Drive

    @property
    def shut_down(self) -> bool:
        """Whether it has switched itself off: then its Torque Limit is 0, and not because the rig wants it so."""
        return self.read("torque_limit") == 0 and self.config.registers.get("torque_limit") != 0

    def wake(self, *, on: bool) -> float:
        """Prepare a servo that has shut itself down for new goals; its position, rad, NaN if it is not to be on."""
        if not on:
            return math.nan
        return self.calibration.angle(self.read("present_position")) if self.powered else self.power(on=True)

    def fill_ram(self) -> None:
        """Write the rig's RAM registers: a servo forgets them without power."""
        registers = self.config.registers.items()
        ram = {name: value for name, value in registers if self.profile.register(name).area is Area.RAM}
        errors = apply_registers(self.bus, self.id, self.profile, ram)
        for error in errors.values():
            raise error

    def power(self, *, on: bool) -> float:
        """Switch the motor; on: the present position becomes the goal first."""
        if not on:
            self.powered = False
            self.limp_at = self.write("torque_enable", 0)
            return math.nan
        present = self.read("present_position")
        if not self._borrowed and self._read_all(self._no_limits) == self._no_limits:
            self._borrow({**self._no_limits, self.protocol.names.high: self.profile.units.counts})
            self.is_wheel = True  # a program that was killed left it in wheel mode
        if self._borrowed:
            self.write(self.protocol.names.speed, 0)  # a wheel has no goal position
        else:
            self.write("goal_position", present)
        self.write("torque_enable", 1)
        self.powered = True
        self._speed = self._correction = 0.0
        return self.calibration.angle(present)

    def _read_block(self, *names: str) -> dict[str, int]:
        """Values of registers that are close together, by one READ: a robot in the simulator is limp meanwhile."""
        registers = [self.profile.register(name) for name in names]
        first, end = min(each.address for each in registers), max(each.end for each in registers)
        data = self.bus.read(self.id, first, end - first).data
        return {
            name: each.decode(data[each.address - first : each.end - first])
            for name, each in zip(names, registers, strict=True)
        }

    def narrow(self) -> tuple[float, float]:
        """Limit torque and positions to what the servo's own limits in EEPROM let through.

        Returns those of the position, rad; ±inf where it has none, or what every servo of its model has.
        """
        names, registers = self.protocol.names, self.profile.registers
        has_torque = names.most_torque != names.torque  # else another program may have written it as its limit
        if not self.has_own_limits or names.low not in registers or names.high not in registers:
            if has_torque:
                self._top_duty = min(self._top_duty, self.read(names.most_torque))
            return -math.inf, math.inf
        held = self._read_block(names.low, names.high, *([names.most_torque] if has_torque else []))
        if has_torque:
            self._top_duty = min(self._top_duty, held[names.most_torque])
        counts = self._borrowed.get(names.low, held[names.low]), self._borrowed.get(names.high, held[names.high])
        factory = registers[names.low].initial, registers[names.high].initial
        if counts[0] >= counts[1]:
            return -math.inf, math.inf  # a wheel, or several turns
        low, high = sorted(self.calibration.angle(count) for count in counts)
        self.limits = Limits(max(self.limits.low, low), min(self.limits.high, high), self.limits.velocity)
        self._low, self._high = max(self._low, low), min(self._high, high)
        return (-math.inf, math.inf) if counts == factory else (low, high)

    def cycle_servo(self, low: float, high: float) -> CycleServo:
        """The servo for its bus cycle, limited to positions `low`..`high`."""
        self._low, self._high = low, high
        ends = sorted(self.calibration.goal(position) for position in (low, high))
        top = None if self.config.max_velocity is None else self.calibration.speed_limit(self.config.max_velocity)
        return CycleServo(self.config.name, self.id, (ends[0], ends[1]), top, self._most_torque, protocol=self.protocol)

    @property
    def _most_torque(self) -> int:
        """Highest torque limit that the rig's registers let through, counts."""
        return min(self.profile.units.full_scale, self.config.registers.get(self.protocol.names.torque, 1 << 16))

    @property
    def torque_limits(self) -> tuple[int, int | None]:
        """Highest torque limit and Goal Current of any program, counts: by the rig's registers and `max_torque`.

        A share of the stall torque is that share of the duty, exact at stall. None: any current.
        """
        share = min(self.max_torque / self.profile.electrics.stall_torque, 1.0)
        return min(self._most_torque, round(share * self.profile.units.full_scale)), None

    def command(self, setpoints: Setpoints, sample: LatestSample, period: float) -> Goal | None:
        """The mode of control the set-points ask for, as registers for the next cycle."""
        if not (self.powered and setpoints.enabled):
            return None  # a goal would switch it on
        if setpoints.gains_set != self._gains_set:
            self._gains_set = setpoints.gains_set
            self._pid.set_gains(*setpoints.gains)
        limit = self._torque_counts(setpoints.available_torque)
        duty, torque = setpoints.duty, setpoints.torque  # as they are now: another thread may command meanwhile
        if duty is not None or torque is not None:
            self._speed = self._expected = sample("velocity")  # where a ramp of the speed that follows begins
        if duty is not None:
            self._enter_wheel(sample)
            return self._duty_goal(duty, limit)
        if torque is not None:
            return self._torque_goal(torque, sample, period)
        if setpoints.endless:
            return self._velocity_goal(setpoints, sample, period, limit)
        self._leave_wheel()
        if self._goal_is_far:  # else the servo's reference would move to the next goal from the end of the range
            self._goal_is_far = False
            self._begin_motion_here()
        if setpoints.holding:
            goal = self._position_goal(setpoints, sample, limit)
            return goal._replace(position=self.calibration.goal(setpoints.target), held=True)
        if self._on_host:
            position = sample("position")
            self._pid.step(setpoints.target, position, setpoints.velocity, setpoints.acceleration, period)
            return self._follow(self._pid.speed, setpoints, position, limit)
        if setpoints.acceleration != -1:
            self._ramp(setpoints, sample("position"), period)
            return self._follow(self._speed, setpoints, sample("position"), limit)
        return self._position_goal(setpoints, sample, limit)

    def turned(self, sample: LatestSample) -> float:
        """The position with whole turns, counted while it is a wheel; through the dead zone by the motor model."""
        if not self.is_wheel:
            return sample("position")
        if self._turns is None:
            self._turns = TurnCounter(self.steady, self.calibration.range, sample("position"))
        return self._turns.update(sample, self._duty if self.powered else 0.0)

    def counted(self, position: int) -> int:
        """A Present Position, counts, as its position mode would report it."""
        return position

    @property
    def blind(self) -> tuple[float, float] | None:
        """Speed, rad/s, and duty of a wheel by the motor model, while those that it reports say nothing."""
        turns = self._turns
        return (turns.speed, self._duty) if self.is_wheel and turns is not None and turns.blind else None

    def restore(self, *, holding: bool = False) -> None:
        """Give the servo its own mode back (EEPROM); limp, because a joint would run to an old goal.

        A joint that is `holding` in its own mode continues.
        """
        for attempt in range(RESTORE if self._borrowed else 0):
            try:
                if self.is_wheel or not holding:  # first of all
                    self.write("torque_enable", 0)
                if self._read_all(self._borrowed) != self._borrowed:
                    self.write("torque_enable", 0)
                    self._change_to(self._borrowed)
            except BusError as failure:
                if attempt == RESTORE - 1 or isinstance(failure, PortError):
                    raise self._not_restored(failure) from failure
                self.bus.clock.sleep_until(self.bus.clock.now() + _RESTORE_PAUSE)
            else:
                self._borrowed, self._turns = {}, None
                self.bus.borrowed.pop(self.id, None)
                self.is_wheel = False
                break
        self._mode = None

    def _not_restored(self, failure: BusError) -> BusError:
        port = getattr(self.bus, "port_name", None)
        commands = [Remedy("servo write", self.id, name, value, port=port) for name, value in self._borrowed.items()]
        changed = "a wheel" if self._no_limits.keys() <= self._borrowed.keys() else "in another mode"
        held = ", ".join(f"{name} {value}" for name, value in self._borrowed.items())
        return BusError(
            f"servo {self.config.name!r} (id {self.id}) may still be {changed}: "
            f"it did not take {held} back ({failure.message})",
            "remove the cause, then type: " + " && ".join(commands),
        )

    def _change(self, held: Mapping[str, int], values: Mapping[str, int]) -> None:
        """Write other values to neighbouring EEPROM registers; what they held before all changes is for `restore`."""
        self._borrow({**held, **self._borrowed})
        self._change_to(values)

    def _change_to(self, values: Mapping[str, int]) -> None:
        refuse_locked(self.bus, self.id, self.profile, next(iter(values)))
        self._send(values)

    def _borrow(self, own: dict[str, int]) -> None:
        """Keep what the servo held, for `restore` and for the guard."""
        self._borrowed = own
        self.bus.borrowed[self.id] = self._bytes(own)

    # ---- position

    def _position_goal(self, wanted: Setpoints, sample: LatestSample, limit: int) -> Goal:
        """The goal as it is; speed 0 holds still, because a Moving Speed of 0 would be full speed."""
        speed = abs(wanted.velocity)
        if speed:
            self._hold = math.nan
            full = speed >= self.limits.velocity
            return self._goal(wanted.target, self._full_speed if full else self.calibration.speed_limit(speed), limit)
        if math.isnan(self._hold):
            self._hold = sample("position")
        return self._goal(self._hold, 0, limit)

    def _begin_motion_here(self) -> None:
        """Let the motion to the next goal begin where the joint is."""
        present = self.calibration.angle(self.read("present_position"))
        self.write("goal_position", self._goal(present, 0, 0).position)

    def _ramp(self, wanted: Setpoints, position: float, period: float) -> None:
        """A speed that rises and falls by the acceleration limit and still stops at the target."""
        distance = wanted.target - position
        top = min(abs(wanted.velocity), braking_speed(distance, wanted.acceleration))
        self._speed = towards(self._speed, math.copysign(top, distance), wanted.acceleration * period)

    def _follow(self, speed: float, wanted: Setpoints, position: float, limit: int) -> Goal:
        """Move at `speed`: towards the target as far as that leads there, else a little ahead of the joint."""
        ahead = position + speed * _LEAD
        distance = wanted.target - position
        goal = wanted.target if speed * distance >= 0 and abs(ahead - position) >= abs(distance) else ahead
        if speed * distance >= 0 and abs(distance) < self.profile.units.position:
            goal = wanted.target  # arrived: do not chase the last count
        return self._goal(goal, self.calibration.speed_limit(abs(speed)), limit)

    def _goal(self, position: float, speed: int, limit: int) -> Goal:
        if not self._low <= position <= self._high:
            position = min(max(position, self._low), self._high)
        return Goal(self.calibration.goal(position), speed, limit)

    # ---- torque

    def _torque_goal(self, torque: float, sample: LatestSample, period: float) -> Goal:
        """The duty that gives the torque: as Moving Speed in wheel mode, else as torque limit of a far goal."""
        if self.capabilities["duty"] == "unsupported":
            self._leave_wheel()  # a wheel that takes a speed
        elif self.is_wheel:
            self._enter_wheel(sample)  # a Feetech servo may be in its velocity mode
        voltage = sample("voltage") or self.profile.electrics.nominal_voltage
        velocity = self._forecast.update(sample("time"), sample("velocity"), torque, period)
        duty = max(-1.0, min(1.0, self.steady.at(sample("temperature")).duty(torque, voltage, velocity)))
        position = sample("position")
        outward = (duty > 0 and position >= self._high) or (duty < 0 and position <= self._low)
        if self.is_wheel:
            return self._duty_goal(0.0 if outward else duty, self._top_duty)
        self._goal_is_far = True
        counts = min(round(abs(duty) * self.profile.units.full_scale), self._top_duty)
        return self._goal(self._high if duty > 0 else self._low, 0, counts)

    def _torque_counts(self, torque: float) -> int:
        """Torque Limit that caps the torque: a cap on duty, exact at stall."""
        return min(round(min(torque / self.max_torque, 1.0) * self.profile.units.full_scale), self._top_duty)

    # ---- wheel

    def _velocity_goal(self, wanted: Setpoints, sample: LatestSample, period: float, limit: int) -> Goal:
        """Turn endlessly at the velocity set: duty by the motor model, corrected by the speed measured."""
        self._enter_wheel(sample)
        step = math.inf if wanted.acceleration == -1 else wanted.acceleration * period
        self._speed = towards(self._speed, wanted.velocity, step)
        if self.profile.behaviour.wheel_mode == "speed":
            counts = round(self._speed / self.profile.units.speed) * self.config.direction
            return Goal(0, signed_to_bits(counts), limit, wheel=True)
        voltage, velocity = sample("voltage") or self.profile.electrics.nominal_voltage, sample("velocity")
        if wanted.velocity * self._wheel_velocity < 0:
            self._correction = 0.0  # what was summed up against a stop must not delay the way back
        self._wheel_velocity = wanted.velocity
        self._expected += (self._speed - self._expected) * min(period / _RESPONSE, 1.0)
        if self.blind is None:
            self._correction += _SPEED_GAIN * (self._expected - velocity) * period
        self._correction = max(-_MOST_CORRECTION, min(_MOST_CORRECTION, self._correction))
        duty = self.steady.duty(0.0, voltage, self._speed) + self._correction
        if self._speed == wanted.velocity == 0 and abs(velocity) <= 2 * self.profile.units.speed:
            duty = self._correction = 0.0  # duty 0 brakes
        return self._duty_goal(duty, limit)

    def _duty_goal(self, duty: float, limit: int) -> Goal:
        return Goal(0, signed_to_bits(self._duty_counts(duty, limit)), limit, wheel=True)

    def _duty_counts(self, duty: float, limit: int) -> int:
        """Counts of a duty, servo side; the motor gets what the `limit` of the torque leaves of it."""
        full, duty = self.profile.units.full_scale, max(-1.0, min(1.0, duty))
        self._duty = max(-limit, min(limit, duty * full)) / full
        return round(duty * full) * self.config.direction

    def _enter_wheel(self, sample: LatestSample) -> None:
        """Angle limits 0/0, kept to be restored; written once, because EEPROM wears and the servo is deaf meanwhile."""
        if self.is_wheel:
            return
        self._speed = self._correction = self._expected = 0.0
        if (held := self._read_all(self._no_limits)) != self._no_limits:
            self.write("goal_position", self.calibration.goal(min(max(sample("position"), self._low), self._high)))
            self._change(held, self._no_limits)
        self.write(self.protocol.names.speed, 0)
        self.is_wheel = True

    def _leave_wheel(self) -> None:
        """Back to joint mode, where it is not in it."""
        if self._borrowed:
            self.restore()
            self.power(on=True)
