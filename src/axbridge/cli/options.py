"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "BackendOption",
    "BaudOption",
    "EngineOption",
    "ForceOption",
    "JsonOption",
    "ModelOption",
    "PortOption",
    "RecordOption",
    "RigOption",
    "SeedOption",
    "ViewOption",
    "YesOption",
    "named_mcap",
]


def _known_backend(name: str) -> str:
    from axbridge.errors import UsageError

    if name not in ("real", "sim", "twin"):
        close = difflib.get_close_matches(name, ("real", "sim", "twin"), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"no backend {name!r}", f"{hint}known backends: real, sim, twin")
    return name


def _known_engine(name: str | None) -> str | None:
    from axbridge.errors import UsageError

    if name not in (None, "auto", "bullet", "mujoco"):
        close = difflib.get_close_matches(name, ("bullet", "mujoco"), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"no engine {name!r}", f"{hint}known engines: auto, bullet, mujoco")
    return name


def named_mcap(path: Path | None) -> Path | None:
    """A recording's name, which says what it is.

    Raises:
        UsageError: it says something else.
    """
    from axbridge.errors import UsageError

    if path is not None and path.suffix not in ("", ".mcap"):
        hint = f"name it {path.with_suffix('.mcap')}; `axbridge convert` makes a table of it"
        raise UsageError(f"{path}: a recording is no {path.suffix} file", hint)
    return path


def _rigs(begun: str) -> list[str]:
    """Names for the shell to complete."""
    from axbridge.config.rig import FOLDER
    from axbridge.config.toml_tables import shipped_names

    return [name for name in shipped_names(FOLDER) if name.startswith(begun)]


RigOption = Annotated[
    str,
    typer.Option(
        "--rig",
        envvar="AXBRIDGE_RIG",
        autocompletion=_rigs,
        help="Name of a rig, or path of its file; also pendulum:mass=0.2,length=0.15.",
    ),
]
BackendOption = Annotated[
    str,
    typer.Option(
        "--backend",
        envvar="AXBRIDGE_BACKEND",
        callback=_known_backend,  # before anything starts: a script may open its robot late, or never
        help="real, sim, or twin (real, and simulated beside it).",
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        callback=_known_engine,
        help="Simulate with bullet or mujoco; default: the rig's, else Bullet where it is installed.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|FILE.toml",
        envvar="AXBRIDGE_MODEL",
        help="Servo model of the simulation: lima2009, ax12, or a file; default: the rig's.",
    ),
]
PortOption = Annotated[
    str | None,
    typer.Option(
        "--port",
        envvar="AXBRIDGE_PORT",
        help="Serial device or URL (socket://, rfc2217://); default: the rig's, or the only adapter plugged in.",
    ),
]
BaudOption = Annotated[int, typer.Option("--baud", help="Bits per second.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else.")]
RecordOption = Annotated[
    Path | None, typer.Option("--record", metavar="FILE.mcap", callback=named_mcap, help="Record every sample.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of all random numbers.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask before changing anything.")]
ViewOption = Annotated[bool, typer.Option("--view", help="Show the robot live in the browser, see `axbridge view`.")]
