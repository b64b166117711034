"""Work for many processes, here or on a dask cluster: results as they come, and a worker that dies costs time alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

from axbridge.errors import AxBridgeError, UnsupportedOperation, UsageError

__all__ = ["results"]

_PATIENCE = 10.0  # s that a scheduler has to answer
_ATTEMPTS = 4  # how often a task is begun whose workers die: then it is the task that kills them

Job = TypeVar("Job")
Result = TypeVar("Result")


def results(
    function: Callable[[Job], Result], jobs: Sequence[Job], where: str | None = None
) -> Iterator[tuple[int, Result]]:
    """Apply a function to every job; the number of each job with its result, in the order in which they are done.

    Args:
        function: To be importable in another process.
        jobs: What it is applied to.
        where: ``dask://HOST:PORT``; None = a process for each core of this machine.

    Raises:
        UnsupportedOperation: dask.distributed is not installed.
        UsageError: no such kind of executor, or no cluster there.
        AxBridgeError: what the function raised, or a task killed its workers again and again.
    """
    if where is None:
        return _here(function, jobs)
    if not where.startswith("dask://"):
        raise UsageError(f"{where!r} is no executor", "write dask://HOST:PORT, or leave it out for local processes")
    return _on_dask(function, jobs, where.removeprefix("dask://"))


def _here(function: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[tuple[int, Result]]:
    left = dict(enumerate(jobs))
    for _ in range(_ATTEMPTS):
        with ProcessPoolExecutor(min(os.cpu_count() or 1, len(left)), get_context("spawn")) as pool:
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


def _on_dask(function: Callable[[Job], Result], jobs: Sequence[Job], address: str) -> Iterator[tuple[int, Result]]:
    try:
        from distributed import Client, KilledWorker
        from distributed import as_completed as completed
    except ImportError as failure:
        why = "running on a dask cluster needs dask.distributed"
        raise UnsupportedOperation(why, "python -m pip install distributed") from failure
    try:
        client: Any = Client(f"tcp://{address}", timeout=_PATIENCE)
    except OSError as failure:
        raise UsageError(f"no dask scheduler answers at {address}", "start one, or leave --executor out") from failure
    with client:
        pending = {client.submit(function, job, pure=False): index for index, job in enumerate(jobs)}
        try:
            for future, result in completed(list(pending), with_results=True):
                yield pending[future], result
        except KilledWorker as failure:
            raise AxBridgeError(
                "a task was lost with each worker that tried it", "is there enough memory?"
            ) from failure
