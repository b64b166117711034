"""A servo that was a wheel is a joint again, however the program ends, or it is said how to repair it."""

import math
from pathlib import Path

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import BusTimeout
from tests.support import ends
from tests.support.warm import serving

pytestmark = pytest.mark.slow

CASES = [(1, how) for how in ("script", "exception", "SIGTERM", "SIGHUP", "SIGKILL")] + [(2, "sys.exit")]


@pytest.fixture(scope="module")
def served(request, tmp_path_factory):
    """`bench_arm` with servos of one status return level, which burn every byte they are given."""
    source = Path(Rig.load("bench_arm").path)
    folder = tmp_path_factory.mktemp("rig")
    for file in source.parent.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    rig = folder / source.name
    text = rig.read_text().replace("id = 1\n", f"id = 1\nregisters = {{ status_return_level = {request.param} }}\n")
    assert "registers" in text
    rig.write_text(text)
    with serving(rig, "--faults", "deaf") as port:
        yield ends.Line(str(rig), port)


@pytest.mark.parametrize(("served", "how"), CASES, indirect=["served"], ids=str)
def test_the_angle_limits_are_back(served, how):
    ended = ends.end(served, "wheel", how, step_ms=20, moment=0.1)
    assert not ended.wrong
    assert set(map(tuple, served.before.values())) == {(0, 1023, -1, -1)}


class Troubled:
    """A bus on which writes to the angle limits fail the first `count` times; what they do to the servo is up to it."""

    def __init__(self, bus, count, *, arrive=False, trouble=None):
        self._bus, self.count, self._arrive = bus, count, arrive
        self._trouble = trouble or BusTimeout(1)

    def write(self, id, address, data, **options):
        if address == 6 and self.count:
            self.count -= 1
            if self._arrive:
                self._bus.write(id, address, data, **options)
            raise self._trouble
        return self._bus.write(id, address, data, **options)

    def __getattr__(self, name):
        return getattr(self._bus, name)


def turn(robot):
    servo = robot["shoulder"]
    servo.set_position(math.inf)
    servo.set_velocity(1.0)
    for _ in range(5):
        robot.step(20)


def limits(world):
    table = world.servos["shoulder"].table
    return table["cw_angle_limit"], table["ccw_angle_limit"]


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
def test_limits_whose_first_restoring_write_failed_are_back_after_close(capfd):
    with axbridge.open("bench_arm", backend="sim") as robot:
        turn(robot)
        world, drive = robot._connection.backend.clock, robot._connection.drives["shoulder"]
        assert limits(world) == (0, 0)
        drive.bus = Troubled(drive.bus, 1)
    assert limits(world) == (0, 1023)
    assert capfd.readouterr().err == ""


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
def test_a_wheel_whose_making_seemed_to_fail_is_a_joint_after_close():
    with axbridge.open("bench_arm", backend="sim") as robot:
        world, drive = robot._connection.backend.clock, robot._connection.drives["shoulder"]
        robot.step(20)
        drive.bus = Troubled(drive.bus, 1, arrive=True)
        with pytest.raises(BusTimeout):
            turn(robot)
        assert limits(world) == (0, 0)
    assert limits(world) == (0, 1023)


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
def test_a_wheel_that_cannot_be_undone_is_named_with_the_command_that_mends_it(capfd):
    with axbridge.open("bench_arm", backend="sim") as robot:
        turn(robot)
        drive = robot._connection.drives["shoulder"]
        drive.bus = Troubled(drive.bus, 99)
    said = capfd.readouterr().err
    assert "servo 'shoulder' (id 1) may still be a wheel" in said
    assert "axbridge servo write 1 ccw_angle_limit 1023" in said


@pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")
def test_a_second_interrupt_does_not_leave_a_wheel_behind():
    robot = axbridge.open("bench_arm", backend="sim")
    turn(robot)
    world, drive = robot._connection.backend.clock, robot._connection.drives["shoulder"]
    drive.bus = Troubled(drive.bus, 1, trouble=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        robot.close()
    assert limits(world) == (0, 1023)
