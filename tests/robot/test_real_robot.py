"""A robot on a serial port (the virtual bus): faults at the start, soft starts, and its twin."""

import math
import signal
import time

import pytest

import axbridge
from axbridge import RigError
from axbridge.config.registers import Address
from tests.support.pty_line import PtyLine
from tests.support.virtual_rig import make_rig
from tests.support.waiting import run
from tests.support.warm import serving

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("registers", "limit"),
    [pytest.param({}, 1023, marks=pytest.mark.ci), ({"torque_limit": 800, "led": 1}, 800)],
)
def test_a_servo_that_is_shut_down_at_open_stays_limp_until_recover(registers, limit):
    rig = axbridge.Rig.load("bench_arm").with_servos(lambda _: {"registers": registers})
    with serving("bench_arm") as port:
        with axbridge.open("bench_arm", backend="real", port=port) as robot:
            robot["shoulder"].write("torque_limit", 0)
        with pytest.warns(axbridge.ControlWarning, match="had shut itself down and stays limp"):
            robot = axbridge.open(rig, backend="real", port=port)
        with robot:
            arm = robot["shoulder"]
            arm.set_position(0.6)
            run(robot, 0.5)
            assert arm.position == pytest.approx(0.0, abs=0.02)
            assert arm.read("torque_limit") == 0
            arm.recover()
            run(robot, 1.5)
            assert arm.position == pytest.approx(0.6, abs=0.03)
            assert arm.read("torque_limit") == limit
            arm.set_available_torque(0.0)
            run(robot, 0.1)
            assert arm.read("torque_limit") == 0
        with axbridge.open(rig, backend="real", port=port) as robot:  # no warning of a shutdown
            assert [robot["shoulder"].read(name) for name in ("torque_limit", "torque_enable")] == [limit, 0]


@pytest.mark.parametrize(("rig", "id_"), [("bench_arm", 1), ("koch", 5), ("so101", 6)])
def test_the_cause_of_a_servo_overloaded_at_open_is_reported(rig, id_):
    with serving(rig, "--faults", f"overload:{id_}") as port:
        with pytest.warns(axbridge.ControlWarning, match="had shut itself down and stays limp"):
            robot = axbridge.open(rig, backend="real", port=port)
        with robot:
            run(robot, 0.1)
            (name,) = (servo.name for servo in robot.rig.servos if servo.id == id_)
            assert robot.causes == {name: ["torque off", "overload"]}


def test_x_servos_have_their_torque_again_softly_when_a_program_goes_on_after_ctrl_c():
    with serving("koch") as port, axbridge.open("koch", backend="real", port=port) as robot:
        servo = robot["wrist_roll"]
        servo.torque_on()
        run(robot, 0.5)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert servo.read("torque_enable") == 0
        servo.set_position(1.2)
        robot.step(20)
        assert max(run(robot, 0.08, lambda: abs(servo.velocity))) < 0.25 * servo.max_velocity
        run(robot, 2.0)
        assert servo.position == pytest.approx(1.2, abs=0.06)
        assert robot.causes == {}


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("policy", ["hold", "limp"])
@pytest.mark.parametrize("profile", ["ax-12a", "xl330-m288", "sts3215"])
def test_a_soft_start_that_the_end_cuts_short_leaves_the_servos_own_limit(profile, policy, steps):
    rig = make_rig((1,), profile).overridden({"safety": {"on_exit": policy}})
    volts, names = rig.specs["s1"].profile.electrics.nominal_voltage, rig.specs["s1"].profile.names
    most, limit = names.most_torque, names.torque
    rig = rig.overridden({"bus": [{"name": "main", "supply_voltage": volts}]})
    with PtyLine({1: profile}) as line:
        line.set(1, **{most: 400, limit: 400})
        with axbridge.open(rig, "sim") as robot:
            robot["s1"].torque_on()
            robot.step(20)
            robot.switch("real", port=line.port)
            for _ in range(steps):
                robot.step(20)
            assert line[1].table[limit] < 200
        assert line[1].table[limit] == 400
        assert line[1].table["torque_enable"] == (policy == "hold")


@pytest.mark.parametrize("rig", ["bench_arm", "koch"])
def test_a_first_goal_that_is_far_away_is_approached_slowly_and_later_ones_are_not(rig):
    with serving(rig) as port, axbridge.open(rig, backend="real", port=port) as robot:
        servo = robot[-1]
        servo.torque_on()
        run(robot, 0.6)
        speeds = []
        for goal in (0.6, 0.0):
            servo.set_position(goal)
            speeds.append(max(run(robot, 1.2, lambda: abs(servo.velocity))))
        assert speeds[0] < math.radians(75)  # 45, and what a load makes of it
        assert speeds[1] > 1.5 * speeds[0]


# ---- a served bus, last: as long as it is there, it takes a twentieth of a core


@pytest.fixture(scope="module")
def port():
    with serving("bench_arm") as device:
        yield device


def test_two_buses_on_one_adapter_are_refused(port, tmp_path):
    link = tmp_path / "second"
    link.symlink_to(port)
    servos = [{"name": name, "joint": name, "id": 1, "bus": name} for name in ("left", "right")]
    buses = [{"name": "left"}, {"name": "right", "port": str(link)}]
    rig = axbridge.Rig.model_validate({"name": "pair", "bus": buses, "servo": servos})
    with pytest.raises(RigError, match="buses 'left' and 'right' are both on"):
        axbridge.open(rig, backend="real", port=port)


def test_a_twin_receives_every_packet(port):
    with axbridge.open("bench_arm", backend="twin", port=port) as robot:
        bus, twin = robot._connection.backend.buses["main"], robot.simulation.world.servos["shoulder"].table
        bus.write(1, Address.LED, b"\1")
        assert twin["led"] == 1
        bus.reg_write(1, Address.GOAL_POSITION, b"\x08\x02")
        before = twin["goal_position"]
        bus.action()
        assert (before != 520, twin["goal_position"]) == (True, 520)
        bus.sync_write(Address.LED, {1: b"\0"})
        assert twin["led"] == 0


def test_a_twin_skips_the_time_of_a_long_pause(port):
    with axbridge.open("bench_arm", backend="twin", port=port) as robot:
        robot.step()
        robot._connection.cycles["main"].bus.shadow.lag -= 3600.0  # as if an hour had passed
        before, start = robot.simulation.world.now(), time.monotonic()
        robot.step()
        assert robot.simulation.world.now() - before == pytest.approx(5.0, abs=0.5)
        assert time.monotonic() - start < 30.0
        assert abs(robot.simulation.shadow()["shoulder"].time - robot.time) < 0.5


def test_environment_variables_choose_backend_and_port(port, monkeypatch):
    monkeypatch.setenv("AXBRIDGE_BACKEND", "real")
    monkeypatch.setenv("AXBRIDGE_PORT", port)
    with axbridge.open("bench_arm") as robot:
        assert (robot.mode, robot.backend) == (1, "real")
        assert 9 < robot["shoulder"].voltage < 10
        assert math.isnan(robot["shoulder"].truth.position + robot["shoulder"].truth.torque)  # only a simulation knows
