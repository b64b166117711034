"""After every end of the program a wheel is a joint again, or a message gives the command that repairs it."""

import math
from contextlib import nullcontext

import pytest

import axbridge
from axbridge.errors import BusTimeout
from tests.support import ends
from tests.support.robot_files import write_built
from tests.support.waiting import run
from tests.support.warm import serving

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")]

CASES = [(1, how) for how in ("script", "exception", "SIGTERM", "SIGHUP", "SIGKILL")] + [(2, "sys.exit")]


@pytest.fixture(scope="module")
def served(request, tmp_path_factory):
    """`bench_arm` with servos of one status return level, which also write unchanged EEPROM bytes and do not receive meanwhile."""
    level = {"registers": {"status_return_level": request.param}}
    rig = write_built(tmp_path_factory.mktemp("rig"), "bench_arm", {"shoulder": level})
    with serving(rig, "--faults", "deaf") as port:
        yield ends.Line(str(rig), port)


@pytest.mark.parametrize(("served", "how"), CASES, indirect=["served"], ids=str)
def test_the_angle_limits_are_back(served, how):
    ended = ends.end(served, "wheel", how, step_ms=20, moment=0.1)
    assert not ended.wrong
    assert set(map(tuple, served.before.values())) == {(0, 1023, -1, -1)}


class Troubled:
    """A bus on which the first `count` writes of a wheel's registers fail; the servo may have received them."""

    def __init__(self, bus, count, *, arrive=False, trouble=None):
        self._bus, self.count, self._arrive, self._trouble = bus, count, arrive, trouble or BusTimeout(1)

    def write(self, id, address, data, **options):
        if address in {6, 10, 11} and self.count:  # an AX-12's limits; modes of an X servo
            self.count -= 1
            if self._arrive:
                self._bus.write(id, address, data, **options)
            raise self._trouble
        return self._bus.write(id, address, data, **options)

    def __getattr__(self, name):
        return getattr(self._bus, name)


AX = {"cw_angle_limit": 0, "ccw_angle_limit": 0}
FAMILIES = {  # registers of a joint and of a wheel, and the words for one that may still be a wheel
    "bench_arm": (AX | {"ccw_angle_limit": 1023}, AX, "a wheel"),
    "xl330_pendulum": ({"operating_mode": 3}, {"operating_mode": 1}, "in another mode"),
}


@pytest.fixture(params=FAMILIES)
def robot(request):
    with axbridge.open(request.param) as opened:
        yield opened


def turn(robot):
    (servo,) = robot.values()
    servo.set_position(math.inf)
    servo.set_velocity(1.0)
    run(robot, 0.1)


def give_trouble(robot, count, **kind):
    (drive,) = robot._connection.on_bus
    drive.bus = Troubled(drive.bus, count, **kind)


def held(robot):
    (servo,) = robot.simulation.world.servos.values()
    return {register: servo.table[register] for register in FAMILIES[robot.name][0]}


@pytest.mark.parametrize(("fails", "trouble"), [*((count, None) for count in (0, 1, 99)), (1, KeyboardInterrupt())])
def test_close_makes_a_wheel_a_joint_or_prints_the_command_that_repairs_it(robot, fails, trouble, capfd):
    joint, wheel, what = FAMILIES[robot.name]
    turn(robot)
    assert held(robot) == wheel
    give_trouble(robot, fails, trouble=trouble)
    with pytest.raises(KeyboardInterrupt) if trouble else nullcontext():
        robot.close()
    errors = capfd.readouterr().err
    register, value = list(joint.items())[-1]
    assert held(robot) == (wheel if fails == 99 else joint)
    repair = f"axbridge servo write 1 {register} {value}"
    assert (f"(id 1) may still be {what}" in errors) == (repair in errors) == (fails == 99)


def test_close_restores_a_joint_whose_change_to_a_wheel_was_not_confirmed(robot):
    joint, wheel, _ = FAMILIES[robot.name]
    next(iter(robot.values())).torque_on()
    robot.step(20)
    give_trouble(robot, 1, arrive=True)
    with pytest.raises(BusTimeout):
        turn(robot)
    assert held(robot) == wheel
    robot.close()
    assert held(robot) == joint


def test_a_command_of_another_thread_while_a_mode_is_entered_ends_no_step(robot):
    (servo,) = robot.values()
    servo.dynamixel._enter_wheel = lambda _sample: servo.set_position(0.0)
    servo.set_duty(0.1)
    assert robot.step(20) == 0
