"""`axbridge play`: play a move on a real or simulated robot."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated

from axbridge.cli.app import note
from axbridge.cli.exit import interruptible, motors_after
from axbridge.cli.options import WRITES, MoveArgument, Result, RigOption, Where, separated, verb
from axbridge.cli.progress import progress
from axbridge.motion.files import load_move
from axbridge.motion.player import play as play_move
from axbridge.recording.provenance import origin_in_words
from axbridge.recording.robot_recorder import RobotRecorder, recording_of
from axbridge.robot.open import open_robot


@verb("sample:bow --rig bioloid")
def play(
    move: MoveArgument,
    *,
    rig: RigOption,
    where: Where,
    pace: Annotated[float, "2 is twice as fast."] = 1.0,
    joints: str = "",
    page: Annotated[str | None, "Start with this page: its name or number."] = None,
    record: Annotated[Path | None, WRITES] = None,
    seed: int = 0,
) -> Result:
    """Play a move: go slowly to its first pose, play it within all limits, and end it.

    Ctrl-C plays the present page to its end and then its exit page, or stops at once if it has none; a second Ctrl-C
    stops at once. The motors are left as the rig's on_exit says.
    """
    loaded = where.rig(rig)
    loaded_move, notes = load_move(move, loaded)
    note(*(f"{move}: {text}" for text in notes))
    again = loaded_move.chain(loaded_move.start if page is None else loaded_move.find(page))[1]
    if again is not None:
        note(f"the move never ends, because page {again!r} comes again: Ctrl-C ends it")
    with (
        interruptible(record, loaded),
        progress(f"playing {move}"),
        open_robot(loaded, where.backend, port=where.port, seed=seed) as robot,
        ExitStack() as stack,
    ):
        if record is not None:
            facts = {"seed": seed, "experiment": "play", "move": str(move), "pace": pace}
            recorder = stack.enter_context(recording_of(robot, record, loaded, **facts))
            stack.enter_context(RobotRecorder(robot, recorder)).mark(f"play {move.name}", kind="play")
        stop = stack.enter_context(_asked_to_stop())
        only = separated(joints) or None
        played = play_move(robot, loaded_move, pace=pace, joints=only, page=page, stop=stop, note=note)
    by_page = "" if played.exit is None else f", by page {played.exit}"
    lines = [f"{f'stopped{by_page}' if played.stopped else 'played'}: {played.seconds:.2f} s"]
    lines.append(f"robot     {origin_in_words(robot.origin)}")
    if math.isfinite(played.start_error):
        start, deviation = math.degrees(played.start_error), math.degrees(played.worst_error)
        lines.append(f"start     {start:.1f}° off the first pose")
        lines.append(f"error     {deviation:.1f}° from the goals at most")
    lines += [] if record is None else [f"recording {record}"]
    lines += [] if robot.backend == "sim" else [motors_after(loaded)]
    return Result({**asdict(played), "origin": robot.origin, "recording": record and str(record)}, lines)


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; the previous handler gets the second Ctrl-C."""
    received: list[int] = []
    earlier = signal.getsignal(signal.SIGINT)

    def ask(number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, earlier)
        received.append(number)

    signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGINT, earlier)
