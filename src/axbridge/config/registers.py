"""Servo families as data: instructions, registers that the code addresses by name, units and baud rates.

Every profile of a family has these registers. Sources of units: ROBOTIS e-manual, AX-12A, MX-28, XL330 and XL430
control tables ("Goal Position", "Moving Speed", "Present Load", "Present Voltage", "Goal PWM", "Baud Rate"); Feetech,
SMS/STS and SCSCL memory tables.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from typing import Literal, NamedTuple

from axbridge.units import DIVISORS, RPM, Units

Version = Literal[1, 2, "sts", "scs"]
"""Protocol in a profile: Dynamixel 1.0 or 2.0, ``sts`` for Feetech's STS and SMS servos, ``scs`` for SCS servos."""
UnitsName = Literal["ax", "mx", "x", "sts", "scs"]
"""Units in a profile."""


class Instruction(IntEnum):
    """Instruction codes of Protocol 2.0; other protocols have fewer."""

    PING = 0x01
    READ = 0x02
    WRITE = 0x03
    REG_WRITE = 0x04
    ACTION = 0x05
    FACTORY_RESET = 0x06
    REBOOT = 0x08
    CLEAR = 0x10
    BACKUP = 0x20
    SYNC_READ = 0x82
    SYNC_WRITE = 0x83
    FAST_SYNC_READ = 0x8A
    BULK_READ = 0x92
    BULK_WRITE = 0x93
    FAST_BULK_READ = 0x9A


SYNC_READS = frozenset({Instruction.SYNC_READ, Instruction.FAST_SYNC_READ})  # with a list of ids
GROUP_READS = SYNC_READS | {Instruction.BULK_READ, Instruction.FAST_BULK_READ}  # several servos reply in turn
QUESTIONS = GROUP_READS | {Instruction.PING, Instruction.READ}  # change no register


_ONLY_2 = {
    *(Instruction.CLEAR, Instruction.BACKUP, Instruction.SYNC_READ),
    *(Instruction.FAST_SYNC_READ, Instruction.BULK_WRITE, Instruction.FAST_BULK_READ),
}
_FEETECH = tuple(code for code in Instruction if code < Instruction.CLEAR or code == Instruction.SYNC_WRITE)


class Address(IntEnum):
    """Addresses of Protocol 1.0; profiles have the names in lower case."""

    MODEL_NUMBER = 0
    FIRMWARE_VERSION = 2
    ID = 3
    RETURN_DELAY_TIME = 5
    CW_ANGLE_LIMIT = 6
    MAX_TORQUE = 14
    STATUS_RETURN_LEVEL = 16
    SHUTDOWN = 18
    TORQUE_ENABLE = 24
    LED = 25
    GOAL_POSITION = 30
    MOVING_SPEED = 32
    TORQUE_LIMIT = 34
    PRESENT_POSITION = 36
    PRESENT_TEMPERATURE = 43
    MOVING = 46


class XAddress(IntEnum):
    """Addresses of the X series and MX(2.0); profiles have the names in lower case."""

    MODEL_NUMBER = 0
    FIRMWARE_VERSION = 6
    ID = 7
    RETURN_DELAY_TIME = 9
    DRIVE_MODE = 10
    OPERATING_MODE = 11
    PROTOCOL_TYPE = 13
    HOMING_OFFSET = 20
    MIN_POSITION_LIMIT = 52
    SHUTDOWN = 63
    TORQUE_ENABLE = 64
    LED = 65
    STATUS_RETURN_LEVEL = 68
    HARDWARE_ERROR_STATUS = 70
    VELOCITY_I_GAIN = 76
    BUS_WATCHDOG = 98
    GOAL_PWM = 100
    GOAL_VELOCITY = 104
    PROFILE_VELOCITY = 112
    GOAL_POSITION = 116
    REALTIME_TICK = 120
    MOVING = 122
    PRESENT_PWM = 124
    PRESENT_POSITION = 132
    PRESENT_TEMPERATURE = 146


class FeetechAddress(IntEnum):
    """Addresses of Feetech's servos; profiles have the names in lower case."""

    FIRMWARE_VERSION = 0
    MODEL_NUMBER = 3
    ID = 5
    RETURN_DELAY_TIME = 7
    STATUS_RETURN_LEVEL = 8
    MIN_POSITION_LIMIT = 9
    MAX_TORQUE = 16
    SHUTDOWN = 19
    TORQUE_ENABLE = 40
    GOAL_POSITION = 42
    GOAL_TIME = 44
    GOAL_VELOCITY = 46
    PRESENT_POSITION = 56
    PRESENT_TEMPERATURE = 63
    MOVING = 66


class OperatingMode(IntEnum):
    """Operating Mode of the X series, and of MX with Protocol 2.0."""

    CURRENT = 0
    VELOCITY = 1
    POSITION = 3
    EXTENDED_POSITION = 4
    CURRENT_BASED_POSITION = 5
    PWM = 16


class DriveMode(IntFlag):
    """Bits of Drive Mode of the same servos."""

    REVERSE = 0x01  # positions grow clockwise
    TIMED = 0x04  # the profile registers are times, ms
    TORQUE_ON_BY_GOAL = 0x08


MOST_OFFSET = 1024  # counts; Position Control Mode ignores a larger Homing Offset (e-manual, Homing Offset)
POSITION_MODES = {OperatingMode.POSITION, OperatingMode.EXTENDED_POSITION, OperatingMode.CURRENT_BASED_POSITION}
CURRENT_MODES = {OperatingMode.CURRENT, OperatingMode.CURRENT_BASED_POSITION}  # need a Goal Current
GOAL_CURRENT = 102  # address, in servos that have it
ENDLESS_GOALS: dict[int, tuple[int, int]] = {  # modes without position control: address and size of the goal
    OperatingMode.PWM: (int(XAddress.GOAL_PWM), 2),
    OperatingMode.CURRENT: (GOAL_CURRENT, 2),
    OperatingMode.VELOCITY: (int(XAddress.GOAL_VELOCITY), 4),
}
X_BLOCKS = (  # address ranges (first, end) without gaps in the X series: a read across a gap may be refused
    (0, 14), (20, 28), (31, 38), (44, 56), (63, 66), (68, 71), (76, 86), (88, 92), (98, 99), (100, 102), (104, 147),
)  # fmt: skip


class Names(NamedTuple):
    """Names of the registers that all servos of a protocol have."""

    low: str  # lower position limit
    high: str  # upper position limit
    speed: str  # speed limit towards a goal
    torque: str  # torque limit in RAM
    most_torque: str  # its initial value, in EEPROM
    voltage: str  # measured supply


class Family(NamedTuple):
    """Common properties of all servos of a protocol, apart from its packets."""

    addresses: type[Address | XAddress | FeetechAddress]  # every profile has all of them
    instructions: tuple[Instruction, ...]  # each servo supports some of them
    names: Names
    units: Mapping[UnitsName, Units]  # with the baud rates
    maker: str = "Dynamixel"  # servos of two makers cannot share a line
    byteorder: Literal["little", "big"] = "little"


_X_NAMES = Names(
    "min_position_limit", "max_position_limit", "profile_velocity", "goal_pwm", "pwm_limit", "present_input_voltage"
)
_FEETECH_NAMES = Names(
    "min_position_limit", "max_position_limit", "goal_velocity", "torque_limit", "max_torque", "present_voltage"
)
_MX_BAUDS = (*DIVISORS[:250], 2_250_000.0, 2_500_000.0, 3_000_000.0, *DIVISORS[253:])
_FEETECH_BAUDS = 1e6, 500_000.0, 250_000.0, 128_000.0, 115_200.0, 57_600.0, 38_400.0, 19_200.0
_X_BAUDS = (9_600.0, 57_600.0, 115_200.0, 1e6, 2e6, 3e6, 4e6, 4.5e6)  # the XL330 ends at 4 M
AX = Units(position=math.radians(300 / 1023), speed=0.111 * RPM, counts=1023)
MX = Units(position=math.radians(360 / 4096), speed=0.114 * RPM, counts=4095, bauds=_MX_BAUDS)
X = Units(
    position=math.radians(360 / 4096), speed=0.229 * RPM, counts=4095, full_scale=885, full_load=1000, top_speed=2047,
    bauds=_X_BAUDS,
)  # fmt: skip
STS = Units(
    position=math.radians(360 / 4096), speed=math.radians(360 / 4096), counts=4095, full_scale=1000, full_load=1000,
    top_speed=32767, bauds=_FEETECH_BAUDS,
)  # fmt: skip
SCS = Units(
    position=math.radians(300 / 1024), speed=math.radians(300 / 1024), counts=1023, full_scale=1000, full_load=1000,
    top_speed=32767, bauds=_FEETECH_BAUDS,
)  # fmt: skip

FAMILIES: Mapping[Version, Family] = {
    1: Family(
        Address,
        tuple(code for code in Instruction if code not in _ONLY_2),
        Names("cw_angle_limit", "ccw_angle_limit", "moving_speed", "torque_limit", "max_torque", "present_voltage"),
        {"ax": AX, "mx": MX},
    ),
    2: Family(XAddress, tuple(Instruction), _X_NAMES, {"x": X}),
    "sts": Family(FeetechAddress, (*_FEETECH, Instruction.SYNC_READ), _FEETECH_NAMES, {"sts": STS}, "Feetech"),
    "scs": Family(  # max_torque is their only torque limit
        FeetechAddress, _FEETECH, _FEETECH_NAMES._replace(torque="max_torque"), {"scs": SCS}, "Feetech", "big"
    ),
}
UNITS: Mapping[str, Units] = {name: units for family in FAMILIES.values() for name, units in family.units.items()}
EEPROM_END = int(Address.TORQUE_ENABLE)  # first RAM address of Protocol 1.0; see `FirmwareProfile.eeprom_end`
NOT_BESIDE_2 = 253  # id of Protocol 1.0 that is not possible on a line with Protocol 2.0
SET_MIDDLE = 128  # value of Torque Enable of STS servos: the present position becomes the middle, permanently
CALIBRATION = 20  # address; four bytes for the position sensor, AX only
TABLE_SIZE = 50  # bytes of the smallest control table
PRESENT = struct.Struct("<HHHBB")  # from Present Position: position, speed, load, voltage, temperature
