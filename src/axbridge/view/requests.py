"""What people at the page ask for, until the robot's step has time for it.

The page's threads put requests in; the step takes them out. A request that takes several steps is a generator: it goes
on by one `yield` a step. Nothing here knows a browser.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator

from axbridge.errors import AxBridgeError, ControlWarning

Job = Iterator[None]
Request = Callable[[], "Job | None"]


class Desk:
    """Requests in their order; a newer one on the same topic takes the place of the older, waiting or under way.

    Args:
        tell: Called with what was clipped or went wrong, in words.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str | None, Request]] = deque()
        self._jobs: dict[str | None, Job] = {}
        self.cleared_at = 0.0  # when it was emptied last, monotonic

    def ask(self, topic: str | None, request: Request) -> None:
        """Have a request done at the next step; from any thread. Without a topic no other takes its place."""
        with self._lock:
            if topic is not None:
                self._waiting = deque(entry for entry in self._waiting if entry[0] != topic)
            self._waiting.append((topic, request))

    def clear(self) -> None:
        """Forget every request, waiting and under way; from any thread."""
        with self._lock:
            self._waiting.clear()
            self._jobs.clear()
            self.cleared_at = time.monotonic()

    def serve(self) -> None:
        """Do what waits, and go on with what is under way; called by the robot's step alone."""
        if not self._waiting and not self._jobs:
            return
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
        for topic, request in waiting:
            job = self._do(request)
            with self._lock:
                self._jobs.pop(topic, None)
                if job is not None:
                    self._jobs[topic] = job
        for topic, job in list(self._jobs.items()):
            if self._do(lambda job=job: next(job, _END)) is not None:  # type: ignore[misc]
                with self._lock:
                    if self._jobs.get(topic) is job:
                        del self._jobs[topic]

    def _do(self, request: Callable[[], object]) -> Job | None:
        """The outcome of a request; an error is shown and ends it, a warning is shown."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", ControlWarning)
            try:
                outcome = request()
            except AxBridgeError as error:
                self._tell(str(error))
                outcome = _END
        for warning in said:
            self._tell(str(warning.message))
        return outcome  # type: ignore[return-value]


_END = iter(())  # what a job gives that has come to its end
