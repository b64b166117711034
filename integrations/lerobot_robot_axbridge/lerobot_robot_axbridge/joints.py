"""The joints of an opened rig, as LeRobot sees them: ``NAME.pos``, in degrees."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import axbridge

__all__ = ["Joints"]

_SILENCE = 0.5  # s: a servo that does not answer so long is gone


class Joints:
    """A robot of axbridge behind LeRobot's words. It is closed, its motors off, when anything goes wrong.

    Args:
        rig: Name or file.
        backend: As of `axbridge.open`.
        port: Serial device in place of the rig's.

    Raises:
        axbridge.errors.AxBridgeError: the rig is wrong.
    """

    def __init__(self, rig: str, backend: str | None, port: str | None) -> None:
        self._rig = axbridge.Rig.load(rig)
        self._backend, self._port = backend, port
        self._robot: axbridge.Robot | None = None
        self._silent_since: dict[str, float] = {}
        self.features = {f"{servo.name}.pos": float for servo in self._rig.servos}

    @property
    def connected(self) -> bool:
        """Whether it is open."""
        return self._robot is not None and not self._robot.closed

    def connect(self) -> None:
        """Open it; no motor is switched on. A simulation keeps to the wall clock from now on.

        Raises:
            axbridge.errors.AxBridgeError: a servo does not answer, or the port cannot be opened.
        """
        self._robot = axbridge.open(self._rig, backend=self._backend, port=self._port, realtime=True)
        self._silent_since.clear()

    def read(self) -> dict[str, float]:
        """Where the joints are now, degrees.

        Raises:
            ConnectionError: a servo has not answered for half a second. Every motor is off then.
        """
        robot = self._opened()
        try:
            states = robot.exchange()
            self._look_for_silence(robot)
        except BaseException:
            self.close()
            raise
        return {f"{name}.pos": math.degrees(state.position) for name, state in states.items()}

    def send(self, goals: Mapping[str, float], most: float | None = None) -> dict[str, float]:
        """Send goals, degrees, at once; a motor that is off is switched on without a jump.

        Args:
            goals: By joint; the others keep theirs.
            most: How far a goal may be from where its joint is, degrees; None: any way.

        Returns:
            What was sent: within the joints' limits, and within `most`.

        Raises:
            ValueError: there is no such joint, or a goal is no number. Nothing is sent then.
            ConnectionError: a servo has not answered for half a second. Every motor is off then.
        """
        robot = self._opened()
        unknown = sorted(set(goals) - set(self.features))
        if unknown:
            raise ValueError(f"no joint {', '.join(unknown)}; the joints are {', '.join(self.features)}")
        if not all(math.isfinite(goal) for goal in goals.values()):
            raise ValueError(f"goals must be finite numbers, degrees: {dict(goals)}")
        sent = {}
        now = self.read() if most is not None else {}
        try:
            for key, goal in goals.items():
                servo = robot[key.removesuffix(".pos")]
                near = goal if most is None else min(max(goal, now[key] - most), now[key] + most)
                wanted = min(max(math.radians(near), servo.min_position), servo.max_position)
                servo.set_position(wanted, clip=True)
                sent[key] = math.degrees(wanted)
            robot.exchange()
            self._look_for_silence(robot)
        except BaseException:
            self.close()
            raise
        return sent

    def close(self) -> None:
        """Switch every motor off, as the rig's ``on_exit`` says, and let the port go. May be called twice."""
        robot, self._robot = self._robot, None
        if robot is not None:
            robot.close()

    def _opened(self) -> axbridge.Robot:
        if self._robot is None or self._robot.closed:
            raise ConnectionError(f"{self._rig.name} is not connected")
        return self._robot

    def _look_for_silence(self, robot: axbridge.Robot) -> None:
        now, missing = time.monotonic(), robot.last_step.errors
        self._silent_since = {name: self._silent_since.get(name, now) for name in missing}
        gone = [name for name, since in self._silent_since.items() if now - since > _SILENCE]
        if gone:
            raise ConnectionError(f"no answer from {', '.join(gone)}: {missing[gone[0]]}")
