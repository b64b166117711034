"""A robot on a serial port (the virtual bus): bad wiring is named, and a twin moves beside it."""

import os
import signal
import threading
import time
from contextlib import closing, contextmanager

import dynamixel_sdk as sdk
import pytest

import axbridge
from axbridge import RigError
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.protocols.v1 import encode
from axbridge.config.instructions import Instruction
from axbridge.config.registers import Address
from tests.support.waiting import until
from tests.support.warm import serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def port():
    with serving("bench_arm") as device:
        yield device


def test_two_buses_that_mean_one_adapter_are_named(port, tmp_path):
    link = tmp_path / "second"
    link.symlink_to(port)
    servos = [{"name": name, "joint": name, "id": 1, "bus": name} for name in ("left", "right")]
    buses = [{"name": "left"}, {"name": "right", "port": str(link)}]
    rig = axbridge.Rig.model_validate({"name": "pair", "bus": buses, "servo": servos})
    with pytest.raises(RigError, match="buses 'left' and 'right' are both on"):
        axbridge.open(rig, backend="real", port=port)


def test_the_real_robot_says_so(port):
    with axbridge.open("bench_arm", backend="real", port=port) as robot:
        assert (robot.mode, robot.backend) == (1, "real")
        assert 9 < robot["shoulder"].voltage < 10


def test_the_twin_moves_robot_and_shadow(port):
    with axbridge.open("bench_arm", backend="twin", port=port) as robot:
        robot["shoulder"].set_position(0.8)
        while robot.time < 0.6:
            robot.step(20)
        assert robot["shoulder"].position == pytest.approx(0.8, abs=0.03)
        assert robot.simulation.shadow()["shoulder"].position == pytest.approx(0.8, abs=0.03)
        robot["shoulder"].torque_off()


def test_a_twin_is_told_what_is_sent_in_any_way(port):
    with axbridge.open("bench_arm", backend="twin", port=port) as robot:
        bus, twin = robot._connection.backend.buses["main"], robot.simulation.world.servos["shoulder"].table
        bus.write(1, Address.LED, b"\1")
        assert twin["led"] == 1
        bus.instruct(1, Instruction.REG_WRITE, bytes((Address.GOAL_POSITION, 8, 2)))
        before = twin["goal_position"]
        bus.instruct(BROADCAST, Instruction.ACTION)
        assert (before != 520, twin["goal_position"]) == (True, 520)
        bus.sync_write(Address.LED, {1: b"\0"})
        assert twin["led"] == 0


def test_a_twin_whose_program_was_stopped_for_long_does_not_live_all_that_time_through(port):
    with axbridge.open("bench_arm", backend="twin", port=port) as robot:
        robot.step()
        bus = robot._connection.cycles["main"].bus
        bus.shadow.lag -= 3600.0  # as if an hour had passed
        before = robot.simulation.world.now()
        begun = time.monotonic()
        robot.step()
        assert robot.simulation.world.now() - before == pytest.approx(5.0, abs=0.5)
        assert time.monotonic() - begun < 30.0
        assert abs(robot.simulation.shadow()["shoulder"].time - robot.time) < 0.5


def test_environment_variables_choose_backend_and_port(port, monkeypatch):
    monkeypatch.setenv("AXBRIDGE_BACKEND", "real")
    monkeypatch.setenv("AXBRIDGE_PORT", port)
    with axbridge.open("bench_arm") as robot:
        assert robot.backend == "real"


def test_a_servo_found_shut_down_stays_limp_until_it_is_recovered():
    with serving("bench_arm") as port:
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            robot["shoulder"].write("torque_limit", 0)
        with pytest.warns(axbridge.ControlWarning, match="had shut itself down and stays limp"):
            robot = axbridge.open("bench_arm", backend="real", port=port)
        with robot:
            arm = robot["shoulder"]
            arm.set_position(0.6)
            while robot.time < 0.5:
                robot.step(20)
            assert arm.position == pytest.approx(0.0, abs=0.02)
            assert arm.read("torque_limit") == 0
            arm.recover()
            while robot.time < 2.0:
                robot.step(20)
            assert arm.position == pytest.approx(0.6, abs=0.03)


ELBOW, ROLL = ("bioloid", "right_elbow", 1.0, 24), ("koch", "wrist_roll", 2.0, 64)  # protocol and Torque Enable


class Other:
    """Somebody else on the line, with dynamixel-sdk."""

    def __init__(self, port, protocol, torque_enable):
        self._port, self._packets, self._place = sdk.PortHandler(port), sdk.PacketHandler(protocol), torque_enable
        assert self._port.openPort()
        assert self._port.setBaudRate(1_000_000)

    def torque(self, id_):
        def answer():
            value, result, _ = self._packets.read1ByteTxRx(self._port, id_, self._place)
            return result == sdk.COMM_SUCCESS and (value,)

        return until(answer)[0]

    def insist_on_off(self, id_):
        """What nobody answers, and past the SDK, which would throw away what the robot waits for."""
        os.write(self._port.ser.fd, encode(BROADCAST, Instruction.SYNC_WRITE, bytes((self._place, 1, id_, 0))))

    def close(self):
        self._port.closePort()


@contextmanager
def holding(rig, name, *line):
    """A robot that holds where it is, one of its servos, and the other client."""
    with serving(rig) as port, axbridge.open(rig, backend="real", port=port) as robot:
        for servo in robot.values():
            servo.torque_on()
        until(lambda: robot.step(20) >= 0 and robot.time > 0.5)
        with closing(Other(port, *line)) as other:
            yield robot, robot[name], other


def goes_on_softly(robot, servo):
    """It is on its way to 1.2 rad: slowly at first, while its torque rises, and it gets there."""
    begun, speeds = robot.time, [0.0]
    while robot.time < begun + 2.0:
        robot.step(20)
        if robot.time < begun + 0.1:
            speeds.append(abs(servo.velocity))
    assert max(speeds) < 0.25 * servo.max_velocity
    assert servo.position == pytest.approx(1.2, abs=0.06)


@pytest.mark.filterwarnings("ignore:without power until now:axbridge.errors.ControlWarning")  # on a busy machine
def test_an_ax_whose_torque_somebody_takes_away_again_and_again_is_said_to_be_off_and_is_not_switched_on():
    """One that gets a goal has its torque again, so that it is off only at times."""
    with holding(*ELBOW) as (robot, servo, other):
        over = threading.Event()

        def insist():
            while not over.wait(0.005):
                other.insist_on_off(5)

        thread = threading.Thread(target=insist)
        thread.start()
        try:
            with pytest.warns(
                axbridge.ControlWarning, match="'right_elbow' has no torque, and stays limp until recover"
            ):
                # on a busy machine a step may take so long that the servo may as well have been without power
                until(lambda: robot.step(20) >= 0 and robot.causes == {"right_elbow": ["torque off"]}, 10.0)
        finally:
            over.set()
            thread.join()
        servo.set_position(1.2)
        for _ in range(50):
            robot.step(20)
        assert (servo.torque_enabled, other.torque(5)) == (False, 0)
        assert robot.causes == {"right_elbow": ["torque off"]}
        servo.recover()
        goes_on_softly(robot, servo)


def test_x_servos_have_their_torque_again_when_a_program_goes_on_after_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever other tests have left there
    try:
        with holding(*ROLL) as (robot, servo, other):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert other.torque(5) == 0
            servo.set_position(1.2)
            robot.step(20)
            goes_on_softly(robot, servo)
            assert robot.causes == {}
    finally:
        signal.signal(signal.SIGINT, before)
