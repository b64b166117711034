"""Show moves, convert .json, .mtn (RoboPlus) and .motion (Webots) files, and save energy."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated, Any

from axbridge import Move, Rig
from axbridge.cli.app import group, note
from axbridge.cli.options import WRITES, MoveArgument, Result, RigOption, verb
from axbridge.cli.progress import progress
from axbridge.errors import UsageError, plural
from axbridge.motion.energy import least_energy
from axbridge.motion.files import load_move, save_move
from axbridge.motion.mtn import in_sevens, load_mtn, save_mtn

move = group("move", __doc__)

OfRig = Annotated[str | None, "Its ids are those of a .mtn file."]


@verb("bow.mtn bow.json --rig bioloid", of=move)
def convert(
    source: MoveArgument,
    target: Annotated[Path, "The file to write; its ending says the kind.", "OUT", WRITES],
    *,
    rig: OfRig = None,
) -> None:
    """Write a move as another kind of file.

    From .mtn to .mtn each page is kept, with a correct checksum; a page of more than 7 steps continues on free pages.
    """
    if source.suffix.lower() == target.suffix.lower() == ".mtn":
        file, notes = in_sevens(load_mtn(source))
        notes = [*file.warnings, *notes]
        save_mtn(file, target)
    else:
        loaded = None if rig is None else Rig.load(rig)
        move, notes = load_move(source, loaded)
        notes += save_move(move, target, loaded)
    note(*notes)
    print(f"wrote {target}")


@verb("sample:bow", of=move)
def info(source: MoveArgument, *, rig: OfRig = None) -> Result:
    """Say which pages a move has, how long they take and where they lead."""
    move, notes = load_move(source, None if rig is None else Rig.load(rig))
    note(*notes)
    pages: dict[str, dict[str, Any]] = {
        name: {
            "name": page.name, "poses": len(page.keys), "seconds": round(page.duration, 3), "repeat": page.repeat,
            "next": page.next, "exit": page.exit, "interpolation": page.interpolation,
        }
        for name, page in move.pages.items()
    }  # fmt: skip
    lines = [f"joints: {', '.join(move.joints)}", f"start:  page {move.start}"]
    for name, facts in pages.items():
        links = "".join(f", {link} {facts[link]}" for link in ("next", "exit") if facts[link] is not None)
        times = f" x {facts['repeat']}" if facts["repeat"] != 1 else ""
        called = f" {facts['name']!r}" if facts["name"] else ""
        lines.append(f"page {name}{called}: {plural(facts['poses'], 'pose')}, {facts['seconds']} s{times}{links}")
    return Result({"start": move.start, "joints": move.joints, "pages": pages}, lines)


@verb("sample:bow less.json --rig bioloid", of=move)
def optimise(
    source: MoveArgument,
    target: Annotated[Path, "The .json file to write: a pose every 20 ms.", "OUT", WRITES],
    *,
    rig: RigOption,
) -> Result:
    """Find the motions through a move's poses that need the least electrical energy, within all limits.

    The first and the last pose, and poses with a pause, are rests. The servos' models give the energy.
    """
    if target.suffix.lower() != ".json":
        raise UsageError(f"{target} is no .json file", "write .json, and `axbridge move convert` it then")
    loaded = Rig.load(rig)
    move, notes = load_move(source, loaded)
    note(*notes)
    with progress("searching the motion of least energy"):
        best = least_energy(loaded, move)
    best.move.save(target)
    facts = {"energy": best.joules, "minimum_jerk": best.minimum_jerk, "saved": best.saved}
    lines = [
        f"energy       {best.joules:.3f} J in {best.seconds:.2f} s",
        f"smoothest    {best.minimum_jerk:.3f} J in {best.seconds:.2f} s (minimum jerk, the same poses)",
        f"saved        {best.saved:.0%}, as the servo models have it",
        f"wrote {target}",
    ]
    return Result({**facts, "seconds": best.seconds, "move": str(target)}, lines)


@verb("> move.schema.json", of=move)
def schema() -> None:
    """Print the JSON schema of a move's .json file."""
    print(dumps(Move.model_json_schema(), indent=2))
