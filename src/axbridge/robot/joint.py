"""One joint of a robot: its set-points, its drive, and its row in the samples."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace

from axbridge.bus.cycle import Goal
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import RobotStopped, UnsupportedOperation, UsageError, warn
from axbridge.robot.backend import SIMULATION
from axbridge.robot.connection import Connection
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.robot.drives.drive import EMULATION, Drive
from axbridge.servo import checks
from axbridge.servo.setpoints import Limits, Setpoints, couplings, scaled
from axbridge.state import Goals, StepTable

_log = logging.getLogger(__name__)
_FIRST_SPEED, _NEAR = math.radians(45), math.radians(5)  # rad/s until the joint is this near to its first goal, rad
_BEYOND = math.radians(1)  # rad beyond a limit without a warning: a joint does not hold its limit exactly
_UNITS = {
    "position": {"rotational": "rad", "linear": "m"},
    "velocity": {"rotational": "rad/s", "linear": "m/s"},
    "acceleration": {"rotational": "rad/s²", "linear": "m/s²"},
    "torque": {"rotational": "N·m", "linear": "N"},
}


class Joint:
    """State of one joint; `Servo` is its public interface."""

    table: StepTable  # the robot's latest samples

    def __init__(self, config: ServoConfig, connection: Connection, row: int) -> None:
        self.config, self.row = config, row
        self.connection = connection  # a change of backend replaces it, and the drive
        self.drive: Drive = connection.drives[config.name]
        self.multiplier = config.multiplier or 1.0
        self.siblings: tuple[Joint, ...] = ()  # the other joints of its coupling
        (low, high), speed = config.soft_limits, self.drive.limits.velocity
        self.limits = Limits(low, high, speed)
        start = config.position if self.drive.on_at_start else math.nan
        self.setpoints = Setpoints(start, speed, config.acceleration, self.drive.max_torque, config.control_pid)
        self.setpoints.enabled = self.drive.on_at_start
        self.requested = {"position": start, "velocity": speed}  # latest, before clipping, as Webots' getters return
        self.factors = {"position": 1.0, "velocity": 1.0}  # ratio of set-point and request: the multiplier, or 1
        self.top_speed = math.inf  # rad/s, during the motion to the first goal since torque came on
        self.turns_unknown_at = math.nan  # position, rad, while whole turns may be missing from it, else NaN
        self.turned = math.nan  # position with whole turns while it is a wheel, rad
        self.stopped = False  # by `Robot.stop`
        self.limp = False  # the servo has no torque although the program has switched it on
        self.withheld = False  # limp until `recover`: the servo is shut down, or was beyond a limit
        self.battery_empty = False  # the battery is empty
        self.active_trajectory: object = None  # goals of the latest `goto`, which has replaced earlier ones
        self.unsent: dict[str, float] = {}  # shared with the robot: times of commands since the last step, s
        self.torque_loss_count = 0  # number of times that the motor was switched off or shut itself down
        self._warned: set[str | tuple[str, bool]] = set()  # emulated functions, and clipped (command, end), warned of
        if config.multiplier == 0:
            warn(f"multiplier of {config.name!r} must not be 0; it becomes 1")
        if config.acceleration != -1:  # used from the first step on, so a lack is reported now
            self.require("acceleration")
        if config.controller == "pid":
            self.require("pid")
        if config.min_stop < config.max_stop and (config.min_stop > low or config.max_stop < high) and low > -math.inf:
            warn(f"the soft limits of {config.name!r} reach beyond its stops {config.min_stop:g}..{config.max_stop:g}")

    @property
    def min_position(self) -> float:
        """Return the lowest position that a goal may have."""
        return max(self.limits.low, self.drive.limits.low)

    @property
    def max_position(self) -> float:
        """Return the highest position that a goal may have."""
        return min(self.limits.high, self.drive.limits.high)

    @property
    def torque_enabled(self) -> bool:
        """Return whether the motor was switched on and the servo does not report the contrary."""
        return self.setpoints.enabled and not self.limp

    @property
    def is_positioned(self) -> bool:
        """Return whether the joint is in position control: no torque, duty or endless turning is commanded."""
        setpoints = self.setpoints
        return setpoints.torque is None and setpoints.duty is None and not setpoints.endless

    @property
    def goals(self) -> Goals:
        """Return the latest commands, as recordings store them."""
        setpoints, most = self.setpoints, self.drive.max_torque
        positioned = self.is_positioned
        return Goals(
            setpoints.target if positioned else math.nan,
            min(abs(setpoints.velocity), self.top_speed) if positioned else math.nan,
            round(setpoints.available_torque / most, 12) if most else 1.0,  # 0.4 stays 0.4
            math.nan if setpoints.duty is None else setpoints.duty,
            self.torque_enabled,
        )

    def has_goal_turns_away(self, position: float) -> bool:
        """Return whether the goal is in another turn than `position`, rad, of a servo whose turn count is volatile."""
        counts = self.drive.capabilities["extended_position"] == "native"
        return counts and abs(self.goals.position - position) > math.pi

    def mark_turns_unknown(self) -> None:
        """Mark the position as uncertain by whole turns, unless limits or the simulation define the turn.

        A power loss resets a servo's count of turns. Limits less than a turn apart define the turn, and a simulation
        starts in the turn of its rig.
        """
        counts = isinstance(self.drive, BusDrive) and self.drive.capabilities["extended_position"] == "native"
        bounded = self.max_position - self.min_position < math.tau
        uncertain = counts and not bounded and self.connection.backend.mode != SIMULATION
        self.turns_unknown_at = self.sample("position") if uncertain else math.nan

    def refuse_unknown_turns(self, position: float) -> None:
        """Refuse a goal more than half a turn away while whole turns may be missing from the position."""
        here = self.turns_unknown_at
        if math.isnan(here):
            return
        goal = scaled(position, self.multiplier)
        if math.isinf(goal) or abs(goal - here) <= math.pi:
            return
        raise UsageError(
            f"servo {self.config.name!r} was found at {here:.3f} rad, and {goal:.3f} is more than half a turn away: "
            "it forgets whole turns without power, and its rig has no limits that say in which turn it is",
            "if the position is right, confirm it by set_position(servo.position), and give the goal again; "
            "or write min_position and max_position less than a turn apart into the rig",
        )

    def sample(self, quantity: str) -> float:
        """Return the latest sample's value in a column of `SERVO_ROW`."""
        return self.table.column(quantity).item(self.row)

    # ---- commands

    def check(self, position: float) -> checks.Checked:
        """Return a commanded position, rad or m, as clipped, and its warning; nothing moves."""
        return checks.position(position, self.min_position, self.max_position, angle=self.drive.type == "rotational")

    def refuse_degrees(self, position: float) -> None:
        """Raise UsageError for a position that is probably in degrees, instead of moving to the limit."""
        goal = scaled(position, self.multiplier)
        if abs(goal) <= 2 * math.pi or self.drive.type == "linear":
            return
        low, high = self.min_position, self.max_position
        if not checks.is_no_angle(goal, low, high):
            return
        why = f"{position:g} rad is no angle of servo {self.config.name!r}, which goes from {low:.3f} to {high:.3f} rad"
        hint = f"radians? {position:g}° is {math.radians(position):.4g}: give math.radians({position:g})"
        raise UsageError(why, hint)

    def store_request(self, commanded: Joint, quantity: str, value: float) -> None:
        """Store a request: for the commanded motor as given, for coupled motors times their multiplier."""
        own = commanded is self
        self.factors[quantity] = self.multiplier if own else 1.0
        self.requested[quantity] = value if own else scaled(value, self.multiplier)

    def enter_position(self) -> None:
        """Leave a wheel's mode, where a position may have more turns than in position mode, and hold there."""
        here = self.drive.enter_position()
        if not math.isnan(here):
            self.hold(here)

    def switch_on(self, *, to_hold: bool = False) -> None:
        """Switch the motor on at its present position, also a wheel if `to_hold`; see `Servo.torque_on`."""
        setpoints = self.setpoints
        if not self.stopped:
            self.connection.feed()
            torque_loss_count = self.torque_loss_count
            if not self.battery_empty and not self.withheld:
                here = self.drive.power(on=True)
                changed = self.drive.enter_position() if to_hold else math.nan
                self.hold(here if math.isnan(changed) else changed)
                self.limp = False
            elif not setpoints.enabled:  # `recover` switches it on
                self.hold(self.sample("position"))
            setpoints.torque = setpoints.duty = None
            setpoints.enabled = True
            self.connection.feed()  # re-arm the safety net, which may have switched the motor off in between
            if self.torque_loss_count != torque_loss_count:  # another thread has switched the motor off in between
                setpoints.enabled = False
                self.drive.power(on=False)
        if self.stopped:
            why = f"servo {self.config.name!r} stays off: all motors were switched off by hand"
            raise RobotStopped(why, "release it on the page, or call Robot.resume()")

    def hold(self, position: float) -> None:
        """Hold `position`, the present one, until the next command.

        It is not clipped, because a joint beyond a limit would move to the limit. The next goal may be far away, so the
        motion to it is slow on a real bus, and for Feetech servos in a simulation, too, unless the rig has
        `soft_start_ms = 0`.
        """
        setpoints, low, high = self.setpoints, self.min_position, self.max_position
        held, setpoints.holding = setpoints.holding, True
        setpoints.target = self.requested["position"] = position
        setpoints.torque = setpoints.duty = None
        real = self.connection.backend.mode != SIMULATION
        soft = (real or self.drive.slow_start) and self.connection.rig.safety.soft_start_ms > 0
        self.top_speed = _FIRST_SPEED if soft else math.inf
        if not held and not low - _BEYOND <= position <= high + _BEYOND:
            limit = low if position < low else high
            self.warn(
                f"it is at {position:.3f}, beyond its limit {limit:.3f}, and stays until its next goal", "position"
            )

    def void_goal(self, here: float) -> None:
        """Hold `here` instead of a goal from before the loss of torque; no effect if it is NaN.

        A goal that was given while the joint was limp stays, and so does a speed, a torque or a duty.
        """
        if self.is_positioned and (self.setpoints.holding or not self.limp) and not math.isnan(here):
            self.hold(here)

    def stand_still(self, here: float) -> None:
        """Void all commands from before a loss of power: hold `here`; speed, torque and duty become 0."""
        self.void_goal(here)
        setpoints = self.setpoints
        if setpoints.endless:
            setpoints.velocity = self.requested["velocity"] = 0.0
        if setpoints.torque is not None:
            setpoints.torque = 0.0
        if setpoints.duty is not None:
            setpoints.duty = 0.0

    def command(self, period: float) -> Goal | None:
        """Return the drive's goal for the set-points in a step of `period` s."""
        setpoints = self.setpoints
        if self.top_speed < math.inf and not setpoints.holding and self.is_positioned:
            if abs(setpoints.target - self.sample("position")) < _NEAR:
                self.top_speed = math.inf
            elif abs(setpoints.velocity) > self.top_speed:
                setpoints = replace(setpoints, velocity=self.top_speed)
        return self.drive.command(setpoints, self.sample, period)

    def note_off(self) -> None:
        """Record that the motor must be off, so that no running command switches it on again."""
        self.torque_loss_count += 1
        self.setpoints.enabled = False

    def keep_off(self) -> None:
        """Switch the motor off again if another thread did so while this thread switched it on."""
        if not self.setpoints.enabled:
            self.drive.power(on=False)

    def bus_drive(self, lack: str) -> BusDrive:
        """Return the drive; UnsupportedOperation if it has no registers."""
        if not isinstance(self.drive, BusDrive):
            raise UnsupportedOperation(f"servo {self.config.name!r} is an ideal joint and {lack}")
        return self.drive

    def require(self, capability: str) -> None:
        """Raise UnsupportedOperation for an unsupported function; warn once of an emulated one."""
        kind = self.drive.capabilities[capability]
        if kind == "unsupported":
            hint = 'its rig may say controller = "pid"' if capability == "pid" else "see Servo.capabilities"
            raise UnsupportedOperation(f"servo {self.config.name!r} has no {capability}", hint)
        if kind == "emulated" and capability not in self._warned:
            self._warned.add(capability)
            warn(f"servo {self.config.name!r} {EMULATION[capability]}")

    def warn_clipped(self, command: str, value: float, warning: str) -> None:
        """Warn of a clipped value once for each command and end of the range: loops repeat commands."""
        if warning and (key := (command, value > 0)) not in self._warned:
            self._warned.add(key)
            self.warn(warning, command)

    def warn(self, message: str, command: str = "") -> None:
        """Warn of a command to this joint, with the unit of its numbers."""
        unit = _UNITS.get(command.removeprefix("available "), {}).get(self.drive.type, "")
        warn(f"servo {self.config.name!r}{unit and f' ({unit})'}: {message}")


def couple(joints: Mapping[str, Joint]) -> None:
    """Couple motors named ``base::member``: each follows commands of the others, with the limits of the first."""
    for base, names in couplings(list(joints)).items():
        if len(names) == 1:
            warn(f"servo {names[0]!r} is coupled with nothing: no other {base}::…")
        first = joints[names[0]]
        for name in names:
            joint = joints[name]
            joint.siblings = tuple(joints[other] for other in names if other != name)
            ratio = joint.multiplier / first.multiplier
            wanted = first.limits.times(ratio)
            if not wanted.is_close(joint.limits):
                _log.warning(  # not a ControlWarning: Webots, too, changes limits at load silently
                    f"limits of {name!r} become {wanted.low:g}..{wanted.high:g}, velocity {wanted.velocity:g}: "
                    f"those of {names[0]!r} times {ratio:g}"
                )
            if joint.setpoints.velocity == joint.limits.velocity:
                joint.setpoints.velocity = joint.requested["velocity"] = wanted.velocity
            joint.limits = wanted
