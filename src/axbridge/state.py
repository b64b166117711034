"""A robot's step as data: a table with the samples of its servos, and a report of the step, in SI units.

The table has a row of `SERVO_ROW` for each servo; `SERVO_COLUMNS` describes its columns. Every column is a float64, and
an unknown value is NaN. Observers get the table as a `StepTable`, and a recording stores it unchanged.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.errors import BusError, ErrorFlag, ServoFlags

SERVO_COLUMNS = {
    "time": "s, the robot's clock: when the sample was taken",
    "command": "rad, position goal in force",
    "commanded": "s, the robot's clock: when that goal had been sent; before or after the sample",
    "position": "rad, as the servo reported it",
    "velocity": "rad/s, as the servo reported it",
    "load": "-1..1, duty the servo reported",
    "voltage": "V",
    "temperature": "degC",
    "errors": "error byte of the latest reply",
    "torque": "N m, estimated by the motor model",
    "power": "W, electrical, estimated by the motor model",
    "torque_enabled": "1 driven, 0 limp",
    "true_position": "rad, simulation only: the joint, before sensor and rounding",
    "true_torque": "N m, simulation only: torque on the joint",
    "speed_limit": "rad/s, limit of the approach (moving speed); 0 = none",
    "duty": "-1..1, commanded duty in wheel mode",
    "torque_limit": "0..1, largest duty allowed",
}
SERVO_ROW = np.dtype([(name, "<f8") for name in SERVO_COLUMNS])


class Truth(NamedTuple):
    """A joint's true state, which only a simulation has; unknown values are NaN.

    Attributes:
        position: rad, joint side: the joint's angle, before sensor and rounding.
        torque: N·m, joint side, positive towards larger angles: the torque on the joint after gear loss and friction.
            It includes the spring, damper and static friction that the rig adds to the servo.
    """

    position: float
    torque: float


class Goals(NamedTuple):
    """The last commands of a servo, joint side, after checks, clipping and multiplier. NaN = does not apply.

    Attributes:
        position: Goal, rad; NaN before the first goal, and when the control is not of position.
        speed: Limit of the approach, rad/s; 0 stops the joint.
        torque: Largest torque allowed, as a share of the servo's largest, 0..1.
        duty: Open-loop duty in wheel mode, -1..1.
        enabled: Whether the motor is switched on.
    """

    position: float
    speed: float
    torque: float
    duty: float
    enabled: bool


NO_FLAGS = ErrorFlag(0)


@dataclass(frozen=True)
class ServoState:
    """One sample of a servo. Values not read yet are NaN.

    Attributes:
        time: Time of the sample, s on the robot's clock.
        position: rad, joint side.
        velocity: rad/s, measured by the servo.
        torque: N·m, estimated from load, speed and supply by the motor model (AX-12 have no current sensor).
        load: -1..1, the duty that the servo's firmware reports as Present Load.
        voltage: V.
        temperature: °C.
        errors: Error byte of the latest reply.
    """

    time: float
    position: float
    velocity: float
    torque: float
    load: float
    voltage: float
    temperature: float
    errors: ServoFlags


_MEASURED = ("time", "position", "velocity", "torque", "load", "voltage", "temperature")  # as in `ServoState`


class StepTable(Mapping[str, ServoState]):
    """The samples of one step: whole columns, or a servo's `ServoState` by name, created at the access.

    A table does not change: the next step has a new one. Its columns of commands are NaN. A recording fills them with
    the commands in force after each sample.

    Args:
        servos: Row of each servo, by name, in the rig's order.
        flags: Type of each servo's error byte.
    """

    def __init__(self, servos: Mapping[str, int], flags: Sequence[type[ServoFlags]]) -> None:
        self.servos = servos
        self._flags = flags

    @abstractmethod
    def column(self, quantity: str) -> FloatArray:
        """Return one of `SERVO_COLUMNS`, (servos,)."""

    def rows(self) -> npt.NDArray[np.void]:
        """Return all columns as `SERVO_ROW` (servos,)."""
        rows = np.empty(len(self.servos), SERVO_ROW)
        for name in SERVO_COLUMNS:
            rows[name] = self.column(name)
        return rows

    def __getitem__(self, name: str) -> ServoState:
        row = self.servos[name]
        measured = {quantity: self.column(quantity).item(row) for quantity in _MEASURED}
        errors = self.column("errors").item(row)
        return ServoState(**measured, errors=NO_FLAGS if math.isnan(errors) else self._flags[row](int(errors)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.servos)

    def __len__(self) -> int:
        return len(self.servos)


Cause = Literal[
    "without power", "torque off", "blocked", "slipping", "extra load", "missing load", "weak supply", "overheating",
    "stale model", "overload", "overcurrent", "electrical shock", "encoder", "input voltage",
]  # fmt: skip


EventKind = Literal["missing", "returned", "fault", "limit", "port lost", "port back", Cause]


class BusEvent(NamedTuple):
    """A change: a servo is missing, has returned, reports a fault or is beyond a limit; the same for a port (name "").

    A `Cause` says why a servo does not follow its command: it was without power, another program switched its torque
    off, or it is blocked. With a simulated twin, a cause also says why the servo differs from its model. An alarm has
    the kind `fault`.
    """

    kind: EventKind
    name: str
    error: BusError | None = None
    flags: ServoFlags = NO_FLAGS


@dataclass(frozen=True)
class StepReport:
    """Report of the last step; times in s on the robot's clock.

    Attributes:
        requested: Requested length of the step, ms.
        actual: Actual length, ms.
        commanded: Time at which the servos had their goals: the end of the command packets on the line.
        sampled: Time of each servo's sample, by its name.
        errors: Error of each servo that did not answer, by its name: BusTimeout, CorruptPacket, PortError.
        events: Changes on the buses: a servo missing, returned, with a fault or beyond a limit; a port lost, back.
            Also why a servo does not follow: without power, blocked, …; on a twin slipping, extra load, …
        late: Delay of the step, ms; 0 = on time.
    """

    requested: float
    actual: float
    commanded: float
    sampled: Mapping[str, float]
    errors: Mapping[str, BusError] = field(default_factory=dict)
    events: tuple[BusEvent, ...] = ()
    late: float = 0.0


Observer = Callable[[StepReport, StepTable], None]
