"""Single-key input, and the dialogue of `calibrate` and `verify` in which the user moves the joints of a limp robot."""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Generic, TypeVar

from axbridge import BusTimeout, Rig, Robot, UsageError
from axbridge.cli.progress import Show
from axbridge.robot.calibration import ENOUGH, TORQUE, VISIBLE, blinking, give_back, limits_of, moved_most, nudge
from axbridge.robot.rig_check import positive_directions
from axbridge.robot.watch import ServoLost, Watch

YES, MOVE, SKIP, AGAIN, BACK, QUIT = "y", "w", "s", "r", "b", "q"
END = "\x04"  # end of standard input
_PAUSE = 0.02  # s; interval between two polls for a key
_BURST = 0.005  # s; the bytes of one key on a terminal come closer together
KEYS = f"keys: {MOVE} moves it a little, {SKIP} leaves a joint out, {BACK} goes back, {QUIT} ends, any other goes on"
_AWAY = 20.0  # s; a servo that is missing for longer ends the procedure

Found = TypeVar("Found")


class Ended(Exception):
    """The user ended the procedure, or standard input has ended."""


def ask(
    key: Callable[[], str],
    what: str,
    keys: str = "",
    meanwhile: Callable[[], object] = lambda: time.sleep(_PAUSE),
    *,
    but: str = "",
) -> str:
    """Print a question and return the pressed key: one of `keys` (empty: any key), except those in `but`.

    Raises:
        Ended: the key to quit was pressed, or standard input has ended.
    """
    discard_earlier(key)
    print(what, flush=True)
    while True:
        struck = key().lower()
        if struck == END:
            raise Ended("no more keys can be read")
        if struck == QUIT:
            raise Ended
        if struck and struck in (keys or struck) and struck not in but:
            return struck
        if not struck:
            meanwhile()


def discard_earlier(key: Callable[[], str]) -> None:
    """Drop the keys pressed so far: they must not answer the next question."""
    while key() not in {"", END}:
        pass


@contextmanager
def pressed() -> Iterator[Callable[[], str]]:
    """Yield a function that returns the next key pressed, or ""; echo is off, and line ends in a pipe are skipped.

    A key of a terminal that sends several bytes, as an arrow, F4 or ü, is returned as its first.
    """
    try:
        number = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # there is no standard input
        yield lambda: END
        return
    terminal = os.isatty(number)

    def key() -> str:
        while select.select([number], [], [], 0)[0]:
            try:
                data = os.read(number, 1)
            except OSError:  # the terminal was closed
                return END
            if not data:
                return END
            if terminal and (data == b"\x1b" or data >= b"\x80"):
                while select.select([number], [], [], _BURST)[0] and os.read(number, 32):
                    pass
            if terminal or data not in b"\r\n":
                return data.decode("latin-1")
        return ""

    if not terminal:
        yield key
        return
    try:
        import termios
        import tty
    except ImportError as failure:  # as on Windows
        problem = f"single keys cannot be read from a terminal here ({failure})"
        raise UsageError(problem, "pipe them in, or do without: see --help") from failure
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield key
    finally:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(number, termios.TCSADRAIN, before)


class ManualProcedure(Generic[Found]):
    """Asks about the joints one by one while the robot steps; `results` has the answer for each servo of the rig."""

    def __init__(self, rig: Rig, robot: Robot, key: Callable[[], str], show: Show) -> None:
        self.robot, self.results = robot, dict[str, Found]()
        self._key, self._show = key, show
        directions = positive_directions(rig)
        self._senses = {servo.name: directions.get(servo.joint) for servo in rig.servos}
        self._watch = Watch(robot)
        self._limits: dict[str, dict[str, int]] = {}  # original limit registers of moved servos

    def each(self, queue: list[str], step: Callable[[str, str], Found | str]) -> dict[str, Found]:
        """Call `step(name, "1 of 2")` for each joint; return the results by name.

        A step returns its result, or the key that left the joint. It may append joints to `queue`.
        """
        place = 0
        while place < len(queue):
            name = queue[place]
            try:
                answer = step(name, f"{place + 1} of {len(queue)}")
            except ServoLost as lost:
                self._await_all(lost)
                print(f"  all answer again: {name} once more; earlier results are kept", flush=True)
                continue
            if answer == BACK:
                place = max(place - 1, 0)
                for left in (name, queue[place]):
                    self.results.pop(left, None)
                continue
            if not isinstance(answer, str):
                self.results[name] = answer
            place += 1
        return self.results

    def turned(
        self, what: str, joint: str, meant: str, refuse: Callable[[str], None] = lambda _: None
    ) -> tuple[str, float, str]:
        """Ask the user to turn a joint; return the servo that moved, its angle, rad, and "".

        If the user presses the key to move, skip or go back, the result is "", 0 and that key.
        """
        sense = self.sense(joint)
        before = self.angles()
        while True:
            with blinking(self.robot, meant) if meant else nullcontext(lambda: None) as blink:
                struck = self.ask(f"  {what} {sense}, by 20° or more, and hold it; press a key", before, follow=blink)
            if struck in {MOVE, SKIP, BACK}:
                return "", 0.0, struck
            now, start = self.angles(), dict(before)
            try:
                if max(abs(now[name] - start[name]) for name in now) >= ENOUGH:
                    before.update(now)  # a second try starts from these angles
                name, angle = moved_most(start, now)
                refuse(name)
            except UsageError as failure:
                print(f"  again: {failure.message}\n  {failure.hint}", flush=True)
                continue
            return name, angle, ""

    def sense(self, joint: str) -> str:
        """Return a joint's positive direction in words."""
        return self._senses.get(joint) or "in the direction that is to be positive"

    def nudge(self, name: str) -> bool:
        """Move a servo a little and print the result; return whether the motion was large enough to be seen."""
        if not name:
            print("  it is not known which servo that is: nothing was moved", flush=True)
            return False
        try:
            self._limits.setdefault(name, limits_of(self.robot, name))
            far = nudge(self.robot, name, self._watch.check)
        except BusTimeout as timeout:
            raise ServoLost(f"servo {name!r}: missing") from timeout
        except UsageError as refused:
            print(f"  not moved: {refused.message}\n  {refused.hint}", flush=True)
            return False
        held = "" if far > VISIBLE else ": something holds it, or its load is too heavy for so little torque"
        moved = f"moved by {math.degrees(far):.0f}° at {TORQUE:.0%} of its torque"
        print(f"  {name} {moved}, and is limp again{held}", flush=True)
        return far > VISIBLE

    def ask(
        self, what: str, before: Mapping[str, float] | None = None, name: str = "",
        follow: Callable[[], None] = lambda: None, keys: str = "",
    ) -> str:  # fmt: skip
        """Return the pressed key; step the robot while waiting, and call `follow` after each step."""

        def go_on() -> None:
            if self.robot.step() == -1:
                raise Ended
            self._watch.check()
            follow()
            if before is not None:
                now = self.angles()
                most = name or max(now, key=lambda joint: abs(now[joint] - before[joint]))
                self._show(f"{most} at {math.degrees(now[most]):.1f}°, {math.degrees(now[most] - before[most]):+.1f}°")

        self._show("waiting for a key")
        struck = ask(self._key, what, keys, go_on, but=MOVE if name else "")
        go_on()  # read the angles again after the key
        return struck

    def angles(self) -> dict[str, float]:
        """Return the position of each servo, rad."""
        return {name: servo.position for name, servo in self.robot.items()}

    def _await_all(self, lost: ServoLost) -> None:
        """Wait until every servo answers, then make all limp: a servo may have been lost while it was moved."""
        print(f"  {lost.message}: waiting until all answer; {QUIT} ends", flush=True)
        self._show("waiting for an answer")
        until = self.robot.time + _AWAY
        while True:
            if self.robot.step() == -1 or self._key().lower() in {QUIT, END}:
                raise Ended
            with suppress(BusTimeout):  # it was there only for a moment
                if not self.robot.last_step.errors:
                    for name in self.robot:
                        give_back(self.robot, name, self._limits.get(name, {}))
                    break
            if self.robot.time > until:
                raise lost
        self._watch = Watch(self.robot)
