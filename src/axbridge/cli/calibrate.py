"""`axbridge calibrate`: find by hand which servo is which joint, and write it into the rig."""

from __future__ import annotations

import difflib
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict

from axbridge import Robot, UsageError
from axbridge.cli.app import note
from axbridge.cli.by_hand import BACK, KEYS, MOVE, SKIP, YES, Ended, ManualProcedure, ask, pressed
from axbridge.cli.exit import early_end, motors_after
from axbridge.cli.options import Result, RigOption, servos_of, verb
from axbridge.cli.progress import progress
from axbridge.config.rig import Rig, split_options
from axbridge.config.rig_edit import Value, edited
from axbridge.config.rig_tables import ServoConfig
from axbridge.errors import Remedy
from axbridge.files import check_writable, replacing
from axbridge.robot.calibration import ENOUGH, Mounting, changes, check_whole, rig_of_bus
from axbridge.robot.open import open_robot
from axbridge.robot.rig_check import check_rig


@verb("--rig my_head --port /dev/ttyUSB0")
def calibrate(*, rig: RigOption, port: str | None = None, joints: str = "") -> Result:
    """Find ids, directions, zeros and limits of your robot by hand, and write them into its rig.

    First all motors go off, so hold the robot. Then you turn one joint after the other by hand. The LED of the servo
    that should move blinks, and the key w moves it a little. You see the changes before they are written. Comments in
    the file stay. At the end the motors are off, also after an error or Ctrl-C.
    """
    loaded = Rig.load(rig)
    if split_options(rig)[1]:
        raise UsageError(f"{rig}: parameters are not calibrated", "give the rig's name alone")
    if loaded.comes_along:
        hint = f"run `axbridge rig copy {loaded.name} my_{loaded.name}`, then calibrate my_{loaded.name}"
        raise UsageError(f"rig {loaded.name} comes with axbridge", hint)
    check_writable(loaded.path)
    if not loaded.dynamixels:
        raise UsageError(f"rig {loaded.name} has no Dynamixels", "there is nothing to calibrate")
    names = servos_of(loaded, joints)
    queue = [servo.name for servo in loaded.dynamixels if servo.name in names]
    text = loaded.path.read_bytes().decode()
    opened: Rig | None = None

    def left(_: BaseException) -> str:
        motors = motors_after(opened) if opened else "no motor was moved"
        return f"stopped: {motors}; {loaded.path} is as it was"

    with early_end(left, Ended):
        with progress("asking which servos are on the line"):
            there = rig_of_bus(loaded, port)
        with open_robot(there, "real") as robot, pressed() as key:
            opened = there
            for servo in robot.values():
                servo.torque_off()
            ids = ", ".join(str(servo.config.id) for servo in robot.values())
            print(f"on the line: servo{'s' * (len(robot) > 1)} {ids}; all motors are off: hold the robot")
            print(KEYS, flush=True)
            with progress("") as show:
                mountings = _calibrated(ManualProcedure(loaded, robot, key, show), loaded, queue)
            changed = _write(loaded, text, mountings, key)
    entries = {name: {**asdict(mount), "profile": mount.profile.name} for name, mount in mountings.items()}
    return Result({"rig": str(loaded.path), "joints": entries, "changed": changed})


def _calibrated(guide: ManualProcedure[Mounting], rig: Rig, queue: list[str]) -> dict[str, Mounting]:
    """Return the mounting of each servo of the rig, by name.

    A joint is appended to the queue when its servo turns out to move another joint.
    """
    servos, robot = {servo.name: servo for servo in rig.dynamixels}, guide.robot

    def step(name: str, count: str) -> Mounting | str:
        servo = servos[name]
        taken = {_at(robot, m.bus, m.id): joint for joint, m in guide.results.items() if joint != name}
        meant, words = _meant(robot, servo, taken)
        print(f"joint {count}: {name}, {words}", flush=True)

        def refuse(moved: str) -> None:
            if moved in taken:
                raise UsageError(f"{moved} has moved, and it moves {taken[moved]}", f"turn {name}, or go back with b")

        while True:
            moved, turned, struck = guide.turned("1 turn it", name, meant, refuse)
            if struck == MOVE:
                guide.nudge(meant)
                continue
            if struck:
                return struck
            print(f"  {moved} moved by {math.degrees(turned):+.0f}°", flush=True)
            mounting = _zero_and_limits(guide, moved, turned)
            if mounting == BACK:
                continue
            if not isinstance(mounting, str):
                queue.extend(_report(rig, servo, mounting, queue))
            return mounting

    return guide.each(queue, step)


def _zero_and_limits(guide: ManualProcedure[Mounting], name: str, turned: float) -> Mounting | str:
    """Ask for a joint's zero and limits; return the servo's mounting, or the key that left the joint."""
    servo, before = guide.robot[name], guide.angles()
    config, profile = servo.config, servo.dynamixel.profile

    def count() -> int:
        return round(servo.position / profile.units.position)

    if (struck := guide.ask("  2 bring it to 0 rad, as the URDF draws it; press a key", before, name)) in {SKIP, BACK}:
        return struck
    zero = lowest = highest = latest = count()
    jumped = False

    def follow() -> None:
        nonlocal lowest, highest, latest, jumped
        jumped = jumped or abs(count() - latest) > profile.units.middle
        latest = count()
        lowest, highest = min(lowest, latest), max(highest, latest)

    what = "  3 lead it to both its ends, as far as it may go; press a key"
    if (struck := guide.ask(what, before, name, follow)) in {SKIP, BACK}:
        return struck
    reach = (lowest, highest) if (highest - lowest) * profile.units.position >= ENOUGH else None
    return Mounting(config.bus, config.id or 0, profile, zero, 1 if turned > 0 else -1, reach, config.registers, jumped)


def _at(robot: Robot, bus: str, id: int | None) -> str:
    return next((servo.name for servo in robot.values() if (servo.config.bus, servo.config.id) == (bus, id)), "")


def _meant(robot: Robot, servo: ServoConfig, taken: Mapping[str, str]) -> tuple[str, str]:
    """Return the servo that should move a joint ("" if unknown), and a sentence about it.

    `taken` has the joint of each servo that is already assigned.
    """
    name, words = _at(robot, servo.bus, servo.id), f"servo {servo.id} by the rig"
    if name in taken:
        left = [name for name in robot if name not in taken]
        but = f"({name}, by the rig, moves {taken[name]})"
        if len(left) != 1:
            return "", f"one of {', '.join(left)} {but}" if left else f"but no servo is left {but}"
        name, words = left[0], f"{left[0]}, the only one left {but}"
    if not name:
        return "", f"{words}: which does not answer"
    sign = "its LED blinks" if "led" in robot[name].dynamixel.profile.registers else "it has no LED"
    return name, f"{words}: {sign}"


def _report(rig: Rig, servo: ServoConfig, mount: Mounting, queue: list[str]) -> list[str]:
    """Print a servo's mounting; return the joint that the rig gave this servo to, unless the queue has it already."""
    other = "" if mount.id == servo.id else f" (the rig says {servo.id})"
    print(f"  {servo.name} is servo {mount.id}{other}, zero {mount.zero}, direction {mount.direction}", flush=True)
    if mount.reach is None:
        print("  it was not led to its ends: its limits stay as they are", flush=True)
    new = [s for s in rig.servos if (s.bus, s.id) == (mount.bus, mount.id) and s.name not in queue]
    for s in new:
        print(f"  the rig gives servo {s.id} to {s.name}: {s.name} is calibrated, too", flush=True)
    return [s.name for s in new]


def _write(rig: Rig, text: str, mounts: Mapping[str, Mounting], key: Callable[[], str]) -> dict[str, dict[str, Value]]:
    check_whole(rig, mounts)
    new: dict[str, dict[str, Value]] = {}
    for servo in rig.servos:
        if servo.name in mounts:
            values, notes = changes(rig, servo, mounts[servo.name])
            if values:
                new[servo.name] = values
            note(*notes)
    if not new:
        print(f"{rig.path} has these values already: nothing is written")
        return new
    tables = [{**servo.model_dump(exclude_unset=True), **new.get(servo.name, {})} for servo in rig.servos]
    check_rig(rig.overridden({"servo": tables}))
    result = edited(text, new, rig.path)
    new_name = f"{rig.path}, calibrated"
    lines = difflib.unified_diff(text.splitlines(), result.splitlines(), str(rig.path), new_name, n=1, lineterm="")
    print("\n".join(lines))
    if ask(key, "write it? y or n", "yn") != YES:
        raise Ended
    if rig.path.read_bytes().decode() != text:
        raise UsageError(f"{rig.path} was changed meanwhile, by another program", "run it again")
    place = rig.path.resolve()  # the target of a symbolic link
    with replacing(place) as temporary:
        temporary.write_bytes(result.encode())
        shutil.copymode(place, temporary)
    print(f"wrote {rig.path}; next: `{Remedy('rig check', rig.path)}`")
    return new
