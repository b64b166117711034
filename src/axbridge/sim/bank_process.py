"""Motors and mechanics in a child process, so that a physics step never delays a reply on the line."""

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
from axbridge.jit import compile_first
from axbridge.servo.columns import Command, State
from axbridge.sim.bank import GOAL, Bank
from axbridge.sim.substep import recall

_ROW = struct.Struct(f"={2 + len(Command)}d")  # index, time, row of `Command`
_STEP, _IDLE_STEP = 0.002, 0.01  # s between two advances during motion; while all motors are limp and at rest
_AT_REST = 1e-3  # rad/s
_LARGEST_LAG = 1.0  # s behind the wall clock; a simulation that is later does not catch up
_LEASE = 0.03  # s that the motors move on after the latest `advance`, because its caller may be suspended
_AHEAD = 0.01  # s that the motors are ahead of the clock when the latency of all commands is longer
_MARGIN = 0.01  # s: time of a command from the line to the child
_GRID = 0.0005  # s between two stored states
_STORED = 64  # number of stored states
_PIECE = 0.02  # s: longest `advance` of the bank, which stores past states for little longer
_NOTE = 4096  # bytes for the error of the child; a message of numba has some hundred
_RESET = -1e9  # in place of a servo's index: see `Bank.reset`
_TIMEOUT = 5.0  # s until an order of `place` or `reset` is carried out
_CHECK = 0.1  # s between two checks whether the child runs


class RemoteBank:
    """Proxy of a bank that a child process advances with the wall clock; see `Bank`.

    A read needs the state at its own time, but the child wakes up only every 2 ms. If all commands have a latency, the
    child simulates ahead by less than the latency, and stores states for `sampled`. Otherwise reads get the latest
    state.
    """

    def __init__(self, bank: Bank) -> None:
        compile_first()
        bank.advance(_PIECE)  # compiles the kernels and sets all readings before the child starts
        rows, buses = len(bank.state), len(bank.supply)
        self.foresight = bank.foresight
        count = (1 + _STORED) * rows * len(State) + buses + 4
        self._memory = mmap.mmap(-1, count * 8 + _NOTE)
        shared = np.frombuffer(self._memory, dtype=np.float64, count=count)
        self.state: FloatArray = shared[: rows * len(State)].reshape(rows, len(State))
        self._past = shared[rows * len(State) : (1 + _STORED) * rows * len(State)].reshape(_STORED, rows, len(State))
        self.supply: FloatArray = shared[(1 + _STORED) * rows * len(State) :][:buses]
        self._done = shared[-4:-3]  # 1 when the latest order was carried out
        self._latest = shared[-3:-2]  # number of the latest stored state; times `_GRID`, its time on the bank's clock
        self._origin = shared[-2:-1]  # monotonic time at which the bank's clock was 0; NaN = not started
        self._lease = shared[-1:]  # s on the bank's clock: the child does not advance beyond it
        self._lost = 0.0  # s that the bank's clock is behind the line's
        self.state[:] = self._past[:] = bank.state
        self.supply[:] = bank.supply
        self._every = np.arange(rows)
        self.sampled(self._every, [0.0] * rows)
        bank.sampled(self._every, [0.0] * rows)
        self._origin[0] = np.nan
        self.time = 0.0
        self._rows = [[0.0] * len(Command) for _ in range(rows)]  # the last commands
        self._next_check = 0.0
        read_end, self._commands = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._commands)
            self._run_child(bank, read_end)
        os.close(read_end)

    def set_command(self, index: int, row: list[float], time: float) -> None:
        self._rows[index] = list(row)
        with contextlib.suppress(BrokenPipeError):  # the child has ended: `advance` raises the error
            os.write(self._commands, _ROW.pack(index, time - self._lost, *row))

    def set_goals(self, rows: list[int], goals: list[tuple[float, float]], time: float) -> None:
        for index, goal in zip(rows, goals, strict=True):
            self._rows[index][GOAL] = goal
            self.set_command(index, self._rows[index], time)

    def place(self, index: int, angle: float) -> None:
        self._send(-1 - index, angle)

    def reset(self) -> None:
        self._rows = [[0.0] * len(Command) for _ in self._rows]
        self._send(_RESET)

    def _send(self, index: float, angle: float = 0.0) -> None:
        """Send an order other than a motor's command, and wait until it is carried out."""
        self._done[0] = 0.0
        with contextlib.suppress(BrokenPipeError):
            os.write(self._commands, _ROW.pack(index, angle, *[0.0] * len(Command)))
        deadline = time.monotonic() + _TIMEOUT
        while not self._done[0] and time.monotonic() < deadline:
            time.sleep(_GRID)

    def advance(self, until: float) -> None:
        self.time = until  # the child advances by itself
        if self.behind > _LARGEST_LAG:  # this machine is too slow, or was suspended
            self._lost += self.behind
        self._origin[0] = time.monotonic() - until + self._lost
        self._lease[0] = until - self._lost + _LEASE
        if until >= self._next_check:
            self._next_check = until + _CHECK
            if self._child and os.waitpid(self._child, os.WNOHANG)[0]:
                self._child = 0
                note = self._memory[-_NOTE:].rstrip(b"\0").decode(errors="ignore")  # it may end within a character
                raise AxBridgeError(f"the simulation stopped: {note or 'no reason given'}", "start the server again")

    @property
    def behind(self) -> float:
        return float(self.time - self._lost - self._latest[0] * _GRID)

    def sampled(self, rows: IntArray, times: Sequence[float]) -> FloatArray:
        states = np.empty((len(rows), len(State)))
        available = np.minimum(np.array(times) - self._lost, self._latest[0] * _GRID)
        recall(self._past, rows, np.maximum(available, 0.0), _GRID, states)
        return states

    def close(self) -> None:
        if self._commands >= 0:
            os.close(self._commands)
            self._commands = -1
        if self._child:
            os.waitpid(self._child, 0)
            self._child = 0

    def _run_child(self, bank: Bank, commands: int) -> None:
        """Advance with the wall clock until the parent closes its end of the pipe; then end this process."""
        code = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            os.set_blocking(commands, False)
            os.nice(2)  # the process that answers on the line has priority
            while self._handle(bank, commands):
                caught_up = np.isnan(self._origin[0]) or self._follow(bank)
                slow = abs(self.state[:, State.SPEED]).max(initial=0.0) < _AT_REST
                quiet = slow and not self.state[:, State.DUTY].any()
                select.select([commands], [], [], 0.0 if not caught_up else _IDLE_STEP if quiet else _STEP)
            code = 0
        except BaseException as failure:  # noqa: BLE001  # the parent reports it
            note = f"{type(failure).__name__}: {failure}".encode()[:_NOTE]
            begin = len(self._memory) - _NOTE
            self._memory[begin : begin + len(note)] = note
        finally:
            os._exit(code)

    def _handle(self, bank: Bank, commands: int) -> bool:
        """Pass the received commands to the bank; return False when the parent has closed the pipe."""
        while True:
            try:
                packed = os.read(commands, _ROW.size)
            except BlockingIOError:
                return True
            if len(packed) < _ROW.size:
                return False
            index, when, *row = _ROW.unpack(packed)
            if index >= 0:
                bank.set_command(int(index), row, when)
                continue
            if index == _RESET:
                bank.reset()
            else:
                bank.place(-1 - int(index), when)
            self._past[:] = self.state[:] = bank.state
            self._done[0] = 1.0

    def _follow(self, bank: Bank) -> bool:
        """Advance by at most `_PIECE` and store the states; return whether the bank has reached the clock."""
        bank.supply[:] = self.supply
        due = min(time.monotonic() - self._origin[0], self._lease[0])
        begin = int(self._latest[0])
        last = int((due + min(_AHEAD, max(0.0, self.foresight - _MARGIN))) / _GRID)
        end = min(last, begin + int(_PIECE / _GRID))
        if end > begin:
            bank.advance(end * _GRID)
            for number in range(begin + 1, end + 1):
                self._past[number % _STORED] = bank.sampled(self._every, [number * _GRID] * len(self._every))
            self._latest[0] = end  # only after the states are written: the parent reads them
        now = np.full(len(self._every), max(min(due, self._latest[0] * _GRID), 0.0))
        recall(self._past, self._every, now, _GRID, self.state)
        return end >= last
