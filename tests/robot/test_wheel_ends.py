"""A servo that was a wheel is a joint again, however the program ends, or it is said how to repair it."""

import math
from contextlib import nullcontext
from pathlib import Path

import pytest

import axbridge
from axbridge.config.rig import Rig
from axbridge.errors import BusTimeout
from tests.support import ends
from tests.support.warm import serving

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")]

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
    """A bus on which writes of what makes a wheel fail the first `count` times; they may arrive all the same."""

    def __init__(self, bus, count, *, arrive=False, trouble=None):
        self._bus, self.count, self._arrive = bus, count, arrive
        self._trouble = trouble or BusTimeout(1)

    def write(self, id, address, data, **options):
        if address in {6, 10, 11} and self.count:  # an AX-12's limits; modes of an X servo
            self.count -= 1
            if self._arrive:
                self._bus.write(id, address, data, **options)
            raise self._trouble
        return self._bus.write(id, address, data, **options)

    def __getattr__(self, name):
        return getattr(self._bus, name)


class Wheel:
    """A robot of one servo that turns, and what of it can be in the way."""

    def __init__(self, rig, registers, wheel, joint, said):
        self.robot = axbridge.open(rig)
        (self.name,) = self.robot
        self._world, self._registers = self.robot.simulation.world, registers
        self.wheel, self.joint, self.said = wheel, joint, said

    def turn(self):
        servo = self.robot[self.name]
        servo.set_position(math.inf)
        servo.set_velocity(1.0)
        for _ in range(5):
            self.robot.step(20)

    def trouble(self, count, **kind):
        drive = self.robot._connection.drives[self.name]
        drive.bus = Troubled(drive.bus, count, **kind)

    @property
    def held(self):
        return tuple(self._world.servos[self.name].table[register] for register in self._registers)


AX = "bench_arm", ("cw_angle_limit", "ccw_angle_limit"), (0, 0), (0, 1023), ("a wheel", "ccw_angle_limit 1023")
X = "xl330_pendulum", ("operating_mode",), (1,), (3,), ("in another mode", "operating_mode 3")


@pytest.fixture(params=[AX, X], ids=["AX", "X"])
def wheel(request):
    made = Wheel(*request.param)
    yield made
    made.robot.close()


@pytest.mark.parametrize(("fails", "trouble"), [*((count, None) for count in (0, 1, 99)), (1, KeyboardInterrupt())])
def test_a_wheel_is_a_joint_after_close_or_the_command_that_repairs_it_is_said(wheel, fails, trouble, capfd):
    wheel.turn()
    assert wheel.held == wheel.wheel
    wheel.trouble(fails, trouble=trouble)
    with pytest.raises(KeyboardInterrupt) if trouble else nullcontext():
        wheel.robot.close()
    said = capfd.readouterr().err
    what, command = wheel.said
    assert wheel.held == (wheel.wheel if fails == 99 else wheel.joint)
    assert (f"servo '{wheel.name}' (id 1) may still be {what}" in said) == (fails == 99)
    assert (f"axbridge servo write 1 {command}" in said) == (fails == 99)


def test_a_wheel_whose_making_seemed_to_fail_is_a_joint_after_close(wheel):
    wheel.robot[wheel.name].torque_on()
    wheel.robot.step(20)
    wheel.trouble(1, arrive=True)
    with pytest.raises(BusTimeout):
        wheel.turn()
    assert wheel.held == wheel.wheel
    wheel.robot.close()
    assert wheel.held == wheel.joint
