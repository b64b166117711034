"""Functions that an AX-12 lacks, emulated through registers: torque, endless turning, acceleration, Webots' PID."""

import math
import random

import pytest

import axbridge
from axbridge import ControlWarning, UnsupportedOperation, webots
from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import AX
from axbridge.robot.drives.shaft_speed import TurnCounter
from axbridge.servo.columns import State, pack
from axbridge.servo.steady import SteadyServo
from axbridge.webots import uninstall
from axbridge.webots.robot import Robot as WebotsRobot
from tests.support.ideal_world import Bench
from tests.support.robot_files import write_horn
from tests.support.waiting import run
from tests.support.warm import serving

pytestmark = pytest.mark.slow

PROFILE = FirmwareProfile.load("ax-12a")
SERVO = SteadyServo.of(pack(ServoModel.load("ax12", PROFILE), PROFILE.units.position))
END = math.radians(150)
VOLTS = 12.0


@pytest.fixture
def wheel_rig(tmp_path):
    """A flywheel of 0.05 kg·m² on an AX-12."""

    def write(model="ax12", **keys):
        keys = {"model": model, **keys}
        lines = "\n".join(f"{key} = {value!r}".replace("'", '"') for key, value in keys.items())
        return write_horn(tmp_path, "ax-12a", 0.05, lines)

    return write


def true_torque(robot):
    return float(robot.simulation.world.bank.state[0, State.TORQUE])


@pytest.mark.parametrize("model", ["lima2009", "ax12"])
@pytest.mark.parametrize("torque", [0.2, 0.5, 1.0])
def test_torque_at_stall_is_what_was_commanded(wheel_rig, model, torque):
    with axbridge.open(wheel_rig(model=model, min_stop=-0.3, max_stop=0.3)) as robot:
        servo = robot["horn"]
        with pytest.warns(ControlWarning, match="no current sensor"):
            servo.set_torque(torque)
        run(robot, 1.5)
        assert servo.velocity == 0
        assert true_torque(robot) == pytest.approx(torque, rel=0.1)
        assert servo.torque == pytest.approx(true_torque(robot), rel=0.1)


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
@pytest.mark.parametrize("model", ["lima2009", "ax12"])
@pytest.mark.parametrize("torque", [0.2, 0.5, 1.0])
def test_torque_in_motion_is_what_was_commanded_while_the_supply_suffices(wheel_rig, model, torque):
    with axbridge.open(wheel_rig(model=model, position=-2.0)) as robot:
        servo = robot["horn"]
        servo.set_torque(torque)
        run(robot, 0.1)
        seen = []
        while abs(servo.load) < 0.97 and servo.position < 1.5:
            robot.step(20)
            seen.append(true_torque(robot))
        assert servo.velocity > 0.8
        assert len(seen) >= 3
        wanted = [torque] * (len(seen) - 1)
        assert seen[:-1] == pytest.approx(wanted, rel=0.12)  # in the first sample, back-EMF is being learned


@pytest.mark.parametrize("model", ["lima2009", "ax12"])
def test_a_controller_reads_a_wheels_turns_through_the_dead_zone(wheel_rig, model, capsys):
    session = webots.install(wheel_rig(model=model), "sim")
    robot = WebotsRobot()
    motor, sensor = robot.getDevice("horn"), robot.getDevice("horn_sensor")
    sensor.enable(20)
    motor.setPosition(math.inf)
    motor.setVelocity(3.0)
    servo = session.robot["horn"]
    samples = run(robot, 6.0, lambda: (sensor.getValue(), servo.truth.position, servo.position))
    seen, truth, read = zip(*samples, strict=True)
    assert truth[-1] > 2 * 2 * math.pi
    assert seen == pytest.approx(truth, abs=math.radians(5))
    assert max(read) < 2.62 < servo.turned  # what the servo measured is as it was
    motor.setPosition(0.4)
    run(robot, 0.04)
    assert sensor.getValue() == servo.turned == servo.position  # a joint again, without turns
    motor.setPosition(math.inf)
    robot.step(20)
    assert servo.turned == pytest.approx(servo.position, abs=0.1)  # counted again
    session.close()
    uninstall()


def test_webots_pid_runs_on_the_host_with_controller_pid(wheel_rig):
    rig = wheel_rig(model="ax12", controller="pid", control_pid=[3.0, 0.0, 0.0])
    with pytest.warns(ControlWarning, match="Webots' PID runs on the host"):
        robot = axbridge.open(rig)
    with robot:
        servo = robot["horn"]
        servo.set_position(0.6)
        run(robot, 0.5)
        assert servo.position == pytest.approx(0.6 * (1 - math.exp(-3 * 0.5)), abs=0.12)
        run(robot, 2.0)
        assert servo.position == pytest.approx(0.6, abs=5.5 * AX.position)  # the bridge swallows what 5 counts ask for
    with axbridge.open("bench_arm") as robot, pytest.raises(UnsupportedOperation, match="has no pid\\nits rig may say"):
        robot["shoulder"].set_control_pid(1.0, 0.0, 0.0)


@pytest.mark.parametrize("controller", ["firmware", "pid"])
def test_a_rig_with_an_acceleration_warns_that_the_host_emulates_it(wheel_rig, controller):
    with pytest.warns(ControlWarning) as caught:
        axbridge.open(wheel_rig(acceleration=4.0, controller=controller)).close()
    assert "has no acceleration limit: the host raises and lowers its speed" in str(caught[0].message)
    assert len(caught) == (2 if controller == "pid" else 1)


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
def test_a_robot_changes_from_simulation_to_the_real_bus_and_back_while_it_runs():
    with serving("bench_arm") as port, axbridge.open("bench_arm") as robot:
        servo = robot["shoulder"]
        servo.set_position(0.5)
        servo.set_velocity(2.0)
        run(robot, 1.0)
        assert servo.position == pytest.approx(0.5, abs=0.05)
        robot.switch("real", port=port)
        assert (robot.backend, robot.mode, robot.time) == ("real", 1, 1.0)
        assert servo.read("goal_position") == servo.read("present_position")  # no jump
        assert servo.read("torque_enable") == 1
        assert servo.position == pytest.approx(0.0, abs=0.02)  # another arm, which hangs
        assert servo.velocity_limit == 2.0
        run(robot, 0.5)
        assert servo.position == pytest.approx(0.0, abs=0.03)  # the goal from before is void
        servo.set_position(0.5)
        run(robot, 1.5)
        assert servo.position == pytest.approx(0.5, abs=0.05)
        with pytest.raises(axbridge.PortError):
            robot.switch("real", port="/dev/no-such-port")
        assert robot.backend == "real"
        robot.step(20)
        robot.switch("sim")
        servo.set_position(0.5)
        run(robot, 1.2)
        assert servo.position == pytest.approx(0.5, abs=0.05)
        with pytest.raises(axbridge.UsageError, match="the simulator has no port"):
            robot.switch("sim", port=port)
        robot.switch("real")  # the port of before, not another adapter
        assert robot.step(20) >= 0
        assert servo.read("id") == 1


def sample(time, angle, speed, reading):
    """Return an AX-12's readings of a shaft at `angle`, rad: in the dead zone `reading` and no speed."""
    seen = (angle + math.pi) % (2 * math.pi) - math.pi
    inside = abs(seen) < END
    duty = SERVO.duty(0.0, VOLTS, speed)
    position, velocity = (seen, speed) if inside else (reading(seen), 0.0)
    return {"time": time, "position": position, "velocity": velocity, "load": duty, "voltage": VOLTS}.__getitem__


READINGS = {
    "the nearer end": lambda seen: math.copysign(END, seen),
    "where it went in": lambda seen: END,
    "anything": lambda seen: random.Random(seen).uniform(-END, END),
}


@pytest.mark.parametrize("reading", READINGS.values(), ids=list(READINGS))
@pytest.mark.parametrize("speed", [4.0, -4.0, 0.5])
def test_turns_are_counted_whatever_the_sensor_says_in_the_dead_zone(reading, speed):
    counter = TurnCounter(SERVO, (-END, END), 0.0)
    off = []
    for step in range(600):
        angle = speed * step * 0.02
        counted = counter.update(sample(step * 0.02, angle, speed, reading), SERVO.duty(0.0, VOLTS, speed))
        off.append(abs(counted - angle))
    assert sorted(off)[len(off) // 2] < 1e-9  # where the shaft is seen
    assert max(off) < (math.pi if reading is READINGS["anything"] else math.radians(5))  # never by a turn


def test_a_turn_back_within_the_dead_zone_is_no_turn():
    counter = TurnCounter(SERVO, (-END, END), 2.0)
    for step in range(300):
        angle = 2.0 + 1.0 * math.sin(step * 0.02 * 3)  # up to 3.0, beyond 2.618
        speed = 3 * math.cos(step * 0.06)
        seen = sample(step * 0.02, angle, speed, READINGS["the nearer end"])
        position = counter.update(seen, SERVO.duty(0.0, VOLTS, speed))
        assert position == pytest.approx(angle, abs=math.radians(20))


def test_a_rig_of_ideal_joints_cannot_be_driven_on_a_real_bus(tmp_path):
    with pytest.raises(UnsupportedOperation, match="ideal joint"):  # not: there is no adapter
        axbridge.open(Bench(tmp_path).rig({}), backend="real")
