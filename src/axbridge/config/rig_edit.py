"""Edit servo values in the text of a rig file without changing comments or order; copy a rig's files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from axbridge.config.rig import FOLDER, Rig
from axbridge.config.toml_tables import parse_toml, shipped, written
from axbridge.errors import RigError, UsageError
from axbridge.files import write_whole

Value = int | float | str | dict[str, int]

_SERVO = re.compile(r"\s*\[\[\s*servo\s*\]\]")
_ORDER = (
    "name", "joint", "drive", "bus", "id", "profile", "zero", "direction", "model", "min_position", "max_position",
)  # fmt: skip
_KEY = r"(?P<head>\s*{key}\s*=\s*)(?P<value>\"[^\"]*\"|'[^']*'|{{[^{{}}#]*}}|[^\s#\[{{]+)(?P<gap>\s*)(?P<rest>#.*)?"


def edited(text: str, changes: Mapping[str, Mapping[str, Value]], path: Path) -> str:
    """Return the text of a rig file with new values of some servos; existing values are replaced in their lines."""
    if not changes:
        return text
    lines = text.splitlines(keepends=True)
    for name, values in changes.items():
        lines = _with_servo(lines, name, values)
    result = "".join(lines)
    mark = "\ufeff"  # byte order mark of Windows editors
    wanted = parse_toml(text.removeprefix(mark), path, RigError)
    servos = wanted.setdefault("servo", [])
    for name, values in changes.items():
        if all(servo.get("name") != name for servo in servos):
            servos.append({"name": name})
        next(servo for servo in servos if servo.get("name") == name).update(values)
    try:
        safe = parse_toml(result.removeprefix(mark), path, RigError) == wanted
    except RigError:
        safe = False
    if not safe:
        said = (f"{name}: {written(new)[2:-2]}" for name, new in changes.items())
        why, by_hand = "these tables cannot be edited line by line", "; ".join(said)
        raise RigError(path, "servo", why, f"write by hand {by_hand}")
    return result


def _with_servo(lines: Sequence[str], name: str, values: Mapping[str, Value]) -> list[str]:
    """Return the lines with new values of one servo."""
    end_of_line = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    begin, end = _table_of(lines, name)
    before, block, after = list(lines[:begin]), list(lines[begin:end]), list(lines[end:])
    if not block:
        if before and not before[-1].endswith("\n"):
            before[-1] += end_of_line
        block = [end_of_line, f"[[servo]]{end_of_line}", f"name = {json.dumps(name, ensure_ascii=False)}{end_of_line}"]
    elif not block[-1].endswith("\n"):
        block[-1] += end_of_line
    for key, value in values.items():
        block = _with_value(block, key, value, end_of_line)
    return [*before, *block, *after]


def _table_of(lines: Sequence[str], name: str) -> tuple[int, int]:
    """Return the lines (first, end) of the [[servo]] of that name, without its subtables; equal if there is none."""
    wanted = re.compile(rf"\s*name\s*=\s*([\"']){re.escape(name)}\1\s*(#.*)?$")
    heads = [index for index, line in enumerate(lines) if re.match(r"\s*\[", line)]
    for head, end in pairwise([*heads, len(lines)]):
        if _SERVO.match(lines[head]) and any(wanted.match(line.rstrip("\r\n")) for line in lines[head:end]):
            return head, end
    return len(lines), len(lines)


def _with_value(block: Sequence[str], key: str, value: Value, end_of_line: str) -> list[str]:
    """Return the lines of a table with one value set; a trailing comment keeps its column if there is room."""
    result = list(block)
    keys = (re.match(r"\s*([A-Za-z0-9_-]+)\s*=", line) for line in block)
    places = {match[1]: index for index, match in enumerate(keys) if match}
    if key not in places:
        earlier = _ORDER[: _ORDER.index(key)] if key in _ORDER else _ORDER
        after = max((places[name] for name in earlier if name in places), default=0)
        result.insert(after + 1, f"{key} = {written(value)}{end_of_line}")
        return result
    match = re.fullmatch(_KEY.format(key=re.escape(key)), block[places[key]].rstrip("\r\n"))
    if match is not None:  # else the value has several lines: the check of the whole text refuses it
        new = written(value)
        room = max(len(match["value"]) + len(match["gap"]) - len(new), 1) if match["rest"] else 0
        result[places[key]] = match["head"] + new + " " * room + (match["rest"] or "") + end_of_line
    return result


_NAME = re.compile(r'^name[ \t]*=[ \t]*"[^"\n]*"', re.MULTILINE)


def files_of(rig: Rig) -> list[Path]:
    """Return the rig file, and the files in its folder that it names: URDF, meshes, profiles, models."""
    folder = rig.path.resolve().parent
    paths = [rig.path.resolve()]
    if rig.world is not None:
        paths.append(rig.urdf_path().resolve())
        paths += [shape.file.resolve() for shape in (*rig.shapes("collision"), *rig.shapes("visual")) if shape.file]
    for spec in (rig.specs[servo.name] for servo in rig.dynamixels):
        paths += [spec.profile.path.resolve(), spec.model.path.resolve()]
    return [path for path in dict.fromkeys(paths) if path.is_file() and folder in path.parents]


def copy_rig(rig: Rig, folder: Path) -> list[Path]:
    """Copy a rig into a new or empty folder, and name it after the folder; return the files."""
    home = shipped(FOLDER).resolve()
    for base in rig.bases:
        if home not in base.parents:
            raise UsageError(
                f"{rig.path} stands on {base}, which a copy would not find", f"copy {base.name}, or its whole folder"
            )
    first, *others = files_of(rig)
    target = folder / f"{folder.resolve().name}.toml"
    pairs = [(path, folder / path.relative_to(first.parent)) for path in others]
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder} is no empty folder", "give the name of a new folder")
    text = _NAME.sub(f'name = "{target.stem}"', first.read_text(encoding="utf-8-sig"), count=1)
    existed = folder.exists()
    try:
        write_whole(target, text)
        for path, place in pairs:
            write_whole(place, path.read_bytes())
    except BaseException:  # leave no partial copy
        shutil.rmtree(folder, ignore_errors=True)
        if existed:
            folder.mkdir(exist_ok=True)
        raise
    return [target, *(place for _, place in pairs)]
