"""What goes wrong between a program and a robot that has a bridge between them: a table, and `Station.play`.

Robot, bridge and program (tests/support/bridge_client.py) are processes of their own. The tests run some rows, `make
long` all; `benchmarks/bridge_scenarios.py` prints how long each took until it was safe, and how far joints went.
"""

import json
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from axbridge.config.rig import Rig
from axbridge.motion.gait import Gait, Walk
from axbridge.testing import serve

CLIENT = Path(__file__).with_name("bridge_client.py")
LIMITS = {"pan": 2.0, "tilt": 1.2}  # rad, either way
SLACK = 0.1  # rad: overshoot, also of a joint that gets its torque while it falls
LONGEST = 20.0  # s until it is safe, on a busy machine
FAMILIES = {"ax": ("ax-12a", 512, 11.1), "x": ("xl330-m288", 2048, 5.0), "sts": ("sts3215", 2048, 7.4)}
OFF, LIVES = "off", "lives"


@dataclass(frozen=True)
class Scenario:
    """A row: what the program does, what happens to it then, and what the robot must be after that."""

    name: str
    act: str  # of the program
    event: Callable | None = None  # what happens, of the station, once the program runs
    after: str = LIVES  # every motor is off, or the program goes on
    rule: str = ""  # whose notice must come; without one, none may come
    family: str = "sts"
    rig: str = ""  # more of the rig file, of the servos
    safety: str = ""  # likewise, of [safety]
    before: Callable | None = None  # of the station, before the bridge begins
    kept: tuple = ()  # registers of the first servo that must not change
    check: Callable | None = None  # of the station, at the end: what is wrong, or nothing
    watched: float = 0.3  # s that it is looked at once it is safe
    quick: bool = False


@dataclass
class Outcome:
    """The result: s from the event until it was safe, the farthest way of a joint in between and after, rad."""

    seconds: float
    moved: float
    wrong: list


@dataclass
class Station:
    """A served robot, a bridge before it, and the program of a scenario."""

    robot: object
    bridge: subprocess.Popen
    port: str
    stack: ExitStack = field(default_factory=ExitStack)
    notices: list = field(default_factory=list)
    client: subprocess.Popen | None = None
    fastest: float = 0.0  # rad/s, of any joint

    def begin(self, act, family):
        command = [sys.executable, str(CLIENT), self.port, "ax" if family == "bioloid" else family, act]
        if act == "walks":
            command.append(self._walk())
        client = self.stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
        self.stack.callback(client.kill)
        return client

    def _walk(self):
        """A file with the goals of a Bioloid's walk, counts, each 20 ms."""
        rig = Rig.load("bioloid")
        walk = Walk.of(rig, Gait(steps=8))
        servos = [servo for servo in rig.servos if servo.name in walk.angles(0.0)]
        mounted = [rig.specs[servo.name].calibration for servo in servos]
        rows = []
        for number in range(int(walk.gait.duration / 0.02)):
            angles = walk.angles(number * 0.02)
            rows.append([mount.goal(angles[servo.name]) for servo, mount in zip(servos, mounted, strict=True)])
        path = Path(self.port).with_name("walk.json")
        path.write_text(json.dumps({"ids": [servo.id for servo in servos], "rows": rows + rows[::-1]}))
        return str(path)

    def play(self, scenario):
        """Let it happen; the `Outcome`."""
        robot, wrong = self.robot, []
        self.notices.clear()
        kept = {name: robot.registers(1)[name] for name in scenario.kept}
        with self.stack:
            self.client = self.begin(scenario.act, scenario.family)
            start, mark = time.monotonic(), robot.positions
            if scenario.event is not None:
                self.client.stdout.readline()
                mark = robot.positions
                scenario.event(self)
                start = time.monotonic()
            moved, safe_at, last, last_at, self.fastest = 0.0, math.inf, mark, start, 0.0
            fallen = dict(mark)  # where a joint without torque has fallen to
            while (now := time.monotonic()) < (start + LONGEST if safe_at == math.inf else safe_at + scenario.watched):
                time.sleep(0.005)  # each look costs the robot's process as much as a packet
                here = robot.positions
                moved = max(moved, *(abs(here[name] - mark[name]) for name in here))
                if now - last_at > 0.1:
                    speed = max(abs(here[name] - last[name]) for name in here) / (now - last_at)
                    self.fastest, last, last_at = max(self.fastest, speed), here, now
                far = {
                    name: abs(here[name]) - max(limit, abs(fallen[name]))
                    for name, limit in LIMITS.items()
                    if name in here
                }
                if max(far.values(), default=0.0) > SLACK / 2:
                    on = robot.powered
                    fallen |= {name: here[name] for id_, name in enumerate(LIMITS, 1) if id_ not in on}
                    far = {name: far[name] for id_, name in enumerate(LIMITS, 1) if id_ in on}
                beyond = [name for name, distance in far.items() if distance > SLACK]
                if beyond and f"beyond the limits: {beyond}" not in wrong:
                    wrong.append(f"beyond the limits: {beyond}")
                if safe_at == math.inf and self._safe(scenario):
                    safe_at = time.monotonic()
            if safe_at == math.inf:
                wrong.append(f"not safe within {LONGEST} s: {self.notices}, on: {robot.powered}")
            wrong += self._look(scenario, kept)
        end = time.monotonic() + LONGEST
        while not self._said("exit") and self.bridge.poll() is None and time.monotonic() < end:
            time.sleep(0.005)  # what it says of this program is not about the next
        return Outcome(safe_at - start, moved, wrong)

    def _safe(self, scenario):
        said = not scenario.rule or self._said(scenario.rule)
        return not self.robot.powered if scenario.after == OFF else said

    def _said(self, rule):
        return any(notice["rule"] == rule for notice in self.notices)

    def _look(self, scenario, kept):
        """What is wrong at the end."""
        now = self.robot.registers(1)
        yield from (f"{name} is {now[name]}, and was {value}" for name, value in kept.items() if now[name] != value)
        if scenario.after == OFF and self.robot.powered:
            yield f"on again: {self.robot.powered}"
        if scenario.after == LIVES and scenario.event is None and self.client.poll() is not None:
            yield f"the program has ended with {self.client.returncode}"
        rules = {notice["rule"] for notice in self.notices}
        if scenario.rule and not self._said(scenario.rule) and self.bridge.poll() is None:
            yield f"no notice of {scenario.rule}: {self.notices}"
        if not scenario.rule and scenario.after == LIVES and rules - {"torque on"}:  # a hand has turned its joints
            yield f"notices without a reason: {self.notices}"
        if scenario.check is not None and (text := scenario.check(self)):
            yield text

    def rest(self):
        """Every motor is off, and each joint in its middle; whether that came about."""
        end = time.monotonic() + LONGEST
        while self.robot.powered and time.monotonic() < end:
            time.sleep(0.01)
        for name in LIMITS.keys() & self.robot.positions.keys():
            self.robot.place(name, 0.0)
        return self.bridge.poll() is None and not self.robot.powered


def rig_text(family, safety, servo=""):
    """A rig of two joints; `servo` is more of the second."""
    if family == "bioloid":
        return f'base = "bioloid"\nname = "scenario"\n[safety]\n{safety}\n'
    profile, zero, volts = FAMILIES[family]
    text = (
        f'base = "pan_tilt"\nname = "scenario"\n[[bus]]\nname = "main"\nsupply_voltage = {volts}\n[safety]\n{safety}\n'
    )
    for name in LIMITS:
        text += f'[[servo]]\nname = "{name}"\nprofile = "{profile}"\nzero = {zero}\nregisters = {{ return_delay_time = 0 }}\n'
    return text + servo


@contextmanager
def station(text, folder, before=None):
    """Robot and bridge of a rig with this text."""
    rig = Path(folder, "rig.toml")
    rig.write_text(text)
    with serve(rig, timing="wire") as robot:
        if before is not None:
            before(robot)
        with bridged(robot, rig) as here:
            yield here


@contextmanager
def bridged(robot, rig):
    """A bridge before a robot."""
    link = str(Path(rig).with_name("arm"))
    command = [sys.executable, "-m", "axbridge", "bridge", str(rig), "--link", link, "--json", "--port", robot.port]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as bridge:
        here = Station(robot, bridge, link)
        listener = threading.Thread(
            target=lambda: here.notices.extend(notice for notice in map(json.loads, bridge.stdout) if "rule" in notice),
            daemon=True,
        )
        assert bridge.stdout.readline()
        listener.start()
        try:
            yield here
        finally:
            bridge.terminate()
            bridge.wait(LONGEST)
            listener.join(LONGEST)  # before its stream is closed


class Stations:
    """The station of the latest scenario, which the next one with the same rig has, too."""

    def __init__(self, folder):
        self._folder, self._stack, self._key, self._station = Path(folder), ExitStack(), None, None

    def __call__(self, scenario):
        key = scenario.family, scenario.rig, scenario.safety, scenario.before
        if key != self._key or not self._station.rest():
            self.close()
            folder = Path(self._folder, str(time.monotonic_ns()))
            folder.mkdir()
            self._key, self._station = (
                key,
                self._stack.enter_context(
                    station(rig_text(scenario.family, scenario.safety, scenario.rig), folder, scenario.before)
                ),
            )
        return self._station

    def close(self):
        self._stack.close()
        self._key = None


def _plug(station):
    station.robot.unplug()
    time.sleep(0.3)
    station.robot.plug()


def _kill_at_a_stall(station):
    while not station._said("stall"):
        time.sleep(0.01)
    station.bridge.kill()


def _second_reader(station):
    station.begin("reads", "sts").stdout.readline()
    station.client.kill()


def _too_fast(limit):
    return lambda station: "" if station.fastest < limit else f"{station.fastest:.2f} rad/s"


def _register(name, value, id_=2):
    def check(station):
        end = time.monotonic() + LONGEST  # the guard restores registers after it has read each servo
        while (held := station.robot.registers(id_)[name]) != value and time.monotonic() < end:
            time.sleep(0.02)
        return "" if held == value else f"{name} is {held}"

    return check


def _wheel(robot):
    for name in ("cw_angle_limit", "ccw_angle_limit"):
        robot.write(1, name, 0)


def _old_goal(robot):
    robot.place("pan", 0.8)


KILL, STOP = (lambda station: station.client.kill()), (lambda station: station.client.send_signal(signal.SIGSTOP))
STOPPED = "max_stop = 0.2\n"
NORMAL = 60.0  # s of normal use, in which no rule may act
SLOW = 0.785 * 1.4  # rad/s, as it looks on a busy machine
SCENARIOS = (
    Scenario("program killed in motion", "sways", KILL, OFF, "exit", quick=True),
    Scenario("program exits without torque off", "stays a second", lambda one: one.client.wait(), OFF, "exit", quick=True),
    Scenario("first frame far away", "goes far", rule="far goal", check=_too_fast(SLOW), watched=0.5, quick=True),
    Scenario("degrees as counts", "degrees", rule="soft limits", watched=0.3, quick=True),
    Scenario("EEPROM template writer", "template", rule="service", kept=("return_delay_time", "min_position_limit", "max_torque"), quick=True),
    Scenario("two programs, the one that drives is killed", "sways", _second_reader, OFF, "exit"),
    Scenario("swapped ids", "swaps", rule="soft limits", watched=3.0),
    Scenario("pause, then a far goal", "pauses", rule="far goal", check=_too_fast(SLOW), watched=1.0),
    Scenario("REG WRITE and ACTION beyond limits", "registers", rule="soft limits", watched=3.0),
    Scenario("factory reset", "resets", rule="service", kept=("id", "return_delay_time")),
    Scenario("change of the id", "id", rule="service", kept=("id",)),
    Scenario("change of the baud rate", "rate", rule="service", kept=("baud_rate",)),
    Scenario("50 Hz with jitter", "jitters", watched=3.0),
    Scenario("normal use", "sways", lambda one: None, watched=NORMAL),
    Scenario("brown-out", "sways", lambda one: one.robot.inject("brownout:300ms"), watched=2.0),
    Scenario("plugged again", "sways", _plug, OFF, "exit", watched=1.0),
    Scenario("bridge ended", "sways", lambda one: one.bridge.terminate(), OFF),
    Scenario("bridge killed", "goes far", lambda one: one.bridge.kill(), OFF, check=_register("goal_velocity", 0, 1), quick=True),
    Scenario("bridge killed at a stall", "pushes", _kill_at_a_stall, OFF, rig=STOPPED, check=_register("torque_limit", 1000)),
    Scenario("program stopped", "sways", STOP, OFF, "exit", safety="stale_command_ms = 100"),
    Scenario("overheating", "sways", lambda one: one.robot.inject("overheat:1"), rule="temperature", safety="max_temperature = 60", watched=1.0, check=_register("torque_enable", 0, 1)),
    Scenario("stall in the gripper", "pushes", rule="stall", rig=STOPPED, check=_register("torque_limit", 300)),
    Scenario("pushed against its stop", "pushes", rule="stall", rig=STOPPED, family="x", check=_register("goal_pwm", 266)),
    Scenario("torque on with an old goal", "switches on", rule="torque on", family="ax", before=_old_goal, check=_too_fast(0.3)),
    Scenario("runaway wheel", "wheel", KILL, OFF, "exit", family="ax", before=_wheel),
    Scenario("BULK WRITE beyond limits", "bulk", rule="soft limits", family="x", watched=3.0),
    Scenario("indirect addresses beyond limits", "indirect", rule="soft limits", family="x", watched=3.0),
    Scenario("a walk", "walks", lambda one: None, watched=NORMAL, family="bioloid"),
)  # fmt: skip
