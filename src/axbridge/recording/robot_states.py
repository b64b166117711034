"""A recording as other programs show a robot: what it looks like, its joints at each time, and where its base is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.recording.recording import Recording
from axbridge.recording.wide_rows import wide_rows
from axbridge.rotations import Quaternion, of_roll_pitch_yaw

_BASE = ("base_x", "base_y", "base_z", "base_roll", "base_pitch", "base_yaw")


def robot_of(recording: Recording, rig: Rig | None = None) -> tuple[str, dict[str, str]]:
    """The URDF of a recording's robot, and the joint of each of its servos; both empty where it does not say.

    Args:
        recording: Whose.
        rig: The robot, where the recording does not say (imported logs).

    Raises:
        UsageError: a robot is known, but no servo of the recording is one of it.
        RigError: the URDF of `rig` is not there.
    """
    if rig is not None:
        urdf, joints = rig.urdf_text(), {servo.name: servo.joint for servo in rig.servos}
    else:
        urdf = str(recording.metadata.get("urdf", ""))
        servos = recording.metadata.get("rig", {}).get("servo", [])
        joints = {servo["name"]: servo["joint"] for servo in servos}
    known = {name: joints[name] for name in recording if name in joints}
    if joints and not known:
        raise UsageError(
            f"no servo of {recording.path} ({', '.join(recording)}) is one of the rig's ({', '.join(joints)})",
            "name another rig with --rig",
        )
    return urdf, known


def base_link(urdf: str) -> str:
    """The link that no joint moves."""
    root = ET.fromstring(urdf)  # noqa: S314 - entities are not resolved from outside
    moved = {child.get("link") for child in root.findall("joint/child")}
    return next(name for link in root.findall("link") if (name := link.get("name", "")) not in moved)


def base_poses(recording: Recording) -> Iterator[tuple[float, list[float], Quaternion]]:
    """Time, s, place, m, and turn of the base, where that was recorded."""
    cycles = recording.cycles
    if not all(key in cycles for key in _BASE):
        return
    for time, *pose in zip(cycles["time"].tolist(), *(cycles[key].tolist() for key in _BASE), strict=True):
        if not any(map(math.isnan, pose)):
            yield time, pose[:3], of_roll_pitch_yaw(*pose[3:])


class JointRow(NamedTuple):
    """Joints at one time.

    Attributes:
        time: s, the robot's clock.
        joints: Their names.
        values: What is known of them: columns (joints,) by name, NaN where a joint lacks a value.
    """

    time: float
    joints: list[str]
    values: dict[str, FloatArray]


def joint_rows(
    recording: Recording, joints: Mapping[str, str], columns: Sequence[str], rate: float | None = None
) -> Iterator[JointRow]:
    """Each time at which a joint has a value in the first of `columns`; a joint without one is left out then.

    Args:
        recording: Whose; in memory are one servo's samples at most.
        joints: The joint of each servo that is wanted.
        columns: Of a track. What no joint has at a time is left out of its row.
        rate: Rows a second, resampled as in a wide table; None: a row at each sample.

    Raises:
        UsageError: a rate that is not positive.
    """
    names = np.array(list(joints.values()), dtype=object)
    for time, found in wide_rows(recording, dict.fromkeys(joints, columns), rate):
        tables = {key: np.stack([found[servo, key] for servo in joints], axis=1) for key in columns}
        known = np.isfinite(tables[columns[0]])
        for row in np.flatnonzero(known.any(axis=1)):
            here = known[row]
            values = {key: table[row, here] for key, table in tables.items()}
            kept = {key: value for key, value in values.items() if not np.isnan(value).all()}
            yield JointRow(float(time[row]), names[here].tolist(), kept)
