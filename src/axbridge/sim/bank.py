"""All servos of a world, stepped together: control loops, motors and the joints that they drive.

A write of registers (rare) sets a row of `Command`. The loops run on arrays (often). A read converts a row of `State`
to registers. Angles are on the servo's side: counter-clockwise positive, 0 rad at the rig's `zero` count. The rig's
`direction` converts them to the joint's side.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.config.model import ServoModel
from axbridge.errors import UsageError
from axbridge.servo.columns import Command, Joint, Param, Passive, State, pack
from axbridge.sim.engine import Engine
from axbridge.sim.substep import NOISE, Drives, recall, workspace

GOAL = slice(Command.GOAL, Command.SPEED + 1)  # columns that a new goal changes
_KEPT = 0.055  # s: age of the oldest past state


class Motors(Protocol):
    """Methods of a bank that a servo's firmware uses; `state` is of the latest step, (servos, len(State))."""

    state: FloatArray

    def set_command(self, index: int, row: list[float], time: float) -> None:
        """Set one row of `Command`, written at `time` (s)."""

    def set_goals(self, rows: list[int], goals: list[tuple[float, float]], time: float) -> None:
        """Set goals (rad) and speed limits (rad/s) of servos in joint mode; their other commands do not change."""

    def sampled(self, rows: IntArray, times: Sequence[float]) -> FloatArray:
        """Return rows of `State` of these servos, each at its own recent time, s."""


class Bank(Motors, Protocol):
    """The motors and joints of a rig, with a row for each dynamixel servo."""

    supply: FloatArray  # voltage of each bus, V, (buses,); writable
    time: float  # s
    foresight: float  # s: shortest time from a command to its effect

    @property
    def behind(self) -> float:
        """Return the age of the states, s; 0 when only `advance` moves the motors."""

    def place(self, index: int, angle: float) -> None:
        """Place a servo's shaft at an angle (rad, of its sensor), at rest."""

    def reset(self) -> None:
        """Place every shaft at its start, limp and at rest; discard all commands."""

    def advance(self, until: float) -> None:
        """Run loops, motors and the engine until `time >= until` (s)."""

    def close(self) -> None:
        """Release the engine."""


@dataclass(frozen=True)
class BankServo:
    """One servo of a bank."""

    joint: str
    model: ServoModel
    direction: int  # servo angle over joint angle, 1 or -1
    count: float  # size of one position count, rad
    supply: int  # index of its bus's supply


class _Order(NamedTuple):
    """Values for these rows and columns of the command array."""

    rows: list[int]
    values: list[Sequence[float]]
    columns: slice


class ServoBank:
    """Steps loops, motors and an engine together; see `Bank`.

    The bank stores the servos' commands and past states. It passes them to the engine as `Drives`, and the engine steps
    until the next command acts. `before` is called at the start of each `advance`.
    """

    def __init__(
        self,
        engine: Engine,
        servos: Sequence[BankServo],
        supply: Sequence[float],
        *,
        supply_resistance: Sequence[float] | float = 0.0,
        seed: int = 0,
    ) -> None:
        self.engine = engine
        self.joints: tuple[str, ...] = engine.joints
        # Commands in force, (servos, len(Command)), and passive elements, (joints, len(Passive)); both are writable.
        self.command: FloatArray = np.zeros((len(servos), len(Command)))
        self.state: FloatArray = np.zeros((len(servos), len(State)))
        self.passive: FloatArray = np.zeros((len(self.joints), len(Passive)))
        self._supply = np.zeros((4, len(supply)))
        self._supply[0] = supply
        self._supply[1] = supply_resistance
        self.supply: FloatArray = self._supply[0]
        self.time: float = 0.0
        self.behind = 0.0
        self.before: Callable[[], None] = lambda: None
        params = np.array([pack(s.model, s.count) for s in servos]).reshape(len(servos), len(Param))
        self._latency = [s.model.sensor.latency_ms / 1000 for s in servos]
        self.foresight: float = min(self._latency, default=0.0)
        bus_of = np.array([s.supply for s in servos], dtype=np.int64)
        servo, side = self._servos_of_joints(servos)
        playing = np.flatnonzero(np.append(params[:, Param.BACKLASH], 0.0)[servo])
        carrying = bool(params[:, [Param.LOAD, Param.LOAD_STRIBECK, Param.LOAD_EXTERNAL]].max(initial=0.0) > 0)
        self._pending: list[tuple[float, int, _Order]] = []
        self._order = itertools.count()
        self._h = engine.time_step
        self._tick = 0  # steps of the engine since the start
        self._joint = np.zeros((len(self.joints), len(Joint)))
        positions, speeds = engine.state()
        self._joint[:, Joint.ANGLE], self._joint[:, Joint.SPEED] = positions, speeds
        self._joint[playing, Joint.LOOSE] = 1.0  # the rotor starts in the middle of its play
        self._joint[:, Joint.ROTOR] = positions
        self.passive[:, Passive.DAMPING], self.passive[:, Passive.FRICTION] = engine.damping, engine.friction
        self.passive[:, [Passive.LOW, Passive.HIGH]] = np.array(engine.limits).reshape(-1, 2)
        self.state[:, State.TEMPERATURE] = params[:, Param.AMBIENT]
        self.state[:, State.VOLTAGE] = self.supply[bus_of]
        driven = servo >= 0
        self.state[servo[driven], State.ANGLE] = (side * positions)[driven]
        self.state[:, State.READING] = self.state[:, State.ANGLE] + params[:, Param.OFFSET]
        self._start: list[float] = self.state[:, State.READING].tolist()  # initial reading of each sensor, rad
        self.state[:, State.REFERENCE] = self.state[:, State.ANGLE]
        self._joint[driven, Joint.SEEN] = self.state[servo[driven], State.READING]
        past = np.tile(self.state, (math.ceil(_KEPT / self._h) + 1, 1, 1))
        noise = np.random.default_rng(seed).standard_normal(NOISE)
        self._drives = Drives(
            servo, side, params, self.command, self.state, self._joint, self.passive, self._supply, bus_of, noise,
            workspace(len(self.joints)), past, playing, carrying,
        )  # fmt: skip

    @property
    def positions(self) -> FloatArray:
        """Return the present joint positions, rad or m, (joints,)."""
        return self.engine.state()[0]

    @property
    def speeds(self) -> FloatArray:
        """Return the present joint speeds, rad/s or m/s, (joints,)."""
        return self.engine.state()[1]

    def set_command(self, index: int, row: Sequence[float], time: float) -> None:
        """Set a row of `Command`, written at `time` (s); it acts after the model's latency."""
        self._order_at(time + self._latency[index], _Order([index], [list(row)], slice(None)))

    def set_goals(self, rows: list[int], goals: list[tuple[float, float]], time: float) -> None:
        """Set goals (rad) and speed limits (rad/s), written at `time` (s); they act after the models' latency."""
        orders: dict[float, _Order] = {}  # by latency
        for row, goal in zip(rows, goals, strict=True):
            order = orders.setdefault(self._latency[row], _Order([], [], GOAL))
            order.rows.append(row)
            order.values.append(goal)
        for latency, order in orders.items():
            self._order_at(time + latency, order)

    def _order_at(self, due: float, order: _Order) -> None:
        heapq.heappush(self._pending, (due, next(self._order), order))

    def place(self, index: int, angle: float) -> None:
        """Place a servo's shaft at an angle (rad, of its sensor), at rest, as if by hand; its loop restarts."""
        (j,) = np.flatnonzero(self._drives.servo == index)
        side, low, high = self._drives.side[j], self.passive[j, Passive.LOW], self.passive[j, Passive.HIGH]
        position = float(min(max(side * (angle - self._drives.params[index, Param.OFFSET]), low), high))
        true = side * position
        self.engine.place_joint(int(j), position)
        joint, state = self._joint[j], self.state[index]
        joint[Joint.CURRENT : Joint.OPEN] = 0.0
        joint[Joint.SPEED] = joint[Joint.ROTOR_SPEED] = joint[Joint.LAG] = 0.0
        joint[Joint.ANGLE] = joint[Joint.ROTOR] = position
        joint[Joint.REFERENCE], joint[Joint.SEEN] = true, true + self._drives.params[index, Param.OFFSET]
        if self._drives.params[index, Param.BACKLASH] > 0.0:
            joint[Joint.LOOSE] = 1.0  # the rotor is in the middle of its play
        state[State.SPEED] = state[State.CURRENT] = state[State.TORQUE] = state[State.DUTY] = 0.0
        state[State.ANGLE], state[State.READING] = true, joint[Joint.SEEN]
        self._drives.past[:, index] = state  # so that `sampled` does not interpolate with the old position

    def reset(self) -> None:
        """Place every shaft at its start, limp and at rest; discard all commands; cool all windings."""
        self._pending.clear()
        self.command[:] = 0.0
        for index, angle in enumerate(self._start):
            self.place(index, angle)
        self.state[:, State.TEMPERATURE] = self._drives.params[:, Param.AMBIENT]

    def advance(self, until: float) -> None:
        """Run loops, motors and the engine up to `until` (s), in whole steps of the engine."""
        self.before()
        last = int(until / self._h + 1e-6)
        while self._tick < last:
            while self._pending and self._pending[0][0] <= self._tick * self._h + 1e-9:  # the order is due
                order = heapq.heappop(self._pending)[2]
                self.command[order.rows, order.columns] = order.values
            count = last - self._tick
            if self._pending:
                due = math.ceil(self._pending[0][0] / self._h - 1e-6)
                count = min(count, max(1, due - self._tick))
            self.engine.advance(self._drives, self._tick, count)
            self._tick += count
            self.time = self._tick * self._h

    def sampled(self, rows: IntArray, times: Sequence[float]) -> FloatArray:
        """Return rows of `State` of these servos, each at its own time (s), at most `_KEPT` ago.

        Between two steps, and less than a step after the latest, the position is extrapolated with the speed.
        """
        states = np.empty((len(rows), len(State)))
        recall(self._drives.past, rows, np.array(times), self._h, states)
        return states

    def close(self) -> None:
        """Release the engine; may be called twice."""
        self.engine.close()

    def _servos_of_joints(self, servos: Sequence[BankServo]) -> tuple[IntArray, FloatArray]:
        """Return the row and the side of each joint's servo, as in `Drives`."""
        servo, side = np.full(len(self.joints), -1, dtype=np.int64), np.ones(len(self.joints))
        for row, placed in enumerate(servos):
            if placed.joint not in self.joints or servo[self.joints.index(placed.joint)] >= 0:
                raise UsageError(f"joint {placed.joint!r} is not there, or has two servos", f"there are {self.joints}")
            servo[self.joints.index(placed.joint)] = row
            side[self.joints.index(placed.joint)] = placed.direction
        return servo, side
