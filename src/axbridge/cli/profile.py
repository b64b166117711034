"""Profiles: which registers a servo model has. Make one of ROBOTIS' control tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from axbridge.cli.app import group
from axbridge.cli.options import Result, verb
from axbridge.config.model_table import profile_of_model
from axbridge.errors import plural
from axbridge.files import check_new, write_whole

profile = group("profile", __doc__)


@profile.callback()
def _only() -> None:
    """Make typer treat this as a group, although it has only one verb."""


@verb("xm430_w350.model", of=profile)
def from_model(
    table: Annotated[Path, "Of ROBOTIS' dynamixel_hardware_interface.", "FILE.model"],
    *,
    out: Annotated[Path | None, "Default: profiles/NAME.toml.", "PROFILE.toml"] = None,
    force: bool = False,
) -> Result:
    """Write a profile of a control table: addresses, sizes and names; the rest is the nearest known profile's.

    Registers that no profile has are named. They are read only; change their access in the file.
    """
    path = out or Path("profiles", f"{table.stem.replace('_', '-')}.toml")
    check_new(path, force=force, sources=(table,))
    made = profile_of_model(table, path.stem)
    write_whole(path, made.text)
    lines = [
        f"wrote {path}: access, ranges and the rest as of {made.nearest}",
        f"unknown, read only: {plural(len(made.unknown), 'register')}: {', '.join(made.unknown) or 'none'}",
        *([f"left out, because they share bytes with others: {', '.join(made.left_out)}"] if made.left_out else []),
    ]
    facts = {"out": str(path), "nearest": made.nearest, "unknown": made.unknown, "left_out": made.left_out}
    return Result(facts, lines, form="profile-1")
