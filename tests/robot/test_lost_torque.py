"""Servos that lose power or torque, or are blocked: each is reported, and torque returns softly."""

import math
from contextlib import ExitStack, nullcontext
from itertools import product

import pytest

import axbridge
from axbridge.config.registers import Instruction
from axbridge.config.rig import Rig
from axbridge.errors import ControlWarning
from axbridge.virtual.bus import VirtualBus
from tests.support.pty_line import PtyLine
from tests.support.robot_files import write_comb, write_feetech_comb, write_horn
from tests.support.waiting import run, until
from tests.support.warm import serving

pytestmark = pytest.mark.slow
SOFT = 0.5  # s in which torque rises
ROBOTS = {"koch": "wrist_roll", "bioloid": "right_elbow", "feetech": "s2"}  # a joint that little weighs on
ASLEEP = 'base = "sts3215"\nname = "asleep"\nbehaviour = { auto_torque_on_goal = false }\n'
BACK = "without power until now: "
STOPS = "min_stop = -0.8\nmax_stop = 0.5"  # rad


@pytest.fixture
def driven(tmp_path):
    """Opens a simulated robot that holds where it is: the robot, one of its servos, and what that has in its registers."""
    with ExitStack() as opened:

        def drive(name):
            rig = name
            if name == "feetech":  # whether a goal wakes them, no table says: here it does not
                (tmp_path / "asleep.toml").write_text(ASLEEP, encoding="utf-8")
                rig = write_feetech_comb(tmp_path, profile="asleep.toml")
            robot = opened.enter_context(axbridge.open(rig))
            for cycle in robot._connection.cycles.values():
                cycle.watchdogs.wanted = True  # as on a real line
            for servo in robot.values():
                servo.torque_on()
            run(robot, 0.2)
            return robot, robot[ROBOTS[name]], robot.simulation.world.servos[ROBOTS[name]]

        yield drive


def switch(robot, virtual, *, on):
    """Switch torque as another program on the bus does."""
    address = virtual.profile.register("torque_enable").address
    VirtualBus(robot.simulation.world).write(virtual.id, address, bytes((on,)))


def step_until(robot, condition, seconds):
    """Step until something is so."""
    began = robot.time
    while not condition():
        robot.step(20)
        assert robot.time - began < seconds, f"not so within {seconds} s"


def kinds(robot, name):
    return {event.kind for event in robot.last_step.events if event.name == name}


def first_speed(robot, servo, after=2.0):
    """The highest speed while a fifth of the torque's rise passes, as the bus counts time; steps on `after` s."""
    clock, speeds = robot._connection.backend.clock, [0.0]
    start = clock.now()
    while clock.now() < start + SOFT / 5:
        robot.step(20)
        if clock.now() < start + SOFT / 5:
            speeds.append(abs(servo.velocity))
    run(robot, after)
    return max(speeds)


def lose_power_alone(robot, servo):
    robot.simulation.inject(f"dead:{servo.config.id}")
    step_until(robot, lambda: servo.name in robot.last_step.errors, 5.0)
    robot.simulation.inject("none")


def lose_power_with_all(robot, _servo):
    robot.simulation.world.power_cycle()


def lose_power_while_nobody_steps(robot, servo):
    lose_power_with_all(robot, servo)
    robot.simulation.world.sleep_until(robot.simulation.world.now() + 1.5)  # as at a breakpoint


def be_rebooted(robot, servo):
    VirtualBus(robot.simulation.world).instruct(servo.config.id, Instruction.REBOOT)


@pytest.mark.parametrize(
    ("name", "mishap"),
    [
        *product(("koch", "feetech"), (lose_power_alone, lose_power_with_all, lose_power_while_nobody_steps)),
        *(("koch", be_rebooted), ("bioloid", lose_power_alone)),  # an AX-12 alone: tests/robot/test_unasked_motion.py
        *(
            pytest.param("bioloid", function, marks=pytest.mark.ci)
            for function in (lose_power_with_all, lose_power_while_nobody_steps)
        ),
    ],
)
def test_after_a_power_loss_a_servo_restarts_softly_at_its_position_with_a_warning(driven, name, mishap):
    robot, servo, _ = driven(name)
    servo.set_position(1.2)  # far away, from the next step on
    mishap(robot, servo)
    with pytest.warns(ControlWarning, match=BACK):
        step_until(robot, lambda: "without power" in kinds(robot, servo.name), 10.0)
    assert robot.causes[servo.name] == ["without power"]
    assert servo.torque_enabled
    here = servo.position
    assert first_speed(robot, servo) < 0.25 * servo.max_velocity
    assert servo.position == pytest.approx(here, abs=0.06)  # the goal from before is void
    servo.set_position(1.2)
    run(robot, 2.0)
    assert servo.position == pytest.approx(1.2, abs=0.06)
    assert all(servo.table["torque_enable"] for servo in robot.simulation.world.servos.values())
    assert (robot.causes, robot.withheld) == ({}, frozenset())


def test_servos_without_power_are_set_up_again_in_the_order_of_the_rig(driven):
    robot, servo, _ = driven("bioloid")  # the order of 18 names in a set is another one in nearly each process
    revive, revived = robot._connection.revive, []

    def note(name, *, on):
        revived.append(name)
        return revive(name, on=on)

    robot._connection.revive = note
    lose_power_while_nobody_steps(robot, servo)
    with pytest.warns(ControlWarning, match="without power until now: all servos"):
        step_until(robot, lambda: len(revived) >= len(robot), 10.0)
    assert revived == list(robot)


@pytest.mark.parametrize("name", ROBOTS)
def test_torque_that_another_program_switches_off_is_reported_and_stays_off_until_recover(driven, name, monkeypatch):
    robot, servo, virtual = driven(name)
    receive = robot._connection.receive
    words = rf"servo {servo.name!r} has no torque, and stays limp until recover\(\): something else"
    with monkeypatch.context() as insisting:  # after each goal, which switches an AX-12 on again
        insisting.setattr(robot._connection, "receive", lambda: switch(robot, virtual, on=False) or receive())
        with pytest.warns(ControlWarning, match=words):
            step_until(robot, lambda: "torque off" in kinds(robot, servo.name), 1.0)
    for _ in range(50):  # it is reported once
        servo.set_position(1.2)  # as a loop without a notice does
        robot.step(20)
    assert (servo.torque_enabled, servo.goals.enabled, virtual.table["torque_enable"]) == (False, False, 0)
    assert (robot.causes, robot.withheld) == ({servo.name: ["torque off"]}, {servo.name})
    assert servo.position == pytest.approx(0.0, abs=0.1)
    servo.recover()
    assert first_speed(robot, servo) < 0.25 * servo.max_velocity
    assert (servo.torque_enabled, virtual.table["torque_enable"], robot.causes) == (True, 1, {})
    assert servo.position == pytest.approx(1.2, abs=0.06)


@pytest.mark.parametrize("by", ["the program", "the other"])
def test_torque_that_is_switched_on_again_rises_softly(driven, by):
    robot, servo, virtual = driven("koch")
    switch(robot, virtual, on=False)
    with pytest.warns(ControlWarning, match="'wrist_roll' has no torque"):
        run(robot, 1.0)
    if by == "the program":
        servo.torque_on()
        assert servo.torque_enabled
    else:
        switch(robot, virtual, on=True)
    servo.set_position(1.2)
    step_until(robot, lambda: servo.torque_enabled and not robot.causes, 0.2)
    assert first_speed(robot, servo) < 0.25 * servo.max_velocity
    assert servo.position == pytest.approx(1.2, abs=0.06)


def power_cycle(robot, name):
    world = robot.simulation.world
    world.servos[name].power_cycle(world.now())


def test_no_joint_jumps_after_a_power_loss_between_slow_steps():
    with axbridge.open("bioloid") as robot:
        elbow = robot["right_elbow"]
        elbow.torque_on()
        for _ in range(3):
            robot.step(300)
        elbow.set_position(1.2)
        power_cycle(robot, "right_elbow")  # it is back before anybody reads it
        with pytest.warns(ControlWarning, match=BACK):
            robot.step(300)
        run(robot, 0.1)
        assert abs(elbow.velocity) < 0.25 * elbow.max_velocity
        elbow.set_position(1.2)
        run(robot, 1.0)
        assert elbow.position == pytest.approx(1.2, abs=0.06)


MODES = {  # registers of the rig, and what the program wants
    "extended position": ({"operating_mode": 4, "position_p_gain": 900}, lambda servo: servo.set_position(2.5)),
    "position by current": ({"operating_mode": 5}, lambda servo: servo.set_position(1.5)),
    "velocity": ({}, lambda servo: (servo.set_position(float("inf")), servo.set_velocity(0.5))),
    "duty": ({}, lambda servo: servo.set_duty(0.15)),
    "current": ({}, lambda servo: servo.set_torque(0.02)),
}


@pytest.mark.parametrize("mode", MODES)
def test_an_x_servo_keeps_its_mode_after_a_power_loss_and_stops_until_its_next_command(mode):
    registers, command = MODES[mode]
    rig = Rig.load("koch").with_servos(lambda servo: {"registers": registers} if servo.name == "wrist_roll" else {})
    with axbridge.open(rig) as robot:
        servo = robot["wrist_roll"]
        command(servo)
        run(robot, 0.2)
        set_up = {name: servo.read(name) for name in (*registers, "operating_mode", "drive_mode", "torque_enable")}
        power_cycle(robot, "wrist_roll")
        with pytest.warns(ControlWarning, match=BACK):
            step_until(robot, lambda: "without power" in kinds(robot, "wrist_roll"), 2.0)
        here = servo.position
        robot.step(20)
        assert abs(servo.read("goal_pwm")) < 885 / 5
        robot.step(20)
        assert {name: servo.read(name) for name in set_up} == set_up
        assert first_speed(robot, servo, 0.5) < 0.25 * servo.max_velocity
        assert servo.position == pytest.approx(here, abs=0.06)
        command(servo)
        run(robot, 1.0)
        assert abs(servo.position - here) > 0.1


COMMANDS = {
    "a speed": lambda servo: (servo.set_position(math.inf), servo.set_velocity(1.5)),
    "a duty": lambda servo: servo.set_duty(0.3),
    "a torque": lambda servo: servo.set_torque(0.15 * servo.max_torque),
}
FAMILIES = "ax-12a", "mx-28", "xl430-w250", "sts3215", "scs0009"


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
@pytest.mark.parametrize(
    ("family", "what"), [case for case in product(FAMILIES, COMMANDS) if case != ("mx-28", "a duty")]
)
def test_a_servo_that_turned_before_a_power_loss_stops_until_its_next_command(tmp_path, family, what):
    with axbridge.open(write_horn(tmp_path, family)) as robot:
        (servo,) = robot.values()
        COMMANDS[what](servo)
        run(robot, 0.3)
        robot.simulation.inject("brownout:0.05s")
        step_until(robot, lambda: "without power" in kinds(robot, servo.name), 3.0)
        run(robot, 0.2)
        start = servo.truth.position
        assert max(run(robot, 0.6, lambda: abs(servo.truth.position - start))) < math.radians(5)
        assert servo.torque_enabled
        COMMANDS[what](servo)
        assert max(run(robot, 0.6, lambda: abs(servo.velocity))) > 0.2


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
def test_a_servo_that_lost_its_turn_count_does_not_turn_to_its_old_goal():
    servo = {"name": "winch", "joint": "a", "id": 1, "profile": "xl430-w250", "zero": 2048}
    servo |= {"registers": {"operating_mode": 4}, "min_position": -30, "max_position": 30}
    with PtyLine({1: "xl430-w250"}) as line:
        line.set(1, operating_mode=4)
        line.set(1, present_position=8000)
        rig = Rig.model_validate({"name": "crane", "servo": [servo]})
        with axbridge.open(rig, backend="real", port=line.port) as robot:
            robot["winch"].set_position(9.0)
            robot.step(20)
            line.power_cycle()
            until(lambda: robot.step(20) >= 0 and robot.withheld)
            run(robot, 0.2)
            assert not line[1].table["torque_enable"]
            robot["winch"].recover()
            run(robot, 0.2)
            assert line[1].table["torque_enable"]
            assert line[1].table["goal_position"] == pytest.approx(8000 - 4096, abs=3)


def drive_into_the_stop(robot):
    """Return the time from the block until the torque is reduced, s on the robot's clock."""
    servo, stood = robot["s1"], None
    servo.set_position(0.05)  # near: a far first goal is approached slowly
    robot.step(20)
    servo.set_position(1.5)
    for _ in range(150):
        robot.step(20)
        if stood is None and abs(servo.velocity) < 0.05 and servo.position > 0.4:
            stood = robot.time
        if "blocked" in robot.causes.get("s1", ()):
            return robot.time - stood
    return None


@pytest.fixture(params=["sim", pytest.param("real", marks=pytest.mark.real_time)])
def robot(request, tmp_path):
    rig, backend = write_feetech_comb(tmp_path, more=STOPS), request.param
    with serving(rig) if backend == "real" else nullcontext() as port, axbridge.open(rig, backend, port=port) as opened:
        yield opened


def test_a_blocked_joint_is_reported_loses_torque_in_time_and_gets_it_back(robot):
    words = "servo 's1' is blocked: it pushes with 97% of its torque and does not move"
    with pytest.warns(ControlWarning, match=words):
        took = drive_into_the_stop(robot)
    assert took < 0.3
    servo = robot["s1"]
    assert servo.read("torque_limit") == 300
    run(robot, 1.0)
    assert abs(servo.load) < 0.31
    assert robot.causes == {"s1": ["blocked"]}
    servo.set_position(0.2)
    assert min(run(robot, 1.5, lambda: servo.read("torque_limit"))) == 300  # with less, a load would fall
    assert (robot.causes, servo.read("torque_limit")) == ({}, 1000)
    assert servo.position == pytest.approx(0.2, abs=0.05)


def test_a_joint_that_accelerates_is_not_reported_as_blocked(tmp_path):
    with axbridge.open(write_feetech_comb(tmp_path)) as robot:  # a warning is an error
        for goal in (1.5, -1.5, 0.0):
            for servo in robot.values():
                servo.set_position(goal)
            run(robot, 1.5)


def test_a_gripper_at_its_torque_limit_is_not_reported_as_blocked(tmp_path):
    rig = write_feetech_comb(tmp_path, more=STOPS)
    rig.write_text(rig.read_text().replace("return_delay_time = 0", "return_delay_time = 0, max_torque = 500"))
    with axbridge.open(rig) as robot:
        assert drive_into_the_stop(robot) is None
        assert robot["s1"].load == pytest.approx(0.5, abs=0.01)


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
@pytest.mark.parametrize(("word", "left"), [("", 0), ("safety = { stall = 0.2 }", 205)])  # 0: it shuts itself down
def test_dynamixels_are_watched_only_if_the_rig_sets_stall(tmp_path, word, left):
    with axbridge.open(write_comb(tmp_path, 1, extra=word, more=STOPS)) as robot:
        took = drive_into_the_stop(robot)
        assert (took is not None) == (left > 0)
        assert robot["s1"].read("torque_limit") == left
