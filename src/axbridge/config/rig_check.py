"""A rig looked at as a whole: its URDF and its servos put together, and what was assumed where the file is silent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.config.toml_tables import written
from axbridge.config.urdf import (
    FIXED,
    SLIDES,
    TURNS,
    JointFacts,
    Shape,
    Tree,
    check_start,
    read_mesh,
    with_checked_meshes,
)
from axbridge.errors import ErrorFlag, ProfileError, RigError, UnsupportedOperation, listed
from axbridge.rotations import about
from axbridge.units import Calibration

_LISTED = ("profile", "model", "zero", "direction")  # defaults that `check` lists when a file leaves them out
_SIDES = ("the front", "the left", "above", "behind", "the right", "below")  # where x, y, z, -x, -y, -z point
_TOWARDS = ("forward", "to the robot's left", "up", "back", "to the robot's right", "down")  # likewise
_MOST_STOP = 7 * math.tau  # rad: more turns than a rig may give a servo
_MINDS_VOLTAGE = int(ErrorFlag.INPUT_VOLTAGE)  # its bit has the same place in all families
_ROUNDED_VOLTS = 1e-6  # V
_IN_FLOOR = 0.002  # m: engines push out what begins so deep without a jump
_LEVER = 0.03  # m from a joint's axis: what hangs nearer to it shows no way
_NEAR = 0.94  # cosine of 20°: so near to a side an axis points there


@dataclass(frozen=True)
class RigSummary:
    """What a sound rig looks like."""

    tree: tuple[str, ...]  # the links and joints, drawn; one line each. Empty without a world.
    assumed: tuple[str, ...]  # what was taken for granted, a sentence each


def check_rig(rig: Rig) -> RigSummary:
    """Put everything together that a rig names: profiles, models, URDF, joints.

    Raises:
        RigError, ProfileError: there is a mistake; all of them are listed at once.
    """
    refuse_unsound(rig)
    tree = None if rig.world is None else rig.tree()
    return RigSummary(() if tree is None else tuple(_drawn(rig, tree)), tuple(_assumed(rig, tree)))


def refuse_unsound(rig: Rig) -> None:
    """Raise one error with all mistakes of a rig: what `axbridge rig check` finds, a simulation does not begin with."""
    errors: list[RigError | ProfileError] = []
    for check in (_servo_mistakes, _supply_mistakes, _world_mistakes):
        try:
            errors += check(rig)
        except (RigError, ProfileError) as mistake:
            errors.append(mistake)
    if errors:
        raise RigError.of(rig.path, errors)


def _servo_mistakes(rig: Rig) -> Iterable[RigError | ProfileError]:
    """Profiles and models that do not fit, and angles that are no radians."""
    for servo in rig.dynamixels:
        try:
            rig.model_of(servo)
        except (RigError, ProfileError) as mistake:
            yield mistake
            continue
        most = _most_turned(rig.profile_of(servo), servo.registers)
        for key in ("min_position", "max_position", "min_stop", "max_stop", "position"):
            if abs(angle := getattr(servo, key)) > most:
                why = f"{angle:g} rad is {abs(angle) / math.tau:.2g} turns, and a {servo.profile} makes less than one"
                yield RigError(rig.path, f"servo.{servo.name}.{key}", why, _meant_degrees(angle))


def _most_turned(profile: FirmwareProfile, registers: Mapping[str, int]) -> float:
    """The largest angle that can be meant for a servo: a turn, unless it counts turns or is a wheel; rad."""
    return math.inf if _is_endless(profile, registers) else math.tau


def _is_endless(profile: FirmwareProfile, registers: Mapping[str, int]) -> bool:
    """Whether a servo with these registers is no joint: its limits are equal, or its mode is not the factory's."""

    def value(name: str) -> int | str:
        return registers.get(name, profile.register(name).initial)

    if "operating_mode" in profile.registers:
        return value("operating_mode") != profile.register("operating_mode").initial
    return value(profile.names.low) == value(profile.names.high)


def _meant_degrees(angle: float) -> str:
    return f"angles are in radians: {angle:g} degrees are {math.radians(angle):.4g}"


def _supply_mistakes(rig: Rig) -> Iterable[RigError]:
    """Supplies that are more than a servo takes, unless the rig has told it not to mind (its register `shutdown`)."""
    high: dict[tuple[str, float, str, float, float], list[str]] = {}
    for servo in rig.dynamixels:
        try:
            profile = rig.profile_of(servo)
        except (RigError, ProfileError):  # named by `_servo_mistakes`
            continue
        limit = servo.registers.get("max_voltage_limit", profile.register("max_voltage_limit").initial)
        volts, most = rig.supply_of(servo), int(limit) * profile.units.voltage
        minds = servo.registers.get("shutdown", _MINDS_VOLTAGE) & _MINDS_VOLTAGE
        if minds and volts > most + _ROUNDED_VOLTS:
            key = f"bus.{servo.bus}" if servo.supply_voltage is None else f"servo.{servo.name}"
            nominal = profile.electrics.nominal_voltage
            high.setdefault((key, volts, profile.name, most, nominal), []).append(servo.name)
    for (key, volts, profile_name, most, nominal), names in high.items():
        why = f"{volts:g} V is more voltage than {listed(names, 4)} ({profile_name}) takes: {most:g} V at most"
        hint = f"write supply_voltage = {min(nominal, most):g} there, or in the [[servo]] for a regulator of its own"
        yield RigError(rig.path, f"{key}.supply_voltage", why, hint)


def _world_mistakes(rig: Rig) -> Iterable[RigError]:
    """What does not fit together in URDF and rig, or cannot stand where it begins."""
    if rig.world is None:
        for ideal in (servo for servo in rig.servos if servo.drive == "ideal"):
            why = f"{ideal.name!r} is ideal, and there is no world to move it in"
            yield RigError(rig.path, f"servo.{ideal.name}.drive", why, 'add [world] urdf = "…"')
        return
    path, sound = rig.urdf_path(), True
    try:
        with_checked_meshes(path, rig.urdf_text())
    except RigError as mistake:
        yield mistake
        sound = False
    except UnsupportedOperation:  # nothing here reads meshes; an engine that needs them will say so
        sound = False
    tree = rig.tree()
    joints = {joint.name: joint for joint in tree.joints}
    for servo in rig.servos:
        key, joint = f"servo.{servo.name}.joint", joints.get(servo.joint)
        if joint is None:
            why = "is fixed" if servo.joint in tree.fixed else f"is not in {path.name}"
            known = ", ".join(joints) or "none"
            yield RigError(rig.path, key, f"joint {servo.joint!r} {why}", f"joints that move: {known}")
        elif joint.linear and servo.drive == "dynamixel":
            hint = 'name a revolute or continuous joint, or write drive = "ideal"'
            yield RigError(rig.path, key, f"joint {servo.joint!r} is prismatic, and a Dynamixel turns", hint)
        elif servo.drive == "dynamixel":
            yield from _travel_mistakes(rig, servo, joint, path)
    for sensor in rig.sensors:
        if sensor.link is not None and sensor.link not in tree.links:
            why = f"link {sensor.link!r} is not in {path.name}"
            yield RigError(rig.path, f"sensor.{sensor.name}.link", why, f"it has: {', '.join(tree.links)}")
    if sound and rig.world.ground and not rig.world.fixed_base:
        yield from _floor_mistakes(rig, tree)


def _travel_mistakes(rig: Rig, servo: ServoConfig, joint: JointFacts, path: Path) -> Iterable[RigError]:
    """Stops of the URDF in degrees, and a start outside the stops."""
    degrees = [end for end in (joint.low, joint.high) if _MOST_STOP < abs(end) < math.inf]
    for end in degrees:
        why = f"its limit {end:g} rad is {abs(end) / math.tau:.2g} turns, more than a servo makes"
        yield RigError(path, joint.name, why, _meant_degrees(end))
    if not degrees:
        stops = (servo.min_stop, servo.max_stop) if servo.min_stop < servo.max_stop else (joint.low, joint.high)
        try:
            check_start(rig.path, f"servo.{servo.name}.position", servo.position, stops)
        except RigError as mistake:
            yield mistake


def _floor_mistakes(rig: Rig, tree: Tree) -> Iterable[RigError]:
    """A free robot that has nothing to stand on, or begins inside the floor."""
    assert rig.world is not None
    shapes = rig.shapes("collision")
    if not shapes:
        why, box = "no link has a <collision>, so the robot falls through the floor", '<box size="0.1 0.1 0.1"/>'
        hint = f"give the feet one, such as <collision><geometry>{box}</geometry></collision>, or fixed_base = true"
        yield RigError(rig.urdf_path(), tree.links[0], why, hint)
        return
    turned, place = _frames(tree, tree.pose(rig.start))
    lowest, link = min((_lowest(tree, shape, turned, place), shape.link) for shape in shapes)
    if (depth := -lowest - rig.world.base_height) > _IN_FLOOR:
        why = f"link {link!r} starts {depth * 1000:.0f} mm inside the floor"
        line = f"write base_height = {math.ceil((rig.world.base_height + depth) * 1e4 - 1e-3) / 1e4:g}"
        yield RigError(rig.path, "world.base_height", why, line)


def _lowest(tree: Tree, shape: Shape, turned: list[FloatArray], place: list[FloatArray]) -> float:
    """Height of the lowest point of a shape above the base's frame, m."""
    link = tree.links.index(shape.link)
    up = (turned[link] @ shape.turn)[2]  # the upward share of its axes
    centre = float((place[link] + turned[link] @ shape.place)[2])
    if shape.kind == "mesh":
        assert shape.file is not None
        return centre + float((read_mesh(shape.file).corners * shape.size @ up).min())
    if shape.kind == "box":
        return centre - float(np.abs(up) @ shape.size) / 2
    radius, length = (*shape.size, 0.0)[:2]
    flat = math.hypot(up[0], up[1]) if shape.kind == "cylinder" else 1.0
    return centre - abs(float(up[2])) * length / 2 - radius * flat


def _frames(tree: Tree, pose: FloatArray) -> tuple[list[FloatArray], list[FloatArray]]:
    """Rotation and place of each link's frame in that of the base, with the joints at `pose` (rad or m)."""
    turned, place = [np.eye(3)], [np.zeros(3)]
    for link in range(1, len(tree.links)):
        parent, axis, dof = tree.parent[link], tree.axis[link], tree.dof[link]
        at, turn = place[parent] + turned[parent] @ tree.place[link], turned[parent] @ tree.turn[link]
        if tree.kind[link] == SLIDES:
            at = at + turn @ axis * pose[dof]
        elif tree.kind[link] == TURNS:
            turn = turn @ about(axis, np.array([pose[dof]]))[0]
        turned.append(turn)
        place.append(at)
    return turned, place


def positive_directions(rig: Rig) -> dict[str, str]:
    """The way each joint turns towards larger angles, in words, by joint: seen from the end that its axis points to.

    The robot stands at 0 rad and looks along x; y is its left, z is up. Where what hangs on a joint goes one way, that
    is said, too.
    """
    if rig.world is None:
        return {}
    tree = rig.tree()
    turned, place = _frames(tree, tree.pose({}))
    mass = tree.mass.copy()
    moment = np.array([tree.mass[link] * (place[link] + turned[link] @ tree.centre[link]) for link in range(len(mass))])
    for link in range(len(mass) - 1, 0, -1):  # children come after their parents
        mass[tree.parent[link]] += mass[link]
        moment[tree.parent[link]] += moment[link]
    directions = {}
    for link in range(1, len(tree.links)):
        if tree.kind[link] != FIXED:
            axis = turned[link] @ tree.axis[link]
            side, share = _side_of(axis)
            seen = _SIDES[side] if share >= _NEAR else "where ({:.2g}, {:.2g}, {:.2g}) points".format(*axis)
            moves = np.cross(axis, moment[link] / mass[link] - place[link]) if mass[link] else np.zeros(3)
            goes, share = _side_of(moves)
            shown = tree.kind[link] == TURNS and share >= _NEAR and np.linalg.norm(moves) >= _LEVER
            directions[tree.joints[tree.dof[link]].name] = f"counter-clockwise, seen from {seen}" + (
                f" (so that its far end goes {_TOWARDS[goes]})" if shown else ""
            )
    return directions


def _side_of(vector: FloatArray) -> tuple[int, float]:
    """The side that a vector points to most, as an index of `_SIDES`, and the cosine of the angle to it."""
    towards = np.concatenate([vector, -vector])
    side = int(np.argmax(towards))
    length = float(np.linalg.norm(vector))
    return side, float(towards[side]) / length if length else 0.0


def _drawn(rig: Rig, tree: Tree) -> Iterable[str]:
    """The tree of links, children below their parent."""
    assert rig.world is not None  # `check_rig` has seen to it
    yield f"{tree.links[0]}, {'bolted down' if rig.world.fixed_base else 'free'}"
    children: dict[int, list[int]] = {}
    for link, parent in enumerate(tree.parent.tolist()):
        children.setdefault(parent, []).append(link)
    servos = {servo.joint: servo for servo in rig.servos}
    waiting = [(link, "") for link in reversed(children.get(0, ()))]
    while waiting:  # a chain may be longer than Python calls itself
        link, indent = waiting.pop()
        last = link == children[int(tree.parent[link])][-1]
        yield f"{indent}{'└─ ' if last else '├─ '}{_branch(rig, servos, tree, link)}"
        inner = indent + ("   " if last else "│  ")
        waiting += [(child, inner) for child in reversed(children.get(link, ()))]


def _branch(rig: Rig, servos: Mapping[str, ServoConfig], tree: Tree, link: int) -> str:
    if tree.kind[link] == FIXED:
        return f"{tree.links[link]}, fixed"
    joint = tree.joints[tree.dof[link]]
    servo = servos.get(joint.name)
    verb = "slides along" if tree.kind[link] == SLIDES else "turns about"
    text = f"{joint.name}: {verb} {_axis(tree, link)}, {_range(*_joint_range(rig, servo, joint), linear=joint.linear)}"
    if servo is None:
        return f"{text}; no servo"
    by = f"servo {servo.name}" if servo.name != joint.name else "servo"
    if servo.drive == "ideal":
        return f"{text}; {by} ideal"
    return f"{text}; {by} {servo.id} on {servo.bus}, {servo.profile}, model {servo.model}"


def _axis(tree: Tree, link: int) -> str:
    axis = tree.axis[link]
    side, share = _side_of(axis)
    return ("x", "y", "z", "-x", "-y", "-z")[side] if share == 1.0 else "({:.3g}, {:.3g}, {:.3g})".format(*axis)


def _joint_range(rig: Rig, servo: ServoConfig | None, joint: JointFacts) -> tuple[float, float]:
    """Where a joint may go: within the soft limits, the stops of the rig, else of the URDF, and the servo's counts."""
    low, high = joint.low, joint.high
    if servo is None:
        return low, high
    if servo.min_stop < servo.max_stop:
        low, high = servo.min_stop, servo.max_stop
    low, high = max(low, servo.soft_limits[0]), min(high, servo.soft_limits[1])
    profile = None if servo.drive == "ideal" else rig.profile_of(servo)
    if profile is None or _is_endless(profile, servo.registers):
        return low, high
    mounted = Calibration(profile.units, servo.zero, servo.direction)
    first, last = sorted(map(mounted.angle, (0, profile.units.counts)))
    return max(low, first), min(high, last)


def _range(low: float, high: float, *, linear: bool) -> str:
    if math.isinf(low) and math.isinf(high):
        return "without end"
    scale, unit = (1000, " mm") if linear else (180 / math.pi, "°")
    return f"{low * scale:.0f} to {high * scale:.0f}{unit}"


def _assumed(rig: Rig, tree: Tree | None) -> Iterable[str]:
    """What the file does not say, and what is taken instead."""
    used = {servo.bus for servo in rig.dynamixels}
    for bus in rig.buses:
        if "port" not in bus.model_fields_set and bus.name in used:
            yield f'bus {bus.name}: port = "auto", the only adapter plugged in'
    yield from _servo_defaults(rig)
    if tree is None:
        yield "no [world]: the simulator gives each servo a pendulum of its own"
        return
    joints = {joint.name: joint for joint in tree.joints}
    unlimited = [servo for servo in rig.servos if "min_position" not in servo.model_fields_set]
    if names := [s.name for s in unlimited if all(map(math.isfinite, _joint_range(rig, s, joints[s.joint])))]:
        yield f"{listed(names, 4)}: no min_position and max_position: it can hit its end stops"
    if rig.world is not None and "fixed_base" not in rig.world.model_fields_set:
        yield f"{tree.links[0]} is bolted down: fixed_base = true, and no floor"
    if rig.world is None or "time_step_ms" not in rig.world.model_fields_set:
        yield f"the physics step is {rig.physics_step_ms:.4g} ms"
    driven = {servo.joint for servo in rig.servos}
    if names := [joint.name for joint in tree.joints if joint.name not in driven]:
        yield f"{listed(names, 4)}: no servo, so it hangs loose"
    if tree.dummies:
        yield f"{listed(tree.dummies, 4)}: no <inertial>, taken for a frame without mass"


def _servo_defaults(rig: Rig) -> Iterable[str]:
    """Servos that leave the same out share a sentence."""
    defaulted: dict[str, list[str]] = {}
    for servo in rig.dynamixels:
        left_out = (key for key in _LISTED if key not in servo.model_fields_set)
        text = ", ".join(f"{key} = {written(getattr(servo, key))}" for key in left_out)
        defaulted.setdefault(text, []).append(servo.name)
    for text, names in defaulted.items():
        if text:
            yield f"{listed(names, 4)}: {text}"
