"""Webots' Motion class: plays a .motion file on the robot's motors, inside `step`."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from axbridge.errors import RecordingError
from axbridge.motion.files import load_motion
from axbridge.motion.moves import JointPath, tracks
from axbridge.webots.catalogue import find
from axbridge.webots.devices import newer_names
from axbridge.webots.session import current, reported, say


@newer_names("time duration")
class Motion:
    """A motion file; an unreadable one gives a message, and `isValid()` returns False."""

    def __init__(self, filename: str) -> None:
        self._paths: dict[str, JointPath] = {}  # by motor; empty for an unreadable file
        self._duration = self._time = 0.0  # ms
        self._loop = self._reverse = self._playing = False
        try:
            page = load_motion(filename).pages["1"]
        except RecordingError as mistake:
            say(f"Error: Motion: {mistake}")
            return
        self._paths = tracks(page)
        rows = [*((key.time, key.positions) for key in page.keys), (page.keys[-1].pause, {})]
        self._named = [positions for _, positions in rows]
        self._times = [round(1000 * time) for time in accumulate(time for time, _ in rows)]  # ms
        self._duration = float(self._times[-1])
        self._servos: dict[str, str] = {}
        for motor in page.joints:
            if named := find(current(), motor):
                self._servos[motor] = named[1]
            else:
                say(f'Warning: {filename}: motor "{motor}" not found on this robot.')
        current().ticks.append(self._tick)

    def _tick(self, period: float) -> None:
        """Command the motors for a step of `period` ms that begins now, and advance the time."""
        if not self._playing:
            return
        robot = current().robot
        row = bisect_left(self._times, self._time)  # first key at or after the present time
        before = row if row == 0 or self._time == self._duration else row - 1
        for motor, servo in self._servos.items():
            if motor in self._named[row] and motor in self._named[before]:  # Webots moves it only between two keys
                with reported(motor):
                    robot[servo].set_position(self._paths[motor].at(self._time / 1000), clip=True)
        if self._at_end and self._loop:
            self.play()
        elif self._at_end:
            self.stop()
        else:
            self.setTime(self._time + (-period if self._reverse else period))

    @property
    def _at_end(self) -> bool:
        return self._time == (0.0 if self._reverse else self._duration)

    def isValid(self) -> bool:
        return bool(self._paths)

    def play(self) -> None:
        """Start, or continue after `stop`; a motion at its end starts again."""
        if self._at_end:
            self._time = self._duration - self._time  # the other end
        self._playing = bool(self._paths)

    def stop(self) -> None:
        self._playing = False

    def setLoop(self, loop: bool) -> None:
        self._loop = bool(loop)

    def setReverse(self, reverse: bool) -> None:
        self._reverse = bool(reverse)

    def isOver(self) -> bool:
        """Return whether the last pose has been sent; always False in a loop."""
        return self._at_end and not self._playing and not self._loop

    def getDuration(self) -> int:
        return round(self._duration)

    def getTime(self) -> int:
        return round(self._time)

    def setTime(self, time: float) -> None:
        self._time = min(max(float(time), 0.0), self._duration)

    loop = property(None, setLoop)
    reverse = property(None, setReverse)
    is_over = property(isOver)
    is_valid = property(isValid)
