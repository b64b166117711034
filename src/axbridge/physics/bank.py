"""All servos of a world, stepped together: firmware loops, motors and the joints they drive.

Registers become a row of `Command` when they are written (rarely); the loop runs on arrays (often); a row of `State`
becomes registers again when it is read. Angles here are the servo's own: counter-clockwise positive, 0 rad at the
rig's `zero` count; the rig's `direction` maps them to the joint.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.config.model import ServoModel
from axbridge.errors import SimulationDiverged, UsageError
from axbridge.jit import as_tuple
from axbridge.physics.columns import Command, Drive, Joint, Mode, State
from axbridge.physics.handover import ask, begin, take_over
from axbridge.physics.mechanics import Mechanics
from axbridge.physics.model_columns import Param, pack
from axbridge.physics.substep import NOISE, Arrays, recall, run, workspace

__all__ = ["BankServo", "Command", "Drive", "Mode", "ServoBank", "State"]

_SUBSTEP = 1e-3  # s, at most
_MARGIN = 10.0  # rad/s: how far off the prediction a joint is still held by its motor
_CALM = 0.01  # rad/s
_GOAL = slice(Command.GOAL, Command.SPEED + 1)
_KEPT = 0.025  # s of past states


@dataclass(frozen=True)
class BankServo:
    """One servo of a bank.

    Attributes:
        joint: Its joint.
        model: Its parameters.
        direction: Servo angle over joint angle, 1 or -1.
        count: What one position count is worth, rad.
        supply: Index of its bus's supply.
    """

    joint: str
    model: ServoModel
    direction: int
    count: float
    supply: int


class _Order(NamedTuple):
    """What is to be written into the command array: these rows, these columns."""

    rows: list[int]
    values: list[Sequence[float]]
    columns: slice


class ServoBank:
    """Steps loops, motors and mechanics together.

    Inside each physics step the motors are integrated implicitly in substeps of at most 1 ms, against the joints'
    inertia and load at its start (see `axbridge.physics.implicit`). At its end the mechanics are asked for the mean
    speed that came out, within the torque the servos can give; what the contacts do beyond that comes back as momentum.

    Attributes:
        command: What each servo's loop obeys now, (servos, len(Command)).
        state: (servos, len(State)); inside a physics step as predicted.
        drive: What acts on each joint beside a servo, (joints, len(Drive)); in the order of `joints`. Writable.
        joints: Joint names.
        positions, speeds: Of all joints, (joints,), rad or m and per second; as in `state`.
        supply: Open-circuit volts of each bus, (buses,); writable.
        time: s.

    Args:
        mechanics: What the servos move.
        servos: In the order of the arrays' rows.
        supply: Volts of each bus.
        supply_resistance: Internal resistance of each supply, ohm.
        seed: Of the sensor noise.

    Raises:
        UsageError: a servo's joint is not there, or sits twice.
    """

    def __init__(
        self,
        mechanics: Mechanics,
        servos: Sequence[BankServo],
        supply: Sequence[float],
        *,
        supply_resistance: Sequence[float] | None = None,
        seed: int = 0,
    ) -> None:
        self.mechanics = mechanics
        self.joints = mechanics.joints
        self.command = np.zeros((len(servos), len(Command)))
        self.state = np.zeros((len(servos), len(State)))
        self.drive = np.zeros((len(self.joints), len(Drive)))
        self._supply = np.zeros((4, len(supply)))
        self._supply[0] = supply
        self._supply[1] = supply_resistance if supply_resistance is not None else 0.0
        self.supply = self._supply[0]
        self.time = 0.0
        params = np.array([pack(s.model, s.count) for s in servos]).reshape(len(servos), len(Param))
        self._latency = [s.model.sensor.latency_ms / 1000 for s in servos]
        bus_of = np.array([s.supply for s in servos], dtype=np.int64)
        servo, side = self._place(servos)
        self._armature = np.array([params[k, Param.ARMATURE] if k >= 0 else 0.0 for k in servo])
        self._playing = np.flatnonzero(np.append(params[:, Param.BACKLASH], 0.0)[servo])
        self._pending: list[tuple[float, int, _Order]] = []
        self._order = itertools.count()
        self._goals: _Order | None = None  # the latest pending order, while goals may be added to it
        self._goals_due = 0.0
        self._substeps = max(1, math.ceil(mechanics.time_step / _SUBSTEP - 1e-9))
        self._h = mechanics.time_step / self._substeps
        self._tick = 0  # substeps since the start
        self._load = np.zeros((2, len(self.joints)))
        self._surprise = math.inf  # rad/s: how far the last step missed what was asked
        self._asked, self._low, self._high = np.zeros((3, len(self.joints)))
        self._joint = np.zeros((len(self.joints), len(Joint)))
        positions, self._actual = mechanics.state()
        self._joint[:, Joint.ANGLE] = positions
        self._joint[:, Joint.SPEED] = self._actual
        self._joint[self._playing, Joint.LOOSE] = 1.0  # in the middle of its play
        self._joint[:, Joint.ROTOR] = positions
        self.drive[:, [Drive.LOW, Drive.HIGH]] = np.array(mechanics.limits).reshape(-1, 2)
        self.state[:, State.TEMPERATURE] = params[:, Param.AMBIENT]
        self.state[:, State.VOLTAGE] = self.supply[bus_of]
        driven = servo >= 0
        self.state[servo[driven], State.ANGLE] = (side * positions)[driven]
        self.state[:, State.READING] = self.state[:, State.ANGLE] + params[:, Param.OFFSET]
        self._joint[driven, Joint.SEEN] = self.state[servo[driven], State.READING]
        self._past = np.tile(self.state, (math.ceil(_KEPT / self._h) + 1, 1, 1))
        noise = np.random.default_rng(seed).standard_normal(NOISE)
        self._work = workspace(len(self.joints))
        self._arrays = Arrays(
            servo, side, params, self.command, self.state, self._joint, self.drive, self._load, self._supply, bus_of,
            noise, self._work, self._past,
        )  # fmt: skip
        self._begin()

    @property
    def positions(self) -> FloatArray:
        """Joint positions now, predicted inside a physics step."""
        return self._joint[:, Joint.ANGLE]

    @property
    def speeds(self) -> FloatArray:
        """Joint speeds now."""
        return self._joint[:, Joint.SPEED]

    def set_command(self, index: int, row: Sequence[float], time: float) -> None:
        """Hand over a row of `Command` written at `time` (s); it acts after the model's latency."""
        self._goals = None
        self._queue(time + self._latency[index], _Order([index], [list(row)], slice(None)))

    def set_goal(self, index: int, goal: float, speed: float, time: float) -> None:
        """Hand over a new goal (rad) and speed limit (rad/s) written at `time` (s); all else stays as commanded."""
        due = time + self._latency[index]
        if self._goals is None or due != self._goals_due:
            self._goals, self._goals_due = _Order([], [], _GOAL), due
            self._queue(due, self._goals)
        self._goals.rows.append(index)
        self._goals.values.append((goal, speed))

    def advance(self, until: float) -> None:
        """Run loops, motors and mechanics up to `until` (s), in whole substeps.

        Raises:
            SimulationDiverged: a joint's motion left the finite range; names joint and time.
        """
        last = int(until / self._h + 1e-6)
        while self._tick < last:
            self._obey()
            into = self._tick % self._substeps
            count = min(last - self._tick, self._substeps - into)
            if self._pending:
                due = math.ceil(self._pending[0][0] / self._h - 1e-6)
                count = min(count, max(1, due - self._tick))
            failed = run(count, self._tick, self._h, as_tuple(self._arrays), self._inertia)
            self._tick += count
            self.time = self._tick * self._h
            if failed >= 0:
                raise SimulationDiverged(self.joints[failed], self.time)
            if into + count == self._substeps:
                self._finish()
                self._begin()

    def sampled(self, rows: IntArray, times: Sequence[float]) -> FloatArray:
        """Rows of `State` of these servos, each as it was at its own time (s), at most 25 ms ago."""
        states = np.empty((len(rows), len(State)))
        recall(self._past, rows, np.array(times), self._h, states)
        return states

    def close(self) -> None:
        """Release the engine; may be called twice."""
        self.mechanics.close()

    def _place(self, servos: Sequence[BankServo]) -> tuple[IntArray, FloatArray]:
        servo, side = np.full(len(self.joints), -1, dtype=np.int64), np.ones(len(self.joints))
        for row, one in enumerate(servos):
            if one.joint not in self.joints or servo[self.joints.index(one.joint)] >= 0:
                raise UsageError(f"joint {one.joint!r} is not there, or has two servos", f"there are {self.joints}")
            servo[self.joints.index(one.joint)] = row
            side[self.joints.index(one.joint)] = one.direction
        return servo, side

    def _queue(self, due: float, order: _Order) -> None:
        heapq.heappush(self._pending, (due, next(self._order), order))

    def _obey(self) -> None:
        """Let the commands that are due act."""
        while self._pending and self._pending[0][0] <= self._tick * self._h + 1e-9:
            order = heapq.heappop(self._pending)[2]
            self.command[order.rows, order.columns] = order.values
            self._goals = None

    def _begin(self) -> None:
        """Start a physics step: take over inertia and load."""
        rested = self.mechanics.resting
        self._inertia, load = self.mechanics.dynamics()
        # A load that gravity and speed make goes on growing; one that contacts make jumps.
        smooth = self._surprise < _CALM and not rested and not self.mechanics.resting
        begin(self._joint, self._load, load, smooth, self.mechanics.time_step, self._work)

    def _finish(self) -> None:
        """Let the mechanics do the step that was predicted, and take over what really happened.

        Without contact the mechanics get the mean speed of the step, so that their one-step rule for positions makes no
        error, and the servos keep their own speed at its end. A contact leaves the joints at the speed it lets them
        have, so there they get that of the end.
        """
        dt, resting, before = self.mechanics.time_step, self.mechanics.resting, self._actual
        joint, playing = self._joint, self._playing
        if len(playing):
            loose = playing[joint[playing, Joint.LOOSE] != 0.0]
            ended = joint[loose, Joint.SPEED]
            # What passed on to a joint with backlash is known; below, what its rotor kept is taken off again.
            gained = joint[playing, Joint.SPEED] - joint[playing, Joint.START_SPEED]
            joint[playing, Joint.PUSH] += self._armature[playing] * gained
            joint[loose, Joint.DAMP] = 0.0
        ask(
            self._joint, self.drive, self._armature, before, dt, resting, _MARGIN, self._asked, self._low, self._high
        )  # fmt: skip
        applied = self.mechanics.step(self._asked, self._low, self._high)
        after = self.mechanics.state()
        self._actual = after[1]
        self._surprise = take_over(
            joint, self._armature, self._inertia, before, after, applied, self._load[1], dt, resting, self._asked
        )
        if len(playing):
            joint[loose, Joint.DEBT] += self._armature[loose] * (joint[loose, Joint.SPEED] - ended)
