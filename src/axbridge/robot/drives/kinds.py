"""Which drive a servo has."""

from __future__ import annotations

from axbridge.bus.base import Bus
from axbridge.config.rig import Rig
from axbridge.config.rig_tables import ServoConfig
from axbridge.robot.drives.dynamixel import DynamixelDrive
from axbridge.robot.drives.feetech import FeetechDrive
from axbridge.robot.drives.x_drive import XDrive

_DRIVES: dict[str, type[DynamixelDrive]] = {  # by family of units
    "ax": DynamixelDrive, "mx": DynamixelDrive, "x": XDrive, "sts": FeetechDrive, "scs": FeetechDrive,
}  # fmt: skip


def drive_of(rig: Rig, servo: ServoConfig, bus: Bus) -> DynamixelDrive:
    """The drive of a rig's servo that is on a bus."""
    profile = rig.profile_of(servo)
    return _DRIVES[profile.units_name](servo, profile, rig.model_of(servo), bus)
