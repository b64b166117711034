"""The table of docs/reference-webots.md covers what Webots' pages list."""

import re

from axbridge.robot.drives.drive import CAPABILITIES
from axbridge.robot.drives.dynamixel import DYNAMIXEL_CAPABILITIES
from axbridge.robot.drives.ideal import IDEAL_CAPABILITIES
from axbridge.webots.joints import Brake, Motor, PositionSensor
from axbridge.webots.module import CLASSES, HIDDEN, module_name
from tools.webots_coverage import ROWS, supports

# wb_ functions of the Servo, Motor and Robot pages, and the fields of their nodes
FUNCTIONS = [
    "motor_set_position",
    "motor_set_velocity",
    "motor_set_acceleration",
    "motor_set_available_force",
    "motor_set_available_torque",
    "motor_set_control_pid",
    "motor_get_target_position",
    "motor_get_min_position",
    "motor_get_max_position",
    "motor_get_velocity",
    "motor_get_max_velocity",
    "motor_get_acceleration",
    "motor_get_available_force",
    "motor_get_max_force",
    "motor_get_available_torque",
    "motor_get_max_torque",
    "motor_get_multiplier",
    "motor_enable_force_feedback",
    "motor_disable_force_feedback",
    "motor_get_force_feedback_sampling_period",
    "motor_get_force_feedback",
    "motor_enable_torque_feedback",
    "motor_disable_torque_feedback",
    "motor_get_torque_feedback_sampling_period",
    "motor_get_torque_feedback",
    "motor_set_force",
    "motor_set_torque",
    "motor_get_type",
    "motor_get_brake",
    "motor_get_position_sensor",
    "servo_set_position",
    "servo_get_target_position",
    "servo_set_velocity",
    "servo_set_acceleration",
    "servo_set_motor_force",
    "servo_set_control_p",
    "servo_get_min_position",
    "servo_get_max_position",
    "servo_enable_position",
    "servo_disable_position",
    "servo_get_position_sampling_period",
    "servo_get_position",
    "servo_enable_motor_force_feedback",
    "servo_get_motor_force_feedback",
    "servo_get_motor_force_feedback_sampling_period",
    "servo_disable_motor_force_feedback",
    "servo_set_force",
    "servo_get_type",
    "robot_step",
    "robot_init",
    "robot_cleanup",
    "robot_get_device",
    "robot_battery_sensor_enable",
    "robot_battery_sensor_disable",
    "robot_battery_sensor_get_value",
    "robot_get_basic_time_step",
    "robot_get_mode",
    "robot_get_name",
    "robot_get_project_path",
    "robot_get_synchronization",
    "robot_get_time",
    "robot_keyboard_enable",
    "robot_keyboard_disable",
    "robot_keyboard_get_key",
    "robot_task_new",
    "robot_mutex_new",
    "robot_mutex_delete",
    "robot_mutex_lock",
    "robot_mutex_unlock",
]
FIELDS = [
    "type",
    "maxVelocity",
    "maxForce",
    "maxTorque",
    "controlP",
    "controlPID",
    "acceleration",
    "position",
    "minPosition",
    "maxPosition",
    "minStop",
    "maxStop",
    "springConstant",
    "dampingConstant",
    "staticFriction",
    "consumptionFactor",
    "multiplier",
    "sound",
    "muscles",
    "translation",
    "rotation",
    "controller",
    "controllerArgs",
    "synchronization",
    "battery",
    "cpuConsumption",
    "selfCollision",
]


def test_every_function_and_field_has_a_row():
    rows = {name for row in ROWS for name in row.seed.split(", ")}
    assert set(FUNCTIONS + FIELDS) - rows == set()


def test_every_method_named_exists_and_every_method_of_the_joints_has_a_row():
    named = {row.method for row in ROWS if row.method}
    for method in named:
        owner, name = method.split(".")
        assert callable(getattr(CLASSES[owner], name))
    inherited = {"getName", "getModel", "getNodeType", "getMotor", "getType", "getSamplingPeriod", "enable", "disable"}
    for owner in (Motor, PositionSensor, Brake):
        methods = {name for name in vars(owner) if re.match(r"(get|set|enable|disable)[A-Z]?", name)}
        missing = {f"{owner.__name__}.{name}" for name in methods - inherited} - named
        assert missing == set()


def test_capabilities_are_complete_and_rows_use_their_words():
    assert set(IDEAL_CAPABILITIES) == set(DYNAMIXEL_CAPABILITIES) == set(CAPABILITIES)
    words = {word for row in ROWS for word in supports(row)}
    assert words == {"native", "emulated", "unsupported"}


def test_every_class_of_the_controller_module_has_its_submodule():
    assert module_name("PositionSensor") == "position_sensor"
    assert module_name("LED") == "led"
    assert module_name("GPS") == "gps"
    assert module_name("AnsiCodes") == "ansi_codes"
    names = set(CLASSES) | set(HIDDEN)
    listed = [
        "Accelerometer",
        "Altimeter",
        "AnsiCodes",
        "Brake",
        "Camera",
        "CameraRecognitionObject",
        "Compass",
        "Connector",
        "ContactPoint",
        "Display",
        "DistanceSensor",
        "Emitter",
        "Field",
        "GPS",
        "Gyro",
        "InertialUnit",
        "Joystick",
        "Keyboard",
        "LED",
        "Lidar",
        "LidarPoint",
        "LightSensor",
        "Motion",
        "Motor",
        "Mouse",
        "MouseState",
        "Node",
        "PositionSensor",
        "Proto",
        "Radar",
        "RadarTarget",
        "RangeFinder",
        "Receiver",
        "Robot",
        "Skin",
        "Speaker",
        "Supervisor",
        "TouchSensor",
        "VacuumGripper",
        "Device",
        "Sensor",
    ]
    assert set(listed) - names == set()
