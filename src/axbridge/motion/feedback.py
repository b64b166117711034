"""A little feedback for a walk, by what an IMU feels: the hips take back some of the torso's lean and wrong heading.

Both legs get the same against a lean, so that the feet keep their places to each other. The rate counts, too: what
leans and goes on leaning is met early, because servos take a while to follow. Against a wrong heading each foot is set
down a little turned, and the torso follows.
"""

from __future__ import annotations

import math

from axbridge.motion.footsteps import Foothold
from axbridge.motion.gait import Walk
from axbridge.robot.sensors.sensor import ImuSample

_AHEAD = 0.1  # s for which a rate is taken to go on
_MOST = 0.15  # rad: more is no lean of a walk but a fall
_MOST_TURNED = 0.1  # rad that a foot is turned to the other one, at most
_AIM = 0.3  # m ahead, where the robot heads for on its planned line


def against(lean: ImuSample, share: float) -> dict[str, float]:
    """What to add to the hips' goals, rad, by joint."""
    (roll, pitch, _), (rolling, pitching, _) = lean.roll_pitch_yaw, lean.rates
    ahead = -_bounded(share * (pitch + _AHEAD * pitching))
    across = _bounded(share * (roll + _AHEAD * rolling))
    return {
        f"{side}_{joint}": turn
        for side in ("left", "right")
        for joint, turn in (("hip_swing", ahead), ("hip_lateral", across))
    }


def _bounded(angle: float) -> float:
    return max(-_MOST, min(_MOST, angle))


class Steering:
    """Keeps a walk on its line: turns each step by a share of how far the robot heads elsewhere.

    How far it is off the line follows from its heading and the planned steps; a foot that slips aside is not felt.

    Args:
        walk: The plan, with the share.
    """

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._ahead: float | None = None  # what the IMU calls straight ahead, rad
        self._before = walk.middle(0.0)
        self._off = (0.0, 0.0)  # the planned place, m
        self._number = -1  # of the step under way
        self._from = self._to = 0.0  # turn of the left foot beyond the right one's, rad, before and after this step

    def turns(self, time: float, yaw: float) -> dict[str, float]:
        """What to add to the goals of the hips' twist, rad, by joint."""
        planned = self._walk.middle(time)
        if self._ahead is None:
            self._ahead = yaw - planned.turn
        error = math.remainder(yaw - self._ahead - planned.turn, math.tau)
        self._drift(planned, error)
        number, share = self._walk.step_at(time)
        if number != self._number and share > 0:
            self._number, self._from = number, self._to
            left = self._walk.steps[number].side == "left"
            self._to = (-1 if left else 1) * self._turn(planned, error)
        eased = (1 - math.cos(math.pi * share)) / 2 if number == self._number else 1.0
        apart = self._from + (self._to - self._from) * eased
        return {"left_hip_twist": apart / 2, "right_hip_twist": -apart / 2}

    def _drift(self, planned: Foothold, error: float) -> None:
        x, y = planned.x - self._before.x, planned.y - self._before.y
        c, s = math.cos(error) - 1, math.sin(error)
        self._off = self._off[0] + c * x - s * y, self._off[1] + s * x + c * y
        self._before = planned

    def _turn(self, planned: Foothold, error: float) -> float:
        """Of the next step to the right, rad."""
        gait = self._walk.gait
        if gait.step_length:
            aside = math.cos(planned.turn) * self._off[1] - math.sin(planned.turn) * self._off[0]
            error += math.copysign(1.0, gait.step_length) * math.atan(aside / _AIM)
        return max(-_MOST_TURNED, min(_MOST_TURNED, gait.feedback * error))
