"""The connection of a robot to its page: the page's texts, and the requests from it, in JSON.

A request has a name and exactly the values of that request. Any other message is invalid and has no effect.
"""

from __future__ import annotations

import json
import math
import re
import sys
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from itertools import starmap
from pathlib import Path
from time import monotonic
from typing import Any

from axbridge.errors import AxBridgeError, UsageError, require
from axbridge.file_reading import printable, reading
from axbridge.files import write_whole
from axbridge.motion.files import load_move
from axbridge.motion.mirror import signs
from axbridge.motion.moves import Signs
from axbridge.robot.open import attending
from axbridge.robot.robot import Robot
from axbridge.view.page import LivePage, moves

_SLOW = 0.9  # of the requested step rate: below it the page warns
_NAMED = 4  # servos listed by name; the table marks further ones
_MESSAGE_TIME = 10.0  # s that a message is shown
START = "start pose of the rig"
_DURATIONS = 0.1, 60.0  # s of a motion to a pose
_PACES = 0.1, 4.0  # of moves
_LARGEST = 1e6  # of a number in a request: every unit of the page stays below
_LONGEST = 100  # characters of a text in a request
_NO_FILE_NAME = re.compile(r'[\\/:*?"<>|]|^\.')  # characters that some system refuses, and hidden files
_KINDS: dict[str, type | tuple[type, ...]] = {
    "servo": str, "servos": list, "on": bool, "to": (int, float), "share": (int, float), "pose": str, "mirror": bool,
    "seconds": (int, float), "name": str, "file": str, "pace": (int, float),
}  # fmt: skip


def attach(
    robot: Robot,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    browser: bool = True,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
) -> LivePage:
    """Show a robot live in a browser while its program steps it; see `Robot.view`. `say` prints the addresses."""
    page = LivePage(robot, port, host)
    try:
        commands = Commands(page)
        page.begin(commands.receive, lambda: _news(page, commands))
    except BaseException:
        page.close()
        raise
    say(f"page: {page.url}")
    say(f"stop: {page.stop_url}")
    if browser:
        webbrowser.open(page.url)
    return page


@contextmanager
def watched(*, wanted: bool) -> Iterator[None]:
    """If `wanted`, open a live page for every robot that is opened in this block."""
    if not wanted:
        yield
        return
    require("the page", "websockets")
    with attending(lambda robot, _: robot.view()):
        yield


def _news(page: LivePage, commands: Commands) -> str:
    """Return all texts of the page as JSON, for `web/page.js`."""
    robot, picture, now = page.robot, page.picture, monotonic()
    level, trouble = _trouble(page, now)
    latest, number, time = page.message
    document: dict[str, Any] = {
        "state": _state(page),
        "level": level,
        "trouble": trouble,
        "stopped": robot.stopped,
        "said": {"text": latest if now - time < _MESSAGE_TIME else "", "number": number},
        "speed": page.actions.share,
        "torques": [_number(servo.goals.torque) for servo in robot.values()],
        "poses": [START, *commands.poses.poses],
        "recording": None if page.recording is None else str(page.recording),
        "events": page.events.latest(),
    }
    if picture is not None:
        rows = [["late steps", str(page.late)], ["a bus cycle takes", f"{page.cycle:.1f} ms"]]
        rows += [
            [name, f"{lost} lost, {damaged} damaged, {late} late"]
            for name, (lost, damaged, late) in page.packets.items()
            if lost or damaged or late
        ]
        document |= {"lost": picture.lost, "causes": picture.causes, "line": rows}
    document["rate"] = "" if picture is None else f"{page.rate:.0f} steps/s"
    return json.dumps(document, separators=(",", ":"))


def _state(page: LivePage) -> str:
    robot, picture = page.robot, page.picture
    if picture is None:
        return "waiting for the first step"
    driven = sum(picture.on.values())
    words = page.off or ("all motors are limp" if not driven else f"{driven} of {len(robot)} motors are on")
    words += f" · plays {page.playing}" if page.playing else ""
    return words + (" · records" if page.recording else "")


def _trouble(page: LivePage, now: float) -> tuple[str, str]:
    """Return the severity, `bad` or `warn`, and the present faults in words; empty without a fault."""
    picture = page.picture
    wrong = [page.off] if page.robot.stopped else []
    if picture is None:
        return "bad", "; ".join(wrong)
    if "" in picture.lost:
        wrong.append("port lost: looking for it")
    else:
        alike: dict[str, list[str]] = {}
        for name, why in picture.lost.items():
            alike.setdefault(why, []).append(name)
        for why, names in alike.items():
            wrong.append(f"{', '.join(names) if len(names) <= _NAMED else f'{len(names)} servos'} {why}")
    stale = now - picture.seen
    late = [f"no step for {stale:.0f} s: what you ask for waits"] if stale > 1.0 else []
    if not late and page.rate < _SLOW * page.wanted:
        late = [f"{page.rate:.0f} of {page.wanted:.0f} steps/s: steps are late"]
    return "bad" if wrong else "warn", "; ".join((*wrong, *picture.causes, *late))


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


class Commands:
    """The requests that pages may send; they are queued, and a later step of the robot does them."""

    def __init__(self, page: LivePage) -> None:
        self._page, self._robot = page, page.robot
        self.poses = PoseFile(Path(f"{page.robot.name}.poses.json"))
        act, ask = page.actions, page.requests.ask
        self._known: dict[str, Callable[..., object]] = {  # parameter names are the keys of a request
            "release": page.release,
            # without a topic, so that no later request replaces torque off
            "torque": lambda servos, on: ask(None, lambda: act.torque(servos, on=on)),
            "move": lambda servo, to: ask(f"move {servo}", lambda: act.move(servo, to)),
            "limit_speed": lambda share: ask("speed limit", lambda: act.limit_speed(share)),
            "limit_torque": lambda servos, share: ask(f"torque {servos}", lambda: act.limit_torque(servos, share)),
            "way": self._move_to,
            "save": self._save,
            "rise": page.rise,
            "play": self._play,
            "stop_move": page.stop_move,
            "recover": lambda servo: ask(f"recover {servo}", self._robot[servo].recover),
            "record": self._record,
            "record_end": page.stop_recording,
        }

    def receive(self, text: str) -> None:
        """Handle a message; the page shows refusals. ValueError: the message is invalid."""
        message = json.loads(text)
        if not isinstance(message, dict) or not isinstance(what := message.pop("ask", None), str):
            raise ValueError("no request")  # noqa: TRY004 - invalid input
        do = self._known.get(what)
        if do is None or set(message) != set(signature(do).parameters) or not all(starmap(_fits, message.items())):
            raise ValueError(what)
        try:
            do(**message)
        except AxBridgeError as error:
            self._page.report(str(error))

    def _move_to(self, pose: str, seconds: float, mirror: bool) -> None:
        start = {servo.name: servo.position for servo in self._robot.rig.servos}
        poses = {START: start, **self.poses.poses}
        if pose not in poses:
            raise AxBridgeError(f"there is no pose {pose!r}")
        goal = mirrored(poses[pose], signs(self._robot.rig)) if mirror else poses[pose]
        duration = _within(_DURATIONS, seconds, "goto takes, s")
        self._page.requests.ask("way", lambda: self._page.actions.move_to(goal, duration))

    def _save(self, name: str) -> None:
        picture = self._page.picture
        if picture is None:
            raise AxBridgeError("no step was made yet: there is no pose")
        self.poses.save(name, {servo: state.position for servo, state in picture.states.items()})
        self._page.report(f"saved {name.strip()} in {self.poses.path}")

    def _play(self, file: str, pace: float) -> None:
        pace = _within(_PACES, pace, "pace")
        if file not in moves():
            raise UsageError(f"there is no move {file!r} in the folder where this page was started")
        move, notes = load_move(file, self._robot.rig)
        for note in notes:
            self._page.report(note)
        self._page.play(file, move, pace)

    def _record(self, name: str) -> None:
        file = Path(name.strip()).name  # only in the working directory
        if not file:
            raise AxBridgeError("a recording needs a name", "type one in the field beside the button")
        if _NO_FILE_NAME.search(file):
            raise AxBridgeError(f"{file!r} is no name of a file", "use letters, digits, - and _, as in walk-2.mcap")
        self._page.record(Path(file))


def _fits(name: str, value: object) -> bool:
    kind = _KINDS[name]
    if kind is list:
        return isinstance(value, list) and all(_fits("name", item) for item in value)
    if isinstance(value, str):
        return kind is str and len(value) <= _LONGEST and printable(value) == value
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float)) and kind == (int, float) and abs(value) <= _LARGEST  # refuses NaN, too


def _within(ends: tuple[float, float], value: float, what: str) -> float:
    low, high = ends
    if not low <= value <= high:
        raise UsageError(f"{what}: {value:g} is not within {low:g} .. {high:g}")
    return value


class PoseFile:
    """Poses by name, in a file in the working directory: ``{"name": {"servo": rad}}``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.poses: dict[str, dict[str, float]] = {}
        if not path.is_file():
            return
        with reading(lambda what, hint: UsageError(f"{path}: {what}", hint), "move it away, or correct it"):
            poses = json.loads(path.read_text(encoding="utf-8"))
            for name, pose in dict(poses).items():
                self.poses[str(name)] = {str(servo): float(angle) for servo, angle in dict(pose).items()}

    def save(self, name: str, pose: Mapping[str, float]) -> None:
        """Add a pose, rad by servo, and write the file."""
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
    """Return the mirror image of a pose, left and right exchanged, without servos that have no partner in `signs`."""
    angles = {signs[servo][0]: signs[servo][1] * angle for servo, angle in pose.items() if servo in signs}
    if not angles:
        raise AxBridgeError("no servo of this pose has a mirror image")
    return angles
