"""Servos that lose their power or their torque in a run: nothing is silent, and nothing snaps when it comes back."""

import os
import signal
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import dynamixel_sdk as sdk
import pytest

import axbridge
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.protocols.v1 import encode
from axbridge.config.instructions import Instruction
from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning
from tests.support.robot_files import write_feetech_comb
from tests.support.waiting import until
from tests.support.warm import start

pytestmark = pytest.mark.slow
SOFT = 0.5  # s in which torque rises
ROBOTS = {
    "koch": ("wrist_roll", 5),
    "bioloid": ("right_elbow", 5),
    "feetech": ("s2", 2),
}  # a joint that little weighs on
ASLEEP = 'base = "sts3215"\nname = "asleep"\nbehaviour = { auto_torque_on_goal = false }\n'
BACK = "without power until now: "


class Other:
    """Somebody else on the line, with dynamixel-sdk; and the hand at the supply."""

    def __init__(self, server, port, rig):
        self._server, self._port = server, sdk.PortHandler(port)
        self.protocol = 2 if rig == "koch" else 1
        self.torque_enable = {"bioloid": 24, "koch": 64, "feetech": 40}[rig]
        self._packets = sdk.PacketHandler(float(self.protocol))
        assert self._port.openPort()
        assert self._port.setBaudRate(1_000_000)

    def say(self, text):
        self._server.stdin.write(text + "\n")
        self._server.stdin.flush()

    def torque(self, id_):
        def answer():
            value, result, _ = self._packets.read1ByteTxRx(self._port, id_, self.torque_enable)
            return result == sdk.COMM_SUCCESS and (value,)

        return until(answer)[0]

    def switch(self, id_, *, on):
        until(lambda: self._packets.write1ByteTxRx(self._port, id_, self.torque_enable, on)[1] == sdk.COMM_SUCCESS)

    def insist_on_off(self, id_):
        """What nobody answers, and past the SDK, which would throw away what the robot waits for."""
        os.write(self._port.ser.fd, encode(BROADCAST, Instruction.SYNC_WRITE, bytes((self.torque_enable, 1, id_, 0))))

    def reboot(self, id_):
        until(lambda: self._packets.reboot(self._port, id_)[0] == sdk.COMM_SUCCESS)

    def close(self):
        self._port.closePort()


@contextmanager
def driven(name):
    """A robot on a served bus that holds where it is, one of its servos, and the other client."""
    with TemporaryDirectory() as folder:
        if name == "feetech":  # whether a goal wakes them, no table says: here it does not
            (Path(folder) / "asleep.toml").write_text(ASLEEP, encoding="utf-8")
            rig = write_feetech_comb(Path(folder), profile="asleep.toml")
        with served(name, rig if name == "feetech" else name) as what:
            yield what


@contextmanager
def served(name, rig):
    with start("serve", str(rig)) as server:
        try:
            port = server.stdout.readline().split()[1]
            with axbridge.open(rig, backend="real", port=port) as robot:
                other = Other(server, port, name)
                for servo in robot.values():
                    servo.torque_on()
                step(robot, 0.5)
                yield robot, robot[ROBOTS[name][0]], other
                other.close()
        finally:
            server.terminate()


def step(robot, seconds):
    for _ in range(round(seconds / 0.02)):
        robot.step(20)


def step_until(robot, condition, seconds):
    """Step until something is so; the robot's time that it took."""
    began = robot.time
    while not condition():
        robot.step(20)
        assert robot.time - began < seconds, f"not so within {seconds} s"
    return robot.time - began


@contextmanager
def hearing(words):
    """Let warnings be warnings, of which one has these words; yields all of them."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield said
    assert any(words in str(one.message) for one in said), [str(one.message) for one in said]


def kinds(robot, name):
    return {event.kind for event in robot.last_step.events if event.name == name}


def first_speed(robot, servo, after=2.0):
    """The highest speed while a fifth of the torque's rise passes, as the bus counts time; steps on `after` s."""
    clock, speeds = robot._connection.backend.clock, [0.0]
    begun = clock.now()
    while clock.now() < begun + SOFT / 5:
        robot.step(20)
        if clock.now() < begun + SOFT / 5:
            speeds.append(abs(servo.velocity))
    step(robot, after)
    return max(speeds)


def lose_power_alone(robot, servo, other):
    other.say(f"dead:{servo.config.id}")
    step_until(robot, lambda: servo.name in robot.last_step.errors, 5.0)
    other.say("none")


def lose_power_with_all(_robot, _servo, other):
    other.say("power-cycle")


def be_rebooted(_robot, servo, other):
    other.reboot(servo.config.id)


@pytest.mark.parametrize(
    ("name", "mishap"),
    [
        ("bioloid", lose_power_alone),
        ("bioloid", lose_power_with_all),
        ("koch", lose_power_alone),
        ("koch", lose_power_with_all),
        ("koch", be_rebooted),
        ("feetech", lose_power_alone),
        ("feetech", lose_power_with_all),
    ],
)
def test_a_servo_that_was_without_power_goes_on_softly_from_where_it_is_and_that_is_said(name, mishap):
    with driven(name) as (robot, servo, other):
        servo.set_position(1.2)  # far away, from the next step on
        with hearing(BACK):
            mishap(robot, servo, other)
            step_until(robot, lambda: "without power" in kinds(robot, servo.name), 10.0)
            assert robot.causes[servo.name] == ["without power"]
            assert servo.torque_enabled
            assert first_speed(robot, servo) < 0.25 * servo.max_velocity
        assert servo.position == pytest.approx(1.2, abs=0.06)
        assert all(other.torque(one.config.id) for one in robot.values())
        assert robot.causes == {}
        assert robot.withheld == frozenset()


@pytest.mark.parametrize("rig", ["koch", pytest.param("feetech", marks=pytest.mark.alone)])
def test_torque_that_another_program_switches_off_is_said_and_stays_off_until_somebody_wants_it_back(rig):
    name, id_ = ROBOTS[rig]
    with driven(rig) as (robot, servo, other):
        other.switch(id_, on=0)
        with hearing(f"servo {name!r} has no torque, and stays limp until recover(): something else") as said:
            took = step_until(robot, lambda: "torque off" in kinds(robot, name), 1.0)
            for _ in range(50):
                servo.set_position(1.2)  # as a loop does that knows nothing of it
                robot.step(20)
        assert (took < 1.0, len(said)) == (True, 1)
        assert (servo.torque_enabled, servo.goals.enabled, other.torque(id_)) == (False, False, 0)
        assert (robot.causes, robot.withheld) == ({name: ["torque off"]}, {name})
        assert servo.position == pytest.approx(0.0, abs=0.1)
        servo.recover()
        assert first_speed(robot, servo) < 0.25 * servo.max_velocity
        assert (servo.torque_enabled, other.torque(id_), robot.causes) == (True, 1, {})
        assert servo.position == pytest.approx(1.2, abs=0.06)


@pytest.mark.parametrize("who", ["the program", "the other"])
def test_torque_that_is_switched_on_again_is_used_again_softly(who):
    with driven("koch") as (robot, servo, other):
        other.switch(5, on=0)
        with pytest.warns(ControlWarning, match="'wrist_roll' has no torque"):
            step(robot, 1.0)
        if who == "the program":
            servo.torque_on()
            assert servo.torque_enabled
        else:
            other.switch(5, on=1)
        servo.set_position(1.2)
        step_until(robot, lambda: servo.torque_enabled and not robot.causes, 0.2)
        assert first_speed(robot, servo) < 0.25 * servo.max_velocity
        assert servo.position == pytest.approx(1.2, abs=0.06)


def test_an_ax_whose_torque_somebody_takes_away_again_and_again_is_said_to_be_off_and_is_not_switched_on():
    """One that gets a goal has its torque again, so that it is off only at times."""
    with driven("bioloid") as (robot, servo, other):
        over = threading.Event()

        def insist():
            while not over.wait(0.005):
                other.insist_on_off(5)

        thread = threading.Thread(target=insist)
        thread.start()
        try:
            with hearing("'right_elbow' has no torque, and stays limp until recover"):
                # on a busy machine a step may take so long that the servo may as well have been without power
                step_until(robot, lambda: "torque off" in kinds(robot, "right_elbow"), 5.0)
        finally:
            over.set()
            thread.join()
        servo.set_position(1.2)
        step(robot, 1.0)
        assert (servo.torque_enabled, other.torque(5)) == (False, 0)
        assert robot.causes == {"right_elbow": ["torque off"]}
        servo.recover()
        assert first_speed(robot, servo) < 0.25 * servo.max_velocity
        assert servo.position == pytest.approx(1.2, abs=0.06)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_program_that_paused_while_the_supply_was_off_does_not_make_a_joint_jump(name):
    with driven(name) as (robot, servo, other):
        other.say("power-cycle")
        time.sleep(1.5)  # nobody steps, as at a breakpoint
        servo.set_position(1.2)
        with hearing(BACK):
            step_until(robot, lambda: "without power" in kinds(robot, servo.name), 1.0)
            assert first_speed(robot, servo) < 0.25 * servo.max_velocity
        assert servo.position == pytest.approx(1.2, abs=0.06)


# ---- in simulated time


def with_registers(rig, name, **registers):
    loaded = Rig.load(rig)
    servos = [s.model_copy(update={"registers": registers}) if s.name == name else s for s in loaded.servos]
    return loaded.model_copy(update={"servos": tuple(servos)})


def power_cycle(robot, name):
    world = robot.simulation.world
    world.servos[name].power_cycle(world.now())


@pytest.mark.parametrize(
    ("name", "registers"),
    [("bioloid", {"cw_compliance_slope": 64, "punch": 50}), ("koch", {"position_p_gain": 900})],
)
def test_what_the_rig_wants_in_ram_is_written_again(name, registers):
    joint = ROBOTS[name][0]
    with axbridge.open(with_registers(name, joint, **registers)) as robot:
        robot[joint].torque_on()
        step(robot, 0.2)
        power_cycle(robot, joint)
        with pytest.warns(ControlWarning, match=BACK + joint):
            step_until(robot, lambda: "without power" in kinds(robot, joint), 2.0)
        assert {register: robot[joint].read(register) for register in registers} == registers


def test_a_servo_that_shuts_itself_down_is_said_to_be_off():
    with axbridge.open("bioloid") as robot:
        elbow = robot["right_elbow"]
        elbow.torque_on()
        step(robot, 0.2)
        robot.simulation.inject("overload:5")
        with pytest.warns(ControlWarning, match="'right_elbow' has no torque, and stays limp until recover.*overload"):
            step(robot, 1.0)
        assert (elbow.torque_enabled, robot.causes) == (False, {"right_elbow": ["torque off"]})
        elbow.torque_on()  # nothing but `recover` wakes it
        step(robot, 0.2)
        assert elbow.read("torque_limit") == 0
        elbow.recover()
        step(robot, 1.0)
        assert (elbow.torque_enabled, robot.causes) == (True, {})


def test_slow_steps_let_no_joint_jump_that_was_without_power_in_between():
    with axbridge.open("bioloid") as robot:
        elbow = robot["right_elbow"]
        elbow.torque_on()
        for _ in range(3):
            robot.step(300)
        elbow.set_position(1.2)
        power_cycle(robot, "right_elbow")  # it is back before anybody reads it
        with pytest.warns(ControlWarning, match=BACK):
            robot.step(300)
        step(robot, 0.1)
        assert abs(elbow.velocity) < 0.25 * elbow.max_velocity
        step(robot, 1.0)
        assert elbow.position == pytest.approx(1.2, abs=0.06)


TURNING = {  # registers of the rig, what the program wants, and whether it still turns two seconds later
    "extended position": ({"operating_mode": 4}, lambda servo: servo.set_position(2.5), False),
    "position by current": ({"operating_mode": 5}, lambda servo: servo.set_position(1.5), False),
    "velocity": ({}, lambda servo: (servo.set_position(float("inf")), servo.set_velocity(0.5)), True),
    "duty": ({}, lambda servo: servo.set_duty(0.15), True),
    "current": ({}, lambda servo: servo.set_torque(0.02), True),
}


@pytest.mark.parametrize("mode", TURNING)
def test_an_x_servo_goes_on_in_its_mode_without_a_jump(mode):
    registers, command, turns = TURNING[mode]
    with axbridge.open(with_registers("koch", "wrist_roll", **registers)) as robot:
        servo = robot["wrist_roll"]
        command(servo)
        step(robot, 0.2)
        set_up = {name: servo.read(name) for name in ("operating_mode", "drive_mode", "torque_enable")}
        power_cycle(robot, "wrist_roll")
        with pytest.warns(ControlWarning, match=BACK):
            step_until(robot, lambda: "without power" in kinds(robot, "wrist_roll"), 2.0)
        here = servo.position
        robot.step(20)
        assert abs(servo.read("goal_pwm")) < 885 / 5
        robot.step(20)
        assert {name: servo.read(name) for name in set_up} == set_up
        assert first_speed(robot, servo, 0.5) < 0.25 * servo.max_velocity
        if turns:
            assert servo.position > here + 0.1
        else:
            step(robot, 2.0)
            assert servo.position == pytest.approx(servo.target_position, abs=0.1)


def test_x_servos_have_their_torque_again_when_a_program_goes_on_after_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever other tests have left there
    try:
        with driven("koch") as (robot, servo, other):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert other.torque(5) == 0
            servo.set_position(1.2)
            robot.step(20)
            assert first_speed(robot, servo) < 0.25 * servo.max_velocity
            assert servo.position == pytest.approx(1.2, abs=0.06)
            assert robot.causes == {}
    finally:
        signal.signal(signal.SIGINT, before)
