"""`axbridge run`: run a Webots controller or a script that uses axbridge on a rig."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from axbridge import AxBridgeError, Robot, UsageError
from axbridge.cli.app import DONE, FAILED_CHECK, note
from axbridge.cli.exit import interruptible
from axbridge.cli.options import WRITES, Where, verb
from axbridge.cli.progress import progress
from axbridge.file_reading import refuse_other_kind
from axbridge.recording.provenance import origin_in_words
from axbridge.recording.robot_recorder import RobotRecorder, recording_of
from axbridge.robot.open import attending
from axbridge.view.page import watched
from axbridge.webots import Session, install
from axbridge.webots.session import say

_OF_SCRIPT = {"allow_extra_args": True, "ignore_unknown_options": True}  # they go to the script
_CONTROLLER = re.compile(rb"^\s*(?:from|import)\s+controller\b", re.MULTILINE)  # in a Webots controller
_STEP_PATIENCE = 0.4  # s; a controller that steps reads the request to end within this time


@verb("my_controller.py --rig bioloid", context_settings=_OF_SCRIPT)
def run(
    context: typer.Context,
    script: Annotated[Path, "The script; words after it are its own, and after -- options, too."],
    *,
    rig: Annotated[str | None, "Of a Webots controller; other scripts open their own."] = None,
    where: Where,
    duration: Annotated[float | None, "Then the controller is asked to end."] = None,
    record: Annotated[Path | None, "Of the first robot that the script opens.", WRITES] = None,
    view: bool = False,
) -> int:
    """Run a Webots controller, or any script that uses axbridge, without changing it.

    A script that uses axbridge itself gets these options in AXBRIDGE_BACKEND, AXBRIDGE_PORT, AXBRIDGE_ENGINE,
    AXBRIDGE_MODEL and AXBRIDGE_REALTIME.
    """
    if duration is not None and not duration > 0:
        raise UsageError(f"--duration {duration:g} is no time", "give seconds, such as --duration 5")
    if not script.is_file():
        raise UsageError(f"no such script: {script}", "give the path of a Python controller")
    refuse_other_kind(script, lambda what, hint: UsageError(f"{script} {what}, and no script", hint))
    script = script.resolve()
    if rig is None and _CONTROLLER.search(script.read_bytes()):
        rig = os.environ.get("AXBRIDGE_RIG") or None
    if rig is None and duration is not None:
        raise UsageError("--duration is for the robot of a Webots controller", "name it with --rig")
    loaded = None
    if rig is not None:
        loaded = where.rig(rig)
        loaded = loaded.model_copy(update={"path": loaded.path.resolve()})
    backend, port, model = where.chosen, where.port, where.simulated_model
    if port is not None and Path(port).exists():
        port = str(Path(port).resolve())
    model = str(Path(model).resolve()) if model is not None and Path(model).is_file() else model
    realtime = "1" if view else None  # the page shows it in real time
    env = {"BACKEND": backend, "ENGINE": where.engine, "PORT": port, "REALTIME": realtime, "MODEL": model}
    os.environ.update({f"AXBRIDGE_{name}": value for name, value in env.items() if value is not None})
    session, arguments = None, context.args
    if loaded is not None:
        session = install(loaded, backend, port=port, duration=duration, project=script.parent)
        arguments = arguments or list(loaded.webots.controller_args)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    record = None if record is None else record.resolve()
    os.chdir(script.parent)  # Webots also runs a controller in its own folder
    received: set[int] = set()
    with ExitStack() as held:
        held.enter_context(watched(wanted=view))
        held.enter_context(attending(lambda robot, _: note(f"{robot.name}: {origin_in_words(robot.origin)}")))
        recording: list[RobotRecorder] = []
        if record is not None:
            held.enter_context(interruptible(record, loaded, lambda: signal.SIGINT in received))
            facts = {"script": str(script), "arguments": sys.argv[1:]}
            recording = held.enter_context(_recording(record, experiment=script.stem, **facts))
        if session is not None:
            held.callback(session.close)
        _end_on_signals(session, received, held.close)
        status = _execute(script, controller=session is not None)
        if recording and status != DONE:
            recording[0].finish()
            recording[0].event("aborted", error=f"the script ended with status {status}")
    if recording:
        typer.echo(f"wrote {record}", err=True)
    return status


@contextmanager
def _recording(path: Path, **facts: Any) -> Iterator[list[RobotRecorder]]:
    """Record the first robot that this process opens; yield a list that gets its `RobotRecorder`.

    The file is created when the robot is opened. At the end the robot is closed first, so that its motors do not wait
    for the disk.
    """
    logs: list[RobotRecorder] = []

    def opened(robot: Robot, seed: int) -> None:
        if logs:
            note(f"{path} holds the first robot that the script opened, not this one")
            return
        recorder = held.enter_context(recording_of(robot, path, robot.rig, seed=seed, **facts))
        logs.append(held.enter_context(RobotRecorder(robot, recorder)))

    with ExitStack() as shown, ExitStack() as held:
        held.enter_context(attending(opened))
        try:
            yield logs
        finally:
            shown.enter_context(progress("closing the recording"))
    if not logs:
        note("nothing was recorded: the script opened no robot")


def _end_on_signals(session: Session | None, received: set[int], close: Callable[[], None]) -> None:
    """Make the first Ctrl-C or SIGTERM end the controller at its next step, as Webots does; a second ends it at once.

    If the controller does not step within `_STEP_PATIENCE`, Ctrl-C prints a hint, and SIGTERM is sent again. A script
    that has opened no controller's robot is interrupted by Ctrl-C, as usual in Python.
    """

    def ask(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and (session is None or session.ending or not session.opened):
            received.add(number)
            signal.default_int_handler(number, frame)
        if number in received:
            try:
                close()
            finally:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
        if session is not None:
            session.ending = True
        received.add(number)
        waiting = threading.Timer(_STEP_PATIENCE, insist, (number,))
        waiting.daemon = True
        waiting.start()

    def insist(number: int) -> None:
        if session is not None and session.notified:
            return
        if number == signal.SIGTERM:
            os.kill(os.getpid(), number)
        else:
            say("axbridge: Ctrl-C: the controller ends at its next step; a second Ctrl-C ends it now")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)


def _execute(script: Path, *, controller: bool) -> int:
    """Run the script as `__main__`; return its exit status, or print its traceback and return 1."""
    module = {"__name__": "__main__", "__file__": str(script), "__builtins__": __builtins__}
    try:
        exec(compile(script.read_bytes(), str(script), "exec"), module)  # noqa: S102 - what this verb is for
    except SystemExit as leave:
        if leave.code is None or isinstance(leave.code, int):
            return leave.code or DONE
        print(leave.code, file=sys.stderr)
        return FAILED_CHECK
    except (KeyboardInterrupt, AxBridgeError):
        raise
    except Exception as failure:  # shown as Python shows it
        if isinstance(failure, ModuleNotFoundError) and failure.name == "controller" and not controller:
            raise UsageError(
                f"{script.name} is a Webots controller", "name its robot with --rig, or set AXBRIDGE_RIG"
            ) from failure
        below = failure.__traceback__.tb_next if failure.__traceback__ else None  # without the frame of this function
        traceback.print_exception(type(failure), failure, below)
        return FAILED_CHECK
    return DONE
