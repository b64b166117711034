"""Recording while a robot runs: the control loop hands samples over, and a thread of its own writes them.

It is flushed at least every 50 ms, so that what was there before a crash can be read; a clean close compresses it.
"""

from __future__ import annotations

import math
import os
import threading
import time as clocks
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue
from typing import IO, Any

import numpy as np

from axbridge.errors import RecordingError
from axbridge.files import claim, make_folder, release, replacing, writing
from axbridge.recording import step_format
from axbridge.recording.step_format import CYCLE, EVENTS, PACKETS, STEP, Passed, Source, Table
from axbridge.recording.stored import Message, MessageWriter, compressed

FLUSH_PERIOD = 0.025  # s; half of the 50 ms promised, because the thread may be late
_WAITING = 2_000  # messages: 20 s at 50 Hz; a program that is faster than the disk waits from here on
_PATIENCE = 10.0  # s it waits before it says so


def _opened(path: Path) -> tuple[IO[bytes], int]:
    """The file, empty, and what keeps others from recording into it."""
    make_folder(path)
    try:
        if path.is_file():
            before = claim(path)
            try:
                path.unlink()  # not emptied: a program that has it open goes on reading what was there
            finally:
                release(before)
        if path.exists():  # a device
            return path.open("wb"), -1
        stream = path.open("xb")
        try:
            return stream, claim(path, stream)
        except OSError as error:
            stream.close()
            if not isinstance(error, BlockingIOError):  # else it is somebody else's by now
                path.unlink()
            raise
    except (BlockingIOError, FileExistsError, FileNotFoundError):
        why = "is being recorded by another program"
        raise RecordingError(path, why, "give another name, or wait until that has ended") from None


class Recorder:
    """Writes one recording; a context manager that closes it. Methods may be called from any thread.

    Log times are wall-clock time. Those of a simulation (``backend`` is ``sim``) begin there and go on with its own
    time, because it runs at a speed of its own.

    Args:
        path: The file; what is there is replaced, unless somebody is recording into it. Its folder is made.
        metadata: JSON values, see `axbridge.recording.provenance.describe`.

    Raises:
        RecordingError: the file cannot be opened, or is being recorded by somebody else.
    """

    def __init__(self, path: Path | str, metadata: Mapping[str, Any]) -> None:
        self.path: Path = Path(path)
        self._queue: Queue[Message] = Queue(_WAITING)
        self._packets: deque[Passed] = deque()  # for the next message
        self._closing = threading.Event()
        self._failure: BaseException | None = None
        self._last_time = 0.0
        self._metadata = dict(metadata)
        self._began = clocks.time_ns() if metadata.get("backend") == "sim" else None
        with writing(self.path):
            self._stream, self._claim = _opened(self.path)
            self._file = os.fstat(self._stream.fileno())
            try:
                self._writer = MessageWriter(self._stream, metadata, chunked=False)
                self._stream.flush()
            except OSError:
                with suppress(OSError):
                    self._stream.close()
                if self.path.is_file():
                    self.path.unlink()  # nothing can be read in it
                release(self._claim)
                raise
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()

    def step(self, servos: tuple[str, ...], samples: Table, *, logged: int | None = None) -> None:
        """Record one step; a sample without a time is none.

        Args:
            servos: Their names.
            samples: `axbridge.state.SERVO_ROW` (servos,).
            logged: Wall-clock time of the first sample, UTC in ns; by default now.

        Raises:
            RecordingError: an earlier sample could not be written, or the recorder is closed.
        """
        time = float(np.fmin.reduce(samples["time"]))
        if not math.isnan(time):
            self._put(STEP, step_format.packed(samples), time, logged, servos)

    def event(self, time: float, name: str, /, **data: Any) -> None:
        """Record that something happened; `data` must be JSON. ``segment`` events divide an experiment.

        Raises:
            RecordingError: an earlier sample could not be written, or the recorder is closed.
            TypeError: `data` is no JSON.
        """
        self._put(EVENTS, step_format.packed_event({"time": float(time), "name": name, "data": data}), time)

    def cycle(self, time: float, **statistics: float) -> None:
        """Record the timing of one control cycle: `step_format.CYCLE_FIELDS`; NaN is not known.

        Raises:
            RecordingError: an earlier sample could not be written, or the recorder is closed.
            TypeError: a field that a cycle does not have.
        """
        row = np.full(1, math.nan, step_format.CYCLE_ROW)
        try:
            for name, value in {"time": time, **statistics}.items():
                row[name] = value
        except ValueError:
            raise TypeError(f"a cycle has no field {name}") from None
        self._put(CYCLE, step_format.packed(row), time)

    def packet(self, time: float, source: Source, data: bytes) -> None:
        """Record bytes that went over a line: the thread that writes makes a message of them, so this takes no time.

        Raises:
            RecordingError: something earlier could not be written.
        """
        if self._failure is not None:
            self._check()
        self._packets.append(Passed(time, source, data))

    def close(self) -> None:
        """Write what is left and compress the file; may be called twice.

        Raises:
            RecordingError: something could not be written; what was written before can be read.
        """
        if self._closing.is_set():
            return
        self._closing.set()
        try:
            self._thread.join()
            self._check()
            if self.path.is_file() and os.path.samestat(self._file, self.path.stat()):  # else it was moved meanwhile
                self._compress()
        finally:
            release(self._claim)

    def _compress(self) -> None:
        """Put the compressed file in the place of the plain one."""
        try:
            with self.path.open("rb") as plain, replacing(self.path) as temporary, temporary.open("wb") as stream:
                compressed(plain, stream, self._metadata)
        except OSError as failure:
            why = f"is whole, but could not be compressed: {failure.strerror or failure}"
            raise RecordingError(self.path, why, "make space, then read it as it is") from failure

    def _put(
        self, topic: str, data: bytes, time: float, logged: int | None = None, servos: tuple[str, ...] = ()
    ) -> None:
        self._check()
        if self._closing.is_set():
            raise RecordingError(self.path, "is closed", "record inside the `with` block")
        self._last_time = max(self._last_time, time)
        if self._began is not None:
            logged = self._began + round(time * 1e9)
        elif logged is None:
            logged = clocks.time_ns()
        try:
            self._queue.put(Message(topic, data, logged, servos), timeout=_PATIENCE)
        except Full:
            why = f"takes no samples: the disk has been busy for {_PATIENCE:.0f} s"
            raise RecordingError(self.path, why, "choose another disk") from None

    def _write(self) -> None:
        """The thread: every `FLUSH_PERIOD` write what has come and flush it; in the end, finish and close the file."""
        last = False
        try:
            with self._stream:
                while not last:
                    last = self._closing.wait(FLUSH_PERIOD)
                    while not self._queue.empty():
                        self._writer.write(self._queue.get())
                    if some := [self._packets.popleft() for _ in range(len(self._packets))]:
                        self._writer.write(Message(PACKETS, step_format.packed_packets(some), clocks.time_ns()))
                    self._stream.flush()
                self._writer.finish()
        except BaseException as failure:  # noqa: BLE001 - whatever ends the thread is raised by the next call
            self._failure = failure
            while not self._queue.empty():  # who waits for room is told at the next message
                self._queue.get()

    def _check(self) -> None:
        """Raise what failed."""
        if self._failure is not None:
            said = getattr(self._failure, "strerror", None) or str(self._failure) or type(self._failure).__name__
            why = f"cannot be written: {said}"
            hint = "choose a writable folder with free space; what was written before can be read"
            raise RecordingError(self.path, why, hint) from self._failure

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, _kind: object, value: BaseException | None, _trace: object) -> None:
        if value is None:
            self.close()
            return
        try:
            if not self._closing.is_set():
                self.event(self._last_time, "aborted", error=f"{type(value).__name__}: {value}".splitlines()[0])
            self.close()
        except RecordingError:
            return  # the error that ended the block is the one to report
