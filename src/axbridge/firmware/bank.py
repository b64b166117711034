"""All servos of a world, stepped together: firmware loops, motors and the joints they drive.

Registers become a row of `Command` when they are written (rarely); the loop runs on arrays (often); a row of `State`
becomes registers again when it is read. Angles here are the servo's own: counter-clockwise positive, 0 rad at the
rig's `zero` count; the rig's `direction` maps them to the joint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from axbridge.model import ServoModel
from axbridge.plant.mechanics import FloatArray, Mechanics

__all__ = ["BankServo", "Command", "Mode", "ServoBank", "State"]


class Mode(IntEnum):
    """What the loop is asked to do; value of `Command.MODE`."""

    JOINT = 0
    WHEEL_DUTY = 1  # AX: Moving Speed is an open-loop duty
    WHEEL_SPEED = 2  # MX: Moving Speed is a controlled speed


class Command(IntEnum):
    """Columns of the command array (n, len(Command)): registers in the loop's units."""

    TORQUE = 0  # 1 = motor driven, 0 = open circuit
    MODE = 1
    GOAL = 2  # rad, servo angle
    SPEED = 3  # joint mode: limit of the approach, rad/s, 0 = none; WHEEL_SPEED: signed set-point, rad/s
    DUTY = 4  # WHEEL_DUTY: -1..1
    TORQUE_LIMIT = 5  # cap of |duty|, 0..1
    MARGIN_CW = 6  # rad
    MARGIN_CCW = 7  # rad
    SLOPE_CW = 8  # rad, effective
    SLOPE_CCW = 9  # rad, effective
    PUNCH = 10  # duty, 0..1
    P_GAIN = 11  # raw register
    I_GAIN = 12
    D_GAIN = 13
    ACCELERATION = 14  # MX goal acceleration, rad/s², 0 = none


class State(IntEnum):
    """Columns of the state array (n, len(State))."""

    ANGLE = 0  # rad, servo angle, true (unquantised)
    SPEED = 1  # rad/s
    CURRENT = 2  # A
    DUTY = 3  # applied, -1..1
    TORQUE = 4  # N·m at the output shaft, after gear loss and friction
    VOLTAGE = 5  # V at the servo's terminals
    TEMPERATURE = 6  # degC
    ENERGY = 7  # J drawn since the start
    READING = 8  # rad, the position as its sensor has it (noise and offset, not yet counts)


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


class ServoBank:
    """Steps loops, motors and mechanics together.

    The motors are integrated implicitly in substeps of at most 1 ms inside each physics step, against the joints'
    inertia and load at its start; the physics is then asked for the mean speed predicted, so that position errors of a
    long step vanish, and the motors' own end speed is kept.

    Attributes:
        command: (n, len(Command)).
        state: (n, len(State)).
        supply: Volts of each bus; writable.
        time: s.
    """

    def __init__(
        self, mechanics: Mechanics, servos: Sequence[BankServo], supply: Sequence[float], *, seed: int = 0
    ) -> None:
        self._mechanics = mechanics
        self._servos = tuple(servos)
        self.command = np.zeros((len(servos), len(Command)))
        self.state = np.zeros((len(servos), len(State)))
        self.state[:, State.TEMPERATURE] = 25.0
        self.supply = np.array(supply, dtype=float)
        self.time = 0.0
        self._noise = np.random.default_rng(seed)
        self._pending: list[tuple[float, int, list[float]]] = []
        self._substeps = max(1, math.ceil(mechanics.time_step / 1e-3 - 1e-9))
        self._h = mechanics.time_step / self._substeps
        self._index = 0
        self._direction = np.array([float(s.direction) for s in servos])
        self._reference = np.zeros(len(servos))
        self._angle, self._speed = self._joint_state()
        self._begin()
        self._publish()

    def set_command(self, index: int, row: Sequence[float], time: float) -> None:
        """Hand over a row of `Command` written at `time`; it acts after the model's latency."""
        self._pending.append((time + self._servos[index].model.sensor.latency_ms / 1000, index, list(row)))

    def advance(self, until: float) -> None:
        """Run until `time >= until`, at most one substep further."""
        while self.time < until - 1e-9:
            self._substep()

    def close(self) -> None:
        """Release the engine."""
        self._mechanics.close()

    def _joint_state(self) -> tuple[FloatArray, FloatArray]:
        position, speed = self._mechanics.state()
        return position * self._direction, speed * self._direction

    def _begin(self) -> None:
        """Start a physics step: take over inertia and load."""
        inertia, load = self._mechanics.dynamics()
        self._inertia = inertia * np.outer(self._direction, self._direction)
        self._load = load * self._direction
        self._start_angle = self._angle.copy()

    def _substep(self) -> None:
        while self._pending and min(self._pending)[0] <= self.time + 1e-9:
            due = min(self._pending)
            self._pending.remove(due)
            self._obey(due[1], due[2])
        n, h = len(self._servos), self._h
        matrix = self._inertia.copy()
        momentum = self._inertia @ self._speed - h * self._load
        damping, drive = np.zeros(n), np.zeros(n)
        duties, volts, decays = np.zeros(n), np.zeros(n), np.zeros(n)
        for k, servo in enumerate(self._servos):
            motor = servo.model.motor
            constant, supply = motor.output_constant, self.supply[servo.supply]
            duty, driven = self._control(k, servo, supply)
            resistance = motor.resistance + motor.resistance_per_duty * abs(duty)
            decay = math.exp(-h * resistance / motor.inductance) if motor.inductance else 0.0
            duties[k], volts[k], decays[k] = duty, duty * supply / resistance, decay
            current = self.state[k, State.CURRENT]
            if driven:
                damping[k] = motor.efficiency * constant * constant * (1 - decay) / resistance
                drive[k] = motor.efficiency * constant * (decay * current + (1 - decay) * volts[k])
            else:
                self.state[k, State.CURRENT] = 0.0
            damping[k] += servo.model.friction.viscous
            matrix[k, k] += motor.armature + h * damping[k]
            momentum[k] += motor.armature * self._speed[k] + h * drive[k]
        speed = np.linalg.solve(matrix, momentum)
        response = np.diag(np.linalg.inv(matrix))
        for k, servo in enumerate(self._servos):  # dry friction: at most what stops the joint
            stop = speed[k] / response[k]
            budget = h * servo.model.friction.coulomb
            speed[k] -= response[k] * min(max(stop, -budget), budget)
            motor = servo.model.motor
            if self.command[k, Command.TORQUE]:
                resistance = motor.resistance + motor.resistance_per_duty * abs(duties[k])
                target = volts[k] - motor.output_constant * speed[k] / resistance
                self.state[k, State.CURRENT] = decays[k] * self.state[k, State.CURRENT] + (1 - decays[k]) * target
            self.state[k, State.DUTY] = duties[k]
            self.state[k, State.TORQUE] = motor.efficiency * motor.output_constant * self.state[k, State.CURRENT]
            self.state[k, State.ENERGY] += (
                max(0.0, duties[k] * self.supply[servo.supply] * self.state[k, State.CURRENT]) * h
            )
        self._angle = self._angle + h * speed
        self._speed = speed
        self.time += h
        self._index += 1
        if self._index == self._substeps:
            self._index = 0
            self._physics()
        self._publish()

    def _physics(self) -> None:
        mean = (self._angle - self._start_angle) / self._mechanics.time_step
        torque = self.state[:, State.TORQUE]
        limit = np.array(
            [s.model.motor.armature / self._mechanics.time_step + s.model.friction.coulomb + 1.0 for s in self._servos]
        )
        self._mechanics.step(mean * self._direction, torque, limit)
        end_speed = self._speed
        self._angle, actual = self._joint_state()
        self._speed = end_speed + (actual - mean)
        self._begin()

    def _control(self, k: int, servo: BankServo, supply: float) -> tuple[float, bool]:
        """Duty and whether the motor is driven."""
        row = self.command[k]
        if not row[Command.TORQUE] or row[Command.TORQUE_LIMIT] <= 0:
            return 0.0, False
        cap = row[Command.TORQUE_LIMIT]
        if row[Command.MODE] != Mode.JOINT:
            return min(max(row[Command.DUTY], -cap), cap), True
        goal, limit = row[Command.GOAL], row[Command.SPEED]
        if limit > 0:
            step = limit * self._h
            self._reference[k] += min(max(goal - self._reference[k], -step), step)
        else:
            self._reference[k] = goal
        law = servo.model.controller
        if law.law == "state_feedback":
            angle = self._angle[k]
            duty = (law.k_theta * (self._reference[k] - angle) - law.k_omega * self._speed[k]) / supply
        elif law.law == "compliance":
            reading = round(self.state[k, State.READING] / servo.count) * servo.count
            error = self._reference[k] - reading
            ccw = error > 0
            margin = row[Command.MARGIN_CCW if ccw else Command.MARGIN_CW]
            slope = row[Command.SLOPE_CCW if ccw else Command.SLOPE_CW]
            beyond = abs(error) - margin
            size = 0.0 if beyond <= 0 else row[Command.PUNCH] + (1 - row[Command.PUNCH]) * beyond / max(slope, 1e-6)
            duty = math.copysign(size, error)
        else:
            counts = (self._reference[k] - self.state[k, State.READING]) / servo.count
            duty = law.p_duty * row[Command.P_GAIN] * counts
        return min(max(duty, -cap), cap), True

    def _obey(self, index: int, row: list[float]) -> None:
        if not self.command[index, Command.TORQUE]:
            self._reference[index] = self._angle[index]
        self.command[index] = row

    def _publish(self) -> None:
        self.state[:, State.ANGLE] = self._angle
        self.state[:, State.SPEED] = self._speed
        for k, servo in enumerate(self._servos):
            sensor = servo.model.sensor
            noise = self._noise.normal(0.0, sensor.position_noise) if sensor.position_noise else 0.0
            self.state[k, State.READING] = self._angle[k] + sensor.angle_offset + noise
            self.state[k, State.VOLTAGE] = self.supply[servo.supply]
