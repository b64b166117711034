"""Where the registers of every Protocol 1.0 servo are: the same addresses in AX and MX.

What else a model has, and which values a register takes, is in its profile.
"""

from __future__ import annotations

import struct
from enum import IntEnum

__all__ = ["CALIBRATION", "EEPROM_END", "IDENTITY", "PRESENT", "REALTIME_TICK", "TABLE_SIZE", "Address"]


class Address(IntEnum):
    """First byte of a register; its name in a profile is the same in small letters."""

    MODEL_NUMBER = 0
    FIRMWARE_VERSION = 2
    ID = 3
    BAUD_RATE = 4
    RETURN_DELAY_TIME = 5
    CW_ANGLE_LIMIT = 6
    CCW_ANGLE_LIMIT = 8
    TEMPERATURE_LIMIT = 11
    MIN_VOLTAGE_LIMIT = 12
    MAX_VOLTAGE_LIMIT = 13
    MAX_TORQUE = 14
    STATUS_RETURN_LEVEL = 16
    ALARM_LED = 17
    SHUTDOWN = 18
    TORQUE_ENABLE = 24
    LED = 25
    GOAL_POSITION = 30
    MOVING_SPEED = 32
    TORQUE_LIMIT = 34
    PRESENT_POSITION = 36
    PRESENT_SPEED = 38
    PRESENT_LOAD = 40
    PRESENT_VOLTAGE = 42
    PRESENT_TEMPERATURE = 43
    REGISTERED_INSTRUCTION = 44
    MOVING = 46


EEPROM_END = int(Address.TORQUE_ENABLE)  # first RAM address
CALIBRATION = 20  # of the position sensor, four bytes: AX only
REALTIME_TICK = 50  # MX only
TABLE_SIZE = 50  # bytes that every servo has
IDENTITY = struct.Struct("<HB")  # one read from address 0 on: model number, firmware version
PRESENT = struct.Struct("<HHHBB")  # one read from Present Position on: position, speed, load, voltage, temperature
