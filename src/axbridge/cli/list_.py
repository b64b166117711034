"""`axbridge list`: list the files and experiments that axbridge ships."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from axbridge import FirmwareProfile, ProfileError, Rig
from axbridge.bus.protocols.known import PROTOCOLS
from axbridge.cli.options import Result, check_known, lined_up, separated, verb
from axbridge.config import model, profile, rig
from axbridge.config.toml_tables import find_toml, load_table, own_names, shipped_names
from axbridge.motion.experiments import EXPERIMENTS, NAMES
from axbridge.motion.files import load_move, samples
from axbridge.recording.sample_logs import SAMPLES
from axbridge.virtual.faults import FAULTS


@verb("rigs", "list")
def list_(
    what: Annotated[str, "rigs, models, profiles, moves, samples, experiments or faults.", "[KIND]"] = "",
) -> Result:
    """List what comes with axbridge: rigs, models, profiles, moves, samples of recordings, experiments, faults."""
    kinds = separated(what)
    check_known("kind", _KINDS, *kinds)
    by_kind = {kind: _KINDS[kind]() for kind in kinds or _KINDS}
    lines: list[str] = []
    for kind, things in by_kind.items():
        lines += [] if what else [f"{kind}:"]
        lines += lined_up([(f"{'' if what else '  '}{name}", words) for name, words in things.items()])
    return Result({"kinds": by_kind}, lines)


def shipped_rigs() -> dict[str, str]:
    """Return the description of each rig, by name."""
    return {name: Rig.load(name).description for name in shipped_names(rig.FOLDER)}


def _names(folder: str) -> list[str]:
    return [*shipped_names(folder), *own_names(folder)]


def _models() -> dict[str, str]:
    files = {name: find_toml(name, model.FOLDER, ProfileError) for name in _names(model.FOLDER)}
    return {name: str(load_table(path, model.FOLDER, ProfileError)["description"]) for name, path in files.items()}


def _profiles() -> dict[str, str]:
    loaded = {name: FirmwareProfile.load(name) for name in _names(profile.FOLDER)}
    return {name: f"{PROTOCOLS[kind.protocol].title}, model {kind.model_number}" for name, kind in loaded.items()}


def _experiments() -> dict[str, str]:
    motions = {name: EXPERIMENTS[name].motion.__doc__ or "" for name in NAMES if name in EXPERIMENTS}
    return {
        **{name: words.partition("\n")[0] for name, words in motions.items()},
        "replay": "Repeat the goals of a recording.",
        "protocol": "The set that a good identification needs, one file each.",
    }


_KINDS: dict[str, Callable[[], dict[str, str]]] = {
    "rigs": shipped_rigs,
    "models": _models,
    "profiles": _profiles,
    "moves": lambda: {
        f"sample:{name}": f"pages: {', '.join(load_move(f'sample:{name}')[0].pages)}" for name in samples()
    },
    "samples": lambda: {f"sample:{name}": sample.about for name, sample in SAMPLES.items()},
    "experiments": _experiments,
    "faults": lambda: {kind.example: kind.says for kind in FAULTS.values()},
}
