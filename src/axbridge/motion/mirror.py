"""Find mirrored joints: left and right by name, the sign of the angle by the axes in the URDF."""

from __future__ import annotations

import numpy as np

from axbridge.config.rig import Rig
from axbridge.errors import RigError
from axbridge.motion.moves import Signs
from axbridge.sim.body.kinematics import posed

_SIDES = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"), ("l_", "r_"), ("L_", "R_"))
_MIRROR = np.array([1.0, -1.0, 1.0])  # the robot's left is +y


def signs(rig: Rig) -> Signs:
    """Return partner and sign of each servo of a rig, for `Move.mirrored`; raise RigError for asymmetrical axes.

    The mirror image (y becomes -y) of a turn by θ about an axis a is a turn by -θ about the mirrored axis. A servo
    without a partner by name is its own partner: a head's pan changes its sign, its tilt does not.
    """
    tree = rig.tree(fixed_base=True)
    at_zero = posed(tree, np.zeros((1, len(tree.joints)))).axis[:, 0]  # in the base's frame
    axes = {name: at_zero[link] for name, link in tree.moved.items()}
    names = {servo.name: servo.joint for servo in rig.servos}
    partners: dict[str, tuple[str, float]] = {}
    for name, joint in names.items():
        swapped = (name.replace(here, there, 1) for pair in _SIDES for here, there in (pair, pair[::-1]))
        partner = next((other for other in swapped if other != name and other in names), name)
        turned = float(-(_MIRROR * axes[joint]) @ axes[names[partner]])
        if abs(abs(turned) - 1) > 0.02:
            why = f"{name} and {partner} do not turn about mirrored axes"
            raise RigError(rig.path, f"servo.{name}", why, "mirror this robot's moves by a table of your own")
        partners[name] = (partner, 1.0 if turned > 0 else -1.0)
    return partners
