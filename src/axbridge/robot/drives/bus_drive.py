"""The drive of a servo on a bus: every control mode, through registers.

This class drives an AX, or an MX of Protocol 1.0; the drives of the X series and Feetech override what differs.
Position goals go to the servo's own loop. Missing functions are computed here, once a step: an acceleration limit and
Webots' PID as a varying Moving Speed, endless turning in wheel mode with a speed correction, and torque by the motor
model. The code is the same on a real bus, on a virtual bus and in the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, Literal

from axbridge.bus.base import Bus
from axbridge.bus.commission import apply_registers, read_register, read_registers, refuse_locked
from axbridge.bus.cycle import CycleServo, Goal
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.bus.retries import RESTORE
from axbridge.config.model import ServoModel
from axbridge.config.profile import Area, FirmwareProfile
from axbridge.config.rig_tables import SafetyConfig, ServoConfig
from axbridge.errors import BusError, PortError, Remedy, ServoFault, UsageError
from axbridge.robot.drives.drive import AX_CAPABILITIES, Capability, LatestSample
from axbridge.robot.drives.shaft_speed import SpeedForecast, TurnCounter
from axbridge.servo.columns import Param, pack
from axbridge.servo.setpoints import Limits, Setpoints, VelocityController, braking_speed, towards
from axbridge.servo.steady import SteadyServo
from axbridge.units import RPM, Calibration, signed_to_bits

_LEAD = 0.15  # s; a moving goal is this far ahead of the joint, so it stops when the host stops
_SPEED_GAIN = 0.6  # duty per rad of integrated speed error, in wheel mode
_MOST_CORRECTION = 0.5  # duty
_RESPONSE = 0.08  # s; delay with which a wheel follows its command; it is not a speed error
_RESTORE_PAUSE = 0.1  # s between two attempts to restore the mode and the angle limits


class BusDrive:
    """One servo on a bus; see `axbridge.robot.drives.drive.Drive`."""

    type: Literal["rotational", "linear"] = "rotational"
    brake = False
    slow_start = False
    has_own_limits = True  # whether the servo's own position limits apply to its goals
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
        names = self.protocol.names
        self._no_limits = {names.low: 0, names.high: 0}  # wheel mode without a mode register
        self.flags = self.protocol.alarms
        self.model_row = pack(model, profile.units.position)
        self.model_row[Param.ASYMMETRY] *= config.direction  # torques here have the joint's sign
        self.steady = SteadyServo.of(self.model_row)
        self.bus = bus
        self.calibration = Calibration(profile.units, config.zero, config.direction)
        speed = profile.electrics.no_load_speed * RPM if config.max_velocity is None else config.max_velocity
        self.limits = Limits(*self.calibration.range, speed)
        self.max_torque = profile.electrics.stall_torque if config.max_torque is None else config.max_torque
        self._full_speed = 0  # Moving Speed without a limit
        self.top_duty = profile.units.full_scale  # highest Torque Limit or duty that the servo's own limits allow
        self._low, self._high = self.calibration.range
        self._pid = VelocityController(*config.control_pid)
        self._gains_set = 0
        self._speed = 0.0  # commanded by a loop on the host
        self._correction = 0.0
        self._wheel_velocity = 0.0
        self._expected = 0.0  # speed of a wheel with its response delay, rad/s
        self._duty = 0.0  # latest commanded duty of a wheel
        self._forecast = SpeedForecast(model.motor, model.sensor.latency_ms / 1000)
        self._hold = math.nan  # position where speed 0 stopped the joint, rad
        self._goal_is_far = False  # in torque control the goal is an end of the range and gives only the direction
        self.limp_at = -math.inf  # time of the latest torque-off, s on the bus's clock
        self.powered = False
        self._without_torque = False  # whether the latest command has set a torque limit of 0
        self._borrowed: dict[str, int] = {}  # original values of changed EEPROM registers, for `restore`
        self.is_wheel = False
        self._mode: Any = None  # present mode of a family with several; None: unknown, or the usual mode
        self._turns: TurnCounter | None = None  # only for a wheel

    def _own_capabilities(self, profile: FirmwareProfile) -> Mapping[str, Capability]:
        if profile.behaviour.wheel_mode == "speed":  # a wheel of the MX takes a speed, not a duty
            return {**AX_CAPABILITIES, "duty": "unsupported"}
        return AX_CAPABILITIES

    # ---- registers

    def read(self, name: str) -> int:
        """Read a register, in counts."""
        return read_register(self.bus, self.id, self.profile.register(name))

    def write(self, name: str, value: int) -> float:
        """Write a register, in counts, after a check against the profile's range."""
        entry = self.profile.register(name)
        if not entry.writable:
            raise UsageError(f"{name} of servo {self.config.name!r} is read-only")
        if not isinstance(value, Integral):
            raise UsageError(f"{name} = {value!r} is no whole number", "registers hold counts, not SI units")
        if not entry.minimum <= value <= entry.maximum:
            raise UsageError(f"{name} = {value} is outside {entry.minimum}..{entry.maximum}")
        return self._send({name: int(value)})

    def _send(self, values: Mapping[str, int]) -> float:
        """Write neighbouring registers in one packet: between two, it could be in the wrong mode and not reply."""
        address, data = self._bytes(values)
        reply = self.bus.write(self.id, address, data)
        if reply is None:
            return self.bus.clock.now()
        if self.protocol.refused(reply.error):
            wanted = ", ".join(f"{name} = {value}" for name, value in values.items())
            flags, problem = self.protocol.error(reply.error), f"the servo did not take {wanted}"
            raise ServoFault(self.id, flags, problem, hardware=self.bus.hardware_error(self.id, flags))
        return reply.time

    def _bytes(self, values: Mapping[str, int]) -> tuple[int, bytes]:
        """Return the first address and the bytes of neighbouring registers."""
        entries = [self.profile.register(name) for name in values]
        pairs = zip(entries, values.values(), strict=True)
        return entries[0].address, b"".join(entry.encode(value) for entry, value in pairs)

    def _read_all(self, names: Iterable[str]) -> dict[str, int]:
        return {name: self.read(name) for name in names}

    # ---- Drive

    @property
    def shut_down(self) -> bool:
        """Return whether the servo has shut itself down: its Torque Limit is 0, and the rig does not set it to 0."""
        return self.read("torque_limit") == 0 and self.config.registers.get("torque_limit") != 0

    def wake(self, *, on: bool) -> float:
        """Prepare a shut-down servo for new goals; if `on`, switch it on and return its position, rad, else NaN."""
        if not on:
            return math.nan
        return self.calibration.angle(self.read("present_position")) if self.powered else self.power(on=True)

    def fill_ram(self) -> None:
        """Write the rig's RAM registers again, which a power loss resets."""
        registers = self.config.registers.items()
        ram = {name: value for name, value in registers if self.profile.register(name).area is Area.RAM}
        self._apply(ram)

    def _apply(self, registers: Mapping[str, int]) -> None:
        """Write those of these registers that differ; raise the first error when all were tried."""
        for error in apply_registers(self.bus, self.id, self.profile, registers).values():
            raise error

    def power(self, *, on: bool) -> float:
        """Switch the motor; on: first make the present position the goal. Return the position, rad; NaN when off."""
        if not on:
            self.powered = False
            self.limp_at = self.write("torque_enable", 0)
            return math.nan
        present = self.read("present_position")
        if not self._borrowed and self._read_all(self._no_limits) == self._no_limits:
            self._borrow({**self._no_limits, self.protocol.names.high: self.profile.units.counts})
            self.is_wheel = True  # a killed program has left the servo in wheel mode
        if self._borrowed:
            self.write(self.protocol.names.speed, 0)  # a wheel has no goal position
        else:
            self.write("goal_position", present)
        self.write("torque_enable", 1)
        self.powered = True
        self._speed = self._correction = 0.0
        return self.calibration.angle(present)

    def _read_block(self, *names: str) -> dict[str, int]:
        """Read registers that are close together by one READ: a simulated robot is limp during this time."""
        registers = [self.profile.register(name) for name in names]
        return dict(zip(names, read_registers(self.bus, self.id, registers), strict=True))

    def narrow(self) -> tuple[float, float]:
        """Restrict torque and positions to the servo's own limits in EEPROM.

        Return the position limits, rad; ±inf if it has none, or the factory values of its model.
        """
        names, registers = self.protocol.names, self.profile.registers
        has_torque = names.most_torque != names.torque  # else another program may have lowered this register
        if not self.has_own_limits or names.low not in registers or names.high not in registers:
            if has_torque:
                self.top_duty = min(self.top_duty, self.read(names.most_torque))
            return -math.inf, math.inf
        held = self._read_block(names.low, names.high, *([names.most_torque] if has_torque else []))
        if has_torque:
            self.top_duty = min(self.top_duty, held[names.most_torque])
        counts = self._borrowed.get(names.low, held[names.low]), self._borrowed.get(names.high, held[names.high])
        factory = registers[names.low].initial, registers[names.high].initial
        if counts[0] >= counts[1]:
            return -math.inf, math.inf  # a wheel, or several turns
        low, high = sorted(self.calibration.angle(count) for count in counts)
        self.limits = Limits(max(self.limits.low, low), min(self.limits.high, high), self.limits.velocity)
        self._low, self._high = max(self._low, low), min(self._high, high)
        return (-math.inf, math.inf) if counts == factory else (low, high)

    def cycle_servo(self, low: float, high: float, safety: SafetyConfig) -> CycleServo:
        """Return the servo's entry in its bus cycle, with goals limited to `low`..`high`, rad, and the rig's limits."""
        self._low, self._high = low, high
        ends = sorted(self.calibration.goal(position) for position in (low, high))
        top = None if self.config.max_velocity is None else self.calibration.speed_limit(self.config.max_velocity)
        hottest, volts = safety.max_temperature, safety.voltage
        return CycleServo(
            self.config.name,
            self.id,
            goal_range=(ends[0], ends[1]),
            top_speed=top,
            top_torque=self._most_torque,
            top_temperature=CycleServo.top_temperature if hottest is None else int(hottest),
            voltage_range=CycleServo.voltage_range if volts is None else (round(volts[0] * 10), round(volts[1] * 10)),
            protocol=self.protocol,
        )

    def reachable(self, limits: tuple[float, float]) -> tuple[float, float]:
        """Return the part of a range of goals, rad, that the servo allows."""
        return max(limits[0], self.limits.low), min(limits[1], self.limits.high)

    @property
    def _most_torque(self) -> int:
        """Return the highest torque limit that the rig's registers allow, counts."""
        return min(self.profile.units.full_scale, self.config.registers.get(self.protocol.names.torque, 1 << 16))

    @property
    def torque_limits(self) -> tuple[int, int | None]:
        """Return the highest torque limit and Goal Current, counts, that the rig's registers and `max_torque` allow.

        A share of the stall torque is the same share of duty, exact at stall. None: any current.
        """
        share = min(self.max_torque / self.profile.electrics.stall_torque, 1.0)
        return min(self._most_torque, round(share * self.profile.units.full_scale)), None

    def command(self, setpoints: Setpoints, sample: LatestSample, period: float) -> Goal | None:
        """Enter the control mode of the set-points; return the goal that the next cycle sends."""
        if not (self.powered and setpoints.enabled):
            return None  # a goal would switch the motor on
        if setpoints.gains_set != self._gains_set:
            self._gains_set = setpoints.gains_set
            self._pid.set_gains(*setpoints.gains)
        limit = self._torque_counts(setpoints.available_torque)
        self._without_torque = limit == 0
        duty, torque = setpoints.duty, setpoints.torque  # copies: another thread may change them
        if duty is not None or torque is not None:
            self._speed = self._expected = sample("velocity")  # a later speed ramp starts here
        if duty is not None:
            self._enter_wheel(sample)
            return self._duty_goal(duty, limit)
        if torque is not None:
            return self._torque_goal(torque, sample, period)
        if setpoints.endless:
            return self._velocity_goal(setpoints, sample, period, limit)
        self.enter_position()
        if self._goal_is_far:  # else the servo's trajectory to the next goal would start at the end of the range
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
        """Return a wheel's position with whole turns, rad; in the dead zone by the motor model."""
        if not self.is_wheel:
            return sample("position")
        if self._turns is None:
            self._turns = TurnCounter(self.steady, self.calibration.range, sample("position"))
        return self._turns.update(sample, self._duty if self.powered else 0.0)

    def counted(self, position: int) -> int:
        """Return a Present Position as position mode reports it, counts."""
        return position

    @property
    def dead_zone_estimate(self) -> tuple[float, float] | None:
        """Return a wheel's speed, rad/s, and duty by the motor model while the reported ones are invalid, else None."""
        turns = self._turns
        return (turns.speed, self._duty) if self.is_wheel and turns is not None and turns.is_invalid else None

    def restore(self, *, holding: bool = False) -> None:
        """Write the servo's original mode back (EEPROM), torque off, because a joint would move to an old goal.

        A joint that is `holding` in its own mode keeps its torque.
        """
        borrowed = self._borrowed  # another thread may restore, too
        for attempt in range(RESTORE if borrowed else 0):
            try:
                if self.is_wheel or not holding:
                    self.write("torque_enable", 0)
                if self._read_all(borrowed) != borrowed:
                    self.write("torque_enable", 0)
                    self._change_to(borrowed)
            except BusError as failure:
                if attempt == RESTORE - 1 or isinstance(failure, PortError):
                    raise self._not_restored(failure) from failure
                self.bus.clock.sleep_until(self.bus.clock.now() + _RESTORE_PAUSE)
            else:
                self._borrowed, self._turns = {}, None
                self.bus.borrowed.pop((self.id, self._bytes(borrowed)[0]), None)
                self.is_wheel = False
                break
        self._mode = None

    def restore_torque_limit(self) -> None:
        """Replace a commanded torque limit of 0, torque off: it would look like a shutdown."""
        if self._without_torque:
            self.write("torque_enable", 0)
            self.write(self.protocol.names.torque, self.top_duty)
            self._without_torque = False

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
        """Write neighbouring EEPROM registers; keep the values from before the first change for `restore`."""
        self._borrow({**held, **self._borrowed})
        self._change_to(values)

    def _change_to(self, values: Mapping[str, int]) -> None:
        refuse_locked(self.bus, self.id, self.profile, next(iter(values)))
        self._send(values)

    def _borrow(self, own: dict[str, int]) -> None:
        """Keep the servo's original registers for `restore` and for the guard."""
        self._borrowed = own
        address, data = self._bytes(own)
        self.bus.borrowed[self.id, address] = data

    # ---- position

    def _position_goal(self, wanted: Setpoints, sample: LatestSample, limit: int) -> Goal:
        """Return the target as goal; at speed 0 the position held, because a Moving Speed of 0 is full speed."""
        speed = abs(wanted.velocity)
        if speed:
            self._hold = math.nan
            full = speed >= self.limits.velocity
            return self._goal(wanted.target, self._full_speed if full else self.calibration.speed_limit(speed), limit)
        if math.isnan(self._hold):
            self._hold = sample("position")
        return self._goal(self._hold, 0, limit)

    def _begin_motion_here(self) -> None:
        """Make the present position the goal, so that the next motion starts there."""
        present = self.calibration.angle(self.read("present_position"))
        self.write("goal_position", self._goal(present, 0, 0).position)

    def _ramp(self, wanted: Setpoints, position: float, period: float) -> None:
        """Update the commanded speed within the acceleration limit; it is 0 at the target."""
        distance = wanted.target - position
        top = min(abs(wanted.velocity), braking_speed(distance, wanted.acceleration))
        self._speed = towards(self._speed, math.copysign(top, distance), wanted.acceleration * period)

    def _follow(self, speed: float, wanted: Setpoints, position: float, limit: int) -> Goal:
        """Return the goal for `speed`, rad/s: the target if it is within `_LEAD`, else a point ahead of the joint."""
        ahead = position + speed * _LEAD
        distance = wanted.target - position
        goal = wanted.target if speed * distance >= 0 and abs(ahead - position) >= abs(distance) else ahead
        if speed * distance >= 0 and abs(distance) < self.profile.units.position:
            goal = wanted.target  # arrived
        return self._goal(goal, self.calibration.speed_limit(abs(speed)), limit)

    def _goal(self, position: float, speed: int, limit: int) -> Goal:
        if not self._low <= position <= self._high:
            position = min(max(position, self._low), self._high)
        return Goal(self.calibration.goal(position), speed, limit)

    # ---- torque

    def _torque_goal(self, torque: float, sample: LatestSample, period: float) -> Goal:
        """Return the goal for a torque: a duty in wheel mode, else a torque limit and a far goal position."""
        if self.capabilities["duty"] == "unsupported":
            self.enter_position()  # an MX wheel takes a speed
        elif self.is_wheel:
            self._enter_wheel(sample)  # a Feetech servo may be in its velocity mode
        voltage = sample("voltage") or self.profile.electrics.nominal_voltage
        velocity = self._forecast.update(sample("time"), sample("velocity"), torque, period)
        duty = max(-1.0, min(1.0, self.steady.at(sample("temperature")).duty(torque, voltage, velocity)))
        position = sample("position")
        outward = (duty > 0 and position >= self._high) or (duty < 0 and position <= self._low)
        if self.is_wheel:
            return self._duty_goal(0.0 if outward else duty, self.top_duty)
        self._goal_is_far = True
        counts = min(round(abs(duty) * self.profile.units.full_scale), self.top_duty)
        return self._goal(self._high if duty > 0 else self._low, 0, counts)

    def _torque_counts(self, torque: float) -> int:
        """Return the Torque Limit for a torque, N·m, counts: it limits the duty, exact at stall."""
        if torque >= self.max_torque:
            return self.top_duty
        return min(round(torque / self.max_torque * self.profile.units.full_scale), self.top_duty)

    # ---- wheel

    def _velocity_goal(self, wanted: Setpoints, sample: LatestSample, period: float, limit: int) -> Goal:
        """Return the goal for endless turning: duty by the motor model, corrected by the measured speed."""
        self._enter_wheel(sample)
        step = math.inf if wanted.acceleration == -1 else wanted.acceleration * period
        self._speed = towards(self._speed, wanted.velocity, step)
        if self.profile.behaviour.wheel_mode == "speed":
            counts = round(self._speed / self.profile.units.speed) * self.config.direction
            return Goal(0, signed_to_bits(counts), limit, wheel=True)
        voltage, velocity = sample("voltage") or self.profile.electrics.nominal_voltage, sample("velocity")
        if wanted.velocity * self._wheel_velocity < 0:
            self._correction = 0.0  # windup against a stop must not delay the reversal
        self._wheel_velocity = wanted.velocity
        self._expected += (self._speed - self._expected) * min(period / _RESPONSE, 1.0)
        if self.dead_zone_estimate is None:
            self._correction += _SPEED_GAIN * (self._expected - velocity) * period
        self._correction = max(-_MOST_CORRECTION, min(_MOST_CORRECTION, self._correction))
        duty = self.steady.duty(0.0, voltage, self._speed) + self._correction
        if self._speed == wanted.velocity == 0 and abs(velocity) <= 2 * self.profile.units.speed:
            duty = self._correction = 0.0  # duty 0 brakes
        return self._duty_goal(duty, limit)

    def _duty_goal(self, duty: float, limit: int) -> Goal:
        return Goal(0, signed_to_bits(self._duty_counts(duty, limit)), limit, wheel=True)

    def _duty_counts(self, duty: float, limit: int) -> int:
        """Return a duty in counts with the servo's sign; the torque `limit`, counts, caps what acts on the motor."""
        full, duty = self.profile.units.full_scale, max(-1.0, min(1.0, duty))
        self._duty = max(-limit, min(limit, duty * full)) / full
        return round(duty * full) * self.config.direction

    def _enter_wheel(self, sample: LatestSample) -> None:
        """Set angle limits 0/0 and keep the old ones; only once, because EEPROM wears and writing blocks replies."""
        if self.is_wheel:
            return
        self._speed = self._correction = self._expected = 0.0
        if (held := self._read_all(self._no_limits)) != self._no_limits:
            self.write("goal_position", self.calibration.goal(min(max(sample("position"), self._low), self._high)))
            self._change(held, self._no_limits)
        self.write(self.protocol.names.speed, 0)
        self.is_wheel = True

    def enter_position(self) -> float:
        """Enter position mode if the servo is in another; return the present position in it, rad, else NaN."""
        if not self._borrowed:
            return math.nan
        self.restore()
        return self.power(on=True)
