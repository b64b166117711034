"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["BackendOption", "BaudOption", "JsonOption", "PortOption", "RigOption", "SeedOption"]

RigOption = Annotated[str, typer.Option("--rig", help="Rig name (see hil_rigs) or path of a rig file.")]
BackendOption = Annotated[
    str,
    typer.Option("--backend", envvar="AXBRIDGE_BACKEND", help="real, sim, or twin (real, with a simulated shadow)."),
]
PortOption = Annotated[
    str | None,
    typer.Option(
        "--port", envvar="AXBRIDGE_PORT", help="Serial device or URL (socket://, rfc2217://); default: the rig's."
    ),
]
BaudOption = Annotated[int, typer.Option("--baud", help="Bits per second.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
