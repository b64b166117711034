"""What a servo's registers make of its loop, whichever protocol it speaks."""

from __future__ import annotations

from collections.abc import Mapping

from axbridge.config.profile import FirmwareProfile
from axbridge.virtual import registers, x_registers
from axbridge.virtual.control_table import ControlTable


def loop_row(profile: FirmwareProfile, zero: int, written: Mapping[str, int]) -> list[float]:
    """One row of `Command` after power-on.

    Args:
        profile: The servo's.
        zero: Its position count at 0 rad.
        written: Registers that differ from the factory's; those that the model does not have are left out.
    """
    table = ControlTable(profile)
    for name, value in written.items():
        if name in table:
            table[name] = value
    if profile.protocol == 1:
        return registers.loop_command(table, profile, zero, driven=True)
    gauges = x_registers.XGauges(table, profile, zero)
    approach = x_registers.Approach()
    return x_registers.loop_command(table, profile, gauges, driven=True, approach=approach, stopped=False)
