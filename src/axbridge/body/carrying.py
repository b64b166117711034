"""What the joints of a walking robot have to give: for its links' motion, and for the floor's push on its feet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.body.inverse_dynamics import BaseMotion, cross, wrenches
from axbridge.config.urdf import Tree

__all__ = ["Carrier", "carried"]


class Carrier(NamedTuple):
    """A leg that may stand.

    Attributes:
        joints: Columns of its joints, the whole way from the base to the foot.
        held: Where the zero-moment point is while it stands alone, m, (n, 2), on the floor.
    """

    joints: list[int]
    held: FloatArray


def carried(
    tree: Tree,
    joints: tuple[FloatArray, FloatArray, FloatArray],
    base: BaseMotion,
    legs: tuple[Carrier, Carrier],
    gravity: float,
) -> FloatArray:
    """Torques of a robot that stands on the floor, z = 0, on one leg or two; N·m, (n, joints).

    All that moves takes a push of the floor. The legs share it by where the zero-moment point is between them.

    Args:
        tree: The robot.
        joints: Angles, rad, speeds, rad/s, and accelerations, rad/s², (n, joints) each.
        base: How its base moves above the floor.
        legs: The two.
        gravity: m/s².
    """
    taken = wrenches(tree, *joints, np.array((0.0, 0.0, -gravity)), base)
    force = taken.force  # of the floor
    moment = taken.moment + cross(base.place, force)  # about the world's origin
    floor = np.zeros(len(force))
    zmp = np.column_stack((-moment[:, 1], moment[:, 0])) / force[:, 2:]
    twist = moment - cross(np.column_stack((zmp, floor)), force)
    one, other = legs
    apart = one.held - other.held
    squared = np.maximum(np.sum(apart**2, axis=1), 1e-12)  # both may be held in the middle
    share = np.clip(np.sum((zmp - other.held) * apart, axis=1) / squared, 0.0, 1.0)[:, None]
    beside = zmp - other.held - share * apart
    torque = taken.torque
    links = tree.dof.tolist()
    for leg, part in ((one, share), (other, 1 - share)):
        under = np.column_stack((leg.held + beside, floor))
        for column in leg.joints:
            link = links.index(column)
            pushed = cross(under - taken.where.place[link], part * force) + part * twist
            torque[:, column] -= np.sum(taken.where.axis[link] * pushed, axis=1)
    return torque
