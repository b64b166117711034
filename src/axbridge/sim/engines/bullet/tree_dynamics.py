"""Joint-space inertia and load of a tree of links, fixed or floating, with its contacts, as one kernel.

Bullet's prediction needs the equation `M q̈ = τ - c` of n joints once in each physics step. Spatial vectors (angular,
linear) are in world axes about the base link's origin (Featherstone 2008, chapters 5 and 6). S_k is the motion of joint
k, I_i the inertia of link i, v_i and a_i its velocity and acceleration, × and ×* the cross products of motions and
forces.

1. Outwards, every parent before its children: the position of link i, S_i, and with all q̈ = 0 and gravity as an
   acceleration of the base

       v_i = v_up + S_i·q̇_i,    a_i = a_up + v_i × S_i·q̇_i,    f_i = I_i a_i + v_i ×* I_i v_i .

2. Inwards, children first: f_up += f_i, and I_up += I_i to inertias of whole branches. About one common point in common
   axes both are simple sums; in its own axes, each link would need a transformation.
3. Then c_k = S_k·f_k. With the force F = I_k S_k of a branch that moves with joint k, M_jk = S_j·F for each joint j
   between k and the base. B_k = F also couples joint k with the base.
4. A contact that holds its link along an axis is a point mass there (mass m, wrench w of a unit force). It adds
   m·(w·S_j)(w·S_k) to M, m·w wᵀ to the base's inertia, m·(w·S_k)·w to B_k, and a force that stops the point within the
   step. A contact that slips adds only its force. This comes before step 5, because it acts on base and joints.
5. For a floating base, the six equations I_0 a + Bᵀ q̈ = -f_0 are solved for a and inserted: M -= B I_0⁻¹ Bᵀ and
   c -= B I_0⁻¹ f_0.

Measured on a Bioloid: 6.2 µs, with eight contacts 8.2 µs. MuJoCo takes 5.0 µs for steps 1 to 3 (five calls, and the
dense matrix), 4.1 µs for the Jacobians of eight contacts, and has no step 4 and 5. PyBullet's own functions cost more,
and `calculateInverseDynamics` does not work on a floating base.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray, IntArray
from axbridge.jit import jit
from axbridge.sim.engines.bullet.ahead import invert

BASE = 13  # length of `Base.motion`
CONTACT = 4 + 3 * 5  # columns of `Contacts.points`
_FULL = 0.99  # share of the friction limit from which a contact slips

_making_arrays = partial(jit, allocates=True)


class Links(NamedTuple):
    """The arrays of `axbridge.config.urdf.Tree` with its names; `dof` is -1 for joints that are left out."""

    parent: IntArray
    kind: IntArray
    dof: IntArray
    place: FloatArray
    turn: FloatArray
    axis: FloatArray
    mass: FloatArray
    centre: FloatArray
    inertia: FloatArray


class Base(NamedTuple):
    """Motion and frame of the base link."""

    # of the base's centre of mass, (BASE,): position, m; orientation of the principal axes (x, y, z, w); velocity, m/s;
    # angular velocity, rad/s
    motion: FloatArray
    place: FloatArray  # centre of mass in the base link's frame, (3,), m
    turn: FloatArray  # principal axes in the base link's frame, (3, 3)
    gravity: FloatArray  # (3,), m/s²
    fixed: bool  # whether the base is bolted down


class Contacts(NamedTuple):
    """Contacts of the links with bodies at rest."""

    # (contacts, CONTACT): link, and the point of contact in the world, m; then for three axes, the surface's normal and
    # two tangents: direction (3), force on the link, N, and the limit of this force, N
    points: FloatArray
    anchor: float  # mass of the point for a contact that holds, without weight, kg
    slow: float  # a contact point that is faster than this does not hold, m/s
    step: float  # time in which a contact that holds stops its point, s


@_making_arrays
def joint_dynamics(
    chain: Links, root: Base, touching: Contacts, position: FloatArray, speed: FloatArray, inertia: FloatArray,
    load: FloatArray,
) -> int:  # fmt: skip
    """Fill `inertia` and `load` so that `inertia @ acceleration = torque - load`; return how many contacts hold.

    The motion of a floating base is eliminated: `inertia` is that of the joints with a free base. A contact is a point
    mass along each axis that it holds. So the inertia and load of a standing leg include the whole robot. Along an axis
    on which it slips, it is a force.
    """
    links, base, contacts = Links(*chain), Base(*root), Contacts(*touching)
    count, dof = links.parent.shape[0], links.dof
    n = position.shape[0]
    rotation = np.empty((count, 3, 3))
    origin = np.zeros((count, 3))
    screw = np.zeros((count, 6))  # S: direction of motion of each joint
    velocity = np.zeros((count, 6))
    acceleration = np.zeros((count, 6))
    force = np.zeros((count, 6))
    body = np.zeros((count, 10))  # mass, mass·centre, inertia about the origin (xx, yy, zz, xy, xz, yz)
    scratch = np.empty((3, 3))
    reference = np.empty(3)  # origin of the base link in the world
    _base_motion(base.motion, base.place, base.turn, rotation[0], velocity[0], reference)
    for link in range(count):
        up = links.parent[link]
        if up < 0:
            for i in range(3):
                acceleration[link, 3 + i] = -base.gravity[i]
        else:
            _place_link(link, links, position, rotation, origin, screw, scratch)
            rate = speed[dof[link]] if dof[link] >= 0 else 0.0
            for i in range(6):
                velocity[link, i] = velocity[up, i] + screw[link, i] * rate
                acceleration[link, i] = acceleration[up, i]
            if dof[link] >= 0:
                _add_cross(velocity[link], screw[link], rate, acceleration[link])
        _place_body(link, links, rotation, origin, body, scratch)
        _force(body[link], velocity[link], acceleration[link], force[link])
    for link in range(count - 1, 0, -1):
        up = links.parent[link]
        for i in range(6):
            force[up, i] += force[link, i]
        for i in range(10):
            body[up, i] += body[link, i]
    base_column = np.empty((n, 6))
    push = np.empty(6)
    inertia[:] = 0.0  # joints on different branches do not couple
    for link in range(1, count):
        j = dof[link]
        if j < 0:
            continue
        _momentum(body[link], screw[link], push)
        load[j] = 0.0
        for i in range(6):
            load[j] += screw[link, i] * force[link, i]
            base_column[j, i] = push[i]
        above = link
        while above > 0:
            k = dof[above]
            if k >= 0:
                total = 0.0
                for i in range(6):
                    total += screw[above, i] * push[i]
                inertia[j, k] = total
                inertia[k, j] = total
            above = links.parent[above]
    root_inertia = np.empty((6, 6))
    _spread(body[0], root_inertia)
    held = _hold(contacts, links, reference, (screw, velocity), root_inertia, force[0], base_column, inertia, load)
    if not base.fixed:
        _free_base(root_inertia, force[0], base_column, inertia, load)
    return held


@_making_arrays
def _base_motion(
    base: FloatArray, frame_place: FloatArray, frame_turn: FloatArray, turn: FloatArray, speed: FloatArray,
    origin: FloatArray,
) -> None:  # fmt: skip
    """Compute the base link's rotation, speed (angular, linear) and origin from its centre of mass's motion."""
    x, y, z, w = base[3], base[4], base[5], base[6]
    a, b, c = base[10], base[11], base[12]
    axes = np.empty((3, 3))
    axes[0, 0], axes[0, 1], axes[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)
    axes[1, 0], axes[1, 1], axes[1, 2] = 2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)
    axes[2, 0], axes[2, 1], axes[2, 2] = 2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)
    lever = np.zeros(3)  # from the origin to the centre of mass
    for i in range(3):
        for k in range(3):
            turn[i, k] = 0.0
            for j in range(3):
                turn[i, k] += axes[i, j] * frame_turn[k, j]
            lever[i] += turn[i, k] * frame_place[k]
        origin[i] = base[i] - lever[i]
    speed[0], speed[1], speed[2] = a, b, c
    speed[3] = base[7] - b * lever[2] + c * lever[1]
    speed[4] = base[8] - c * lever[0] + a * lever[2]
    speed[5] = base[9] - a * lever[1] + b * lever[0]


@_making_arrays
def _hold(
    contacts: Contacts, links: Links, reference: FloatArray, motion: tuple[FloatArray, FloatArray], base: FloatArray,
    force: FloatArray, base_column: FloatArray, inertia: FloatArray, load: FloatArray,
) -> int:  # fmt: skip
    """Add the contacts to inertias and loads (step 4); return how many of them hold."""
    screw, velocity = motion
    points, anchor, slow, step = contacts
    wrench = np.empty(6)  # of a unit force along an axis, about the origin; its product with a motion: contact's speed
    lever = np.zeros(load.shape[0])  # speed of the contact per speed of each joint
    held = 0
    for contact in range(points.shape[0]):
        link = int(points[contact, 0])
        x, y, z = (
            points[contact, 1] - reference[0],
            points[contact, 2] - reference[1],
            points[contact, 3] - reference[2],
        )
        for axis in range(3):
            first = 4 + 5 * axis
            a, b, c = points[contact, first], points[contact, first + 1], points[contact, first + 2]
            applied, limit = points[contact, first + 3], points[contact, first + 4]
            wrench[0], wrench[1], wrench[2] = y * c - z * b, z * a - x * c, x * b - y * a
            wrench[3], wrench[4], wrench[5] = a, b, c
            rate = 0.0
            for i in range(6):
                rate += wrench[i] * velocity[link, i]
            holds = abs(rate) < slow and abs(applied) < _FULL * limit
            if axis == 0:
                if not holds:
                    break
                held += 1
            mass = anchor if holds else 0.0
            push = anchor * rate / step if holds else -applied
            for i in range(6):
                force[i] += push * wrench[i]
                for k in range(6):
                    base[i, k] += mass * wrench[i] * wrench[k]
            on = link
            while on > 0:
                j = links.dof[on]
                if j >= 0:
                    lever[j] = 0.0
                    for i in range(6):
                        lever[j] += screw[on, i] * wrench[i]
                    load[j] += push * lever[j]
                    for i in range(6):
                        base_column[j, i] += mass * lever[j] * wrench[i]
                    below = link
                    while below != on:
                        k = links.dof[below]
                        if k >= 0:
                            inertia[j, k] += mass * lever[j] * lever[k]
                            inertia[k, j] = inertia[j, k]
                        below = links.parent[below]
                    inertia[j, j] += mass * lever[j] * lever[j]
                on = links.parent[on]
    return held


@_making_arrays
def _spread(body: FloatArray, matrix: FloatArray) -> None:
    """Convert a spatial inertia, (10,), to a matrix, (6, 6)."""
    unit = np.zeros(6)
    column = np.empty(6)
    for i in range(6):
        unit[i] = 1.0
        _momentum(body, unit, column)
        unit[i] = 0.0
        for k in range(6):
            matrix[k, i] = column[k]


@_making_arrays
def _free_base(
    base: FloatArray, force: FloatArray, base_column: FloatArray, inertia: FloatArray, load: FloatArray
) -> None:
    """Eliminate the base's six equations (Schur complement)."""
    n = load.shape[0]
    inverse = np.empty((6, 6))
    invert(base, inverse)
    response = np.zeros((n, 6))
    for j in range(n):
        for i in range(6):
            for k in range(6):
                response[j, k] += base_column[j, i] * inverse[i, k]
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
    link: int, links: Links, position: FloatArray, rotation: FloatArray, origin: FloatArray, screw: FloatArray,
    scratch: FloatArray,
) -> None:  # fmt: skip
    """Compute a link's frame and the direction of its joint's motion from the parent's frame."""
    up, kind, place, turn, axis = links.parent[link], links.kind[link], links.place, links.turn, links.axis
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
    q = position[links.dof[link]]
    if kind == 2:
        origin[link, 0] += a0 * q
        origin[link, 1] += a1 * q
        origin[link, 2] += a2 * q
        screw[link, 3], screw[link, 4], screw[link, 5] = a0, a1, a2
        return
    p0, p1, p2 = origin[link, 0], origin[link, 1], origin[link, 2]
    screw[link, 0], screw[link, 1], screw[link, 2] = a0, a1, a2
    screw[link, 3] = p1 * a2 - p2 * a1
    screw[link, 4] = p2 * a0 - p0 * a2
    screw[link, 5] = p0 * a1 - p1 * a0
    c, s = math.cos(q), math.sin(q)
    for k in range(3):  # turn each column about the axis (Rodrigues)
        v0, v1, v2 = scratch[0, k], scratch[1, k], scratch[2, k]
        along = (a0 * v0 + a1 * v1 + a2 * v2) * (1.0 - c)
        rotation[link, 0, k] = v0 * c + (a1 * v2 - a2 * v1) * s + a0 * along
        rotation[link, 1, k] = v1 * c + (a2 * v0 - a0 * v2) * s + a1 * along
        rotation[link, 2, k] = v2 * c + (a0 * v1 - a1 * v0) * s + a2 * along


@jit
def _place_body(
    link: int, links: Links, rotation: FloatArray, origin: FloatArray, body: FloatArray, scratch: FloatArray
) -> None:  # fmt: skip
    """Compute the spatial inertia of a link about the reference point."""
    m, centre = links.mass[link], links.centre
    c0, c1, c2 = origin[link, 0], origin[link, 1], origin[link, 2]
    for k in range(3):
        c0 += rotation[link, 0, k] * centre[link, k]
        c1 += rotation[link, 1, k] * centre[link, k]
        c2 += rotation[link, 2, k] * centre[link, k]
    for i in range(3):
        for k in range(3):
            scratch[i, k] = 0.0
            for j in range(3):
                scratch[i, k] += rotation[link, i, j] * links.inertia[link, j, k]
    body[link, 0] = m
    body[link, 1], body[link, 2], body[link, 3] = m * c0, m * c1, m * c2
    body[link, 4] = _dot(scratch[0], rotation[link, 0]) + m * (c1 * c1 + c2 * c2)
    body[link, 5] = _dot(scratch[1], rotation[link, 1]) + m * (c0 * c0 + c2 * c2)
    body[link, 6] = _dot(scratch[2], rotation[link, 2]) + m * (c0 * c0 + c1 * c1)
    body[link, 7] = _dot(scratch[0], rotation[link, 1]) - m * c0 * c1
    body[link, 8] = _dot(scratch[0], rotation[link, 2]) - m * c0 * c2
    body[link, 9] = _dot(scratch[1], rotation[link, 2]) - m * c1 * c2


@jit
def _dot(a: FloatArray, b: FloatArray) -> float:
    total: float = a[0] * b[0]
    total += a[1] * b[1]
    total += a[2] * b[2]
    return total


@jit
def _momentum(body: FloatArray, v: FloatArray, result: FloatArray) -> None:
    """Compute spatial inertia times spatial velocity."""
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
    """Compute the force of the Newton-Euler equation: I·a + v ×* I·v."""
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
