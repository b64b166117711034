"""A servo as users hold it: SI units, limits, set-points and the last sample, whatever drives the joint.

Commands follow Webots' Motor node and act in the next `Robot.step`. `position`, `velocity`, `torque` and the others are
what the servo measured in the last step; what it is to do is `target_position`, `velocity_limit`, and so on. Set-points
out of range are clipped, with a `ControlWarning` the first time; impossible ones (NaN, a negative speed) are refused
with one each time, and the old value stays. Degrees are an error, and so are what is no number and a command to a
robot that was closed.
Units: rad and N·m, for a linear joint m and N.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from axbridge.bus.cycle import Goal, RawState
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import ErrorFlag, HardwareError, RobotStopped, UnsupportedOperation, UsageError
from axbridge.robot.drives.drive import EMULATION, Capability, Drive
from axbridge.robot.drives.dynamixel import DynamixelDrive
from axbridge.robot.warn import warn
from axbridge.servo import checks
from axbridge.servo.coupled_motors import Limits, scaled
from axbridge.servo.setpoints import Setpoints
from axbridge.state import Goals, ServoState, Truth

_UNITS = {
    "position": {"rotational": "rad", "linear": "m"},
    "velocity": {"rotational": "rad/s", "linear": "m/s"},
    "acceleration": {"rotational": "rad/s²", "linear": "m/s²"},
    "torque": {"rotational": "N·m", "linear": "N"},
}
_UNREAD = ServoState(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, ErrorFlag(0))


class Servo:
    """One joint of a robot and what drives it. Made by `Robot`.

    Args:
        config: The rig's entry.
        drive: What moves the joint.
        seed: Of the position sensor's noise.
        recover: Lets a motor that was shut down move again, by name.
        lead: `Robot.goto`.
        refuse_closed: Raises `UsageError` when the robot takes no commands any more.

    Attributes:
        sampled_at: Time of the last sample, s on the robot's clock; NaN before the first.
    """

    def __init__(
        self,
        config: ServoConfig,
        drive: Drive,
        seed: int,
        recover: Callable[[str], None],
        lead: Callable[[Mapping[str, float], float], bool],
        refuse_closed: Callable[[], None],
    ) -> None:
        self.name: str = config.name
        self.config = config
        self._drive = drive
        self._state = _UNREAD
        self._raw: tuple[RawState, float] | None = None  # of the last sample, as long as it is not in SI units
        self._taken = math.nan  # when `_state` was, on the backend's clock
        self.sampled_at: float = math.nan
        self._exact = not config.noise and not config.resolution  # of the position sensor
        self._random = random.Random(f"{seed} {config.name}")
        self._noise = 0.0  # of the last sample, rad
        self._turned = math.nan  # rad: position with whole turns, of a wheel
        self._dead = False  # its battery is empty
        self._stopped = False  # by hand, see `Robot.stop`
        self._limp = False  # although it should have torque
        self._kept = False  # limp until `recover`: it has shut itself down, or was beyond a limit
        self._recover = recover
        self._lead = lead
        self._refuse_closed = refuse_closed
        self._multiplier = config.multiplier or 1.0
        self._siblings: tuple[Servo, ...] = ()
        self._limits = _widened(config)
        self._max_velocity = drive.limits.velocity
        start = config.position if drive.on_at_start else math.nan
        self._wanted = Setpoints(start, self._max_velocity, config.acceleration, drive.max_torque, config.control_pid)
        self._wanted.enabled = drive.on_at_start
        self._asked_position = start
        self._position_factor = self._velocity_factor = 1.0  # set-points over what was asked of this motor
        self._asked_velocity = self._max_velocity
        self._warned: set[str] = set()
        self._clipped: set[tuple[str, bool]] = set()  # command and end that a warning was given of
        if config.multiplier == 0:
            warn(f"multiplier of {self.name!r} must not be 0; it becomes 1")
        if config.acceleration != -1:  # what the rig asks for is used from the first step on, so it is said now
            self._needs("acceleration")
        if config.controller == "pid":
            self._needs("pid")
        low, high = config.soft_limits
        if config.min_stop < config.max_stop and (config.min_stop > low or config.max_stop < high) and low > -math.inf:
            warn(f"the soft limits of {self.name!r} reach beyond its stops {config.min_stop:g}..{config.max_stop:g}")

    # ---- commands

    def set_position(self, position: float, *, clip: bool = False) -> None:
        """Move towards `position` from the next step on; switches the motor on (without a jump) when it is off.

        ±inf turns endlessly at the set velocity. Clipped to the soft limits and to what the drive can reach; NaN is
        refused. Coupled motors follow by their multipliers.

        Args:
            position: rad (m for a linear joint).
            clip: Clip degrees, too, as Webots does, instead of raising.

        Raises:
            UsageError: an angle out of the limits that is more than a turn: it is in degrees, most likely.
            UnsupportedOperation: endless turning on a drive that cannot.
            BusError: the servo does not answer.
        """
        self._refuse_closed()
        position = checks.number(position, "a position")
        if not clip:
            self._refuse_degrees(position)
        for motor in (self, *self._siblings):
            checked = motor._checked(scaled(position, motor._multiplier))
            if checked.value is None:
                return self._say(checked.warning, "position")
            if math.isinf(checked.value):
                motor._needs("wheel")
            if not motor._wanted.enabled:
                motor.torque_on()
            motor._wanted.target = checked.value
            motor._wanted.torque = motor._wanted.duty = None
            motor._follow(self, position=position)
            if checked.warning and motor is self:
                self._warn_once("position", checked.value > 0, checked.warning)
        return None

    def _refuse_degrees(self, position: float) -> None:
        """Refuse what can be no angle of this joint, rad, rather than run to its limit.

        Raises:
            UsageError: says so.
        """
        if self.type == "linear" or not checks.is_no_angle(
            scaled(position, self._multiplier), self.min_position, self.max_position
        ):
            return
        raise UsageError(
            f"{position:g} rad is no angle of servo {self.name!r}, which goes from {self.min_position:.3f} to "
            f"{self.max_position:.3f} rad",
            f"radians? {position:g}° is {math.radians(position):.3f}: give math.radians({position:g})",
        )

    def _checked(self, position: float) -> checks.Checked:
        """What `set_position` makes of a position, rad or m, and the warning that goes with it; nothing moves."""
        return checks.position(position, self.min_position, self.max_position, angle=self.type == "rotational")

    def _follow(self, leader: Servo, *, position: float | None = None, velocity: float | None = None) -> None:
        """Remember a request: the commanded motor as it was given, the others times their own multiplier."""
        factor, share = (self._multiplier, 1.0) if leader is self else (1.0, self._multiplier)
        if position is not None:
            self._position_factor = factor
            self._asked_position = float(scaled(position, share))
        if velocity is not None:
            self._velocity_factor = factor
            self._asked_velocity = float(velocity * share)

    def set_velocity(self, velocity: float) -> None:
        """Limit the speed of the approach, or set the speed of velocity control (then signed); 0 holds still.

        Clipped to `max_velocity`. NaN is refused, and a negative value unless the target is infinite. Stored but
        without effect in torque control. Coupled motors follow by their multipliers.
        """
        self._refuse_closed()
        velocity = checks.number(velocity, "a velocity")
        signed = self._wanted.endless or velocity >= 0  # only the request may not be negative: a multiplier turns it
        for motor in (self, *self._siblings):
            checked = checks.velocity(velocity * motor._multiplier, motor._max_velocity, endless=signed)
            if checked.value is None:
                return self._say(checked.warning, "velocity")
            motor._wanted.velocity = checked.value
            motor._follow(self, velocity=velocity)
            if checked.warning and motor is self:
                self._warn_once("velocity", checked.value > 0, checked.warning)
        return None

    def set_acceleration(self, acceleration: float) -> None:
        """Limit the acceleration, rad/s²; -1 = unlimited. NaN and other negative values are refused.

        Raises:
            UnsupportedOperation: the drive cannot.
        """
        self._refuse_closed()
        checked = checks.acceleration(checks.number(acceleration, "an acceleration"))
        if checked.value is None:
            return self._say(checked.warning, "acceleration")
        if checked.value != -1:
            self._needs("acceleration")
        self._wanted.acceleration = checked.value
        return None

    def set_available_torque(self, torque: float) -> None:
        """Cap the motor's torque; 0 leaves it limp.

        Clipped to `max_torque`. NaN and negative values are refused. On a Dynamixel this is a cap on duty: exact at
        stall. An X servo that its rig has in current-based position mode caps its current.
        """
        self._refuse_closed()
        checked = checks.available_torque(checks.number(torque, "a torque"), self.max_torque)
        if checked.value is None:
            return self._say(checked.warning, "torque")
        self._wanted.available_torque = checked.value
        if checked.warning:
            self._warn_once("available torque", True, checked.warning)
        return None

    def set_control_pid(self, p: float, i: float, d: float) -> None:
        """Set the gains of Webots' PID on velocity; the integral begins anew.

        P must be positive, I and D not negative: else refused, the old gains stay. On a Dynamixel they act when the
        rig says ``controller = "pid"``.

        Raises:
            UnsupportedOperation: the servo's own position loop is in use (``controller = "firmware"``).
        """
        self._refuse_closed()
        p, i, d = (checks.number(gain, "a gain") for gain in (p, i, d))
        refused = checks.gains(p, i, d)
        if refused:
            return self._say(refused)
        self._needs("pid")
        self._wanted.gains = (p, i, d)
        self._wanted.gains_set += 1
        return None

    def set_torque(self, torque: float) -> None:
        """Apply a torque from the next step on, until it is replaced; only `set_position` ends torque control.

        Clipped to the available torque; NaN is refused. Coupled motors follow by their multipliers.

        Raises:
            UnsupportedOperation: the drive cannot.
            BusError: the servo does not answer.
        """
        self._refuse_closed()
        torque = checks.number(torque, "a torque")
        for motor in (self, *self._siblings):
            checked = checks.torque(torque * motor._multiplier, motor._wanted.available_torque)
            if checked.value is None:
                return self._say(checked.warning, "torque")
            motor._needs("torque")
            if not motor._wanted.enabled:
                motor.torque_on()
            motor._wanted.torque = checked.value
            motor._wanted.duty = None
            if checked.warning and motor is self and not self._siblings:
                self._warn_once("torque", checked.value > 0, checked.warning)
        return None

    def set_duty(self, duty: float) -> None:
        """Turn endlessly at a duty of -1..1 from the next step on, open loop, until another command replaces it.

        This is the servo's own wheel mode, or PWM mode: the motor gets that share of the supply. The angle limits of an
        AX-12, or the Operating Mode, EEPROM, are written once and given back by `restore`, by the next `set_position`,
        and when the robot is closed. Clipped to -1..1; NaN is refused. Coupled motors follow by their multipliers.

        Raises:
            UnsupportedOperation: no Dynamixel, or an MX with Protocol 1.0, whose wheel takes a speed.
            BusError: the servo does not answer.
        """
        duty = checks.number(duty, "a duty")
        for motor in (self, *self._siblings):
            checked = checks.duty(duty * motor._multiplier)
            if checked.value is None:
                return self._say(checked.warning)
            full = motor._needs_registers("turns by velocity, not by duty").profile.units.full_scale
            motor._needs("duty")
            if not motor._wanted.enabled:
                motor.torque_on()
            motor._wanted.duty = round(checked.value * full) / full  # as the register takes it
            motor._wanted.torque = None
            if checked.warning and motor is self:
                self._warn_once("duty", checked.value > 0, checked.warning)
        return None

    def set_damping_constant(self, damping: float) -> None:
        """Add damping to the joint as Webots' Brake does, N·m·s/rad; negative values and NaN are refused.

        Raises:
            UnsupportedOperation: the joint has no brake.
        """
        self._refuse_closed()
        if not self._drive.brake:
            raise UnsupportedOperation(f"servo {self.name!r} has no brake", "only ideal joints have one")
        damping = checks.number(damping, "a damping")
        if not 0 <= damping < math.inf:
            return self._say(f"damping must be positive, not {damping:g}; it stays {self._wanted.damping:g}")
        self._wanted.damping = damping
        return None

    def goto(self, position: float, duration: float) -> bool:
        """Go to `position` (rad) within `duration` s along a minimum-jerk path, stepping the robot until it is there.

        The other servos keep their set-points. Returns and raises as `axbridge.robot.robot.Robot.goto`.
        """
        return self._lead({self.name: position}, duration)

    def torque_on(self) -> None:
        """Switch the motor on where the joint is: goal := present position first, so that nothing snaps.

        Raises:
            RobotStopped: the robot was stopped, and nobody has called `Robot.resume`.
            BusError: the servo does not answer; torque stays off.
        """
        self._refuse_closed()
        if self._stopped:
            raise RobotStopped(
                f"servo {self.name!r} stays off: all motors were switched off by hand",
                "release it on the page, or call Robot.resume()",
            )
        self._convert_sample()
        if not self._dead and not (self._kept and self._wanted.enabled):
            self._wanted.target = self._asked_position = self._drive.power(on=True)
            self._limp = False
        self._wanted.torque = self._wanted.duty = None
        self._wanted.enabled = True

    def torque_off(self) -> None:
        """Leave the joint limp.

        Raises:
            BusError: the servo does not answer, so it may still be powered.
        """
        self._refuse_closed()
        self._convert_sample()
        self._wanted.enabled = False
        self._drive.power(on=False)

    def restore(self) -> None:
        """Leave the joint limp, and undo what was changed in the servo for good: angle limits, or Operating Mode.

        Raises:
            BusError: the servo does not answer; the hint is the command that mends it.
        """
        self.torque_off()
        self._drive.restore()

    def recover(self) -> None:
        """Let a motor move again that shut itself down (overload) or was switched off: at a limit, or by others.

        From the next step on: first its goal is where the joint is, then the target acts again, with torque that rises
        within the rig's `soft_start_ms`. When the cause is still there, it will shut down again. Nothing happens to an
        ideal joint, which never shuts down.
        """
        self._refuse_closed()
        self._recover(self.name)

    def read(self, register: str) -> int:
        """Read a register by name, in counts.

        Raises:
            UnsupportedOperation: no Dynamixel.
            ProfileError: this model has no such register.
            ServoFault: the servo refused.
            BusError: it does not answer.
        """
        return self._dynamixel.read(register)

    def write(self, register: str, value: int) -> None:
        """Write a register by name, in counts; checked against the profile's range before anything is sent.

        While torque is on, every step writes goal position and moving speed anew from the set-points, and torque limit
        when its set-point has changed: what is written to these lasts until then. Use `set_position`, `set_velocity`
        and `set_available_torque`.

        Raises:
            UnsupportedOperation: no Dynamixel.
            ProfileError: this model has no such register.
            UsageError: read-only register, or a value out of its range.
            ServoFault: the servo refused the value.
            BusError: it does not answer.
        """
        self._dynamixel.write(register, value)

    @property
    def _dynamixel(self) -> DynamixelDrive:
        return self._needs_registers("has no registers")

    def _needs_registers(self, lack: str) -> DynamixelDrive:
        self._refuse_closed()
        if not isinstance(self._drive, DynamixelDrive):
            raise UnsupportedOperation(f"servo {self.name!r} is an ideal joint and {lack}")
        return self._drive

    def _needs(self, capability: str) -> None:
        """Refuse what cannot be done; say once what is emulated."""
        kind = self.capabilities[capability]
        if kind == "unsupported":
            raise UnsupportedOperation(f"servo {self.name!r} has no {capability}", "see Servo.capabilities")
        if kind == "emulated" and capability not in self._warned:
            self._warned.add(capability)
            warn(f"servo {self.name!r} {EMULATION[capability]}")

    def _warn_once(self, command: str, upwards: bool, message: str) -> None:
        """Say what was clipped, the first time that this command goes beyond this end: loops repeat themselves."""
        if (command, upwards) not in self._clipped:
            self._clipped.add((command, upwards))
            self._say(message, command)

    def _say(self, message: str, command: str = "") -> None:
        """Warn of a command to this servo; with the unit of its numbers."""
        unit = _UNITS.get(command.removeprefix("available "), {}).get(self.type, "")
        warn(f"servo {self.name!r}{unit and f' ({unit})'}: {message}")

    # ---- set-points and limits

    @property
    def target_position(self) -> float:
        """The target, clipped; NaN before the first. In a coupling that of a follower is times its multiplier."""
        return scaled(self._wanted.target, 1 / self._position_factor)

    @property
    def velocity_limit(self) -> float:
        """The speed set-point, clipped; the measured speed is `velocity`. In a coupling as `target_position`."""
        return self._wanted.velocity / self._velocity_factor

    @property
    def goals(self) -> Goals:
        """The joint's last commands, as a recording has them; `target_position` and others are *your* set-points."""
        wanted = self._wanted
        positioned = wanted.torque is None and wanted.duty is None and not wanted.endless
        return Goals(
            wanted.target if positioned else math.nan,
            abs(wanted.velocity) if positioned else math.nan,
            round(wanted.available_torque / self.max_torque, 12) if self.max_torque else 1.0,  # 0.4 stays 0.4
            math.nan if wanted.duty is None else wanted.duty,
            self.torque_enabled,
        )

    @property
    def requested(self) -> tuple[float, float]:
        """Position and velocity asked for last, before clipping: what Webots' getters return."""
        return self._asked_position, self._asked_velocity

    @property
    def acceleration(self) -> float:
        """The acceleration limit; -1 = unlimited."""
        return self._wanted.acceleration

    @property
    def available_torque(self) -> float:
        """The torque cap."""
        return self._wanted.available_torque

    @property
    def torque_enabled(self) -> bool:
        """Whether the motor is on: it was switched on last, and the servo does not say otherwise."""
        return self._wanted.enabled and not self._limp

    @property
    def min_position(self) -> float:
        """Lowest position `set_position` passes on; -inf = no limit."""
        return max(self._limits[0], self._drive.limits.low)

    @property
    def max_position(self) -> float:
        """Highest position `set_position` passes on; inf = no limit."""
        return min(self._limits[1], self._drive.limits.high)

    @property
    def max_velocity(self) -> float:
        """Highest speed: the rig's, else the data sheet's no-load speed; 10 for an ideal joint."""
        return self._max_velocity

    @property
    def max_torque(self) -> float:
        """Highest torque: the rig's, else the data sheet's stall torque; 10 for an ideal joint."""
        return self._drive.max_torque

    @property
    def multiplier(self) -> float:
        """Factor of position, velocity and torque commands, as Webots' coupled motors have it."""
        return self._multiplier

    @property
    def type(self) -> Literal["rotational", "linear"]:
        """Kind of joint."""
        return self._drive.type

    @property
    def has_brake(self) -> bool:
        """Whether `set_damping_constant` can be used."""
        return self._drive.brake

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """What the drive does itself, what axbridge does for it, and what cannot be done."""
        return self._drive.capabilities

    @property
    def power(self) -> float:
        """Electrical power drawn at the last sample, W: U·i by the motor model, for ideal joints as Webots reckons."""
        return self._drive.electrical_power(self.state, self.config.consumption_factor)

    # ---- readings: what the servo measured in the last step; NaN before the first, and where it measures nothing

    @property
    def state(self) -> ServoState:
        """The last sample: all readings at once, with their time."""
        self._convert_sample()
        return self._state

    @property
    def position(self) -> float:
        """Where the joint was at the last sample, rad (m for a linear joint)."""
        if self._raw is not None and self._exact:
            return self._drive.position(self._raw[0])
        return self.state.position

    @property
    def turned(self) -> float:
        """How far the joint has turned, rad: `position` with whole turns, counted while an AX or MX is a wheel.

        An X servo counts them itself, and its `position` has them while it is one.

        Where an AX-12 reads nothing (300° to 360°), the motor model says how far it is: see docs/webots.md for how sure
        that is. When it is a joint again, the count begins anew.
        """
        return self.position if math.isnan(self._turned) else self._turned

    @property
    def velocity(self) -> float:
        """How fast it was, rad/s or m/s; the set-point is `velocity_limit`."""
        return self.state.velocity

    @property
    def torque(self) -> float:
        """The motor's torque, N·m or N; a Dynamixel's is estimated from load, speed and supply by its motor model."""
        return self.state.torque

    @property
    def load(self) -> float:
        """The duty that the servo's firmware reports, -1..1; of an ideal joint the share of `max_torque`."""
        return self.state.load

    @property
    def voltage(self) -> float:
        """Supply, V; NaN for an ideal joint."""
        return self.state.voltage

    @property
    def temperature(self) -> float:
        """°C; NaN for an ideal joint."""
        return self.state.temperature

    @property
    def errors(self) -> ErrorFlag | HardwareError:
        """Error byte of the servo's latest reply."""
        return self.state.errors

    @property
    def truth(self) -> Truth:
        """Simulation only: joint and torque as they were at the last sample; NaN on a real robot.

        Ask before the next step: a simulation keeps the last 20 ms. What is older is NaN, too.
        """
        self._convert_sample()
        return self._drive.truth(self._taken)

    def __repr__(self) -> str:
        unit = "rad" if self.type == "rotational" else "m"
        power = "torque on" if self.torque_enabled else "limp"
        return f"<Servo {self.name!r} at {self.position:.3f} {unit}, {power}>"

    # ---- what Robot needs

    def _couple(self, siblings: Sequence[Servo], limits: Limits) -> None:
        """Follow these motors' commands; `limits` are the coupling's, in this motor's units."""
        self._siblings = tuple(siblings)
        self._limits = limits.low, limits.high
        if self._wanted.velocity == self._max_velocity:
            self._wanted.velocity = self._asked_velocity = limits.velocity
        self._max_velocity = limits.velocity

    def _command(self, period: float) -> Goal | None:
        return self._drive.command(self._wanted, self, period)

    def _switched_off(self) -> None:
        """Somebody else has switched the motor off: as after `torque_off`."""
        self._wanted.enabled = False

    def _mark(self, *, limp: bool, kept: bool) -> None:
        """What the latest exchange has shown: whether it has no torque whatever is wanted, and that until `recover`."""
        self._limp, self._kept = limp, kept

    def _stop(self, *, stopped: bool) -> None:
        """Stay off until this is called again (a joint on a bus has been switched off already), or may go on again."""
        self._convert_sample()
        self._stopped = stopped
        if stopped:
            self._wanted.enabled = False
            if not isinstance(self._drive, DynamixelDrive):
                self._drive.power(on=False)

    def _rewire(self, drive: Drive) -> None:
        """Go on with another drive: every setting stays."""
        self._convert_sample()
        self._drive = drive
        self._wanted.gains_set += self._wanted.gains_set > 0  # so that the new drive takes them

    def _look(self, raw: RawState | None, start: float) -> tuple[ServoState, float]:
        """State and power, W, by this sample, which is not kept; None: an ideal joint's, of this moment."""
        state = self._drive.state(raw, start)
        return state, self._drive.electrical_power(state, self.config.consumption_factor)

    def _cut(self) -> None:
        """The battery is empty: the motor is limp, and the last sample stays."""
        self._convert_sample()
        self._dead = True
        if self._wanted.enabled:
            self._drive.power(on=False)

    def _take(self, raw: RawState | None, start: float) -> None:
        """Take in a sample; `start` is the robot's time 0 on the backend's clock, s."""
        if self._dead:
            return
        if self.config.noise:
            self._noise = self._random.gauss(0.0, self.config.noise)
        if raw is None:
            self._raw, self._state = None, self._measured(self._drive.state(None, start))
            self.sampled_at = self._state.time
        else:
            self._raw, self.sampled_at = (raw, start), raw.time - start
        self._turned = self._drive.turned(self.state) if self._drive.is_wheel else math.nan

    def _convert_sample(self) -> None:
        """Work out the last sample in SI units, before the drive changes: whether it was on is part of the sample."""
        if self._raw is not None:
            (raw, start), self._raw = self._raw, None
            self._state, self._taken = self._measured(self._drive.state(raw, start)), raw.time

    def _measured(self, state: ServoState) -> ServoState:
        """With the noise and the resolution that the rig gives the position sensor."""
        if self._exact:
            return state
        return replace(state, position=_rounded(state.position + self._noise, self.config.resolution))


def _widened(config: ServoConfig) -> tuple[float, float]:
    """Soft limits, widened to contain the initial position as Webots does at load."""
    low, high = config.soft_limits
    return min(low, config.position), max(high, config.position)


def _rounded(value: float, resolution: float) -> float:
    """`value` to the nearest multiple of `resolution` (0 = as it is), halves away from zero."""
    if not resolution or not math.isfinite(value):
        return value
    return math.copysign(math.floor(abs(value) / resolution + 0.5), value) * resolution
