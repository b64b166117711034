"""Webots' .motion files: poses of motors at given times.

A file is a table: ``#WEBOTS_MOTION,V1.0,motor,motor,…``, then ``mm:ss:ms,pose name,position,position,…`` rows in the
order of time; ``*`` leaves a motor alone. Between two poses positions change linearly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from axbridge.errors import RecordingError, UsageError
from axbridge.file_reading import controls, reading, regular
from axbridge.files import write_whole, writing
from axbridge.motion.interpolation import JointPath

FARTHEST = 1e4  # rad or m: no motor goes as far
LONGEST = 1e6  # s, eleven days: no motion lasts as long
_HEADER = "#WEBOTS_MOTION"
_VERSIONS = {"V1.0", "V1.1"}


class Pose(NamedTuple):
    """One row of a motion: when, ms; its name; rad or m by motor, without those that it leaves alone."""

    time: float
    name: str
    positions: dict[str, float]


@dataclass(frozen=True)
class KeyframeMotion:
    """A motion as the file has it: the motors of its header, and one pose or more in the order of time."""

    motors: tuple[str, ...]
    poses: tuple[Pose, ...]

    @classmethod
    def load(cls, path: str | Path) -> KeyframeMotion:
        """Read a .motion file."""
        with reading(partial(RecordingError, path), "give a Webots .motion file"):
            return cls.parse(regular(path).read_text(encoding="utf-8").splitlines(), path)

    @classmethod
    def parse(cls, lines: list[str], path: str | Path = "motion") -> KeyframeMotion:
        """Read the lines of a .motion file."""
        header = [field.strip() for field in lines[0].split(",")] if lines else [""]
        if header[0] != _HEADER or len(header) < 3 or header[1] not in _VERSIONS:
            raise RecordingError(path, "no Webots motion", f"the first line must be `{_HEADER},V1.0,motor,…`")
        if controls("".join(lines)):
            raise RecordingError(path, "has control characters", "write plain text")
        motors = tuple(header[2:])
        poses: list[Pose] = []
        for number, line in enumerate(lines[1:], start=2):
            if line.strip():
                try:
                    poses.append(_pose(line, motors, poses[-1].time if poses else -1.0))
                except ValueError as mistake:
                    raise RecordingError(path, f"line {number}: {mistake}", "correct that line") from mistake
        if not poses:
            raise RecordingError(path, "has no poses", "add a line `00:00:000,Pose1,…` with a position a motor")
        return cls(motors, tuple(poses))

    def text(self) -> str:
        """The file: whole milliseconds, angles with six digits."""
        for name in (*self.motors, *(pose.name for pose in self.poses)):
            if set(name) & set(",\r\n"):
                raise UsageError(f"name {name!r} does not fit into a .motion file", "take one without commas")
        rows = [",".join((_HEADER, "V1.0", *self.motors))]
        for pose in self.poses:
            seconds, milliseconds = divmod(round(pose.time), 1000)
            fields = [f"{pose.positions[motor]:.6g}" if motor in pose.positions else "*" for motor in self.motors]
            rows.append(",".join((f"{seconds // 60:02}:{seconds % 60:02}:{milliseconds:03}", pose.name, *fields)))
        return "\n".join(rows) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        text = self.text()
        with writing(path):
            write_whole(path, text)

    @property
    def duration(self) -> float:
        """Time of the last pose, ms."""
        return self.poses[-1].time

    def positions(self, time: float) -> dict[str, float]:
        """Positions at `time`, ms, by motor, between the poses that mention it; held before and after them.

        A motor that no pose mentions is absent.
        """
        return {motor: way.at(time) for motor, way in self._ways.items()}

    @cached_property
    def _ways(self) -> dict[str, JointPath]:
        ways = {}
        for motor in self.motors:
            frames = [(pose.time, pose.positions[motor]) for pose in self.poses if motor in pose.positions]
            if frames:
                ways[motor] = JointPath("linear", *zip(*frames, strict=True))
        return ways


def _pose(line: str, motors: tuple[str, ...], after: float) -> Pose:
    time, name, *fields = [field.strip() for field in line.split(",")]
    if len(fields) != len(motors):
        raise ValueError(f"{len(fields)} positions for {len(motors)} motors")
    positions = {motor: float(field) for motor, field in zip(motors, fields, strict=True) if field != "*"}
    if not all(abs(position) <= FARTHEST for position in positions.values()):
        raise ValueError(f"positions must be between {-FARTHEST:g} and {FARTHEST:g}")
    at = _milliseconds(time)
    if at <= after:
        raise ValueError(f"time {time} is not later than the pose before")
    return Pose(at, name, positions)


def _milliseconds(text: str) -> float:
    """`mm:ss:ms` in ms; more minutes than 59 are fine."""
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise ValueError(f"time {text!r} is not mm:ss:ms")
    minutes, seconds, milliseconds = (int(part) for part in parts)
    total = (minutes * 60 + seconds) * 1000 + milliseconds
    if total > 1000 * LONGEST:
        raise ValueError(f"a motion of more than {LONGEST:g} s")
    return float(total)
