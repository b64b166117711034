"""The queue of requests from pages, which the robot's step serves, and the actions on a robot.

Every action uses the servo's set-points, so the rig's limits apply.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from axbridge import minimum_jerk
from axbridge.errors import AxBridgeError, BusError, ControlWarning, UsageError
from axbridge.file_reading import printable, reading
from axbridge.files import write_whole
from axbridge.motion.moves import Signs
from axbridge.robot.robot import Robot, path_start
from axbridge.robot.servo import Servo
from axbridge.robot.trajectory_time import TrajectoryTime

_log = logging.getLogger(__name__)
Job = Iterator[None]  # a request that takes several steps, one `yield` a step
Request = Callable[[], "Job | None"]

_END: Job = iter(())  # marks a finished job


def unexpected(error: Exception) -> str:
    """Return an unexpected error in words; its traceback goes to the log."""
    _log.error("a request of the page failed", exc_info=error)
    return f"the page failed ({type(error).__name__}: {printable(error)}); the robot goes on"


class Requests:
    """A queue of requests; a newer request on a topic replaces the older. `report` gets errors in words."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str | None, Request]] = deque()
        self._jobs: dict[str | None, Job] = {}
        self.cleared_at = 0.0  # time of the latest `clear`, monotonic, s

    def ask(self, topic: str | None, request: Request) -> None:
        """Queue a request for the next step; from any thread. Without a topic no other request replaces it."""
        with self._lock:
            if topic is not None:
                self._waiting = deque(entry for entry in self._waiting if entry[0] != topic)
            self._waiting.append((topic, request))

    def clear(self) -> None:
        """Drop every waiting or running request; from any thread."""
        with self._lock:
            self._waiting.clear()
            self._jobs.clear()
            self.cleared_at = time.monotonic()

    def serve(self) -> None:
        """Start waiting requests and continue running ones; called only by the robot's step."""
        if not self._waiting and not self._jobs:
            return
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
        for topic, request in waiting:
            job = self._do(request)
            with self._lock:
                self._jobs.pop(topic, None)
                if job is not None:
                    self._jobs[topic] = job
        for topic, job in list(self._jobs.items()):
            if self._do(lambda job=job: next(job, _END)) is not None:  # type: ignore[misc]
                with self._lock:
                    if self._jobs.get(topic) is job:
                        del self._jobs[topic]

    def _do(self, request: Callable[[], object]) -> Job | None:
        """Do a request and return its job, or `_END` after an error; errors and warnings are reported."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ControlWarning)
            try:
                outcome = request()
            except AxBridgeError as error:
                self._report(str(error))
                outcome = _END
            except Exception as error:  # noqa: BLE001 - it would end the program's step
                self._report(unexpected(error))
                outcome = _END
        for warning in caught:
            self._report(str(warning.message))
        return outcome  # type: ignore[return-value]


class Actions:
    """The actions of a page on a robot."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._by_hand: set[str] = set()  # moved by sliders since the running `move_to` began, which has dropped them
        self._share: float | None = None  # of `limit_speed`; None: not set by a page

    def move(self, name: str, position: float) -> None:
        """Move one servo to a position, rad; switches it on."""
        servo = self._robot[name]
        low, high = end_of_range(servo)
        if not low <= position <= high:
            scale, unit = (math.degrees(1), "°") if servo.type == "rotational" else (1000.0, " mm")
            ends = f"{scale * low:.1f} .. {scale * high:.1f}{unit}"
            raise UsageError(f"{name} stays where it is: {scale * position:g}{unit} is not within {ends}")
        self._by_hand.add(name)
        if not servo.torque_enabled:
            servo.torque_on()
        servo.set_position(position)

    def torque(self, names: Iterable[str], *, on: bool) -> None:
        """Switch motors on at their present positions, or off. BusError: one did not confirm; the others are off."""
        failure: BusError | None = None
        for name in names:
            if on and not self._robot[name].torque_enabled:
                self._robot[name].torque_on()
            elif not on:
                try:
                    self._robot[name].torque_off()
                except BusError as error:
                    failure = error
        if failure is not None:
            raise failure

    @property
    def share(self) -> float:
        """Return the share of the highest speed for motions of this page; at first that of the program's set-points."""
        if self._share is not None:
            return self._share
        shares = (servo.goals.speed / servo.max_velocity for servo in self._robot.values())
        return max((share for share in shares if 0 < share < math.inf), default=1.0)  # wheels have no speed limit

    def limit_speed(self, share: float) -> None:
        """Limit the speed of all servos to a share, 0..1, of their highest."""
        self._share = max(_checked(share), 0.01)  # with 0 no servo would move
        for servo in self._robot.values():
            if not math.isinf(servo.target_position):  # for a wheel it would be the speed itself
                servo.set_velocity(self._share * servo.max_velocity)

    def limit_torque(self, names: Iterable[str], share: float) -> None:
        """Limit the torque of some servos to a share, 0..1, of their highest."""
        for name in names:
            self._robot[name].set_available_torque(_checked(share) * self._robot[name].max_torque)

    def move_to(self, pose: Mapping[str, float], duration: float) -> Job:
        """Move servos to a pose, rad, within speed limits; one moved by a slider or switched off is dropped."""
        robot, servos = self._robot, self._robot.driven()
        if not 0 < duration < math.inf:
            raise UsageError(f"a duration of {duration:g} s is not positive and finite", "give seconds")
        if wrong := [name for name, goal in pose.items() if not math.isfinite(goal)]:
            raise UsageError(f"the pose has no number for {', '.join(wrong)}", "save it again")
        robot.refuse_unknown_turns({name: goal for name, goal in pose.items() if name in robot})
        self._by_hand.clear()
        paths: dict[str, tuple[float, float]] = {}
        for name, goal in pose.items():
            if name not in robot:
                continue  # a pose of a robot with more servos
            servo = servos[name]
            if not servo.torque_enabled:
                servo.torque_on()
            paths[name] = path_start(servo), min(max(goal, servo.min_position), servo.max_position)
        for name, (start, end) in paths.items():
            duration = max(duration, minimum_jerk.shortest(end - start, self.share * robot[name].max_velocity))
        times, before = {name: TrajectoryTime() for name in paths}, robot.time - robot.basic_time_step / 1000
        while any(time.elapsed < duration - 1e-9 and not time.expired for time in times.values()):
            for name, (start, end) in paths.items():
                times[name].advance(robot.time - before, replied=name not in robot.last_step.errors)
                if name not in self._by_hand:
                    eased = minimum_jerk.eased(times[name].elapsed / duration)
                    servos[name].set_position(start + (end - start) * eased)
            before = robot.time
            yield


def _checked(share: float) -> float:
    if not 0 <= share <= 1:
        raise UsageError(f"{100 * share:g} % is no limit: nothing is changed", "give 0 to 100 %")
    return share


def end_of_range(servo: Servo) -> tuple[float, float]:
    """Return the lowest and highest position of a slider, rad or m: half a turn or 0.1 m without a limit."""
    most = math.pi if servo.type == "rotational" else 0.1
    low, high = servo.min_position, servo.max_position
    return (-most if math.isinf(low) else low), (most if math.isinf(high) else high)


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
        write_whole(self.path, json.dumps(poses, indent=1) + "\n")
        self.poses = poses


def mirrored(pose: Mapping[str, float], signs: Signs) -> dict[str, float]:
    """Return the mirror image of a pose, left and right exchanged, without servos that have no partner in `signs`."""
    angles = {signs[servo][0]: signs[servo][1] * angle for servo, angle in pose.items() if servo in signs}
    if not angles:
        raise AxBridgeError("no servo of this pose has a mirror image")
    return angles
