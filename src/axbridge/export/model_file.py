"""Servo models in files: a model as TOML, and a rig whose servos have another one."""

from __future__ import annotations

from pathlib import Path

from axbridge.config import toml_tables
from axbridge.config.model import ServoModel, toml_lines, toml_value
from axbridge.config.rig import FOLDER, Rig
from axbridge.errors import ProfileError, RigError

_SHOWN_ON = "bench_arm"  # where a model without a rig is shown


def to_toml(model: ServoModel) -> str:
    """A model as a file, for ``model = "…"`` in a rig and ``--model``."""
    lines = toml_lines(model, {})
    worth = [f"{key} = {toml_value(value)}" for key, value in model.prediction if value is not None]
    if worth:
        lines += ["", "[prediction]", *worth]
    return "\n".join(lines) + "\n"


def rig_or_model(name: str, rig: str | None = None) -> Rig:
    """What is meant by a name or path: a rig, or a servo model, which is then put into `rig`."""
    if rig is None and _is_rig(name):
        return Rig.load(name)
    try:
        return Rig.load(rig or _SHOWN_ON).with_model(name)
    except (ProfileError, RigError):
        if rig is None and not Path(name).is_file():
            return Rig.load(name)  # which says what rigs there are
        raise


def _is_rig(name: str) -> bool:
    """Whether a name is a rig's, or leads to a file with servos."""
    path = Path(name.partition(":")[0])
    if path.is_file():
        table = toml_tables.read_toml(path, RigError)
        return "servo" in table or "world" in table
    return path.is_dir() or path.name in toml_tables.shipped_names(FOLDER)
