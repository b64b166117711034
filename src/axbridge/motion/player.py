"""Play a move on a robot, on any backend: gentle start, all limits kept, end by the pages' exits."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from axbridge.errors import AxBridgeError, UsageError, warn
from axbridge.motion.moves import Move, Page
from axbridge.motion.planning import Bounds, Plan, check, plan, reachable
from axbridge.robot.robot import FOLLOWS, Robot, path_start
from axbridge.robot.simulation import hold_up
from axbridge.robot.watch import Watch
from axbridge.servo import checks

_RISE = 1.5  # s in which a free simulated robot is put on its feet
_STAND = 0.5  # s that it then stands before the move continues
_REACHED = math.radians(1)  # a pose is reached when all joints are this close
_SETTLE_TIME = 0.5  # s, at most, to wait until a pose is reached
_MAX_BEYOND = math.radians(3)  # ten counts: usual difference between the limits of two robots of a kind
_SLOPES = ("cw_compliance_slope", "ccw_compliance_slope")


@dataclass(frozen=True)
class Played:
    """Result of a play; times in s, angles in rad."""

    seconds: float  # from the first pose to the end
    asked: float  # the move's own time for that; smaller than `seconds` if joints were too slow
    start_error: float  # largest distance of a joint from the first pose when the move continued from it
    worst_error: float  # largest distance of a joint from its goal at the same time, which includes its lag
    stopped: bool  # whether it was stopped before its end
    exit: str | None  # the last page after a stop


def play(
    robot: Robot,
    move: Move,
    *,
    pace: float = 1.0,
    joints: Collection[str] | None = None,
    page: str | None = None,
    stop: Callable[[], bool] = lambda: False,
    note: Callable[[str], None] = warn,
) -> Played:
    """Play a move; at its end the motors hold the last pose.

    The speed limits of the move's servos are set to their highest. The robot first moves slowly from its present pose
    to the first pose; a free, limp simulated robot is held meanwhile. Joints that are not in the move hold their
    positions. A motion that is too fast for a joint takes longer. When `stop` returns True, the present page is played
    to its end, then its exit page, then that page's exit page and so on. Without an exit page, the robot stops at once.

    Args:
        robot: A robot whose servos have the names of the move's joints.
        move: The move.
        pace: Factor of the speed: times are divided by it.
        joints: Play only these joints.
        page: Key or name of the page to start with; None = the move's own start.
        stop: Called in each step; True ends the play.
        note: Called with messages about motions that take longer, and about joints that stop at a limit up to 3 degrees
            before their pose; by default a `ControlWarning`.

    Raises:
        UsageError: a joint that the robot lacks, a pose further beyond a limit, a wrong argument. Nothing has moved
            then.
        BusError: a servo failed or was lost during the play.
    """
    if not 0 < checks.number(pace, "a pace") < math.inf:
        raise UsageError(f"a pace of {pace:g} is not positive and finite", "1 is as the move says")
    start = move.start if page is None else move.find(page)
    if joints is not None:
        move = move.only(joints)
    return _Player(robot, move, start, pace, stop, note).run()


class _PlayStopped(Exception):
    """The play is stopped at once: the present page has no exit, or the robot was closed."""


class _Player:
    """State of one play."""

    def __init__(
        self, robot: Robot, move: Move, start: str, pace: float, stop: Callable[[], bool], note: Callable[[str], None]
    ) -> None:
        self._robot, self._move, self._start, self._pace = robot, move, start, pace
        self._stop, self._note = stop, note
        self._pages = reachable(move, start)
        self._names = [joint for joint in move.joints if any(joint in move.pages[p].joints for p in self._pages)]
        if unknown := [name for name in self._names if name not in robot]:
            why = f"robot {robot.name!r} has no servo {', '.join(unknown)}"
            raise UsageError(why, "leave joints out, or choose another rig")
        servos = {name: servo for name, servo in robot.items() if name in self._names}
        self._bounds = {n: Bounds(s.min_position, s.max_position, s.max_velocity) for n, s in servos.items()}
        for clipped in check(move, self._pages, self._bounds, _MAX_BEYOND):
            note(clipped)
        self._goals: dict[str, float] = {}
        self._watch = Watch(robot)
        self._slopes: dict[tuple[str, str], tuple[int, int]] = {}  # by servo and register: first, present
        self._torques: dict[str, float] = {}  # original torque limits
        self._servos = robot.driven()
        self._closed = self._slow_noted = False  # the robot was closed; the note about slow joints was sent
        self._worst = self._late = 0.0

    def run(self) -> Played:
        """Move to the first pose, play the pages, restore torque limits and slopes."""
        robot = self._robot
        limp = not any(servo.torque_enabled for servo in robot.values())
        free = limp and robot.simulation is not None and robot.simulation.base_start is not None
        robot.refuse_unknown_turns(self._first_plan(free=free).first)
        for servo in self._servos.values():
            if not servo.torque_enabled:
                servo.torque_on()
        path = self._first_plan(free=free)  # torque on may reset the multi-turn position of an X servo
        for name, servo in self._servos.items():
            if name in self._names:
                servo.set_velocity(servo.max_velocity)
            elif free:  # the robot has sunk slightly since it was opened
                servo.set_position(servo.config.position)
        self._apply(self._move.pages[path.rounds[0].page])
        stopped, exit_page, begin, error = False, None, robot.time, math.nan
        try:
            self._ease(path, held=free)
            error = self._settle(path.first)
            until = robot.time + (_STAND if free else 0.0)
            while robot.time < until - 1e-9:
                self._step()
            begin, self._worst, self._late = robot.time, 0.0, 0.0
            exit_page = self._follow(path, path.eased)
            while exit_page is None and path.loop is not None and self._has_poses(path.loop, "next"):
                exit_page = self._follow(self._plan(path.loop, self._goals), 0.0)
            stopped = exit_page is not None
            if exit_page is not None:
                if self._has_poses(exit_page, "exit"):
                    self._follow(self._plan(exit_page, self._goals, ending=True), 0.0, stoppable=False)
                exit_page = self._move.chain(exit_page, "exit")[0][-1]
            self._settle(self._goals)
        except _PlayStopped:
            stopped = True
        except AxBridgeError:
            with suppress(AxBridgeError):
                self._restore()
            raise
        if not self._closed:
            self._restore()
        return Played(robot.time - begin + self._late, path.asked - path.eased, error, self._worst, stopped, exit_page)

    def _first_plan(self, *, free: bool) -> Plan:
        pose = {name: self._bounds[name].clip(path_start(self._robot[name])) for name in self._names}
        return self._plan(self._start, pose, ease=_RISE if free else 0.0)

    def _has_poses(self, page: str, link: Literal["next", "exit"]) -> bool:
        return any(self._move.pages[name].keys for name in self._move.chain(page, link)[0])

    def _plan(self, page: str, here: dict[str, float], *, ease: float | None = None, ending: bool = False) -> Plan:
        tick = self._robot.basic_time_step / 1000
        pose = {name: here[name] for name in self._names}
        path = plan(self._move, page, pose, self._bounds, pace=self._pace, ease=ease, ending=ending, tick=tick)
        if path.slowest is not None and not self._slow_noted:
            joint, speed, top = path.slowest
            before = 0.0 if ease is None else path.eased
            self._slow_noted = True
            longer = f"takes {path.duration - before:.2f} s instead of {path.asked - before:.2f} s"
            self._note(f"{longer}: {joint} needs {speed:.1f} rad/s, and has {top:.1f}")
        return path

    def _ease(self, path: Plan, *, held: bool) -> None:
        """Move to the first pose."""
        time = 0.0
        while time < path.eased - 1e-9:
            if self._stop():
                raise _PlayStopped
            if held:
                hold_up(self._robot.simulation, time / path.eased)
            time = min(time + self._period(), path.eased)
            self._command(path.at(time))

    def _follow(self, path: Plan, time: float, *, stoppable: bool = True) -> str | None:
        """Play trajectories from `time` on; return the last page's exit page after a stop request, else None."""
        page, stopping = "", False
        while time < path.duration - 1e-9:
            now = path.page_at(time)
            if now.page != page:
                page = now.page
                self._apply(self._move.pages[page])
            leave = self._move.pages[page].exit
            stopping = stopping or (stoppable and self._stop())
            if stopping and leave is None:
                raise _PlayStopped
            end = now.time if stopping else path.duration
            time = min(time + self._period(), end)
            self._command(path.at(time))
            if stopping and time >= end - 1e-9:
                return leave
        return None

    def _period(self) -> float:
        """Return the move's time in a step, s: 0 while replies are missing, so that no joint must catch up later."""
        answered = self._robot.last_step.errors.keys().isdisjoint(self._names)
        return self._robot.basic_time_step / 1000 * answered

    def _command(self, goals: dict[str, float]) -> None:
        self._goals = goals
        for name, goal in goals.items() if not self._robot.closed else ():
            self._servos[name].set_position(self._bounds[name].clip(goal))  # `ramps` overshoot
        self._step()
        self._worst = max(self._worst, self._error(goals))

    def _settle(self, pose: Mapping[str, float]) -> float:
        """Wait until the pose is reached, at most half a second; return the largest error, rad."""
        until = self._robot.time + _SETTLE_TIME
        while self._error(pose) > _REACHED and self._robot.time < until:
            self._step()
        return self._error(pose)

    def _step(self) -> None:
        if self._robot.step() == -1 or self._robot.closed:
            self._closed = True
            raise _PlayStopped
        self._late += self._robot.last_step.late / 1000
        self._watch.check()

    def _error(self, pose: Mapping[str, float]) -> float:
        return max(abs(self._robot[name].position - goal) for name, goal in pose.items())

    def _apply(self, page: Page) -> None:
        """Set the torque limits and slopes of a page; others stay unchanged."""
        for name, torque in page.torque.items():
            if name in self._bounds:
                servo = self._robot[name]
                self._torques.setdefault(name, servo.available_torque)
                servo.set_available_torque(torque)
        for name, slope in page.slope.items():
            if name in self._bounds and (servo := self._robot[name]).config.drive == "dynamixel":
                for register in filter(servo.dynamixel.profile.registers.__contains__, _SLOPES):
                    self._write(name, register, slope)

    def _write(self, name: str, register: str, value: int) -> None:
        """Write a register if its value differs."""
        servo, place = self._robot[name], (name, register)
        before, present = self._slopes[place] if place in self._slopes else (servo.read(register),) * 2
        if value != present:
            servo.write(register, value)
        self._slopes[place] = before, value

    def _restore(self) -> None:
        """Restore torque limits and slopes."""
        for name, torque in self._torques.items():
            servo = self._robot[name]
            if servo.torque_enabled and abs(servo.target_position - servo.position) > FOLLOWS:
                servo.torque_on()  # goal = present position: with full torque the joint would jump to its goal
            servo.set_available_torque(torque)
        for (name, register), (before, _) in self._slopes.items():
            self._write(name, register, before)
