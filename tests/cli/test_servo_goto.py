"""`axbridge servo goto`: one servo to an angle in degrees, softly, and its motor off whatever happens."""

import re
import signal
from itertools import pairwise

import pytest

from axbridge.cli.app import HARDWARE, MISUSE, run
from axbridge.config.registers import Address, Instruction
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import copy_rig
from tests.support.hand import led
from tests.support.pty_line import READ, PtyLine
from tests.support.waiting import until
from tests.support.warm import start

pytestmark = pytest.mark.slow

COUNTS = 1023 / 300  # a degree
MIDDLE = 512
GOAL = bytes((Address.GOAL_POSITION,))


def goals(line):
    """What the servos were told, in order, by SYNC_WRITE: a goal each."""
    told = [given for _, code, given, _ in line.heard if code == Instruction.SYNC_WRITE and given[:1] == GOAL]
    return [int.from_bytes(given[3:5], "little") for given in told]


@pytest.fixture
def goto(on_line):
    """Types `servo goto` for the test's line."""
    return lambda *words, code: on_line("servo", "goto", *words, code=code)


@pytest.fixture
def line():
    with PtyLine((1, 2)) as made:
        yield made


@pytest.fixture(scope="module")
def arm():
    """A served head whose shafts turn without load."""
    with led("pan_tilt") as served:
        yield served


@pytest.mark.parametrize(("degrees", "count"), [("30", MIDDLE + 30 * COUNTS), ("-12.5", MIDDLE - 12.5 * COUNTS)])
def test_an_id_alone_goes_to_degrees_from_the_middle_and_its_motor_is_off_then(arm, said, degrees, count):
    port, tell = arm
    gone = said("servo", "goto", "2", degrees, "--port", port)
    assert tell("register goal_position")[1] == pytest.approx(count, abs=0.51)
    assert tell("register present_position")[1] == pytest.approx(count, abs=2 * COUNTS)
    assert tell("register torque_enable") == [0, 0]
    where, end = re.fullmatch(r"servo 2 is at (.*)°; (.*)\n", gone).groups()
    assert float(where) == pytest.approx(float(degrees), abs=2)
    assert end == "motors are off"


def test_a_name_goes_by_the_rigs_zero_and_direction(arm, tmp_path, monkeypatch, said):
    port, tell = arm
    path, _ = copy_rig(Rig.load("pan_tilt"), tmp_path / "mine")
    path.write_text(path.read_text().replace("id = 2", "id = 2\nzero = 400\ndirection = -1"))
    monkeypatch.setenv("AXBRIDGE_RIG", str(path))
    for servo in ("tilt", "2"):
        assert said("servo", "goto", servo, "20", "--port", port).startswith("tilt is at ")
        assert tell("register goal_position")[1] == pytest.approx(400 - 20 * COUNTS, abs=0.51)
        assert tell("register torque_enable") == [0, 0]


def test_the_rigs_limits_and_the_servos_own_hold_and_nothing_moves_beyond_them(line, goto):
    beyond = goto("tilt", "70", "--rig", "pan_tilt", code=MISUSE)
    assert "70° is out of the limits of tilt: -68.8° to 68.8°" in beyond
    limits = slice(Address.CW_ANGLE_LIMIT, Address.CW_ANGLE_LIMIT + 4)
    line.tables[1][limits] = bytes((0, 1, 0, 3))  # 256..768
    assert "90° is out of the limits of servo 1: -75.1° to 75.1°" in goto("1", "90", code=MISUSE)
    line.tables[1][limits] = bytes(4)
    assert "servo 1 is set up as a wheel" in goto("1", "10", code=MISUSE)
    assert goals(line) == []
    assert not line.tables[1][Address.TORQUE_ENABLE]


def test_a_servo_that_has_shut_itself_down_stays_so(line, goto):
    line.tables[1][Address.TORQUE_LIMIT : Address.TORQUE_LIMIT + 2] = bytes(2)
    refused = goto("1", "30", code=HARDWARE)
    assert "servo 1 has shut itself down\nsee why; then `axbridge servo write 1 torque_limit 1023" in refused
    assert line.tables[1][Address.TORQUE_LIMIT : Address.TORQUE_LIMIT + 2] == bytes(2)
    assert goals(line) == []


def test_a_servo_that_something_holds_is_led_softly_and_said_to_be_elsewhere(line, goto):
    told = goto("1", "60", code=HARDWARE)
    assert told.startswith("servo 1 is at -3.2°; motors are off\n")
    assert "it did not get to 60°: something holds it" in told
    way = goals(line)
    steps = [after - before for before, after in pairwise((READ, *way))]
    assert way[-1] == pytest.approx(MIDDLE + 60 * COUNTS, abs=0.51)
    assert min(steps) >= 0
    assert max(steps) <= 60 * COUNTS * 0.02 + 1  # 60°/s, in a step of 20 ms
    assert max(steps[:5]) <= 1  # from rest
    assert not line.tables[1][Address.TORQUE_ENABLE]


def test_the_way_takes_the_time_that_is_asked_for_or_is_refused(line, goto):
    goto("1", "30", "--duration", "0.6", code=HARDWARE)
    way = goals(line)
    assert way.index(way[-1]) == pytest.approx(30, abs=5)  # steps of 20 ms; the last ones are smaller than a count
    short = goto("1", "30", "--duration", "0.01", code=MISUSE)
    assert "0.01 s are too short for servo 1: it needs 0.18 s at least" in short


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_on_its_way_leaves_the_motor_off_and_says_where_it_is(arm, number):
    port, tell = arm
    run(["servo", "goto", "1", "0", "--port", port])
    with start("servo", "goto", "1", "40", "--duration", "30", "--port", port) as mover:
        until(lambda: tell("register present_position")[0] > MIDDLE + 5)
        mover.send_signal(number)
        _, err = mover.communicate(timeout=60)
    assert mover.returncode == 128 + number
    assert err.startswith("stopped: motors are off; servo 1 is at ")
    assert tell("register torque_enable") == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("pan", "20"), MISUSE, "'pan' is no bus id, and names are a rig's\ngive an id, 0..253, or add --rig"),
        (("254", "20"), MISUSE, "'254' is no bus id"),
        (("1", "nan"), MISUSE, "nan is no angle"),
        (("1", "30", "--duration", "0"), MISUSE, "not positive and finite"),
        (("1", "30", "--faster"), MISUSE, "--faster"),
        (("neck", "30", "--rig", "pan_tilt"), MISUSE, "rig pan_tilt has no servo 'neck'\nit has: pan (1), tilt (2)"),
        (("9", "30"), HARDWARE, "servo 9 did not answer"),
    ],
)
def test_what_cannot_be_is_refused_in_two_lines(line, goto, arguments, code, words):
    err = goto(*arguments, code=code)
    assert words in err
    assert err.count("\n") == 2
    assert goals(line) == []


def test_a_servo_that_goes_silent_on_its_way_is_named():
    with led("pan_tilt") as (port, tell), start("servo", "goto", "1", "30", "--duration", "2", "--port", port) as mover:
        until(lambda: tell("register torque_enable")[0])
        tell("stop")
        _, err = mover.communicate(timeout=60)
    assert mover.returncode == HARDWARE
    assert "servo 1" in err
    assert "may still be powered" in err
