"""A rig for ros2_control: its servos as a xacro snippet, and a launch file that serves virtual ones beside it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from axbridge.config.rig import Rig
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
    """Text by the name of its file: a xacro snippet for each bus, and a launch file.

    Args:
        rig: Whose servos.
        link: The port that both files name; for real servos give that of the adapter.

    Raises:
        RigError: the rig has no servos on a bus.
    """
    if not rig.dynamixels:
        raise RigError(rig.path, "servo", "this rig has no servos on a bus", "give another rig")
    if len(rig.buses) > 1:
        raise UsageError(f"rig {rig.name} has several buses, and ros2_control opens one", "make a rig of each bus")
    snippet = _snippet(rig, rig.buses[0], link)
    launch = _LAUNCH.format(rig=rig.name if rig.comes_along else rig.path.resolve(), link=link, name=rig.name)
    return {f"{rig.name}.ros2_control.xacro": snippet, f"{rig.name}.launch.py": launch}


def _snippet(rig: Rig, bus: BusConfig, link: str) -> str:
    feetech = rig.profile_of(rig.dynamixels[0]).maker == "Feetech"
    root = ET.Element("robot")
    control = ET.SubElement(root, "ros2_control", name=rig.name, type="system")
    hardware = ET.SubElement(control, "hardware")
    plugin = (
        "feetech_ros2_driver/FeetechHardwareInterface" if feetech else "dynamixel_hardware_interface/DynamixelHardware"
    )
    ET.SubElement(hardware, "plugin").text = plugin
    count = len(rig.dynamixels)
    given: dict[str, object] = {"usb_port" if feetech else "port_name": link, "baud_rate": bus.baud}
    if not feetech:
        identity = ", ".join("1" if i == j else "0" for i in range(count) for j in range(count))
        given |= {"number_of_joints": count, "number_of_transmissions": count, "error_timeout_ms": 500}
        given |= {"transmission_to_joint_matrix": identity, "joint_to_transmission_matrix": identity}
    _params(hardware, given)
    for servo in rig.dynamixels:
        joint = ET.SubElement(control, "joint", name=servo.joint)
        if feetech:
            _params(joint, {"id": servo.id, "offset": servo.zero})
        ET.SubElement(joint, "command_interface", name="position")
        for state in ("position", "velocity", *(() if feetech else ("effort",))):
            ET.SubElement(joint, "state_interface", name=state)
    for number, servo in enumerate(rig.dynamixels, 1):
        if not feetech:
            _gpio(control, number, servo)
    ET.indent(root)
    return f"<!-- Put <ros2_control> into your robot's URDF. -->\n{ET.tostring(root, encoding='unicode')}\n"


def _gpio(control: ET.Element, number: int, servo: ServoConfig) -> None:
    gpio = ET.SubElement(control, "gpio", name=f"dxl{number}")
    _params(gpio, {"type": "dxl", "ID": servo.id})
    ET.SubElement(gpio, "command_interface", name="Goal Position")
    for state in ("Present Position", "Present Velocity", "Present Current"):
        ET.SubElement(gpio, "state_interface", name=state)


def _params(parent: ET.Element, values: dict[str, object]) -> None:
    for name, value in values.items():
        ET.SubElement(parent, "param", name=name).text = str(value)
