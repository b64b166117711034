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
from axbridge.physics.columns import Command, State
from axbridge.virtual.world import Bank

__all__ = ["RemoteBank"]

_ROW = struct.Struct(f"={2 + len(Command)}d")  # index, time, the row
_STEP, _IDLE_STEP = 0.002, 0.01  # s between two advances while something moves, and while all is limp and still
_STILL = 1e-3  # rad/s
_BEHIND = 0.25  # s of lag after which the simulation gives up catching up
_NOTE = 512  # bytes for the last words of the process
_CHECK = 0.1  # s between two looks whether it lives


class RemoteBank:
    """Stands in for a bank that it takes over into a child process, where wall time moves it.

    Args:
        bank: The motors; not to be used here any more.

    Attributes:
        state: Rows of `State`, at most a few milliseconds old.
        supply: Volts of each bus; writable.
    """

    def __init__(self, bank: Bank) -> None:
        bank.advance(1e-3)  # one substep: kernels are compiled, and all readings are there, before the process starts
        rows, buses = len(bank.state), len(bank.supply)
        count = rows * len(State) + buses + 2
        self._memory = mmap.mmap(-1, count * 8 + _NOTE)
        shared = np.frombuffer(self._memory, dtype=np.float64, count=count)
        self.state: FloatArray = shared[: rows * len(State)].reshape(rows, len(State))
        self.supply: FloatArray = shared[rows * len(State) : -2]
        self._standstill = shared[-2:-1]
        self._origin = shared[-1:]  # monotonic time at which simulated time was 0; NaN: not started
        self.state[:] = bank.state
        self.supply[:] = bank.supply
        self._origin[0] = np.nan
        self.time = 0.0
        self._rows = [[0.0] * len(Command) for _ in range(rows)]  # as commanded last
        self._lost = 0.0
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

    def sampled(self, rows: IntArray, times: Sequence[float]) -> FloatArray:  # noqa: ARG002 - time passes
        """As they are now: wall time moves the motors, so nothing is asked about the past."""
        state: FloatArray = self.state[rows]
        return state

    @property
    def standstill(self) -> float:
        """The longest time the motors stood still between two advances, s: a few ms unless the machine is busy."""
        return float(self._standstill[0])

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
            bank.set_command(int(index), row, when - self._lost)  # the bank's clock stood still while time was lost

    def _now(self) -> float | None:
        """The line's time; None before it has started."""
        if np.isnan(self._origin[0]):
            return None
        now = time.monotonic() - float(self._origin[0])
        self._standstill[0] = max(self._standstill[0], now - self.time)
        if now - self.time > _BEHIND:  # this machine is too slow, or was suspended: that time is lost
            self._lost += now - self.time - _STEP
        self.time = now
        return now

    def _follow(self, bank: Bank, now: float) -> None:
        bank.supply[:] = self.supply
        bank.advance(now - self._lost)
        self.state[:] = bank.state

    def _pause(self) -> float:
        quiet = not self.state[:, State.DUTY].any() and abs(self.state[:, State.SPEED]).max(initial=0.0) < _STILL
        return _IDLE_STEP if quiet else _STEP
