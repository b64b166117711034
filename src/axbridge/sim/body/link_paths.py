"""Ways through the links of a robot: to its base, and from another base."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from axbridge.config.urdf import FIXED, Tree


def way_to_base(tree: Tree, link: int) -> list[int]:
    """The links from one to the base, both among them."""
    way = [link]
    while tree.parent[way[-1]] >= 0:
        way.append(int(tree.parent[way[-1]]))
    return way


def rooted_at(tree: Tree, link: int) -> Tree:
    """The same robot with another link as its base; joints keep their names and the sense of their angles.

    A link on the way from the new base to the old one gets the frame of the joint by which it now hangs.
    """
    way = way_to_base(tree, link)
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
    kind[link], old[link] = FIXED, -1
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
