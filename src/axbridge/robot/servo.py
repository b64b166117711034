"""A servo in the public API: SI units, limits, set-points and the last sample, for every kind of drive.

Commands follow Webots' Motor node and act in the next `Robot.step`. Set-points out of range are clipped, with a
`ControlWarning` the first time. Invalid ones (NaN, a negative speed) are refused with a warning each time, and the old
value stays. Angles in degrees, values that are no numbers, and commands to a closed robot are errors.
Units: rad and N·m, for a linear joint m and N.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import ServoFlags, UnsupportedOperation, UsageError
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.robot.drives.drive import Capability
from axbridge.robot.joint import Joint
from axbridge.servo import checks
from axbridge.servo.setpoints import scaled
from axbridge.state import Goals, ServoState, Truth


class CommandedByMethods:
    """Refuses assignments to public names: in other libraries they are commands, here they would do nothing."""

    if not TYPE_CHECKING:  # with this method a type checker would accept unknown names

        def __setattr__(self, name: str, value: object) -> None:
            """Raise UsageError unless the name is private, one that the class declares, or a method."""
            declared = name.startswith("_") or name in type(self).__annotations__
            if not declared and not callable(getattr(type(self), name, None)):
                kind = type(self).__name__.lower()
                hint = "call set_position(rad), set_velocity(rad/s) or set_available_torque(N·m), then robot.step()"
                raise UsageError(f"{name} of a {kind} cannot be assigned: nothing was sent", hint)
            object.__setattr__(self, name, value)


class Servo(CommandedByMethods):
    """One joint of a robot with its motor. Made by `Robot`."""

    name: str
    config: ServoConfig

    def __init__(self, joint: Joint, goto: Callable[..., bool], losses: dict[Joint, int] | None = None) -> None:
        self.name = joint.config.name
        self.config = joint.config
        self._joint = joint
        self._goto = goto
        self._torque_loss_counts = losses  # by joint, at the call of `Robot.driven`; None for an ordinary servo

    # ---- commands

    def set_position(self, position: float, *, clip: bool = False) -> None:
        """Move towards `position` from the next step on; switches the motor on (without a jump) when it is off.

        ±inf turns endlessly at the set velocity. Clipped to the soft limits and the drive's range; NaN is refused.
        Coupled motors follow by their multipliers.

        Args:
            position: rad (m for a linear joint).
            clip: Clip angles in degrees, as Webots does, instead of raising.

        Raises:
            UsageError: an angle out of the limits by more than a turn, which is probably in degrees. Or the first goal
                of a real servo that counts turns is more than half a turn away, and no limits tell its turn:
                `set_position(servo.position)` confirms that its position is right.
            UnsupportedOperation: endless turning, which the drive does not support.
            BusError: the servo does not answer.
        """
        position = self._number(position, "a position")
        if not clip:
            self._joint.refuse_degrees(position)
        for joint in (self._joint, *self._joint.siblings):
            joint.refuse_unknown_turns(position)
        for joint, target in self._apply_checked("position", lambda j: j.check(scaled(position, j.multiplier))):
            joint.setpoints.target = target
            joint.setpoints.torque = joint.setpoints.duty = None
            joint.setpoints.holding = False
            if self._torque_loss_counts is None:  # a waypoint of a command over time does not confirm the turn
                joint.turns_unknown_at = math.nan
            joint.store_request(self._joint, "position", position)

    def set_velocity(self, velocity: float) -> None:
        """Limit the speed of the approach, or set the speed of velocity control (then signed); 0 holds still.

        Clipped to `max_velocity`. NaN is refused, and a negative value unless the target is infinite. Stored but
        without effect in torque control. Coupled motors follow by their multipliers.
        """
        velocity = self._number(velocity, "a velocity")
        # only the requested value must not be negative: a multiplier may reverse it
        signed = self._joint.setpoints.endless or velocity >= 0
        for joint, speed in self._validate(
            "velocity", lambda j: checks.velocity(velocity * j.multiplier, j.limits.velocity, endless=signed)
        ):
            joint.setpoints.velocity = speed
            joint.store_request(self._joint, "velocity", velocity)

    def set_acceleration(self, acceleration: float) -> None:
        """Limit the acceleration, rad/s²; -1 = unlimited. NaN and other negative values are refused.

        Raises:
            UnsupportedOperation: the drive has no acceleration limit.
        """
        value, warning = checks.acceleration(self._number(acceleration, "an acceleration"))
        if value is None:
            self._joint.warn(warning, "acceleration")
            return
        if value != -1:
            self._joint.require("acceleration")
        self._joint.setpoints.acceleration = value

    def set_available_torque(self, torque: float) -> None:
        """Limit the motor's torque, N·m or N; 0 leaves it limp.

        Clipped to `max_torque`. NaN and negative values are refused. On a Dynamixel this limits the duty, exact at
        stall. An X servo in current-based position mode limits its current.
        """
        value, warning = checks.available_torque(self._number(torque, "a torque"), self.max_torque)
        if value is None:
            self._joint.warn(warning, "torque")
        else:
            self._joint.setpoints.available_torque = value
            self._joint.warn_clipped("available torque", value, warning)

    def set_control_pid(self, p: float, i: float, d: float) -> None:
        """Set the gains of Webots' PID on velocity; the integral begins at 0.

        P must be positive, I and D not negative; else the old gains stay. On a Dynamixel they act only with
        ``controller = "pid"`` in the rig.

        Raises:
            UnsupportedOperation: the servo's own position loop is in use (``controller = "firmware"``).
        """
        p, i, d = (self._number(gain, "a gain") for gain in (p, i, d))
        if refused := checks.gains(p, i, d):
            self._joint.warn(refused)
        else:
            self._joint.require("pid")
            self._joint.setpoints.gains = (p, i, d)
            self._joint.setpoints.gains_set += 1

    def set_torque(self, torque: float) -> None:
        """Apply a torque from the next step on, until it is replaced; only `set_position` ends torque control.

        Clipped to the available torque; NaN is refused. Coupled motors follow by their multipliers.

        Raises:
            UnsupportedOperation: the drive has no torque control.
            BusError: the servo does not answer.
        """
        torque = self._number(torque, "a torque")
        for joint, wanted in self._apply_checked(
            "torque", lambda j: checks.torque(torque * j.multiplier, j.setpoints.available_torque)
        ):
            joint.setpoints.torque, joint.setpoints.duty = wanted, None

    def set_duty(self, duty: float) -> None:
        """Turn endlessly at a duty of -1..1 from the next step on, open loop, until another command replaces it.

        This is the servo's own wheel mode, or PWM mode: the motor gets that share of the supply voltage. The angle
        limits of an AX-12, or the Operating Mode (EEPROM), are changed once; `restore`, the next `set_position` and
        closing the robot write them back. Clipped to -1..1; NaN is refused. Coupled motors follow by their multipliers.

        Raises:
            UnsupportedOperation: no Dynamixel, or an MX with Protocol 1.0, whose wheel takes a speed.
            BusError: the servo does not answer.
        """
        duty = self._number(duty, "a duty")
        for joint, share in self._apply_checked("duty", lambda j: checks.duty(duty * j.multiplier)):
            full = joint.bus_drive("turns by velocity, not by duty").profile.units.full_scale
            joint.setpoints.duty = round(share * full) / full  # the register's resolution
            joint.setpoints.torque = None

    def set_damping_constant(self, damping: float) -> None:
        """Add damping to the joint as Webots' Brake does, N·m·s/rad; negative values and NaN are refused.

        Raises:
            UnsupportedOperation: the joint has no brake.
        """
        damping = self._number(damping, "a damping")
        if not self.has_brake:
            raise UnsupportedOperation(f"servo {self.name!r} has no brake", "only ideal joints have one")
        setpoints = self._joint.setpoints
        if 0 <= damping < math.inf:
            setpoints.damping = damping
        else:
            self._joint.warn(f"damping must be positive, not {damping:g}; it stays {setpoints.damping:g}")

    def goto(self, position: float, duration: float) -> bool:
        """Go to `position` (rad) in `duration` s along a minimum-jerk trajectory; steps the robot until it has arrived.

        The other servos keep their set-points. Returns and raises as `axbridge.robot.robot.Robot.goto`.
        """
        return self._goto({self.name: position}, duration)

    def torque_on(self) -> None:
        """Switch the motor on at its present position, which becomes the goal first, so that the joint does not jump.

        It holds there until its next goal, also beyond a limit, with a `ControlWarning`.

        Raises:
            RobotStopped: the robot was stopped, and `Robot.resume` was not called.
            BusError: the servo does not answer; torque stays off.
        """
        self._joint.connection.refuse_closed()
        if self._may_drive(self._joint):
            self._joint.switch_on(to_hold=True)

    def torque_off(self) -> None:
        """Leave the joint limp.

        Raises:
            BusError: the servo does not answer, so it may still be powered.
        """
        self._joint.connection.refuse_closed()
        self._joint.note_off()
        if self._torque_loss_counts is not None:
            self._torque_loss_counts[self._joint] += 1  # it accepts goals after its own `torque_off`
        self._joint.drive.power(on=False)

    def restore(self) -> None:
        """Leave the joint limp, and write back the changed EEPROM registers: angle limits, or Operating Mode.

        Raises:
            BusError: the servo does not answer; the hint is the command that repairs it.
        """
        self.torque_off()
        self._joint.drive.restore()

    def recover(self) -> None:
        """Allow a motor to move again that has shut itself down or was switched off at a limit or by another program.

        From the next step on it holds the present position, with torque rising within the rig's `soft_start_ms`. An
        earlier position goal is void; a speed, a torque or a duty acts again. If the cause remains, the servo shuts
        down again. An ideal joint never shuts down: no effect.
        """
        self._joint.connection.refuse_closed()
        here = self._joint.connection.recover(self.name, on=self._joint.setpoints.enabled)
        self._joint.keep_off()
        self._joint.withheld = False
        if self._joint.has_goal_turns_away(here):
            self._joint.warn(f"it may have forgotten its turns, and stays at {here:g} until its next goal", "position")
        self._joint.void_goal(here)

    def read(self, register: str) -> int:
        """Read a register by name, in counts.

        Raises:
            UnsupportedOperation: the joint is ideal, without registers.
            ProfileError: this model has no such register.
            ServoFault: the servo refused the read.
            BusError: the servo does not answer.
        """
        return self.dynamixel.read(register)

    def write(self, register: str, value: int) -> None:
        """Write a register by name, in counts; checked against the profile's range before anything is sent.

        While torque is on, each step overwrites goal position and moving speed from the set-points, and torque limit
        after its set-point has changed. Use `set_position`, `set_velocity` and `set_available_torque` for these.

        Raises:
            UnsupportedOperation: the joint is ideal, without registers.
            ProfileError: this model has no such register.
            UsageError: read-only register, or a value out of its range.
            ServoFault: the servo refused the value.
            BusError: the servo does not answer.
            RobotStopped: the value would switch the motor on while the robot is stopped.
        """
        goal = str(register).startswith("goal_") or register == "moving_speed"  # these can start a motor without torque
        if self._joint.stopped and (goal or (register, value) == ("torque_enable", 1)):
            self._joint.switch_on()  # raises RobotStopped
        self.dynamixel.write(register, value)

    @property
    def dynamixel(self) -> BusDrive:
        """Return the servo's drive on its bus, for tools that use registers directly; raises as `read`."""
        self._joint.connection.refuse_closed()
        return self._joint.bus_drive("has no registers")

    def _number(self, value: object, what: str) -> float:
        """Return a set-point as a float; UsageError if it is no number or the robot is closed."""
        self._joint.connection.refuse_closed()
        return checks.number(value, what)

    def _may_drive(self, joint: Joint) -> bool:
        counts = self._torque_loss_counts
        return counts is None or joint.torque_loss_count == counts[joint] or joint.stopped

    def _apply_checked(self, command: str, check: Callable[[Joint], checks.Checked]) -> Iterator[tuple[Joint, float]]:
        """Switch on and yield each joint of `_validate`; skip those that lost their torque since `Robot.driven`."""
        for joint, value in self._validate(command, check):
            if command != "position" or math.isinf(value):
                joint.require("wheel" if command == "position" else command)
            off = not joint.setpoints.enabled  # read first: `note_off` counts the loss before it changes this
            if self._may_drive(joint):
                if off:
                    joint.switch_on()
                yield joint, value

    def _validate(self, command: str, check: Callable[[Joint], checks.Checked]) -> Iterator[tuple[Joint, float]]:
        """Yield this joint and its coupled joints with their checked values; warn of a clipped or refused value."""
        for joint in (self._joint, *self._joint.siblings):
            value, warning = check(joint)
            if value is None:
                self._joint.warn(warning, command)
                return
            yield joint, value
            if joint is self._joint:
                joint.unsent[self.name] = time.monotonic()
                joint.warn_clipped(command, value, warning)

    # ---- set-points and limits

    @property
    def target_position(self) -> float:
        """Return the clipped target, rad or m; NaN before the first. A coupled follower's is times its multiplier."""
        return scaled(self._joint.setpoints.target, 1 / self._joint.factors["position"])

    @property
    def velocity_limit(self) -> float:
        """Return the clipped speed set-point, rad/s or m/s; coupled motors as for `target_position`."""
        return self._joint.setpoints.velocity / self._joint.factors["velocity"]

    @property
    def goals(self) -> Goals:
        """Return the joint's latest commands, as recordings store them; `target_position` is the user's set-point."""
        return self._joint.goals

    @property
    def requested(self) -> tuple[float, float]:
        """Return the latest requested position and velocity, before clipping, as Webots' getters do."""
        return self._joint.requested["position"], self._joint.requested["velocity"]

    @property
    def acceleration(self) -> float:
        """Return the acceleration limit, rad/s²; -1 = unlimited."""
        return self._joint.setpoints.acceleration

    @property
    def available_torque(self) -> float:
        """Return the torque limit, N·m or N."""
        return self._joint.setpoints.available_torque

    @property
    def torque_enabled(self) -> bool:
        """Return whether the motor was switched on and the servo does not report the contrary."""
        return self._joint.torque_enabled

    @property
    def min_position(self) -> float:
        """Return the lowest position that `set_position` accepts; -inf = no limit."""
        return self._joint.min_position

    @property
    def max_position(self) -> float:
        """Return the highest position that `set_position` accepts; inf = no limit."""
        return self._joint.max_position

    @property
    def max_velocity(self) -> float:
        """Return the highest speed: the rig's, else the data sheet's no-load speed; 10 for an ideal joint."""
        return self._joint.limits.velocity

    @property
    def max_torque(self) -> float:
        """Return the highest torque: the rig's, else the data sheet's stall torque; 10 for an ideal joint."""
        return self._joint.drive.max_torque

    @property
    def multiplier(self) -> float:
        """Return the factor of position, velocity and torque commands of Webots' coupled motors."""
        return self._joint.multiplier

    @property
    def type(self) -> Literal["rotational", "linear"]:
        """Return the kind of joint."""
        return self._joint.drive.type

    @property
    def has_brake(self) -> bool:
        """Return whether `set_damping_constant` is supported."""
        return self._joint.drive.brake

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """Return for each function whether the servo does it, axbridge emulates it, or it is unsupported."""
        return self._joint.drive.capabilities

    @property
    def power(self) -> float:
        """Return the electrical power at the last sample, W: U·i by the motor model; for ideal joints as in Webots."""
        return self._joint.sample("power")

    # ---- readings of the last step; NaN before the first, and for quantities that the servo does not measure

    @property
    def state(self) -> ServoState:
        """Return the last sample: all readings with their time."""
        return self._joint.table[self.name]

    @property
    def position(self) -> float:
        """Return the position at the last sample, rad (m for a linear joint)."""
        return self._joint.sample("position")

    @property
    def turned(self) -> float:
        """Return `position` with whole turns, rad, counted while an AX or MX is a wheel.

        An X servo counts turns itself: its `position` as a wheel includes them.

        In the dead zone of an AX-12 (300° to 360°) the motor model estimates the angle; docs/webots.md has its
        accuracy. The count restarts when the servo leaves wheel mode.
        """
        return self.position if math.isnan(self._joint.turned) else self._joint.turned

    @property
    def velocity(self) -> float:
        """Return the measured speed, rad/s or m/s; the set-point is `velocity_limit`.

        While an AX wheel is in the dead zone of its sensor, this and `load` come from the motor model.
        """
        return self._joint.sample("velocity")

    @property
    def torque(self) -> float:
        """Return the motor's torque, N·m or N; on a bus, the motor model's estimate from load, speed and supply."""
        return self._joint.sample("torque")

    @property
    def load(self) -> float:
        """Return the duty that the servo's firmware reports, -1..1; for an ideal joint the share of `max_torque`."""
        return self._joint.sample("load")

    @property
    def voltage(self) -> float:
        """Return the supply voltage, V; NaN for an ideal joint."""
        return self._joint.sample("voltage")

    @property
    def temperature(self) -> float:
        """Return the temperature, °C; NaN for an ideal joint."""
        return self._joint.sample("temperature")

    @property
    def errors(self) -> ServoFlags:
        """Return the error byte of the servo's latest reply."""
        return self.state.errors

    @property
    def truth(self) -> Truth:
        """Return the true position and torque of a simulated joint at the last sample; NaN on a real robot.

        A simulation keeps only the last 50 ms: read this before the next step, else it is NaN.
        """
        return Truth(self._joint.sample("true_position"), self._joint.sample("true_torque"))

    def __repr__(self) -> str:
        unit = "rad" if self.type == "rotational" else "m"
        power = "torque on" if self.torque_enabled else "limp"
        return f"<Servo {self.name!r} at {self.position:.3f} {unit}, {power}>"
