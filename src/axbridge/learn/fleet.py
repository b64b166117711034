"""Robots of a rig for a batch: begun as a robot begins, then stepped without packets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.learn.randomise import Randomisation
from axbridge.robot.open import open_robot
from axbridge.servo.columns import State
from axbridge.sim.bank import ServoBank
from axbridge.sim.batch import Batch, Member
from axbridge.units import Calibration

__all__ = ["Fleet"]


@dataclass(frozen=True)
class _Maker:
    """Builds one robot; sent to the workers."""

    rig: Rig
    randomise: Randomisation | None

    def __call__(self, number: int, seed: int) -> Member:
        rig = self.rig
        if self.randomise is not None:
            rig = self.randomise.drawn(rig, np.random.default_rng([number, seed]))
        robot = open_robot(rig, "sim", seed=seed)
        robot.set_positions([servo.position for servo in rig.servos])
        robot.exchange()  # registers, torque and the first goals are a robot's own
        assert robot.simulation is not None
        bank = robot.simulation.world.bank
        assert isinstance(bank, ServoBank)  # of a world that has one
        return Member(bank, robot.close)


class Fleet:
    """`count` robots of a rig, in rad at the joint; a context manager.

    What a servo's loop does is all there: quantised readings, latency, compliance or feedback, friction, supply. There
    are no packets: nothing is lost, nothing is late, and no alarm switches a motor off.

    Args:
        rig: A rig of Dynamixels.
        count: How many.
        workers: Processes; by default one for each core, 0 = none.
        randomise: What differs from robot to robot; what its line loses is left out.

    Raises:
        UsageError: the rig has ideal joints, or servos that the host's own controller drives.
    """

    def __init__(
        self, rig: Rig, count: int, *, workers: int | None = None, randomise: Randomisation | None = None
    ) -> None:
        for servo in rig.servos:
            if servo.drive != "dynamixel" or servo.controller != "firmware" or servo.acceleration != -1:
                why = f"servo {servo.name!r} is driven by the host, step by step"
                raise UsageError(f"{why}: a batch has no host", "use rigs whose servos follow their own firmware")
        self.rig = rig.with_buses(bus_timing="none")
        profiles = [rig.profile_of(servo) for servo in rig.servos]
        self._mounted = [
            Calibration(profile.units, servo.zero, servo.direction)
            for profile, servo in zip(profiles, rig.servos, strict=True)
        ]
        self._units = np.array([one.units.position for one in self._mounted])
        self._speed = np.array([one.units.speed for one in self._mounted])
        self._zero = np.array([float(one.zero) for one in self._mounted])
        self._side = np.array([float(one.direction) for one in self._mounted])
        self._counts = np.array([float(one.units.counts) for one in self._mounted])
        self._ends = np.array([servo.soft_limits for servo in rig.servos]).T
        self._batch = Batch(_Maker(self.rig, randomise), count, len(rig.servos), workers=workers)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self, seeds: dict[int, int]) -> None:
        """Begin anew with these robots, each with its seed."""
        self._batch.reset(seeds)
        held = np.array([servo.position for servo in self.rig.servos])
        self.tell(np.tile(held, (len(self._batch.goals), 1)), only=list(seeds))

    def tell(self, goals: FloatArray, only: list[int] | None = None) -> None:
        """Goals of the next step, (count, servos), rad; clipped to the rig's limits, in whole counts."""
        counts = np.rint(self._zero + self._side * np.clip(goals, *self._ends) / self._units)
        goals = (np.clip(counts, 0, self._counts) - self._zero) * self._units
        chosen = slice(None) if only is None else only
        self._batch.goals[chosen] = goals[chosen]

    def step(self, seconds: float) -> None:
        """All robots go on for so long."""
        self._batch.step(seconds)

    @property
    def positions(self) -> FloatArray:
        """As the servos report them, in whole counts, (count, servos), rad."""
        counts = np.rint(self._zero + self._batch.states[:, :, State.READING] / self._units)
        found: FloatArray = self._side * (np.clip(counts, 0, self._counts) - self._zero) * self._units
        return found

    @property
    def velocities(self) -> FloatArray:
        """As the servos report them, in whole counts, (count, servos), rad/s."""
        found: FloatArray = self._side * np.rint(self._batch.states[:, :, State.SPEED] / self._speed) * self._speed
        return found

    @property
    def true_positions(self) -> FloatArray:
        """Of the joints themselves, (count, servos), rad."""
        found: FloatArray = self._side * self._batch.states[:, :, State.ANGLE]
        return found

    @property
    def loads(self) -> FloatArray:
        """Duty of each motor, (count, servos), -1..1."""
        found: FloatArray = self._side * self._batch.states[:, :, State.DUTY]
        return found

    @property
    def bases(self) -> FloatArray:
        """Where free bases are, (count, 3), m."""
        return self._batch.bases

    @property
    def diverged(self) -> FloatArray:
        """1 for robots whose motion left the finite range, (count,)."""
        return self._batch.diverged

    def close(self) -> None:
        """End the workers; may be called twice."""
        self._batch.close()
