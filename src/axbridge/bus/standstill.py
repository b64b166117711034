"""What the server of a virtual bus tells its clients beside the line: when its servos stood still.

On a busy machine the simulation falls behind. No reply shows that: positions are merely old. So a server keeps a file
for its pseudo-terminal. Each line is a standstill: its begin and its end, s on the machine's monotonic clock.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

_MOST = 4096  # bytes read at once: some hundred standstills
_TERMINALS = Path("/dev/pts")


def notes_of(port: str) -> Path | None:
    """The file of a pseudo-terminal, or of a link to one; None for any other port, and where users have no numbers."""
    path = Path(os.path.realpath(port))
    if path.parent != _TERMINALS or not hasattr(os, "getuid"):
        return None
    return Path(tempfile.gettempdir()) / f"axbridge-{os.getuid()}-pts-{path.name}"


class StandstillReader:
    """Reads what the server of a port notes from now on; of a port without such a server nothing.

    Args:
        port: Its name.
    """

    def __init__(self, port: str) -> None:
        self._file = -1
        notes = notes_of(port)
        if notes is None:
            return
        with contextlib.suppress(OSError):
            self._file = os.open(notes, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            if os.fstat(self._file).st_uid != os.getuid():
                self.close()
            else:
                os.lseek(self._file, 0, os.SEEK_END)

    @property
    def served(self) -> bool:
        """Whether the port is a virtual bus, whose computer may be busy."""
        return self._file >= 0

    def begin(self) -> float | None:
        """When the first of the standstills began that were noted since the last call, s (`time.monotonic`)."""
        if self._file < 0 or not (noted := os.read(self._file, _MOST)):
            return None
        return float(noted.split(maxsplit=1)[0])

    def close(self) -> None:
        """Let the file go; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
