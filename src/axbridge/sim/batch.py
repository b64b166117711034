"""Many banks stepped side by side on all cores: for learning and for sweeps, where no packet is of interest.

Each worker process holds some of the banks and steps them. Goals and states lie in memory that all processes share, so
a step costs one short message to each worker. A bank does in a batch what it does anywhere: the same loops, motors,
latency and engine, and the same bits.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.errors import AxBridgeError, SimulationDiverged, UsageError
from axbridge.pool import APART
from axbridge.servo.columns import Command, State
from axbridge.sim.bank import ServoBank

__all__ = ["Batch", "Member"]

_PATIENCE = 5.0  # s that a worker has to end by itself
_BASE = 3  # columns: where a free base is, m; NaN where it is bolted down


@dataclass
class Member:
    """One robot of a batch.

    Attributes:
        bank: Its motors, switched on; its clock is at 0.
        close: Lets go of it.
        clock: How long it has been stepped, s.
        goals: Its servos' last goals, (servos,), rad.
    """

    bank: ServoBank
    close: Callable[[], None]
    clock: float = 0.0
    goals: FloatArray = field(default_factory=lambda: np.empty(0))

    def step(self, goals: FloatArray, seconds: float) -> None:
        """Tell each servo its goal where that is a new one, and go on."""
        bank = self.bank
        earlier = self.goals if len(self.goals) else np.full(len(goals), np.nan)
        for index in np.flatnonzero(goals != earlier).tolist():
            bank.set_goal(index, float(goals[index]), float(bank.command[index, Command.SPEED]), self.clock)
        self.goals = goals.copy()
        self.clock += seconds
        bank.advance(self.clock)


Make = Callable[[int, int], Member]  # a robot by its number, and the seed of this episode of it


class Batch:
    """`count` robots of `servos` servos each; a context manager that ends its workers.

    Args:
        make: Builds a robot by its number and a seed; must be importable in another process.
        count: How many.
        servos: Of each robot.
        workers: Processes; by default one for each core. 0: all of it in this process.

    Attributes:
        goals: To be written before a step, (count, servos), rad at the servo.
        states: (count, servos, len(State)), of the moment at which the latest step ended.
        bases: Where free bases are, (count, 3), m; NaN where they are bolted down.
        diverged: Robots whose motion left the finite range; they stand still until they are made anew, (count,).

    Raises:
        UsageError: no robots.
        AxBridgeError: a robot could not be built.
    """

    def __init__(self, make: Make, count: int, servos: int, *, workers: int | None = None) -> None:
        if count < 1:
            raise UsageError(f"a batch of {count} robots", "ask for one at least")
        shapes = {
            "goals": (count, servos),
            "states": (count, servos, len(State)),
            "bases": (count, _BASE),
            "diverged": (count,),
        }
        size = 8 * sum(int(np.prod(shape)) for shape in shapes.values())
        self._memory: SharedMemory | None = SharedMemory(create=True, size=size)
        self.goals, self.states, self.bases, self.diverged = views = _views(self._memory, shapes)
        used = min(_cores() if workers is None else workers, count)
        self._local = _Share(make, range(count), views) if used == 0 else None
        self._links: list[Connection] = []
        self._workers: list[Any] = []
        for index in range(used):
            ours, theirs = APART.Pipe()
            share = range(index, count, used)
            worker = APART.Process(target=_work, args=(theirs, make, share, self._memory.name, shapes), daemon=True)
            worker.start()
            theirs.close()
            self._links.append(ours)
            self._workers.append(worker)

    def reset(self, seeds: dict[int, int]) -> None:
        """Make these robots anew, each with its seed.

        Raises:
            AxBridgeError: one could not be built.
        """
        if self._local is not None:
            self._local.reset(seeds)
            return
        self._ask("reset", seeds)

    def step(self, seconds: float) -> None:
        """Every robot obeys its row of `goals` and goes on for so long."""
        if self._local is not None:
            self._local.step(seconds)
            return
        self._ask("step", seconds)

    def close(self) -> None:
        """End the workers; may be called twice."""
        if self._local is not None:
            self._local.close()
        for link in self._links:
            with suppress(OSError):
                link.send(("close", None))
        for worker in self._workers:
            worker.join(_PATIENCE)
            if worker.is_alive():
                worker.terminate()
        for link in self._links:
            link.close()
        self._links, self._workers, self._local = [], [], None
        if self._memory is not None:
            empty = np.empty(0)
            self.goals = self.states = self.bases = self.diverged = empty
            self._memory.close()
            self._memory.unlink()
            self._memory = None

    def _ask(self, what: str, argument: Any) -> None:
        if not self._links:
            raise UsageError("the batch is closed", "make another one")
        for link in self._links:
            with suppress(OSError):  # what has become of it is said below
                link.send((what, argument))
        failures = []
        for link in self._links:
            try:
                failures.append(link.recv())
            except (EOFError, OSError):
                failures.append(AxBridgeError("a worker of the batch was ended from outside", "start the batch again"))
        for failure in failures:
            if failure is not None:
                raise failure


class _Share:
    """The robots of one worker."""

    def __init__(self, make: Make, numbers: Sequence[int], views: tuple[FloatArray, ...]) -> None:
        self._make, self._numbers = make, list(numbers)
        self._goals, self._states, self._bases, self._diverged = views
        self._members: dict[int, Member] = {}

    def reset(self, seeds: dict[int, int]) -> None:
        for number in self._numbers:
            if number not in seeds:
                continue
            if number in self._members:
                self._members.pop(number).close()
            self._members[number] = self._make(number, seeds[number])
            self._diverged[number] = 0.0
            self._show(number)

    def step(self, seconds: float) -> None:
        for number, member in self._members.items():
            if self._diverged[number]:
                continue
            try:
                member.step(self._goals[number], seconds)
            except SimulationDiverged:
                self._diverged[number] = 1.0
                continue
            self._show(number)

    def close(self) -> None:
        for member in self._members.values():
            member.close()
        self._members.clear()

    def _show(self, number: int) -> None:
        member = self._members[number]
        bank = member.bank
        servos = len(bank.state)
        self._states[number] = bank.sampled(np.arange(servos), [member.clock] * servos)
        base = bank.engine.base()
        self._bases[number] = np.nan if base is None else base[0]


def _views(memory: SharedMemory, shapes: dict[str, tuple[int, ...]]) -> tuple[FloatArray, ...]:
    found: list[FloatArray] = []
    offset = 0
    for shape in shapes.values():
        view: FloatArray = np.ndarray(shape, dtype=np.float64, buffer=memory.buf, offset=offset)
        view[...] = 0.0
        found.append(view)
        offset += view.nbytes
    return tuple(found)


def _work(
    link: Connection, make: Make, numbers: Sequence[int], memory: str, shapes: dict[str, tuple[int, ...]]
) -> None:
    """What a worker does until it gets the word to end, or its parent is gone."""
    shared = SharedMemory(memory)
    share = _Share(make, numbers, _views(shared, shapes))
    verbs: dict[str, Callable[[Any], None]] = {"reset": share.reset, "step": share.step}
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            what, argument = link.recv()
            if what == "close":
                break
            failure: AxBridgeError | None = None
            try:
                verbs[what](argument)
            except AxBridgeError as known:
                failure = known
            except Exception:  # noqa: BLE001 - raised where it can be seen
                failure = AxBridgeError(f"a worker of the batch failed: {traceback.format_exc()}")
            link.send(failure)
    share.close()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
