"""One joint of a robot: its set-points, its drive, and its row of the samples."""

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
_FIRST_SPEED, _NEAR = math.radians(45), math.radians(5)  # rad/s, limit until the first goal is as near as this, rad
_BEYOND = math.radians(1)  # rad beyond a limit without a warning: a joint is never held exactly at its limit
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
        self.siblings: tuple[Joint, ...] = ()  # the others of its coupling
        (low, high), speed = config.soft_limits, self.drive.limits.velocity
        self.limits = Limits(low, high, speed)
        start = config.position if self.drive.on_at_start else math.nan
        self.setpoints = Setpoints(start, speed, config.acceleration, self.drive.max_torque, config.control_pid)
        self.setpoints.enabled = self.drive.on_at_start
        self.requested = {"position": start, "velocity": speed}  # last, before clipping: Webots' getters return it
        self.factors = {"position": 1.0, "velocity": 1.0}  # set-point over request: the multiplier, or 1
        self.top_speed = math.inf  # rad/s, on the way to the first goal since torque came on
        self.turns_unknown_at = math.nan  # position, rad, as long as whole turns may be missing from it
        self.turned = math.nan  # position with whole turns while it is a wheel, rad
        self.stopped = False  # by hand, see `Robot.stop`
        self.limp = False  # the servo has no torque although the program wants it on
        self.withheld = False  # limp until `recover`: it has shut itself down, or was beyond a limit
        self.dead = False  # the battery is empty
        self.active_trajectory: object = None  # goals of the latest `goto` of this joint; an earlier one leaves it
        self.unsent: dict[str, float] = {}  # the robot's own: when servos were commanded since the last step, s
        self.torque_loss_count = 0  # how often it was switched off, or shut itself down
        self._warned: set[str | tuple[str, bool]] = set()  # what is emulated; command and end that were clipped
        if config.multiplier == 0:
            warn(f"multiplier of {config.name!r} must not be 0; it becomes 1")
        if config.acceleration != -1:  # what the rig asks for is used from the first step on, so it is said now
            self.require("acceleration")
        if config.controller == "pid":
            self.require("pid")
        if config.min_stop < config.max_stop and (config.min_stop > low or config.max_stop < high) and low > -math.inf:
            warn(f"the soft limits of {config.name!r} reach beyond its stops {config.min_stop:g}..{config.max_stop:g}")

    @property
    def min_position(self) -> float:
        """Lowest position that is passed on."""
        return max(self.limits.low, self.drive.limits.low)

    @property
    def max_position(self) -> float:
        """Highest position that is passed on."""
        return min(self.limits.high, self.drive.limits.high)

    @property
    def torque_enabled(self) -> bool:
        """Whether the motor is on: it was switched on last, and the servo does not say otherwise."""
        return self.setpoints.enabled and not self.limp

    @property
    def is_positioned(self) -> bool:
        """Whether it is to follow a position: no torque, duty or endless turning."""
        setpoints = self.setpoints
        return setpoints.torque is None and setpoints.duty is None and not setpoints.endless

    @property
    def goals(self) -> Goals:
        """The last commands, as a recording has them."""
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
        """Whether a joint that counts whole turns, which it forgets without power, has its goal in another one."""
        counts = self.drive.capabilities["extended_position"] == "native"
        return counts and abs(self.goals.position - position) > math.pi

    def doubt_turns(self) -> None:
        """Take its position for one that whole turns may be missing from, where nothing says how many.

        A servo that counts turns forgets them without power. Limits of less than a turn say in which one it is, and a
        simulation starts in the one that its rig says.
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
        """The latest sample's value in a column of `SERVO_ROW`."""
        return self.table.column(quantity).item(self.row)

    # ---- commands

    def check(self, position: float) -> checks.Checked:
        """What becomes of a commanded position, rad or m, and the warning that goes with it; nothing moves."""
        return checks.position(position, self.min_position, self.max_position, angle=self.drive.type == "rotational")

    def refuse_degrees(self, position: float) -> None:
        """Refuse what can be no angle of this joint, rad, rather than run to its limit."""
        goal = scaled(position, self.multiplier)
        if abs(goal) <= 2 * math.pi or self.drive.type == "linear":
            return
        low, high = self.min_position, self.max_position
        if not checks.is_no_angle(goal, low, high):
            return
        raise UsageError(
            f"{position:g} rad is no angle of servo {self.config.name!r}, which goes from {low:.3f} to {high:.3f} rad",
            f"radians? {position:g}° is {math.radians(position):.3f}: give math.radians({position:g})",
        )

    def remember_request(self, commanded: Joint, quantity: str, value: float) -> None:
        """Remember a request: the commanded motor as it was given, the others times their own multiplier."""
        own = commanded is self
        self.factors[quantity] = self.multiplier if own else 1.0
        self.requested[quantity] = value if own else scaled(value, self.multiplier)

    def switch_on(self) -> None:
        """Switch the motor on where the joint is; see `Servo.torque_on`."""
        setpoints = self.setpoints
        if not self.stopped:
            self.connection.feed()
            torque_loss_count = self.torque_loss_count
            if not self.dead and not self.withheld:
                self.hold(self.drive.power(on=True))
                self.limp = False
            elif not setpoints.enabled:  # `recover` switches it on
                self.hold(self.sample("position"))
            setpoints.torque = setpoints.duty = None
            setpoints.enabled = True
            self.connection.feed()  # re-arm the safety net, which may have switched the motor off meanwhile
            if self.torque_loss_count != torque_loss_count:  # another thread has switched the motor off meanwhile
                setpoints.enabled = False
                self.drive.power(on=False)
        if self.stopped:
            why = f"servo {self.config.name!r} stays off: all motors were switched off by hand"
            raise RobotStopped(why, "release it on the page, or call Robot.resume()")

    def hold(self, position: float) -> None:
        """Hold `position`, where the joint is now that torque is on, until the next command.

        That is not clipped, because a joint beyond a limit would run to it. The first goal that comes then may be far
        away. The way to it is slow on a real bus, and for Feetech servos in a simulation, too; not if the rig has
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
        """Hold `here` instead of going on to a goal from before torque was lost; nothing where that is NaN.

        A goal that was given while the joint was limp stays. So does a speed, a torque or a duty.
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
        """What the drive makes of the set-points for a step of `period` s."""
        setpoints = self.setpoints
        if self.top_speed < math.inf and not setpoints.holding and self.is_positioned:
            if abs(setpoints.target - self.sample("position")) < _NEAR:
                self.top_speed = math.inf
            elif abs(setpoints.velocity) > self.top_speed:
                setpoints = replace(setpoints, velocity=self.top_speed)
        return self.drive.command(setpoints, self.sample, period)

    def note_off(self) -> None:
        """Note that the motor is to be off: no command under way may switch it on again."""
        self.torque_loss_count += 1
        self.setpoints.enabled = False

    def keep_off(self) -> None:
        """Switch the motor off again if another thread did so while this thread switched it on."""
        if not self.setpoints.enabled:
            self.drive.power(on=False)

    def on_bus(self, lack: str) -> BusDrive:
        """The drive, if it has registers."""
        if not isinstance(self.drive, BusDrive):
            raise UnsupportedOperation(f"servo {self.config.name!r} is an ideal joint and {lack}")
        return self.drive

    def require(self, capability: str) -> None:
        """Refuse what cannot be done; say once what is emulated."""
        kind = self.drive.capabilities[capability]
        if kind == "unsupported":
            hint = 'its rig may say controller = "pid"' if capability == "pid" else "see Servo.capabilities"
            raise UnsupportedOperation(f"servo {self.config.name!r} has no {capability}", hint)
        if kind == "emulated" and capability not in self._warned:
            self._warned.add(capability)
            warn(f"servo {self.config.name!r} {EMULATION[capability]}")

    def warn_clipped(self, command: str, checked: checks.Checked) -> None:
        """Say what was clipped, the first time that this command goes beyond this end: loops repeat themselves."""
        if checked.warning and (key := (command, (checked.value or 0.0) > 0)) not in self._warned:
            self._warned.add(key)
            self.warn(checked.warning, command)

    def warn(self, message: str, command: str = "") -> None:
        """Warn of a command to this joint; with the unit of its numbers."""
        unit = _UNITS.get(command.removeprefix("available "), {}).get(self.drive.type, "")
        warn(f"servo {self.config.name!r}{unit and f' ({unit})'}: {message}")


def couple(joints: Mapping[str, Joint]) -> None:
    """Let motors named ``base::member`` follow each other's commands, with the first one's limits."""
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
                _log.warning(  # not a ControlWarning: Webots rewrites limits at load without being asked
                    f"limits of {name!r} become {wanted.low:g}..{wanted.high:g}, velocity {wanted.velocity:g}: "
                    f"those of {names[0]!r} times {ratio:g}"
                )
            if joint.setpoints.velocity == joint.limits.velocity:
                joint.setpoints.velocity = joint.requested["velocity"] = wanted.velocity
            joint.limits = wanted
