"""The table of docs/reference-webots.md covers what Webots' pages list."""

import re

from axbridge.robot.drives.drive import CAPABILITIES
from axbridge.robot.drives.dynamixel import DYNAMIXEL_CAPABILITIES
from axbridge.robot.drives.ideal import IDEAL_CAPABILITIES
from axbridge.webots import CLASSES, HIDDEN
from axbridge.webots.devices import snake
from axbridge.webots.joints import Brake, Motor, PositionSensor
from tools.webots_coverage import ROWS, supports

# wb_ functions of the Servo, Motor and Robot pages, and the fields of their nodes
FUNCTIONS = {
    "motor": (
        "set_position set_velocity set_acceleration set_available_force set_available_torque set_control_pid "
        "get_target_position get_min_position get_max_position get_velocity get_max_velocity get_acceleration "
        "get_available_force get_max_force get_available_torque get_max_torque get_multiplier enable_force_feedback "
        "disable_force_feedback get_force_feedback_sampling_period get_force_feedback enable_torque_feedback "
        "disable_torque_feedback get_torque_feedback_sampling_period get_torque_feedback set_force set_torque "
        "get_type get_brake get_position_sensor"
    ),
    "servo": (
        "set_position get_target_position set_velocity set_acceleration set_motor_force set_control_p "
        "get_min_position get_max_position enable_position disable_position get_position_sampling_period get_position "
        "enable_motor_force_feedback get_motor_force_feedback get_motor_force_feedback_sampling_period "
        "disable_motor_force_feedback set_force get_type"
    ),
    "robot": (
        "step init cleanup get_device battery_sensor_enable battery_sensor_disable battery_sensor_get_value "
        "get_basic_time_step get_mode get_name get_project_path get_synchronization get_time keyboard_enable "
        "keyboard_disable keyboard_get_key task_new mutex_new mutex_delete mutex_lock mutex_unlock"
    ),
}
FIELDS = (
    "type maxVelocity maxForce maxTorque controlP controlPID acceleration position minPosition maxPosition "
    "minStop maxStop springConstant dampingConstant staticFriction consumptionFactor multiplier sound muscles "
    "translation rotation controller controllerArgs synchronization battery cpuConsumption selfCollision"
)


def test_every_function_and_field_has_a_row():
    rows = {name for row in ROWS for name in row.seed.split(", ")}
    functions = {f"{page}_{name}" for page, names in FUNCTIONS.items() for name in names.split()}
    assert (functions | set(FIELDS.split())) - rows == set()


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
    assert snake("PositionSensor") == "position_sensor"
    assert snake("LED") == "led"
    assert snake("GPS") == "gps"
    assert snake("AnsiCodes") == "ansi_codes"
    names = set(CLASSES) | set(HIDDEN)
    listed = (
        "Accelerometer Altimeter AnsiCodes Brake Camera CameraRecognitionObject Compass Connector ContactPoint "
        "Display DistanceSensor Emitter Field GPS Gyro InertialUnit Joystick Keyboard LED Lidar LidarPoint "
        "LightSensor Motion Motor Mouse MouseState Node PositionSensor Proto Radar RadarTarget RangeFinder Receiver "
        "Robot Skin Speaker Supervisor TouchSensor VacuumGripper Device Sensor"
    )
    assert set(listed.split()) - names == set()
