"""Poses by name, kept in a file beside the user's other work."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from axbridge.errors import AxBridgeError, UsageError
from axbridge.file_reading import reading
from axbridge.files import write_whole
from axbridge.motion.moves import Signs


class PoseFile:
    """A JSON file: ``{"name": {"servo": rad}}``.

    Args:
        path: The file; need not be there yet.

    Raises:
        UsageError: it is there, and holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.poses: dict[str, dict[str, float]] = {}
        if not path.is_file():
            return
        with reading(lambda what, hint: UsageError(f"{path}: {what}", hint), "move it away, or correct it"):
            found = json.loads(path.read_text(encoding="utf-8"))
            self.poses = {
                str(name): {str(servo): float(angle) for servo, angle in pose.items()} for name, pose in found.items()
            }

    def save(self, name: str, pose: Mapping[str, float]) -> None:
        """Keep a pose, rad by servo, and write the file."""
        if not name.strip():
            raise UsageError("a pose needs a name", "type one in the field above")
        kept = {servo: round(angle, 5) for servo, angle in pose.items() if math.isfinite(angle)}
        poses = {**self.poses, name.strip(): kept}
        try:
            write_whole(self.path, json.dumps(poses, indent=1) + "\n")
        except OSError as failure:
            raise UsageError(
                f"{self.path} cannot be written: {failure.strerror}", "start in another folder"
            ) from failure
        self.poses = poses


def mirrored(pose: Mapping[str, float], signs: Signs) -> dict[str, float]:
    """The pose as in a mirror: left is right; servos without a partner in `signs` are left out."""
    found = {signs[servo][0]: signs[servo][1] * angle for servo, angle in pose.items() if servo in signs}
    if not found:
        raise AxBridgeError("no servo of this pose has a mirror image")
    return found
