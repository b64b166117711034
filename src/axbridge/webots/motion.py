"""Webots' Motion class: plays a .motion file on the robot's motors, inside `step`."""

from __future__ import annotations

from axbridge.errors import RecordingError
from axbridge.motion.keyframes import KeyframeMotion, MotionPlayer
from axbridge.webots.catalogue import servo_name
from axbridge.webots.session import current, say, spoken


class Motion:
    """A motion file; an unreadable one is said and leaves `isValid()` False."""

    def __init__(self, filename: str) -> None:
        session = current()
        self._player: MotionPlayer | None = None
        self._servos: dict[str, str] = {}
        try:
            keyframes = KeyframeMotion.load(filename)
        except RecordingError as mistake:
            say(f"Error: Motion: {mistake}")
            return
        self._player = MotionPlayer(keyframes)
        for motor in keyframes.motors:
            servo = servo_name(session, motor)
            if servo is None:
                say(f'Warning: {filename}: motor "{motor}" not found on this robot.')
            else:
                self._servos[motor] = servo
        session.ticks.append(self._tick)

    def _tick(self, period: float) -> None:
        if self._player is None:
            return
        robot = current().robot
        for motor, position in self._player.advance(period).items():
            if motor in self._servos:
                with spoken(motor):
                    robot[self._servos[motor]].set_position(position, clip=True)

    def isValid(self) -> bool:
        return self._player is not None

    def play(self) -> None:
        """Start, or go on where `stop` left it."""
        if self._player:
            self._player.play()

    def stop(self) -> None:
        """Stop where it is; `play` goes on from there."""
        if self._player:
            self._player.stop()

    def setLoop(self, loop: bool) -> None:
        if self._player:
            self._player.loop = bool(loop)

    def setReverse(self, reverse: bool) -> None:
        """Play from the end to the beginning, or forwards again."""
        if self._player:
            self._player.reverse = bool(reverse)

    def isOver(self) -> bool:
        return self._player is None or self._player.over

    def getDuration(self) -> int:
        return round(self._player.motion.duration) if self._player else 0

    def getTime(self) -> int:
        return round(self._player.time) if self._player else 0

    def setTime(self, time: int) -> None:
        if self._player:
            self._player.set_time(time)

    loop = property(None, setLoop)
    reverse = property(None, setReverse)
    time = property(getTime, setTime)
    duration = property(getDuration)
    is_over = property(isOver)
    is_valid = property(isValid)
