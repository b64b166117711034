"""Work for many processes, here or on a dask cluster."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.context import BaseContext, SpawnContext, SpawnProcess
from types import ModuleType
from typing import TypeVar

from axbridge.errors import AxBridgeError, UsageError, require

_PATIENCE = 10.0  # s that a scheduler has to answer: it may be starting, too
_FAREWELL = 2.0  # s that leaving a cluster may take: a scheduler that is gone answers no farewell
_WORKERLESS = 20.0  # s that a cluster may be without workers: one that was killed is begun again by its nanny
_GLANCE = 1.0  # s between two looks at whether there still are workers
_AHEAD = 2  # tasks that a worker of a cluster has, the one it is at among them: the next one is on its way meanwhile

Job = TypeVar("Job")
Result = TypeVar("Result")


class _ProcessApart(SpawnProcess):
    def start(self) -> None:
        """Begin; a process imports the script that it finds running, and what has no file is not imported."""
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = script


class _Apart(SpawnContext):
    Process = _ProcessApart


# Begins processes that do not import the script that is running. It may drive a robot, and nobody expects that a fit
# runs it again. What such a process is given must not be defined in that script.
APART = _Apart()


class Workers:
    """The processes of a pool; `width` says how many tasks they get at once, and may raise."""

    def __init__(self, pool: Executor, width: Callable[[], int]) -> None:
        self._pool, self._width = pool, width
        self._said: dict[str | tuple[str, type[Warning], int], int] = {}  # warnings of the tasks, each given once

    def results(self, function: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[tuple[int, Result]]:
        """The number of each job with its result, as they are done; a caller that stops asking gives up the rest."""
        begun, width = 0, self._width()
        pending: dict[Future[tuple[Result, list[warnings.WarningMessage]]], int] = {}
        try:
            while begun < len(jobs) or pending:
                while begun < len(jobs) and len(pending) < width:
                    submit = partial(self._pool.submit, _with_warnings, function, jobs[begun])
                    pending[_uninterrupted(submit)] = begun
                    begun += 1
                while not (done := wait(pending, _GLANCE, return_when=FIRST_COMPLETED).done):
                    self._width()
                for future in done:
                    index = pending.pop(future)
                    result, warned = future.result()
                    for w in warned:
                        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno, registry=self._said)
                    yield index, result
        except BrokenProcessPool as failure:
            hint = 'is there enough memory? a script of your own works below  if __name__ == "__main__":'
            raise AxBridgeError("a worker process was killed", hint) from failure
        finally:
            for future in pending:
                future.cancel()

    def __call__(self, function: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
        """The same in the order of the jobs."""
        early: dict[int, Result] = {}
        wanted = 0
        for index, result in self.results(function, jobs):
            early[index] = result
            while wanted in early:
                yield early.pop(wanted)
                wanted += 1

    def close(self) -> None:
        """Finish what is begun, and end them."""
        self._pool.shutdown(cancel_futures=True)


def _with_warnings(function: Callable[[Job], Result], job: Job) -> tuple[Result, list[warnings.WarningMessage]]:
    """Do it in a worker; the warnings meanwhile go to whoever waits for the result."""
    with warnings.catch_warnings(record=True) as said:
        return function(job), said


def _uninterrupted(call: Callable[[], Result]) -> Result:
    """Call from another thread, where Ctrl-C raises nothing: a process whose begin is cut short would complain."""
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(call).result()


@contextmanager
def workers(
    where: str | None = None,
    *,
    most: int | None = None,
    prepare: Callable[[], None] | None = None,
    context: BaseContext | None = None,
) -> Iterator[Workers]:
    """Processes that do what they are given, until the block ends."""
    if where is None:
        cores = os.cpu_count() or 1
        count = cores if most is None else max(1, min(cores, most))
        spawning = context or get_context("spawn")
        pool = Workers(ProcessPoolExecutor(count, spawning, partial(_begun, prepare)), lambda: count)
        try:
            yield pool
        finally:
            pool.close()
    elif where.startswith("dask://"):
        with _on_dask(where.removeprefix("dask://")) as cluster:
            yield cluster
    else:
        raise UsageError(f"{where!r} is no executor", "write dask://HOST:PORT, or leave it out for local processes")


def _begun(prepare: Callable[[], None] | None) -> None:
    """What each process of this machine does first."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare()


def _end_with_parent() -> None:
    """End this process when the one that began it is gone: one that is killed sends no farewell."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _on_dask(address: str) -> Iterator[Workers]:
    require("running on a dask cluster", "distributed")
    from distributed import Client, KilledWorker

    with _silenced("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"):
        gc.collect()  # a client that found no scheduler must not be collected while another begins: they share a lock
        try:
            client = Client(f"tcp://{address}", timeout=_PATIENCE)
        except (OSError, ValueError) as failure:
            why = f"no dask scheduler answers at {address}"
            raise UsageError(why, "start one (dask scheduler), or leave --executor out") from failure

        worked = time.monotonic()  # when there last was a worker

        def width() -> int:
            nonlocal worked
            try:
                cores: int = sum(client.ncores().values())
            except OSError as failure:
                raise _lost(address) from failure
            if cores:
                worked = time.monotonic()
            elif time.monotonic() - worked > _WORKERLESS:
                why = f"the dask scheduler at {address} has had no worker for {_WORKERLESS:.0f} s"
                raise UsageError(why, f"start some: dask worker {address} --nthreads 1; or leave --executor out")
            return _AHEAD * max(1, cores)

        try:
            yield Workers(client.get_executor(pure=False), width)  # pure: the same job twice would be done once
        except KilledWorker as failure:
            why = "a task was lost with each worker that tried it"
            raise AxBridgeError(why, "is there enough memory?") from failure
        except AxBridgeError:
            raise
        except (Exception, asyncio.CancelledError) as failure:
            if client.status == "running":
                raise
            raise _lost(address) from failure
        finally:
            client.close(timeout=_FAREWELL)


def _lost(address: str) -> AxBridgeError:
    why = f"the dask scheduler at {address} was lost, and with it what its workers were at"
    return AxBridgeError(why, "start it and its workers again, then this command; or leave --executor out")


@contextmanager
def _silenced(*names: str) -> Iterator[None]:
    """Log nothing of these for a while: the caller gets what matters as an error."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def results(
    function: Callable[[Job], Result], jobs: Sequence[Job], where: str | Workers | None = None
) -> Iterator[tuple[int, Result]]:
    """What `Workers.results` gives, of processes that are begun for it, or run already."""
    if isinstance(where, Workers):
        yield from where.results(function, jobs)
        return
    with workers(where, most=len(jobs)) as pool:
        yield from pool.results(function, jobs)
