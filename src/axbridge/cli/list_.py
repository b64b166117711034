"""`axbridge list`: what comes with axbridge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from axbridge.cli.app import app, emit_json
from axbridge.cli.options import JsonOption, listed, print_table


@app.command("list")
def list_(
    what: Annotated[
        str, typer.Argument(metavar="[KIND]", help="rigs, models, profiles, moves, samples, experiments or faults.")
    ] = "",
    *,
    json: JsonOption = False,
) -> None:
    """List what comes with axbridge: rigs, models, profiles, moves, samples of recordings, experiments, faults."""
    chosen = listed(what, list(_KINDS), "kind of thing") or list(_KINDS)
    found = {kind: _KINDS[kind]() for kind in chosen}
    if json:
        emit_json("list-1", {"kinds": found})
        return
    for kind, things in found.items():
        if not what:
            print(f"{kind}:")
        print_table([(f"{'' if what else '  '}{name}", words) for name, words in things.items()])


def shipped_rigs() -> dict[str, str]:
    """The description of each rig, by name."""
    from axbridge.config.rig import FOLDER, Rig
    from axbridge.config.toml_tables import shipped_names

    return {name: Rig.load(name).description for name in shipped_names(FOLDER)}


def _models() -> dict[str, str]:
    from axbridge.config.model import FOLDER
    from axbridge.config.toml_tables import find_toml, load_table, shipped_names
    from axbridge.errors import ProfileError

    files = {name: find_toml(name, FOLDER, ProfileError) for name in shipped_names(FOLDER)}
    return {name: str(load_table(path, FOLDER, ProfileError)["description"]) for name, path in files.items()}


def _profiles() -> dict[str, str]:
    from axbridge.bus.protocols.known import PROTOCOLS
    from axbridge.config.profile import FOLDER, FirmwareProfile
    from axbridge.config.toml_tables import shipped_names

    loaded = {name: FirmwareProfile.load(name) for name in shipped_names(FOLDER)}
    return {name: f"{PROTOCOLS[one.protocol].title}, model {one.model_number}" for name, one in loaded.items()}


def _moves() -> dict[str, str]:
    from axbridge.motion.files import load_move, samples

    moves = {f"sample:{name}": load_move(f"sample:{name}")[0] for name in samples()}
    return {name: f"pages: {', '.join(move.pages)}" for name, move in moves.items()}


def _samples() -> dict[str, str]:
    from axbridge.recording.sample_logs import SAMPLES

    return {f"sample:{name}": sample.about for name, sample in SAMPLES.items()}


def _experiments() -> dict[str, str]:
    from axbridge.motion.experiments import EXPERIMENTS, NAMES

    return {
        **{name: _summary(EXPERIMENTS[name].motion) for name in NAMES if name in EXPERIMENTS},
        "replay": "Repeat the goals of a recording.",
        "protocol": "The set that a good identification needs, one file each.",
    }


def _summary(motion: Callable[..., object]) -> str:
    return (motion.__doc__ or "").partition("\n")[0]


def _faults() -> dict[str, str]:
    from axbridge.virtual.faults import FAULTS

    return {kind.example: kind.says for kind in FAULTS.values()}


_KINDS: dict[str, Callable[[], dict[str, str]]] = {
    "rigs": shipped_rigs,
    "models": _models,
    "profiles": _profiles,
    "moves": _moves,
    "samples": _samples,
    "experiments": _experiments,
    "faults": _faults,
}
