"""Joint-space inertia and load of a tree of links, fixed or floating, as one kernel.

Spatial vectors (angular, linear) in world axes about the base link's origin: composite inertia for the mass matrix,
recursive Newton-Euler for the load (Featherstone 2008, chapters 5 and 6). PyBullet's own functions cost more here, and
`calculateInverseDynamics` does not work on a floating base.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from axbridge.plant.coupling import factor, solve
from axbridge.plant.jit import jit
from axbridge.plant.mechanics import FloatArray, IntArray

__all__ = ["base_motion", "joint_dynamics"]

_making_arrays = partial(jit, allocates=True)


@_making_arrays
def base_motion(
    quaternion: FloatArray, linear: FloatArray, angular: FloatArray, frame_place: FloatArray, frame_turn: FloatArray,
    turn: FloatArray, speed: FloatArray, lever: FloatArray,
) -> None:  # fmt: skip
    """From the motion of the base's centre of mass, as an engine gives it, to that of the base link's origin.

    Args:
        quaternion: Orientation of the principal axes (x, y, z, w).
        linear: Velocity of the centre of mass, m/s.
        angular: rad/s.
        frame_place: Centre of mass in the link frame, (3,), m.
        frame_turn: Principal axes in the link frame, (3, 3).
        turn: Result: rotation of the link, (3, 3).
        speed: Result: angular and linear velocity of the link's origin, (6,).
        lever: Result: from the link's origin to the centre of mass, world axes, (3,).
    """
    x, y, z, w = quaternion[0], quaternion[1], quaternion[2], quaternion[3]
    axes = np.empty((3, 3))
    axes[0, 0], axes[0, 1], axes[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)
    axes[1, 0], axes[1, 1], axes[1, 2] = 2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)
    axes[2, 0], axes[2, 1], axes[2, 2] = 2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)
    for i in range(3):
        for k in range(3):
            turn[i, k] = 0.0
            for j in range(3):
                turn[i, k] += axes[i, j] * frame_turn[k, j]
    for i in range(3):
        lever[i] = 0.0
        for k in range(3):
            lever[i] += turn[i, k] * frame_place[k]
        speed[i] = angular[i]
    speed[3] = linear[0] - angular[1] * lever[2] + angular[2] * lever[1]
    speed[4] = linear[1] - angular[2] * lever[0] + angular[0] * lever[2]
    speed[5] = linear[2] - angular[0] * lever[1] + angular[1] * lever[0]


@_making_arrays
def joint_dynamics(
    parent: IntArray, kind: IntArray, dof: IntArray, place: FloatArray, turn: FloatArray, axis: FloatArray,
    mass: FloatArray, centre: FloatArray, local_inertia: FloatArray, position: FloatArray, speed: FloatArray,
    base_turn: FloatArray, base_speed: FloatArray, gravity: FloatArray, fixed_base: bool,
    touching: IntArray, points: FloatArray, anchor: float, slow: float, step: float,
    inertia: FloatArray, load: FloatArray,
) -> int:  # fmt: skip
    """Fill `inertia` and `load` so that `inertia @ acceleration = torque - load`.

    On a floating base the base's own motion is eliminated: `inertia` is what the joints feel with the base free.
    A contact at rest counts as a heavy point that stays there: a leg on the ground carries and feels the whole robot.

    Args:
        parent: This and the next eight are those of `urdf.Tree`.
        kind: Of joint.
        dof: Index of the joint.
        place: Joint frame, position.
        turn: Joint frame, rotation.
        axis: Of the joint.
        mass: Of the link.
        centre: Of mass.
        local_inertia: About it.
        position: (n,), rad or m.
        speed: (n,), rad/s or m/s.
        base_turn: Rotation of the base link, (3, 3).
        base_speed: Angular and linear velocity of the base link's origin in world axes, (6,).
        gravity: (3,), m/s².
        fixed_base: Whether the base is bolted down.
        touching: Links that touch something that does not move, (contacts,).
        points: Where, from the base link's origin in world axes, (contacts, 3), m.
        anchor: A contact at rest counts as a weightless point of this mass, kg.
        slow: Contacts slower than this count as at rest, m/s.
        step: Time in which they stop, s.
        inertia: Result, (n, n).
        load: Result, (n,).

    Returns:
        How many contacts are at rest.
    """
    links = parent.shape[0]
    n = position.shape[0]
    rotation = np.empty((links, 3, 3))
    origin = np.zeros((links, 3))
    way = np.zeros((links, 6))  # S: direction of motion of each joint
    velocity = np.zeros((links, 6))
    acceleration = np.zeros((links, 6))
    force = np.zeros((links, 6))
    body = np.zeros((links, 10))  # mass, mass·centre, inertia about the origin (xx, yy, zz, xy, xz, yz)
    scratch = np.empty((3, 3))
    for link in range(links):
        up = parent[link]
        if up < 0:
            for i in range(3):
                for k in range(3):
                    rotation[link, i, k] = base_turn[i, k]
                acceleration[link, 3 + i] = -gravity[i]
            for i in range(6):
                velocity[link, i] = 0.0 if fixed_base else base_speed[i]
        else:
            _place_link(link, up, kind[link], dof[link], place, turn, axis, position, rotation, origin, way, scratch)
            rate = speed[dof[link]] if dof[link] >= 0 else 0.0
            for i in range(6):
                velocity[link, i] = velocity[up, i] + way[link, i] * rate
                acceleration[link, i] = acceleration[up, i]
            if dof[link] >= 0:
                _add_cross(velocity[link], way[link], rate, acceleration[link])
        _place_body(link, mass, centre, local_inertia, rotation, origin, body, scratch)
        _force(body[link], velocity[link], acceleration[link], force[link])
    anchored = _anchor(touching, points, anchor, slow, step, velocity, body, force)
    for link in range(links - 1, 0, -1):
        up = parent[link]
        for i in range(6):
            force[up, i] += force[link, i]
        for i in range(10):
            body[up, i] += body[link, i]
    base_column = np.empty((n, 6))
    push = np.empty(6)
    for link in range(1, links):
        j = dof[link]
        if j < 0:
            continue
        _momentum(body[link], way[link], push)
        load[j] = 0.0
        inertia[j, j] = 0.0
        for i in range(6):
            load[j] += way[link, i] * force[link, i]
            base_column[j, i] = push[i]
        above = link
        while above > 0:
            k = dof[above]
            if k >= 0:
                total = 0.0
                for i in range(6):
                    total += way[above, i] * push[i]
                inertia[j, k] = total
                inertia[k, j] = total
            above = parent[above]
        for other in range(1, link):  # joints on other branches do not couple
            k = dof[other]
            if k >= 0 and not _is_above(parent, other, link):
                inertia[j, k] = 0.0
                inertia[k, j] = 0.0
    if not fixed_base:
        _free_base(body[0], force[0], base_column, inertia, load)
    return anchored


@_making_arrays
def _anchor(
    touching: IntArray, points: FloatArray, anchor: float, slow: float, step: float, velocity: FloatArray,
    body: FloatArray, force: FloatArray,
) -> int:  # fmt: skip
    """Hold each link where it has contacts at rest."""
    mass = np.empty(10)
    momentum = np.empty(6)
    anchored = 0
    for contact in range(touching.shape[0]):
        link = touching[contact]
        x, y, z = points[contact, 0], points[contact, 1], points[contact, 2]
        v = velocity[link]
        v0, v1, v2 = v[3] + v[1] * z - v[2] * y, v[4] + v[2] * x - v[0] * z, v[5] + v[0] * y - v[1] * x
        if v0 * v0 + v1 * v1 + v2 * v2 > slow * slow:
            continue
        anchored += 1
        mass[0] = anchor
        mass[1], mass[2], mass[3] = anchor * x, anchor * y, anchor * z
        mass[4], mass[5], mass[6] = anchor * (y * y + z * z), anchor * (x * x + z * z), anchor * (x * x + y * y)
        mass[7], mass[8], mass[9] = -anchor * x * y, -anchor * x * z, -anchor * y * z
        _momentum(mass, velocity[link], momentum)
        for i in range(10):
            body[link, i] += mass[i]
        for i in range(6):
            force[link, i] += momentum[i] / step
    return anchored


@jit
def _is_above(parent: IntArray, high: int, low: int) -> bool:
    while low > high:
        low = parent[low]
    return low == high


@_making_arrays
def _free_base(
    body: FloatArray, force: FloatArray, base_column: FloatArray, inertia: FloatArray, load: FloatArray
) -> None:
    """Eliminate the base's six equations (Schur complement)."""
    n = load.shape[0]
    base = np.empty((6, 6))
    unit = np.zeros(6)
    column = np.empty(6)
    for i in range(6):
        unit[i] = 1.0
        _momentum(body, unit, column)
        unit[i] = 0.0
        for k in range(6):
            base[k, i] = column[k]
    lower = np.zeros((6, 6))
    factor(base, lower)
    response = np.empty((n, 6))
    for j in range(n):
        solve(lower, base_column[j], response[j])
    for j in range(n):
        for i in range(6):
            load[j] -= response[j, i] * force[i]
        for k in range(j + 1):
            total = inertia[j, k]
            for i in range(6):
                total -= response[j, i] * base_column[k, i]
            inertia[j, k] = total
            inertia[k, j] = total


@jit
def _place_link(
    link: int, up: int, kind: int, dof: int, place: FloatArray, turn: FloatArray, axis: FloatArray,
    position: FloatArray, rotation: FloatArray, origin: FloatArray, way: FloatArray, scratch: FloatArray,
) -> None:  # fmt: skip
    """Frame of a link and direction of its joint's motion, from the parent's frame."""
    for i in range(3):
        total = origin[up, i]
        for k in range(3):
            total += rotation[up, i, k] * place[link, k]
        origin[link, i] = total
        for k in range(3):
            scratch[i, k] = 0.0
            for m in range(3):
                scratch[i, k] += rotation[up, i, m] * turn[link, m, k]
    for i in range(3):
        for k in range(3):
            rotation[link, i, k] = scratch[i, k]
    if kind == 0:
        return
    x, y, z = axis[link, 0], axis[link, 1], axis[link, 2]
    a0 = scratch[0, 0] * x + scratch[0, 1] * y + scratch[0, 2] * z
    a1 = scratch[1, 0] * x + scratch[1, 1] * y + scratch[1, 2] * z
    a2 = scratch[2, 0] * x + scratch[2, 1] * y + scratch[2, 2] * z
    q = position[dof]
    if kind == 2:
        origin[link, 0] += a0 * q
        origin[link, 1] += a1 * q
        origin[link, 2] += a2 * q
        way[link, 3], way[link, 4], way[link, 5] = a0, a1, a2
        return
    p0, p1, p2 = origin[link, 0], origin[link, 1], origin[link, 2]
    way[link, 0], way[link, 1], way[link, 2] = a0, a1, a2
    way[link, 3] = p1 * a2 - p2 * a1
    way[link, 4] = p2 * a0 - p0 * a2
    way[link, 5] = p0 * a1 - p1 * a0
    c, s = math.cos(q), math.sin(q)
    for k in range(3):  # turn each column about the axis (Rodrigues)
        v0, v1, v2 = scratch[0, k], scratch[1, k], scratch[2, k]
        along = (a0 * v0 + a1 * v1 + a2 * v2) * (1.0 - c)
        rotation[link, 0, k] = v0 * c + (a1 * v2 - a2 * v1) * s + a0 * along
        rotation[link, 1, k] = v1 * c + (a2 * v0 - a0 * v2) * s + a1 * along
        rotation[link, 2, k] = v2 * c + (a0 * v1 - a1 * v0) * s + a2 * along


@jit
def _place_body(
    link: int, mass: FloatArray, centre: FloatArray, local_inertia: FloatArray, rotation: FloatArray,
    origin: FloatArray, body: FloatArray, scratch: FloatArray,
) -> None:  # fmt: skip
    """Spatial inertia of a link about the reference point."""
    m = mass[link]
    c0, c1, c2 = origin[link, 0], origin[link, 1], origin[link, 2]
    for k in range(3):
        c0 += rotation[link, 0, k] * centre[link, k]
        c1 += rotation[link, 1, k] * centre[link, k]
        c2 += rotation[link, 2, k] * centre[link, k]
    for i in range(3):
        for k in range(3):
            scratch[i, k] = 0.0
            for j in range(3):
                scratch[i, k] += rotation[link, i, j] * local_inertia[link, j, k]
    body[link, 0] = m
    body[link, 1], body[link, 2], body[link, 3] = m * c0, m * c1, m * c2
    body[link, 4] = _dot(scratch, rotation, link, 0, 0) + m * (c1 * c1 + c2 * c2)
    body[link, 5] = _dot(scratch, rotation, link, 1, 1) + m * (c0 * c0 + c2 * c2)
    body[link, 6] = _dot(scratch, rotation, link, 2, 2) + m * (c0 * c0 + c1 * c1)
    body[link, 7] = _dot(scratch, rotation, link, 0, 1) - m * c0 * c1
    body[link, 8] = _dot(scratch, rotation, link, 0, 2) - m * c0 * c2
    body[link, 9] = _dot(scratch, rotation, link, 1, 2) - m * c1 * c2


@jit
def _dot(scratch: FloatArray, rotation: FloatArray, link: int, i: int, k: int) -> float:
    total: float = scratch[i, 0] * rotation[link, k, 0]
    total += scratch[i, 1] * rotation[link, k, 1]
    total += scratch[i, 2] * rotation[link, k, 2]
    return total


@jit
def _momentum(body: FloatArray, v: FloatArray, result: FloatArray) -> None:
    """Spatial inertia times spatial velocity."""
    m, h0, h1, h2 = body[0], body[1], body[2], body[3]
    result[0] = body[4] * v[0] + body[7] * v[1] + body[8] * v[2] + h1 * v[5] - h2 * v[4]
    result[1] = body[7] * v[0] + body[5] * v[1] + body[9] * v[2] + h2 * v[3] - h0 * v[5]
    result[2] = body[8] * v[0] + body[9] * v[1] + body[6] * v[2] + h0 * v[4] - h1 * v[3]
    result[3] = m * v[3] + v[1] * h2 - v[2] * h1
    result[4] = m * v[4] + v[2] * h0 - v[0] * h2
    result[5] = m * v[5] + v[0] * h1 - v[1] * h0


@jit
def _add_cross(v: FloatArray, s: FloatArray, rate: float, result: FloatArray) -> None:
    """Add the velocity-dependent acceleration v × S·rate (spatial cross product of motions)."""
    result[0] += rate * (v[1] * s[2] - v[2] * s[1])
    result[1] += rate * (v[2] * s[0] - v[0] * s[2])
    result[2] += rate * (v[0] * s[1] - v[1] * s[0])
    result[3] += rate * (v[1] * s[5] - v[2] * s[4] + v[4] * s[2] - v[5] * s[1])
    result[4] += rate * (v[2] * s[3] - v[0] * s[5] + v[5] * s[0] - v[3] * s[2])
    result[5] += rate * (v[0] * s[4] - v[1] * s[3] + v[3] * s[1] - v[4] * s[0])


@_making_arrays
def _force(body: FloatArray, v: FloatArray, a: FloatArray, result: FloatArray) -> None:
    """Newton-Euler: I·a + v ×* I·v."""
    momentum = np.empty(6)
    _momentum(body, v, momentum)
    _momentum(body, a, result)
    n0, n1, n2, f0, f1, f2 = momentum[0], momentum[1], momentum[2], momentum[3], momentum[4], momentum[5]
    result[0] += v[1] * n2 - v[2] * n1 + v[4] * f2 - v[5] * f1
    result[1] += v[2] * n0 - v[0] * n2 + v[5] * f0 - v[3] * f2
    result[2] += v[0] * n1 - v[1] * n0 + v[3] * f1 - v[4] * f0
    result[3] += v[1] * f2 - v[2] * f1
    result[4] += v[2] * f0 - v[0] * f2
    result[5] += v[0] * f1 - v[1] * f0
