"""No joint of a real robot moves without a command: measured at the shaft of a served servo."""

import math
import re
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import product

import pytest

import axbridge
from axbridge.errors import BusTimeout, RigError
from tests.robot import test_count_jumps as offsets
from tests.robot.test_unasked_motion import FAMILIES, LIMIT, recover, rig_of, stop_and_resume, torque_on
from tests.support.hand import led
from tests.support.robot_files import write_rig
from tests.support.waiting import run
from tests.support.warm import run as type_command

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::axbridge.errors.ControlWarning")]
MOST = 5.0  # degrees
GOAL = -0.2  # rad, from before the event


class Bench:
    """A served servo, a hand that moves its shaft, and the program that drives it."""

    def __init__(self, path, turn, port, tell):
        self.path, self.turn, self.port, self.tell = path, turn, port, tell
        self.robot = None

    def start(self):
        """Power the servo up with its shaft at 0, and start a program that drives it."""
        if self.robot is not None:
            self.robot.close()
        self.tell("none")
        self.put(0.0)
        self.tell("power-cycle")
        time.sleep(0.2)
        self.open()

    def open(self):
        for _ in range(3):  # a busy machine may keep the server waiting
            with suppress(BusTimeout):
                self.robot = axbridge.open(self.path, backend="real", port=self.port)
                return self.robot["horn"]
        raise AssertionError("the served servo does not answer")

    @property
    def servo(self):
        return self.robot["horn"]

    def put(self, place):
        """Move the limp shaft to an angle, from which its motion is measured."""
        time.sleep(0.05)  # until the motor is off
        self.tell(f"0 {place}")
        self.tell("mark")

    def lead(self, place):
        """Do this while the program, if there is one, keeps stepping."""
        self.put(place)
        self.robot.step(20)


@contextmanager
def bench(folder, row):
    """Serve the servo of a row of the table."""
    rig, turn, _ = TABLE[row]
    path = write_rig(rig, folder / "bench.toml")
    with led(str(path), "none", "own") as (port, tell):
        yield Bench(path, turn, port, tell)


def power_cycle(bench, place):
    """A second loss within 10 s may look like another program that switches an AX off: then it stays limp."""
    bench.tell("power-cycle")
    bench.put(place)
    seen, start = set(), bench.robot.time
    while not seen & {"without power", "torque off"}:
        assert bench.robot.time - start < 10
        bench.robot.step(20)
        seen |= {event.kind for event in bench.robot.last_step.events}
    if bench.robot.withheld:
        bench.servo.recover()


def switch(bench, place):
    """Change the backend from the simulation to the served bus."""
    bench.robot.close()
    bench.put(place)
    bench.robot = axbridge.open(bench.path, backend="sim")
    bench.servo.set_position(GOAL)
    run(bench.robot, 0.2)
    bench.robot.switch("real", port=bench.port)


def reopen(bench, place):
    bench.robot.close()
    bench.put(place)
    bench.open().torque_on()


def goto(bench, place):
    """Run `axbridge servo goto` to a goal some degrees away."""
    bench.robot.close()
    bench.put(place)
    low, high = bench.turn
    here = low + (place - low) % math.tau  # where its count is put back
    goal = min(here, high) - math.copysign(math.radians(3), here - (low + high) / 2)
    arguments = ("--rig", str(bench.path), "--port", bench.port, "--", "horn", f"{math.degrees(goal):.2f}")
    ended = type_command("servo", "goto", *arguments)
    distance, (down, up) = goal - here, bench.tell("moved")
    if ended.returncode:  # it stands at no pose of the rig or in an unknown turn, or the goal is beyond its limits
        assert re.search("this cannot be|half a turn away|out of the limits", ended.stderr), ended.stderr
        distance = 0.0
    return max(up - max(distance, 0.0), min(distance, 0.0) - down)


EVENTS = (torque_on, stop_and_resume, recover, power_cycle, switch, reopen, goto)


def motion(bench, event, place):
    """Return the motion, degrees, within 0.6 s of an event; with `goto`, the distance from its path."""
    bench.start()
    bench.servo.set_position(GOAL)
    run(bench.robot, 0.4)
    moved = None
    with suppress(RigError):  # a pose that cannot be is refused
        moved = event(bench, place)
        if moved is None:
            run(bench.robot, 0.6)
            assert bench.servo.torque_enabled
    if moved is None:
        moved = max(map(abs, bench.tell("moved")))
    bench.robot.close()
    return math.degrees(moved)


def limited(family):
    """Return a rig of the table, and the positions at which its events are tried, rad."""
    return rig_of(family, damping_constant=0.1), (-math.pi, LIMIT), {"at rest": 0.1, "beyond a limit": LIMIT + 0.12}


def offset(family, count):
    """Return the same with a Homing Offset, 2 degrees to both sides of an end of the count."""
    seams = offsets.seams(family, count)
    end = min(seams, key=abs)
    return offsets.rig_of(family, count), seams, {"below the seam": end - 0.035, "above the seam": end + 0.035}


TABLE = {family: limited(family) for family in FAMILIES} | {
    f"{family} {count:+}": offset(family, count) for family, count in product(offsets.FAMILIES, offsets.OFFSETS)
}


@pytest.fixture(scope="module")
def benches(tmp_path_factory):
    """Serve the servo of each row for all of its events."""
    with ExitStack() as opened:
        yield cache(lambda row: opened.enter_context(bench(tmp_path_factory.mktemp("bench"), row)))


LONG = [row for row in TABLE if not row.endswith("00") or row.endswith("+1000")]  # benchmarks/unasked_motion.py: all
QUICK = [("ax-12a", torque_on), ("sts3215", power_cycle)]


@pytest.mark.parametrize(
    ("row", "event"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.ci) for case in product(LONG, EVENTS) if case not in QUICK)],
)
def test_no_event_moves_a_joint_of_a_served_servo(benches, row, event):
    moved = {where: motion(benches(row), event, place) for where, place in TABLE[row][2].items()}
    assert max(moved.values()) < MOST, moved
