"""The safety net: no motor stays powered after its program has ended, failed or hung.

`Safety` applies a policy at every exit: ``limp`` (torque off), ``hold`` (keep the present position, powered) or
``park`` (move slowly to a pose, then limp). Exits are `release`, an exception, SIGINT, SIGTERM, SIGHUP, the
interpreter's end, and a controller that stops calling `feed`. After SIGKILL, a crash, or a hang with the interpreter
locked no Python code runs; then the guard process (`axbridge.robot.safety.guard`) switches torque off. The guard may
end only when every servo has confirmed torque off or its hold. A servo that does not confirm its hold is limped. One
that does not confirm torque off is left to the guard, which repeats it.
"""

from __future__ import annotations

import contextlib
import functools
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
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from axbridge.bus.cycle import Cycle, CycleServo
from axbridge.bus.line_lock import BusLock
from axbridge.bus.protocols.protocol import Protocol
from axbridge.bus.serial import SerialBus
from axbridge.clock import WallClock
from axbridge.errors import BusError, PortError
from axbridge.robot.safety.exits import Exits
from axbridge.robot.safety.policies import Policy, disarm, hold, limp, park, powerless

_log = logging.getLogger(__name__)
_STDERR = 2
_TICK = 0.05  # s; longest interval between checks of the watchdog thread
_PATIENCE = 2.0  # s to wait for the end of another thread's transaction
_CONFIRMATION = 1.0  # s in which torque off is repeated at a signal: a busy computer may delay all replies for 0.5 s
_HEARTBEAT = 0.02  # s; shortest interval between heartbeats to the guard
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_SO_NOSIGPIPE = 0x1022  # of macOS, from <sys/socket.h>
_PORT_PATIENCE = 5.0  # s to wait for a lost port at the end of the program; an adapter that was reset is back by then
_GUARD_PATIENCE = 3.0  # s for the guard to end: it reads the servos for half of that


class Nets:
    """The safety nets that are armed in this process.

    When the program ends, its buses stay reserved after the policy: no thread can move a servo, and the guards write
    last. A signal that the program itself handles need not end it: then only the main thread, which runs the handler,
    may command the servos.
    """

    def __init__(self) -> None:
        # Servos that neither net nor guard could switch off since the latest `add`; they may still be powered
        self.unconfirmed: list[str] = []
        self._ending = threading.RLock()
        self._nets: list[Safety] = []
        self._process = -1
        self._exits = Exits(self.apply_at_end, self._interrupt, lambda: self.turns)

    @property
    def ending(self) -> AbstractContextManager[object]:
        """Return the lock of the thread that ends the program, for which others wait.

        While the interpreter is finalized it locks nothing: a thread that holds it then never releases it.
        """
        return contextlib.nullcontext() if sys.is_finalizing() else self._ending

    @property
    def armed(self) -> tuple[Safety, ...]:
        """Return the armed nets, parking ones last; none in a forked child, which does not own the robots."""
        return tuple(sorted(self._nets, key=lambda net: net.policy == "park")) if os.getpid() == self._process else ()

    @property
    def turns(self) -> list[BusLock]:
        """Return the locks of the nets' buses."""
        return [turn for net in self.armed for turn in net.turns]

    def add(self, net: Safety) -> None:
        """Add a net and hook every exit of this process."""
        if self._process != os.getpid():  # nets inherited by forking are the parent's
            self._nets.clear()
            self._process = os.getpid()
            self._ending = threading.RLock()
        self._nets.append(net)
        self.unconfirmed.clear()
        self._exits.install()

    def remove(self, net: Safety) -> None:
        """Remove a net; with the last one, unhook the exits."""
        if net in self._nets:
            self._nets.remove(net)
        if not self._nets:
            self._exits.uninstall()

    def apply_at_end(self) -> None:
        """Apply every policy when the program ends, and keep the buses reserved.

        Later actions are done even if one fails or a further signal interrupts it.
        """
        if not self.armed:
            return
        with self.ending, ExitStack() as steps:  # called from the last to the first
            nets = self.armed
            for net in nets:
                steps.callback(self.remove, net)
            for net in nets:
                steps.callback(net.close_lines)
            for net in [*nets, *nets]:  # twice, in case a further signal ends the wait for a guard
                steps.callback(net.dismiss_guard)
            for net in reversed(nets):
                steps.callback(net.apply_and_lock)
            _reserve(self.turns, threading.get_ident())

    def _interrupt(self, number: int) -> None:
        """Apply every policy; from now on only the main thread may command the servos."""
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
    """The safety net for the servos of some cycles, from `arm` to `disarm`.

    It also applies the policy when `feed` was not called for `stale_command_ms`, in wall time, and then calls `tripped`
    with the servos that were switched off, from any thread. If the program ends without `__exit__`, `restore` is called
    after the policy.
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
        absent: Callable[[], frozenset[str]] = frozenset,  # servos that have never replied need not confirm
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
        self._leaving = False  # at the end of the program: `feed` has no effect
        self._port_awaited = False  # at the end of the program: a lost port is awaited once
        self._held = True  # whether the locks of all buses were taken at the end of the program
        self._releasing = self._released = False
        self._releases = 0
        self._left: Mapping[str, BusError] = {}  # servos that have not confirmed the policy
        self._reported: set[str] = set()  # servos of which it was printed
        self._absent = absent
        self._fed_at = time.monotonic()
        self._beat_at = -math.inf  # time of the latest heartbeat to the guard
        self._applying = threading.RLock()
        self._guarding = threading.RLock()  # held while a guard is started or ended
        self._stop = threading.Event()
        self._watchdog: threading.Thread | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._last_message = b""  # last message to the guard, before it ends
        self._guarded: tuple[tuple[int, Cycle], ...] = ()  # the buses whose ports the guard has inherited
        self._guarded_ports: list[object] = []  # their ports: a reopened port may have its old descriptor
        self._channel: _Channel
        self._restores: set[str] = set()  # writes of the guard after the end of this process

    # -- life ---------------------------------------------------------------------------------------------------------

    def arm(self) -> None:
        """Hook signals and the interpreter's exit; start watchdog thread and guard process."""
        self._armed = True
        self._leaving = self._port_awaited = False
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
        """Unhook exits, end watchdog and guard, without the policy; may be called twice. No effect in a forked child.

        The guard switches off servos that did not confirm the last `release`; those it cannot are reported.
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
        """Feed the watchdog; call it once a step. After a silence, goals start again at the present position."""
        if self._silence is not None and self._real and time.monotonic() - self._fed_at > self._silence:
            self._trip()  # the process was stopped: its watchdog thread could not act, and the guard has acted
        if any(cycle.watchdogs.doubtful for cycle in self._real):
            self._feed_watchdogs()
        self._note_life()
        if self._leaving:  # in another thread
            return
        self._released = False
        self._left = {}
        if self.stale:
            with self._applying:  # the watchdog may still apply the policy
                self.stale = False
        with self._guarding:
            self._feed_guard()

    def release(self) -> dict[str, BusError]:
        """Apply the policy now to every servo, despite failures; return those that did not confirm, by name.

        A call during or after an earlier park limps, because parking again would switch motors on.
        """
        return self._apply(self.cycles)

    def limp(self) -> dict[str, BusError]:
        """Switch every motor off now, under any policy, from any thread; return the servos that did not confirm."""
        self._releases += 1  # ends a running park
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
        """Apply the policy and disarm. After an exception, a further call continues."""
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
        """Park if that is the policy, call `parked`, then hold or limp; return servos that did not confirm, by name.

        An exception, as from a second signal, ends the park; the servos are limped or hold before it is raised. After
        a further exception the guard switches off all servos.
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
        """Return the policy after a park, or without one."""
        return "hold" if self.policy == "hold" else "limp"

    def _unconfirmed(self, cycles: Sequence[Cycle]) -> dict[str, BusError]:
        names, absent = (name for cycle in cycles for name in cycle.servos_by_name), self._absent()
        return {name: BusError("the policy was interrupted") for name in names if name not in absent}

    def _park(self, cycles: Sequence[Cycle]) -> None:
        """Move to the park pose if that is the policy and was not done yet."""
        already_released = self._releasing or self._released
        self._releasing = self._released = True
        self._releases += 1
        turn = self._releases

        def given_up() -> bool:
            self._note_life()
            with contextlib.suppress(OSError):  # the guard has ended
                self._show_life()  # no step does it during a park
            return self._releases != turn

        try:
            for cycle in cycles if self.policy == "park" and not already_released else ():
                with contextlib.suppress(Exception):  # the servos are limped after any error
                    # a later release, in a signal handler or another thread, limps; a running park would undo that
                    park(cycle, self._pose, given_up=given_up)
        finally:
            self._releasing = False

    def _hold_or_limp(self, policy: Policy, cycles: Sequence[Cycle]) -> dict[str, BusError]:
        """Hold or limp with the buses locked; return the servos that did not confirm, by name."""
        self._left = self._unconfirmed(cycles)
        errors: dict[str, BusError] = {}
        for cycle in cycles[1:] if policy == "limp" else ():  # must not wait for time-outs on another bus
            with contextlib.suppress(Exception), cycle.bus.turn.held(_TICK):
                for protocol, ids in cycle.bus.by_protocol(servo.id for servo in cycle.servos).items():
                    cycle.bus.limp_all(protocol, ids)
        for cycle in cycles:
            errors |= self._hold_or_limp_bus(policy, cycle)
        if self._leaving and not self._port_awaited:
            self._port_awaited = True
            errors = self._await_ports(policy, errors)
        absent = self._absent()
        self._left = errors = {name: error for name, error in errors.items() if name not in absent}
        self._reported &= errors.keys()
        return errors

    def _hold_or_limp_bus(self, policy: Policy, cycle: Cycle) -> dict[str, BusError]:
        try:
            with cycle.bus.turn.held(_PATIENCE):
                failed = None  # all servos must be limped
                if policy == "hold":
                    disarm(cycle)  # an expired Bus Watchdog refuses goals
                    with contextlib.suppress(Exception):  # after any error all are limped
                        failed = list(hold(cycle))
                left: dict[str, BusError] = {}
                if failed is None or failed:
                    left = limp(cycle, failed)
                    disarm(cycle, left)
                return left
        except Exception as failure:  # noqa: BLE001 - no error may keep the next bus from being limped
            unknown = failure if isinstance(failure, BusError) else BusError(f"{type(failure).__name__}: {failure}")
            return dict.fromkeys(cycle.servos_by_name, unknown)

    def _await_ports(self, policy: Policy, errors: dict[str, BusError]) -> dict[str, BusError]:
        """Wait for ports that are lost, and hold or limp their servos; return the servos that have not confirmed."""
        ports = {error.port for error in errors.values() if isinstance(error, PortError)}
        buses = ((cycle, cycle.bus) for cycle in self._real if isinstance(cycle.bus, SerialBus))
        lost = [cycle for cycle, bus in buses if bus.port_name in ports and not bus.ended]
        if lost:
            then = "switch them off" if policy == "limp" else f"{policy} them"
            wait = f"waiting {_PORT_PATIENCE:g} s for it, to {then}"
            _print(f"{', '.join(sorted(ports))} was lost, and motors may have torque: {wait}")
        end = time.monotonic() + _PORT_PATIENCE
        while lost and time.monotonic() < end:
            time.sleep(_TICK)
            for cycle in tuple(lost):
                with contextlib.suppress(PortError):
                    cycle.reconnect()
                    lost.remove(cycle)
                    left = {name: error for name, error in errors.items() if name not in cycle.servos_by_name}
                    errors = left | self._hold_or_limp_bus(policy, cycle)
        return errors

    def _complain(self, errors: Mapping[str, BusError]) -> None:
        """Print that servos may still be powered; each once, until it confirms the policy."""
        new = {name: error for name, error in errors.items() if name not in self._reported}
        self._reported |= new.keys()
        if not new:
            return
        names = ", ".join(f"{name} ({error.message})" for name, error in new.items())
        _print(f"these servos may still be powered: {names}\ncut the servo supply")

    # -- called by `NETS` ---------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Apply the policy at a signal; if the program continues, goals start at the present position unless held."""
        errors = self._apply(self._real, self._restart_softly if self._rest == "limp" else lambda: None)
        end = time.monotonic() + _CONFIRMATION
        while time.monotonic() < end and any(not isinstance(error, PortError) for error in errors.values()):
            self._left = errors = self._limp_again(errors)
        self._complain(errors)

    def apply_and_lock(self) -> None:
        """Apply the policy, and keep the buses locked."""
        self._leaving = True
        self._apply(self._real, self._take_lines)

    def _take_lines(self) -> None:
        held = [turn.lock.acquire(timeout=_PATIENCE) for turn in self.turns]
        self._held = all(held)

    def _restart_softly(self) -> None:
        for cycle in self._real:
            cycle.restart_softly()

    def close_lines(self) -> None:
        """Restore EEPROM and close the ports, unless another thread still holds a bus: then the guard stays."""
        if not (self._real and self._held):
            return
        try:
            self._restore()
        finally:
            for cycle in self._real:
                cycle.bus.close()
            for turn in self.turns:  # taken by `_take_lines`; a waiting thread then finds its port closed and can end
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
                    left = self._limp_again(self._left)
                    if self.stale:  # else `feed` was called meanwhile
                        self._left = left
            if any(cycle.watchdogs.feed_due for cycle in self._real):
                self._feed_watchdogs()
            if self.policy == "hold" and (self.stale or self._leaving):  # else the guard would limp holding servos
                with self._guarding:
                    self._beat_at = -math.inf
                    self._feed_guard()

    def _feed_watchdogs(self) -> None:
        """Read the Bus Watchdogs, which feeds them. An expired one shows that this process was stopped: trip."""
        expired: list[int] = []
        for cycle in self._real:
            if cycle.watchdogs.armed:
                with contextlib.suppress(BusError), cycle.bus.turn.held(_PATIENCE):
                    expired += cycle.watchdogs.poll()
        if expired and not self.stale:
            _log.warning("the Bus Watchdog of servos %s has expired: this program stood still", sorted(expired))
            if self.policy == "park":  # so that the servos accept goals again
                for cycle in self._real:
                    cycle.watchdogs.mark_unarmed(cycle.watchdogs.armed)
            self._trip()

    def _trip(self) -> None:
        """Apply the policy after a silence of the controller, once for each silence."""
        with self._applying:
            if self.stale or self._leaving:
                return
            self.stale = True
            # before a park: a concurrent step must not switch on servos that the guard limped
            if self.policy != "hold":
                self._tripped(frozenset(name for cycle in self._real for name in cycle.servos_by_name))
            # soft start is set before the motors go off, because a running step may still send goals
            self._complain(self._apply(self._real, self._restart_softly))
            if self.policy == "hold":
                off = frozenset(name for cycle in self._real for name in powerless(cycle, _PATIENCE))
                if off:
                    self._tripped(off)

    def _limp_again(self, left: Mapping[str, BusError]) -> dict[str, BusError]:
        """Limp the servos that have not confirmed; return those that still do not."""
        errors: dict[str, BusError] = {}
        for cycle in self._real:
            if names := [name for name in cycle.servos_by_name if name in left]:
                try:
                    with cycle.bus.turn.held(_PATIENCE):
                        errors |= limp(cycle, names)
                except BusError as failure:
                    errors |= dict.fromkeys(names, failure)
        return errors

    # -- the guard process --------------------------------------------------------------------------------------------

    def _ports(self) -> list[tuple[Any, Cycle]]:
        """Return the ports of real buses, with their cycles."""
        return [(port, cycle) for cycle in self._real if (port := getattr(cycle.bus, "port", None)) is not None]

    def _start_guard(self) -> None:
        numbered = [(number, port, cycle) for number, (port, cycle) in enumerate(self._ports(), 1)]
        ports = [(number, port, cycle) for number, port, cycle in numbered if port.ser is not None]
        lines = [port.fd for _, port, _ in ports if port.fd is not None]  # the guard inherits these descriptors
        if lines:  # a lost port has a negative number
            ports = [(-number if port.ser is None else port.fd, port, cycle) for number, port, cycle in numbered]
        if self._leaving or not (self._armed and self._with_guard and ports):
            return
        # the watchdog thread acts first, by the policy; the guard acts if this process hangs
        silence = 0.0 if self._silence is None else 2 * self._silence + 0.1
        flags, kind = (["-I", "-S"], str(silence)) if lines else ([], "named")
        script = str(Path(__file__).with_name("guard.py"))
        names = json.dumps({key: (port.port_name, port.baudrate, sorted(port.marks)) for key, port, _ in ports})
        command = [sys.executable, *flags, script, kind, names, *_limp_frames((key, cycle) for key, _, cycle in ports)]
        apart: dict[str, Any] = {"start_new_session": True, "pass_fds": lines}  # no Ctrl-C
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
                hint = f"see that {sys.executable} can be run, or do not turn warnings into errors"
                raise BusError(text, hint) from refused
            return
        finally:
            channel.close_other_end()
        self._channel = channel
        self._guard, self._restores, self._beat_at = guard, set(), -math.inf
        self._guarded = tuple((key, cycle) for key, _, cycle in ports) if lines else ()
        self._guarded_ports = [port.ser for port, _ in self._ports()]

    def _feed_guard(self) -> None:
        reopened = any(port.ser is not None and port.ser not in self._guarded_ports for port, _ in self._ports())
        if not self._leaving and (self._guard is None or reopened):
            self._end_guard(b"q")
            self._start_guard()
        try:
            if self._fed_at - self._beat_at > _HEARTBEAT:  # the guard waits for more than twice the silence
                self._show_life()
        except OSError:  # the guard was killed: start a new one
            self._end_guard(b"q")
            self._start_guard()

    def update_guard(self) -> None:
        """Send the guard the registers that it must restore after a crash; call it in each step."""
        restores = {
            _frames(cycle.bus.protocol(id_), fd, id_, address, data)
            for fd, cycle in self._guarded
            for (id_, address), data in {**cycle.bus.borrowed, **cycle.final_limits}.items()
            if id_ not in cycle.bus.virtual_ids
        }
        if restores == self._restores:
            return
        with self._guarding, contextlib.suppress(OSError):  # repeated in the next step, or for a new guard
            for sign, servos in ("-", self._restores - restores), ("=", restores - self._restores):
                for servo in servos if self._guard is not None else ():
                    self._channel.send(f"{sign}{servo};".encode())  # short enough to be sent whole or not at all
                    self._restores ^= {servo}

    def _note_life(self) -> None:
        self._fed_at = time.monotonic()
        if self._silence is not None:
            for cycle in self._real:
                cycle.expires = self._fed_at + self._silence

    def _show_life(self) -> None:
        self._beat_at = time.monotonic()
        if self._guard is not None:
            with contextlib.suppress(BlockingIOError):  # the channel is full of unread heartbeats
                self._channel.send(b".")

    def dismiss_guard(self) -> None:
        """Make the guard limp the servos that the policy could not, and end it; report those still unconfirmed."""
        self._leaving = True
        if not self._held:
            return  # another thread may still write: the guard acts after the end of this process
        ports = [
            f"{fd}:{','.join(ids)}"
            for fd, cycle in self._guarded
            if (ids := [str(servo.id) for servo in _guarded(cycle) if servo.name in self._left])
        ]
        with self._guarding, ExitStack() as lines:
            for cycle in self._real if ports else ():  # only the guard may use the bus
                with contextlib.suppress(BusError):
                    lines.enter_context(cycle.bus.turn.held(_PATIENCE))
            confirmed = self._end_guard(f"!{' '.join(ports)};".encode() if ports else b"q")
        real = {servo.name for cycle in self._real for servo in _guarded(cycle)}
        left, self._left = {name: error for name, error in self._left.items() if name in real}, {}
        if left and not confirmed:
            NETS.unconfirmed.extend(left)
            self._complain(left)

    def _end_guard(self, message: bytes) -> bool:
        """Send the last message and wait for the guard's end; return whether it has switched off the given servos.

        If an exception interrupts the wait, `_guard` stays set, and a further call waits again.
        """
        guard = self._guard
        if guard is None:
            return False
        if not self._last_message:
            with contextlib.suppress(OSError):
                self._channel.send(message)
            self._last_message = message
        try:
            guard.wait(timeout=_GUARD_PATIENCE)
        except subprocess.TimeoutExpired:
            guard.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                guard.wait(timeout=_GUARD_PATIENCE)
        confirmed = guard.returncode == 0 and self._last_message == message != b"q"
        if self._guard is guard:  # else a signal handler has already waited for it
            self._channel.close()
            self._guard, self._guarded, self._last_message = None, (), b""
        return confirmed


class _Channel:
    """The channel to the guard's standard input.

    Writing to a pipe without a reader raises SIGPIPE. If the program has set the default action, that ends it
    before any policy. So this is a socket, which raises only `OSError`; on Windows, which has no SIGPIPE, it is a pipe.
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


def _print(text: str) -> None:
    """Print to standard error, also in a signal handler, where `print` must not be used."""
    with contextlib.suppress(OSError):
        os.write(_STDERR, f"{chr(10) * os.isatty(_STDERR)}axbridge: {text}\n".encode(errors="replace"))


def _limp_frames(lines: Iterable[tuple[int, Cycle]]) -> list[str]:
    """Return the guard's arguments for all servos on these ports: torque off, and Bus Watchdog off."""
    frames = []
    for port, servos in ((port, _guarded(cycle)) for port, cycle in lines):
        for servo in servos:
            protocol = servo.protocol
            off = protocol.limp_frame(other.id for other in servos if other.protocol is protocol)
            last = b"" if protocol.watchdog is None else protocol.write_frame(servo.id, protocol.watchdog, b"\0")
            frames.append(_frames(protocol, port, servo.id, protocol.torque_enable, b"\0", off, last))
    return frames


def _guarded(cycle: Cycle) -> list[CycleServo]:
    """Return the real servos, which stay powered after the end of this process."""
    return [servo for servo in cycle.servos if servo.id not in cycle.bus.virtual_ids]


@functools.lru_cache(256)  # restores are compared in each step
def _frames(protocol: Protocol, port: int, id: int, address: int, data: bytes, *others: bytes) -> str:
    """Return the guard's argument for a register write; see `axbridge.robot.safety.guard.Guarded`."""
    write, question = protocol.write_frame(id, address, data), protocol.read_frame(id, address, len(data))
    answers = [answer.hex() for answer in protocol.answers(id, data)]
    return json.dumps([port, id, write.hex(), question.hex(), answers, *(frame.hex() for frame in others)])
