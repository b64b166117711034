"""Webots' sensors of the body in a controller: the rig's sensors under Webots' names, periods and units."""

import math

import pytest

from tests.support.robot_files import BOX as URDF  # noqa: F401 - of the fixture `controller`

pytestmark = pytest.mark.slow

RIG = """name = "box"
[world]
urdf = "robot.urdf"
fixed_base = false
ground = true
base_height = 0.05
[webots]
aliases = { "inertial unit" = "imu" }
devices = { Gyro = "Gyro", Accelerometer = "Accelerometer", eye = "Camera", heel = "TouchSensor" }
[[servo]]
name = "wheel"
joint = "shaft"
drive = "ideal"
[[sensor]]
name = "imu"
kind = "imu"
orientation_noise = 1e-6
[[sensor]]
name = "gps"
kind = "gps"
[[sensor]]
name = "bumper"
kind = "bumper"
[[sensor]]
name = "sole"
kind = "force-3d"
[[sensor]]
name = "pressure"
kind = "force"
rotation = [0, 1.5707963, 0]
[[sensor]]
name = "ds0"
kind = "distance"
position = [0, 0, 0.25]
rotation = [0, 1.5707963, 0]
range = 0.5
"""


def test_a_controller_reads_the_sensors_of_its_body(controller, capsys):
    robot = controller.Robot()
    names = ["inertial unit", "Gyro", "Accelerometer", "gps", "bumper", "sole", "pressure", "ds0"]
    devices = unit, gyro, pushed, gps, bumper, sole, pressure, eye = [robot.getDevice(name) for name in names]
    kinds = ["InertialUnit", "Gyro", "Accelerometer", "GPS", *["TouchSensor"] * 3, "DistanceSensor"]
    assert [type(device).__name__ for device in devices] == kinds
    assert unit.getNodeType() == controller.Node.INERTIAL_UNIT
    for device in devices:
        device.enable(64)
    robot.step(32)
    assert all(map(math.isnan, [*unit.getRollPitchYaw(), *gps.getValues(), bumper.getValue(), eye.getValue()]))
    assert sum(robot.step(32) for _ in range(9)) == 0
    assert unit.getRollPitchYaw() == pytest.approx([0, 0, 0], abs=0.01)
    assert unit.getQuaternion()[3] == pytest.approx(1, abs=1e-3)
    assert gyro.getValues() == pytest.approx([0, 0, 0], abs=0.05)
    assert pushed.getValues() == pushed.value == pytest.approx([0, 0, 9.81], abs=0.1)
    assert gps.getValues() == pytest.approx([0, 0, 0.05], abs=2e-3)
    assert gps.getSpeed() == pytest.approx(0, abs=0.01)
    assert (bumper.getValue(), bumper.getType()) == (1.0, controller.TouchSensor.BUMPER)
    assert sole.getValues() == pytest.approx([0, 0, 19.7], abs=1)
    assert (pressure.getValue(), pressure.getType()) == (pytest.approx(19.7, abs=1), controller.TouchSensor.FORCE)
    assert (eye.getValue(), eye.getMaxValue()) == (pytest.approx(0.3, abs=2e-3), 0.5)
    assert unit.getNoise() == unit.noise >= 0
    assert unit.getLookupTable() == unit.lookup_table == []
    assert gps.getCoordinateSystem() == controller.GPS.LOCAL
    assert gps.getSamplingPeriod() == gps.sampling_period == 64
    assert gps.getSpeedVector() == gps.speed_vector == pytest.approx([0, 0, 0], abs=0.01)
    assert (eye.getType(), eye.getMinValue(), eye.getAperture()) == (controller.DistanceSensor.GENERIC, 0.0, 0.0)
    assert "has none" not in capsys.readouterr().err


def test_every_sensor_that_is_enabled_after_each_step_has_a_value(controller):
    robot = controller.Robot()
    gyro, unit, gps, sole, eye = map(robot.getDevice, ("Gyro", "inertial unit", "gps", "sole", "ds0"))
    devices = gyro, unit, gps, sole, eye
    for _ in range(3):
        robot.step(32)
        for device in devices:
            device.enable(32)
    read = [*gyro.getValues(), *unit.getRollPitchYaw(), *gps.getValues(), *sole.getValues(), eye.getValue()]
    assert all(map(math.isfinite, read))


def test_a_device_that_the_rig_lacks_is_an_absent_device(controller, capsys):
    robot = controller.Robot()
    heel = robot.getDevice("heel")
    heel.enable(32)
    robot.step(32)
    assert math.isnan(heel.getValue())
    assert 'TouchSensor "heel": this robot has none' in capsys.readouterr().err
    assert math.isnan(robot.getDistanceSensor("ds1").getValue())


def test_a_sensor_is_found_and_listed_by_its_own_name(controller):
    robot = controller.Robot()
    assert type(robot.getDevice("imu_gyro")).__name__ == "Gyro"
    assert type(robot.getAccelerometer("whatever")).__name__ == "Accelerometer"
    listed = [robot.getDeviceByIndex(index).getName() for index in range(robot.getNumberOfDevices())]
    assert {"imu", "imu_gyro", "imu_accelerometer", "gps", "bumper", "ds0"} <= set(listed)
