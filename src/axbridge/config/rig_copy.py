"""The files of a rig, and a copy of them that its user can change."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from axbridge.config.rig import FOLDER, Rig
from axbridge.config.toml_tables import shipped
from axbridge.errors import UsageError
from axbridge.files import make_folder, write_whole

_NAME = re.compile(r'^name[ \t]*=[ \t]*"[^"\n]*"', re.MULTILINE)


def files_of(rig: Rig) -> list[Path]:
    """The rig file, and those that it names in its own folder and below: URDF, meshes, profiles, models."""
    folder = rig.path.resolve().parent
    found = [rig.path.resolve()]
    if rig.world is not None:
        found.append(rig.urdf_path().resolve())
        found += [shape.file.resolve() for shape in (*rig.shapes("collision"), *rig.shapes("visual")) if shape.file]
    for servo in rig.dynamixels:
        found += [rig.profile_of(servo).path.resolve(), rig.model_of(servo).path.resolve()]
    return [path for path in dict.fromkeys(found) if path.is_file() and folder in path.parents]


def copy_rig(rig: Rig, folder: Path) -> list[Path]:
    """Copy a rig into `folder`, which is new or empty; the rig is called after it."""
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
    write_whole(target, text)
    for path, place in pairs:
        make_folder(place)
        shutil.copyfile(path, place)
    return [target, *(place for _, place in pairs)]
