"""A servo as users hold it: SI units, limits, set-points and the last sample, whatever drives the joint.

Commands follow Webots' Motor node and act in the next `Robot.step`. Set-points out of range are clipped, with a
`ControlWarning` the first time; impossible ones (NaN, a negative speed) are refused with one each time, and the old
value stays. Degrees are an error, and so are what is no number and a command to a robot that was closed.
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
    """Refuses a value that is assigned to a public name: in other libraries that is a command, and here it is none."""

    if not TYPE_CHECKING:  # a type checker refuses unknown names by itself, unless there is this method

        def __setattr__(self, name: str, value: object) -> None:
            """Raise UsageError unless the name is private, one that the class declares, or a method."""
            declared = name.startswith("_") or name in type(self).__annotations__
            if not declared and not callable(getattr(type(self), name, None)):
                kind = type(self).__name__.lower()
                hint = "call set_position(rad), set_velocity(rad/s) or set_available_torque(N·m), then robot.step()"
                raise UsageError(f"{name} of a {kind} cannot be assigned: nothing was sent", hint)
            object.__setattr__(self, name, value)


class Servo(CommandedByMethods):
    """One joint of a robot and what drives it. Made by `Robot`."""

    name: str
    config: ServoConfig

    def __init__(self, joint: Joint, goto: Callable[..., bool], losses: dict[Joint, int] | None = None) -> None:
        self.name = joint.config.name
        self.config = joint.config
        self._joint = joint
        self._goto = goto
        self._torque_loss_counts = losses  # of all joints, when `Robot.driven` made this servo; None: it did not

    # ---- commands

    def set_position(self, position: float, *, clip: bool = False) -> None:
        """Move towards `position` from the next step on; switches the motor on (without a jump) when it is off.

        ±inf turns endlessly at the set velocity. Clipped to the soft limits and to what the drive can reach; NaN is
        refused. Coupled motors follow by their multipliers.

        Args:
            position: rad (m for a linear joint).
            clip: Clip degrees, too, as Webots does, instead of raising.

        Raises:
            UsageError: an angle out of the limits that is more than a turn: it is in degrees, most likely. Or the first
                goal of a real servo that counts turns, more than half a turn away, and no limits say in which turn it
                is: `set_position(servo.position)` confirms that its position is right.
            UnsupportedOperation: endless turning on a drive that cannot.
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
            joint.remember_request(self._joint, "position", position)

    def set_velocity(self, velocity: float) -> None:
        """Limit the speed of the approach, or set the speed of velocity control (then signed); 0 holds still.

        Clipped to `max_velocity`. NaN is refused, and a negative value unless the target is infinite. Stored but
        without effect in torque control. Coupled motors follow by their multipliers.
        """
        velocity = self._number(velocity, "a velocity")
        # only the request may not be negative: a multiplier turns it
        signed = self._joint.setpoints.endless or velocity >= 0
        for joint, speed in self._validate(
            "velocity", lambda j: checks.velocity(velocity * j.multiplier, j.limits.velocity, endless=signed)
        ):
            joint.setpoints.velocity = speed
            joint.remember_request(self._joint, "velocity", velocity)

    def set_acceleration(self, acceleration: float) -> None:
        """Limit the acceleration, rad/s²; -1 = unlimited. NaN and other negative values are refused.

        Raises:
            UnsupportedOperation: the drive cannot.
        """
        checked = checks.acceleration(self._number(acceleration, "an acceleration"))
        if checked.value is None:
            self._joint.warn(checked.warning, "acceleration")
            return
        if checked.value != -1:
            self._joint.require("acceleration")
        self._joint.setpoints.acceleration = checked.value

    def set_available_torque(self, torque: float) -> None:
        """Cap the motor's torque; 0 leaves it limp.

        Clipped to `max_torque`. NaN and negative values are refused. On a Dynamixel this is a cap on duty: exact at
        stall. An X servo that its rig has in current-based position mode caps its current.
        """
        checked = checks.available_torque(self._number(torque, "a torque"), self.max_torque)
        if checked.value is None:
            self._joint.warn(checked.warning, "torque")
        else:
            self._joint.setpoints.available_torque = checked.value
            self._joint.warn_clipped("available torque", checked)

    def set_control_pid(self, p: float, i: float, d: float) -> None:
        """Set the gains of Webots' PID on velocity; the integral begins at 0.

        P must be positive, I and D not negative: else refused, the old gains stay. On a Dynamixel they act when the
        rig says ``controller = "pid"``.

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
            UnsupportedOperation: the drive cannot.
            BusError: the servo does not answer.
        """
        torque = self._number(torque, "a torque")
        for joint, wanted in self._apply_checked(
            "torque", lambda j: checks.torque(torque * j.multiplier, j.setpoints.available_torque)
        ):
            joint.setpoints.torque, joint.setpoints.duty = wanted, None

    def set_duty(self, duty: float) -> None:
        """Turn endlessly at a duty of -1..1 from the next step on, open loop, until another command replaces it.

        This is the servo's own wheel mode, or PWM mode: the motor gets that share of the supply. The angle limits of an
        AX-12, or the Operating Mode, EEPROM, are written once and given back by `restore`, by the next `set_position`,
        and when the robot is closed. Clipped to -1..1; NaN is refused. Coupled motors follow by their multipliers.

        Raises:
            UnsupportedOperation: no Dynamixel, or an MX with Protocol 1.0, whose wheel takes a speed.
            BusError: the servo does not answer.
        """
        duty = self._number(duty, "a duty")
        for joint, share in self._apply_checked("duty", lambda j: checks.duty(duty * j.multiplier)):
            full = joint.on_bus("turns by velocity, not by duty").profile.units.full_scale
            joint.setpoints.duty = round(share * full) / full  # as the register takes it
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
        """Go to `position` (rad) within `duration` s along a minimum-jerk path, stepping the robot until it is there.

        The other servos keep their set-points. Returns and raises as `axbridge.robot.robot.Robot.goto`.
        """
        return self._goto({self.name: position}, duration)

    def torque_on(self) -> None:
        """Switch the motor on where the joint is: goal := present position first, so that nothing snaps.

        It holds there until its next goal, beyond a limit, too, which a `ControlWarning` says.

        Raises:
            RobotStopped: the robot was stopped, and `Robot.resume` was not called.
            BusError: the servo does not answer; torque stays off.
        """
        self._joint.connection.refuse_closed()
        if self._may_drive(self._joint):
            self._joint.switch_on()

    def torque_off(self) -> None:
        """Leave the joint limp.

        Raises:
            BusError: the servo does not answer, so it may still be powered.
        """
        self._joint.connection.refuse_closed()
        self._joint.note_off()
        if self._torque_loss_counts is not None:
            self._torque_loss_counts[self._joint] += 1  # after its own `torque_off` it takes goals
        self._joint.drive.power(on=False)

    def restore(self) -> None:
        """Leave the joint limp, and undo what was changed in the servo permanently: angle limits, or Operating Mode.

        Raises:
            BusError: the servo does not answer; the hint is the command that repairs it.
        """
        self.torque_off()
        self._joint.drive.restore()

    def recover(self) -> None:
        """Let a motor move again that shut itself down (overload) or was switched off: at a limit, or by others.

        From the next step on it holds where the joint is, with torque that rises within the rig's `soft_start_ms`. A
        goal from before it went limp is void: give a new one. A speed, a torque or a duty acts again. When the
        cause is still there, it will shut down again. Nothing happens to an ideal joint, which never shuts down.
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
            UnsupportedOperation: no Dynamixel.
            ProfileError: this model has no such register.
            ServoFault: the servo refused.
            BusError: it does not answer.
        """
        return self.dynamixel.read(register)

    def write(self, register: str, value: int) -> None:
        """Write a register by name, in counts; checked against the profile's range before anything is sent.

        While torque is on, every step writes goal position and moving speed again from the set-points, and torque limit
        when its set-point has changed: what is written to these lasts until then. Use `set_position`, `set_velocity`
        and `set_available_torque`.

        Raises:
            UnsupportedOperation: no Dynamixel.
            ProfileError: this model has no such register.
            UsageError: read-only register, or a value out of its range.
            ServoFault: the servo refused the value.
            BusError: it does not answer.
            RobotStopped: it would switch the motor on, as `torque_on`.
        """
        goal = register.startswith("goal_") or register == "moving_speed"  # that of a wheel turns it, torque or not
        if self._joint.stopped and (goal or (register, value) == ("torque_enable", 1)):
            self._joint.switch_on()  # raises RobotStopped
        self.dynamixel.write(register, value)

    @property
    def dynamixel(self) -> BusDrive:
        """The servo's drive on its bus, for tools that use registers directly; raises as `read` where there is none."""
        self._joint.connection.refuse_closed()
        return self._joint.on_bus("has no registers")

    def _number(self, value: object, what: str) -> float:
        """A set-point as a float; UsageError where the robot is closed."""
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
        """This joint and those coupled with it, each with its value; says what is clipped here, or refused."""
        for joint in (self._joint, *self._joint.siblings):
            checked = check(joint)
            if checked.value is None:
                self._joint.warn(checked.warning, command)
                return
            yield joint, checked.value
            if joint is self._joint:
                joint.unsent[self.name] = time.monotonic()
                joint.warn_clipped(command, checked)

    # ---- set-points and limits

    @property
    def target_position(self) -> float:
        """The target, clipped; NaN before the first. In a coupling that of a follower is times its multiplier."""
        return scaled(self._joint.setpoints.target, 1 / self._joint.factors["position"])

    @property
    def velocity_limit(self) -> float:
        """The speed set-point, clipped; the measured speed is `velocity`. In a coupling as `target_position`."""
        return self._joint.setpoints.velocity / self._joint.factors["velocity"]

    @property
    def goals(self) -> Goals:
        """The joint's last commands, as a recording has them; `target_position` and others are *your* set-points."""
        return self._joint.goals

    @property
    def requested(self) -> tuple[float, float]:
        """Position and velocity asked for last, before clipping: what Webots' getters return."""
        return self._joint.requested["position"], self._joint.requested["velocity"]

    @property
    def acceleration(self) -> float:
        """The acceleration limit; -1 = unlimited."""
        return self._joint.setpoints.acceleration

    @property
    def available_torque(self) -> float:
        """The torque cap."""
        return self._joint.setpoints.available_torque

    @property
    def torque_enabled(self) -> bool:
        """Whether the motor is on: it was switched on last, and the servo does not say otherwise."""
        return self._joint.torque_enabled

    @property
    def min_position(self) -> float:
        """Lowest position `set_position` passes on; -inf = no limit."""
        return self._joint.min_position

    @property
    def max_position(self) -> float:
        """Highest position `set_position` passes on; inf = no limit."""
        return self._joint.max_position

    @property
    def max_velocity(self) -> float:
        """Highest speed: the rig's, else the data sheet's no-load speed; 10 for an ideal joint."""
        return self._joint.limits.velocity

    @property
    def max_torque(self) -> float:
        """Highest torque: the rig's, else the data sheet's stall torque; 10 for an ideal joint."""
        return self._joint.drive.max_torque

    @property
    def multiplier(self) -> float:
        """Factor of position, velocity and torque commands, as Webots' coupled motors have it."""
        return self._joint.multiplier

    @property
    def type(self) -> Literal["rotational", "linear"]:
        """Kind of joint."""
        return self._joint.drive.type

    @property
    def has_brake(self) -> bool:
        """Whether `set_damping_constant` can be used."""
        return self._joint.drive.brake

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """What the drive does itself, what axbridge does for it, and what cannot be done."""
        return self._joint.drive.capabilities

    @property
    def power(self) -> float:
        """Electrical power drawn at the last sample, W: U·i by the motor model, for ideal joints as Webots reckons."""
        return self._joint.sample("power")

    # ---- readings: what the servo measured in the last step; NaN before the first, and where it measures nothing

    @property
    def state(self) -> ServoState:
        """The last sample: all readings at once, with their time."""
        return self._joint.table[self.name]

    @property
    def position(self) -> float:
        """Where the joint was at the last sample, rad (m for a linear joint)."""
        return self._joint.sample("position")

    @property
    def turned(self) -> float:
        """How far the joint has turned, rad: `position` with whole turns, counted while an AX or MX is a wheel.

        An X servo counts them itself, and its `position` has them while it is one.

        Where an AX-12 reads nothing (300° to 360°), the motor model says how far it is: see docs/webots.md for how sure
        that is. When it is a joint again, the count begins again.
        """
        return self.position if math.isnan(self._joint.turned) else self._joint.turned

    @property
    def velocity(self) -> float:
        """How fast it was, rad/s or m/s; the set-point is `velocity_limit`.

        While an AX wheel turns through the angles that its sensor does not see, the motor model gives this and `load`.
        """
        return self._joint.sample("velocity")

    @property
    def torque(self) -> float:
        """The motor's torque, N·m or N; a Dynamixel's is estimated from load, speed and supply by its motor model."""
        return self._joint.sample("torque")

    @property
    def load(self) -> float:
        """The duty that the servo's firmware reports, -1..1; of an ideal joint the share of `max_torque`."""
        return self._joint.sample("load")

    @property
    def voltage(self) -> float:
        """Supply, V; NaN for an ideal joint."""
        return self._joint.sample("voltage")

    @property
    def temperature(self) -> float:
        """°C; NaN for an ideal joint."""
        return self._joint.sample("temperature")

    @property
    def errors(self) -> ServoFlags:
        """Error byte of the servo's latest reply."""
        return self.state.errors

    @property
    def truth(self) -> Truth:
        """Simulation only: joint and torque as they were at the last sample; NaN on a real robot.

        Ask before the next step: a simulation keeps the last 50 ms. What is older is NaN, too.
        """
        return Truth(self._joint.sample("true_position"), self._joint.sample("true_torque"))

    def __repr__(self) -> str:
        unit = "rad" if self.type == "rotational" else "m"
        power = "torque on" if self.torque_enabled else "limp"
        return f"<Servo {self.name!r} at {self.position:.3f} {unit}, {power}>"
