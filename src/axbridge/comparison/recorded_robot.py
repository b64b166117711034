"""The robot that a recording was made with, from the recording itself."""

from __future__ import annotations

from dataclasses import dataclass

from axbridge.config.rig import Rig
from axbridge.config.urdf import Shape, Tree
from axbridge.recording.provenance import rig_of
from axbridge.recording.recording import Recording
from axbridge.sim.body.poses import posed
from axbridge.sim.body.soles import Sole, soles_of


@dataclass(frozen=True)
class Standing:
    """A robot on two feet, as a recording knows it.

    Attributes:
        rig: Its rig.
        tree: Its links; the first is its base.
        shapes: What they look like.
        soles: Of its two feet, the left one first.
    """

    rig: Rig
    tree: Tree
    shapes: tuple[Shape, ...]
    soles: tuple[Sole, Sole]


def standing_robot(recording: Recording) -> Standing | None:
    """The robot of a recording; None where it does not say, or the robot does not stand free on two feet."""
    known = [isinstance(recording.metadata.get(key), kind) for key, kind in (("rig", dict), ("urdf", str))]
    return on_two_feet(rig_of(recording)) if all(known) else None


def on_two_feet(rig: Rig) -> Standing | None:
    """The robot of a rig; None where it does not stand free on two feet."""
    if rig.world is None or rig.world.fixed_base:
        return None
    tree = rig.tree()
    found = soles_of(rig, tree)
    if len(found) != 2:
        return None
    places = posed(tree, tree.pose(rig.start)[None]).place[:, 0]
    one, other = sorted(found, key=lambda sole: -float(places[sole.link, 1]))  # the left one first
    return Standing(rig, tree, rig.shapes("visual"), (one, other))
