"""Columns of the bank's arrays."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Command", "Drive", "Joint", "Limit", "Mode", "Scale", "State"]


class Mode(IntEnum):
    """What the loop is asked to do; value of `Command.MODE`."""

    JOINT = 0
    WHEEL_DUTY = 1  # AX: Moving Speed is an open-loop duty
    WHEEL_SPEED = 2  # MX: Moving Speed is a controlled speed


class Command(IntEnum):
    """Columns of the command array (servos, len(Command)): registers in the loop's units."""

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
    """Columns of the state array (servos, len(State)); servo side, counter-clockwise positive."""

    ANGLE = 0  # rad, servo angle, true (unquantised)
    SPEED = 1  # rad/s
    CURRENT = 2  # A
    DUTY = 3  # applied, -1..1
    TORQUE = 4  # N·m at the output shaft, after gear loss and friction
    VOLTAGE = 5  # V at the servo's terminals
    TEMPERATURE = 6  # degC
    ENERGY = 7  # J drawn since the start
    READING = 8  # rad, the position as its sensor has it (noise and offset, not yet counts)


class Drive(IntEnum):
    """Columns of the drive array (joints, len(Drive)): what acts on a joint beside a servo; joint side."""

    SPRING = 0  # N·m/rad, towards 0 rad
    DAMPING = 1  # N·m·s/rad
    FRICTION = 2  # N·m, static friction
    LOW = 3  # rad, hard stops
    HIGH = 4


class Joint(IntEnum):
    """Columns of the joint array (joints, len(Joint)): all that the kernel remembers of a joint; joint side.

    From REFERENCE to FEEDBACK the loop's own memory, servo side.
    """

    ANGLE = 0
    SPEED = 1
    CURRENT = 2  # servo side
    REFERENCE = 3  # rad
    REFERENCE_SPEED = 4  # rad/s
    FILTERED = 5  # rad/s
    INTEGRAL = 6  # counts·s
    LAST_ERROR = 7  # counts
    TIMER = 8  # s until the loop runs again
    VOLTS = 9  # voltage at zero speed, V
    FEEDBACK = 10  # V·s/rad
    OPEN = 11  # 1 = open circuit
    PUSH = 12  # N·m·s: impulse of motor, spring and friction since the physics step began
    DAMP = 13  # N·m·s/rad·s: their damping, summed likewise
    CLOCK = 14  # s since the physics step began
    DEBT = 15  # N·m·s: momentum that the rotor has beyond its joint's speed
    START = 16  # rad: angle when the physics step began
    LOOSE = 17  # 1 = the rotor is within the backlash and turns on its own; the next three are for joints that have one
    FLANK = 18  # where it rests else: 1 = it pushes the joint towards larger angles, -1
    ROTOR = 19  # rad
    ROTOR_SPEED = 20  # rad/s
    LAG = 21  # rad that a wheel is behind its speed
    START_SPEED = 22  # rad/s: speed when it began
    RESISTANCE = 23  # ohm; this and the next two are of the substep's `Push`
    LEFT = 24
    HELD = 25
    SEEN = 26  # rad, servo side: the position as the loop sees it, behind the reading by the sensor's lag


class Scale(IntEnum):
    """Columns of the scale array (servos, len(Scale)): how present registers come from a row of `State`."""

    ZERO = 0  # position count at 0 rad
    COUNTS_PER_RAD = 1
    COUNTS = 2  # highest position count
    SPEED = 3  # rad/s per count


class Limit(IntEnum):
    """Columns of the limit array (servos, len(Limit)): within them a servo's firmware has nothing to do.

    It may have when duty and speed are both on the wrong side: it stands and pushes.
    """

    LOWEST_VOLTAGE = 0  # V
    HIGHEST_VOLTAGE = 1
    TEMPERATURE = 2  # degC, highest
    DUTY = 3  # 0..1, a servo that pushes less is not stalled
    SPEED = 4  # rad/s, nor is one that turns faster
