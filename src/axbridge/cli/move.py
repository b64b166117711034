"""Look into moves, convert .json, .mtn (RoboPlus), .motion (Webots), and save energy."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from axbridge.cli.app import group, note, report
from axbridge.cli.options import ForceOption, JsonOption, MoveArgument, RigOption, shared
from axbridge.cli.progress import progress
from axbridge.config.rig import Rig
from axbridge.errors import UsageError, plural
from axbridge.files import check_new
from axbridge.motion.energy import least_energy
from axbridge.motion.files import load_move, save_move
from axbridge.motion.moves import Move
from axbridge.motion.mtn import in_sevens, load_mtn, save_mtn

move = group("move", __doc__)

MoveRigOption = Annotated[str | None, shared("--rig", "Its ids are those of a .mtn file.")]


@move.command(epilog="bow.mtn bow.json --rig bioloid")
def convert(
    source: MoveArgument,
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; its ending says the kind.")],
    rig: MoveRigOption = None,
    force: ForceOption = False,
) -> None:
    """Write a move as another kind of file.

    From .mtn to .mtn each page is kept, with a correct checksum; a page of more than 7 steps continues on free pages.
    """
    check_new(target, force=force, sources=(source,))
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


@move.command(epilog="sample:bow")
def info(source: MoveArgument, *, rig: MoveRigOption = None, json: JsonOption = False) -> None:
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
    report("move-info-1", {"start": move.start, "joints": move.joints, "pages": pages}, lines, json=json)


@move.command(epilog="sample:bow less.json --rig bioloid")
def optimise(
    source: MoveArgument,
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The .json file to write: a pose every 20 ms.")],
    rig: RigOption,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Find the motions through a move's poses that need the least electrical energy, within all limits.

    The first and the last pose, and poses with a pause, are rests. The servos' models give the energy.
    """
    if target.suffix.lower() != ".json":
        raise UsageError(f"{target} is no .json file", "write .json, and `axbridge move convert` it then")
    check_new(target, force=force, sources=(source,))
    loaded = Rig.load(rig)
    move, notes = load_move(source, loaded)
    note(*notes)
    with progress("searching the motion of least energy", quiet=json):
        best = least_energy(loaded, move)
    best.move.save(target)
    document = {"energy": best.joules, "minimum_jerk": best.minimum_jerk, "saved": best.saved}
    lines = [
        f"energy       {best.joules:.3f} J in {best.seconds:.2f} s",
        f"smoothest    {best.minimum_jerk:.3f} J in {best.seconds:.2f} s (minimum jerk, the same poses)",
        f"saved        {best.saved:.0%}, as the servo models have it",
        f"wrote {target}",
    ]
    report("move-optimise-1", {**document, "seconds": best.seconds, "move": str(target)}, lines, json=json)


@move.command(epilog="> move.schema.json")
def schema() -> None:
    """Print the JSON schema of a move's .json file."""
    print(dumps(Move.model_json_schema(), indent=2))
