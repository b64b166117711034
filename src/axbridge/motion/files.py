"""Read and write moves: `.json` (axbridge's own), `.mtn` (RoboPlus), `.motion` (Webots)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from axbridge.config.rig import Rig
from axbridge.config.toml_tables import shipped
from axbridge.errors import MoveError, RecordingError, UsageError, nearest, plural
from axbridge.file_reading import controls, reading, refuse_other_kind, regular
from axbridge.files import write_whole
from axbridge.motion.moves import FARTHEST, LONGEST, MOST, Key, Move, Page, tracks
from axbridge.motion.mtn import JointTable, joints_of, load_mtn, move_of, mtn_of, plain, save_mtn

_KINDS = ".json, .mtn or .motion"
_SHIPPED, _FOLDER = "sample:", "examples"  # prefix of the name of a shipped move, and the folder of its file
_HEADER, _VERSIONS = "#WEBOTS_MOTION", {"V1.0", "V1.1"}
_SAMPLE = 0.02  # s between the rows of a curved trajectory in a .motion file


def load_move(path: str | Path, rig: Rig | None = None) -> tuple[Move, list[str]]:
    """Read a move and its warnings; `rig` gives the joints of ids and Webots' names. Raises MoveError, UsageError."""
    if str(path).startswith(_SHIPPED):
        path = _sample(str(path).removeprefix(_SHIPPED))
    kind = Path(path).suffix.lower()
    with reading(partial(MoveError, path, ""), "correct it, or record the move again"):
        if kind == ".mtn":
            file = load_mtn(path)
            move, notes = move_of(file, _needed(rig, path))
            return move, [*file.warnings, *notes]
        if kind == ".motion":
            servos = () if rig is None else rig.servos
            names = {} if rig is None else rig.webots.aliases
            joints = {servo.name for servo in servos}
            return load_motion(path).mirrored({alias: (n, 1.0) for alias, n in names.items() if n in joints}), []
        if kind == ".json":
            return Move.load(path), []
        if Path(path).is_file():
            refuse_other_kind(path, partial(MoveError, path, ""))
    ours = f"; {_SHIPPED}{path} comes with axbridge" if str(path) in samples() else ""
    raise UsageError(f"{path}: no such kind of move", f"a move is a file {_KINDS}{ours}")


def save_move(move: Move, path: str | Path, rig: Rig | None = None) -> list[str]:
    """Write a move completely or not at all; return notes on what the kind of file cannot store."""
    kind = Path(path).suffix.lower()
    if kind == ".mtn":
        file, notes = mtn_of(move, _needed(rig, path))
        save_mtn(file, path)
        return notes
    if kind == ".motion":
        write_whole(path, motion_text(move))
        return [f"{field} is not kept" for field in ("speed", "torque", "slope") if getattr(move.single, field)]
    if kind == ".json":
        move.save(path)
        return []
    raise UsageError(f"{path}: no such kind of move", f"name it {_KINDS}")


def samples() -> list[str]:
    """Return the names of the moves that come with axbridge."""
    return sorted(path.stem for path in shipped(_FOLDER).glob("*.json"))


def _sample(name: str) -> Path:
    if name not in samples():
        hint = nearest(name, samples())
        raise UsageError(f"there is no move {_SHIPPED}{name}", f"{hint}moves: {', '.join(samples())}")
    return shipped(_FOLDER) / f"{name}.json"


def _needed(rig: Rig | None, path: str | Path) -> JointTable:
    if rig is None:
        raise UsageError(f"{path}: a .mtn file has ids, but no names of joints", "give --rig")
    return joints_of(rig)


def parse_motion(lines: list[str], path: str | Path = "motion") -> Move:
    """Return a move of one page from the lines of a Webots .motion file; raise RecordingError if they are invalid.

    A file is a table: ``#WEBOTS_MOTION,V1.0,motor,motor,…``, then rows ``mm:ss:ms,pose name,position,position,…`` in
    order of time; ``*`` does not move the motor. Between two poses positions change linearly.
    """
    header = [field.strip() for field in lines[0].split(",")] if lines else [""]
    motors = header[2:]
    if header[0] != _HEADER or len(header) < 3 or header[1] not in _VERSIONS:
        raise RecordingError(path, "no Webots motion", f"the first line must be `{_HEADER},V1.0,motor,…`")
    if controls("".join(lines)):
        raise RecordingError(path, "has control characters", "write plain text")
    if "" in motors or len({*motors}) < len(motors):
        raise RecordingError(path, "line 1: a motor without a name, or one twice", "correct that line")
    keys: list[Key] = []
    time, before = -1.0, 0.0  # ms: of the last row, and of the last row that moves a motor
    for number, line in enumerate(lines[1:], start=2):
        if line.strip():
            try:
                time, name, positions = _row(line, motors, time)
            except ValueError as mistake:
                raise RecordingError(path, f"line {number}: {mistake}", "correct that line") from mistake
            if positions:
                keys.append(Key(positions=positions, time=(time - before) / 1000, name=name))
                before = time
    if not keys:
        raise RecordingError(path, "has no poses", "add a line `00:00:000,Pose1,…` with a position a motor")
    keys[-1] = keys[-1].model_copy(update={"pause": (time - before) / 1000})
    return Move(pages={"1": Page(keys=tuple(keys), interpolation="linear")})


def load_motion(path: str | Path) -> Move:
    """Read a .motion file."""
    with reading(partial(RecordingError, path), "give a Webots .motion file"):
        return parse_motion(regular(path).read_text(encoding="utf-8-sig").splitlines(), path)


def _row(line: str, motors: list[str], after: float) -> tuple[float, str, dict[str, float]]:
    """Return time, ms, name and positions of a row, without those of motors that it does not move."""
    time, name, *fields = [field.strip() for field in line.split(",")]
    if len(fields) != len(motors):
        raise ValueError(f"{plural(len(fields), 'position')} for {plural(len(motors), 'motor')}")
    positions = {motor: float(plain(field)) for motor, field in zip(motors, fields, strict=True) if field != "*"}
    if not all(abs(position) <= FARTHEST for position in positions.values()):
        raise ValueError(f"positions must be between {-FARTHEST:g} and {FARTHEST:g}")
    at = _milliseconds(time)
    if at <= after:
        raise ValueError(f"time {time} is not later than the pose before")
    return at, name, positions


def _milliseconds(text: str) -> float:
    """Convert `mm:ss:ms`, `ss:ms` or `ms` to ms; minutes may exceed 59."""
    parts = text.split(":")
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"time {text!r} is not mm:ss:ms")
    minutes, seconds, milliseconds = (0,) * (3 - len(parts)) + tuple(map(int, parts))
    total = (minutes * 60 + seconds) * 1000 + milliseconds
    if total > 1000 * LONGEST:
        raise ValueError(f"a motion of more than {LONGEST:g} s")
    return float(total)


def motion_text(move: Move) -> str:
    """Return a move as a .motion file: its keys if the trajectory between them is straight, else a row every 20 ms."""
    page = move.single
    if page.duration / _SAMPLE > MOST:
        why = f"a .motion file of {page.duration:g} s would have more than {MOST} rows"
        raise UsageError(why, "make the move shorter, or keep it as .json")
    for name in (*page.joints, *(key.name for key in page.keys)):
        if set(name) & set(",\r\n"):
            raise UsageError(f"name {name!r} does not fit into a .motion file", "take one without commas")
    rows: dict[int, tuple[str, dict[str, float]]] = {}  # time, ms -> name and positions

    def add(time: float, name: str) -> None:
        at = round(time * 1000)
        first, earlier = rows.get(at, (name or f"Pose{len(rows) + 1}", {}))
        # all moving joints: Webots interpolates between consecutive rows only, not across a `*`
        positions = {joint: path.at(time) for joint, path in paths.items() if path.times[0] <= time <= path.times[-1]}
        rows[at] = first, {**earlier, **positions}

    time = 0.0
    paths = tracks(page)
    for number, key in enumerate(page.keys):
        if page.interpolation != "linear" and number:
            for row in range(1, max(1, round(key.time / _SAMPLE))):
                moment = time + row * _SAMPLE
                if moment < time + key.time - _SAMPLE / 2:
                    add(moment, "")
        time += key.time
        add(time, key.name)
        if key.pause:
            time += key.pause
            add(time, key.name)
    text = ",".join((_HEADER, "V1.0", *page.joints)) + "\n"
    for at, (name, positions) in rows.items():
        minutes, rest = divmod(at, 60_000)
        fields = [f"{positions[joint]:.6g}" if joint in positions else "*" for joint in page.joints]
        text += ",".join((f"{minutes:02}:{rest // 1000:02}:{rest % 1000:03}", name, *fields)) + "\n"
    return text
