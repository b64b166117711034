"""Check a whole rig: its URDF against its servos; list the defaults that were assumed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.profile import FirmwareProfile
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ANGLES, SEVEN_TURNS, ServoConfig, meant_degrees
from axbridge.config.toml_tables import written
from axbridge.config.urdf import (
    FIXED,
    SLIDES,
    TURNS,
    JointFacts,
    Shape,
    Tree,
    check_start,
    missing_pictures,
    read_mesh,
    with_checked_meshes,
)
from axbridge.errors import ErrorFlag, ProfileError, RigError, UnsupportedOperation, listed
from axbridge.sim.body.kinematics import Posed, posed

_LISTED = ("profile", "model", "zero", "direction")  # keys whose defaults `check` lists
_SIDES = ("the front", "the left", "above", "behind", "the right", "below")  # sides in direction of x, y, z, -x, -y, -z
_TOWARDS = ("forward", "to the robot's left", "up", "back", "to the robot's right", "down")  # likewise, motions
_MINDS_VOLTAGE = int(ErrorFlag.INPUT_VOLTAGE)  # the same bit in all families
_ROUNDED_VOLTS = 1e-6  # V
_IN_FLOOR = 0.002  # m; engines push a robot out of this depth without a jump
_HEAVIEST = 100.0  # kg; a heavier link that moves is beyond these servos
_LEVER = 0.03  # m; a centre of mass nearer to the joint's axis shows no direction
_SIDE_COSINE = 0.94  # cosine of 20°: largest angle between an axis and its side


@dataclass(frozen=True)
class RigSummary:
    """Summary of a rig without mistakes."""

    tree: tuple[str, ...]  # one line per link or joint; empty without a world
    assumed: tuple[str, ...]  # one sentence per assumption


def check_rig(rig: Rig) -> RigSummary:
    """Check a rig with its profiles, models, URDF and joints; return its summary.

    Raises:
        RigError, ProfileError: there are mistakes; the error lists all of them.
    """
    refuse_unsound(rig)
    tree = None if rig.world is None else rig.tree()
    return RigSummary(() if tree is None else tuple(_drawn(rig, tree)), tuple(_assumed(rig, tree)))


def refuse_unsound(rig: Rig) -> None:
    """Raise one error with all mistakes of a rig; a simulation calls it before it starts, too."""
    errors: list[RigError | ProfileError] = []
    for check in (_servo_mistakes, _supply_mistakes, _world_mistakes):
        try:
            errors += check(rig)
        except (RigError, ProfileError) as mistake:
            errors.append(mistake)
    if errors:
        raise RigError.of(rig.path, errors)


def _servo_mistakes(rig: Rig) -> Iterable[RigError | ProfileError]:
    """Yield profiles and models that do not fit, and angles that are not in radians."""
    for servo in rig.dynamixels:
        spec = rig.specs[servo.name]
        try:
            profile, _ = spec.profile, spec.model
        except (RigError, ProfileError) as mistake:
            yield mistake
            continue
        for key in () if _is_endless(profile, servo.registers) else ANGLES:
            if abs(angle := getattr(servo, key)) > math.tau:
                why = f"{angle:g} rad is {abs(angle) / math.tau:.2g} turns, and a {servo.profile} makes less than one"
                yield RigError(rig.path, f"servo.{servo.name}.{key}", why, meant_degrees(angle))


def _is_endless(profile: FirmwareProfile, registers: Mapping[str, int]) -> bool:
    """Return whether a servo has no position limits: they are equal, or its mode is not the factory's."""

    def value(name: str) -> int | str:
        return registers.get(name, profile.register(name).initial)

    if "operating_mode" in profile.registers:
        return value("operating_mode") != profile.register("operating_mode").initial
    return value(profile.names.low) == value(profile.names.high)


def _supply_mistakes(rig: Rig) -> Iterable[RigError]:
    """Yield supplies above a servo's limit, unless the rig's `shutdown` register disables that alarm."""
    high: dict[tuple[str, float, str, float, float], list[str]] = {}
    for servo in rig.dynamixels:
        try:
            profile, volts = rig.specs[servo.name].profile, rig.specs[servo.name].supply
        except (RigError, ProfileError):  # reported by `_servo_mistakes`
            continue
        limit = servo.registers.get("max_voltage_limit", profile.register("max_voltage_limit").initial)
        most = int(limit) * profile.units.voltage
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
    """Yield contradictions between URDF and rig, and robots that cannot start at their position."""
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
    except UnsupportedOperation:  # trimesh is missing; an engine that needs meshes reports it
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
    for link, mass in zip(tree.links, tree.mass.tolist(), strict=True) if rig.dynamixels else ():
        if mass > _HEAVIEST and not (rig.world.fixed_base and link == tree.links[0]):
            why = f"a mass of {mass:g} kg, and robots of such servos have less than {_HEAVIEST:g} kg"
            yield RigError(path, link, why, "write kg in the <mass> of a URDF: 55 g are 0.055")
    for sensor in rig.sensors:
        if sensor.link is not None and sensor.link not in tree.links:
            why = f"link {sensor.link!r} is not in {path.name}"
            yield RigError(rig.path, f"sensor.{sensor.name}.link", why, f"it has: {', '.join(tree.links)}")
    if sound and rig.world.ground and not rig.world.fixed_base:
        yield from _floor_mistakes(rig, tree)


def _travel_mistakes(rig: Rig, servo: ServoConfig, joint: JointFacts, path: Path) -> Iterable[RigError]:
    """Yield stops of the URDF in degrees, and a start position outside the stops."""
    degrees = [end for end in (joint.low, joint.high) if SEVEN_TURNS < abs(end) < math.inf]
    for end in degrees:
        why = f"its limit {end:g} rad is {abs(end) / math.tau:.2g} turns, more than a servo makes"
        yield RigError(path, joint.name, why, meant_degrees(end))
    if not degrees:
        try:
            check_start(rig.path, f"servo.{servo.name}.position", servo.position, servo.stops(joint.low, joint.high))
        except RigError as mistake:
            yield mistake


def _floor_mistakes(rig: Rig, tree: Tree) -> Iterable[RigError]:
    """Yield mistakes of a free robot: no collision shape, or a start inside the floor."""
    assert rig.world is not None
    shapes = rig.shapes("collision")
    if not shapes:
        why, box = "no link has a <collision>, so the robot falls through the floor", '<box size="0.1 0.1 0.1"/>'
        hint = f"give the feet one, such as <collision><geometry>{box}</geometry></collision>, or fixed_base = true"
        yield RigError(rig.urdf_path(), tree.links[0], why, hint)
        return
    at_start = posed(tree, tree.pose(rig.start)[None])
    lowest, link = min((_lowest(tree, shape, at_start), shape.link) for shape in shapes)
    if (depth := -lowest - rig.world.base_height) > _IN_FLOOR:
        why = f"link {link!r} starts {depth * 1000:.0f} mm inside the floor"
        line = f"write base_height = {math.ceil((rig.world.base_height + depth) * 1e4 - 1e-3) / 1e4:g}"
        yield RigError(rig.path, "world.base_height", why, line)


def _lowest(tree: Tree, shape: Shape, where: Posed) -> float:
    """Return the height of the lowest point of a shape above the base's frame, m."""
    link = tree.links.index(shape.link)
    turned = where.turn[link, 0]
    up = (turned @ shape.turn)[2]  # z components of its axes
    centre = float((where.place[link, 0] + turned @ shape.place)[2])
    if shape.kind == "mesh":
        assert shape.file is not None
        return centre + float((read_mesh(shape.file).corners * shape.size @ up).min())
    if shape.kind == "box":
        return centre - float(np.abs(up) @ shape.size) / 2
    radius, length = (*shape.size, 0.0)[:2]
    flat = math.hypot(up[0], up[1]) if shape.kind == "cylinder" else 1.0
    return centre - abs(float(up[2])) * length / 2 - radius * flat


def positive_directions(rig: Rig) -> dict[str, str]:
    """Return each joint's positive direction in words, by joint, as seen from the end of its axis.

    All joints are at 0 rad; the robot looks along x, y is its left, z is up. The text also names the direction in which
    the carried links move, if they mainly move to one side.
    """
    if rig.world is None:
        return {}
    tree = rig.tree()
    where, mass = posed(tree, tree.pose({})[None]), tree.mass.copy()
    moment = mass[:, None] * where.centres[:, 0]
    for link in range(len(mass) - 1, 0, -1):  # parents have lower indices
        mass[tree.parent[link]] += mass[link]
        moment[tree.parent[link]] += moment[link]
    directions = {}
    for link in range(1, len(tree.links)):
        if tree.kind[link] != FIXED:
            axis = where.axis[link, 0]
            side, share = _side_of(axis)
            seen = _SIDES[side] if share >= _SIDE_COSINE else "where ({:.2g}, {:.2g}, {:.2g}) points".format(*axis)
            moves = np.cross(axis, moment[link] / mass[link] - where.place[link, 0]) if mass[link] else np.zeros(3)
            goes, share = _side_of(moves)
            shown = tree.kind[link] == TURNS and share >= _SIDE_COSINE and np.linalg.norm(moves) >= _LEVER
            directions[tree.joints[tree.dof[link]].name] = f"counter-clockwise, seen from {seen}" + (
                f" (so that its far end goes {_TOWARDS[goes]})" if shown else ""
            )
    return directions


def _side_of(vector: FloatArray) -> tuple[int, float]:
    """Return the side nearest to a vector's direction, as an index of `_SIDES`, and the cosine of their angle."""
    towards = np.concatenate([vector, -vector])
    side = int(np.argmax(towards))
    length = float(np.linalg.norm(vector))
    return side, float(towards[side]) / length if length else 0.0


def _drawn(rig: Rig, tree: Tree) -> Iterable[str]:
    """Yield the lines of the tree of links, children below their parent."""
    assert rig.world is not None  # checked by `check_rig`
    yield f"{tree.links[0]}, {'bolted down' if rig.world.fixed_base else 'free'}"
    children: dict[int, list[int]] = {}
    for link, parent in enumerate(tree.parent.tolist()):
        children.setdefault(parent, []).append(link)
    servos = {servo.joint: servo for servo in rig.servos}
    waiting = [(link, "") for link in reversed(children.get(0, ()))]
    while waiting:  # no recursion: a chain may exceed Python's limit
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
    """Return the range of a joint within its soft limits, its stops (the rig's, else the URDF's) and its counts."""
    if servo is None:
        return joint.low, joint.high
    low, high = servo.stops(joint.low, joint.high)
    low, high = max(low, servo.soft_limits[0]), min(high, servo.soft_limits[1])
    profile = None if servo.drive == "ideal" else rig.specs[servo.name].profile
    if profile is None or _is_endless(profile, servo.registers):
        return low, high
    first, last = rig.specs[servo.name].calibration.range
    return max(low, first), min(high, last)


def _range(low: float, high: float, *, linear: bool) -> str:
    if math.isinf(low) and math.isinf(high):
        return "without end"
    scale, unit = (1000, " mm") if linear else (180 / math.pi, "°")
    return f"{low * scale:.0f} to {high * scale:.0f}{unit}"


def _assumed(rig: Rig, tree: Tree | None) -> Iterable[str]:
    """Yield a sentence for each default that the file leaves unset."""
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
    if names := missing_pictures(rig.urdf_path(), rig.urdf_text()):
        yield f"{listed(names, 4)}: the mesh of its <visual> is not there, so it is not drawn"
    if tree.dummies:
        yield f"{listed(tree.dummies, 4)}: no <inertial>, taken for a frame without mass"


def _servo_defaults(rig: Rig) -> Iterable[str]:
    """Yield a sentence for each set of defaults, with all its servos."""
    defaulted: dict[str, list[str]] = {}
    for servo in rig.dynamixels:
        left_out = (key for key in _LISTED if key not in servo.model_fields_set)
        text = ", ".join(f"{key} = {written(getattr(servo, key))}" for key in left_out)
        defaulted.setdefault(text, []).append(servo.name)
    for text, names in defaulted.items():
        if text:
            yield f"{listed(names, 4)}: {text}"
