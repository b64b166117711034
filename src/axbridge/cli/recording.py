"""A script's recording, and what Ctrl-C leaves of any recording, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

from axbridge.cli.exit import motors_after, stopping

if TYPE_CHECKING:
    from axbridge.config.rig import Rig
    from axbridge.recording.robot_recorder import RobotRecorder
    from axbridge.robot.robot import Robot


@contextmanager
def interruptible(path: Path | None, rig: Rig | None, asked: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """After Ctrl-C or SIGTERM in the block, which leaves robot and recorder closed, say what is left of both."""
    before = _stamp(path)
    with stopping(rig, lambda: _kept(path, before)):
        yield
    if asked():
        typer.echo(f"stopped: {motors_after(rig)}; {_kept(path, before)}", err=True)


@contextmanager
def watched(*, wanted: bool) -> Iterator[None]:
    """Give every robot that is opened in this block its live page, where that is wanted."""
    if not wanted:
        yield
        return
    from axbridge.robot.open import attending
    from axbridge.view import attach  # noqa: F401 - loaded before a robot waits for it
    from axbridge.view.web_server import need_websockets

    need_websockets()

    with attending(lambda robot, _: robot.view()):
        yield


class ScriptRecording:
    """Records the first robot that this process opens; a context manager.

    The file is made when the robot is opened. At the end the robot is closed first: no motor waits for the disk.
    """

    def __init__(self, path: Path, rig: Rig | None, **facts: Any) -> None:
        from axbridge.recording import robot_recorder  # noqa: F401 - loaded before a robot waits for it
        from axbridge.recording.provenance import describe

        self._path, self._rig, self._facts = path, rig, facts
        self._described = {} if rig is None else describe(rig, **facts)
        self._held = ExitStack()
        self._log: RobotRecorder | None = None

    def __enter__(self) -> ScriptRecording:
        from axbridge.robot.open import attending

        self._held.enter_context(attending(self._opened))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        from axbridge.cli.progress import progress

        with progress("closing the recording"):
            self._held.__exit__(kind, value, trace)
        if kind is None and self._log is None:
            typer.echo("note: nothing was recorded: the script opened no robot", err=True)

    @property
    def made(self) -> bool:
        """Whether there is a file: the script has opened a robot."""
        return self._log is not None

    def failed(self, status: int) -> None:
        """Record that the script has ended with this exit status, which is not 0."""
        if self._log is not None:
            self._log.event("aborted", error=f"the script ended with status {status}")

    def _opened(self, robot: Robot, seed: int) -> None:
        """Record this robot, if it is the first."""
        from axbridge.recording.provenance import describe
        from axbridge.recording.recorder import Recorder
        from axbridge.recording.robot_recorder import RobotRecorder

        if self._log is not None:
            typer.echo(f"note: {self._path} holds the first robot that the script opened, not this one", err=True)
            return
        facts = self._described if robot.rig == self._rig else describe(robot.rig, **self._facts)
        facts |= {"backend": robot.backend, "seed": seed}
        recorder = self._held.enter_context(Recorder(self._path, facts))
        self._held.enter_context(robot)
        self._log = self._held.enter_context(RobotRecorder(robot, recorder))


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """What tells a file from another that takes its place."""
    if path is None or not path.is_file():
        return None
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def _kept(path: Path | None, before: tuple[int, int] | None) -> str:
    from axbridge.errors import RecordingError
    from axbridge.recording.stored import open_recording

    if path is None or _stamp(path) == before:
        return "nothing was recorded"
    try:
        found = open_recording(path)
    except RecordingError as error:
        return str(error).splitlines()[0]
    if not found.spans():
        return f"{path} holds no samples yet"
    end = f"{found.end - found.start:.1f} s"
    return f"{path} is whole and holds {end}" if found.complete else f"{path} {found.flaw}: {end}"
