"""Run a function on many jobs in parallel: in processes of this machine, or on a dask cluster."""

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
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import TypeVar

from axbridge.errors import AxBridgeError, UsageError, require

_CONNECT_TIMEOUT = 10.0  # s; a scheduler that has just been started needs some of it
_CLOSE_TIMEOUT = 2.0  # s; a scheduler that has ended does not acknowledge the close
_ATTEMPTS = 4  # a job whose worker ended this often is given up: the job itself ends the workers
_NO_WORKER_TIMEOUT = 20.0  # s that a cluster may have no worker: its nanny restarts a worker that was killed
_POLL_INTERVAL = 1.0  # s between two checks for workers

Job = TypeVar("Job")
Result = TypeVar("Result")


class _ProcessWithoutMain(SpawnProcess):
    def start(self) -> None:
        """Start; multiprocessing imports the running script in the new process, unless the script has no file."""
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = script


class _WithoutMain(SpawnContext):
    """Processes that do not import the running script: a script that moves a robot must run once."""

    Process = _ProcessWithoutMain


class Workers:
    """A pool of processes, started by `start` and started again when one of them ends.

    `check` is called once a second while a job runs; it may raise.
    """

    def __init__(self, start: Callable[[], Executor], check: Callable[[], None] = lambda: None) -> None:
        self._start, self._check = start, check
        self._pool = start()
        self._shown: dict[str | tuple[str, type[Warning], int], int] = {}  # the registry that shows each warning once

    def __call__(self, function: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
        """Yield the results in the order of the jobs; closing the iterator cancels the other jobs.

        `function` and the jobs' types must be defined in a module, not in the running script.
        """
        done = attempts = 0
        while done < len(jobs):
            futures: list[Future[tuple[Result, list[warnings.WarningMessage]]]] = []
            try:
                # in a thread, which KeyboardInterrupt does not reach: it would print a traceback
                with ThreadPoolExecutor(1) as starter:
                    futures = list(
                        starter.map(lambda job: self._pool.submit(_with_warnings, function, job), jobs[done:])
                    )
                for future in futures:
                    while not wait([future], _POLL_INTERVAL).done:
                        self._check()
                    result, shown = future.result()
                    for w in shown:
                        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno, registry=self._shown)
                    done, attempts = done + 1, 0
                    yield result
            except BrokenProcessPool as failure:  # a process was killed, which breaks the pool
                attempts += 1
                if attempts == _ATTEMPTS:
                    why = f"worker processes ended {_ATTEMPTS} times at the same job"
                    raise AxBridgeError(why, "is there enough memory?") from failure
                self.close()
                self._pool = self._start()
            finally:
                for future in futures:
                    future.cancel()

    def close(self) -> None:
        """Wait for the running jobs, then end the processes."""
        self._pool.shutdown(cancel_futures=True)


def _with_warnings(function: Callable[[Job], Result], job: Job) -> tuple[Result, list[warnings.WarningMessage]]:
    """Run a job in a worker; return its warnings with the result, so that the caller's process shows them."""
    with warnings.catch_warnings(record=True) as shown:
        return function(job), shown


@contextmanager
def workers(
    where: str | None = None, *, most: int | None = None, prepare: Callable[[], None] | None = None
) -> Iterator[Workers]:
    """Yield a pool for the block.

    `where` is ``dask://HOST:PORT``; None: one process for each core of this machine, `most` at the most. `prepare` runs
    once in each local process. Raises UsageError for another `where`, and for a cluster that does not answer.
    """
    if where is None:
        cores = os.cpu_count() or 1
        count = cores if most is None else max(1, min(cores, most))
        pool = Workers(lambda: ProcessPoolExecutor(count, _WithoutMain(), partial(_prepare_process, prepare)))
        try:
            yield pool
        finally:
            pool.close()
    elif where.startswith("dask://"):
        with _on_dask(where.removeprefix("dask://")) as cluster:
            yield cluster
    else:
        raise UsageError(f"{where!r} is no executor", "write dask://HOST:PORT, or leave it out for local processes")


def _prepare_process(prepare: Callable[[], None] | None) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare()


def _end_with_parent() -> None:
    """End this process when its parent has ended: a parent that is killed cannot end its workers."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _on_dask(address: str) -> Iterator[Workers]:
    require("running on a dask cluster", "distributed")
    from distributed import Client, KilledWorker

    with _silenced("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"):
        gc.collect()  # a client that found no scheduler must not be collected while another starts: they share a lock
        try:
            client = Client(f"tcp://{address}", timeout=_CONNECT_TIMEOUT)
        except (OSError, ValueError) as failure:
            why = f"no dask scheduler answers at {address}"
            raise UsageError(why, "start one (dask scheduler), or leave --executor out") from failure

        had_workers = time.monotonic()  # the last time the cluster had a worker

        def check() -> None:
            nonlocal had_workers
            try:
                cores = client.ncores()
            except OSError as failure:
                raise _lost(address) from failure
            if cores:
                had_workers = time.monotonic()
            elif time.monotonic() - had_workers > _NO_WORKER_TIMEOUT:
                why = f"the dask scheduler at {address} has had no worker for {_NO_WORKER_TIMEOUT:.0f} s"
                raise UsageError(why, f"start some: dask worker {address} --nthreads 1; or leave --executor out")

        try:
            yield Workers(lambda: client.get_executor(pure=False), check)  # pure=True runs equal jobs only once
        except KilledWorker as failure:
            why = "each worker that ran one of the jobs was killed"
            raise AxBridgeError(why, "is there enough memory?") from failure
        except AxBridgeError:
            raise
        except (Exception, asyncio.CancelledError) as failure:
            if client.status == "running":
                raise
            raise _lost(address) from failure
        finally:
            client.close(timeout=_CLOSE_TIMEOUT)


def _lost(address: str) -> AxBridgeError:
    why = f"the dask scheduler at {address} was lost, with the jobs that its workers ran"
    return AxBridgeError(why, "start it and its workers again, then this command; or leave --executor out")


@contextmanager
def _silenced(*names: str) -> Iterator[None]:
    """Switch these loggers off for the block: what they log reaches the caller as an error."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
