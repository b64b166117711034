"""What torques a motion takes, for many moments at once: bolted down, or standing on flat feet.

Recursive Newton-Euler (Featherstone 2008, chapter 5) over arrays of moments. A robot that stands is looked at from one
of its feet, which does not move; the floor's push on the other foot is taken from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.config.urdf import Shape, Tree, read_shapes, read_tree
from axbridge.errors import RigError
from axbridge.motion.poses_of_mass import about, posed

__all__ = ["Body", "Effort", "Sole", "joints_between", "rooted_at"]

_LEVEL = 0.005  # m: feet whose soles differ less in height stand on the same floor


class Sole(NamedTuple):
    """A foot's underside: a rectangle in its link's frame.

    Attributes:
        link: Index of the foot's link.
        low: x, y and z of the corner with the lowest figures, m, (3,).
        high: x and y of the opposite corner, and the same z, m, (3,).
    """

    link: int
    low: FloatArray
    high: FloatArray


class Effort(NamedTuple):
    """What a motion takes at n moments.

    Attributes:
        torque: Of each joint of the tree, N·m, (n, joints).
        zmp: Zero-moment point beside the middle of both soles, m, (n, 2); zeros where the robot is bolted down.
        slip: How far the second foot has gone, x, y, z in m and its lean in two directions in rad, (n, 5); likewise.
    """

    torque: FloatArray
    zmp: FloatArray
    slip: FloatArray


class _Links(NamedTuple):
    """Frames of links, forces through their joints and moments about their origins, each (links, n, …)."""

    place: FloatArray
    turn: FloatArray
    axis: FloatArray
    force: FloatArray
    moment: FloatArray


@dataclass(frozen=True)
class Body:
    """A robot that is bolted down, or stands on two feet.

    Attributes:
        tree: Its links; the first is what does not move.
        gravity: In the frame of that link, m/s², (3,).
        soles: None bolted down; two, the first one's link is the first of the tree.
        home: Place and rotation of the second foot's link where it has to stay, (3,) and (3, 3).
        room: How far the zero-moment point may go from the middle of both soles, m, (2,).
    """

    tree: Tree
    gravity: FloatArray
    soles: tuple[Sole, ...] = ()
    home: tuple[FloatArray, FloatArray] = (np.zeros(3), np.eye(3))
    room: tuple[float, float] = (math.inf, math.inf)

    @classmethod
    def of(cls, rig: Rig, positions: dict[str, float]) -> Body:
        """The body of a rig.

        Args:
            rig: The robot.
            positions: Of its joints at the start, rad: there both feet stand.

        Raises:
            RigError: no world, or it stands free on no two feet with boxes for soles.
        """
        path, text, world = rig.urdf_path(), rig.urdf_text(), rig.world
        assert world is not None  # else it had no path
        tree = read_tree(path, fixed_base=world.fixed_base, text=text)
        gravity = np.array(world.gravity)
        if world.fixed_base:
            return cls(tree, gravity)
        start = np.array([[positions.get(joint.name, 0.0) for joint in tree.joints]])
        feet = _feet(tree, read_shapes(path, text), start)
        if len(feet) != 2:
            why = f"{len(feet)} links with a box for a sole stand on the floor in this pose"
            raise RigError(rig.path, "world", why, "start from a pose on two feet, or let fixed_base = true")
        names = [tree.links[sole.link] for sole in feet]
        tree = rooted_at(tree, feet[0].link)
        soles = tuple(sole._replace(link=tree.links.index(name)) for sole, name in zip(feet, names, strict=True))
        column = [joint.name for joint in tree.joints]
        start = np.array([[positions.get(name, 0.0) for name in column]])
        links = _newton_euler(tree, start, np.zeros_like(start), np.zeros_like(start), -gravity)
        body = cls(tree, gravity, soles, (links.place[soles[1].link, 0], links.turn[soles[1].link, 0]))
        corners = np.array(
            [body._in_first(k, corner) for k, sole in enumerate(soles) for corner in (sole.low, sole.high)]
        )
        middle = body._centres().mean(axis=0)
        reach = np.abs(corners - middle)
        return replace(body, room=(float(reach[:, 0].min()), float(reach[:, 1].max())))

    def effort(self, position: FloatArray, speed: FloatArray, acceleration: FloatArray) -> Effort:
        """What a motion takes: its joints' angles (rad), speeds and accelerations, (n, joints) each."""
        links = _newton_euler(self.tree, position, speed, acceleration, -self.gravity)
        torque = np.zeros_like(position)
        for link, dof in enumerate(self.tree.dof.tolist()):
            if dof >= 0:
                torque[:, dof] = np.sum(links.axis[link] * links.moment[link], axis=1)
        if not self.soles:
            return Effort(torque, np.zeros((len(position), 2)), np.zeros((len(position), 5)))
        return self._on_feet(links, torque)

    def _on_feet(self, links: _Links, torque: FloatArray) -> Effort:
        centres = self._centres()
        middle = centres.mean(axis=0)
        force, moment = links.force[0], links.moment[0]  # that the floor gives, about the first link's origin
        upwards = np.maximum(force[:, 2], 1e-3)
        floor = float(self.soles[0].low[2])
        zmp = (
            np.column_stack((-moment[:, 1] + floor * force[:, 0], moment[:, 0] + floor * force[:, 1]))
            / upwards[:, None]
        )
        apart = centres[1] - centres[0]
        share = np.clip(((zmp - centres[0]) @ apart) / (apart @ apart), 0.0, 1.0)[:, None]
        beside = zmp - centres[0] - share * apart
        under = np.column_stack((centres[1] + beside, np.full(len(zmp), floor)))
        about = np.column_stack((zmp, np.full(len(zmp), floor)))
        push, twist = share * force, share * (moment - _cross(about, force))
        link = self.soles[1].link
        while link > 0:  # the second foot's push comes up its leg, and goes down the first one
            dof = int(self.tree.dof[link])
            if dof >= 0:
                given = _cross(under - links.place[link], push) + twist
                torque[:, dof] -= np.sum(links.axis[link] * given, axis=1)
            link = int(self.tree.parent[link])
        second = self.soles[1].link
        turned = np.swapaxes(links.turn[second], -1, -2) @ self.home[1]
        slip = np.column_stack((links.place[second] - self.home[0], turned[:, 0, 2], turned[:, 1, 2]))
        return Effort(torque, zmp - middle, slip)

    def _centres(self) -> FloatArray:
        """Of both soles, in the frame of the first foot, m, (2, 2)."""
        return np.array([self._in_first(k, (sole.low + sole.high) / 2) for k, sole in enumerate(self.soles)])

    def _in_first(self, sole: int, point: FloatArray) -> FloatArray:
        found = self.home[0] + self.home[1] @ point if sole else point
        return np.array(found[:2])


def rooted_at(tree: Tree, link: int) -> Tree:
    """The same robot with another link as its base; joints keep their names and the sense of their angles.

    A link on the way from the new base to the old one gets the frame of the joint by which it now hangs.
    """
    way = [link]
    while tree.parent[way[-1]] >= 0:
        way.append(int(tree.parent[way[-1]]))
    above = dict(zip(way[1:], way[:-1], strict=True))  # link on the way -> the one by which it now hangs
    order = [link]
    for one in order:  # grows while it is read
        children = [k for k in range(len(tree.links)) if (tree.parent[k] == one and k not in way)]
        order += [*children, *([int(tree.parent[one])] if one in way and tree.parent[one] >= 0 else [])]
    place, turn = tree.place.copy(), tree.turn.copy()
    axis, kind, old = tree.axis.copy(), tree.kind.copy(), tree.dof.copy()
    centre, inertia = tree.centre.copy(), tree.inertia.copy()
    frames = {one: (tree.place[child], tree.turn[child]) for one, child in above.items()}  # new frame in the old one
    for one, (shift, rotation) in frames.items():
        centre[one] = rotation.T @ (tree.centre[one] - shift)
        inertia[one] = rotation.T @ tree.inertia[one] @ rotation
    for k in range(len(tree.links)):
        up = int(tree.parent[k])
        if k not in way and up in frames:
            shift, rotation = frames[up]
            place[k], turn[k] = rotation.T @ (tree.place[k] - shift), rotation.T @ tree.turn[k]
    for one, child in above.items():
        kind[one], old[one], axis[one] = tree.kind[child], tree.dof[child], -tree.axis[child]
        place[one], turn[one] = np.zeros(3), np.eye(3)
        if child in frames:  # its own frame has moved
            shift, rotation = frames[child]
            place[one], turn[one] = -rotation.T @ shift, rotation.T
    kind[link], old[link] = 0, -1
    parents = [-1 if one == link else above.get(one, int(tree.parent[one])) for one in order]
    dofs = [int(old[one]) for one in order]
    joints = [d for d in dofs if d >= 0]
    return replace(
        tree,
        joints=tuple(tree.joints[d] for d in joints),
        links=tuple(tree.links[one] for one in order),
        parent=np.array([order.index(up) if up >= 0 else -1 for up in parents], dtype=np.int64),
        kind=kind[order],
        dof=np.array([joints.index(d) if d >= 0 else -1 for d in dofs], dtype=np.int64),
        place=place[order],
        turn=turn[order],
        axis=axis[order],
        mass=tree.mass[order],
        centre=centre[order],
        inertia=inertia[order],
    )


def _feet(tree: Tree, shapes: Sequence[Shape], start: FloatArray) -> list[Sole]:
    """The links whose box is lowest, as far as their undersides are level."""
    places = posed(tree, start).place[:, 0]
    boxes: list[tuple[float, Sole]] = []
    for shape in shapes:
        if shape.solid and shape.kind == "box" and np.allclose(shape.turn, np.eye(3), atol=1e-6):
            half = np.array(shape.size) / 2
            link = tree.links.index(shape.link)
            low, high = shape.place - half, shape.place + half * (1.0, 1.0, -1.0)
            boxes.append((float(places[link, 2] + low[2]), Sole(link, low, high)))
    floor = min((height for height, _ in boxes), default=0.0)
    return [sole for height, sole in boxes if height < floor + _LEVEL]


def _newton_euler(
    tree: Tree, position: FloatArray, speed: FloatArray, acceleration: FloatArray, up: FloatArray
) -> _Links:
    """Forces and moments by which each link is held, in the base's frame; `up` is the base's acceleration, m/s²."""
    n, count = len(position), len(tree.links)
    place, axis, turn = np.zeros((count, n, 3)), np.zeros((count, n, 3)), np.zeros((count, n, 3, 3))
    spin, spun, pulled = np.zeros((count, n, 3)), np.zeros((count, n, 3)), np.zeros((count, n, 3))
    force, moment = np.zeros((count, n, 3)), np.zeros((count, n, 3))
    turn[0], pulled[0] = np.eye(3), up
    for link, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            dof = int(tree.dof[link])
            frame = turn[parent] @ tree.turn[link]
            arm = turn[parent] @ tree.place[link]
            axis[link] = frame @ tree.axis[link]
            spin[link], spun[link] = spin[parent], spun[parent]
            if dof >= 0:
                frame = frame @ about(tree.axis[link], position[:, dof])
                turning = axis[link] * speed[:, dof, None]
                spin[link] = spin[parent] + turning
                spun[link] = spun[parent] + axis[link] * acceleration[:, dof, None] + _cross(spin[parent], turning)
            turn[link], place[link] = frame, place[parent] + arm
            pulled[link] = pulled[parent] + _moved(spin[parent], spun[parent], arm)
        lever = turn[link] @ tree.centre[link]
        inertia = turn[link] @ tree.inertia[link] @ np.swapaxes(turn[link], -1, -2)
        force[link] = tree.mass[link] * (pulled[link] + _moved(spin[link], spun[link], lever))
        momentum = np.einsum("nij,nj->ni", inertia, spin[link])
        moment[link] = np.einsum("nij,nj->ni", inertia, spun[link]) + _cross(spin[link], momentum)
        moment[link] += _cross(lever, force[link])
    for link in range(count - 1, 0, -1):
        parent = int(tree.parent[link])
        force[parent] += force[link]
        moment[parent] += moment[link] + _cross(place[link] - place[parent], force[link])
    return _Links(place, turn, axis, force, moment)


def _moved(spin: FloatArray, spun: FloatArray, arm: FloatArray) -> FloatArray:
    """Acceleration of a point at the end of an arm beside that of its beginning."""
    return _cross(spun, arm) + _cross(spin, _cross(spin, arm))


def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Of rows; `np.cross` takes several times as long."""
    found: FloatArray = a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]
    return found


def joints_between(tree: Tree, link: int) -> Sequence[int]:
    """The joints from the base to a link."""
    found = []
    while link > 0:
        if tree.dof[link] >= 0:
            found.append(int(tree.dof[link]))
        link = int(tree.parent[link])
    return found
