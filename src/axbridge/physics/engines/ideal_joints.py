"""Joints without a Dynamixel: Webots' motor row, springs, dampers and static friction, in one world with the servos.

A motor row tries to bring the joint to the commanded speed within one step, by at most its torque limit; the engine
solves it together with the contacts. Spring and damper act beside it, implicitly:
`v' = (I·v + h·(τ - K·x)) / (I + h·B + h²·K)`. Source: Webots Reference Manual, Motor, Servo and JointParameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.config.rig import ServoConfig
from axbridge.control.setpoints import Setpoints
from axbridge.control.velocity_pid import VelocityController
from axbridge.physics.mechanics import Mechanics

__all__ = ["IdealBank", "IdealJoint", "IdealMechanics", "Rows", "solve_rows"]

_REACHED, _LIMITED_UP, _LIMITED_DOWN, _AT_HIGH, _AT_LOW = range(5)  # what a joint is taken to do in a step
_BOLD, _GUESSES = 8, 60  # a joint alone needs two or three
_TOLERANCE = 1e-12
_NO_CHOICE = 1e-9  # N·m
_FIRM = 1e6  # N·m: what a stop may take


class IdealJoint:
    """One ideal joint: its controller, and what the engine is asked to do with it. Units: rad, N·m, or m, N.

    Attributes:
        type: Kind of joint, as the URDF has it.
        stops: Lowest and highest position; ±inf = none.
        kinematic: Whether it moves nothing with a mass; then no torque decides where it goes.
        powered: Whether the motor may push; the initial state is on, holding the initial position.
        position, speed: Of the joint, after the latest physics step.
        torque: What the motor row used in that step; excludes spring, damper and user torque.
        time: End of that step, s.
    """

    def __init__(self, config: ServoConfig) -> None:
        self.name = config.name
        self.joint = config.joint
        self.type: Literal["rotational", "linear"] = "rotational"
        self.stops = (config.min_stop, config.max_stop) if config.min_stop < config.max_stop else (-math.inf, math.inf)
        self.stiffness = config.spring_constant
        self.friction = config.static_friction
        self.kinematic = False
        self.powered = True
        self.position = config.position
        self.speed = 0.0
        self.torque = 0.0
        self.time = 0.0
        self._limits = config.soft_limits
        self._kinematic_speed = 0.0
        self._own_damping = config.damping_constant
        self._controller = VelocityController(*config.control_pid)
        self._setpoints: Setpoints | None = None
        self._gains_set = 0

    def command(self, setpoints: Setpoints) -> None:
        """Take set-points; they act from the next `control` on."""
        self._setpoints = setpoints
        if setpoints.gains_set != self._gains_set:
            self._gains_set = setpoints.gains_set
            self._controller.set_gains(*setpoints.gains)

    def control(self, h: float) -> None:
        """Compute the speed to command for the basic step of `h` seconds that begins now."""
        wanted = self._setpoints
        self._kinematic_speed = 0.0
        if wanted is None or not self._drives(wanted):
            self._controller.stop()
        elif self.kinematic and wanted.torque is None:
            most = wanted.available_torque  # Webots takes the figure as an acceleration
            faster = wanted.acceleration == -1 or wanted.acceleration > most
            self._kinematic_speed = self._controller.step_kinematic(
                wanted.target, self.position, wanted.velocity, most if faster else wanted.acceleration, self._limits, h
            )
        elif wanted.torque is None:
            self._controller.step(wanted.target, self.position, wanted.velocity, wanted.acceleration, h)

    @property
    def damping(self) -> float:
        """Damping of the joint and its brake."""
        return self._own_damping + (self._setpoints.damping if self._setpoints else 0.0)

    @property
    def row(self) -> tuple[float, float]:
        """Speed target of the motor row, and the most torque it may use."""
        wanted = self._setpoints
        if self.kinematic:
            return self._kinematic_speed, _FIRM
        if wanted is None or wanted.torque is not None or not self._drives(wanted):
            return 0.0, self.friction
        return self._controller.speed, max(self.friction, wanted.available_torque)

    @property
    def user_torque(self) -> float:
        """Torque laid on beside the motor row (`set_torque`)."""
        wanted = self._setpoints
        return wanted.torque if wanted is not None and wanted.torque is not None and self.powered else 0.0

    def _drives(self, wanted: Setpoints) -> bool:
        return self.powered and wanted.available_torque > 0 and not math.isnan(wanted.target)


class IdealBank:
    """The ideal joints of a world, in the order of the rig."""

    def __init__(self, joints: Sequence[IdealJoint]) -> None:
        self.joints = {joint.name: joint for joint in joints}

    def control(self, h: float) -> None:
        """Run every joint's controller for a basic step of `h` seconds."""
        for joint in self.joints.values():
            joint.control(h)


class IdealMechanics:
    """Mechanics without its ideal joints, which are moved beside the others in every step.

    Args:
        world: All joints: first those of Dynamixels, then the ideal ones.
        bank: The ideal joints.

    Attributes:
        joints, kinds, limits, weightless: Of the other joints.
        time_step: s.
        world: As given.
    """

    def __init__(self, world: Mechanics, bank: IdealBank) -> None:
        self.world = world
        self._ideal = tuple(bank.joints.values())
        self._others = len(world.joints) - len(self._ideal)
        self.joints = world.joints[: self._others]
        self.weightless = world.weightless
        self.kinds, self.limits = world.kinds[: self._others], world.limits[: self._others]
        self.time_step = world.time_step
        self._time = 0.0
        for joint, kind, limits in zip(
            self._ideal, world.kinds[self._others :], world.limits[self._others :], strict=True
        ):
            joint.type = "linear" if kind == "prismatic" else "rotational"
            joint.kinematic = joint.joint in world.weightless
            if math.isinf(joint.stops[0]):
                joint.stops = limits
        self._sense(np.zeros(len(self._ideal)))

    @property
    def resting(self) -> bool:
        """Whether contacts hold the robot."""
        return self.world.resting

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Positions and speeds of the other joints."""
        position, speed = self.world.state()
        return position[: self._others], speed[: self._others]

    def dynamics(self) -> tuple[FloatArray, FloatArray]:
        """Inertia and load of the other joints; the ideal ones count as held."""
        inertia, load = self.world.dynamics()
        return inertia[: self._others, : self._others], load[: self._others]

    def step(self, speed: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Advance one step: the other joints as asked, the ideal ones by their motors, springs and stops."""
        n = self._others
        position, present = self.world.state()
        inertia, load = self.world.dynamics()
        rows = solve_rows(self._ideal, self.time_step, position, present, inertia, load, (speed, low, high))
        if self.world.resting:  # contacts decide, too: the engine finds out what the motors need, within their limits
            target, beside, limit = rows.target, rows.beside, rows.limit
        else:  # what they need is known; it is given, so that the engine has nothing to iterate about in long chains
            target, beside = rows.speed, rows.beside + rows.motor
            limit = np.maximum(rows.limit - np.abs(rows.motor), 0.0)
        limit = np.where(rows.stopped, _FIRM, limit)
        applied = self.world.step(
            np.concatenate((speed, np.where(rows.stopped, rows.speed, target))),
            np.concatenate((low, beside - limit)),
            np.concatenate((high, beside + limit)),
        )
        self._time += self.time_step
        self._sense(np.where(rows.stopped, rows.motor, applied[n:] - rows.beside))
        return applied[:n]

    def close(self) -> None:
        """Release the engine."""
        self.world.close()

    def _sense(self, torque: FloatArray) -> None:
        position, speed = self.world.state()
        n = self._others
        for joint, x, v, used in zip(self._ideal, position[n:], speed[n:], torque, strict=True):
            joint.position, joint.speed, joint.torque, joint.time = float(x), float(v), float(used), self._time


class Rows(NamedTuple):
    """What the ideal joints do in one step, each (n,).

    Attributes:
        target: Speed their motors try to reach.
        limit: Most torque of the motors.
        beside: Torque besides: user torque, spring and damper.
        motor: Torque of the motors, as predicted without contacts.
        speed: Speed at the end, likewise.
        stopped: Whether a stop decides about the speed.
    """

    target: FloatArray
    limit: FloatArray
    beside: FloatArray
    motor: FloatArray
    speed: FloatArray
    stopped: npt.NDArray[np.bool_]


def solve_rows(
    joints: Sequence[IdealJoint],
    h: float,
    position: FloatArray,
    speed: FloatArray,
    inertia: FloatArray,
    load: FloatArray,
    others: tuple[FloatArray, FloatArray, FloatArray],
) -> Rows:
    """Motors, springs, dampers and stops of the ideal joints over a step of `h` seconds.

    Solves `(M + h·B + h²·K)·v' = M·v + h·(τ - c - K·x) + λ`, where each motor impulse λ is within `±h·limit` and as
    large as it must be to reach the target speed, and a stop adds what it must to end the step inside. Each joint is
    taken to reach its target, to be at its limit or at a stop; guesses that turn out wrong are changed until none is.

    Args:
        joints: The last n of the m joints.
        h: s.
        position: x, (m,).
        speed: v, (m,).
        inertia: M, (m, m).
        load: c, (m,): gravity, Coriolis.
        others: What the first m - n joints are asked for: mean speed, lowest and highest torque, each (m - n,). Where
            there is no choice of torque, the speed follows from it.
    """
    asked, low, high = others
    m, first = len(position), len(asked)
    mine = slice(first, m)
    stiffness, damping, user = np.zeros(m), np.zeros(m), np.zeros(m)
    stiffness[mine] = [joint.stiffness for joint in joints]
    damping[mine] = [joint.damping for joint in joints]
    user[mine] = [joint.user_torque for joint in joints]
    target, limit = np.array([joint.row for joint in joints]).T
    stops = np.array([joint.stops for joint in joints])
    lowest, highest = (stops[:, 0] - position[mine]) / h, (stops[:, 1] - position[mine]) / h
    matrix = inertia + np.diag(h * damping + h * h * stiffness)
    momentum = inertia @ speed + h * (user - load - stiffness * position)

    given = np.zeros(m, dtype=np.bool_)  # whether the speed is given, and the impulse follows; else the other way round
    given[:first] = high - low > _NO_CHOICE
    final, impulse = np.zeros(m), np.zeros(m)
    final[:first], impulse[:first] = asked, h * 0.5 * (low + high)
    state = np.where(target > highest, _AT_HIGH, np.where(target < lowest, _AT_LOW, _REACHED))
    push = h * limit
    for guess in range(_GUESSES):
        given[mine] = state != _LIMITED_UP
        given[mine] &= state != _LIMITED_DOWN
        final[mine] = np.select([state == _AT_HIGH, state == _AT_LOW], [highest, lowest], target)
        impulse[mine] = np.where(state == _LIMITED_UP, push, -push)
        free = ~given
        if free.any():
            right = momentum[free] + impulse[free] - matrix[np.ix_(free, given)] @ final[given]
            final[free] = np.linalg.solve(matrix[np.ix_(free, free)], right)
        impulse[given] = matrix[given] @ final - momentum[given]
        now, own = final[mine], impulse[mine]
        better = state.copy()
        better[(state == _REACHED) & (own > push + _TOLERANCE)] = _LIMITED_UP
        better[(state == _REACHED) & (own < -push - _TOLERANCE)] = _LIMITED_DOWN
        better[(state == _LIMITED_UP) & (now > target + _TOLERANCE)] = _REACHED
        better[(state == _LIMITED_DOWN) & (now < target - _TOLERANCE)] = _REACHED
        limited = (state == _LIMITED_UP) | (state == _LIMITED_DOWN)
        better[limited & (now > highest + _TOLERANCE)] = _AT_HIGH
        better[limited & (now < lowest - _TOLERANCE)] = _AT_LOW
        helping = np.where(target > now, push, -push)  # what a motor does at a stop: it cannot reach its target there
        better[(state == _AT_HIGH) & (own > helping + _TOLERANCE)] = _LIMITED_UP
        better[(state == _AT_LOW) & (own < helping - _TOLERANCE)] = _LIMITED_DOWN
        better[(better == _REACHED) & (target > highest)] = _AT_HIGH
        better[(better == _REACHED) & (target < lowest)] = _AT_LOW
        wrong = better != state
        if not wrong.any():
            break
        if guess >= _BOLD:  # all changes at once may go round in circles; one at a time does not
            wrong[np.argmax(wrong) + 1 :] = False
        state = np.where(wrong, better, state)
    now = final[mine]
    stopped = (state == _AT_HIGH) | (state == _AT_LOW)
    motor = np.where(stopped, np.where(target > now, limit, np.where(target < now, -limit, 0.0)), impulse[mine] / h)
    beside = user - stiffness * (position + h * final) - damping * final
    return Rows(target, limit, beside[mine], np.clip(motor, -limit, limit), now, stopped)
