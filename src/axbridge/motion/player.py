"""Playing a move on a robot, on any backend: eased into, within every limit, ended as its pages say."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from axbridge.errors import AxBridgeError, UsageError, warn
from axbridge.motion.moves import Move, Page
from axbridge.motion.planning import Bounds, Plan, check, plan, reachable
from axbridge.robot.robot import FOLLOWS, Robot, path_start
from axbridge.robot.simulation import hold_up
from axbridge.robot.watch import Watch

_RISE = 1.5  # s in which a simulated robot that stands free is put on its feet
_STAND = 0.5  # s that it stands before the move goes on
_NEAR = math.radians(1)  # a pose is reached
_PATIENCE = 0.5  # s that the joints may come after it
_BEYOND = math.radians(3)  # ten counts: limits of two robots of a kind differ by that much
_SLOPES = ("cw_compliance_slope", "ccw_compliance_slope")


@dataclass(frozen=True)
class Played:
    """How it went; times in s, angles in rad."""

    seconds: float  # from the first pose to the end
    asked: float  # what the move says for that; less where joints had to be spared
    start_error: float  # how far the worst joint was from the first pose when the move went on from there
    worst_error: float  # largest distance of a joint from its goal of the same moment under way: it lags
    stopped: bool  # whether somebody asked for the end before it
    exit: str | None  # the page it ended with then


def play(
    robot: Robot,
    move: Move,
    *,
    pace: float = 1.0,
    joints: Collection[str] | None = None,
    page: str | None = None,
    loop: bool = False,
    stop: Callable[[], bool] = lambda: False,
    note: Callable[[str], None] = warn,
) -> Played:
    """Play a move; the motors are on when it ends, at the last pose.

    Speed limits of the move's joints become their servos' own. The robot first goes slowly from where it is to the
    first pose. A simulated robot that stands free and is limp is held up meanwhile, as by a hand. Joints that are not
    in the move hold where they are. Ways for which a joint is too slow take longer. When `stop` says so, the page under
    way is played to its end, then its exit page, then that page's, and so on; where it has none, the robot stops at
    once.

    Args:
        robot: With servos that are called as the move's joints.
        move: What to play.
        pace: Times are divided by it.
        joints: Only these.
        page: Start with this page instead of the move's own: its key, or its name.
        loop: Start again at the end, until `stop`.
        stop: Asked once a step.
        note: Called with what takes longer than it should, and which joint stops at a limit up to 3 degrees before its
            pose; by default a `ControlWarning`.

    Raises:
        UsageError: a joint the robot does not have, a pose further beyond a limit, a wrong argument: nothing has moved
            then.
        BusError: a servo failed or got lost under way.
    """
    if not 0 < pace < math.inf:
        raise UsageError(f"a pace of {pace:g} is not positive and finite", "1 is as the move says")
    start = move.start if page is None else move.find(page)
    if joints is not None:
        move = move.only(joints)
    return _Player(robot, move, start, pace, stop, note).run(loop=loop)


class _PlayStopped(Exception):
    """Somebody asked for the end, and the page has no exit."""


class _Player:
    """One play under way."""

    def __init__(
        self, robot: Robot, move: Move, start: str, pace: float, stop: Callable[[], bool], note: Callable[[str], None]
    ) -> None:
        self._robot, self._move, self._start, self._pace = robot, move, start, pace
        self._stop, self._note = stop, note
        self._pages = reachable(move, start)
        self._names = [joint for joint in move.joints if any(joint in move.pages[p].joints for p in self._pages)]
        if strange := [name for name in self._names if name not in robot]:
            raise UsageError(
                f"robot {robot.name!r} has no servo {', '.join(strange)}", "leave joints out, or choose another rig"
            )
        self._bounds = {
            name: Bounds(servo.min_position, servo.max_position, servo.max_velocity)
            for name, servo in robot.items()
            if name in self._names
        }
        for clipped in check(move, self._pages, self._bounds, _BEYOND):
            note(clipped)
        self._goals: dict[str, float] = {}
        self._watch = Watch(robot)
        self._registers_before: dict[tuple[str, str], int] = {}  # slopes before, by servo and register
        self._slopes: dict[tuple[str, str], int] = {}  # slopes now
        self._torques: dict[str, float] = {}  # torque limits before
        self._servos = robot.driven()
        self._gone = self._said = False  # the robot was closed; what takes longer was said
        self._worst = self._late = 0.0

    def run(self, *, loop: bool) -> Played:
        """Ease in, play, end."""
        robot = self._robot
        limp = not any(servo.torque_enabled for servo in robot.values())
        free = limp and robot.simulation is not None and robot.simulation.base_start is not None
        here = {name: self._within(name, path_start(robot[name])) for name in self._names}
        path = self._plan(self._start, here, ease=_RISE if free else 0.0)
        robot.refuse_unknown_turns(path.first)
        off = [servo for servo in self._servos.values() if not servo.torque_enabled]
        for servo in off:
            servo.torque_on()
        if off:  # an X servo may have put its count back
            here |= {name: self._within(name, path_start(robot[name])) for name in self._names}
            path = self._plan(self._start, here, ease=_RISE if free else 0.0)
        for name, servo in self._servos.items():
            if name in self._names:
                servo.set_velocity(servo.max_velocity)
            elif free:  # it has sunk a little since it was opened
                servo.set_position(servo.config.position)
        self._apply(self._move.pages[path.rounds[0].page])
        stopped, left, begun, error = False, None, robot.time, math.nan
        try:
            self._ease(path, held=free)
            error = self._settle(path.first)
            until = robot.time + (_STAND if free else 0.0)
            while robot.time < until - 1e-9:
                self._step()
            begun, self._worst, self._late = robot.time, 0.0, 0.0
            left = self._pages_from(path, loop=loop)
            stopped = left is not None
            if left is not None:
                ending, _ = self._move.chain(left, "exit")
                if any(self._move.pages[name].keys for name in ending):
                    self._follow(self._plan(left, self._goals, ending=True), 0.0, stoppable=False)
                left = ending[-1]
            self._settle(self._goals)
        except _PlayStopped:
            stopped = True
        except AxBridgeError:
            with suppress(AxBridgeError):
                self._give_back()
            raise
        if not self._gone:
            self._give_back()
        return Played(robot.time - begun + self._late, path.asked - path.eased, error, self._worst, stopped, left)

    def _within(self, name: str, angle: float) -> float:
        limit = self._bounds[name]
        return min(max(angle, limit.low), limit.high)

    def _pages_from(self, path: Plan, *, loop: bool) -> str | None:
        """Play on from the first pose; the exit page to end with, when somebody asked for the end."""
        left = self._follow(path, path.eased)
        while left is None:
            again = path.loop if path.loop is not None else self._start if loop else None
            if again is None or not any(self._move.pages[name].keys for name in self._move.chain(again)[0]):
                return None
            path = self._plan(again, self._goals)
            left = self._follow(path, 0.0)
        return left

    def _plan(self, page: str, here: dict[str, float], *, ease: float | None = None, ending: bool = False) -> Plan:
        tick = self._robot.basic_time_step / 1000
        pose = {name: here[name] for name in self._names}
        path = plan(self._move, page, pose, self._bounds, pace=self._pace, ease=ease, ending=ending, tick=tick)
        if path.slowest is not None and not self._said:
            joint, wanted, top = path.slowest
            before = 0.0 if ease is None else path.eased
            self._said = True
            self._note(
                f"takes {path.duration - before:.2f} s instead of {path.asked - before:.2f} s: {joint} would have to "
                f"turn at {wanted:.1f} rad/s, and may at {top:.1f}"
            )
        return path

    def _ease(self, path: Plan, *, held: bool) -> None:
        """Go to the first pose."""
        time = 0.0
        while time < path.eased - 1e-9:
            if self._stop():
                raise _PlayStopped
            if held:
                hold_up(self._robot.simulation, time / path.eased)
            time = min(time + self._period(), path.eased)
            self._command(path.at(time))

    def _follow(self, path: Plan, time: float, *, stoppable: bool = True) -> str | None:
        """Play a path from `time` on; the exit page of the page at whose end it stopped, when somebody asked."""
        page, asked = "", False
        while time < path.duration - 1e-9:
            now = path.page_at(time)
            if now.page != page:
                page = now.page
                self._apply(self._move.pages[page])
            leave = self._move.pages[page].exit
            asked = asked or (stoppable and self._stop())
            if asked and leave is None:
                raise _PlayStopped
            end = now.time if asked else path.duration
            time = min(time + self._period(), end)
            self._command(path.at(time))
            if asked and time >= end - 1e-9:
                return leave
        return None

    def _period(self) -> float:
        """How far the move goes on in a step, s: it waits for answers, and nobody runs after it then."""
        answered = self._robot.last_step.errors.keys().isdisjoint(self._names)
        return self._robot.basic_time_step / 1000 * answered

    def _command(self, goals: dict[str, float]) -> None:
        self._goals = goals
        for name, goal in goals.items() if not self._robot.closed else ():
            self._servos[name].set_position(self._within(name, goal))  # a ramp may go too far
        self._step()
        self._worst = max(self._worst, self._error(goals))

    def _settle(self, pose: Mapping[str, float]) -> float:
        """Wait until the joints are there, half a second at most; how far the worst one is off, rad."""
        until = self._robot.time + _PATIENCE
        while self._error(pose) > _NEAR and self._robot.time < until:
            self._step()
        return self._error(pose)

    def _step(self) -> None:
        if self._robot.step() == -1 or self._robot.closed:
            self._gone = True
            raise _PlayStopped
        self._late += self._robot.last_step.late / 1000
        self._watch.check()

    def _error(self, pose: Mapping[str, float]) -> float:
        return max(abs(self._robot[name].position - goal) for name, goal in pose.items())

    def _apply(self, page: Page) -> None:
        """Torque limits and slopes of a page; what it does not say stays."""
        for name, torque in page.torque.items():
            if name in self._bounds:
                servo = self._robot[name]
                self._torques.setdefault(name, servo.available_torque)
                servo.set_available_torque(torque)
        for name, slope in page.slope.items():
            if name in self._bounds and (servo := self._robot[name]).config.drive == "dynamixel":
                known = servo.dynamixel.profile.registers
                for register in _SLOPES:
                    if register in known:
                        self._write(name, register, slope)

    def _write(self, name: str, register: str, value: int) -> None:
        """Write a register where it differs from what is there."""
        place = name, register
        if place not in self._slopes:
            self._registers_before[place] = self._slopes[place] = self._robot[name].read(register)
        if self._slopes[place] != value:
            self._robot[name].write(register, value)
            self._slopes[place] = value

    def _give_back(self) -> None:
        """Torque limits and slopes as they were."""
        for name, torque in self._torques.items():
            servo = self._robot[name]
            if servo.torque_enabled and abs(servo.target_position - servo.position) > FOLLOWS:
                servo.torque_on()  # it holds where it is: with all its torque it would jump
            servo.set_available_torque(torque)
        for (name, register), value in self._registers_before.items():
            self._write(name, register, value)
