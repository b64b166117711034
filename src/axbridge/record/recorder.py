"""Recording while a robot runs: the control loop hands samples over and never waits for the disk.

A thread of its own writes. While it records, the file is not chunked and is flushed at least every 50 ms, so that what
was there 50 ms before a crash or a power cut of the process can be read; a clean close compresses it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any

from axbridge.errors import RecordingError
from axbridge.files import unwritable
from axbridge.record.mcap_file import CYCLE, EVENTS, SERVO_FIELDS, SERVO_PREFIX, Entry, RecordWriter
from axbridge.record.recording import open_recording, write_recording
from axbridge.robot.state import UNKNOWN, ServoState, Truth

__all__ = ["Recorder"]

FLUSH_PERIOD = 0.025  # s; half of the 50 ms promised, because the thread may be late
_FROM_STATE = ("position", "velocity", "torque", "load", "voltage", "temperature", "errors")


class Recorder:
    """Writes one recording; a context manager that closes it. Methods may be called from any thread.

    Args:
        path: The file; what is there is overwritten.
        metadata: JSON values, see `axbridge.record.provenance.describe`.

    Raises:
        RecordingError: the file cannot be opened.
    """

    def __init__(self, path: Path | str, metadata: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._queue: SimpleQueue[Entry] = SimpleQueue()
        self._closing = threading.Event()
        self._failure: OSError | None = None
        self._last_time = 0.0
        try:
            self._stream: IO[bytes] = self.path.open("wb")
        except OSError as failure:
            raise unwritable(self.path, failure) from failure
        try:
            self._writer = RecordWriter(self._stream, metadata)
            self._stream.flush()
        except OSError as failure:
            with suppress(OSError):
                self._stream.close()
            raise self._error(failure) from failure
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()

    def record_state(
        self,
        servo: str,
        state: ServoState,
        *,
        truth: Truth = UNKNOWN,
        command: float | None = None,
        torque_enabled: bool | None = None,
        **more: float | None,
    ) -> None:
        """Record one sample of a servo; a state that has never been read (time NaN) is left out.

        Args:
            servo: Its name.
            state: The sample; NaN values are left out.
            truth: `Servo.truth`, which a simulation knows: columns ``true_position`` and ``true_torque``.
            command: Position goal in force, rad.
            torque_enabled: Whether the servo is driven.
            **more: Other columns of a track: ``power``, ``speed_limit``, ``duty``, ``torque_limit``.

        Raises:
            RecordingError: an earlier sample could not be written, or the recorder is closed.
        """
        if math.isnan(state.time):
            return
        values = {key: float(getattr(state, key)) for key in _FROM_STATE}
        values |= {"true_position": truth.position, "true_torque": truth.torque}
        values |= {key: float(value) for key, value in more.items() if value is not None}
        if unknown := more.keys() - SERVO_FIELDS.keys():
            raise TypeError(f"a track has no column {', '.join(sorted(unknown))}")
        if command is not None:
            values["command"] = float(command)
        if torque_enabled is not None:
            values["torque_enabled"] = float(torque_enabled)
        known = {key: value for key, value in values.items() if math.isfinite(value)}
        self._put(Entry(SERVO_PREFIX + servo, {"time": float(state.time), **known}))

    def event(self, time: float, name: str, /, **data: Any) -> None:
        """Record that something happened; `data` must be JSON. ``segment`` events divide an experiment.

        Raises:
            RecordingError: an earlier sample could not be written, or the recorder is closed.
        """
        self._put(Entry(EVENTS, {"time": float(time), "name": name, "data": data}))

    def cycle(self, time: float, **statistics: float) -> None:
        """Record the timing of one control cycle (``requested_ms``, ``actual_ms``, ``late_ms``, ``errors``, …).

        Raises:
            RecordingError: an earlier sample could not be written, or the recorder is closed.
        """
        self._put(Entry(CYCLE, {"time": float(time), **{k: float(v) for k, v in statistics.items()}}))

    def close(self) -> None:
        """Write what is left and compress the file; may be called twice.

        Raises:
            RecordingError: something could not be written; what was written before can be read.
        """
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        try:
            if self._failure is None:
                self._writer.finish()
            self._stream.close()
        except OSError as failure:
            self._failure = self._failure or failure
        if self._failure is not None:
            raise self._error(self._failure) from self._failure
        if self.path.is_file():
            write_recording(open_recording(self.path), self.path)  # if this fails, the whole plain file stays

    def _put(self, entry: Entry) -> None:
        if self._failure is not None:
            raise self._error(self._failure) from self._failure
        if self._closing.is_set():
            raise RecordingError(self.path, "is closed", "record inside the `with` block")
        self._last_time = max(self._last_time, entry.body["time"])
        self._queue.put(entry)

    def _write(self) -> None:
        """The thread: every `FLUSH_PERIOD` write what has come and flush it, and once more after the last."""
        last = False
        while not last:
            last = self._closing.wait(FLUSH_PERIOD)
            try:
                while not self._queue.empty():
                    self._writer.write(self._queue.get())
                self._stream.flush()
            except OSError as failure:
                self._failure = failure
                return

    def _error(self, failure: OSError) -> RecordingError:
        return RecordingError(
            self.path,
            f"cannot be written: {failure.strerror or failure}",
            "choose a writable folder with free space; what was written before can be read",
        )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if value is None:
            self.close()
            return
        try:
            if not self._closing.is_set():
                self.event(self._last_time, "aborted", error=f"{type(value).__name__}: {value}".splitlines()[0])
            self.close()
        except RecordingError:
            return  # the error that ended the block is the one to report
