"""Edit servo values in the text of a rig file without changing comments or order; copy a rig's files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
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
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")
_VALUE = re.compile(r"(?P<head>[^=]*=\s*)(?P<value>\"[^\"]*\"|'[^']*'|{[^{}#]*}|[^\s#\[{]+)(?P<gap>\s*)(?P<rest>#.*)?")


def edited(text: str, changes: Mapping[str, Mapping[str, Value]], path: Path) -> str:
    """Return the text of a rig file with new values of some servos; existing values are replaced in their lines."""
    mark = "\ufeff"  # byte order mark of Windows editors
    lines, wanted = text.split("\n"), parse_toml(text.removeprefix(mark), path, RigError)
    ending = "\r" if lines[0].endswith("\r") else ""
    if lines[-1]:  # the last line has no end
        lines[-1:] = [lines[-1] + ending, ""]
    for name, values in changes.items():
        servos = wanted.setdefault("servo", [])
        if all(servo.get("name") != name for servo in servos):
            servos.append({"name": name})
            lines[-1:] = [ending, f"[[servo]]{ending}", f"name = {written(name)}{ending}", ""]
        next(servo for servo in servos if servo.get("name") == name).update(values)
        for key, value in values.items():
            _set_value(lines, name, key, written(value), ending)
    result = "\n".join(lines)
    try:
        safe = parse_toml(result.removeprefix(mark), path, RigError) == wanted
    except RigError:
        safe = False
    if not safe:
        said = (f"{name}: {written(new)[2:-2]}" for name, new in changes.items())
        why, by_hand = "these tables cannot be edited line by line", "; ".join(said)
        raise RigError(path, "servo", why, f"write by hand {by_hand}")
    return result


def _set_value(lines: list[str], name: str, key: str, value: str, ending: str) -> None:
    """Set one value in the [[servo]] of that name; a comment behind it keeps its column if there is room.

    Tables and values without lines of their own stay: the check of the whole text refuses them.
    """
    named = re.compile(rf"\s*name\s*=\s*([\"']){re.escape(name)}\1\s*(#.*)?$")
    heads = [index for index, line in enumerate(lines) if re.match(r"\s*\[", line)]
    for head, end in pairwise([*heads, len(lines)]):
        if _SERVO.match(lines[head]) and any(map(named.match, lines[head:end])):
            break
    else:
        return
    places = {match[1]: index for index in range(head, end) if (match := _KEY.match(lines[index]))}
    if key not in places:
        earlier = _ORDER[: _ORDER.index(key)] if key in _ORDER else _ORDER
        after = max((places[before] for before in earlier if before in places), default=head)
        lines.insert(after + 1, f"{key} = {value}{ending}")
    elif match := _VALUE.fullmatch(lines[places[key]].rstrip("\r")):
        room = max(len(match["value"]) + len(match["gap"]) - len(value), 1) if match["rest"] else 0
        lines[places[key]] = match["head"] + value + " " * room + (match["rest"] or "") + ending


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
            why = f"{rig.path} stands on {base}, which a copy would not find"
            raise UsageError(why, f"copy {base.name}, or its whole folder")
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
