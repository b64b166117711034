"""Rigs: which servo is which joint. List, show, copy and check them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from axbridge.cli.app import group, note
from axbridge.cli.list_ import shipped_rigs
from axbridge.cli.options import Result, RigArgument, ids_of, lined_up, shared, verb
from axbridge.cli.progress import progress
from axbridge.config.mjcf import find_mjcf, read_mjcf
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig, rig_schema, split_options
from axbridge.config.rig_edit import copy_rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.config.ros2_control import read_ros2_control
from axbridge.config.toml_tables import validate, written
from axbridge.errors import Remedy, RigError, UsageError, plural
from axbridge.file_reading import printable, refuse_other_kind
from axbridge.files import check_new, write_whole
from axbridge.robot.calibration import rig_of_scan
from axbridge.robot.rig_check import check_rig
from axbridge.sim.engines.choice import check_size, with_usual_engine

rig = group("rig", __doc__)


@verb("", "list", of=rig)
def list_() -> Result:
    """List the rigs that come with axbridge."""
    rigs = shipped_rigs()
    return Result({"rigs": rigs}, lined_up(list(rigs.items())))


@verb("my_head --port /dev/ttyUSB0", of=rig)
def new(
    name: Annotated[Path, "Of the rig, and of a new folder for it.", "NAME"],
    *,
    port: str | None = None,
    baud: int = 1_000_000,
    urdf: Annotated[Path | None, "Use no port: write a servo for each revolute joint.", "FILE.urdf"] = None,
    mjcf: Annotated[str | None, "Likewise; or a robot of the package mujoco-menagerie.", "ROBOT.xml"] = None,
    profile: Annotated[str | None, shared("--profile", "Of the servos, with --urdf or --mjcf.", "--servo")] = None,
    ids: Annotated[str, "Of the joints in the file's order, as 1,2,5 or 1-6; default: 1, 2, …"] = "",
    force: bool = False,
) -> None:
    """Write a rig of the servos that answer on a port, or of the joints of a URDF or MJCF file.

    Nothing moves; 0 is the middle of each servo's range. A URDF with <ros2_control> gives ids, port and baud.
    """
    if name.is_file():
        refuse_other_kind(name, lambda what, hint: UsageError(f"{name} {what}", hint))
        raise UsageError(f"{name} is a file", "give the name of a new folder")
    if name.name in {"", ".."}:  # a rig has the name of its folder
        raise UsageError(f"{name} has no name for the rig", "give the name of a new folder")
    if urdf is not None and mjcf is not None:
        raise UsageError("--urdf and --mjcf are both given", "give one of them")
    path = name / f"{name.name}.toml"
    with progress("reading"):  # MuJoCo takes seconds to load and to check a robot
        body = None if mjcf is None else read_mjcf(find_mjcf(mjcf))
    files = {} if body is None else body.files(name)
    check_new(path, *files, force=force)
    lines = [f"name = {written(name.name)}"]
    if mjcf is not None and body is not None:
        with TemporaryDirectory() as folder:
            urdf = Path(folder, f"{name.name}.urdf")
            urdf.write_text(body.urdf, encoding="utf-8")
            made = _rig_of_urdf(name, urdf, profile, ids_of(ids), body.joints)
        standing = [f"base_height = {body.height:.9g}", "ground = true", "fixed_base = false"] if body.free else []
        lines += [f"description = {written(f'made of {Path(mjcf).name}')}", "", "[world]"]
        lines += [f'urdf = "{urdf.name}"', *standing]
        note(f"left out, because the servo model brings it: {', '.join(body.dropped) or 'nothing'}")
    elif urdf is not None:
        made = _rig_of_urdf(name, urdf, profile, ids_of(ids))
        lines += [f"description = {written(f'made of {urdf.name}')}", "", "[world]"]
        lines.append(f"urdf = {written(Path(os.path.relpath(urdf, name)).as_posix())}")
    elif profile is not None or ids:
        raise UsageError("--profile and --ids are for the joints of a file", "add --urdf FILE.urdf or --mjcf FILE.xml")
    else:
        made = rig_of_scan(name.name, port, baud)
        lines.append('description = "what answered when it was made"')
    for table, entries in (("bus", made.buses), ("servo", made.servos)):
        for entry in entries:
            lines += ["", f"[[{table}]]"]
            values = entry.model_dump(exclude_unset=True)
            lines += [f"{key} = {written(value)}" for key, value in values.items() if value != {}]
    for file, content in {**files, path: "\n".join(lines) + "\n"}.items():
        write_whole(file, content)
    named = "" if urdf is not None else "name them, then "
    print(f"wrote {path}: {plural(len(made.servos), 'servo')}\nnext: {named}`{Remedy('rig check', name)}`")
    if urdf is None:
        print("compare and identify need what the servos move, too: [world] urdf, docs/rigs.md")


def _rig_of_urdf(name: Path, urdf: Path, profile: str | None, ids: list[int], only: Collection[str] = ()) -> Rig:
    """Return a rig with one servo of that profile per revolute joint (of `only`), within the URDF's limits."""
    from axbridge.config.urdf import read_tree

    if urdf.is_file():
        refuse_other_kind(urdf, partial(RigError, urdf, ""), but="a URDF")
    if profile is None:
        raise UsageError("the file does not say which servos move it", "add --profile; `axbridge list profiles`")
    kind = FirmwareProfile.load(profile)
    if Path(profile).is_file():
        profile = Path(os.path.relpath(profile, name)).as_posix()
    control = None if only else read_ros2_control(urdf)
    only = only if control is None or ids else control.servos
    turning = [joint for joint in read_tree(urdf, fixed_base=True).joints if not joint.linear]
    joints = [joint for joint in turning if (joint.name in only if only else not joint.mimics)]
    if not joints:
        raise RigError(urdf, "", "has no joint that turns", "give a robot with revolute joints")
    if control is not None:
        ids = ids or [control.servos[joint.name].id for joint in joints]
    ids = ids or list(range(1, len(joints) + 1))
    if len(ids) != len(joints):
        problem = f"{plural(len(joints), 'joint')} of {urdf.name} can turn: {', '.join(joint.name for joint in joints)}"
        raise UsageError(problem, f"give {plural(len(joints), 'id')}, as 1-6 or 1,2,5, or leave --ids out")
    most = int(kind.register("max_voltage_limit").initial) * kind.units.voltage
    reach = math.floor(kind.units.counts / 2 * kind.units.position * 1000) / 1000
    servos, unknown = [], set[str]()
    for joint, id_ in zip(joints, ids, strict=True):
        servo: dict[str, object] = {"name": joint.name, "joint": joint.name, "id": id_, "profile": profile}
        servo |= {"zero": kind.units.middle, "model": kind.model}
        if control is not None and (entry := control.servos.get(joint.name)) is not None:
            offset = round(entry.offset / kind.units.position)
            servo |= {"zero": kind.units.middle + offset if entry.zero is None else entry.zero}
            servo |= {"direction": entry.direction} if entry.direction != 1 else {}
            registers = {key: value for key, value in entry.registers.items() if key in kind.registers}
            servo |= {"registers": registers} if registers else {}
            unknown |= entry.registers.keys() - registers.keys()
        if math.isfinite(joint.low) and math.isfinite(joint.high):
            servo |= {"min_position": max(joint.low, -reach), "max_position": min(joint.high, reach)}
        servos.append(servo)
    if unknown:
        note(f"left out, because {kind.name} has no such registers: {', '.join(sorted(unknown))}")
    bus: dict[str, object] = {"supply_voltage": min(kind.electrics.nominal_voltage, most)}
    if control is not None:
        bus |= {key: value for key, value in (("port", control.port), ("baud", control.baud)) if value is not None}
    table = {"name": name.name, "bus": [bus], "servo": servos, "path": name / f"{name.name}.toml"}
    return validate(Rig, table, urdf, RigError)


@verb("pan_tilt", of=rig)
def show(rig: RigArgument) -> Result:
    """Print what a rig is: its files, buses, world and servos."""
    loaded = Rig.load(rig)
    lines = [f"{loaded.name}: {loaded.description}" if loaded.description else loaded.name, f"file    {loaded.path}"]
    lines += [f"base    {base}" for base in loaded.bases]
    urdf = None if loaded.world is None else str(loaded.urdf_path())
    lines += [] if urdf is None else [f"URDF    {urdf}"]
    for bus in loaded.buses:
        lines.append(f"bus     {bus.name}: port {bus.port}, {bus.baud} baud, {bus.supply_voltage:g} V")
    for name, parameter in loaded.parameters.items():
        span = "" if parameter.min is None or parameter.max is None else f" ({parameter.min:g}..{parameter.max:g})"
        lines.append(f"number  {name} = {parameter.value:g} {parameter.unit}{span}")
    header = ("servo", "id", "bus", "joint", "profile", "model", "limits")
    lines += lined_up([header, *(_row(servo) for servo in loaded.servos)])
    buses = {bus.name: {"port": bus.port, "baud": bus.baud, "supply_v": bus.supply_voltage} for bus in loaded.buses}
    servos, keys = {}, {"drive", "id", "bus", "joint", "profile", "model"}
    for servo in loaded.servos:
        limits = dict(zip(("lowest_rad", "highest_rad"), servo.soft_limits, strict=True))
        servos[servo.name] = servo.model_dump(include=keys) | limits
    facts = {
        "name": loaded.name, "description": loaded.description, "file": str(loaded.path),
        "bases": [str(base) for base in loaded.bases], "urdf": urdf, "buses": buses, "servos": servos,
        "parameters": {name: parameter.model_dump() for name, parameter in loaded.parameters.items()},
    }  # fmt: skip
    return Result(facts, lines)


def _row(servo: ServoConfig) -> tuple[str, ...]:
    low, high = servo.soft_limits
    limits = "-" if math.isinf(low) else f"{math.degrees(low):.0f} to {math.degrees(high):.0f}°"
    if servo.drive == "ideal":
        return servo.name, "-", "-", servo.joint, "ideal", "-", limits
    return servo.name, str(servo.id), servo.bus, servo.joint, servo.profile, servo.model, limits


@verb("pan_tilt my_head", of=rig)
def copy(rig: RigArgument, folder: Annotated[Path, "A new folder.", "DIR"]) -> None:
    """Copy a rig and its files into a new folder, to change them. The copy gets the folder's name."""
    name, numbers = split_options(rig)
    if numbers:
        problem = f"a copy of {name} takes no numbers: its URDF names them still"
        raise UsageError(problem, "change [parameters] in the copy")
    for path in copy_rig(Rig.load(rig), folder):
        print(f"wrote {path}")
    print(f"next: change it, then `{Remedy('rig check', folder)}`")


@verb("my_head", of=rig)
def check(rig: Annotated[str, "Rig file, folder or name.", "FILE"]) -> Result:
    """Check a rig and its files, draw its joints, and list what it assumes."""
    loaded = Rig.load(rig)
    checked = check_rig(loaded)
    check_size(with_usual_engine(loaded))
    lines = list(map(printable, checked.tree))
    if checked.assumed:
        lines += ["assumed, as the file does not say:", *(f"  {printable(line)}" for line in checked.assumed)]
    count, used = len(loaded.servos), len({servo.bus for servo in loaded.dynamixels})
    on = f" on {used} bus{'es' * (used > 1)}" if used else ""
    lines.append(f"{loaded.path} is sound: {plural(count, 'servo')}{on}")
    return Result({"file": str(loaded.path), "servos": count, "assumed": checked.assumed}, lines)


@verb("> rig.schema.json", of=rig)
def schema() -> None:
    """Print the JSON schema of rig files, for editors that complete and check while you type."""
    print(json.dumps(rig_schema(), indent=2, ensure_ascii=False))
