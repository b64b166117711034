"""What each function and field of Webots' Servo, Motor and Robot pages does: docs/reference-webots.md.

A row that rests on a capability takes its words from the drives' capability tables.
`tools/reference_pages.py` writes the page.
"""

from __future__ import annotations

from typing import NamedTuple

from axbridge.robot.drives.drive import AX_CAPABILITIES, EMULATION, IDEAL_CAPABILITIES

_N, _E, _U = "native", "emulated", "unsupported"


class Row(NamedTuple):
    """One function or field.

    Attributes:
        seed: Its name in Webots' manual, without ``wb_``; several when they are one thing.
        method: ``Class.method`` of the `controller` module; empty for a field.
        support: A capability of the drives, or the words for an ideal joint, a simulated and a real AX-12.
        note: What else there is to know.
    """

    seed: str
    method: str
    support: str | tuple[str, str, str]
    note: str = ""


_ALL: tuple[str, str, str] = (_N, _N, _N)
_NONE: tuple[str, str, str] = (_U, _U, _U)
_SIMULATED: tuple[str, str, str] = (_N, _N, _U)
_IDEAL: tuple[str, str, str] = (_N, _U, _U)
_SENSOR = "rig: [[sensor]],"
_COUPLED = "coupled motors follow by their multipliers"

ROWS: tuple[Row, ...] = (
    # functions of motors
    Row("motor_set_position, servo_set_position", "Motor.setPosition", "position",
        f"infinite: see wheel; {_COUPLED}"),
    Row("motor_set_position(INFINITY)", "Motor.setPosition", "wheel", EMULATION["wheel"]),
    Row("motor_get_target_position, servo_get_target_position", "Motor.getTargetPosition", _ALL,
        "the last request; before the first, where the joint is"),
    Row("motor_set_velocity, servo_set_velocity", "Motor.setVelocity", "velocity", f"0 holds still; {_COUPLED}"),
    Row("motor_get_velocity", "Motor.getVelocity", _ALL, "the last request"),
    Row("motor_set_acceleration, servo_set_acceleration", "Motor.setAcceleration", "acceleration",
        EMULATION["acceleration"]),
    Row("motor_get_acceleration", "Motor.getAcceleration", _ALL),
    Row("motor_set_available_torque", "Motor.setAvailableTorque", (_N, _E, _E),
        "AX-12: a cap on duty, exact at stall"),
    Row("motor_set_available_force, servo_set_motor_force", "Motor.setAvailableForce",
        (_N, _E, _E), "the same value"),
    Row("motor_get_available_torque", "Motor.getAvailableTorque", _ALL),
    Row("motor_get_available_force", "Motor.getAvailableForce", _ALL),
    Row("motor_set_control_pid", "Motor.setControlPID", "pid", 'AX-12: with controller = "pid" in the rig'),
    Row("servo_set_control_p", "Servo.setControlP", "pid", "P alone"),
    Row("motor_set_torque", "Motor.setTorque", "torque", EMULATION["torque"]),
    Row("motor_set_force, servo_set_force", "Motor.setForce", "torque", "the same"),
    Row("motor_get_min_position, servo_get_min_position", "Motor.getMinPosition", _ALL, "0 and 0 = unlimited"),
    Row("motor_get_max_position, servo_get_max_position", "Motor.getMaxPosition", _ALL, "0 and 0 = unlimited"),
    Row("motor_get_max_velocity", "Motor.getMaxVelocity", _ALL, "AX-12: the data sheet's, unless the rig says less"),
    Row("motor_get_max_torque", "Motor.getMaxTorque", _ALL, "AX-12: the data sheet's, unless the rig says less"),
    Row("motor_get_max_force", "Motor.getMaxForce", _ALL, "the same"),
    Row("motor_get_multiplier", "Motor.getMultiplier", _ALL),
    Row("motor_get_type, servo_get_type", "Motor.getType", _ALL, "an AX-12 is rotational"),
    Row("motor_enable_torque_feedback", "Motor.enableTorqueFeedback", "torque_feedback",
        EMULATION["torque_feedback"]),
    Row("motor_enable_force_feedback, servo_enable_motor_force_feedback",
        "Motor.enableForceFeedback", "torque_feedback", "the same"),
    Row("motor_disable_torque_feedback", "Motor.disableTorqueFeedback", _ALL),
    Row("motor_disable_force_feedback, servo_disable_motor_force_feedback",
        "Motor.disableForceFeedback", _ALL, "the same"),
    Row("motor_get_torque_feedback", "Motor.getTorqueFeedback", "torque_feedback", "NaN before the first sample"),
    Row("motor_get_force_feedback, servo_get_motor_force_feedback", "Motor.getForceFeedback",
        "torque_feedback", "the same"),
    Row("motor_get_torque_feedback_sampling_period", "Motor.getTorqueFeedbackSamplingPeriod", _ALL),
    Row("motor_get_force_feedback_sampling_period, servo_get_motor_force_feedback_sampling_period",
        "Motor.getForceFeedbackSamplingPeriod", _ALL),
    Row("motor_get_brake", "Motor.getBrake", _IDEAL, "None on an AX-12"),
    Row("motor_get_position_sensor", "Motor.getPositionSensor", _ALL),
    # position sensors and brakes
    Row("position_sensor_enable, servo_enable_position", "PositionSensor.enable", _ALL,
        "AX-12: sampled at the end of a basic step"),
    Row("position_sensor_disable, servo_disable_position", "PositionSensor.disable", _ALL),
    Row("servo_get_position_sampling_period", "PositionSensor.getSamplingPeriod", _ALL),
    Row("position_sensor_get_value, servo_get_position", "PositionSensor.getValue", (_N, _E, _E),
        "NaN before the first sample; AX-12: native as a joint; of a wheel the host counts the turns"),
    Row("brake_set_damping_constant", "Brake.setDampingConstant", _IDEAL, "an AX-12 has no brake"),
    Row("brake_get_brake", "PositionSensor.getBrake", _IDEAL),
    Row("brake_get_position_sensor", "Brake.getPositionSensor", _IDEAL),
    # sensors of the body
    Row("inertial_unit_get_roll_pitch_yaw", "InertialUnit.getRollPitchYaw", _ALL,
        f"{_SENSOR} kind imu; a real one by its port"),
    Row("inertial_unit_get_quaternion", "InertialUnit.getQuaternion", _ALL, "x, y, z, w"),
    Row("gyro_get_values", "Gyro.getValues", _ALL, f"{_SENSOR} kind imu; no lookup table, so rad/s"),
    Row("accelerometer_get_values", "Accelerometer.getValues", _ALL, f"{_SENSOR} kind imu; m/s², at rest 9.81 up"),
    Row("gps_get_values", "GPS.getValues", _SIMULATED, f"{_SENSOR} kind gps; m"),
    Row("gps_get_speed, gps_get_speed_vector", "GPS.getSpeed", _SIMULATED, "m/s"),
    Row("touch_sensor_get_value", "TouchSensor.getValue", _SIMULATED,
        f"{_SENSOR} kind bumper: 1 while its link touches; kind force: what presses on its face, N"),
    Row("touch_sensor_get_values", "TouchSensor.getValues", _SIMULATED, f"{_SENSOR} kind force-3d; N"),
    Row("distance_sensor_get_value", "DistanceSensor.getValue", _SIMULATED,
        f"{_SENSOR} kind distance: one ray to the floor, m; it sees no other things"),
    # functions of the robot
    Row("robot_step", "Robot.step", _ALL, "0, the lateness in ms, or -1 at the end"),
    Row("robot_init, robot_cleanup", "", _ALL, "done for the script"),
    Row("robot_get_device", "Robot.getDevice", _ALL, "None and a line on stderr when there is none"),
    Row("robot_battery_sensor_enable", "Robot.batterySensorEnable", _ALL, "the rig's robot.battery"),
    Row("robot_battery_sensor_disable", "Robot.batterySensorDisable", _ALL),
    Row("robot_battery_sensor_get_value", "Robot.batterySensorGetValue", (_N, _N, _E),
        "real: U·i by the motor model"),
    Row("robot_get_basic_time_step", "Robot.getBasicTimeStep", _ALL, "webots.time_step_ms, else the robot's"),
    Row("robot_get_mode", "Robot.getMode", _ALL, "0 simulation, 1 real, 2 a networked port"),
    Row("robot_get_name", "Robot.getName", _ALL, "the rig's name"),
    Row("robot_get_project_path", "Robot.getProjectPath", _ALL, "the rig's, else the controller's folder"),
    Row("robot_get_synchronization", "Robot.getSynchronization", _ALL, "webots.synchronization"),
    Row("robot_get_time", "Robot.getTime", _ALL, "counted by steps"),
    Row("robot_keyboard_enable", "Robot.keyboardEnable", _ALL, "the terminal's keys"),
    Row("robot_keyboard_disable", "Robot.keyboardDisable", _ALL),
    Row("robot_keyboard_get_key", "Robot.keyboardGetKey", _ALL,
        "a key is held for 0.6 s, then as long as the terminal repeats it"),
    Row("robot_task_new", "", _NONE, "C only; Python has threading"),
    Row("robot_mutex_new, robot_mutex_delete, robot_mutex_lock, robot_mutex_unlock", "", _NONE,
        "C only; Python has threading"),
    # fields of Motor and Servo
    Row("type", "", _ALL, "of the URDF's joint: revolute, continuous or prismatic"),
    Row("maxVelocity", "", _ALL, "rig: max_velocity"),
    Row("maxTorque, maxForce", "", (_N, _E, _E), "rig: max_torque; 0 = passive (ideal joints)"),
    Row("controlPID, controlP", "", "pid", "rig: control_pid"),
    Row("acceleration", "", "acceleration", "rig: acceleration"),
    Row("position", "", _SIMULATED, "rig: position; a real joint is where it is"),
    Row("minPosition, maxPosition", "", _ALL, "rig: min_position, max_position; both 0 = off"),
    Row("minStop, maxStop", "", _SIMULATED, "rig: min_stop, max_stop; a real joint has its own"),
    Row("springConstant", "", _SIMULATED, "rig: spring_constant; a real joint has its own"),
    Row("dampingConstant", "", _SIMULATED, "rig: damping_constant; a real joint has its own"),
    Row("staticFriction", "", _SIMULATED, "rig: static_friction; a real joint has its own"),
    Row("consumptionFactor", "", _IDEAL, "rig: consumption_factor; a Dynamixel's power is U·i by the motor model"),
    Row("multiplier", "", _ALL, "rig: multiplier"),
    Row("resolution, noise", "", _ALL, "rig: resolution, noise; the position sensor's"),
    Row("translation, rotation", "", _SIMULATED, "of the URDF's joint: origin and axis"),
    Row("kinematic mode", "", _IDEAL, "a joint that moves only links without <inertial>"),
    Row("sound", "", _NONE, "nothing is played"),
    Row("muscles", "", _NONE, "nothing is drawn"),
    # fields of Robot
    Row("controller, controllerArgs", "", _ALL, "axbridge run SCRIPT ARGS, else webots.controller_args"),
    Row("synchronization", "", _ALL, "webots.synchronization = false paces a simulation by the wall clock"),
    Row("battery, cpuConsumption", "", (_N, _N, _E),
        "an empty battery cuts off a simulated robot only; no Charger, no recharge"),
    Row("selfCollision", "", _SIMULATED, "rig: world.self_collision; bodies collide as they like"),
)  # fmt: skip


def supports(row: Row) -> tuple[str, str, str]:
    """The words of a row: on an ideal joint, a simulated AX-12 and a real AX-12."""
    if isinstance(row.support, tuple):
        return row.support
    dynamixel = AX_CAPABILITIES[row.support]
    return IDEAL_CAPABILITIES[row.support], dynamixel, dynamixel


def markdown() -> str:
    """The table, as Markdown."""
    lines = ["| Webots | Python | ideal joint | simulated AX-12 | real AX-12 | |", "|---|---|---|---|---|---|"]
    for row in ROWS:
        method = f"`{row.method}`" if row.method else "-" if row.seed.startswith("robot_") else "field"
        names = ", ".join(f"`{name}`" for name in row.seed.split(", "))
        lines.append(f"| {names} | {method} | {' | '.join(supports(row))} | {row.note} |")
    return "\n".join(lines) + "\n"
