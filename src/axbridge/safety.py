"""No motor stays powered behind a program that has ended, failed or hung.

`Safety` applies a policy on every way out: ``limp`` (torque off), ``hold`` (keep the present position, powered) or
``park`` (go slowly to a pose, then limp). Ways out: `release`, an exception, SIGINT, SIGTERM, SIGHUP, the interpreter's
end, and a controller that stops calling `feed`. What no Python code survives (SIGKILL, a crash, a hang that keeps the
interpreter locked) is the guard process's (`axbridge.guard`): it always limps.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal

from axbridge.bus.base import Reply
from axbridge.bus.cycle import GOAL_POSITION, PRESENT, TORQUE_ENABLE, Cycle, CycleServo, Goal
from axbridge.clock import WallClock
from axbridge.errors import BusError, BusTimeout, PortError, UsageError
from axbridge.wire import BROADCAST

__all__ = ["Policy", "Safety", "hold", "limp", "park"]

Policy = Literal["limp", "hold", "park"]

_ATTEMPTS = 3
_STDERR = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ANGLE_LIMITS, _MOVING_SPEED = 6, 32  # addresses; both limits 0: the servo turns endlessly
_PARK_SPEED = 100  # counts: 11 rpm
_PARK_NEAR = 6  # counts: about 2 degrees
_PARK_PERIOD = 0.02  # s


def limp(cycle: Cycle) -> dict[str, BusError]:
    """Switch the torque of every servo off and look that it is off; tries them all, whatever fails.

    Returns the servos that did not confirm, by name.
    """
    left = {servo.id: servo.name for servo in cycle.servos}
    errors: dict[str, BusError] = {}
    try:
        for attempt in range(_ATTEMPTS):
            cycle.bus.write(BROADCAST, TORQUE_ENABLE, b"\0")
            if attempt:  # a broadcast did not reach them: one by one
                cycle.bus.sync_write(TORQUE_ENABLE, dict.fromkeys(left, b"\0"))
            asked = list(left)
            for id_, answer in zip(asked, cycle.bus.read_many([(id_, TORQUE_ENABLE, 1) for id_ in asked]), strict=True):
                if isinstance(answer, Reply) and answer.data == b"\0":
                    errors.pop(left.pop(id_), None)
                else:
                    errors[left[id_]] = answer if isinstance(answer, BusError) else _still_on(id_)
            if not left:
                break
    except PortError as error:
        errors.update(dict.fromkeys(left.values(), error))
    return errors


def _still_on(id: int) -> BusError:
    return BusTimeout(id, "it did not confirm that its torque is off: cut the servo supply")


def hold(cycle: Cycle) -> dict[str, BusError]:
    """Make the present position of every powered servo its goal. Returns the servos that could not be read, by name.

    Servos without torque stay without: writing a goal would switch it on. Wheels stop turning.
    """
    try:
        wheels = _stop_wheels(cycle)
    except PortError as error:
        return dict.fromkeys(cycle.servos_by_name, error)
    joints = {name: servo for name, servo in cycle.servos_by_name.items() if name not in wheels}
    return _goal_to_present(cycle, joints)


def _stop_wheels(cycle: Cycle) -> set[str]:
    """Let the servos that turn endlessly stand still; their names."""
    limits = cycle.bus.read_many([(servo.id, _ANGLE_LIMITS, 4) for servo in cycle.servos])
    wheels = {
        servo.name: servo.id
        for servo, answer in zip(cycle.servos, limits, strict=True)
        if isinstance(answer, Reply) and answer.data == bytes(4)
    }
    if wheels:
        cycle.bus.sync_write(_MOVING_SPEED, dict.fromkeys(wheels.values(), bytes(2)))
    return set(wheels)


def park(
    cycle: Cycle, pose: Mapping[str, int], seconds: float = 3.0, *, given_up: Callable[[], bool] = lambda: False
) -> dict[str, BusError]:
    """Move to `pose` (Goal Position counts by name) at 11 rpm, for at most `seconds` or until `given_up`, then limp.

    Only powered joints move: a goal would switch a limp one on, and would send a wheel round and round.
    Returns the servos that did not confirm that their torque is off, by name.
    """
    clock = cycle.bus.clock
    due = clock.now()
    end = due + seconds
    try:
        goals = _parkable(cycle, pose)
    except PortError:
        goals = {}  # limp names them
    here: dict[str, int] = {}
    while goals and clock.now() < end and not given_up():
        here |= {name: state.position for name, state in cycle.exchange(goals).states.items() if name in goals}
        if here and all(abs(position - goals[name].position) <= _PARK_NEAR for name, position in here.items()):
            break
        due += _PARK_PERIOD
        clock.sleep_until(due)
    return limp(cycle)


def _parkable(cycle: Cycle, pose: Mapping[str, int]) -> dict[str, Goal]:
    wheels = _stop_wheels(cycle)
    joints = {name: cycle.servos_by_name[name] for name in pose if name in cycle.servos_by_name and name not in wheels}
    answers = cycle.bus.read_many([(servo.id, TORQUE_ENABLE, 1) for servo in joints.values()])
    return {
        name: Goal(pose[name], _PARK_SPEED)
        for name, answer in zip(joints, answers, strict=True)
        if not isinstance(answer, Reply) or answer.data != b"\0"  # one that did not answer now may have torque
    }


def _goal_to_present(cycle: Cycle, servos: Mapping[str, CycleServo]) -> dict[str, BusError]:
    errors: dict[str, BusError] = {}
    goals: dict[int, bytes] = {}
    try:
        answers = cycle.bus.read_many(
            [(servo.id, TORQUE_ENABLE, PRESENT + 2 - TORQUE_ENABLE) for servo in servos.values()]
        )
        for (name, servo), answer in zip(servos.items(), answers, strict=True):
            if not isinstance(answer, Reply) or not answer.data:
                errors[name] = answer if isinstance(answer, BusError) else BusTimeout(servo.id)
            elif answer.data[0]:
                goals[servo.id] = answer.data[-2:]
        if goals:
            cycle.bus.sync_write(GOAL_POSITION, goals)
    except PortError as error:
        errors.update(dict.fromkeys(servos, error))
    return errors


class Safety:
    """Watches over the servos of some cycles from `arm` to `disarm`.

    Args:
        cycles: One a bus.
        policy: What happens on the way out.
        park_pose: Goal Position counts by servo name, for ``park``.
        stale_command_ms: Apply the policy when `feed` was not called for so long; None = never. Wall time only: a bus
            in simulated time waits for nobody.
        guard: Start the guard process (for buses that have a file descriptor).
        report: Called with the servos that failed, by name, when the policy was applied outside of `release`'s caller.

    Raises:
        UsageError: ``park`` without a pose.
    """

    def __init__(
        self,
        cycles: Sequence[Cycle],
        policy: Policy = "limp",
        *,
        park_pose: Mapping[str, int] | None = None,
        stale_command_ms: float | None = None,
        guard: bool = True,
        report: Callable[[dict[str, BusError]], None] | None = None,
    ) -> None:
        if policy == "park" and not park_pose:
            raise UsageError("the policy park needs a pose", 'give the rig a park pose, or choose "limp" or "hold"')
        self.cycles = tuple(cycles)
        self.policy: Policy = policy
        self.stale = False
        self._pose = dict(park_pose or {})
        self._silence = None if stale_command_ms is None else stale_command_ms * 1e-3
        self._with_guard = guard
        self._report = report or _complain
        self._armed = False
        self._owner = -1
        self._releasing = self._released = False
        self._releases = 0
        self._earlier: dict[int, Any] = {}
        self._fed_at = time.monotonic()
        self._applying = threading.Lock()
        self._stop = threading.Event()
        self._watchdog: threading.Thread | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._guarded: tuple[int, ...] = ()
        self._pipe = -1

    # -- life ---------------------------------------------------------------------------------------------------------

    def arm(self) -> None:
        """Take over signals and the interpreter's exit, start watchdog and guard; may be called twice."""
        if self._armed:
            return
        self._armed = True
        self._owner = os.getpid()
        self._fed_at = time.monotonic()
        atexit.register(self._at_exit)
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                earlier = signal.getsignal(number)
                if earlier is not signal.SIG_IGN and earlier is not None:  # None: set by a C library
                    self._earlier[number] = earlier
                    signal.signal(number, self._on_signal)
        if self._with_guard:
            self._start_guard()
        if self._silence is not None and any(isinstance(cycle.bus.clock, WallClock) for cycle in self.cycles):
            self._stop.clear()
            self._watchdog = threading.Thread(target=self._watch, name="axbridge watchdog", daemon=True)
            self._watchdog.start()

    def disarm(self) -> None:
        """Give everything back; the policy is *not* applied (see `release`); may be called twice.

        A forked child changes nothing: the net is its parent's.
        """
        if not self._armed_here():
            return
        self._armed = False
        atexit.unregister(self._at_exit)
        self._stop.set()
        for number, earlier in list(self._earlier.items()):
            if signal.getsignal(number) == self._on_signal:  # else somebody took over after us, and may call us yet
                signal.signal(number, earlier)
                del self._earlier[number]
        if self._watchdog is not None and self._watchdog is not threading.current_thread():
            self._watchdog.join(timeout=1.0)
        self._end_guard()

    def feed(self) -> None:
        """A sign of life: call it once a step. After a silence goals are taken again, from the present position on."""
        self._fed_at = time.monotonic()
        self._released = False
        if self.stale:
            with self._applying:  # the watchdog may still be at it
                self.stale = False
        if self._guard is not None:
            if self._guarded != self._descriptors():  # the port was lost and found: the guard holds the old one
                self._end_guard()
                self._start_guard()
            try:
                os.write(self._pipe, b".")
            except BlockingIOError:
                pass  # it has signs enough
            except OSError:  # it was killed: a new one takes over
                self._end_guard()
                self._start_guard()
        elif self._armed and self._with_guard and self._descriptors():
            self._start_guard()

    def release(self) -> dict[str, BusError]:
        """Apply the policy now, to every servo of every bus, whatever fails on the way.

        Returns the servos that failed, by name. A call while an earlier one still parks, or after it has parked, limps:
        parking again would switch the motors on.
        """
        again = self._releasing or self._released
        policy: Policy = "limp" if again and self.policy == "park" else self.policy
        self._releasing = self._released = True
        self._releases += 1
        turn = self._releases
        errors: dict[str, BusError] = {}
        try:
            for cycle in self.cycles:
                try:
                    if policy == "hold":
                        errors |= hold(cycle)
                    elif policy == "park":
                        # a later release, in a signal handler or another thread, limps: going on would undo that
                        errors |= park(cycle, self._pose, given_up=lambda: self._releases != turn)
                    else:
                        errors |= limp(cycle)
                except Exception as failure:  # noqa: BLE001 - whatever it is, it must not spare the next bus
                    unknown = BusError(f"{type(failure).__name__}: {failure}")
                    errors |= dict.fromkeys(cycle.servos_by_name, unknown)
        finally:
            self._releasing = False
        return errors

    def __enter__(self) -> Safety:
        self.arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._armed_here():
            return
        try:
            self._release_and_report()
        finally:  # a second signal has limped, or held, before it raised
            self.disarm()

    # -- ways out -----------------------------------------------------------------------------------------------------

    def _release_and_report(self) -> None:
        errors = self.release()
        if errors:
            self._report(errors)

    def _at_exit(self) -> None:
        if self._armed_here():
            self._release_and_report()
            self.disarm()

    def _armed_here(self) -> bool:
        """Whether it is this process's net: a forked child inherits handlers and port, but not the robot."""
        return self._armed and os.getpid() == self._owner

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._armed_here():
            self._release_and_report()
        earlier = self._earlier.get(number, signal.SIG_DFL)
        if callable(earlier):
            earlier(number, frame)
            return
        if self._armed_here():
            self.disarm()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # so that our parent sees the signal as the cause

    def _watch(self) -> None:
        assert self._silence is not None
        while not self._stop.wait(min(self._silence / 4, 0.05)):
            if not self.stale and time.monotonic() - self._fed_at > self._silence:
                with self._applying:
                    self.stale = True
                    self._release_and_report()
                    for cycle in self.cycles:
                        cycle.restart_softly()

    # -- the guard process --------------------------------------------------------------------------------------------

    def _descriptors(self) -> tuple[int, ...]:
        ports = (getattr(cycle.bus, "port", None) for cycle in self.cycles)
        return tuple(port.fd for port in ports if port is not None and port.fd is not None)

    def _start_guard(self) -> None:
        ports = self._descriptors()
        if not ports:
            return
        pipe, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        # later than the watchdog here, which knows the policy: the guard is for a host that cannot act any more
        silence = 0.0 if self._silence is None else 2 * self._silence + 0.1
        script = str(Path(__file__).with_name("guard.py"))
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", script, str(pipe), str(silence), *map(str, ports)],
                pass_fds=(pipe, *ports),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the controller
            )
        except OSError as failure:
            os.close(self._pipe)
            self._with_guard = False
            warnings.warn(
                f"no guard process: {failure}; SIGKILL would leave the motors on", RuntimeWarning, stacklevel=2
            )
        else:
            self._guarded = ports
        finally:
            os.close(pipe)

    def _end_guard(self) -> None:
        if self._guard is None:
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, b"q")
        os.close(self._pipe)
        try:
            self._guard.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self._guard = None
        self._guarded = ()


def _complain(errors: Mapping[str, BusError]) -> None:
    names = ", ".join(f"{name} ({error.message})" for name, error in errors.items())
    text = f"axbridge: these servos may still be powered: {names}\ncut the servo supply\n"
    with contextlib.suppress(OSError):
        os.write(_STDERR, text.encode())  # print must not be used in a signal handler
