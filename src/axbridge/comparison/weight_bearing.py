"""Does a robot whose joints walk carry its weight, or does it hang, lie or fly? Its motors know.

Inverse dynamics gives the loads of a robot on its feet and of one that hangs by its body, for the same angles. Which of
them goes with what the servos reported as their load decides.
"""

from __future__ import annotations

import numpy as np

from axbridge.arrays import BoolArray, FloatArray
from axbridge.comparison.footing import Footing, rooted_motion
from axbridge.comparison.recorded_robot import Standing
from axbridge.recording.recording import Recording
from axbridge.sim.body.inverse_dynamics import wrenches


def hangs(
    recording: Recording, robot: Standing, stood: Footing, motion: tuple[FloatArray, FloatArray, FloatArray],
    chosen: BoolArray,
) -> bool:  # fmt: skip
    """Whether servos push as those of a robot that hangs by its body, rather than stands on one foot."""
    assert robot.rig.world is not None
    names = robot.tree.names
    _, speed, faster = motion
    hanging = wrenches(robot.tree, *motion, np.array(robot.rig.world.gravity)).torque
    standing = np.empty_like(hanging)
    for side, foot in enumerate((stood.lifted <= 0, stood.lifted > 0)):
        rooted = rooted_motion(recording, robot, motion, stood.time, side)
        torques = wrenches(rooted.tree, *rooted.motion, rooted.gravity).torque
        for number, joint in enumerate(rooted.tree.joints):
            standing[foot, names.index(joint.name)] = torques[foot, number]
    parts: list[FloatArray] = []  # of a servo: what it pushed, what it would on its feet, and hanging
    for servo in robot.rig.servos:
        if servo.joint in names and servo.name in recording:
            track, column = recording[servo.name], names.index(servo.joint)
            reported = np.interp(stood.time, track.time, track.load)
            known = chosen & ~np.isnan(reported)
            pushed = np.stack((reported, standing[:, column], hanging[:, column]), axis=1)[known]
            # a motor turns itself, too: whatever goes with speed and acceleration says nothing of the load
            own = np.stack((speed[known, column], faster[known, column], np.ones(known.sum())), axis=1)
            parts.append(pushed - own @ np.linalg.lstsq(own, pushed, rcond=None)[0])
    reported, on_feet, hung = np.concatenate([*parts, np.zeros((0, 3))]).T
    return _explained(reported, hung) > _explained(reported, on_feet)


def _explained(seen: FloatArray, load: FloatArray) -> float:
    """How much of the squares of what was seen goes with a load, pushed against and not along."""
    return max(0.0, float(seen @ load)) ** 2 / max(float(load @ load), 1e-12)
