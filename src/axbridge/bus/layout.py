"""What a control cycle writes to a servo and reads of it: which registers, from where on, in which form."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from axbridge.config.registers import ADDRESSES, EEPROM_END, PRESENT, Address, XAddress


@dataclass(frozen=True)
class Layout:
    """Of the servos of one protocol.

    Attributes:
        protocol: Its version.
        goal: Where the goal and its speed limit are, one behind the other.
        goal_bytes: Both as one write, of position and speed.
        torque: What limits the torque in joint mode: Torque Limit, or Goal PWM; 2 bytes.
        full_torque: All of it, counts.
        eeprom: What a servo is known by: from where on, bytes.
        usual: What a cycle reads: from where on, bytes.
        longer: The same with the torque limit in front, where that shows an overload.
        longest: The same with all torque registers in front, likewise.
    """

    protocol: int
    goal: int
    goal_bytes: Callable[[int, int], bytes]
    torque: int
    full_torque: int
    eeprom: tuple[int, int]
    usual: tuple[int, int]
    longer: tuple[int, int]
    longest: tuple[int, int]

    @property
    def torque_enable(self) -> int:
        """Where Torque Enable is, 1 byte."""
        return int(ADDRESSES[self.protocol].TORQUE_ENABLE)


_X_PRESENT = int(XAddress.PRESENT_PWM), XAddress.PRESENT_TEMPERATURE + 1 - XAddress.PRESENT_PWM
PRESENT_2 = struct.Struct("<h2xii8xHB")  # duty, (current or load), velocity, position, (trajectories), voltage, heat
_GOAL_2 = struct.Struct("<Ii")  # Profile Velocity, Goal Position
LAYOUTS = {
    1: Layout(
        protocol=1,
        goal=int(Address.GOAL_POSITION),
        goal_bytes=struct.Struct("<HH").pack,
        torque=int(Address.TORQUE_LIMIT),
        full_torque=1023,
        eeprom=(0, EEPROM_END),
        usual=(int(Address.PRESENT_POSITION), PRESENT.size),
        longer=(int(Address.TORQUE_LIMIT), PRESENT.size + 2),
        longest=(int(Address.TORQUE_ENABLE), PRESENT.size + 12),
    ),
    2: Layout(
        protocol=2,
        goal=int(XAddress.PROFILE_VELOCITY),
        goal_bytes=lambda position, speed: _GOAL_2.pack(speed, position),
        torque=int(XAddress.GOAL_PWM),
        full_torque=885,
        eeprom=(0, XAddress.PROTOCOL_TYPE + 1),
        usual=_X_PRESENT,
        longer=_X_PRESENT,
        longest=_X_PRESENT,
    ),
}
