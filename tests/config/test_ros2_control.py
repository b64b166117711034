"""Servos in the `<ros2_control>` of a URDF, in each dialect, and rigs exported to it."""

import pytest

from axbridge.config.rig import Rig
from axbridge.config.ros2_control import Ros2Servo, read_ros2_control
from axbridge.errors import RigError, UsageError
from axbridge.export.ros2_control import to_ros2_control
from tests.support.robot_files import write_comb

HARDWARE = """<hardware><plugin>{plugin}</plugin>
<param name="{port}">/dev/ttyUSB3</param><param name="baud_rate">57600</param>{more}</hardware>"""
BY_JOINT = HARDWARE.format(plugin="dynamixel_hardware/DynamixelHardware", port="usb_port", more="") + """
<joint name="j1"><param name="id">11</param><command_interface name="position"/></joint>
<joint name="j2"><param name="id">12</param><command_interface name="velocity"/></joint>"""  # fmt: skip
MATRIX = '<param name="transmission_to_joint_matrix">0, 1, 1, 0</param>'
BY_GPIO = HARDWARE.format(plugin="dynamixel_hardware_interface/Hardware", port="port_name", more=MATRIX) + """
<joint name="j1"/><joint name="j2"/>
<gpio name="dxl1"><param name="type">dxl</param><param name="ID">12</param><param name="Position P Gain">800</param></gpio>
<gpio name="dxl2"><param name="type">dxl</param><param name="ID">11</param></gpio>
<gpio name="sensor"><param name="type">sensor</param><param name="ID">1</param></gpio>"""  # fmt: skip
FEETECH = HARDWARE.format(plugin="feetech_ros2_driver/FeetechHardwareInterface", port="usb_port", more="") + """
<joint name="j1"><param name="id">11</param><param name="offset">2000</param></joint>
<joint name="j2"><param name="id">12</param><param name="p_cofficient">16</param></joint>"""  # fmt: skip
TURNED = BY_JOINT.replace(
    ">11</param>", '>11</param><param name="offset">1.5</param><param name="gear_ratio">-1.0</param>'
)


def urdf(folder, control):
    """Return a URDF of two arms with a <ros2_control> element."""
    path = write_comb(folder, 2).with_suffix(".urdf")
    element = f'<ros2_control name="c" type="system">{control}</ros2_control></robot>'
    path.write_text(path.read_text().replace("</robot>", element))
    return path


@pytest.mark.parametrize(
    ("control", "one", "other"),
    [
        (BY_JOINT, Ros2Servo(11, None, {}), Ros2Servo(12, None, {"operating_mode": 1})),
        (BY_GPIO, Ros2Servo(11, None, {}), Ros2Servo(12, None, {"position_p_gain": 800})),
        (FEETECH, Ros2Servo(11, 2000, {}), Ros2Servo(12, None, {"p_gain": 16})),
        (TURNED, Ros2Servo(11, None, {}, -1.5, -1), Ros2Servo(12, None, {"operating_mode": 1})),
        (
            BY_GPIO.replace("0, 1, 1, 0", "0, -1, 1, 0"),
            Ros2Servo(11, None, {}, 0.0, -1),
            Ros2Servo(12, None, {"position_p_gain": 800}),
        ),
    ],
    ids=["by joint", "by gpio", "feetech", "turned", "turned by gpio"],
)
def test_each_dialect_names_ids_port_rate_and_registers(tmp_path, control, one, other):
    read = read_ros2_control(urdf(tmp_path, control))
    assert (read.servos, read.port, read.baud) == ({"j1": one, "j2": other}, "/dev/ttyUSB3", 57600)


def test_a_rig_has_the_values_of_the_file(said, tmp_path):
    said("rig", "new", "made", "--urdf", urdf(tmp_path, BY_GPIO), "--profile", "xl430-w250")
    rig = Rig.load(str(tmp_path / "made"))
    assert [(servo.joint, servo.id) for servo in rig.servos] == [("j1", 11), ("j2", 12)]
    assert rig.servos[1].registers == {"position_p_gain": 800}
    assert (rig.buses[0].port, rig.buses[0].baud) == ("/dev/ttyUSB3", 57600)


def test_a_joints_mounting_is_read_from_the_file(said, tmp_path):
    path = urdf(tmp_path, TURNED.replace(">12</param>", '>12</param><param name="Current Limit">600</param>'))
    output = said("rig", "new", "made", "--urdf", path, "--profile", "xl430-w250")
    assert "left out, because xl430-w250 has no such registers: current_limit" in output
    servos = Rig.load(str(tmp_path / "made")).servos
    assert [(servo.zero, servo.direction) for servo in servos] == [(2048 - 978, -1), (2048, 1)]  # 1.5 rad


@pytest.mark.parametrize(("control", "ids"), [("", [1]), (BY_JOINT, [11, 12])])
@pytest.mark.filterwarnings("ignore:.*mimics:axbridge.errors.RigWarning")
def test_a_joint_that_mimics_another_gets_a_servo_only_if_the_file_has_its_id(said, tmp_path, control, ids):
    path = urdf(tmp_path, control)
    follows = '<child link="arm2"/><mimic joint="j1"/>'
    path.write_text(path.read_text().replace('<child link="arm2"/>', follows))
    said("rig", "new", "made", "--urdf", path, "--profile", "xl430-w250")
    assert [servo.id for servo in Rig.load(str(tmp_path / "made")).servos] == ids


@pytest.mark.parametrize(
    ("control", "why"),
    [
        (BY_JOINT.replace(">11<", '>11</param><param name="gear_ratio">2.0<'), "cannot have a gear"),
        (BY_JOINT.replace(">11<", '>11</param><param name="offset">one<'), "offset = 'one' is no number"),
        (BY_JOINT.replace(">11<", ">${prefix}1<"), "is no id\nexpand it first: xacro FILE"),
        (BY_JOINT.replace('<joint name="j1">', '<xacro:if value="1"/><joint name="j1">'), "not a readable URDF"),
        (BY_GPIO.replace("0, 1, 1, 0", "0, 1, 1"), "has 3 numbers for 2 joints and 2 servos"),
    ],
)
def test_what_a_rig_cannot_have_and_unexpanded_xacro_are_refused(tmp_path, control, why):
    with pytest.raises(RigError, match=why):
        read_ros2_control(urdf(tmp_path, control))


def test_without_ros2_control_the_result_is_none(tmp_path):
    assert read_ros2_control(urdf(tmp_path, "")) is None


@pytest.mark.parametrize("rig", ["koch", "so101", "leg", "pan_tilt", "bioloid"])
def test_a_rig_that_was_written_for_ros2_control_is_read_back(said, tmp_path, rig):
    assert f"wrote {rig}.launch.py" in said("export", "ros2", rig)
    own = Rig.load(rig)
    units = own.specs[own.dynamixels[0].name].profile.units
    control = read_ros2_control(tmp_path / f"{rig}.ros2_control.xacro")
    assert {joint: s.id for joint, s in control.servos.items()} == {s.joint: s.id for s in own.dynamixels}
    for servo in own.dynamixels:
        there = control.servos[servo.joint]
        zero = units.middle + round(there.offset / units.position) if there.zero is None else there.zero
        assert (zero, there.direction) == (servo.zero, servo.direction)
    compile((tmp_path / f"{rig}.launch.py").read_text(), "launch", "exec")


def test_a_joint_that_a_driver_cannot_turn_round_is_refused(tmp_path):
    rig = Rig.load("so101").with_servos(lambda servo: {"direction": -1} if servo.id == 2 else {})
    with pytest.raises(UsageError, match="shoulder_lift turns against its joint.*feetech_ros2_driver has no key"):
        to_ros2_control(rig, "/tmp/arm")
