"""Webots' Motion class: plays a .motion file on the robot's motors, inside `step`."""

from __future__ import annotations

from axbridge.errors import RecordingError
from axbridge.motion.files import load_motion
from axbridge.motion.moves import JointPath, tracks
from axbridge.webots.catalogue import find
from axbridge.webots.devices import newer_names
from axbridge.webots.session import current, say, spoken


@newer_names("time duration")
class Motion:
    """A motion file; an unreadable one is said and leaves `isValid()` False."""

    def __init__(self, filename: str) -> None:
        self._ways: dict[str, JointPath] = {}  # by motor; none of a file that was not read
        self._duration = self._time = 0.0  # ms
        self._loop = self._reverse = self._playing = self._begun = False
        self._over = True
        try:
            page = load_motion(filename).pages["1"]
        except RecordingError as mistake:
            say(f"Error: Motion: {mistake}")
            return
        self._ways, self._duration, self._over = tracks(page), float(round(page.duration * 1000)), False
        self._servos: dict[str, str] = {}
        for motor in page.joints:
            if found := find(current(), motor):
                self._servos[motor] = found[1]
            else:
                say(f'Warning: {filename}: motor "{motor}" not found on this robot.')
        current().ticks.append(self._tick)

    def _tick(self, period: float) -> None:
        """Command a step of `period` ms that begins now, and go on."""
        if not self._playing:
            return
        robot = current().robot
        for motor, servo in self._servos.items():
            way, time = self._ways[motor], self._time / 1000
            named = time < way.times[-1] + 1e-9 if self._reverse else time > way.times[0] - 1e-9  # by a row so far
            if named:
                with spoken(motor):
                    robot[servo].set_position(way.at(time), clip=True)
        if self._time == (0.0 if self._reverse else self._duration) and not self._loop:
            self._playing, self._over = False, True
            return
        self._time += -period if self._reverse else period
        if self._loop and self._duration > 0:
            self._time %= self._duration
        else:
            self._time = min(max(self._time, 0.0), self._duration)

    def isValid(self) -> bool:
        return bool(self._ways)

    def play(self) -> None:
        """Start, or go on where `stop` left it; a motion that is over starts again."""
        if not self._ways:
            return
        if self._over or (self._reverse and not self._begun and self._time == 0):
            self._time = self._duration if self._reverse else 0.0
        self._begun, self._over, self._playing = True, False, True

    def stop(self) -> None:
        self._playing = False

    def setLoop(self, loop: bool) -> None:
        self._loop = bool(loop)

    def setReverse(self, reverse: bool) -> None:
        self._reverse = bool(reverse)

    def isOver(self) -> bool:
        return self._over

    def getDuration(self) -> int:
        return round(self._duration)

    def getTime(self) -> int:
        return round(self._time)

    def setTime(self, time: int) -> None:
        if self._ways:
            self._time, self._over = min(max(float(time), 0.0), self._duration), False

    loop = property(None, setLoop)
    reverse = property(None, setReverse)
    is_over = property(isOver)
    is_valid = property(isValid)
