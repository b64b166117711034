"""No motor stays powered behind a program that has ended, failed or hung.

`Safety` applies a policy on every way out: ``limp`` (torque off), ``hold`` (keep the present position, powered) or
``park`` (go slowly to a pose, then limp). Ways out: `release`, an exception, SIGINT, SIGTERM, SIGHUP, the interpreter's
end, and a controller that stops calling `feed`. No Python code survives SIGKILL, a crash, or a hang that keeps the
interpreter locked. Then the guard process acts (`axbridge.robot.safety.guard`): it always limps. It may end only when
every servo has said that its torque is off, or that it holds. A servo that does not hold is limped. One that does not
limp is left to the guard, which goes on trying.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from axbridge.bus.cycle import Cycle, CycleServo
from axbridge.bus.line_lock import BusLock
from axbridge.bus.protocols.protocol import Protocol
from axbridge.clock import WallClock
from axbridge.errors import BusError
from axbridge.robot.safety.exits import Exits
from axbridge.robot.safety.policies import Policy, disarm, hold, limp, park, powerless

_log = logging.getLogger(__name__)
_STDERR = 2
_TICK = 0.05  # s between two looks of the watchdog thread, at most
_PATIENCE = 2.0  # s to wait for the end of another thread's transaction
_OFTEN = 0.02  # s between two signs of life to the guard
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_SO_NOSIGPIPE = 0x1022  # of macOS, from <sys/socket.h>
_GUARD_PATIENCE = 3.0  # s for the guard to end: it asks the servos for half of that


class Nets:
    """The nets that are armed in this process.

    When the program ends, its lines stay reserved after the policy: no thread moves a servo any more, and the guards
    write last. A signal that is handled by the program itself does not end it, or not yet: then only the main thread,
    which runs that handler, may command the servos.
    """

    def __init__(self) -> None:
        # Servos that may still be powered: neither net nor guard could switch them off, since one was armed last
        self.unconfirmed: list[str] = []
        self.ending = threading.RLock()  # held by the thread that lets the program end: others wait for it
        self._nets: list[Safety] = []
        self._process = -1
        self._exits = Exits(self.leave_for_good, self._interrupt, lambda: self.turns)

    @property
    def armed(self) -> tuple[Safety, ...]:
        """Those that park last; none in a forked child, which inherits them, but not the robots."""
        return tuple(sorted(self._nets, key=lambda net: net.policy == "park")) if os.getpid() == self._process else ()

    @property
    def turns(self) -> list[BusLock]:
        """Of their lines."""
        return [turn for net in self.armed for turn in net.turns]

    def add(self, net: Safety) -> None:
        """Take over every way out of this process."""
        if self._process != os.getpid():  # what was inherited by forking is the parent's
            self._nets.clear()
            self._process = os.getpid()
            self.ending = threading.RLock()
        self._nets.append(net)
        self.unconfirmed.clear()
        self._exits.install()

    def remove(self, net: Safety) -> None:
        """With the last one, give everything back."""
        if net in self._nets:
            self._nets.remove(net)
        if not self._nets:
            self._exits.uninstall()

    def leave_for_good(self) -> None:
        """The program ends: apply every policy, and keep the lines from then on.

        A step that fails, or that one more signal interrupts, does not keep the next from being done.
        """
        if not self.armed:
            return
        with self.ending, ExitStack() as steps:  # from the last to the first
            nets = self.armed
            for net in nets:
                steps.callback(self.remove, net)
            for net in nets:
                steps.callback(net.close_lines)
            for net in [*nets, *nets]:  # again where one more signal has ended the wait for a guard
                steps.callback(net.dismiss_guard)
            for net in reversed(nets):
                steps.callback(net.apply_for_good)
            _reserve(self.turns, threading.get_ident())

    def _interrupt(self, number: int) -> None:
        """Apply every policy; from now on the main thread alone may command the servos."""
        turns, why = self.turns, f"{signal.Signals(number).name} has come, and this is not the main thread"
        _reserve(turns, threading.get_ident(), why)
        for net in self.armed:
            net.interrupt()
        _reserve(turns, threading.main_thread().ident, why)


def _reserve(turns: Sequence[BusLock], thread: int | None, why: str | None = None) -> None:
    for turn in turns:
        turn.reserve(thread, why)


NETS = Nets()


class Safety:
    """Watches over the servos of some cycles from `arm` to `disarm`.

    The policy is applied, too, when `feed` was not called for `stale_command_ms`, in wall time. `tripped` then gets the
    servos that were switched off, from any thread. `restore` is called after the policy when the program ends without
    leaving this: no other code runs then.
    """

    def __init__(
        self,
        cycles: Sequence[Cycle],
        policy: Policy = "limp",
        *,
        park_pose: Mapping[str, int] | None = None,  # Goal Position counts by servo name
        stale_command_ms: float | None = None,
        guard: bool = True,
        restore: Callable[[], None] = lambda: None,
        tripped: Callable[[frozenset[str]], None] | None = None,
        absent: Callable[[], frozenset[str]] = frozenset,  # never read nor written: they need not confirm
    ) -> None:
        self.cycles = tuple(cycles)
        self.policy: Policy = policy
        self.stale = False
        self._real = tuple(cycle for cycle in cycles if isinstance(cycle.bus.clock, WallClock))
        self.turns: Sequence[BusLock] = [cycle.bus.turn for cycle in self._real]
        self._pose = dict(park_pose or {})
        self._silence = None if stale_command_ms is None else stale_command_ms * 1e-3
        self._with_guard = guard
        self._restore = restore
        self._tripped = tripped or (lambda _: None)
        self._armed = False
        self._leaving = False  # for good: no sign of life counts any more
        self._held = True  # the lines, when leaving for good
        self._releasing = self._released = False
        self._releases = 0
        self._left: Mapping[str, BusError] = {}  # what the policy has not confirmed
        self._absent = absent
        self._fed_at = time.monotonic()
        self._shown_at = -math.inf  # when the guard was shown a sign of life
        self._applying = threading.RLock()
        self._guarding = threading.RLock()  # a guard is started or ended
        self._stop = threading.Event()
        self._watchdog: threading.Thread | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._farewell = b""  # what the guard was asked last, before it ends
        self._guarded: tuple[tuple[int, Cycle], ...] = ()  # the lines that the guard holds, open here or not
        self._guarded_ports: list[object] = []  # their ports: one that was lost and found may have its old descriptor
        self._channel: _Channel
        self._restores: dict[tuple[int, int], tuple[Protocol, int, bytes]] = {}  # for the guard, by port and id

    # -- life ---------------------------------------------------------------------------------------------------------

    def arm(self) -> None:
        """Take over signals and the interpreter's exit, start watchdog and guard."""
        self._armed = True
        self._leaving = False
        self._fed_at = time.monotonic()
        try:
            NETS.add(self)
            self._start_guard()
            for cycle in self._real:
                cycle.watchdogs.wanted = True
            fed = any(servo.protocol.watchdog is not None for cycle in self._real for servo in cycle.servos)
            if self._real and (self._silence is not None or fed):
                self._stop.clear()
                watchdog = threading.Thread(target=self._watch, name="axbridge watchdog", daemon=True)
                watchdog.start()
                self._watchdog = watchdog
        except BaseException:
            self.disarm()
            raise

    def disarm(self) -> None:
        """Give everything back, without the policy; may be called twice. A forked child's net is its parent's.

        Servos that did not confirm the last `release` are left to the guard, and named when it fails, too.
        """
        if self not in NETS.armed:
            return
        self.dismiss_guard()
        self._armed = False
        self._stop.set()
        if self._watchdog is not None and self._watchdog is not threading.current_thread():
            self._watchdog.join(timeout=1.0)
        NETS.remove(self)

    def feed(self) -> None:
        """A sign of life: call it once a step. After a silence goals are taken again, from the present position on."""
        if self._silence is not None and self._real and time.monotonic() - self._fed_at > self._silence:
            self._trip()  # the watchdog had no chance yet: the process was stopped, and the guard has acted
        if any(cycle.watchdogs.doubtful for cycle in self._real):
            self._feed_watchdogs()
        self._note_life()
        if self._leaving:  # in another thread
            return
        self._released = False
        self._left = {}
        if self.stale:
            with self._applying:  # the watchdog may still be at it
                self.stale = False
        with self._guarding:
            self._feed_guard()

    def release(self) -> dict[str, BusError]:
        """Apply the policy now, to every servo, whatever fails on the way; those that did not confirm, by name.

        A call while an earlier one still parks, or after it has parked, limps: to park again would switch motors on.
        """
        return self._apply(self.cycles)

    def limp(self) -> dict[str, BusError]:
        """Switch every motor off now, whatever the policy; from any thread. Returns the servos that did not confirm."""
        self._releases += 1  # a park under way is given up
        interrupted = next((cycle.bus.turn for cycle in self.cycles if cycle.bus.turn.held_by_me), None)
        if interrupted is not None:  # this is a signal handler
            interrupted.defer(self.limp)
            soon = BusError("it is switched off when the transaction that the signal has interrupted is over")
            return {name: soon for cycle in self.cycles for name in cycle.servos_by_name}
        with self._applying:
            return self._hold_or_limp("limp", self.cycles if self._armed else ())

    def __enter__(self) -> Safety:
        self.arm()
        return self

    def __exit__(self, *_: object) -> None:
        """Apply the policy and disarm. After an exception in it, another call continues it."""
        with NETS.ending:
            if self not in NETS.armed:
                return
        self._leaving = True
        self._left = self._unconfirmed(self.cycles)  # the guard may not end before they are confirmed
        try:
            self.release()
        finally:
            self.disarm()

    # -- the policy ---------------------------------------------------------------------------------------------------

    def _apply(self, cycles: Sequence[Cycle], parked: Callable[[], None] = lambda: None) -> dict[str, BusError]:
        """Park, where that is the policy, call `parked`, then hold or limp; the servos that did not confirm, by name.

        An exception that ends it, as of a second signal, ends the park: the servos are limp, or hold, before it is
        raised. If one more exception ends that, too, the guard switches off all servos.
        """
        self._left = self._unconfirmed(cycles)
        try:
            self._park(cycles)
            parked()
            return self._hold_or_limp(self._rest, cycles)
        except BaseException:
            self._hold_or_limp(self._rest, cycles)
            raise

    @property
    def _rest(self) -> Policy:
        """What remains to be done after a park, or without one."""
        return "hold" if self.policy == "hold" else "limp"

    def _unconfirmed(self, cycles: Sequence[Cycle]) -> dict[str, BusError]:
        names = {name for cycle in cycles for name in cycle.servos_by_name} - self._absent()
        return {name: BusError("the policy was interrupted") for name in names}

    def _park(self, cycles: Sequence[Cycle]) -> None:
        """Go to the pose, where that is the policy and has not been done."""
        already_released = self._releasing or self._released
        self._releasing = self._released = True
        self._releases += 1
        turn = self._releases

        def given_up() -> bool:
            self._note_life()
            with contextlib.suppress(OSError):  # there is no guard any more
                self._show_life()  # no step runs meanwhile
            return self._releases != turn

        try:
            for cycle in cycles if self.policy == "park" and not already_released else ():
                with contextlib.suppress(Exception):  # whatever it is: it will be limped all the same
                    # a later release, in a signal handler or another thread, limps: going on would undo that
                    park(cycle, self._pose, given_up=given_up)
        finally:
            self._releasing = False

    def _hold_or_limp(self, policy: Policy, cycles: Sequence[Cycle]) -> dict[str, BusError]:
        """Hold or limp, without another thread in between."""
        self._left = self._unconfirmed(cycles)
        errors: dict[str, BusError] = {}
        for cycle in cycles[1:] if policy == "limp" else ():  # they must not wait for a line on which all are silent
            with contextlib.suppress(Exception), cycle.bus.turn.held(_TICK):
                for protocol, ids in cycle.bus.by_protocol(servo.id for servo in cycle.servos).items():
                    cycle.bus.limp_all(protocol, ids)
        for cycle in cycles:
            try:
                with cycle.bus.turn.held(_PATIENCE):
                    failed = None  # nothing is known of any
                    if policy == "hold":
                        disarm(cycle)  # one that has expired takes no goals
                        with contextlib.suppress(Exception):  # whatever it is: they are limped
                            failed = list(hold(cycle))
                    if failed is None or failed:  # there is something to limp
                        errors |= (left := limp(cycle, failed))
                        disarm(cycle, left)
            except Exception as failure:  # noqa: BLE001 - whatever it is, it must not spare the next bus
                unknown = failure if isinstance(failure, BusError) else BusError(f"{type(failure).__name__}: {failure}")
                errors |= dict.fromkeys(cycle.servos_by_name, unknown)
        absent = self._absent()
        self._left = errors = {name: error for name, error in errors.items() if name not in absent}
        return errors

    # -- what `NETS` asks for -----------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Apply the policy; the program may go on: with goals from the present position, unless the servos hold."""
        if errors := self._apply(self._real, self._restart_softly if self._rest == "limp" else lambda: None):
            _complain(errors)

    def apply_for_good(self) -> None:
        """Apply the policy, and keep the lines from then on."""
        self._leaving = True
        self._apply(self._real, self._take_lines)

    def _take_lines(self) -> None:
        held = [turn.lock.acquire(timeout=_PATIENCE) for turn in self.turns]
        self._held = all(held)

    def _restart_softly(self) -> None:
        for cycle in self._real:
            cycle.restart_softly()

    def close_lines(self) -> None:
        """Undo what was written for good, and close the ports; one that another thread has not left stays guarded."""
        if not (self._real and self._held):
            return
        try:
            self._restore()
        finally:
            for cycle in self._real:
                cycle.bus.close()
            for turn in self.turns:  # of `_take_lines`: a thread that waits finds its port closed, and can end
                if turn.held_by_me:
                    turn.lock.release()

    # -- silence ------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        silence = math.inf if self._silence is None else self._silence
        while not self._stop.wait(min(silence / 4, _TICK)):
            if not self.stale and time.monotonic() - self._fed_at > silence:
                self._trip()
            elif self.stale and self._left and not self._leaving:
                with self._applying:
                    self._insist()
            if any(cycle.watchdogs.feed_due for cycle in self._real):
                self._feed_watchdogs()
            if self.policy == "hold" and (self.stale or self._leaving):  # the guard would limp what holds
                with self._guarding:
                    self._shown_at = -math.inf
                    self._feed_guard()

    def _feed_watchdogs(self) -> None:
        """Ask servos for their Bus Watchdog, which feeds it. Where one has expired, this process stood still: trip."""
        expired: list[int] = []
        for cycle in self._real:
            if cycle.watchdogs.armed:
                with contextlib.suppress(BusError), cycle.bus.turn.held(_PATIENCE):
                    expired += cycle.watchdogs.poll()
        if expired and not self.stale:
            _log.warning("the Bus Watchdog of servos %s has expired: this program stood still", sorted(expired))
            if self.policy == "park":  # they take goals again
                for cycle in self._real:
                    cycle.watchdogs.forget(cycle.watchdogs.armed)
            self._trip()

    def _trip(self) -> None:
        """Apply the policy to a controller that was silent for too long; once a silence."""
        with self._applying:
            if self.stale or self._leaving:
                return
            self.stale = True
            if self.policy != "hold":  # before a park: a step beside it must not switch on what the guard has limped
                self._tripped(frozenset(name for cycle in self._real for name in cycle.servos_by_name))
            # softly from before the motors go off on: a step under way may have goals yet
            if errors := self._apply(self._real, self._restart_softly):
                _complain(errors)
            if self.policy == "hold":
                off = frozenset(name for cycle in self._real for name in powerless(cycle, _PATIENCE))
                if off:
                    self._tripped(off)

    def _insist(self) -> None:
        """Limp the servos that have not confirmed; the watchdog repeats it until they do or a controller moves them."""
        errors: dict[str, BusError] = {}
        for cycle in self._real:
            if names := [name for name in cycle.servos_by_name if name in self._left]:
                with contextlib.suppress(BusError), cycle.bus.turn.held(_PATIENCE):
                    errors |= limp(cycle, names)
        if self.stale:
            self._left = errors

    # -- the guard process --------------------------------------------------------------------------------------------

    def _lines(self) -> tuple[tuple[int, Cycle], ...]:
        """The ports that are open and have a descriptor, which a guard can inherit."""
        ports = ((getattr(getattr(cycle.bus, "port", None), "fd", None), cycle) for cycle in self.cycles)
        return tuple((fd, cycle) for fd, cycle in ports if fd is not None)

    def _ports(self) -> list[object]:
        return [getattr(getattr(cycle.bus, "port", None), "ser", None) for cycle in self.cycles]

    def _names(self) -> tuple[tuple[str, Cycle], ...]:
        """``BAUD:NAME`` of each port that has no descriptor, for the guard that opens them by name."""
        ports = ((getattr(cycle.bus, "port", None), cycle) for cycle in self._real)
        return tuple(
            (f"{port.baudrate}:{port.port_name}", cycle)
            for port, cycle in ports
            if port is not None and port.ser is not None and port.fd is None and cycle.servos
        )

    def _start_guard(self) -> None:
        lines = self._lines()
        ports = lines or self._names()
        if self._leaving or not (self._armed and self._with_guard and ports):
            return
        # the watchdog here acts first, by the policy; the guard is for a host that hangs
        silence = 0.0 if self._silence is None else 2 * self._silence + 0.1
        flags, kind = (["-I", "-S"], str(silence)) if lines else ([], "named")
        command = [sys.executable, *flags, str(Path(__file__).with_name("guard.py")), kind, *_limp_frames(ports)]
        apart: dict[str, Any] = {"start_new_session": True, "pass_fds": [fd for fd, _ in lines]}  # Ctrl-C is for us
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        channel = _Channel()
        try:
            guard = subprocess.Popen(command, stdin=channel.other_end, stdout=subprocess.DEVNULL, **apart)
        except OSError as failure:
            channel.close()
            self._with_guard = False
            text = f"no guard process: {failure}; SIGKILL would leave the motors on"
            try:
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            except RuntimeWarning as refused:
                hint = f"see that {sys.executable} can be run, or let warnings be warnings"
                raise BusError(text, hint) from refused
            return
        finally:
            channel.close_other_end()
        self._channel = channel
        self._guard, self._guarded, self._restores, self._shown_at = guard, lines, {}, -math.inf
        self._guarded_ports = self._ports()

    def _feed_guard(self) -> None:
        if not self._leaving and (self._guard is None or self._guarded_ports != self._ports()):  # its port was lost
            self._end_guard(b"q")
            self._start_guard()
        try:
            if self._fed_at - self._shown_at > _OFTEN:  # it waits for more than twice the silence
                self._show_life()
        except OSError:  # it was killed: a new one takes over
            self._end_guard(b"q")
            self._start_guard()

    def update_guard(self) -> None:
        """Let the guard know which EEPROM it has to give back if this process dies; after each step's commands."""
        restores = {
            (fd, id_): (cycle.bus.protocol(id_), address, data)
            for fd, cycle in self._guarded
            if cycle.bus.borrowed
            for id_, (address, data) in cycle.bus.borrowed.items()
            if id_ not in cycle.bus.virtual_ids
        }
        if restores == self._restores:
            return
        with self._guarding, contextlib.suppress(OSError):  # it hears of it in the next step, or a new guard does
            if self._guard is None:
                return
            for fd, id_ in self._restores.keys() - restores.keys():
                self._channel.send(f"-{fd}:{id_};".encode())
                del self._restores[fd, id_]
            for (fd, id_), (protocol, address, data) in restores.items() - self._restores.items():
                message = _frames(protocol, fd, id_, address, data)
                self._channel.send(f"={message};".encode())  # all of it or nothing: it is short enough for that
                self._restores[fd, id_] = protocol, address, data

    def _note_life(self) -> None:
        self._fed_at = time.monotonic()
        if self._silence is not None:
            for cycle in self._real:
                cycle.expires = self._fed_at + self._silence

    def _show_life(self) -> None:
        self._shown_at = time.monotonic()
        if self._guard is not None:
            with contextlib.suppress(BlockingIOError):  # the channel is full of signs of life
                self._channel.send(b".")

    def dismiss_guard(self) -> None:
        """End the guard, after it has limped what the policy could not; report what neither could."""
        self._leaving = True
        if not self._held:
            return  # another thread may write yet: the guard acts when this process is gone
        ports = [
            f"{fd}:{','.join(ids)}"
            for fd, cycle in self._guarded
            if (ids := [str(servo.id) for servo in _guarded(cycle) if servo.name in self._left])
        ]
        with self._guarding, ExitStack() as lines:
            for cycle in self._real if ports else ():  # only the guard may use the line
                with contextlib.suppress(BusError):
                    lines.enter_context(cycle.bus.turn.held(_PATIENCE))
            confirmed = self._end_guard(f"!{' '.join(ports)};".encode() if ports else b"q")
        real = {servo.name for cycle in self._real for servo in _guarded(cycle)}
        left, self._left = {name: error for name, error in self._left.items() if name in real}, {}
        if left and not confirmed:
            NETS.unconfirmed.extend(left)
            _complain(left)

    def _end_guard(self, farewell: bytes) -> bool:
        """Whether there was a guard, and it has switched off what the farewell asks.

        Where an exception has interrupted the wait for it, it stays `_guard`, and another call waits for it.
        """
        guard = self._guard
        if guard is None:
            return False
        if not self._farewell:
            with contextlib.suppress(OSError):
                self._channel.send(farewell)
            self._farewell = farewell
        try:
            guard.wait(timeout=_GUARD_PATIENCE)
        except subprocess.TimeoutExpired:
            guard.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                guard.wait(timeout=_GUARD_PATIENCE)
        confirmed = guard.returncode == 0 and self._farewell == farewell != b"q"
        if self._guard is guard:  # else a signal handler has waited for it meanwhile
            self._channel.close()
            self._guard, self._guarded, self._farewell = None, (), b""
        return confirmed


class _Channel:
    """To the guard's standard input.

    A pipe whose reader is dead raises SIGPIPE, and where a program has set the default action, that ends it before any
    policy. So this is a socket that raises `OSError` alone. Windows has no such signal, and there it is a pipe.
    """

    def __init__(self) -> None:
        self._end = -1  # of the pipe
        self._socket: socket.socket | None = None
        if sys.platform == "win32":
            self.other_end, self._end = os.pipe()
            return
        other, self._socket = socket.socketpair()
        self.other_end = other.detach()
        self._socket.setblocking(False)
        if sys.platform == "darwin":
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_NOSIGPIPE, 1)

    def send(self, data: bytes) -> None:
        if self._socket is None:
            os.write(self._end, data)
        else:
            self._socket.send(data, _NO_SIGNAL)

    def close(self) -> None:
        if self._socket is None:
            os.close(self._end)
        else:
            self._socket.close()

    def close_other_end(self) -> None:
        os.close(self.other_end)


def _limp_frames(lines: Iterable[tuple[int | str, Cycle]]) -> list[str]:
    """All servos on these ports as the guard takes them: how each is switched off, and its watchdog."""
    return [
        _frames(
            protocol := servo.protocol,
            port,
            servo.id,
            protocol.torque_enable,
            b"\0",
            protocol.limp_frame(other.id for other in _guarded(cycle) if other.protocol is protocol),
            b"" if protocol.watchdog is None else protocol.write_frame(servo.id, protocol.watchdog, b"\0"),
        )
        for port, cycle in lines
        for servo in _guarded(cycle)
    ]


def _guarded(cycle: Cycle) -> list[CycleServo]:
    """The servos that outlive this process."""
    return [servo for servo in cycle.servos if servo.id not in cycle.bus.virtual_ids]


def _frames(protocol: Protocol, port: int | str, id: int, address: int, data: bytes, *others: bytes) -> str:
    """What is to be written to a servo, as the guard takes it; see `axbridge.robot.safety.guard.Guarded`."""
    write, question = protocol.write_frame(id, address, data), protocol.read_frame(id, address, len(data))
    answers = [answer.hex() for answer in protocol.answers(id, data)]
    return json.dumps([port, id, write.hex(), question.hex(), answers, *(frame.hex() for frame in others)])


def _complain(errors: Mapping[str, BusError]) -> None:
    names = ", ".join(f"{name} ({error.message})" for name, error in errors.items())
    text = "\n" * os.isatty(_STDERR) + f"axbridge: these servos may still be powered: {names}\ncut the servo supply\n"
    with contextlib.suppress(OSError):
        os.write(_STDERR, text.encode(errors="replace"))  # print must not be used in a signal handler
