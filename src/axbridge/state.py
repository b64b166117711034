"""What a robot reports: the samples of its servos, a table a step, and what the step did, in SI units.

A step of a robot is a table of `SERVO_ROW`, a row a servo; `SERVO_COLUMNS` says what its columns are. Every column is a
float64, and NaN is what nobody knows. Observers get it as a `StepTable`, and a recording holds it as it is.
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
    "true_torque": "N m, simulation only: what the joint felt",
    "speed_limit": "rad/s, limit of the approach (moving speed); 0 = none",
    "duty": "-1..1, duty asked for in wheel mode",
    "torque_limit": "0..1, largest duty allowed",
}
SERVO_ROW = np.dtype([(name, "<f8") for name in SERVO_COLUMNS])


class Truth(NamedTuple):
    """What only a simulation knows of a servo; NaN where nobody knows.

    Attributes:
        position: rad, joint side: the joint itself, before sensor and rounding.
        torque: N·m, joint side, positive towards larger angles: what the joint felt, after gear loss and friction,
            with the spring, damper and static friction that its rig lays beside the servo.
    """

    position: float
    torque: float


class Goals(NamedTuple):
    """The last commands of a servo, on the joint's side, after checks, clipping and multiplier. NaN = does not apply.

    Attributes:
        position: Goal, rad; NaN before the first, and in any other control than of position.
        speed: Limit of the approach, rad/s; 0 holds still.
        torque: Largest torque allowed, as a share of the servo's largest, 0..1.
        duty: Duty of open-loop turning, -1..1.
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
        time: When the servo took the sample, s on the robot's clock.
        position: rad, joint side.
        velocity: rad/s, measured by the servo.
        torque: N·m, estimated from load, speed and supply by the motor model (AX-12 have no current sensor).
        load: -1..1, the duty the servo's firmware reports as Present Load.
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
    """The samples of one step: whole columns, or by name a servo's `ServoState`, made when it is asked for.

    It is of that step for good: the next step has another one. The columns of commands are NaN: they belong to a
    recording, which knows what acted from each sample on.

    Args:
        servos: Row of each servo, by name, in the rig's order.
        flags: What each servo's error byte means.
    """

    def __init__(self, servos: Mapping[str, int], flags: Sequence[type[ServoFlags]]) -> None:
        self.servos = servos
        self._flags = flags

    @abstractmethod
    def column(self, quantity: str) -> FloatArray:
        """One of `SERVO_COLUMNS`, (servos,)."""

    def rows(self) -> npt.NDArray[np.void]:
        """All columns: `SERVO_ROW` (servos,)."""
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
    """What changed: a servo went missing, came back, reports a fault, left its limits; the port likewise (name "").

    Also a `Cause` why it does not follow its command: it was without power, somebody has switched its torque off, or it
    is blocked; beside a simulated twin, why it does not do as its model says. Of an alarm, the event is `fault`.
    """

    kind: EventKind
    name: str
    error: BusError | None = None
    flags: ServoFlags = NO_FLAGS


@dataclass(frozen=True)
class StepReport:
    """What the last step did; times in s on the robot's clock.

    Attributes:
        requested: Length of the step asked for, ms.
        actual: Length it took, ms.
        commanded: When the servos had their goals: the end of the command packets on the line.
        sampled: When each servo took its sample.
        errors: Why a servo did not answer, by its name: BusTimeout, CorruptPacket, PortError.
        events: What changed on the buses: a servo missing, returned, with a fault or beyond a limit; a port lost, back.
            Also why a servo does not follow: without power, blocked, …; on a twin slipping, extra load, …
        late: How late it was, ms; 0 = on time.
    """

    requested: float
    actual: float
    commanded: float
    sampled: Mapping[str, float]
    errors: Mapping[str, BusError] = field(default_factory=dict)
    events: tuple[BusEvent, ...] = ()
    late: float = 0.0


Observer = Callable[[StepReport, StepTable], None]
