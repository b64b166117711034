"""What a servo reports: its last state, and Webots' sampled sensors on top of it."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable

from axbridge.bus.cycle import RawState
from axbridge.config.rig import ServoConfig
from axbridge.control.sampling import Sampler, rounded, truncated
from axbridge.errors import ControlWarning, ErrorFlag
from axbridge.robot.drives.drive import Drive
from axbridge.robot.state import ServoState, Truth

__all__ = ["Sensing"]

_UNREAD = ServoState(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, ErrorFlag(0))


class Sensing:
    """The readings of a servo.

    Attributes:
        sampled_at: Time of the last sample, s on the robot's clock; NaN before the first.

    Args:
        config: The rig's entry.
        drive: What moves the joint.
        now: The robot's time, s.
        seed: Of the position sensor's noise.
    """

    def __init__(self, config: ServoConfig, drive: Drive, now: Callable[[], float], seed: int) -> None:
        self.config = config
        self._drive = drive
        self._now = now
        self._state = _UNREAD
        self._raw: tuple[RawState, float] | None = None  # of the last sample, as long as it is not in SI units
        self._taken = math.nan  # when `_state` was, on the backend's clock
        self.sampled_at = math.nan
        self._position_sampler = Sampler()
        self._torque_sampler = Sampler()
        self._deviation = config.noise  # rad
        self._noise = random.Random(f"{seed} {config.name}")
        self._dead = False  # its battery is empty

    @property
    def state(self) -> ServoState:
        """The last sample."""
        self._settle()
        return self._state

    @property
    def truth(self) -> Truth:
        """Simulation only: joint and torque as they were at the last sample; NaN on a real robot.

        Ask before the next step: a simulation keeps the last 20 ms. What is older is NaN, too.
        """
        self._settle()
        return self._drive.truth(self._taken)

    @property
    def position(self) -> float:
        """Sampled position, by Webots' rule: NaN until the period passed to `enable_position` is over."""
        return rounded(self._position_sampler.value, self.config.resolution)

    @property
    def webots_position(self) -> float:
        """`position`, rounded to the sensor's resolution as Webots rounds (towards +inf by half a step)."""
        return truncated(self._position_sampler.value, self.config.resolution)

    @property
    def position_sampling_period(self) -> int:
        """ms; 0 = disabled."""
        return self._position_sampler.period

    def enable_position(self, period: int) -> None:
        """Sample `position` every `period` ms; 0 disables; a negative period is refused."""
        self._enable(self._position_sampler, period)

    def disable_position(self) -> None:
        """Stop sampling `position`."""
        self.enable_position(0)

    @property
    def torque_feedback(self) -> float:
        """Sampled torque of the motor; NaN as `position`. A Dynamixel's is estimated from load, speed and supply."""
        return self._torque_sampler.value

    @property
    def torque_feedback_sampling_period(self) -> int:
        """ms; 0 = disabled."""
        return self._torque_sampler.period

    def enable_torque_feedback(self, period: int) -> None:
        """Sample `torque_feedback` every `period` ms; 0 disables; a negative period is refused."""
        if period > 0:
            self._estimating()
        self._enable(self._torque_sampler, period)

    def disable_torque_feedback(self) -> None:
        """Stop sampling `torque_feedback`."""
        self.enable_torque_feedback(0)

    def _enable(self, sampler: Sampler, period: int) -> None:
        if not 0 <= period < math.inf:
            warnings.warn(f"sampling period {period} ms must be positive; it stays {sampler.period}", ControlWarning, 3)
        else:
            sampler.enable(period, self._now())

    def _estimating(self) -> None:
        """Called when torque feedback is asked for: a drive without a torque sensor says so."""

    def _take(self, raw: RawState | None, start: float, now: float) -> None:
        """Take in a sample; `start` is the robot's time 0 on the backend's clock, `now` the robot's time, s."""
        if self._dead:
            return
        if raw is None:
            self._raw, self._state = None, self._drive.state(None, start)
            self.sampled_at = self._state.time
        else:
            self._raw, self.sampled_at = (raw, start), raw.time - start
        noise = self._noise.gauss(0.0, self._deviation) if self._deviation else 0.0
        if self._position_sampler.period and self._position_sampler.is_due(now):
            self._position_sampler.offer(self.state.position + noise, now)
        if self._torque_sampler.period and self._torque_sampler.is_due(now):
            self._torque_sampler.offer(self.state.torque, now)

    def _settle(self) -> None:
        """Work out the last sample in SI units, before the drive changes at the latest: its power is part of it."""
        if self._raw is not None:
            (raw, start), self._raw = self._raw, None
            self._state, self._taken = self._drive.state(raw, start), raw.time
