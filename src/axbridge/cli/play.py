"""`axbridge play`: play a move on a real or simulated robot."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Annotated

import typer

from axbridge.cli import options as opt
from axbridge.cli.app import app, note, report
from axbridge.cli.exit import interruptible, motors_after
from axbridge.cli.progress import progress
from axbridge.config.rig import Rig
from axbridge.files import check_new
from axbridge.motion.files import load_move
from axbridge.motion.player import play as play_move
from axbridge.recording.provenance import origin_in_words
from axbridge.recording.robot_recorder import RobotRecorder, recording_of
from axbridge.robot.open import open_robot


@app.command(epilog="sample:bow --rig bioloid")
def play(
    move: opt.MoveArgument,
    *,
    rig: opt.RigOption,
    backend: opt.BackendOption = None,
    engine: opt.EngineOption = None,
    model: opt.ModelOption = None,
    port: opt.ExplicitPortOption = None,
    pace: Annotated[float, typer.Option(help="2 is twice as fast.")] = 1.0,
    joints: Annotated[str, opt.shared("--joints")] = "",
    page: Annotated[str | None, typer.Option(help="Start with this page: its name or number.")] = None,
    record: opt.RecordOption = None,
    force: opt.ForceOption = False,
    seed: opt.SeedOption = 0,
    json: opt.JsonOption = False,
) -> None:
    """Play a move: go slowly to its first pose, play it within all limits, and end it.

    Ctrl-C plays the page under way to its end and then its exit page, or stops at once where it has none; a second
    Ctrl-C leaves the robot at once. The motors are left as the rig's on_exit says.
    """
    check_new(record, force=force, sources=(move,))
    loaded = Rig.load(rig).with_engine(engine).with_model(model)
    loaded_move, notes = load_move(move, loaded)
    note(*(f"{move}: {text}" for text in notes))
    again = loaded_move.chain(loaded_move.start if page is None else loaded_move.find(page))[1]
    if again is not None:
        note(f"the move never ends, because page {again!r} comes again: Ctrl-C ends it")
    only = opt.separated(joints) or None
    with (
        interruptible(record, loaded),
        progress(f"playing {move}", quiet=json),
        open_robot(loaded, backend, port=port, seed=seed) as robot,
        ExitStack() as stack,
    ):
        if record is not None:
            facts = {"seed": seed, "experiment": "play", "move": str(move), "pace": pace}
            recorder = stack.enter_context(recording_of(robot, record, loaded, **facts))
            stack.enter_context(RobotRecorder(robot, recorder)).mark(f"play {move.name}", kind="play")
        stop = stack.enter_context(_asked_to_stop())
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
    more = {"origin": robot.origin, "recording": None if record is None else str(record)}
    report("play-1", {**asdict(played), **more}, lines, json=json)


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; a second Ctrl-C calls the previous handler."""
    asked: list[int] = []
    earlier = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            signal.signal(signal.SIGINT, earlier)
            if callable(earlier):
                earlier(number, frame)
        asked.append(number)

    signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, earlier)
