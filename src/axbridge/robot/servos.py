"""The servos of a robot: by name, coupled by name, and all of them at once."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from axbridge import minimum_jerk
from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import UnknownServo, UsageError
from axbridge.robot.servo import Servo
from axbridge.robot.warn import warn
from axbridge.servo import checks
from axbridge.servo.coupled_motors import Limits, couplings, sibling_limits

_log = logging.getLogger(__name__)
_THERE = {"rotational": math.radians(2), "linear": 0.002}  # rad, m: this near a goal a joint has arrived
_LONGEST_WAY = 86_400.0  # s: a day
_PATIENCE = 0.5  # s that a joint may come after its goal
_FOLLOWS = 0.2  # rad or m: a joint this near its target goes on from the target, else from where it is


class Servos(Mapping[str, Servo]):
    """Servos by name, or index.

    Args:
        rig: Their robot.
        servos: By name, in its order.
    """

    def __init__(self, rig: Rig, servos: Mapping[str, Servo]) -> None:
        self.rig = rig
        self._servos = servos
        self._couple()

    def __getitem__(self, name: str | int) -> Servo:
        if isinstance(name, int):
            return list(self._servos.values())[name]
        try:
            return self._servos[name]
        except KeyError:
            known = ", ".join(self._servos)
            raise UnknownServo(name, f"robot {self.rig.name!r} has no servo {name!r}", f"it has: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._servos)

    def __len__(self) -> int:
        return len(self._servos)

    # ---- all of them at once; they are stepped by their robot

    @abstractmethod
    def step(self, period: float | None = None) -> float:
        """See `axbridge.robot.robot.Robot.step`."""

    @property
    @abstractmethod
    def time(self) -> float:
        """S on the robot's clock."""

    @abstractmethod
    def _refuse_closed(self) -> None:
        """Raise UsageError when the robot takes no commands any more."""

    @property
    def basic_time_step(self) -> float:
        """Default period of `step`, ms."""
        return self.rig.robot.basic_time_step_ms

    def goto(self, pose: Mapping[str, float], duration: float) -> bool:
        """Lead these servos to a pose along minimum-jerk paths, and step until they are there.

        Limp ones are switched on where they are. Where a servo would have to turn faster than its `max_velocity`, the
        way takes longer, with a `ControlWarning`; a goal beyond its limits is clipped, with another.

        Args:
            pose: rad (m for linear joints) by servo name.
            duration: Of the way, s.

        Returns:
            Whether all of them are within 2° (2 mm) of their goals, half a second after the way's end at the latest.
            False, too, when the controller should end.

        Raises:
            UsageError: a time that is not positive or longer than a day, a position that is not finite, or degrees; or
                the robot is closed.
            UnknownServo: the robot has no such servo.
            BusError: as `step`.
        """
        self._refuse_closed()
        duration = checks.number(duration, "a duration")
        if not 0 < duration <= _LONGEST_WAY:
            raise UsageError(f"a way of {duration:g} s: 0 to {_LONGEST_WAY:g} s can be had", "give seconds")
        goals = {name: checks.number(goal, f"a goal of {name!r}") for name, goal in pose.items()}
        ways = {name: _way(self[name], goal) for name, goal in goals.items()}
        times = {
            name: minimum_jerk.shortest(end - start, self[name].max_velocity) for name, (start, end) in ways.items()
        }
        slowest = max(times, key=lambda name: times[name], default="")
        if slowest and (needed := times[slowest]) > duration:
            if needed > _LONGEST_WAY:
                raise UsageError(f"servo {slowest!r} would go for {needed:.3g} s", "give a goal that is nearer")
            warn(f"servo {slowest!r}: {duration:g} s are too short for its speed: it takes {needed:.2f} s")
            duration = needed
        ticks = max(1, math.ceil(duration * 1000 / self.basic_time_step - 1e-9))
        for tick in range(1, ticks + 1):
            for name, (start, end) in ways.items():
                self[name].set_position(start + (end - start) * minimum_jerk.way(tick / ticks))
            if self.step() == -1:
                return False
        patience = self.time + _PATIENCE
        while not (there := all(_is_at(self[name], end) for name, (_, end) in ways.items())) and self.time < patience:
            if self.step() == -1:
                return False
        return there

    @property
    def positions(self) -> FloatArray:
        """Latest positions of all servos in the rig's order, (n,), rad (m for linear joints)."""
        return np.array([servo.position for servo in self._servos.values()])

    @property
    def velocities(self) -> FloatArray:
        """Latest measured speeds, (n,), rad/s."""
        return np.array([servo.velocity for servo in self._servos.values()])

    @property
    def loads(self) -> FloatArray:
        """Latest loads, (n,), -1..1: the duty that each servo's firmware reports."""
        return np.array([servo.load for servo in self._servos.values()])

    def set_positions(self, positions: ArrayLike) -> None:
        """`Servo.set_position` for every servo, in the rig's order.

        Args:
            positions: (n,), rad (m for linear joints).

        Raises:
            UsageError: no numbers, not as many positions as servos, or degrees; no servo has got its goal then.
            BusError: a servo does not answer.
        """
        values = np.asarray(positions, dtype=object)
        if values.shape != (len(self),):
            raise UsageError(
                f"positions of shape {values.shape} for {len(self)} servos", f"give one a servo: {', '.join(self)}"
            )
        goals = [checks.number(value, f"a goal of {name!r}") for name, value in zip(self, values, strict=True)]
        given = list(zip(self._servos.values(), goals, strict=True))
        for servo, goal in given:
            servo._refuse_degrees(goal)
        for servo, goal in given:
            servo.set_position(goal, clip=True)  # asked about already

    def _couple(self) -> None:
        """Join motors named ``base::member``, and give them the first one's limits, scaled."""
        for base, names in couplings(list(self._servos)).items():
            if len(names) == 1:
                warn(f"servo {names[0]!r} is coupled with nothing: no other {base}::…")
                continue
            servos = {name: self._servos[name] for name in names}
            limits = {name: Limits(*servo._limits, servo.max_velocity) for name, servo in servos.items()}
            wanted, said = sibling_limits(limits, {name: servo.multiplier for name, servo in servos.items()})
            for name, servo in servos.items():
                servo._couple([other for other in servos.values() if other is not servo], wanted[name])
            for message in said:
                _log.warning(message)  # not a ControlWarning: Webots rewrites limits at load without being asked


def _way(servo: Servo, goal: float) -> tuple[float, float]:
    """Where a servo starts and ends; it is on afterwards."""
    if not math.isfinite(goal):
        raise UsageError(f"{goal} is no position for {servo.name!r} to go to", "give rad")
    servo._refuse_degrees(goal)
    end, clipped = servo._checked(goal)
    assert end is not None  # it is finite
    if clipped:
        servo._say(clipped, "position")
    if not servo.torque_enabled:
        servo.torque_on()
    here, target = servo.position, servo.target_position
    return (target if abs(target - here) < _FOLLOWS else here), end


def _is_at(servo: Servo, goal: float) -> bool:
    return abs(servo.position - goal) <= _THERE[servo.type]
