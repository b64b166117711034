"""A robot's live page: it observes the robot's steps, so slow or closed browsers do not disturb them.

Each step does the waiting requests, and stores a picture 25 times a second. A thread of the page sends a frame of the
newest picture to the browsers, only twice a second while nothing moves.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import struct
import sys
import threading
import webbrowser
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from inspect import signature
from itertools import chain, count, starmap
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.model import PredictionParams
from axbridge.errors import AxBridgeError, RecordingError, Remedy, RigError, RobotStopped, UsageError, require
from axbridge.file_reading import printable
from axbridge.files import check_new
from axbridge.motion.files import load_move
from axbridge.motion.mirror import signs
from axbridge.motion.moves import Move
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.robot.open import attending
from axbridge.robot.robot import Robot
from axbridge.robot.simulation import hold_up
from axbridge.robot.twin.residuals import REMEDIES
from axbridge.rotations import LinkPose
from axbridge.sim.engine import Contact
from axbridge.state import BusEvent, StepReport, StepTable
from axbridge.view.actions import Actions, PoseFile, Requests, end_of_range, mirrored, unexpected
from axbridge.view.description import described, page
from axbridge.view.web_server import WebServer

_EVERY = 0.04  # s between pictures
_STILL = 0.5  # s between frames where nothing moves
_WORDS = 0.1  # s between texts
_FLICKER, _SMALL = 1.2, 5e-4  # noise of a standing joint: counts; rad or m for an ideal joint
_PAST = 30.0  # s of frames that a new page gets
_UNHURRIED = 0.02  # s that "all off" waits for a step, before it switches the motors off itself
_SIMULATED = 1.0  # s, likewise for simulated motors, which do not move without steps
_CLOSE_DELAY = 2.0  # s without a page until the last one counts as closed; a reload takes less
_RISE = 1.5  # s in which a simulated robot is put on its feet
_OFF = "all motors are off"
_GENTLE = 0.3  # share of the highest speed at first, when only the page moves the servos

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

_LINES = 100  # of events; the oldest one is dropped
_RESTS = 1e-3  # m, or of a quaternion: a base that has moved less counts as at rest
_CONTACTS = 16  # largest number in a frame, the strongest
_NOWHERE = (np.nan,) * 7


@dataclass(frozen=True)
class Picture:
    """The state of a robot that the page shows."""

    time: float  # s on the robot's clock
    states: StepTable
    goals: Mapping[str, float]  # set-points, rad; NaN where a servo is limp or has none
    on: Mapping[str, bool]  # which motors are switched on
    base: LinkPose | None  # None: unknown, or bolted down
    ghost: Mapping[str, float]  # position of each simulated servo of a twin, rad
    lost: Mapping[str, str]  # present faults, by servo; "" is the bus
    causes: tuple[str, ...]  # why servos do not follow their commands or models, in words
    contacts: tuple[Contact, ...] = ()  # contact points and forces of a simulated robot
    seen: float = field(default_factory=monotonic)  # time of the picture, monotonic, s

    @property
    def numbers(self) -> FloatArray:
        """Position and quaternion of the base, seven columns with a number for each servo, and six for each contact."""
        base = _NOWHERE if self.base is None else (*self.base[0], *self.base[1])
        goals, ghost, on = (
            np.array([by_name.get(name, np.nan) for name in self.states], dtype=float)
            for by_name in (self.goals, self.ghost, self.on)
        )
        position, *others = map(self.states.column, ("position", "load", "voltage", "temperature"))
        strongest = sorted(self.contacts, key=lambda contact: -float(np.linalg.norm(contact.force)))[:_CONTACTS]
        touching = [number for contact in strongest for number in (*contact.point, *contact.force)]
        return np.concatenate((base, goals, position, ghost, *others, on, touching))


class LoggedEvent(NamedTuple):
    """An event, with times in s on the robot's clock."""

    text: str
    first: float
    last: float
    times: int


class Events:
    """The log of a robot's events, one line for each text; methods may be called from any thread."""

    def __init__(self) -> None:
        self._lines: dict[str, LoggedEvent] = {}  # by text, the latest at the end
        self._lock = threading.Lock()

    def note(self, time: float, text: str) -> None:
        """Log an event at `time`, s; repeated events are counted in one line."""
        with self._lock:
            line = self._lines.pop(text, LoggedEvent(text, time, time, 0))
            self._lines[text] = line._replace(last=time, times=line.times + 1)
            if len(self._lines) > _LINES:
                del self._lines[next(iter(self._lines))]

    def go_on(self, time: float, text: str) -> None:
        """Extend a logged event to `time`, s."""
        with self._lock:
            if text in self._lines:
                self._lines[text] = self._lines[text]._replace(last=time)

    def latest(self) -> list[LoggedEvent]:
        """Return all lines, the latest first."""
        with self._lock:
            return list(reversed(self._lines.values()))


class LivePage:
    """A robot's live page; a context manager that closes it. Made by `attach`."""

    def __repr__(self) -> str:
        return f"<LivePage of {self.robot!r} at {self.url}>"

    def __init__(self, robot: Robot, port: int | None, host: str) -> None:
        self.robot = robot
        self.message = "", 0, 0.0  # latest message, number of messages so far, and its time (monotonic)
        self.events = Events()
        self.requests = Requests(self.report)
        self.actions = Actions(robot)
        self.owned = False  # whether this page steps the robot, so that it can play moves
        self.recording: Path | None = None
        self.playing: str | None = None
        self.picture: Picture | None = None
        self._move: tuple[str, Move, float] | None = None
        self._stop_move = self._rise = False
        self._log: tuple[RobotRecorder, Recorder] | None = None
        self._outcome = _OFF  # of the latest stop, in words
        self._left_off = False  # whether no motor was switched on since the latest stop
        self._missing: set[str] = set()  # servos without replies, and "" for the bus
        self._late = self._steps = 0  # number of late steps, and of all
        self._counted = 0, monotonic()
        self.rate = self.wanted = 0.0  # steps a second; requested ones if steps are late, else 0
        self._requested = self._delayed = 0.0  # ms since the latest `_poll_line`: requested step time, and delays
        self.line: list[tuple[str, str]] = []  # facts about it, with names
        self._line_due = self._due = 0.0
        self._fresh = threading.Event()
        self._done = threading.Event()
        self._empty_since: float | None = None
        self._had_clients = False
        self._leave: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        self.commands = Commands(self)
        self._frames: deque[bytes] = deque(maxlen=round(_PAST / _EVERY))
        title = f"{robot.name} – axbridge"
        self.server = WebServer(port, host, title, self)
        self.url = self.server.url
        self.server.past = lambda: list(self._frames)
        try:
            self.server.page = page(title, self._description(), live=True)
            self._begin()
        except BaseException:
            self.close()
            raise

    def _description(self) -> dict[str, Any]:
        robot, names = self.robot, list(self.robot)
        kind = robot.origin.get("servos", robot.backend) if robot.backend == "real" else robot.backend
        return {
            **described(robot.rig, names, {name: end_of_range(robot[name]) for name in names}),
            "kind": kind,
            "twin": robot.backend == "twin",
            "rise": self.can_rise,
            "moves": moves(),
            "recording": f"{robot.name}-{datetime.now().astimezone():%Y-%m-%d-%H%M}.mcap",
        }

    def _begin(self) -> None:
        used = [self.robot.rig.specs[servo.name].model for servo in self.robot.rig.dynamixels]
        guessed = sorted({model.name for model in used if model.prediction == PredictionParams()})
        if guessed and self.robot.backend == "twin":
            models = ", ".join(guessed)
            self.report(f"the ghost's servos are of model {models}, which was not fitted to these: identify them")
        self._leave = self.robot.observe(self._step, closed=self.close)
        self._thread = threading.Thread(target=self._draw, name="axbridge page", daemon=True)
        self._thread.start()

    # ---- in the robot's step

    def _step(self, report: StepReport, states: StepTable) -> None:
        """Observe a step. It must be quick; errors are shown on the page, because they would end the user's program."""
        try:
            self._watch(report, states)
        except Exception as error:  # noqa: BLE001 - see above
            self.report(unexpected(error))

    def _watch(self, report: StepReport, states: StepTable) -> None:
        """Do the waiting requests, and take a picture if one is due."""
        self.requests.serve()
        self._steps += 1
        self._late += report.late > 0
        self._requested += report.requested
        self._delayed += report.late
        for event in report.events:
            self._note(event)
        now = monotonic()
        if now < self._due:
            return
        self._due = max(self._due + _EVERY, now)
        if now >= self._line_due:
            self._line_due = now + 1.0
            self._poll_line(now)
        robot, simulation = self.robot, self.robot.simulation
        on = {name: servo.torque_enabled for name, servo in robot.items()}
        self._left_off &= robot.stopped or not any(on.values())
        goals = {name: servo.target_position if on[name] else math.nan for name, servo in robot.items()}
        ghost: dict[str, float] = {}
        if robot.backend == "twin" and simulation is not None:
            with contextlib.suppress(AxBridgeError):  # the simulation has failed, which was reported
                ghost = {name: state.position for name, state in simulation.shadow().items()}
        base = simulation.base if simulation is not None and robot.mode == 0 else None
        touching: tuple[Contact, ...] = ()
        if base is not None and simulation is not None and simulation.engine is not None:
            touching = tuple(simulation.engine.contacts())
        causes = tuple(self._words(cause, name) for name, listed in robot.causes.items() for cause in listed)
        for words in causes:
            self.events.go_on(robot.time, words)
        self.picture = Picture(
            robot.time, states, goals, on, base, ghost, self._troubles(states), causes, touching, now
        )
        self._fresh.set()

    def _note(self, event: BusEvent) -> None:
        why = f": {event.flags.describe()}" if event.flags else ""
        self.events.note(self.robot.time, self._words(event.kind, event.name) + why)
        if event.kind in {"missing", "port lost"}:
            self._missing.add(event.name)
        elif event.kind in {"returned", "port back"}:
            self._missing.discard(event.name)

    def _words(self, kind: str, name: str) -> str:
        remedy = REMEDIES.get(kind, "")
        return f"{name or 'the line'}: {kind}" + (f" ({remedy})" if remedy else "")

    def _troubles(self, states: StepTable) -> dict[str, str]:
        """Return the present faults by servo; a shutdown is listed until the program calls `recover`."""
        words_of = {"": "port lost"} if "" in self._missing else {}
        withheld = self.robot.withheld
        for name, state in states.items():
            words = ["missing"] if name in self._missing else []
            words += [state.errors.describe()] if state.errors else []
            words += ["off until it is recovered"] if name in withheld else []
            words_of |= {name: ", ".join(words)} if words else {}
        return words_of

    def _poll_line(self, now: float) -> None:
        """Update the step rates and the facts about the line."""
        steps, since = self._counted
        self._counted = self._steps, now
        self.rate = (self._steps - steps) / (now - since) if now > since else 0.0
        self.wanted = 1000 * (self._steps - steps) / self._requested if self._requested and self._delayed else 0.0
        self._requested = self._delayed = 0.0
        names = {(servo.bus, servo.id): servo.name for servo in self.robot.rig.servos}
        statistics = self.robot.bus_statistics
        cycle = max((facts["cycle"]["p50"] for facts in statistics.values()), default=0.0)
        line = [("late steps", str(self._late)), ("a bus cycle takes", f"{1000 * cycle:.1f} ms")]
        for bus, facts in statistics.items():
            for id_, counts in ((facts["line"] or {}).get("servos") or {}).items():
                lost, damaged, late = (counts[name] for name in ("timeouts", "corrupt", "late"))
                if (bus, int(id_)) in names and (lost or damaged or late):
                    line.append((names[bus, int(id_)], f"{lost} lost, {damaged} damaged, {late} late"))
        self.line = line  # at once: the page's thread reads it

    # ---- requests of pages; from any thread

    def report(self, text: str) -> None:
        """Show a message on every page."""
        text = text.replace("\n", "; ")
        self.message = text, self.message[1] + 1, monotonic()
        self.events.note(self.robot.time, text)
        self._fresh.set()

    def all_off(self, why: str = _OFF) -> None:
        """Switch every motor off, and keep them off until `release`, also if the program does not step."""
        self.requests.clear()
        self._stop_move = True
        done = threading.Event()

        def stop() -> None:
            if not done.is_set():
                left = ", ".join(self.robot.stop())
                self._outcome, self._left_off = f"{left} did not confirm: cut the servo supply" if left else why, True
                self.events.note(self.robot.time, self.off)
                self._fresh.set()
            done.set()

        self.requests.ask("all off", stop)
        served = done.wait(_UNHURRIED if self.robot.mode else _SIMULATED)
        if not served and self.robot.mode:  # no step was made in time
            stop()

    @property
    def off(self) -> str:
        """Return the message of the latest stop until a motor is on again, then ""."""
        return self._outcome if self.robot.stopped or self._left_off else ""

    @property
    def state(self) -> str:
        """Return in words how many motors are on, and what the page does."""
        on = sum(servo.torque_enabled for servo in self.robot.values())
        words = self.off or (f"{on} of {len(self.robot)} motors are on" if on else "all motors are limp")
        words += f" · plays {self.playing}" if self.playing else ""
        return words + (" · records" if self.recording else "")

    @property
    def stop_url(self) -> str:
        """Return the address of the plain page that stops the robot."""
        before, mark, token = self.url.partition("?")
        return f"{before}stop{mark}{token}"

    def release(self) -> None:
        """Allow motors to be switched on again; they stay off until the next command."""
        self.requests.ask(None, self.robot.resume)  # without a topic: after a waiting stop, not instead of it

    def play(self, name: str, move: Move, pace: float) -> None:
        """Play a move; AxBridgeError if another program steps the robot."""
        if not self.owned:
            raise AxBridgeError("a program of yours moves this robot: it plays the moves", "see axbridge.play")
        self._refuse_stopped()
        self._stop_move = False
        self._move = name, move, pace

    @property
    def can_rise(self) -> bool:
        """Return whether the robot can be held up: it is simulated, and its base is free."""
        simulation = self.robot.simulation
        return self.robot.mode == 0 and simulation is not None and simulation.base_start is not None

    def rise(self) -> None:
        """Put a simulated robot on its feet in the rig's start pose."""
        if not (self.owned and self.can_rise):
            hint = Remedy("view", says="only a simulated one, with {}")
            raise AxBridgeError("this robot cannot be held up from the page", hint)
        self._refuse_stopped()
        self._rise = True

    def _refuse_stopped(self) -> None:
        if self.robot.stopped:
            raise RobotStopped("all motors were switched off: nothing moves", "press Release first")

    def stop_move(self) -> None:
        """End the running move, by its exit page if it has one."""
        self._stop_move = True

    def record(self, path: Path) -> None:
        """Begin a recording; `stop_recording` ends it. If the file exists, the name gets a number."""
        facts = describe(self.robot.rig, experiment="view") | self.robot.origin

        def begin() -> None:  # opens the file only here, because a stop may discard this request
            self._end_recording()
            numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
            free = next(name for name in chain([path], numbered) if not name.exists())
            check_new(free, force=False)
            recorder = Recorder(free, facts)
            self._log = RobotRecorder(self.robot, recorder, failed=self._lose_recording), recorder
            self.recording = free

        self.requests.ask(None, begin)

    def stop_recording(self) -> None:
        """End the recording."""
        self.requests.ask(None, self._end_recording)

    def _end_recording(self) -> None:
        """End the recording; a separate thread compresses the file."""
        log, self._log = self._log, None
        if log is not None:
            log[0].finish()
            threading.Thread(target=self._keep, args=(log[1],)).start()

    def _lose_recording(self, error: RecordingError) -> None:
        """End the recording after a write error; the program that steps the robot continues."""
        self.report(str(error))
        self._end_recording()

    def _keep(self, recorder: Recorder) -> None:
        try:
            recorder.close()
            self.report(f"recorded {recorder.path}")
        except AxBridgeError as error:
            self.report(str(error))
        if self.recording == recorder.path:
            self.recording = None

    # ---- the loop, if no program of the user steps the robot

    def run(self, seconds: float = math.inf) -> None:
        """Step the robot until it is closed, and play the moves that the page asks for."""
        from axbridge.motion.player import play

        self.owned = True
        robot, end = self.robot, self.robot.time + seconds
        self.actions.limit_speed(min(self.actions.share, _GENTLE))
        self._rise = self.can_rise
        while robot.time < end and not self._done.is_set():
            wanted, self._move = self._move, None
            if wanted is None and not self._rise:
                try:
                    if robot.step() == -1:
                        return
                except RigError as error:  # the servos report an impossible pose, and the motors are off
                    self.report(str(error))
                continue
            try:
                if self._rise:
                    self._rise = False
                    self._put_on_feet()
                if wanted is not None:
                    name, move, pace = wanted
                    self.playing = name
                    played = play(robot, move, pace=pace, stop=lambda: self._stop_move, note=self.report)
                    self.report(f"{'stopped' if played.stopped else 'played'} {name}: {played.seconds:.1f} s")
            except RobotStopped:
                pass  # the stop has shown its message
            except AxBridgeError as error:
                self.report(str(error))
            finally:
                self.playing = None
            self.actions.limit_speed(self.actions.share)  # moves have speeds of their own

    def _put_on_feet(self) -> None:
        robot, servos, start = self.robot, self.robot.driven(), self.robot.time
        while (share := (robot.time - start) / _RISE) < 1:
            for servo in servos.values():
                servo.set_position(servo.config.position)
            hold_up(robot.simulation, share)
            if robot.step() == -1:
                return

    # ---- the page's own thread

    def _draw(self) -> None:
        """Publish the newest picture, at most 25 times a second and twice while nothing moves, and new texts."""
        sent = words = 0.0
        latest, kept = "", None
        shown, noise = np.empty(0), _noise(self.robot)
        while not self._done.is_set():
            self._fresh.wait(0.25)
            self._fresh.clear()
            now, picture = monotonic(), self.picture
            self._mind_last_page(watched=self.server.watched > 0, now=now)
            if picture is not None and picture is not kept:
                kept, numbers = picture, picture.numbers
                if now - sent >= _STILL or _differ(numbers, shown, noise):
                    sent, shown, drawn = now, numbers, frame(picture.time, numbers)
                    self._frames.append(drawn)
                    self.server.publish("frame", drawn)
            if now - words >= _WORDS and (message := _texts(self)) != latest:
                words, latest = now, message
                self.server.publish("words", message)

    def _mind_last_page(self, *, watched: bool, now: float) -> None:
        if watched:
            self._had_clients, self._empty_since = True, None
        elif self._had_clients:
            self._empty_since = self._empty_since or now
            if now - self._empty_since > _CLOSE_DELAY:
                self._had_clients, self._empty_since = False, None
                if self.robot.rig.view.on_close == "limp":
                    self.all_off("the last page was closed: all motors are off")

    # ---- end

    def close(self) -> None:
        """Close the page; the robot continues. May be called twice."""
        if self._done.is_set():
            return
        self._done.set()
        self._fresh.set()
        self._leave()
        if self._log is not None:
            log, recorder = self._log
            self._log = None
            with contextlib.suppress(AxBridgeError):
                log.finish()
            self._keep(recorder)
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(timeout=2.0)
        self.server.stop()

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _texts(page: LivePage) -> str:
    """Return all texts of the page as JSON, for `web/page.js`."""
    robot, picture, now = page.robot, page.picture, monotonic()
    level, trouble = _trouble(page, now)
    latest, number, time = page.message
    torques = [servo.goals.torque for servo in robot.values()]
    document: dict[str, Any] = {
        "state": "waiting for the first step" if picture is None else page.state,
        "level": level,
        "trouble": trouble,
        "stopped": robot.stopped,
        "said": {"text": latest if now - time < _MESSAGE_TIME else "", "number": number},
        "speed": page.actions.share,
        "torques": [round(torque, 4) if math.isfinite(torque) else None for torque in torques],
        "poses": [START, *page.commands.poses.poses],
        "recording": None if page.recording is None else str(page.recording),
        "events": page.events.latest(),
        "line": page.line,
        "rate": "" if picture is None else f"{page.rate:.0f} steps/s",
    }
    if picture is not None:
        document |= {"lost": picture.lost, "causes": picture.causes}
    return json.dumps(document, separators=(",", ":"))


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
    late = [f"no step for {stale:.0f} s: commands wait"] if stale > 1.0 else []
    if not late and page.rate < _SLOW * page.wanted:
        late = [f"{page.rate:.0f} of {page.wanted:.0f} steps/s: steps are late"]
    return "bad" if wrong else "warn", "; ".join((*wrong, *picture.causes, *late))


class Commands:
    """The requests that pages may send, in JSON; they are queued, and a later step of the robot does them.

    A request has a name and exactly the values of that request. Any other message is invalid and has no effect.
    """

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


def moves() -> list[str]:
    """Return the files in the working directory that may be moves."""
    names = (path.name for kind in ("json", "mtn", "motion") for path in Path().glob(f"*.{kind}"))
    return sorted(name for name in names if not name.endswith(".poses.json"))


def frame(time: float, numbers: FloatArray) -> bytes:
    """Return a message for `web/page.js`: the time, s, as float64, then `Picture.numbers` as float32."""
    return struct.pack("<d", time) + numbers.astype("<f4").tobytes()


def _noise(robot: Robot) -> FloatArray:
    """Return the largest change of each number of `Picture.numbers`, without contacts, while nothing moves."""
    joints = [
        _FLICKER * servo.dynamixel.profile.units.position if servo.config.drive == "dynamixel" else _SMALL
        for servo in robot.values()
    ]
    exact, free = [0.0] * len(joints), [math.inf] * len(joints)
    return np.concatenate(([_RESTS] * len(_NOWHERE), exact, joints, joints, free, free, free, exact))


def _differ(numbers: FloatArray, before: FloatArray, noise: FloatArray) -> bool:
    now, then = numbers[: len(noise)], before[: len(noise)]
    with np.errstate(invalid="ignore"):  # the goal of a wheel is infinite
        return bool((np.abs(now - then) > noise).any() or (np.isnan(now) != np.isnan(then)).any())


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
    say(f"page: {page.url}")
    say(f"stop: {page.stop_url}")
    if browser:
        webbrowser.open(page.url)
    return page


@contextlib.contextmanager
def watched(*, wanted: bool) -> Iterator[None]:
    """If `wanted`, open a live page for every robot that is opened in this block."""
    if not wanted:
        yield
        return
    require("the page", "websockets")
    with attending(lambda robot, _: robot.view()):
        yield
