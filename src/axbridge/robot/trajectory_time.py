"""Time along a trajectory; it stops while a servo does not reply, so that the goal does not run ahead of the joint."""

from __future__ import annotations

REPLY_TIMEOUT = 0.5  # s; a lost packet does not end a motion, a joint that may be limp gets no far goal


class TrajectoryTime:
    """Elapsed time of a trajectory, s, and time since its servo's latest reply, s."""

    def __init__(self) -> None:
        self.elapsed = self.unanswered = 0.0

    def advance(self, seconds: float, *, replied: bool) -> None:
        """Add a time to `elapsed` if the servo has replied, else to `unanswered`."""
        if replied:
            self.elapsed, self.unanswered = self.elapsed + seconds, 0.0
        else:
            self.unanswered += seconds

    @property
    def expired(self) -> bool:
        """Return whether replies have been missing for longer than `REPLY_TIMEOUT`, so that the motion must end."""
        return self.unanswered > REPLY_TIMEOUT
