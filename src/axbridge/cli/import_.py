"""`axbridge import`: convert logs of other programs into recordings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from axbridge import Rig, samples
from axbridge.cli.app import note
from axbridge.cli.options import WRITES, verb
from axbridge.cli.progress import progress
from axbridge.config.model import to_toml
from axbridge.errors import RecordingError, Remedy, UsageError, plural
from axbridge.export.bam import from_bam
from axbridge.file_reading import refuse_other_kind
from axbridge.files import named_mcap, write_whole
from axbridge.recording.import_arms import import_arm_folder, import_dataset, is_arm_folder, is_dataset
from axbridge.recording.import_logs import import_log, parse_columns
from axbridge.recording.import_wizard import parse_goal
from axbridge.recording.imported import marked, parse_mark, trimmed
from axbridge.recording.provenance import describe
from axbridge.recording.sample_quality import Oddity
from axbridge.recording.stored import write_recording

_LOGS = (
    "BAM .json (logs, or parameters), Poppy or Dynamixel Wizard .csv, any .csv; a folder: a LeRobot dataset, or "
    "control.csv and state_motor.csv of an arm; or sample:xl330."
)
_COLUMN = (
    "Any other CSV: the column of a value, such as time=t:ms position=angle:deg command=goal:deg; repeat. "
    "* in a header is a servo's name: position=*_pos:deg."
)


@verb("sample:xl330 pendulum.mcap", "import")
def import_(
    log: Annotated[str, _LOGS, "LOG"],
    recording: Annotated[Path, "What to write; BAM's parameters: a .toml.", "FILE.mcap", WRITES],
    *,
    column: Annotated[list[str] | None, _COLUMN, "FIELD=HEADER[:UNIT]"] = None,
    servo: Annotated[str | None, "Name of the servo of a log without names.", "NAME"] = None,
    goal: Annotated[str | None, "Dynamixel Wizard: goal and when, or auto: estimate it.", "COUNTS@SECONDS"] = None,
    unit: Annotated[str | None, "Of angles that name none: rad, deg, counts; LeRobot: deg, rad, normalised."] = None,
    episode: Annotated[int | None, "LeRobot: which; default: 0. Poppy: only this walk."] = None,
    calibration: Annotated[Path | None, "Of the arm, for normalised values."] = None,
    profile: Annotated[str, "Of the servo whose counts are meant."] = "ax-12a",
    rig: Annotated[str | None, "The recording notes it. An arm's two .csv have its joints."] = None,
    segment: Annotated[list[str] | None, "Mark a part, s: fall=1.2:3.5, or fall=:; repeat.", "NAME=START:END"] = None,
    start: Annotated[float | None, typer.Option("--from", metavar="S", help="Leave out what is before.")] = None,
    end: Annotated[float | None, typer.Option("--to", metavar="S", help="Leave out what is after.")] = None,
) -> None:
    """Convert a log into a recording for the other verbs, and print what looks wrong in it."""
    robot = None if rig is None else Rig.load(rig)
    path, name = _source(log, servo, robot)
    marks = [parse_mark(text) for text in segment or ()]
    if recording.suffix == ".toml":
        model = from_bam(path)
        write_whole(recording, to_toml(model))
        print(f"{recording}: {model.description}")
        note(model.provenance)
        return
    named_mcap(recording)
    ignored = [word for word, given in (("--column", column), ("--goal", goal)) if given is not None]
    if ignored and (path.is_dir() or (column and path.suffix == ".json")):
        raise UsageError(f"{path} says itself what it holds", f"leave {ignored[0]} out")
    odd: list[Oddity] = []
    with progress("reading") as show:
        if is_dataset(path):
            imported = import_dataset(path, episode or 0, unit=unit, calibration=calibration, warned=odd.append)
        elif is_arm_folder(path):
            if robot is None:
                raise UsageError("control.csv does not name its joints", "name the arm's rig: --rig so101")
            imported = import_arm_folder(path, robot, warned=odd.append)
        elif path.is_dir():
            why = f"{path} has neither meta/info.json nor control.csv and state_motor.csv"
            raise UsageError(why, "give a log, a LeRobot dataset's folder, or an arm's")
        elif path.suffix == ".mcap" and path.is_file():
            refuse_other_kind(path, partial(RecordingError, path), but="a recording")
            raise UsageError(f"{path} is a recording already", Remedy("info", path, says="use it as it is: {}"))
        elif calibration is not None:
            hint = "give its folder, or leave --calibration out"
            raise UsageError(f"{path} is no dataset of LeRobot", hint)
        else:
            imported = import_log(
                path,
                columns=parse_columns(column or [], unit, profile),
                servo=name,
                walk=episode,
                goal=parse_goal(goal) if goal is not None else None,
                warned=odd.append,
            )
        if servo is not None and servo not in imported:
            raise UsageError(f"{path} names its servos itself: {', '.join(imported)}", "leave --servo out")
        if robot is not None:
            names = ", ".join(servo.name for servo in robot.servos)
            if unknown := [name for name in imported if name not in names.split(", ")]:
                problem = f"{robot.name} has no servo {', '.join(unknown)}"
                add = "name it with --servo" if servo is None and unknown == [name] else "or leave --rig out"
                raise UsageError(problem, f"it has {names}; {add}")
            imported = replace(imported, metadata=describe(robot) | imported.metadata)
        imported = marked(trimmed(imported, start, end), marks)
        samples = sum(len(track) for track in imported.values())
        write_recording(imported, recording, lambda written: show("writing the recording", written / max(samples, 1)))
    held = f"{plural(len(imported), 'servo')}, {plural(samples, 'sample')}"
    print(f"{recording}: {held}, {imported.end - imported.start:.1f} s")
    note(*(f"{finding}: {finding.remedy}" for finding in odd), *imported.metadata.get("notes", ()))


def _source(log: str, servo: str | None, robot: Rig | None) -> tuple[Path, str]:
    kind, _, name = log.partition(":")
    if kind == "sample" and not Path(log).is_file():
        return samples.path(name), servo or samples.find(name).servo
    return Path(log), servo or (robot.servos[0].name if robot is not None and len(robot.servos) == 1 else "servo")
