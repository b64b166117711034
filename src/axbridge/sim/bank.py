"""All servos of a world, stepped together: firmware loops, motors and the joints they drive.

Registers become a row of `Command` when they are written (rarely); the loop runs on arrays (often); a row of `State`
becomes registers again when it is read. Angles here are the servo's own: counter-clockwise positive, 0 rad at the
rig's `zero` count; the rig's `direction` maps them to the joint.
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
_KEPT = 0.055  # s of past states


class Motors(Protocol):
    """What a servo's firmware needs of a bank; `state` is as of the latest step, (servos, len(State))."""

    state: FloatArray

    def set_command(self, index: int, row: list[float], time: float) -> None:
        """Hand over one row of `Command`, written at `time` (s)."""

    def set_goals(self, rows: list[int], goals: list[tuple[float, float]], time: float) -> None:
        """Hand over goals (rad) and speed limits (rad/s) of servos in joint mode; all else stays as commanded."""

    def sampled(self, rows: IntArray, times: Sequence[float]) -> FloatArray:
        """Rows of `State` of these servos, each as it was at its own time, s, since the last watch."""


class Bank(Motors, Protocol):
    """The motors and joints of a rig, one row a dynamixel servo."""

    supply: FloatArray  # volts of each bus, (buses,); writable
    time: float  # s
    foresight: float  # s: how long every command takes to act at least

    @property
    def behind(self) -> float:
        """How old the states are, s; 0 unless something else than `advance` moves the motors."""

    def place(self, index: int, angle: float) -> None:
        """Put a servo's shaft at an angle (rad, as its sensor has it), at rest."""

    def reset(self) -> None:
        """Put every shaft where it started, limp and at rest; forget what was commanded."""

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
    count: float  # what one position count is worth, rad
    supply: int  # index of its bus's supply


class _Order(NamedTuple):
    """What is to be written into the command array: these rows, these columns."""

    rows: list[int]
    values: list[Sequence[float]]
    columns: slice


class ServoBank:
    """Steps loops, motors and an engine together; see `Bank`.

    The bank keeps the servos' commands and past states; the engine gets it as drives, and steps until the next command
    acts. `before` is called before each `advance`.
    """

    def __init__(
        self,
        engine: Engine,
        servos: Sequence[BankServo],
        supply: Sequence[float],
        *,
        supply_resistance: Sequence[float] | None = None,
        seed: int = 0,
    ) -> None:
        self.engine = engine
        self.joints: tuple[str, ...] = engine.joints
        # What each loop obeys now, (servos, len(Command)), and what acts beside it, (joints, len(Passive)), writable.
        self.command: FloatArray = np.zeros((len(servos), len(Command)))
        self.state: FloatArray = np.zeros((len(servos), len(State)))
        self.passive: FloatArray = np.zeros((len(self.joints), len(Passive)))
        self._supply = np.zeros((4, len(supply)))
        self._supply[0] = supply
        self._supply[1] = supply_resistance if supply_resistance is not None else 0.0
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
        self._joint[playing, Joint.LOOSE] = 1.0  # in the middle of its play
        self._joint[:, Joint.ROTOR] = positions
        self.passive[:, Passive.DAMPING], self.passive[:, Passive.FRICTION] = engine.damping, engine.friction
        self.passive[:, [Passive.LOW, Passive.HIGH]] = np.array(engine.limits).reshape(-1, 2)
        self.state[:, State.TEMPERATURE] = params[:, Param.AMBIENT]
        self.state[:, State.VOLTAGE] = self.supply[bus_of]
        driven = servo >= 0
        self.state[servo[driven], State.ANGLE] = (side * positions)[driven]
        self.state[:, State.READING] = self.state[:, State.ANGLE] + params[:, Param.OFFSET]
        self._start: list[float] = self.state[:, State.READING].tolist()  # of each shaft, as its sensor has it, rad
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
        """Joint positions now."""
        return self.engine.state()[0]

    @property
    def speeds(self) -> FloatArray:
        """Joint speeds now."""
        return self.engine.state()[1]

    def set_command(self, index: int, row: Sequence[float], time: float) -> None:
        """Hand over a row of `Command` written at `time` (s); it acts after the model's latency."""
        self._order_at(time + self._latency[index], _Order([index], [list(row)], slice(None)))

    def set_goals(self, rows: list[int], goals: list[tuple[float, float]], time: float) -> None:
        """Hand over goals (rad) and speed limits (rad/s) written at `time` (s); else as `set_command`."""
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
        """Put a servo's shaft at an angle (rad, as its sensor has it), at rest, as by a hand; its loop starts again."""
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
            joint[Joint.LOOSE] = 1.0  # in the middle of its play
        state[State.SPEED] = state[State.CURRENT] = state[State.TORQUE] = state[State.DUTY] = 0.0
        state[State.ANGLE], state[State.READING] = true, joint[Joint.SEEN]
        self._drives.past[:, index] = state  # also between two steps it is there

    def reset(self) -> None:
        """Put every shaft where it started, limp and at rest; forget what was commanded."""
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
            while self._pending and self._pending[0][0] <= self._tick * self._h + 1e-9:  # it is due: it acts
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
        """Rows of `State` of these servos, each as it was at its own time (s), at most `_KEPT` ago.

        Between two steps, and less than a step after the latest, a shaft continues at its speed.
        """
        states = np.empty((len(rows), len(State)))
        recall(self._drives.past, rows, np.array(times), self._h, states)
        return states

    def close(self) -> None:
        """Release the engine; may be called twice."""
        self.engine.close()

    def _servos_of_joints(self, servos: Sequence[BankServo]) -> tuple[IntArray, FloatArray]:
        """Row and side of the servo of each joint, as of `Drives`."""
        servo, side = np.full(len(self.joints), -1, dtype=np.int64), np.ones(len(self.joints))
        for row, placed in enumerate(servos):
            if placed.joint not in self.joints or servo[self.joints.index(placed.joint)] >= 0:
                raise UsageError(f"joint {placed.joint!r} is not there, or has two servos", f"there are {self.joints}")
            servo[self.joints.index(placed.joint)] = row
            side[self.joints.index(placed.joint)] = placed.direction
        return servo, side
