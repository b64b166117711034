"""Record while a robot runs: the control loop queues samples, and a separate thread writes them.

The file is flushed at least every 50 ms, so that samples before a crash can be read; a clean close compresses it.
"""

from __future__ import annotations

import json
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
from axbridge.files import claim, is_stream, open_stream, release, replacing, writing
from axbridge.recording import step_format
from axbridge.recording.provenance import checked, checked_event
from axbridge.recording.step_format import CYCLE, EVENTS, PACKETS, STEP, Passed, Source, Table
from axbridge.recording.stored import Message, MessageWriter, compressed

FLUSH_PERIOD = 0.025  # s; half of 50 ms, because the thread may be late
_QUEUE_SIZE = 2_000  # messages: 20 s at 50 Hz; with a full queue the program waits for the disk
_QUEUE_TIMEOUT = 10.0  # s, then an error is raised


def _opened(path: Path) -> tuple[IO[bytes], int]:
    """Return a new empty file and the descriptor of its lock; raise RecordingError if another program records it."""
    if is_stream(path):
        number = open_stream(path)
        return open(path if number is None else os.dup(number), "wb"), -1  # noqa: PTH123 - a descriptor
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if path.is_file():
            before = claim(path)
            try:
                path.unlink()  # not truncated: a program that has it open can still read the old content
            finally:
                release(before)
        stream = path.open("xb")
        try:
            return stream, claim(path, stream)
        except OSError as error:
            stream.close()
            if not isinstance(error, BlockingIOError):  # else another program has just locked it
                path.unlink()
            raise
    except (BlockingIOError, FileExistsError, FileNotFoundError):
        why = "is being recorded by another program"
        raise RecordingError(path, why, "give another name, or wait until that has ended") from None


class Recorder:
    """Writes one recording; the end of the context closes it. Methods may be called from any thread.

    Each method raises RecordingError if an earlier sample could not be written. `step`, `event` and `cycle` also raise
    it if the recorder is closed.

    Log times are wall-clock times. Those of a simulation (``backend`` is ``sim``) start at the wall-clock time and
    continue with simulated time, because a simulation does not run in real time.

    Args:
        path: The file; an old one is replaced, unless another program records into it. Its folder is created.
        metadata: JSON values, see `axbridge.recording.provenance.describe`.

    Raises:
        RecordingError: the file cannot be opened, or another program is recording into it.
        RecordingError, TypeError: `metadata` is not valid, or no JSON.
    """

    def __init__(self, path: Path | str, metadata: Mapping[str, Any]) -> None:
        self.path: Path = Path(path)
        self._queue: Queue[Message] = Queue(_QUEUE_SIZE)
        self._packets: deque[Passed] = deque()  # for the next message of packets
        self._closing = threading.Event()
        self._failure: BaseException | None = None
        self._last_time = 0.0
        self._metadata = dict(metadata)
        self._began = clocks.time_ns() if metadata.get("backend") == "sim" else None
        json.dumps(checked(self.path, metadata))  # before an old file is replaced
        with writing(self.path):
            self._stream, self._claim = _opened(self.path)
            self._file = os.fstat(self._stream.fileno())
            try:
                self._writer = MessageWriter(self._stream, metadata, chunked=False)
                self._stream.flush()
            except BaseException:
                with suppress(OSError):
                    self._stream.close()
                if not is_stream(self.path):
                    self.path.unlink()  # without its header it cannot be read
                release(self._claim)
                raise
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()

    def step(self, servos: tuple[str, ...], samples: Table, *, logged: int | None = None) -> None:
        """Record one step; samples without a time do not count.

        Args:
            servos: Names of the servos.
            samples: `axbridge.state.SERVO_ROW` (servos,).
            logged: Wall-clock time of the first sample, UTC in ns; default: the present time.
        """
        time = float(np.fmin.reduce(samples["time"]))
        if not math.isnan(time):
            self._put(STEP, step_format.packed(samples), time, logged, servos)

    def event(self, time: float, name: str, /, **data: Any) -> None:
        """Record an event; TypeError or RecordingError if it is not valid. ``segment`` events divide an experiment."""
        checked_event(self.path, event := {"time": float(time), "name": name, "data": data})
        self._put(EVENTS, step_format.packed_event(event), time)

    def cycle(self, time: float, **statistics: float) -> None:
        """Record a control cycle: `step_format.CYCLE_FIELDS`, else TypeError; NaN = unknown."""
        row = np.full(1, math.nan, step_format.CYCLE_ROW)
        try:
            for name, value in {"time": time, **statistics}.items():
                row[name] = value
        except ValueError:
            raise TypeError(f"a cycle has no field {name}") from None
        self._put(CYCLE, step_format.packed(row), time)

    def packet(self, time: float, source: Source, data: bytes) -> None:
        """Record bytes on a line; the writing thread encodes them, so that this call is fast."""
        if self._failure is not None:
            self._check()
        self._packets.append(Passed(time, source, data))

    def close(self) -> None:
        """Write the queued messages and compress the file; a second call does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        try:
            self._thread.join()
            self._check()
            moved = not self.path.exists() or not os.path.samestat(self._file, self.path.stat())
            if moved or is_stream(self.path):
                return
            with self.path.open("rb") as plain, replacing(self.path) as temporary, temporary.open("wb") as stream:
                compressed(plain, stream, self._metadata)
        except OSError as failure:
            why = f"is whole, but could not be compressed: {failure.strerror or failure}"
            raise RecordingError(self.path, why, "make space, then read it as it is") from failure
        finally:
            release(self._claim)

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
            self._queue.put(Message(topic, data, logged, servos), timeout=_QUEUE_TIMEOUT)
        except Full:
            why = f"takes no samples: the disk has been busy for {_QUEUE_TIMEOUT:.0f} s"
            raise RecordingError(self.path, why, "choose another disk") from None

    def _write(self) -> None:
        """Run the writing thread: write and flush queued messages every `FLUSH_PERIOD`; at the end close the file."""
        last = False
        try:
            with self._stream:
                while not last:
                    last = self._closing.wait(FLUSH_PERIOD)
                    while not self._queue.empty():
                        self._writer.write(self._queue.get())
                    if packets := [self._packets.popleft() for _ in range(len(self._packets))]:
                        self._writer.write(Message(PACKETS, step_format.packed_packets(packets), clocks.time_ns()))
                    self._stream.flush()
                self._writer.finish()
        except BaseException as failure:  # noqa: BLE001 - the next call raises it
            self._failure = failure
            while not self._queue.empty():  # so that a call that waits for the full queue returns
                self._queue.get()

    def _check(self) -> None:
        """Raise RecordingError if the writing thread has failed."""
        if self._failure is not None:
            reason = getattr(self._failure, "strerror", None) or str(self._failure) or type(self._failure).__name__
            why = f"cannot be written: {reason}"
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
