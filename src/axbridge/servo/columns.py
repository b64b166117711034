"""Columns of the bank's arrays, and servo models packed as rows of numbers for the kernels."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from axbridge.arrays import FloatArray
from axbridge.config.model import ServoModel
from axbridge.jit import jit
from axbridge.servo.friction import TERMS, Friction
from axbridge.servo.motor import Motor


class Mode(IntEnum):
    """Control mode of a servo's loop: values of `Command.MODE`."""

    JOINT = 0
    WHEEL_DUTY = 1  # AX: Moving Speed is an open-loop duty
    WHEEL_SPEED = 2  # MX: Moving Speed is a controlled speed
    SPEED = 3  # X: Goal Velocity, by a PI loop with its own gains
    CURRENT = 4  # X: Goal Current
    JOINT_CURRENT = 5  # X: the output of the position loop is a current


class Command(IntEnum):
    """Columns of the command array (servos, len(Command)): registers in the loop's units."""

    TORQUE = 0  # 1 = motor driven, 0 = open circuit
    MODE = 1
    GOAL = 2  # rad, servo angle
    SPEED = 3  # joint modes: limit of the approach, rad/s, 0 = none; WHEEL_SPEED, SPEED: signed set-point, rad/s
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
    ACCELERATION = 14  # of the approach, rad/s², 0 = none
    SPEED_P = 15  # SPEED: duty per rad/s
    SPEED_I = 16  # SPEED: duty per rad
    CURRENT = 17  # A; CURRENT: signed set-point, JOINT_CURRENT: upper limit
    FULL_CURRENT = 18  # JOINT_CURRENT: current for the law's full duty, A


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
    READING = 8  # rad, the sensor's position, with noise and offset, not yet in counts
    REFERENCE = 9  # rad: present set-point of the approach to the goal
    REFERENCE_SPEED = 10  # rad/s


class Passive(IntEnum):
    """Columns of the passive array (joints, len(Passive)): passive elements of a joint; joint side."""

    SPRING = 0  # N·m/rad, towards 0 rad
    DAMPING = 1  # N·m·s/rad
    FRICTION = 2  # N·m, static friction
    LOW = 3  # rad, hard stops
    HIGH = 4


class Joint(IntEnum):
    """Columns of the joint array (joints, len(Joint)): a joint's state between substeps; joint side.

    REFERENCE to FEEDBACK are the control loop's state, servo side.
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
    LOOSE = 12  # 1 = the rotor is between the flanks of the backlash; with the next three, only for backlash
    FLANK = 13  # flank of contact when not LOOSE: 1 = the rotor pushes the joint towards larger angles, -1 = smaller
    ROTOR = 14  # rad
    ROTOR_SPEED = 15  # rad/s
    LAG = 16  # rad: integral of the speed error in the speed modes
    RESISTANCE = 17  # ohm; this and the next two are from the substep's `Push`
    LEFT = 18
    HELD = 19
    SEEN = 20  # rad, servo side: input of the loop: the reading after the sensor's lag


class Law(IntEnum):
    """Position law of a servo: values of `Param.LAW`."""

    STATE_FEEDBACK = 0
    COMPLIANCE = 1
    PID = 2


class Param(IntEnum):
    """Columns of a packed model; units and sides as in `axbridge.config.model`."""

    RESISTANCE = 0
    INDUCTANCE = 1
    CONSTANT = 2  # Ks·N, V·s/rad at the output
    EFFICIENCY = 3
    ARMATURE = 4
    RESISTANCE_PER_DUTY = 5
    MAX_CURRENT = 6
    CURRENT_STEP = 7  # A/ms
    SUPPLY_SIDE = 8  # 1: MAX_CURRENT limits the supply's current
    COULOMB = 9
    VISCOUS = 10
    STRIBECK = 11
    STRIBECK_SPEED = 12
    STRIBECK_EXPONENT = 13
    LOAD = 14
    LOAD_STRIBECK = 15
    LOAD_EXTERNAL = 16  # negative: the same weight as LOAD
    QUADRATIC = 17
    LAW = 18
    K_THETA = 19
    K_OMEGA = 20
    PERIOD = 21  # s
    SPEED_FILTER = 22
    P_DUTY = 23
    I_DUTY = 24
    D_DUTY = 25
    COUNT = 26  # rad per position count
    QUANTISED = 27
    NOISE = 28
    OFFSET = 29
    THERMAL_RESISTANCE = 30
    THERMAL_TIME = 31
    AMBIENT = 32
    RESISTANCE_PER_KELVIN = 33  # share of RESISTANCE above AMBIENT
    LATENCY = 34  # s, from a command's packet to its effect
    SLOPE = 35  # rad, both directions; 0 = from the registers
    PUNCH = 36  # duty; negative = from the register
    BACKLASH = 37  # rad
    ASYMMETRY = 38  # share of the torque: added for positive voltage, subtracted for negative
    LAG = 39  # s, of the position sensor
    DEAD_DUTY = 40  # share of full duty
    LOAD_EXTERNAL_STRIBECK = 41
    OUTPUT = 42  # N·m: dry friction of the output shaft, on the joint's side of the backlash


_LAWS = {"state_feedback": Law.STATE_FEEDBACK, "compliance": Law.COMPLIANCE, "pid": Law.PID}


def pack(model: ServoModel, count: float) -> FloatArray:
    """Return the row (len(Param),) of a model; one position count is `count` rad.

    Friction terms that the model's law does not have are 0.
    """
    motor, friction, controller, sensor = model.motor, model.friction, model.controller, model.sensor
    values: dict[str, Any] = {**dict(motor), **dict(sensor), **dict(controller), **dict(friction)}
    missing = set(TERMS["M6"]) - set(TERMS[friction.law]) - {"stribeck_speed", "stribeck_exponent"}
    values |= dict.fromkeys(missing, 0.0)
    if "load_external" in missing:
        values["load_external"] = -1.0
    values |= {
        "law": _LAWS[controller.law],
        "constant": motor.output_constant,
        "supply_side": motor.current_limit == "supply",
        "ambient": motor.ambient_temperature,
        "period": controller.period_ms / 1000,
        "latency": sensor.latency_ms / 1000,
        "lag": sensor.lag_ms / 1000,
        "noise": sensor.position_noise,
        "offset": sensor.angle_offset,
        "count": count,
    }
    return np.array([values[param.name.lower()] for param in Param], dtype=float)


@jit
def motor_of(params: FloatArray, resistance: float) -> Motor:
    """Return the motor of a packed model, (len(Param),); `resistance` is of the winding at its temperature, ohm."""
    return Motor(
        resistance,
        params[Param.RESISTANCE_PER_DUTY],
        params[Param.INDUCTANCE],
        params[Param.CONSTANT],
        params[Param.EFFICIENCY],
        params[Param.ASYMMETRY],
        params[Param.MAX_CURRENT],
        params[Param.CURRENT_STEP],
        params[Param.SUPPLY_SIDE],
    )


@jit
def friction_of(params: FloatArray) -> Friction:
    """Return the friction of a packed model, (len(Param),)."""
    return Friction(
        params[Param.COULOMB],
        params[Param.STRIBECK],
        params[Param.STRIBECK_SPEED],
        params[Param.STRIBECK_EXPONENT],
        params[Param.LOAD],
        params[Param.LOAD_STRIBECK],
        params[Param.LOAD_EXTERNAL],
        params[Param.LOAD_EXTERNAL_STRIBECK],
        params[Param.QUADRATIC],
    )
