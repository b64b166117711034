"""Motors and mechanics in a process of their own, so that a physics step never holds up a reply on the line."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import struct
import time
from collections.abc import Sequence

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.errors import AxBridgeError
from axbridge.servo.columns import Command, State
from axbridge.sim.bank import Bank
from axbridge.sim.substep import recall

_ROW = struct.Struct(f"={2 + len(Command)}d")  # index, time, the row
_STEP, _IDLE_STEP = 0.002, 0.01  # s between two advances while something moves, and while all is limp and still
_STILL = 1e-3  # rad/s
_BEHIND = 0.25  # s of lag after which the simulation gives up catching up
_AHEAD = 0.01  # s that the motors are ahead of the clock, where commands take longer than that to act
_MARGIN = 0.01  # s that a command may take from the line to the process
_STANDSTILL = 0.05  # s between two advances from which on clients hear of it
_AT_ONCE = 32  # latest standstills that are kept for them
_GRID = 0.0005  # s between two states that are kept
_KEPT = 64  # of them
_PIECE = 0.02  # s: the longest time in one go: a bank remembers little more
_NOTE = 512  # bytes for the last words of the process
_CHECK = 0.1  # s between two looks whether it lives


class RemoteBank:
    """Stands in for a bank that it takes over into a child process, where wall time moves it.

    A read wants the state at the moment it is asked. The process wakes up every 2 ms at best, later on a busy machine.
    Where commands take their time to act, nobody can tell what it already knows of the next milliseconds: so it goes
    ahead, and keeps states for `sampled`. Where they act at once, reads get the latest state.

    Args:
        bank: The motors; not to be used here any more.

    Attributes:
        state: Rows of `State`, at most a few milliseconds old.
        foresight: See `Bank`.
        supply: Volts of each bus; writable.
    """

    def __init__(self, bank: Bank) -> None:
        bank.advance(_PIECE)  # kernels are compiled, and all readings are there, before the process starts
        rows, buses = len(bank.state), len(bank.supply)
        self.foresight = bank.foresight
        count = (1 + _KEPT) * rows * len(State) + buses + 2 * _AT_ONCE + 5
        self._memory = mmap.mmap(-1, count * 8 + _NOTE)
        shared = np.frombuffer(self._memory, dtype=np.float64, count=count)
        self.state: FloatArray = shared[: rows * len(State)].reshape(rows, len(State))
        self._past = shared[rows * len(State) : (1 + _KEPT) * rows * len(State)].reshape(_KEPT, rows, len(State))
        self.supply: FloatArray = shared[(1 + _KEPT) * rows * len(State) :][:buses]
        self._standstills = shared[-2 * _AT_ONCE - 5 : -5].reshape(_AT_ONCE, 2)  # begin and end (`time.monotonic`)
        self._noted = shared[-5:-4]  # how many so far
        self._reported = 0
        self._latest = shared[-4:-3]  # number of the latest of them; it is kept `_GRID` times that, on the bank's clock
        self._lost = shared[-3:-2]  # s that the bank's clock is behind the line's
        self._standstill = shared[-2:-1]
        self._origin = shared[-1:]  # monotonic time at which simulated time was 0; NaN: not started
        self.state[:] = self._past[:] = bank.state
        self.supply[:] = bank.supply
        self._every = np.arange(rows)
        self.sampled(self._every, [0.0] * rows)
        bank.sampled(self._every, [0.0] * rows)
        self._origin[0] = np.nan
        self.time = 0.0
        self._rows = [[0.0] * len(Command) for _ in range(rows)]  # as commanded last
        self._next_check = 0.0
        ours, self._commands = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._commands)
            self._live(bank, ours)
        os.close(ours)

    def set_command(self, index: int, row: list[float], time: float) -> None:
        """See `ServoBank.set_command`."""
        self._rows[index] = list(row)
        with contextlib.suppress(BrokenPipeError):  # it has died: `advance` says so
            os.write(self._commands, _ROW.pack(index, time, *row))

    def set_goal(self, index: int, goal: float, speed: float, time: float) -> None:
        """See `ServoBank.set_goal`."""
        row = self._rows[index]
        row[Command.GOAL], row[Command.SPEED] = goal, speed
        self.set_command(index, row, time)

    def advance(self, until: float) -> None:
        """Time passes by itself; the first call tells what the time is now.

        Raises:
            AxBridgeError: the simulation has stopped; says why.
        """
        if np.isnan(self._origin[0]):
            self._origin[0] = time.monotonic() - until
        self.time = until
        if until >= self._next_check:
            self._next_check = until + _CHECK
            if self._child and os.waitpid(self._child, os.WNOHANG)[0]:
                self._child = 0
                note = self._memory[-_NOTE:].rstrip(b"\0").decode(errors="replace")
                raise AxBridgeError(f"the simulation stopped: {note or 'no reason given'}", "start the server again")

    def sampled(self, rows: IntArray, times: Sequence[float]) -> FloatArray:
        """Rows of `State` of these servos, each as it was at its own time (s), or the latest there is."""
        states = np.empty((len(rows), len(State)))
        known = np.minimum(np.array(times) - self._lost[0], self._latest[0] * _GRID)
        recall(self._past, rows, np.maximum(known, 0.0), _GRID, states)
        return states

    @property
    def standstill(self) -> float:
        """The longest time the motors stood still between two advances, s: a few ms unless the machine is busy."""
        return float(self._standstill[0])

    def standstills(self) -> list[tuple[float, float]]:
        """Begin and end (s, `time.monotonic`) of standstills since the last call; of the short ones none."""
        noted = int(self._noted[0])
        if noted == self._reported:
            return []
        first, self._reported = max(self._reported, noted - _AT_ONCE), noted
        return [(float(begin), float(end)) for begin, end in self._standstills[np.arange(first, noted) % _AT_ONCE]]

    def close(self) -> None:
        """End the process; may be called twice."""
        if self._commands >= 0:
            os.close(self._commands)
            self._commands = -1
        if self._child:
            os.waitpid(self._child, 0)
            self._child = 0

    def _live(self, bank: Bank, commands: int) -> None:
        """The child: advance with the wall clock until the parent closes its end of the pipe."""
        code = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            os.set_blocking(commands, False)
            os.nice(2)  # the line answers first
            while True:
                now = self._now()
                if not self._obey(bank, commands):
                    break
                if now is not None:
                    self._follow(bank, now)
                select.select([commands], [], [], self._pause())
            code = 0
        except BaseException as failure:  # noqa: BLE001  # the parent reports it
            note = f"{type(failure).__name__}: {failure}".encode()[:_NOTE]
            self._memory[-_NOTE : -_NOTE + len(note)] = note
        finally:
            os._exit(code)

    def _obey(self, bank: Bank, commands: int) -> bool:
        """Hand over what has come; False once the parent has gone."""
        while True:
            try:
                packed = os.read(commands, _ROW.size)
            except BlockingIOError:
                return True
            if len(packed) < _ROW.size:
                return False
            index, when, *row = _ROW.unpack(packed)
            bank.set_command(int(index), row, when - self._lost[0])  # the bank's clock stood still while time was lost

    def _now(self) -> float | None:
        """The line's time; None before it has started."""
        if np.isnan(self._origin[0]):
            return None
        origin = float(self._origin[0])
        now = time.monotonic() - origin
        if now - self.time > _STANDSTILL:
            self._standstills[int(self._noted[0]) % _AT_ONCE] = origin + self.time, origin + now
            self._noted[0] += 1  # not before it is there
        self._standstill[0] = max(self._standstill[0], now - self.time)
        if now - self.time > _BEHIND:  # this machine is too slow, or was suspended: that time is lost
            self._lost[0] += now - self.time - _STEP
        self.time = now
        return now

    def _follow(self, bank: Bank, now: float) -> None:
        """Advance, and keep the states on the way."""
        bank.supply[:] = self.supply
        ahead = min(_AHEAD, max(0.0, self.foresight - _MARGIN))
        due = now - self._lost[0]
        last = int((due + ahead) / _GRID)
        while (begin := int(self._latest[0])) < last:
            end = min(last, begin + int(_PIECE / _GRID))
            bank.advance(end * _GRID)
            for number in range(begin + 1, end + 1):
                self._past[number % _KEPT] = bank.sampled(self._every, [number * _GRID] * len(self._every))
            self._latest[0] = end  # not before they are there
        self.state[:] = self.sampled(self._every, [now] * len(self._every))

    def _pause(self) -> float:
        quiet = not self.state[:, State.DUTY].any() and abs(self.state[:, State.SPEED]).max(initial=0.0) < _STILL
        return _IDLE_STEP if quiet else _STEP
