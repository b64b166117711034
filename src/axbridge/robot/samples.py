"""A robot's samples: one table of register counts a step; columns are converted to SI units when they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from axbridge.arrays import FloatArray
from axbridge.bus.rows import Mask, RawState, Rows
from axbridge.errors import UsageError
from axbridge.robot.drives.bus_drive import BusDrive
from axbridge.robot.drives.drive import Drive, IdealDrive
from axbridge.robot.joint import Joint
from axbridge.servo.columns import Param
from axbridge.servo.steady import SteadyServo
from axbridge.state import SERVO_COLUMNS, SERVO_ROW, ServoState, StepTable
from axbridge.virtual.world import World

Truths = Callable[[Sequence[str], Sequence[float]], FloatArray]


class Scales:
    """Units of the register counts of some servos, and their motor models."""

    def __init__(self, drives: Sequence[Drive], truths: Truths | None = None) -> None:
        self.truths = truths
        self.drives = drives
        self.on_bus = [drive for drive in drives if isinstance(drive, BusDrive)]
        rows = [row for row, drive in enumerate(drives) if isinstance(drive, BusDrive)]
        self.rows: Any = slice(None) if len(rows) == len(drives) else np.array(rows, dtype=int)
        self.servos: Mapping[str, int] = {drive.config.name: row for row, drive in enumerate(drives)}
        self.flags = [drive.flags for drive in drives]

        def column(worth: Callable[[BusDrive], float]) -> FloatArray:
            return np.array([worth(drive) for drive in self.on_bus], dtype=float)

        self.direction = column(lambda drive: drive.config.direction)
        self.zero = column(lambda drive: drive.config.zero)
        self.angle = column(lambda drive: drive.profile.units.position)
        self.speed = column(lambda drive: drive.profile.units.speed)
        self.full_scale = column(lambda drive: drive.profile.units.full_scale)
        self.voltage = column(lambda drive: drive.profile.units.voltage)

    @cached_property
    def steady(self) -> SteadyServo:
        """Return the models of the servos on buses; torques have the joints' signs."""
        return SteadyServo.of(np.array([drive.model_row for drive in self.on_bus]).reshape(-1, len(Param)))

    def powered(self) -> list[bool]:
        """Return for each servo on a bus whether its motor is on."""
        return [drive.powered for drive in self.on_bus]

    def counted(self, raw: Rows) -> Rows:
        """Return samples with positions as position mode reports them; see `BusDrive.counted`."""
        held = raw["position"].tolist()
        counted = [drive.counted(position) for drive, position in zip(self.on_bus, held, strict=True)]
        if counted == held:
            return raw
        return Rows({**{name: raw[name] for name in RawState._fields}, "position": np.array(counted)})

    def table(self, raw: Rows, start: float) -> Samples:
        """Return samples of servos that are all on buses; `start` is time 0 of the table on the clock of `raw`, s."""
        return Samples(self, self.counted(raw), raw["time"] - start, self.powered())


class Samples(StepTable):
    """Samples of a robot's servos."""

    def __init__(
        self,
        scales: Scales,
        raw: Rows,
        time: FloatArray,
        powered: Sequence[bool],
        sensors: Mapping[int, tuple[float, float]] | None = None,
        others: npt.NDArray[np.void] | None = None,
    ) -> None:
        super().__init__(scales.servos, scales.flags)
        self._scales, self._raw, self._time, self._powered = scales, raw, time, powered
        self._sensors, self._others = sensors or {}, others
        self._truths: FloatArray | None = None  # cache of true position and torque
        self._gaps = math.isnan(sum(time.tolist()))  # a servo was never read
        self._columns: dict[str, FloatArray] = {}  # cache

    def column(self, quantity: str) -> FloatArray:
        """Return one of `SERVO_COLUMNS`, (servos,); UsageError for another name."""
        values = self._columns.get(quantity)
        if values is None:
            if quantity not in SERVO_COLUMNS:
                hint = f"there are {', '.join(SERVO_COLUMNS)}"
                raise UsageError(f"samples have no column {quantity!r}", hint)
            values = self._converted(quantity)
            if self._gaps and quantity != "power":
                values = np.where(np.isnan(self._time), math.nan, values)
            if self._others is not None:
                joined = self._others[quantity].copy()
                joined[self._scales.rows] = values
                values = joined
            values.setflags(write=False)  # a program that changes it would change where a path starts
            self._columns[quantity] = values
        return values

    def _converted(self, quantity: str) -> FloatArray:
        """Return the column of the servos on buses."""
        scales, raw = self._scales, self._raw
        match quantity:
            case "time":
                return self._time
            case "position":
                angle: FloatArray = scales.direction * (raw["position"] - scales.zero) * scales.angle
                for row, (noise, resolution) in self._sensors.items():
                    angle[row] = rounded(float(angle[row]) + noise, resolution)
                return angle
            case "velocity":
                return np.asarray(scales.direction * raw["speed"] * scales.speed)
            case "load":
                return np.asarray(scales.direction * raw["load"] / scales.full_scale)
            case "voltage":
                return np.asarray(raw["voltage"] * scales.voltage)
            case "temperature":
                return raw["temperature"].astype(float)
            case "errors":
                return raw["error"].astype(float)
            case "torque":
                return self._modelled(lambda servo, temperature, *drive: servo.at(temperature).torque(*drive))
            case "power":
                drawn = self._modelled(lambda servo, temperature, *drive: servo.at(temperature).power(*drive))
                return np.where(drawn > 0.0, drawn, 0.0)
            case "true_position" | "true_torque" if scales.truths is not None:
                if self._truths is None:
                    truths = scales.truths([drive.config.name for drive in scales.on_bus], raw["time"].tolist())
                    self._truths = truths.T * scales.direction
                return np.asarray(self._truths[int(quantity == "true_torque")])
            case _:
                return np.full(len(self._time), math.nan)

    def _modelled(self, figure: Callable[[SteadyServo, Any, Any, Any, Any], Any]) -> FloatArray:
        """Return a quantity of the motor models from temperature, duty, supply and speed; 0 if the motor is off."""
        columns = [
            self.column(quantity)[self._scales.rows] for quantity in ("temperature", "load", "voltage", "velocity")
        ]
        with np.errstate(all="ignore"):
            return np.where(self._powered, figure(self._scales.steady, *columns), 0.0)


class Sampling:
    """Gathers the samples of a robot's joints; gives each joint the table of the latest step."""

    table: Samples

    def __init__(self, joints: Sequence[Joint], seed: int) -> None:
        self._joints = joints
        self._random = {joint.row: Random(f"{seed} {joint.config.name}") for joint in joints if joint.config.noise}
        self.frozen = False
        self.rewire()
        count = len(self._scales.on_bus)
        self._raw, self._time = Rows.unread(count), np.full(count, math.nan)
        self._powered = [False] * count
        self._sensors: dict[int, tuple[float, float]] = {}
        self._others = np.full(len(joints), math.nan, SERVO_ROW)
        self._publish()

    def rewire(self) -> None:
        """Use the present drives of the joints, after a change of backend."""
        world = self._joints[0].connection.backend.simulated if self._joints else None
        self._scales = Scales([joint.drive for joint in self._joints], None if world is None else world.truths)
        self._alone: dict[str, Scales] = {}
        self._on_bus = [joint for joint in self._joints if isinstance(joint.drive, BusDrive)]
        self._inexact = [
            (row, joint) for row, joint in enumerate(self._on_bus) if joint.config.noise or joint.config.resolution
        ]
        self._ideal = [(joint, joint.drive) for joint in self._joints if isinstance(joint.drive, IdealDrive)]
        self._may_count_otherwise = any(drive.config.registers.get("homing_offset") for drive in self._scales.on_bus)

    def measure(self, start: float, *, unread: bool = False) -> None:
        """Sample the joints without a bus, if `unread` only those without a sample; `start`: the robot's time 0, s."""
        for joint, drive in () if self.frozen else self._ideal:
            if not unread or math.isnan(self._others["time"][joint.row]):
                measured = drive.measure(start)
                measured["position"] = rounded(measured["position"] + self._noise(joint), joint.config.resolution)
                for quantity, value in measured.items():
                    self._others[quantity][joint.row] = value

    def add(self, raw: Rows, fresh: Mask, start: float) -> None:
        """Publish a step: samples of the servos on buses, and which rows are new; `start`: the robot's time 0, s."""
        if self.frozen:
            return
        raw = self._scales.counted(raw) if self._may_count_otherwise else raw
        powered, time = self._scales.powered(), raw["time"] - start
        if not all(fresh.tolist()):  # numpy takes ten times as long for so few
            raw = Rows({name: np.where(fresh, raw[name], self._raw[name]) for name in RawState._fields})
            time = np.where(fresh, time, self._time)
            powered = np.where(fresh, powered, self._powered).tolist()
        self._raw, self._time, self._powered = raw, time, powered
        if self._inexact:
            self._sensors = self._sensors | {
                row: (self._noise(joint), joint.config.resolution) for row, joint in self._inexact if fresh[row]
            }
        self.measure(start, unread=True)
        self._publish()
        estimates: dict[int, tuple[float, float]] = {}
        for row, (joint, drive) in enumerate(zip(self._on_bus, self._scales.on_bus, strict=True)):
            if not drive.is_wheel:
                joint.turned = math.nan
            elif fresh[row]:
                joint.turned = drive.turned(joint.sample)
                if (estimate := drive.dead_zone_estimate) is not None:
                    estimates[row] = estimate if joint.torque_enabled else (0.0, 0.0)
        if estimates:
            self._estimate(estimates)

    def _estimate(self, estimates: Mapping[int, tuple[float, float]]) -> None:
        """Replace speed, rad/s, and duty of wheels in the dead zone by the model's, by row."""
        scales, rows = self._scales, list(estimates)
        by_model = np.array(list(estimates.values())).T * scales.direction[rows]
        known = {name: self._raw[name].copy() for name in RawState._fields}
        known["speed"][rows] = np.round(by_model[0] / scales.speed[rows])
        known["load"][rows] = np.round(by_model[1] * scales.full_scale[rows])
        self._raw = Rows(known)
        self._publish()

    def freeze(self) -> None:
        """Keep the present samples from now on: the battery is empty."""
        self.frozen = True
        self._publish()

    def state_in(self, world: World, name: str, time: float, start: float) -> tuple[ServoState, float]:
        """Return state and power, W, of a joint in its world, `time` s after `start`; an ideal joint is sampled now."""
        (joint,) = (joint for joint in self._joints if joint.config.name == name)
        scales = self._alone.setdefault(name, Scales([joint.drive]))
        others = None
        if isinstance(joint.drive, IdealDrive):
            others = np.full(1, math.nan, SERVO_ROW)
            for quantity, value in joint.drive.measure(start).items():
                others[quantity] = value
        samples = [world.sample(name, start + time)] if name in world.servos else []
        raw = scales.counted(Rows.of(samples))
        table = Samples(scales, raw, raw["time"] - start, scales.powered(), others=others)
        return table[name], table.column("power").item(0)

    def _noise(self, joint: Joint) -> float:
        return self._random[joint.row].gauss(0.0, joint.config.noise) if joint.config.noise else 0.0

    def _publish(self) -> None:
        others = self._others.copy() if self._ideal else None
        self.table = Samples(self._scales, self._raw, self._time, self._powered, self._sensors, others)
        for joint in self._joints:
            joint.table = self.table


def rounded(value: float, resolution: float) -> float:
    """Return `value` rounded to a multiple of `resolution` (0: unchanged), halves away from zero."""
    if not resolution or not math.isfinite(value):
        return value
    return math.copysign(math.floor(abs(value) / resolution + 0.5), value) * resolution
