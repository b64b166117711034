"""Domain randomisation: each episode draws a robot within the uncertainty of measurements.

Servo parameters come from the joint distribution of a fit (`axbridge identify --json`), including parameters that the
data do not identify. Packet loss comes from the statistics of a real robot (`Robot.bus_statistics`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config import toml_tables
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import Remedy, UsageError
from axbridge.file_reading import reading, regular
from axbridge.learn.variation import SHORT, changed, check_name, with_grip, with_masses

_WORLD = frozenset(("mass", "floor"))
_RANGES = 'write ranges={"friction": (0.02, 0.06), "mass": (0.9, 1.1)}'
_QUANTILE = 1.96  # standard deviations from the mean to an end of a 95 % interval


@dataclass(frozen=True)
class Parameters:
    """The joint distribution of a fit's n parameters, in the units of the parameters file."""

    names: tuple[str, ...]  # ``table.key``, as in the file
    value: FloatArray  # estimates, (n,)
    low: FloatArray  # lower ends of their 95 % intervals, (n,)
    high: FloatArray  # upper ends, (n,)
    correlation: FloatArray  # (n, n)
    open: FloatArray  # 1 for a parameter that the data do not identify, drawn uniformly between the ends; else 0, (n,)

    @classmethod
    def load(cls, path: Path | str) -> Parameters:
        """Read the file of ``axbridge identify … --json > FILE``; UsageError if it is damaged."""

        def error(message: str, hint: str) -> UsageError:
            return UsageError(f"{path}: {message}", hint)

        with reading(error, Remedy("identify", "RECORDING", json=True, says="give what {} prints")):
            document = json.loads(regular(path).read_text(encoding="utf-8"))
            table, correlations = document["parameters"], document["correlations"]
            names = tuple(table)
            ends = np.array([[table[name][key] for key in ("value", "low", "high")] for name in names], dtype=float)
            correlation = np.array([[correlations[a][b] for b in names] for a in names], dtype=float)
            not_identified = np.array([name in document["cannot_tell"] for name in names], dtype=float)
            if not all(name.count(".") == 1 for name in names):
                raise ValueError("a parameter that is of no table")
            if not (np.isfinite(ends).all() and np.isfinite(correlation).all()):
                raise ValueError("a figure that is not finite")
        value, low, high = ends.T if len(ends) else np.empty((3, 0))
        return cls(names, value, low, high, correlation.reshape(len(names), len(names)), not_identified)

    def drawn(self, random: np.random.Generator) -> dict[str, dict[str, float]]:
        """Draw one servo's parameters, as tables of the parameters file.

        Values spread from the estimate as its interval gives on each side; no draw lies outside the interval.
        """
        if not self.names:
            return {}
        sizes, axes = np.linalg.eigh(self.correlation)  # an estimate, which may have small negative eigenvalues
        normal = axes @ (np.sqrt(np.maximum(sizes, 0.0)) * random.standard_normal(len(sizes)))
        share = np.clip(normal / _QUANTILE, -1.0, 1.0)
        drawn = self.value + np.where(share > 0, self.high - self.value, self.value - self.low) * share
        chance = np.array([0.5 * math.erfc(-z / math.sqrt(2)) for z in normal])
        drawn = np.where(self.open > 0, self.low + (self.high - self.low) * chance, drawn)
        tables: dict[str, dict[str, float]] = {}
        for name, value in zip(self.names, drawn.tolist(), strict=True):
            table, key = name.split(".")
            tables.setdefault(table, {})[key] = max(value, 0.0) if key == "latency_ms" else value
        return tables


def is_amount(value: object) -> bool:
    """Return whether the value is a finite number and not negative."""
    return isinstance(value, Real) and 0 <= float(value) < math.inf


def _check_numbers(given: LineQuality | Supply, most: Mapping[str, float] = MappingProxyType({})) -> None:
    for name, value in vars(given).items():
        high = most.get(name, math.inf)
        if not is_amount(value) or value > high:
            span = f"from 0 to {high:g}" if name in most else "that is not negative"
            raise UsageError(f"{name} = {value!r} of a {type(given).__name__}", f"give a number {span}")


@dataclass(frozen=True)
class LineQuality:
    """Packet loss and delays of a bus."""

    loss: float = 0.0  # share of instructions without a valid reply
    late: float = 0.0  # share of replies after the time-out
    jitter: float = 0.0  # 99th percentile of the cycle time minus its median, s

    def __post_init__(self) -> None:
        _check_numbers(self, most={"loss": 1.0, "late": 1.0})

    @classmethod
    def measured(cls, statistics: Mapping[str, Mapping[str, Any]]) -> LineQuality:
        """Return the quality of the worst bus in a robot's `Robot.bus_statistics`."""
        worst = cls()
        for bus in statistics.values():
            servos = ((bus.get("line") or {}).get("servos") or {}).values()
            requests = sum(servo["asked"] for servo in servos)
            lost = sum(servo["timeouts"] + servo["corrupt"] for servo in servos)
            late = sum(servo["late"] for servo in servos)
            times = bus["cycle"]
            worst = cls(
                max(worst.loss, lost / requests if requests else 0.0),
                max(worst.late, late / requests if requests else 0.0),
                max(worst.jitter, times["p99"] - times["p50"]),
            )
        return worst


@dataclass(frozen=True)
class Supply:
    """A supply: its open-circuit voltage, V, and its internal resistance, ohm, with their standard errors."""

    voltage: float
    resistance: float
    voltage_error: float = 0.0
    resistance_error: float = 0.0

    def __post_init__(self) -> None:
        _check_numbers(self)


@dataclass(frozen=True)
class Randomisation:
    """The distribution from which each episode draws its robot.

    `ranges` has a lowest and a highest value by name, between which values are drawn uniformly. Names and units are
    those of `axbridge sweep` (`friction`, `armature`, `motor.dead_duty`, `supply` …) and two more: `mass`, a factor for
    the mass and inertia of each link, and `floor`, the coefficient of friction of the robot's links on the floor. Each
    servo and each link draws its own value; supply, floor and the rig's parameters are drawn once an episode.

    Raises:
        UsageError: a wrong type, an unknown name, or an invalid range.
    """

    parameters: Sequence[Parameters] = ()  # fits of this kind of servo; each servo draws a fit, then values from it
    line: LineQuality = LineQuality()
    supplies: Sequence[Supply] = ()  # an episode draws a supply, then values from it
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, given, kind in (("parameters", self.parameters, Parameters), ("supplies", self.supplies, Supply)):
            listed = isinstance(given, Sequence) and not isinstance(given, str)
            if not (listed and all(isinstance(item, kind) for item in given)):
                why = f"{name} is a list of {kind.__name__}, not {given!r}"
                raise UsageError(why, f"write {name}=[{kind.__name__}(...)]")
        if not isinstance(self.line, LineQuality):
            raise UsageError(f"line is a LineQuality, not {self.line!r}", "write line=LineQuality(loss=0.01)")
        if not isinstance(self.ranges, Mapping):
            raise UsageError(f"ranges is a dict, not {self.ranges!r}", _RANGES)
        for name, ends in self.ranges.items():
            check_name(name, *_WORLD)
            _check_range(name, ends)

    def drawn(self, rig: Rig, random: np.random.Generator) -> Rig:
        """Draw a rig."""
        rig = self._ranged(rig, random)

        def of_servo(servo: ServoConfig) -> dict[str, Any]:
            if servo.drive != "dynamixel":
                return {}
            tables: dict[str, Any] = {}
            if self.parameters:
                tables = self.parameters[int(random.integers(len(self.parameters)))].drawn(random)
            if self.line.jitter > 0:
                base = tables.get("sensor", {}).get("latency_ms", rig.specs[servo.name].model.sensor.latency_ms)
                late = base + 1000 * float(random.uniform(0.0, self.line.jitter))
                tables = toml_tables.merged(tables, {"sensor": {"latency_ms": late}})
            return {"params": toml_tables.merged(servo.params, tables)}

        drawn = rig.with_servos(of_servo)
        if not self.supplies:
            return drawn
        supply = self.supplies[int(random.integers(len(self.supplies)))]
        voltage = supply.voltage + supply.voltage_error * float(random.standard_normal())
        resistance = supply.resistance + supply.resistance_error * float(random.standard_normal())
        return drawn.with_buses(supply_voltage=max(voltage, 1.0), supply_resistance=max(resistance, 0.0))

    def _ranged(self, rig: Rig, random: np.random.Generator) -> Rig:
        """Return the rig with values drawn from `ranges`."""
        if not self.ranges:
            return rig
        once = {"bus", "parameters", *_WORLD}
        shared = {name: ends for name, ends in self.ranges.items() if SHORT.get(name, name).partition(".")[0] in once}
        own = {name: ends for name, ends in self.ranges.items() if name not in shared}
        values = {name: float(random.uniform(*ends)) for name, ends in shared.items() if name not in _WORLD}
        each = {servo.name: {name: float(random.uniform(*ends)) for name, ends in own.items()} for servo in rig.servos}
        ranged = changed(rig, values, lambda servo: each[servo.name])
        if not shared.keys() & _WORLD:
            return ranged
        text = ranged.urdf_text()
        if "mass" in shared:
            text = with_masses(text, lambda: float(random.uniform(*shared["mass"])))
        if "floor" in shared:
            text = with_grip(text, float(random.uniform(*shared["floor"])))
        return ranged.with_urdf(text)

    def faults(self) -> str:
        """Return packet loss and late replies as faults of the virtual bus, as in ``drop=0.05``."""
        shares = {"drop": self.line.loss, "late": self.line.late}
        return ",".join(f"{name}={share:g}" for name, share in shares.items() if share > 0)


def _check_range(name: str, ends: object) -> None:
    try:
        low, high = map(float, ends)  # type: ignore[call-overload]  # any object
    except (TypeError, ValueError) as failure:
        raise UsageError(f"{name}: {ends!r} are no lowest and highest value", _RANGES) from failure
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise UsageError(f"{name}: {low:g} to {high:g} is no range", "give the lowest value first; both are finite")
    if low < 0 and (name in SHORT or name in _WORLD):
        raise UsageError(f"{name}: {low:g} is negative", "give values from 0 on")
    if name == "mass" and low <= 0:
        raise UsageError(f"{name}: {low:g} is too little", "mass is a positive factor")
