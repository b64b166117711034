"""Moves in files of every kind: `.json` (our own), `.mtn` (RoboPlus), `.motion` (Webots), by their endings."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from axbridge.config.toml_tables import shipped
from axbridge.errors import MoveError, UsageError, nearest
from axbridge.file_reading import reading
from axbridge.motion.keyframes import KeyframeMotion, Pose
from axbridge.motion.moves import MOST, Key, Move, Page, tracks
from axbridge.motion.mtn import JointTable, load_mtn, move_of, mtn_of, save_mtn

_KINDS = ".json, .mtn or .motion"
_SHIPPED, _FOLDER = "sample:", "examples"  # what a name begins with, and where its file lies
_SAMPLE = 0.02  # s between the rows of a curved way in a .motion file


def load_move(path: str | Path, joints: JointTable | None = None) -> tuple[Move, list[str]]:
    """Read a move of any kind."""
    if str(path).startswith(_SHIPPED):
        path = _sample(str(path).removeprefix(_SHIPPED))
    kind = Path(path).suffix.lower()
    with reading(partial(MoveError, path, ""), "correct it, or record the move again"):
        if kind == ".mtn":
            file = load_mtn(path)
            move, notes = move_of(file, _needed(joints, path))
            return move, [*file.warnings, *notes]
        if kind == ".motion":
            move = move_of_motion(KeyframeMotion.load(path))
            aliases = {} if joints is None else joints.aliases
            return move.mirrored({alias: (name, 1.0) for alias, name in aliases.items()}), []
        if kind == ".json":
            return Move.load(path), []
    ours = f"; {_SHIPPED}{path} comes with axbridge" if str(path) in samples() else ""
    raise UsageError(f"{path}: no such kind of move", f"a move is a file {_KINDS}{ours}")


def save_move(move: Move, path: str | Path, joints: JointTable | None = None) -> list[str]:
    """Write a move of any kind, whole or not at all; notes on what the kind cannot hold."""
    kind = Path(path).suffix.lower()
    if kind == ".mtn":
        file, notes = mtn_of(move, _needed(joints, path))
        save_mtn(file, path)
        return notes
    if kind == ".motion":
        motion_of(move).save(path)
        return [f"{field} is not kept" for field in ("speed", "torque", "slope") if getattr(move.single, field)]
    if kind == ".json":
        move.save(path)
        return []
    raise UsageError(f"{path}: no such kind of move", f"name it {_KINDS}")


def samples() -> list[str]:
    """Names of the moves that come with axbridge."""
    return sorted(path.stem for path in shipped(_FOLDER).glob("*.json"))


def _sample(name: str) -> Path:
    if name not in samples():
        hint = nearest(name, samples())
        raise UsageError(f"there is no move {_SHIPPED}{name}", f"{hint}moves: {', '.join(samples())}")
    return shipped(_FOLDER) / f"{name}.json"


def _needed(joints: JointTable | None, path: str | Path) -> JointTable:
    if joints is None:
        raise UsageError(f"{path}: a .mtn file knows ids, not joints", "give --rig, or a table with --joint ID=NAME")
    if joints.twice:
        raise UsageError(joints.twice, "RoboPlus knows one bus: give a table with --joint ID=NAME")
    return joints


def move_of_motion(motion: KeyframeMotion) -> Move:
    """A Webots motion as a move of one page."""
    keys: list[Key] = []
    before = 0.0
    for pose in motion.poses:
        if pose.positions:
            keys.append(Key(positions=pose.positions, time=(pose.time - before) / 1000, name=pose.name))
            before = pose.time
    if not keys:
        raise UsageError("the motion moves no motor", "give a row with positions")
    return Move(pages={"1": Page(keys=tuple(keys), interpolation="linear")})


def motion_of(move: Move) -> KeyframeMotion:
    """A move as a Webots motion: its keys where the way between them is straight, else a row every 20 ms."""
    page = move.single
    if page.duration / _SAMPLE > MOST:
        why = f"a .motion file of {page.duration:g} s would have more than {MOST} rows"
        raise UsageError(why, "make the move shorter, or keep it as .json")
    poses: list[Pose] = []

    def add(time: float, name: str, positions: dict[str, float]) -> None:
        milliseconds = float(round(time * 1000))
        if not poses or milliseconds > poses[-1].time:
            poses.append(Pose(milliseconds, name or f"Pose{len(poses) + 1}", positions))
        else:
            poses[-1] = Pose(poses[-1].time, poses[-1].name, {**poses[-1].positions, **positions})

    time = 0.0
    ways = tracks(page)
    for number, key in enumerate(page.keys):
        if page.interpolation != "linear" and number:
            for row in range(1, max(1, round(key.time / _SAMPLE))):
                moment = time + row * _SAMPLE
                if moment < time + key.time - _SAMPLE / 2:
                    add(moment, "", {joint: way.at(moment) for joint, way in ways.items()})
        time += key.time
        add(time, key.name, dict(key.positions))
        if key.pause:
            time += key.pause
            add(time, key.name, dict(key.positions))
    return KeyframeMotion(page.joints, tuple(poses))
