"""What the floor's push on two feet changes of what a motion takes: the joints of the legs carry it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.urdf import Tree
from axbridge.sim.body.inverse_dynamics import Wrenches, cross


class Carrier(NamedTuple):
    """A leg that may stand.

    Attributes:
        joints: Columns of its joints, the whole way from the base to the foot.
        held: Where the zero-moment point is while it stands alone, m, (n, 2) or (1, 2), on the floor.
    """

    joints: list[int]
    held: FloatArray


class Carried(NamedTuple):
    """What a robot on the floor has to give.

    Attributes:
        torque: N·m, (n, joints).
        zmp: The zero-moment point, m, (n, 2).
    """

    torque: FloatArray
    zmp: FloatArray


def carried(
    tree: Tree, taken: Wrenches, place: FloatArray, legs: tuple[Carrier, Carrier], floor: float = 0.0
) -> Carried:
    """Let a robot stand on the floor, on one leg or two.

    All that moves takes a push of the floor. The legs share it by where the zero-moment point is between them.
    """
    force, moment = taken.force, taken.moment + cross(place, taken.force)  # of the floor, about the world's origin
    zmp = np.column_stack((floor * force[:, 0] - moment[:, 1], floor * force[:, 1] + moment[:, 0]))
    zmp /= np.maximum(force[:, 2:], 1e-3)
    height = np.full(len(force), floor)
    twist = moment - cross(np.column_stack((zmp, height)), force)
    one, other = legs
    apart = one.held - other.held
    squared = np.maximum(np.sum(apart**2, axis=1), 1e-12)  # both may be held in the middle
    share = np.clip(np.sum((zmp - other.held) * apart, axis=1) / squared, 0.0, 1.0)[:, None]
    beside = zmp - other.held - share * apart
    torque = taken.torque.copy()
    links = tree.dof.tolist()
    for leg, part in ((one, share), (other, 1 - share)):
        under = np.column_stack((leg.held + beside, height))
        for column in leg.joints:
            link = links.index(column)
            pushed = cross(under - taken.where.place[link], part * force) + part * twist
            torque[:, column] -= np.sum(taken.where.axis[link] * pushed, axis=1)
    return Carried(torque, zmp)
