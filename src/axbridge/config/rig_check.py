"""A rig looked at as a whole: its URDF and its servos put together, and what was assumed where the file is silent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.config.toml_tables import written
from axbridge.config.urdf import FIXED, SLIDES, TURNS, JointFacts, Tree, with_checked_meshes
from axbridge.errors import RigError, listed

_TELLING = ("profile", "model", "zero", "direction")  # what robots and simulations go by, and a file may leave out
_SIDES = ("the front", "the left", "above", "behind", "the right", "below")  # where x, y, z, -x, -y, -z point
_TOWARDS = ("forward", "to the robot's left", "up", "back", "to the robot's right", "down")  # likewise
_LEVER = 0.03  # m from a joint's axis: what hangs nearer to it shows no way
_NEAR = 0.94  # cosine of 20°: so near to a side an axis points there


@dataclass(frozen=True)
class RigSummary:
    """What a sound rig looks like."""

    tree: tuple[str, ...]  # the links and joints, drawn; one line each. Empty without a world.
    assumed: tuple[str, ...]  # what was taken for granted, a sentence each


def check_rig(rig: Rig) -> RigSummary:
    """Put everything together that a rig names: profiles, models, URDF, joints."""
    for servo in rig.dynamixels:
        rig.model_of(servo)
    if rig.world is None:
        if ideal := next((servo for servo in rig.servos if servo.drive == "ideal"), None):
            why = f"{ideal.name!r} is ideal, and there is no world to move it in"
            raise RigError(rig.path, f"servo.{ideal.name}.drive", why, 'add [world] urdf = "…"')
        return RigSummary((), tuple(_assumed(rig, None)))
    path, tree = rig.urdf_path(), rig.tree()
    with_checked_meshes(path, rig.urdf_text())
    joints = {joint.name: joint for joint in tree.joints}
    for servo in rig.servos:
        key, joint = f"servo.{servo.name}.joint", joints.get(servo.joint)
        if joint is None:
            why = "is fixed" if servo.joint in tree.fixed else f"is not in {path.name}"
            known = ", ".join(joints) or "none"
            raise RigError(rig.path, key, f"joint {servo.joint!r} {why}", f"joints that move: {known}")
        if joint.linear and servo.drive == "dynamixel":
            hint = 'name a revolute or continuous joint, or write drive = "ideal"'
            raise RigError(rig.path, key, f"joint {servo.joint!r} is prismatic, and a Dynamixel turns", hint)
    for sensor in rig.sensors:
        if sensor.link is not None and sensor.link not in tree.links:
            why = f"link {sensor.link!r} is not in {path.name}"
            raise RigError(rig.path, f"sensor.{sensor.name}.link", why, f"it has: {', '.join(tree.links)}")
    return RigSummary(tuple(_drawn(rig, tree)), tuple(_assumed(rig, tree)))


def positive_ways(rig: Rig) -> dict[str, str]:
    """The way each joint turns towards larger angles, in words, by joint: seen from the end that its axis points to.

    The robot stands at 0 rad and looks along x; y is its left, z is up. Where what hangs on a joint goes one way, that
    is said, too.
    """
    if rig.world is None:
        return {}
    tree = rig.tree()
    turned, place = [np.eye(3)], [np.zeros(3)]
    for link in range(1, len(tree.links)):
        parent = tree.parent[link]
        turned.append(turned[parent] @ tree.turn[link])
        place.append(place[parent] + turned[parent] @ tree.place[link])
    mass = tree.mass.copy()
    moment = np.array([tree.mass[link] * (place[link] + turned[link] @ tree.centre[link]) for link in range(len(mass))])
    for link in range(len(mass) - 1, 0, -1):  # children come after their parents
        mass[tree.parent[link]] += mass[link]
        moment[tree.parent[link]] += moment[link]
    ways = {}
    for link in range(1, len(tree.links)):
        if tree.kind[link] != FIXED:
            axis = turned[link] @ tree.axis[link]
            side, share = _side_of(axis)
            seen = _SIDES[side] if share >= _NEAR else "where ({:.2g}, {:.2g}, {:.2g}) points".format(*axis)
            moves = np.cross(axis, moment[link] / mass[link] - place[link]) if mass[link] else np.zeros(3)
            goes, share = _side_of(moves)
            shown = tree.kind[link] == TURNS and share >= _NEAR and np.linalg.norm(moves) >= _LEVER
            ways[tree.joints[tree.dof[link]].name] = f"counter-clockwise, seen from {seen}" + (
                f" (so that its far end goes {_TOWARDS[goes]})" if shown else ""
            )
    return ways


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
        yield f"{indent}{'└─ ' if last else '├─ '}{_branch(servos, tree, link)}"
        inner = indent + ("   " if last else "│  ")
        waiting += [(child, inner) for child in reversed(children.get(link, ()))]


def _branch(servos: Mapping[str, ServoConfig], tree: Tree, link: int) -> str:
    if tree.kind[link] == FIXED:
        return f"{tree.links[link]}, fixed"
    joint = tree.joints[tree.dof[link]]
    servo = servos.get(joint.name)
    way = "slides along" if tree.kind[link] == SLIDES else "turns about"
    text = f"{joint.name}: {way} {_axis(tree, link)}, {_range(*_reach(servo, joint), linear=joint.linear)}"
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


def _reach(servo: ServoConfig | None, joint: JointFacts) -> tuple[float, float]:
    """Where a joint may go: within the soft limits, and the stops of the rig, else of the URDF."""
    low, high = joint.low, joint.high
    if servo is None:
        return low, high
    if servo.min_stop < servo.max_stop:
        low, high = servo.min_stop, servo.max_stop
    return max(low, servo.soft_limits[0]), min(high, servo.soft_limits[1])


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
    for servo in rig.dynamixels:
        profile = rig.profile_of(servo)
        if "zero" not in servo.model_fields_set and servo.zero != (middle := profile.units.middle):
            yield f"{servo.name}: zero = {servo.zero}, though the middle of profile {servo.profile} is {middle}"
        highest = servo.registers.get("max_voltage_limit", profile.register("max_voltage_limit").initial)
        volts, most = rig.supply_of(servo), int(highest) * profile.units.voltage
        if volts > most:
            yield f"{servo.name}: supply_voltage = {volts:g}, though a {servo.profile} takes {most:g} V at most"
    if tree is None:
        yield "no [world]: the simulator gives each servo a pendulum of its own"
        return
    joints = {joint.name: joint for joint in tree.joints}
    unlimited = [servo for servo in rig.servos if "min_position" not in servo.model_fields_set]
    if names := [one.name for one in unlimited if all(map(math.isfinite, _reach(one, joints[one.joint])))]:
        yield f"{listed(names, 4)}: no min_position and max_position: it may be sent as far as its stops"
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
    silent: dict[str, list[str]] = {}
    for servo in rig.dynamixels:
        odd = {"zero"} if servo.zero != rig.profile_of(servo).units.middle else set()  # that is said by itself
        left_out = (key for key in _TELLING if key not in servo.model_fields_set | odd)
        text = ", ".join(f"{key} = {written(getattr(servo, key))}" for key in left_out)
        silent.setdefault(text, []).append(servo.name)
    for text, names in silent.items():
        if text:
            yield f"{listed(names, 4)}: {text}"
