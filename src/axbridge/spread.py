"""Work for many processes, here or on a dask cluster: results as they come, and a worker that dies costs time alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from axbridge.errors import AxBridgeError, UnsupportedOperation, UsageError

__all__ = ["results", "workers"]

_PATIENCE = 10.0  # s that a scheduler has to answer: it may be starting, too
_ATTEMPTS = 4  # how often a task is begun whose workers die: then it is the task that kills them

Job = TypeVar("Job")
Result = TypeVar("Result")


@contextmanager
def workers(
    where: str | None = None, *, most: int | None = None, prepare: Callable[[], None] | None = None
) -> Iterator[Executor]:
    """Processes that do what they are given, until the block ends.

    Args:
        where: ``dask://HOST:PORT``; None = a process for each core of this machine.
        most: Processes of this machine, at most.
        prepare: What each of them does first. Workers of a cluster have begun already.

    Raises:
        UnsupportedOperation: dask.distributed is not installed.
        UsageError: no such kind of executor, or no cluster there.
        AxBridgeError: a task killed the cluster's workers again and again.
    """
    if where is None:
        cores = os.cpu_count() or 1
        with ProcessPoolExecutor(cores if most is None else min(cores, most), get_context("spawn"), prepare) as pool:
            yield pool
    elif where.startswith("dask://"):
        with _on_dask(where.removeprefix("dask://")) as pool:
            yield pool
    else:
        raise UsageError(f"{where!r} is no executor", "write dask://HOST:PORT, or leave it out for local processes")


@contextmanager
def _on_dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client, KilledWorker
    except ImportError as failure:
        why = "running on a dask cluster needs dask.distributed"
        raise UnsupportedOperation(why, "python -m pip install distributed") from failure
    try:
        client = Client(f"tcp://{address}", timeout=_PATIENCE)
    except OSError as failure:
        raise UsageError(f"no dask scheduler answers at {address}", "start one, or leave --executor out") from failure
    with client:
        try:
            yield client.get_executor(pure=False)  # else the same job twice is done once
        except KilledWorker as failure:
            why = "a task was lost with each worker that tried it"
            raise AxBridgeError(why, "is there enough memory?") from failure


def results(
    function: Callable[[Job], Result], jobs: Sequence[Job], where: str | None = None
) -> Iterator[tuple[int, Result]]:
    """Apply a function to every job; the number of each job with its result, in the order in which they are done.

    Args:
        function: To be importable in another process.
        jobs: What it is applied to.
        where: See `workers`.

    Raises:
        AxBridgeError: as `workers`, what the function raised, or a task killed its workers again and again.
    """
    left = dict(enumerate(jobs))
    for _ in range(_ATTEMPTS):
        with workers(where, most=len(left)) as pool:
            pending: dict[Future[Result], int] = {pool.submit(function, job): index for index, job in left.items()}
            try:
                for future in as_completed(pending):
                    result = future.result()
                    del left[pending[future]]
                    yield pending[future], result
            except BrokenProcessPool:  # one of them was killed: what it was at is begun again
                continue
            finally:
                for future in pending:
                    future.cancel()
        return
    raise AxBridgeError(f"worker processes were killed {_ATTEMPTS} times", "is there enough memory?")
