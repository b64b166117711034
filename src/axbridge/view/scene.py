"""What is seen of a robot: floor, body, ghost, centre of mass, and colours that say how it fares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from axbridge.config.rig import Rig
from axbridge.config.urdf import Shape, Tree
from axbridge.rotations import LinkPose, matrix
from axbridge.sim.body.soles import Contact
from axbridge.view.body import RobotDrawing, centre_of_mass
from axbridge.view.snapshot import Picture

if TYPE_CHECKING:
    import viser


COLOURS = ("parts", "load", "temperature")
_COOL, _HOT = 35.0, 70.0  # °C: colours go from the one to the other; 70 is where an AX-12 switches itself off
_FAR = math.radians(10)  # off its ghost or goal that is red
_CONTACTS = 16  # that are marked, the strongest
_NOWHERE = (0.0, 0.0, -1000.0)  # m: marks that are not needed
_PUSH = 0.5  # of the robot's size: how long the line of its whole weight is
_TOUCH = (225, 90, 20)
_GHOST = (0.25, 0.55, 1.0)


class RobotScene:
    """Floor and robot.

    Args:
        server: The page's.
        rig: The robot.
        tree: Its links; None for a rig without a URDF: then there is nothing to see.
        shapes: What the links look like.
        ghost: Whether a second, translucent body shows the simulation.
    """

    def __init__(
        self, server: viser.ViserServer, rig: Rig, tree: Tree | None, shapes: tuple[Shape, ...], *, ghost: bool
    ) -> None:
        self._server, self._tree = server, tree
        self._joints = {servo.name: servo.joint for servo in rig.servos}
        self.colour = COLOURS[0]
        self._off = "residual" if ghost else "tracking error"
        self.show_mass = False
        self.show_contacts = True
        self._start: LinkPose = (0.0, 0.0, 0.0 if rig.world is None else rig.world.base_height), (0.0, 0.0, 0.0, 1.0)
        self._body = self._ghost = None
        height = self._start[0][2]
        reach = 0.0 if tree is None else _reach(tree)
        size = max(height, reach, 0.1) if tree is not None else 0.3
        # below a robot that is bolted down it is out of the way
        floor = 0.0 if rig.world is not None and rig.world.ground else -1.1 * reach
        server.scene.add_grid(
            "/floor", 20 * size, 20 * size, cell_size=_round(size / 5), section_size=5 * _round(size / 5),
            cell_color=(180, 184, 192), section_color=(135, 141, 151), position=(0.0, 0.0, floor), shadow_opacity=0.25,
            fade_distance=12 * size, infinite_grid=True,
        )  # fmt: skip
        server.scene.configure_default_lights(cast_shadow=True)
        look = np.array(self._start[0]) + np.array([0.0, 0.0, -0.15 * size])
        server.initial_camera.look_at = look
        server.initial_camera.position = look + size * np.array([1.6, 0.85, 0.5])
        server.initial_camera.up = (0.0, 0.0, 1.0)
        server.initial_camera.near = 0.01
        if tree is None:
            return
        self._body = RobotDrawing(server, tree, shapes, self._joints, "/robot")
        self._body.move({}, self._start)
        if ghost:
            self._ghost = RobotDrawing(server, tree, shapes, self._joints, "/ghost", _GHOST)
            self._ghost.move({}, self._start)
        self._mass = server.scene.add_icosphere(
            "/robot/mass", radius=0.04 * size, color=(240, 170, 20), visible=False, opacity=0.9
        )
        self._weight = 9.81 * float(tree.mass.sum())
        self._push = _PUSH * size
        nowhere = np.full((_CONTACTS, 2, 3), _NOWHERE)
        self._pushes = server.scene.add_line_segments(
            "/contacts/pushes", nowhere, colors=_TOUCH, thickness=3.0, thickness_units="screen"
        )
        self._touched = server.scene.add_point_cloud(
            "/contacts/points", nowhere[:, 0], colors=_TOUCH, point_size=0.012 * size, point_shape="circle"
        )
        self._marked = 0  # contacts that are drawn
        self._plumb = server.scene.add_frame("/mass_below", show_axes=False, visible=False)
        server.scene.add_cylinder("/mass_below/mark", radius=0.05 * size, height=0.004 * size, color=(240, 170, 20))

    def add_choices(self) -> None:
        """Let people choose on the page what is shown."""
        gui = self._server.gui
        colour = gui.add_dropdown("colour by", (*COLOURS, self._off), initial_value=COLOURS[0])
        colour.on_update(lambda event: setattr(self, "colour", event.target.value))
        mass = gui.add_checkbox("centre of mass", initial_value=False)
        mass.on_update(lambda event: setattr(self, "show_mass", event.target.value))

    def show(self, picture: Picture) -> None:
        """Draw the robot as it is in a picture."""
        if self._body is None or self._tree is None:
            return
        positions = {name: state.position for name, state in picture.states.items()}
        self._body.move(positions, picture.base)
        self._body.tint(self._shares(picture))
        if self._ghost is not None:
            self._ghost.move(picture.ghost, picture.base)
            self._ghost.show_apart(picture.ghost, positions)
        self._mark(picture.contacts if self.show_contacts else ())
        if self._mass.visible != self.show_mass:
            self._mass.visible = self._plumb.visible = self.show_mass
        if self.show_mass:
            angles = {self._joints[name]: at for name, at in positions.items() if math.isfinite(at)}
            centre = centre_of_mass(self._tree, angles)
            self._mass.position = centre
            place, orientation = picture.base or self._start
            below = place + matrix(orientation) @ centre
            self._plumb.position = (below[0], below[1], 0.001)

    def _mark(self, contacts: tuple[Contact, ...]) -> None:
        """Mark where it touches the floor: a point, and a line as long as the push, a robot's weight being `_PUSH`."""
        strongest = sorted(contacts, key=lambda one: -float(np.linalg.norm(one.force)))[:_CONTACTS]
        if not strongest and not self._marked:
            return
        self._marked = len(strongest)
        ends = np.full((_CONTACTS, 2, 3), _NOWHERE)
        for row, one in zip(ends, strongest, strict=False):
            row[0] = one.point
            row[1] = row[0] + np.array(one.force) * self._push / self._weight
        self._pushes.points = ends
        self._touched.points = ends[:, 0]

    def _shares(self, picture: Picture) -> Mapping[str, float]:
        if self.colour == "load":
            return {name: abs(state.load) for name, state in picture.states.items()}
        if self.colour == "temperature":
            return {name: (state.temperature - _COOL) / (_HOT - _COOL) for name, state in picture.states.items()}
        if self.colour == self._off:
            against = picture.goals if self._ghost is None else picture.ghost
            return {
                name: abs(state.position - against.get(name, math.nan)) / _FAR for name, state in picture.states.items()
            }
        return {}


def _reach(tree: Tree) -> float:
    """Longest way from the base to the end of a chain of links, m."""
    far = np.zeros(len(tree.links))
    for link, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            far[link] = far[parent] + np.linalg.norm(tree.place[link])
    return float(np.max(far + 1.5 * np.linalg.norm(tree.centre, axis=1)))


def _round(size: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(size))
    return min((power, 2 * power, 5 * power, 10 * power), key=lambda step: abs(step - size))
