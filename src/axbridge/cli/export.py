"""Robots and fitted servos for other programs."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

from axbridge import __version__
from axbridge.cli.app import group
from axbridge.cli.options import WRITES, Result, RigArgument, servo_of, verb
from axbridge.cli.progress import progress
from axbridge.config import toml_tables
from axbridge.config.rig import FOLDER, Rig
from axbridge.errors import ProfileError, RigError, UsageError, plural
from axbridge.export.bam import to_bam
from axbridge.export.mjcf import left_out, to_mjcf
from axbridge.export.ros2_control import to_ros2_control
from axbridge.files import check_new, write_whole

export = group("export", __doc__)

OnRig = Annotated[str | None, "It gets the model; default: bench_arm."]


@verb("bench_arm --out arm.xml", of=export)
def mujoco(
    source: Annotated[str, "A rig, or the parameters of a servo.", "PARAMS.toml|RIG"],
    *,
    out: Annotated[Path, "MJCF for MuJoCo >= 3.12.", "ROBOT.xml", WRITES],
    rig: OnRig = None,
) -> Result:
    """Write a rig for MuJoCo, with a DC motor, gear, friction and position loop at each joint.

    It prints what MuJoCo cannot express.
    """
    with progress("reading"):
        robot = _rig_or_model(source, rig)
        lost = left_out(robot)
    note = [
        f"{robot.name}, written by axbridge {__version__}. Goals (ctrl) are rad at the joint, as in the rig.",
        "All servos limp: model.opt.disableactuator = 1 << 1. Start: mj_resetDataKeyframe(model, data, 0).",
        *(f"not in it: {words}" for words in lost),
    ]
    write_whole(out, to_mjcf(robot, "\n     ".join(note)))
    driven = len(robot.dynamixels)
    lines = [f"wrote {out}: {robot.name}, {plural(driven, 'servo')}", *(f"not in it: {part}" for part in lost)]
    return Result({"rig": robot.name, "out": str(out), "left_out": lost}, lines)


@verb("koch --out my_robot", of=export)
def ros2(
    rig: RigArgument,
    *,
    out: Annotated[Path, "A folder for both files.", "FOLDER"] = Path(),
    link: Annotated[str, "Both files name it."] = "/tmp/axbridge-ros2",  # noqa: S108
    force: bool = False,
) -> Result:
    """Write a rig for ros2_control: its servos as a xacro snippet, and a launch file that serves virtual ones."""
    files = {out / name: text for name, text in to_ros2_control(Rig.load(rig), link).items()}
    check_new(*files, force=force)
    for path, text in files.items():
        write_whole(path, text)
    return Result({"out": [str(path) for path in files]}, [f"wrote {path}" for path in files])


@verb("bench_arm --out ax12.json", of=export)
def bam(
    source: Annotated[str, "Parameters of a servo, or a rig.", "PARAMS.toml|RIG"],
    *,
    out: Annotated[Path, "", "M4.json", WRITES],
    rig: OnRig = None,
    servo: Annotated[str | None, "Default: the rig's first."] = None,
    actuator: Annotated[str | None, "BAM's name of the servo; default: its profile."] = None,
) -> Result:
    """Write a servo's parameters as Rhoban's BAM has them (`axbridge import m4.json my_servo.toml` reads them)."""
    robot = _rig_or_model(source, rig)
    chosen = servo_of(robot, servo) if servo else next(iter(robot.dynamixels), None)
    if chosen is None or chosen.drive != "dynamixel":
        raise UsageError(f"rig {robot.name} has no Dynamixel {servo or ''}".rstrip(), "name another servo or rig")
    document, lost = to_bam(robot.specs[chosen.name].model, actuator or robot.specs[chosen.name].profile.name)
    write_whole(out, dumps(document, indent=2) + "\n")
    wrote = f"wrote {out}: friction {document['model'].upper()} of {chosen.name}"
    lines = [wrote, *(f"not in it: {words}" for words in lost)]
    return Result({"servo": chosen.name, "out": str(out), "left_out": lost}, lines)


def _rig_or_model(name: str, rig: str | None = None) -> Rig:
    """Return a rig by name or path; for a servo model, `rig` with that model."""
    path = Path(name.partition(":")[0])
    if path.is_file():
        is_rig = not {"servo", "world"}.isdisjoint(toml_tables.read_toml(path, RigError))
    else:
        is_rig = path.is_dir() or path.name in toml_tables.shipped_names(FOLDER)
    if rig is None and is_rig:
        return Rig.load(name)
    try:
        return Rig.load(rig or "bench_arm").with_model(name)
    except ProfileError:
        if rig is None and not Path(name).is_file():
            return Rig.load(name)  # its error lists the rigs
        raise
