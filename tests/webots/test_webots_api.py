"""The `controller` module: names, values, messages and traps of Webots' Python API, on one small rig."""

import math
import os
import pty
import select
import types
from pathlib import Path

import pytest

from axbridge.webots.keyboard import decode

pytestmark = pytest.mark.slow

LINK = '<link name="{0}"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
URDF = (
    f"<robot name='toy'>{LINK.format('base')}{LINK.format('l1')}{LINK.format('l2')}"
    "<joint name='a' type='continuous'><parent link='base'/><child link='l1'/><axis xyz='0 0 1'/></joint>"
    "<joint name='b' type='prismatic'><parent link='base'/><child link='l2'/><axis xyz='1 0 0'/>"
    "<limit lower='-1' upper='1' effort='9' velocity='9'/></joint></robot>"
)
RIG = """name = "toy"
[world]
urdf = "robot.urdf"
gravity = [0, 0, 0]
[robot]
basic_time_step_ms = 16
battery = [100, 200, 0]
cpu_consumption = 10
[webots]
time_step_ms = 32
aliases = { ShoulderR = "shoulder", ShoulderRS = "shoulder_sensor", ElbowR = "elbow" }
devices = { eye = "Camera" }
custom_data = "hello"
model = "Toy 2"
[[servo]]
name = "shoulder"
joint = "a"
drive = "ideal"
min_position = -1.63
max_position = 1.51
resolution = 0.1
[[servo]]
name = "slider"
joint = "b"
drive = "ideal"
"""


def test_devices_are_found_by_name_alias_and_index(controller, capsys):
    robot = controller.Robot()
    motor = robot.getDevice("shoulder")
    assert motor is robot.getDevice("shoulder")
    for name, kind in (("ShoulderR", "Motor"), ("ShoulderRS", "PositionSensor"), ("shoulder_brake", "Brake")):
        assert isinstance(robot.getDevice(name), getattr(controller, kind))
    assert robot.getNumberOfDevices() >= robot.number_of_devices >= 7
    assert robot.getDeviceByIndex(0) is motor
    with pytest.raises(KeyError):
        robot.getDeviceByIndex(99)
    capsys.readouterr()
    assert robot.getDevice("elbow") is None
    first, names = capsys.readouterr().err.splitlines()
    assert first == 'Device "elbow" was not found on robot "toy"'
    assert "it has: shoulder, shoulder_sensor" in names
    assert robot.getDevice("sholder") is None
    assert "did you mean 'shoulder'?" in capsys.readouterr().err
    for device, alias in (("shoulder_motor", "shoulder"), ("sensor of shoulder", "shoulder_sensor"), ("m1", "")):
        assert robot.getDevice(device) is None
        errors = capsys.readouterr().err
        assert f'aliases = {{ "{device}" = "{alias}' in errors
        assert "DistanceSensor" not in errors
    assert robot.getDevice("ElbowR") is None
    assert "  it is an alias of 'elbow'; it has: shoulder, " in capsys.readouterr().err
    missing = controller.Motor("nobody")
    missing.setPosition(1.0)
    assert missing.getMaxVelocity() == 0
    errors = capsys.readouterr().err
    assert '"nobody" device not found' in errors
    assert "invalid device tag" in errors
    assert robot.getMotor("shoulder") is motor
    assert "DEPRECATION: Robot.getMotor is deprecated, please use Robot.getDevice instead." in capsys.readouterr().err


def test_the_other_devices_of_a_joint_have_their_own_names(controller):
    robot = controller.Robot()
    motor, slider = robot.getDevice("shoulder"), robot.getDevice("slider")
    assert motor.getPositionSensor().getName() == "ShoulderRS"  # the rig's alias
    assert motor.getBrake().getName() == "shoulder_brake"
    assert slider.getPositionSensor().getName() == "slider_sensor"
    assert slider.position_sensor.brake.name == "slider_brake"
    assert slider.getBrake().getPositionSensor().getName() == "slider_sensor"
    assert robot.getDevice("slider_sensor").getMotor().getName() == "slider"
    assert robot.getDevice("slider sensor").getName() == "slider sensor"  # as it was asked for
    assert robot.getDevice("ShoulderRS").getMotor().getName() == "ShoulderR"


def test_facts_of_the_one_robot_of_a_process(controller, capsys):
    robot = controller.Robot()
    assert (robot.getName(), robot.name, robot.getModel(), robot.getCustomData()) == ("toy", "toy", "Toy 2", "hello")
    assert repr(robot.getBasicTimeStep()) == "32.0"
    facts = robot.getTime(), robot.getMode(), robot.getSynchronization(), robot.getSupervisor()
    assert facts == (0.0, 0, True, False)
    robot.custom_data = "bye"
    assert robot.getCustomData() == "bye"
    assert "<robot" in robot.getUrdf()
    with pytest.raises(AttributeError):
        robot.name = "other"
    assert not hasattr(controller.Robot(), "devices")
    assert "only one Robot instance" in capsys.readouterr().err


def test_motor_defaults_and_getters_echo_requests(controller, capsys):
    robot = controller.Robot()
    motor = robot.getDevice("shoulder")
    most = motor.getMaxVelocity(), motor.getVelocity(), motor.getMaxTorque(), motor.getAcceleration()
    assert most == (10, 10, 10, -1)
    assert (motor.getMinPosition(), motor.getMaxPosition(), motor.getMultiplier()) == (-1.63, 1.51, 1)
    slider = robot.getDevice("slider")
    assert (slider.getMinPosition(), slider.getMaxPosition()) == (0, 0)  # unlimited
    assert (motor.getType(), slider.getType()) == (controller.Motor.ROTATIONAL, controller.Motor.LINEAR)
    assert motor.getNodeType() == controller.Node.ROTATIONAL_MOTOR
    assert slider.getNodeType() == controller.Node.LINEAR_MOTOR
    motor.setPosition(100)
    assert motor.getTargetPosition() == motor.target_position == 100
    assert capsys.readouterr().err.endswith("too big requested position: 100 > 1.51\n")
    motor.setVelocity(-2)
    assert motor.getVelocity() == 10
    assert "negative velocity" in capsys.readouterr().err
    motor.setPosition(float("nan"))
    assert motor.getTargetPosition() == 100
    with pytest.raises(TypeError):
        motor.setPosition(None)
    slider.setAvailableForce(3.0)
    assert slider.getAvailableForce() == slider.available_torque == 3.0
    motor.target_velocity = 2
    assert motor.getVelocity() == 2
    with pytest.raises(AttributeError):
        _ = motor.torque


def test_sensors_read_nan_first_and_round_as_webots_does(controller, capsys):
    robot = controller.Robot()
    motor, sensor = robot.getDevice("shoulder"), robot.getDevice("shoulder").getPositionSensor()
    assert sensor.getSamplingPeriod() == 0
    assert math.isnan(sensor.getValue())
    assert "called for a disabled device" in capsys.readouterr().err
    sensor.enable(-1)
    assert "must not be negative" in capsys.readouterr().err
    sensor.enable(32)
    assert math.isnan(sensor.value)
    motor.setPosition(-0.3)
    assert sum(robot.step(32) for _ in range(60)) == 0
    assert sensor.getValue() == pytest.approx(-0.2)  # int(-3 + 0.5)
    assert robot.getTime() == 60 * 32 / 1000
    direct = controller.PositionSensor("slider_sensor")
    assert direct.getSamplingPeriod() == 32
    sensor.sampling_period = None
    assert sensor.getSamplingPeriod() == 0


def test_absent_devices_warn_once(controller, capsys):
    robot = controller.Robot()
    eye = robot.getDevice("eye")
    assert isinstance(eye, controller.Camera)
    eye.enable(32)
    assert eye.getImage() is None
    assert math.isnan(robot.getDistanceSensor("ds0").getValue())
    assert isinstance(robot.getGPS("gps"), controller.GPS)
    assert math.isnan(robot.getDevice("gps").getValues()[0])
    assert robot.getDevice("camera") is None  # its name does not say what it is
    errors = capsys.readouterr().err
    assert errors.count('Camera "eye": this robot has none') == 1
    led = robot.getLED("led0")
    led.set(1)
    assert led.get() == 1


def test_what_absent_devices_return_has_the_type_that_webots_gives(controller):
    robot = controller.Supervisor()
    eye = robot.getDevice("eye")
    assert eye.getWidth() * eye.getHeight() == eye.width == 0
    assert (math.isnan(eye.getFov()), eye.hasRecognition()) == (True, False)
    lidar = robot.getLidar("lidar")
    assert (lidar.getRangeImage(), lidar.getNumberOfLayers()) == ([], 0)
    assert (robot.joystick.getPressedButton(), robot.joystick.isConnected()) == (-1, False)
    assert (robot.mouse.getState().left, math.isnan(robot.mouse.getState().x)) == (False, True)
    me = robot.getSelf()
    assert len(me.getField("translation").getSFVec3f()) == len(me.getPosition()) == 3
    assert len(me.getOrientation()) == 9
    assert robot.getFromDef("ARM") is None  # as in Webots, when there is no such node


def test_star_imports_subclasses_split_steps_and_old_names_work(controller):
    exec("from controller import *", names := {})
    assert names["Robot"] is controller.Robot
    from controller import pen
    from controller.device import Device
    from controller.position_sensor import PositionSensor

    assert PositionSensor is controller.PositionSensor
    assert issubclass(controller.Motor, Device)
    assert pen.Pen is controller.Pen

    robot = type("Mine", (controller.Supervisor,), {})()
    assert (robot.stepBegin(32), robot.stepEnd(), robot.step(), robot.step(0)) == (0, 0, 0, 0)
    assert robot.getTime() == 0.064
    assert robot.getFromDef("ARM") is None
    servo = robot.getServo("shoulder")
    servo.enablePosition(32)
    servo.setMotorForce(5.0)
    servo.setControlP(12.0)
    servo.setPosition(0.7)
    assert sum(robot.step(32) for _ in range(40)) == 0
    assert (servo.getPosition(), servo.getPositionSamplingPeriod()) == (pytest.approx(0.7), 32)


@pytest.mark.parametrize(
    ("typed", "codes"),
    [
        ("a", [65]),
        ("A", [0x10000 + 65]),
        ("\x02", [0x20000 + 66]),
        ("\x1b[A", [315]),
        ("\x1b[1;5C", [0x20000 + 316]),
        ("\x1b[5~x", [366, 88]),
        ("\x1bz", [0x40000 + 90]),
        ("1 ", [49, 32]),
    ],
)
def test_terminal_keys_have_webots_codes(typed, codes):
    assert decode(typed) == codes


@pytest.fixture
def strike(controller, monkeypatch):
    """Return a function that types keys on the controller's terminal."""
    host, terminal = pty.openpty()
    with os.fdopen(terminal, "r") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)

        def struck(keys):
            os.write(host, keys)
            assert select.select([stdin], (), (), 30)[0]

        yield struck
        controller.Robot.created.keyboard.disable()
    os.close(host)


def test_a_held_key_stays_held_until_the_terminal_stops_repeating_it(controller, strike, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("axbridge.webots.keyboard.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    robot = controller.Robot()
    robot.keyboard.enable(32)

    def keys():
        robot.step(32)
        return list(iter(robot.keyboard.getKey, -1))

    strike(b"a")
    assert [keys() for _ in range(3)] == [[65]] * 3
    now[0] += 0.4  # before the first repeat
    assert keys() == [65]
    strike(b"aaa")
    assert keys() == [65]  # once a step, however often it came
    now[0] += 0.2
    assert keys() == []


def test_keys_from_a_pipe_that_never_ends_do_not_hold_the_step_up(controller, monkeypatch):
    robot = controller.Robot()
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr("sys.stdin", endless)
        robot.keyboard.enable(32)
        assert robot.step(32) == 0
        robot.keyboard.disable()


def test_the_keyboard_gives_the_keys_of_a_step_under_its_newer_and_older_names_too(controller, strike):
    robot = controller.Robot()
    keyboard = robot.getKeyboard()
    assert keyboard.getSamplingPeriod() == 0
    keyboard.enable(32)
    assert keyboard.sampling_period == 32
    strike(b"a\x1b[A")
    assert keyboard.getKey() == -1
    robot.step(32)
    assert [keyboard.getKey(), keyboard.get_key(), keyboard.getKey(), keyboard.get_key()] == [65, "up", -1, ""]
    keyboard.sampling_period = None
    robot.keyboardEnable(32)
    strike(b"b")
    robot.step(32)
    assert [robot.keyboardGetKey(), robot.keyboardGetKey()] == [66, 0]
    robot.keyboardDisable()
    assert keyboard.getSamplingPeriod() == 0


@pytest.fixture
def motion(controller, tmp_path, capsys):
    """Load a motion, by default from 0 to 0.4 and back in 200 ms, and play it: the targets of so many steps of 50 ms."""
    robot = controller.Robot()
    motor = robot.getDevice("shoulder")
    file = tmp_path / "wave.motion"

    def played(steps):
        return [round(motor.getTargetPosition(), 9) for _ in range(steps) if robot.step(50) == 0]

    def loaded(rows="00:00:000,A,0,1\n00:00:100,B,0.4,1\n00:00:200,C,0,1\n"):
        file.write_text(f"#WEBOTS_MOTION,V1.0,shoulder,no\n{rows}")
        wave = controller.Motion(str(file))
        assert 'motor "no" not found' in capsys.readouterr().err
        assert wave.isValid()
        return wave, played

    return loaded


def test_a_motion_plays_once_stops_and_goes_to_a_time(motion):
    wave, played = motion()
    assert (wave.getDuration(), wave.duration, wave.isOver()) == (200, 200, False)
    wave.play()
    assert played(3) == [0, 0.2, 0.4]
    wave.stop()
    assert played(2) == [0.4, 0.4]
    wave.play()
    assert (played(3), wave.isOver()) == ([0.2, 0, 0], True)
    wave.play()
    assert played(2) == [0, 0.2]
    wave.setTime(180)
    assert wave.getTime() == wave.time == 180


@pytest.mark.parametrize(("backwards", "last"), [(False, 0.0), (True, 0.2)])
def test_a_motion_leaves_a_motor_alone_between_rows_of_which_one_has_a_star(motion, backwards, last):
    wave, played = motion("0,A,*,1\n100,B,0.4,1\n200,C,0,1\n300,D,*,1\n")
    wave.setReverse(backwards)
    wave.play()
    assert played(7) == [0, 0, 0, 0.2, last, last, last]


def test_a_motion_loops_and_runs_backwards(motion):
    wave, played = motion()
    wave.setReverse(True)
    wave.play()
    assert played(3) == [0, 0.2, 0.4]
    wave.setTime(0)
    assert (played(2), wave.is_over) == ([0, 0], True)
    wave.reverse = False
    wave.setLoop(True)
    wave.play()
    assert (played(6), wave.isOver()) == ([0, 0.2, 0.4, 0.2, 0, 0], False)  # each round sends both ends
    wave.loop = False
    played(15)
    assert wave.isOver()


def test_a_loop_beyond_a_limit_is_warned_once(controller, capsys):
    robot = controller.Robot()
    motor = robot.getDevice("shoulder")
    for step in range(90):
        motor.setPosition(3 * math.sin(step / 5))
        motor.setVelocity(11 + step)
        motor.setVelocity(-1)  # refused
        robot.step(32)
    errors = capsys.readouterr().err.splitlines()
    assert [line.split("position")[0].split("velocity")[0] for line in errors] == [
        "Warning: shoulder: requested ",
        "Warning: shoulder: negative ",
        "Warning: shoulder: too big requested ",
        "Warning: shoulder: too low requested ",
    ]
