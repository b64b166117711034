"""Step 3: which servo moves which joint, which way, and from where it counts; the robot's own answers are asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from axbridge.bus.handshake import Finding
from axbridge.config.rig import Rig

STRAIGHT = math.radians(5)  # so near a hand brings a joint to where it should be


@dataclass(frozen=True)
class JointTurn:
    """What moved when a joint was turned the way that counts as positive.

    Attributes:
        joint: Name of the rig's servo whose joint was turned, or that was nudged.
        moved: Name of the rig's servo that moved; "" when nobody could say.
        way: 1 when its angle grew, or the joint went the way that was said; -1 for the other way.
        by: A hand turned it and the servo reported, or the servo turned it and a person answered.
    """

    joint: str
    moved: str
    way: Literal[1, -1]
    by: Literal["hand", "nudge"]


def zero_pose(rig: Rig) -> dict[str, float]:
    """The pose that every joint is led to, rad, by servo: 0, or as near to 0 as its limits let it."""
    pose = {}
    for servo in rig.servos:
        low, high = servo.soft_limits
        pose[servo.name] = min(max(0.0, low), high)
    return pose


def judge_mounting(rig: Rig, off: Mapping[str, float], turns: Sequence[JointTurn], port: str) -> list[Finding]:
    """What ids, directions and zeros of a rig are wrong.

    Args:
        rig: The robot.
        off: How far each joint read from where it was, rad, by servo, while a hand held it in `zero_pose`.
        turns: What moved when a joint was turned.
        port: How the commands of the fixes name the port.
    """
    servos = {servo.name: servo for servo in rig.servos}
    went = {turn.joint: turn.moved for turn in turns}
    wrong: list[tuple[str, str, str]] = []  # servo, problem, kind
    concerned: set[str] = set()

    def say(name: str, problem: str, kind: str, *others: str) -> None:
        wrong.append((name, problem, kind))
        concerned.update((name, *others))

    strayed = {turn.joint for turn in turns if turn.moved != turn.joint}
    for turn in turns:
        joint, moved = turn.joint, turn.moved
        if joint in strayed and not moved:
            say(joint, "moves another joint than the rig says: its id is another servo's", "id")
        elif joint in strayed and went.get(moved) == joint:
            if list(servos).index(joint) < list(servos).index(moved):  # once for the two
                problem = f"and {moved} (id {servos[moved].id}) have each other's id: each moves the other's joint"
                say(joint, problem, "id", moved)
        elif joint in strayed:
            problem = f"is moved by servo {servos[moved].id}, which the rig gives to {moved}"
            say(joint, problem, "id", moved)
        elif turn.way < 0:
            wanted = -servos[joint].direction
            say(joint, f"turns the other way: its direction should be {wanted}", "direction")
    elsewhere = strayed | {moved for joint, moved in went.items() if joint in strayed}
    for name, angle in off.items():
        if abs(angle) <= STRAIGHT or name in elsewhere:
            continue
        servo = servos[name]
        counts = round(angle / rig.profile_of(servo).units.position) * servo.direction
        problem = (
            f"reads {math.degrees(angle):+.1f}° too much where it should be straight: its zero is off by {counts:+d} "
            "counts, or it was not held straight"
        )
        say(name, problem, "zero")
    joints = ",".join(name for name in servos if name in concerned)
    own, copy = (
        (f"my_{rig.name}", f"axbridge rig copy {rig.name} my_{rig.name} && ") if rig.comes_along else (rig.path, "")
    )
    fix = f"{copy}axbridge calibrate --rig {own} --joints {joints} --port {port}"
    return [
        Finding(f"{name} (id {servos[name].id})", problem, fix, True, kind, servos[name].id)
        for name, problem, kind in wrong
    ]
