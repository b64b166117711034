"""Check that the pose which the servos report is possible. If not, the rig is wrong, and its goals would be, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from axbridge.config.rig import Rig
from axbridge.errors import Remedy, RigError
from axbridge.robot.joint import Joint
from axbridge.sim.body.kinematics import Sole, posed, soles_of

_BEYOND = math.radians(10)  # beyond its soft limit; a limp joint may hang a little beyond it, but not so far
_LOST_TURN = ", it has lost a turn"
_INSIDE, _THICK = 0.008, 0.012  # m inside the edges of the other sole, and from its plane: the feet overlap


def impossible(rig: Rig, positions: Mapping[str, float], limits: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """Return the reasons why a pose, rad or m, is impossible, by servo."""
    reasons = {}
    for name, here in positions.items():
        low, high = limits[name]
        beyond = max(low - here, here - high)
        if beyond > _BEYOND:
            limit = math.degrees(low if here < low else high)
            reasons[name] = (
                f"stands at {math.degrees(here):.0f}°, {math.degrees(beyond):.0f}° beyond its limit of {limit:.0f}°"
            )
            turned = here - math.floor((here - low) / math.tau) * math.tau  # by whole turns, above the lower limit
            if turned <= high:
                reasons[name] += f"{_LOST_TURN}: {math.degrees(turned):.0f}° is within its limits"
    return reasons or _feet_in_each_other(rig, positions)


def refuse_impossible(rig: Rig, joints: Sequence[Joint], limp: Callable[[], Collection[str]]) -> None:
    """Switch all motors off and raise RigError for an impossible pose: a wrong zero or direction damages joints."""
    positions = {joint.config.name: joint.sample("position") for joint in joints}
    wrong = impossible(rig, positions, {j.config.name: (j.min_position, j.max_position) for j in joints})
    if not wrong:
        return
    for joint in joints:
        joint.note_off()
    left = limp()
    off = f"{', '.join(left)} may be on: cut the servo supply" if left else "nothing has moved, and all motors are off"
    ports = {joint.config.bus: getattr(getattr(joint.drive, "bus", None), "port_name", "") for joint in joints}
    port = ports[joints[0].config.bus] if len(rig.buses) == 1 else ""  # --port names one
    hint = (
        "if a joint is really there, lead it back by hand; else the rig has its id, zero or direction wrong: "
        f"`{Remedy('verify', rig=rig.path, port=port)}` finds which, and `{calibrating(rig, port=port)}` repairs it"
    )
    if all(_LOST_TURN in why for why in wrong.values()):
        reboots = " && ".join(
            Remedy("servo reboot", joint.config.id, port=ports[bus.name], baud=bus.baud)
            for bus in rig.buses for joint in joints if joint.config.bus == bus.name and joint.config.name in wrong
        )  # fmt: skip
        hint = f"lead it by hand across the end of its turn, within its range, then let it count anew: `{reboots}`"
    problem = "; ".join(f"{name} {why}" for name, why in wrong.items())
    raise RigError(rig.path, "", f"this cannot be: {problem}; {off}", hint)


def calibrating(rig: Rig, **options: str) -> str:
    """Return the command that calibrates a rig; one that comes with axbridge is copied first."""
    if not rig.comes_along:
        return Remedy("calibrate", rig=rig.path, **options)
    own = f"my_{rig.name}"
    return f"{Remedy('rig copy', rig.name, own)} && {Remedy('calibrate', rig=own, **options)}"


def _feet_in_each_other(rig: Rig, positions: Mapping[str, float]) -> dict[str, str]:
    """Return a reason if the two feet of a robot overlap."""
    if rig.world is None or rig.world.fixed_base:
        return {}
    tree = rig.tree()
    here = tree.pose({servo.joint: positions.get(servo.name, servo.position) for servo in rig.servos})[None]
    soles = soles_of(rig, tree)
    if len(soles) != 2 or not np.isfinite(here).all():
        return {}
    places = posed(tree, here)

    def reaches_into(foot: Sole, other: Sole) -> bool:
        points = np.vstack((foot.corners, foot.middle)) @ places.turn[foot.link, 0].T + places.place[foot.link, 0]
        x, y, z = ((points - places.place[other.link, 0]) @ places.turn[other.link, 0] - other.low).T
        length, width, _ = other.high - other.low
        across = np.minimum(np.minimum(x, length - x), np.minimum(y, width - y))
        return bool(((across > _INSIDE) & (np.abs(z) < _THICK)).any())

    first, second = soles
    if not (reaches_into(first, second) or reaches_into(second, first)):
        return {}
    servo_of = {servo.joint: servo.name for servo in rig.servos}
    both = [servo_of[joint] for sole in soles if (joint := tree.names[tree.dof[sole.link]]) in servo_of]
    return {" and ".join(both): "would have their feet in the same place"}
