"""Which drive a servo has."""

from __future__ import annotations

from collections.abc import Mapping

from axbridge.robot.drives.dynamixel import DynamixelDrive
from axbridge.robot.drives.feetech import FeetechDrive
from axbridge.robot.drives.x_drive import XDrive

DRIVES: Mapping[str, type[DynamixelDrive]] = {  # by family of units
    "ax": DynamixelDrive, "mx": DynamixelDrive, "x": XDrive, "sts": FeetechDrive, "scs": FeetechDrive,
}  # fmt: skip
