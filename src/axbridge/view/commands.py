"""What a page may ask for, in JSON: each a request for the desk, and none touches the robot itself.

A request names what it is and has exactly the values that it takes. Everything else is nonsense, and does nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from axbridge.errors import AxBridgeError, UsageError
from axbridge.file_reading import reading
from axbridge.files import write_whole
from axbridge.motion.files import load_move
from axbridge.motion.mirror import signs
from axbridge.motion.moves import Signs
from axbridge.view.actions import RegisterRow
from axbridge.view.page import LivePage, moves

START = "start pose of the rig"
_DURATIONS = 0.1, 60.0  # s of a way to a pose
_PACES = 0.1, 4.0  # of moves
_KINDS: dict[str, type | tuple[type, ...]] = {
    "servo": str, "servos": list, "on": bool, "to": (int, float), "share": (int, float), "pose": str, "mirror": bool,
    "seconds": (int, float), "name": str, "file": str, "pace": (int, float), "register": str, "counts": str,
    "sure": bool,
}  # fmt: skip


class Commands:
    """Carries out what pages ask for.

    Attributes:
        poses: Those that were saved.
        doubt: Servo and register of the value that somebody must confirm before it is written; None: none.
    """

    def __init__(self, page: LivePage) -> None:
        self._page, self._robot = page, page.robot
        self.poses = PoseFile(Path(f"{page.robot.name}.poses.json"))
        self.doubt: tuple[str, str, int] | None = None
        act, ask = page.actions, page.desk.ask
        self._known: dict[str, tuple[Callable[..., object], tuple[str, ...]]] = {
            "release": (page.release, ()),
            # no later request takes the place of this one: what is to be off goes off
            "torque": (lambda servos, on: ask(None, lambda: act.torque(servos, on=on)), ("servos", "on")),
            "move": (lambda servo, to: ask(f"move {servo}", lambda: act.move(servo, to)), ("servo", "to")),
            "limit_speed": (lambda share: ask("speed limit", lambda: act.limit_speed(share)), ("share",)),
            "limit_torque": (
                lambda servos, share: ask(f"torque limit {servos}", lambda: act.limit_torque(servos, share)),
                ("servos", "share"),
            ),
            "way": (self._way, ("pose", "seconds", "mirror")),
            "save": (self._save, ("name",)),
            "rise": (page.rise, ()),
            "play": (self._play, ("file", "pace")),
            "stop_move": (page.stop_move, ()),
            "recover": (lambda servo: ask("recover", self._robot[servo].recover), ("servo",)),
            "registers": (self._registers, ("servo",)),
            "write": (self._write, ("servo", "register", "counts", "sure")),
            "record": (self._record, ("name",)),
            "record_end": (page.stop_recording, ()),
        }

    def hear(self, text: str) -> None:
        """Do what a message asks for; what is refused is told on the page.

        Raises:
            ValueError: it makes no sense.
        """
        message = json.loads(text)
        if not isinstance(message, dict) or not isinstance(what := message.pop("ask", None), str):
            raise ValueError("no request")  # noqa: TRY004 - what came from outside
        if what not in self._known or set(message) != set(self._known[what][1]):
            raise ValueError(what)
        do, names = self._known[what]
        if not all(_fits(name, message[name]) for name in names):
            raise ValueError(what)
        try:
            do(*(message[name] for name in names))
        except AxBridgeError as error:
            self._page.tell(str(error))

    def _way(self, pose: str, seconds: float, mirror: bool) -> None:
        start = {servo.name: servo.position for servo in self._robot.rig.servos}
        poses = {START: start, **self.poses.poses}
        if pose not in poses:
            raise AxBridgeError(f"there is no pose {pose!r}")
        goal = mirrored(poses[pose], signs(self._robot.rig)) if mirror else poses[pose]
        duration = _within(_DURATIONS, seconds, "goto takes, s")
        self._page.desk.ask("way", lambda: self._page.actions.way(goal, duration))

    def _save(self, name: str) -> None:
        picture = self._page.picture
        if picture is None:
            raise AxBridgeError("no step was made yet: there is no pose")
        self.poses.save(name, {servo: state.position for servo, state in picture.states.items()})
        self._page.tell(f"saved {name.strip()} in {self.poses.path}")

    def _play(self, file: str, pace: float) -> None:
        pace = _within(_PACES, pace, "pace")
        if file not in moves():
            raise UsageError(f"there is no move {file!r} in the folder where this page was started")
        move, notes = load_move(file, self._robot.rig)
        for note in notes:
            self._page.tell(note)
        self._page.play(file, move, pace)

    def _registers(self, servo: str) -> None:
        known = self._robot[servo]  # an error names those that there are
        self._page.desk.ask(
            "registers", lambda: self._page.actions.registers(known.name, lambda rows: self._show(servo, rows))
        )

    def _show(self, servo: str, rows: Sequence[RegisterRow]) -> None:
        self._page.server.publish("registers", json.dumps({"registers": True, "servo": servo, "rows": rows}))

    def _write(self, servo: str, register: str, counts: str, sure: bool) -> None:
        if not re.fullmatch(r"-?[0-9]{1,6}", counts):
            raise AxBridgeError(f"{counts!r} is no whole number: nothing is written", "give counts, not units")
        asked = servo, register, int(counts)
        doubt = self._page.actions.doubt(*asked)
        confirmed, self.doubt = sure and self.doubt == asked, asked if doubt else None
        if doubt and not confirmed:
            raise AxBridgeError(doubt, "nothing is written yet: press the second button if you mean it")
        self.doubt = None

        def write() -> Any:
            self._page.tell(self._page.actions.write(*asked))
            return self._page.actions.registers(servo, lambda rows: self._show(servo, rows))

        self._page.desk.ask("registers", write)

    def _record(self, name: str) -> None:
        file = Path(name.strip()).name  # in the folder where one started, and nowhere else
        if not file:
            raise AxBridgeError("a recording needs a name", "type one in the field beside the button")
        self._page.record(Path(file))


def _fits(name: str, value: object) -> bool:
    kind = _KINDS[name]
    if kind is list:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _within(ends: tuple[float, float], value: float, what: str) -> float:
    """The value of a field."""
    low, high = ends
    if not low <= value <= high:
        raise UsageError(f"{what}: {value:g} is not within {low:g} .. {high:g}")
    return value


class PoseFile:
    """Poses by name, in a file beside the user's other work: ``{"name": {"servo": rad}}``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.poses: dict[str, dict[str, float]] = {}
        if not path.is_file():
            return
        with reading(lambda what, hint: UsageError(f"{path}: {what}", hint), "move it away, or correct it"):
            found = json.loads(path.read_text(encoding="utf-8"))
            for name, pose in dict(found).items():
                self.poses[str(name)] = {str(servo): float(angle) for servo, angle in dict(pose).items()}

    def save(self, name: str, pose: Mapping[str, float]) -> None:
        """Keep a pose, rad by servo, and write the file."""
        if not name.strip():
            raise UsageError("a pose needs a name", "type one in the field above")
        kept = {servo: round(angle, 5) for servo, angle in pose.items() if math.isfinite(angle)}
        poses = {**self.poses, name.strip(): kept}
        try:
            write_whole(self.path, json.dumps(poses, indent=1) + "\n")
        except OSError as failure:
            problem = f"{self.path} cannot be written: {failure.strerror}"
            raise UsageError(problem, "start in another folder") from failure
        self.poses = poses


def mirrored(pose: Mapping[str, float], signs: Signs) -> dict[str, float]:
    """The pose as in a mirror: left is right; servos without a partner in `signs` are left out."""
    found = {signs[servo][0]: signs[servo][1] * angle for servo, angle in pose.items() if servo in signs}
    if not found:
        raise AxBridgeError("no servo of this pose has a mirror image")
    return found
