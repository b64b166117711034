"""Where a hand has the base of a robot that cannot stand yet."""

from __future__ import annotations

from axbridge.physics.engine import LinkPose

__all__ = ["lifted", "raised"]

_ABOVE = 0.02  # m that the robot is held above the floor at first
_DOWN, _LETS_GO = 1.5, 2.0  # s after the first motor is on: it is put down; it is let go


def raised(start: LinkPose, share: float) -> LinkPose:
    """The base of a robot that is put on its feet: 2 cm above `start` at share 0, there at share 1."""
    (x, y, z), upright = start
    return (x, y, z + _ABOVE * (1 - share)), upright


def lifted(start: LinkPose, since: float) -> LinkPose | None:
    """The base that starts there, so long (s) after the first motor is on; None: the hand has let go."""
    return None if since >= _LETS_GO else raised(start, min(1.0, since / _DOWN))
