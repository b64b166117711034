"""Profiles: which registers a servo model has. Make one of ROBOTIS' control tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from axbridge.cli.app import group, report
from axbridge.cli.options import ForceOption, JsonOption, shared
from axbridge.config.model_table import profile_of_model
from axbridge.errors import plural
from axbridge.files import check_new, write_whole

profile = group("profile", __doc__)


@profile.callback()
def _only() -> None:
    """Make typer treat this as a group, although it has only one verb."""


@profile.command("from-model", epilog="xm430_w350.model")
def from_model(
    table: Annotated[Path, typer.Argument(metavar="FILE.model", help="Of ROBOTIS' dynamixel_hardware_interface.")],
    out: Annotated[Path | None, shared("--out", "Default: profiles/NAME.toml.", metavar="PROFILE.toml")] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Write a profile of a control table: addresses, sizes and names; the rest is the nearest known profile's.

    Registers that no profile knows are named; they are read only until you say otherwise.
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
    report("profile-1", facts, lines, json=json)
