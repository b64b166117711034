"""No motor stays powered behind a program that has ended, failed or hung.

`Safety` applies a policy on every way out: ``limp`` (torque off), ``hold`` (keep the present position, powered) or
``park`` (go slowly to a pose, then limp). Ways out: `release`, an exception, SIGINT, SIGTERM, SIGHUP, the interpreter's
end, and a controller that stops calling `feed`. What no Python code survives (SIGKILL, a crash, a hang that keeps the
interpreter locked) is the guard process's (`axbridge.robot.safety.guard`): it always limps.
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
from typing import Any

from axbridge.bus.cycle import Cycle
from axbridge.clock import WallClock
from axbridge.errors import BusError, UsageError
from axbridge.robot.safety.policies import Policy, hold, limp, park

__all__ = ["Safety"]

_STDERR = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
        restore: Called after the policy where nobody else comes after it: a deadly signal, the interpreter's end.

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
        restore: Callable[[], None] = lambda: None,
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
        self._restore = restore
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
        """Take over signals and the interpreter's exit, start watchdog and guard; may be called twice.

        Raises:
            BusError: the guard does not start, and warnings are errors; nothing is taken over then.
        """
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
            try:
                self._start_guard()
            except BaseException:
                self.disarm()
                raise
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
            self._restore()
            self.disarm()

    def _armed_here(self) -> bool:
        """Whether it is this process's net: a forked child inherits handlers and port, but not the robot."""
        return self._armed and os.getpid() == self._owner

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        armed = self._armed_here()
        if armed:
            self._release_and_report()
        earlier = self._earlier.get(number, signal.SIG_DFL)
        if self._is_deadly(number):
            if armed:
                self._restore()
            self.disarm()  # or its guard would limp what holds
        if callable(earlier):
            earlier(number, frame)
            return
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # so that our parent sees the signal as the cause

    def _is_deadly(self, number: int) -> bool:
        """Whether nobody's handler comes after the nets', so that the signal ends the process."""
        earlier = self._earlier.get(number, signal.SIG_DFL)
        net = getattr(earlier, "__self__", None)
        return net._is_deadly(number) if isinstance(net, Safety) else not callable(earlier)  # noqa: SLF001 - its own kind

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
            text = f"no guard process: {failure}; SIGKILL would leave the motors on"
            try:
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            except RuntimeWarning as refused:
                raise BusError(text, f"see that {sys.executable} can be run, or let warnings be warnings") from refused
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
