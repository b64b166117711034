"""Time along a trajectory: it stops while a servo does not reply, so that the goal waits for the joint."""

from __future__ import annotations

REPLY_TIMEOUT = 0.5  # s: a lost packet must not end a motion, and a joint that may be limp must not get far goals


class TrajectoryTime:
    """How far a trajectory is, s, and for how long its servo has not replied."""

    def __init__(self) -> None:
        self.elapsed = self.unanswered = 0.0

    def advance(self, seconds: float, *, replied: bool) -> None:
        """Let this time pass; `elapsed` grows with a reply, `unanswered` without one."""
        if replied:
            self.elapsed, self.unanswered = self.elapsed + seconds, 0.0
        else:
            self.unanswered += seconds

    @property
    def expired(self) -> bool:
        """Whether the reply has been missing for so long that the motion must end."""
        return self.unanswered > REPLY_TIMEOUT
