"""`axbridge teach`: record a move by hand."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

from axbridge import Rig, Robot
from axbridge.cli.app import emit_json, note
from axbridge.cli.by_hand import END, discard_earlier, pressed
from axbridge.cli.exit import stopping
from axbridge.cli.options import WRITES, RigOption, separated, verb
from axbridge.cli.progress import progress
from axbridge.errors import BusError, UsageError, plural
from axbridge.motion.files import save_move
from axbridge.motion.moves import Key, Move, Page
from axbridge.motion.teaching import Capture, Taught, chosen, pose_key, soft
from axbridge.robot.open import open_robot
from axbridge.robot.watch import Watch


@verb("--rig bench_arm --port /dev/ttyUSB0 --out wave.json")
def teach(
    *,
    rig: RigOption,
    out: Annotated[Path, "A .json, .mtn or .motion file.", "MOVE", WRITES],
    port: str | None = None,
    joints: Annotated[str, "They become soft."] = "",
    stiffness: Annotated[float, "0 = limp; 0.3 = a joint carries itself with 30 %."] = 0.0,
    keyframes: Annotated[bool, "Each key takes a pose; q ends."] = False,
    duration: Annotated[float, "Then you need no keys.", {"min": 0.0}] = 0.0,
    json: bool = False,
) -> None:
    """Move some joints by hand, and write what you did as a move.

    The chosen joints go soft: hold them. All other joints hold where they are, so that nothing drops. One key begins,
    another key ends. Then the robot holds the last pose until you press a key. Support it: its motors go off.
    """
    if out.suffix.lower() not in {".json", ".mtn", ".motion"}:
        raise UsageError(f"{out}: no such kind of move", "name it .json, .mtn or .motion")
    loaded = Rig.load(rig)
    left, document = "nothing was written", dict[str, Any](out=str(out))

    def save(move: Move) -> None:
        nonlocal left
        try:
            note(*save_move(move, out, loaded))
        except UsageError as misfit:  # such a file cannot hold it: what the hand did must not be lost
            names = (out.with_name(f"{out.stem}{more}.json") for more in chain([""], map("-{}".format, count(2))))
            spare = next(path for path in names if not path.exists())
            save_move(move, spare, loaded)
            left = f"{spare} is whole"
            raise UsageError(f"{out} was not written: {misfit.message}", f"the move is whole in {spare}") from misfit
        poses = len(move.pages["1"].keys)
        document.update(poses=poses, seconds=move.duration, joints=move.joints)
        if not json:
            print(f"wrote {out}: {plural(poses, 'pose')}, {move.duration:.1f} s, {', '.join(move.joints)}")
        left = f"{out} is whole"

    with stopping(loaded, lambda: left):
        with progress("opening the robot"):
            robot = open_robot(loaded, "real", port=port)
        with robot, pressed() as key:
            names = chosen(robot, separated(joints) or None)
            with soft(robot, names, stiffness):
                if keyframes:
                    _poses(robot, names, key, save)
                else:
                    taught = _hand(robot, names, key, duration, save)
                    document |= {fact: value for fact, value in vars(taught).items() if fact != "move"}
                    if not json:
                        off, rms = math.degrees(taught.smoothed), math.degrees(taught.smoothed_rms)
                        print(f"cut       {taught.trimmed:.1f} s of rest")
                        print(f"smoothed  by {off:.1f}° at most, {rms:.2f}° RMS")
            if json:
                emit_json("teach-1", document)
            if sys.stdin.isatty():
                discard_earlier(key)
                print("it holds; support it and press a key to let go", file=sys.stderr)
                while not key() and robot.step() != -1:
                    pass


def _hand(
    robot: Robot, names: tuple[str, ...], key: Callable[[], str], seconds: float, save: Callable[[Move], None]
) -> Taught:
    """Record the hand-guided motion for `seconds`, or between two keys; after a failure, save the motion so far."""
    capture = Capture(robot, names)
    if not seconds:
        discard_earlier(key)
        print(f"soft: {', '.join(names)}\nlead it to the start, then press a key", file=sys.stderr)
        _wait(robot, key)
        print("recording; a key ends it", file=sys.stderr)
    try:
        capture.run(lambda passed: passed >= seconds if seconds else bool(key()))
    except (BusError, KeyboardInterrupt):
        with suppress(UsageError):  # raised if nothing has moved yet
            save(capture.taught().move)
        raise
    taught = capture.taught()
    save(taught.move)
    for joint, far in taught.clipped.items():
        note(f"{joint} went {math.degrees(far):.1f}° beyond its limit: cut off there")
    return taught


def _poses(robot: Robot, names: tuple[str, ...], key: Callable[[], str], save: Callable[[Move], None]) -> None:
    """Record a pose for every key, until q; after a failure, save the poses so far."""
    discard_earlier(key)
    print(f"soft: {', '.join(names)}\na key takes a pose, q ends", file=sys.stderr)
    keys: list[Key] = []
    try:
        while _wait(robot, key) not in {"q", "Q", END}:
            keys.append(pose_key(robot, names))
            print(f"pose {len(keys)}", file=sys.stderr)
    finally:
        if keys:
            save(Move(pages={"1": Page(keys=tuple(keys))}))
    if not keys:
        raise UsageError("no pose was taken", "press a key for each pose, then q")


def _wait(robot: Robot, key: Callable[[], str]) -> str:
    watch = Watch(robot)  # a pose of a servo that is missing would be an old one
    while not (struck := key()):
        if robot.step() == -1:
            return END
        watch.check()
    return struck
