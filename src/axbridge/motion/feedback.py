"""A little feedback for a walk: the torso's lean, as an IMU feels it, given to the hips against it.

Both legs get the same, so that the feet keep their places to each other. The rate counts, too: what leans and goes on
leaning is met early, because servos take a while to follow.
"""

from __future__ import annotations

from axbridge.robot.sensors.sensor import ImuSample

__all__ = ["against"]

_AHEAD = 0.1  # s for which a rate is taken to go on
_MOST = 0.15  # rad: more is no lean of a walk but a fall


def against(lean: ImuSample, share: float) -> dict[str, float]:
    """What to add to the hips' goals, rad, by joint.

    Args:
        lean: Of an IMU whose axes are the torso's.
        share: Of the lean that the hips take.
    """
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
