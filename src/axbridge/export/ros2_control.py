"""Export of a rig for ros2_control: its servos as a xacro snippet, and a launch file that serves virtual servos."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from axbridge.config.rig import Rig, ServoSpec
from axbridge.config.rig_tables import BusConfig, ServoConfig
from axbridge.errors import RigError, UsageError

_LAUNCH = '''"""Virtual servos of the rig {rig} on {link}, for the hardware interface of {name}.ros2_control.xacro."""

from launch import LaunchDescription
from launch.actions import ExecuteProcess


def generate_launch_description():
    """Add your robot_state_publisher and controller_manager; start them once the port is there."""
    serve = ["axbridge", "serve", "{rig}", "--link", "{link}"]
    return LaunchDescription([ExecuteProcess(cmd=serve, output="screen")])
'''


def to_ros2_control(rig: Rig, link: str) -> dict[str, str]:
    """Return texts by file name: a xacro snippet and a launch file.

    Args:
        rig: The rig.
        link: The port in both files; for real servos that of the adapter.

    Raises:
        RigError: the rig has no servos on a bus.
        UsageError: the rig has several buses, or a Feetech servo turns against its joint.
    """
    if not rig.dynamixels:
        raise RigError(rig.path, "servo", "this rig has no servos on a bus", "give another rig")
    if len(rig.buses) > 1:
        raise UsageError(f"rig {rig.name} has several buses, and ros2_control opens one", "make a rig of each bus")
    snippet = _snippet(rig, rig.buses[0], link)
    launch = _LAUNCH.format(rig=rig.name if rig.comes_along else rig.path.resolve(), link=link, name=rig.name)
    return {f"{rig.name}.ros2_control.xacro": snippet, f"{rig.name}.launch.py": launch}


def _snippet(rig: Rig, bus: BusConfig, link: str) -> str:
    feetech = rig.specs[rig.dynamixels[0].name].profile.maker == "Feetech"
    root = ET.Element("robot")
    control = ET.SubElement(root, "ros2_control", name=rig.name, type="system")
    hardware = ET.SubElement(control, "hardware")
    plugin = "feetech_ros2_driver/FeetechHardwareInterface" if feetech else "dynamixel_hardware/DynamixelHardware"
    ET.SubElement(hardware, "plugin").text = plugin
    _params(hardware, {"usb_port" if feetech else "port_name": link, "baud_rate": bus.baud})
    for servo in rig.dynamixels:
        joint = ET.SubElement(control, "joint", name=servo.joint)
        _params(joint, {"id": servo.id} | (_counts(rig, servo) if feetech else _turn(rig.specs[servo.name])))
        ET.SubElement(joint, "command_interface", name="position")
        for state in ("position", "velocity", *(() if feetech else ("effort",))):
            ET.SubElement(joint, "state_interface", name=state)
    ET.indent(root)
    return f"<!-- Put the element ros2_control into your robot's URDF. -->\n{ET.tostring(root, encoding='unicode')}\n"


def _counts(rig: Rig, servo: ServoConfig) -> dict[str, object]:
    if servo.direction == -1:
        why = f"{servo.name} turns against its joint (direction = -1), and feetech_ros2_driver has no key for that"
        hint = "turn the axis of the joint round in the URDF, and write direction = 1"
        raise UsageError(f"rig {rig.name}: {why}", hint)
    return {"offset": servo.zero}


def _turn(spec: ServoSpec) -> dict[str, object]:
    """Return zero and direction: dynamixel_hardware sends the servo to `gear_ratio` times (joint + `offset`), rad."""
    servo, units = spec.config, spec.profile.units
    offset = servo.direction * (servo.zero - units.middle) * units.position
    return ({"gear_ratio": -1} if servo.direction == -1 else {}) | ({"offset": round(offset, 6)} if offset else {})


def _params(parent: ET.Element, values: dict[str, object]) -> None:
    for name, value in values.items():
        ET.SubElement(parent, "param", name=name).text = str(value)
