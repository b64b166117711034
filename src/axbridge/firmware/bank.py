"""All servos of a world, stepped together: firmware loops, motors and the joints they drive.

Registers become a row of `Command` when they are written (rarely); the loop runs on arrays (often); a row of `State`
becomes registers again when it is read. Angles here are the servo's own: counter-clockwise positive, 0 rad at the
rig's `zero` count; the rig's `direction` maps them to the joint.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Command", "Mode", "State"]


class Mode(IntEnum):
    """What the loop is asked to do; value of `Command.MODE`."""

    JOINT = 0
    WHEEL_DUTY = 1  # AX: Moving Speed is an open-loop duty
    WHEEL_SPEED = 2  # MX: Moving Speed is a controlled speed


class Command(IntEnum):
    """Columns of the command array (n, len(Command)): registers in the loop's units."""

    TORQUE = 0  # 1 = motor driven, 0 = open circuit
    MODE = 1
    GOAL = 2  # rad, servo angle
    SPEED = 3  # joint mode: limit of the approach, rad/s, 0 = none; WHEEL_SPEED: signed set-point, rad/s
    DUTY = 4  # WHEEL_DUTY: -1..1
    TORQUE_LIMIT = 5  # cap of |duty|, 0..1
    MARGIN_CW = 6  # rad
    MARGIN_CCW = 7  # rad
    SLOPE_CW = 8  # rad, effective
    SLOPE_CCW = 9  # rad, effective
    PUNCH = 10  # duty, 0..1
    P_GAIN = 11  # raw register
    I_GAIN = 12
    D_GAIN = 13
    ACCELERATION = 14  # MX goal acceleration, rad/s², 0 = none


class State(IntEnum):
    """Columns of the state array (n, len(State))."""

    ANGLE = 0  # rad, servo angle, true (unquantised)
    SPEED = 1  # rad/s
    CURRENT = 2  # A
    DUTY = 3  # applied, -1..1
    TORQUE = 4  # N·m at the output shaft, after gear loss and friction
    VOLTAGE = 5  # V at the servo's terminals
    TEMPERATURE = 6  # degC
    ENERGY = 7  # J drawn since the start
    READING = 8  # rad, the position as its sensor has it (noise and offset, not yet counts)
