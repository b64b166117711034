"""`axbridge verify` on served robots with scripted motions: correct robots pass, faults are reported."""

import json
import os
import platform
import re
import signal
import time

import pytest

from axbridge.bus.serial import SerialBus
from axbridge.cli.app import FAILED_CHECK
from axbridge.config.registers import Address
from axbridge.config.rig import Rig
from axbridge.recording.stored import open_recording
from tests.support.hand import Typist, led
from tests.support.robot_files import write_built, write_feetech_comb
from tests.support.waiting import until

pytestmark = pytest.mark.slow

TURNED = 0.35  # rad; scripted turn of each joint
LATE = {"rate", "late", "loss", "model", "behind"}  # kinds of findings that a busy machine causes


def built(tmp_path, name, **changes):
    """Return the simulated real robot: fast servos, and changes to the rig by servo."""
    servos = {servo.name: changes.get(servo.name, {}) for servo in Rig.load(name).servos}
    quick = {"return_delay_time": 0}
    registers = {servo: quick | values.get("registers", {}) for servo, values in servos.items()}
    changes = {servo: values | {"registers": registers[servo]} for servo, values in servos.items()}
    return write_built(tmp_path / "built", name, changes)


class Person(Typist):
    """A scripted user of the program, which has `rig`, with the robot `real`.

    `turned`: joints to turn, default all; `answers`: keys by words of the program's output.
    """

    def __init__(self, rig, real, port, tell, folder, *options, turned=(), answers=None):
        super().__init__("verify", "--rig", rig, "--port", port, "--quick", "--out", folder, *options)
        self.rows = {servo.name: row for row, servo in enumerate(Rig.load(real).servos)}
        self.tell, self.answers, self.turned = tell, answers or {}, turned
        self.tries = 3  # attempts of a step that lost servos on a busy machine

    def follow(self, until=None, press=""):
        """Follow the program's instructions until this text, then press these keys; or to its end: the exit code."""
        for line in self.process.stdout:
            self.said += line
            if until and until in line:
                return self.press(press)
            self.answer(line)
        assert not until, self.said
        code, _, self.err = self.end()
        return code

    def answer(self, line):
        for words, key in self.answers.items():
            if words in line:
                return self.press(key)
        if "goes on, q ends" in line or "y does it, s leaves it out" in line:
            return self.press("y")
        if "hold every joint at 0°" in line:
            self.tell("all 0.0")
            return self.press(" ")
        if joint := re.search(r" of \d+: turn (\w+) \(id", line):
            if self.turned and joint[1] not in self.turned:
                return self.press("s")
            self.tell(f"{self.rows[joint[1]]} {TURNED}")
            return self.press(" ")
        if "r does it again, any other key goes on" in line and self.tries:
            step = self.said.rpartition("y does it, s leaves it out")[2]
            if re.search("it was not finished|no servo answers|does not answer", step):
                self.tries -= 1
                return self.press("r")
        if "any other key" in line and "keys:" not in line:
            return self.press(" ")
        return None


def kept(folder):
    return json.loads((folder / "verify.json").read_text())["steps"]


def findings(folder):
    """Return the findings without those of a busy machine: (servo's id, kind, problem, fix)."""
    listed = [finding for step in kept(folder).values() for finding in step["findings"]]
    keys = "id", "kind", "problem", "fix"
    return [tuple(finding[key] for key in keys) for finding in listed if finding["kind"] not in LATE]


AX = {"torque_limit": 1023, "alarm_led": 36}
X = {"torque_limit": 1023, "goal_pwm": 885, "moving_threshold": 10}
RIGHT = {  # by robot: register values before and after, and a joint to nudge
    "bench_arm": (AX, ""),
    "bioloid": (AX, "left_knee"),
    "head_gripper": (X, "gripper"),
    "koch": (X, "gripper"),
    "comb of Feetech": ({"torque_limit": 1000, "lock": 1}, "s1"),
}
LONG = [pytest.mark.ci, pytest.mark.alone]


@pytest.mark.parametrize(
    "name",
    [
        "bench_arm",
        *(pytest.param(name, marks=LONG) for name in ("bioloid", "koch")),
        *(pytest.param(name, marks=pytest.mark.ci) for name in ("head_gripper", "comb of Feetech")),
    ],
)
def test_a_correct_robot_passes_and_its_text_names_no_person_or_path(tmp_path, name):
    out, (held, nudged), walks = tmp_path / "out", RIGHT[name], name == "bioloid"
    if name == "comb of Feetech":
        (tmp_path / "rig").mkdir()
        rig = real = write_feetech_comb(tmp_path / "rig", 2)
    else:
        rig, real = name, built(tmp_path, name)
    answers = {f": turn {nudged} ": "w", "    did it go": "y"} if nudged else {}
    with led(real, "none", "own") as (port, tell), Person(rig, real, port, tell, out, answers=answers) as person:
        code = person.follow()
        assert set(tell("register torque_enable")) == {0}
        for register, value in held.items():
            assert set(tell(f"register {register}")) - {-1} <= {value}, register
    steps = kept(out)
    assert findings(out) == [], person.said
    late = [finding["kind"] for step in steps.values() for finding in step["findings"]]
    assert code == (FAILED_CHECK if late else 0), person.said + person.err
    assert {step["state"] for step in steps.values()} == {"done"}, person.said
    assert list(steps) == ["line", "joints", "endings", "motion", *(["walk"] if walks else [])]
    assert [turn["by"] for turn in steps["joints"]["facts"]["turns"]].count("nudge") == bool(nudged)
    endings = steps["endings"]["facts"]["endings"]
    assert {ending["signal"] for ending in endings} == {"SIGTERM", "SIGKILL"}
    assert len(endings) == (2 if name == "bench_arm" else 4)
    text = (out / "verify.txt").read_text()
    for private in (port, str(tmp_path), platform.node(), os.environ.get("HOME", "/root") + "/"):
        assert private not in text
    assert "served on a pseudo-terminal" in text
    for words in ("SIGTERM switches the motors off", "after SIGKILL the guard process", "no value is wrong"):
        assert re.search(rf"{words}.*; seen;", text), text
    page = (out / "verify.html").read_text()
    assert re.findall(r'class="card (\w+)"', page).count("passed") == len(steps)
    assert "beside its model" in page
    for file, part in {"motion.mcap": "sine", "walk.mcap": "walk"}.items():
        if (out / file).exists():
            recording = open_recording(out / file)
            assert recording.complete
            assert part in [segment.name for segment in recording.segments]
    assert (out / "walk.mcap").exists() == walks


BIOLOID = {servo.name: servo for servo in Rig.load("bioloid").servos}
KNEES = "right_knee", "left_knee"
CALIBRATE = "axbridge calibrate --rig my_bioloid --joints right_knee,left_knee --port"
OTHERWISE = {"homing_offset": 300, "max_position_limit": 3000, "pwm_limit": 442, "shutdown": 4}
ELSEWHERE = "counts from elsewhere, by its homing_offset 300; its rig lacks registers = { homing_offset = 300 }"
TURNS = {name: f"turns the other way: its direction should be {-BIOLOID[name].direction}" for name in KNEES}
SWAPPED = "and left_knee (id 14) have each other's id: each moves the other's joint"
WRONG = {  # by fault: rig, changes, steps, answers, findings, further output
    "servo of 2.0": (
        "head_gripper", {"gripper": {"registers": OTHERWISE}}, "line", {}, [
            (3, "homing_offset", ELSEWHERE, "servo write 3 homing_offset 0 --port"),
            (3, "torque", "gives at most 50% of its torque: pwm_limit is 442", ""),
            (3, "protection", "does not switch itself off when it is overloaded or hot", ""),
            (3, "angle_limits", "", "servo write 3 max_position_limit 4095 --port"),
        ], (),
    ),
    "mirrored": (  # a joint moves the wrong way, and the user reports it
        "bioloid", {name: {"direction": -BIOLOID[name].direction} for name in KNEES}, "joints,walk",
        {"turn right_knee": "w", "did it go": "o"},
        [(BIOLOID[name].id, "direction", TURNS[name], CALIBRATE) for name in KNEES],
        ("! left_knee (id 14): turns the other way", "left out: first repair what was found: joints"),
    ),
    "swapped": (
        "bioloid", {"left_knee": {"id": 13}, "right_knee": {"id": 14}}, "joints", {},
        [(13, "id", SWAPPED, "--joints right_knee,left_knee")], (),
    ),
    "zero": (
        "bioloid", {"left_hip_swing": {"zero": BIOLOID["left_hip_swing"].zero + 30}}, "joints", {},
        [(12, "zero", "its zero is off by +30 counts", "axbridge calibrate")], (),
    ),
    "weak and late": (
        "bioloid",
        {"left_knee": {"registers": {"torque_limit": 200}}, "right_elbow": {"registers": {"return_delay_time": 250}}},
        "line", {}, [
            (5, "return_delay", "waits 790 µs before each answer", "servo write 5 return_delay_time 0 --port"),
            (14, "torque", "gives at most 20% of its torque: torque_limit is 200", "servo write 14 torque_limit 1023"),
        ], ("! left_knee (id 14): gives at most 20%", "! right_elbow (id 5): waits 790 µs"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind == "zero" else pytest.mark.ci) for kind in WRONG])
def test_faults_are_reported_with_servo_and_repair_command(tmp_path, kind):
    name, changes, steps, answers, expected, said = WRONG[kind]
    real, out = built(tmp_path, name, **changes), tmp_path / "out"
    more = {"turned": KNEES, "answers": answers}
    with led(real) as (port, tell), Person(name, real, port, tell, out, "--only", steps, **more) as person:
        assert person.follow() == FAILED_CHECK, person.said + person.err
    assert "failed" not in [step["state"] for step in kept(out).values()], person.said
    reported = sorted(findings(out)) if kind == "weak and late" else findings(out)
    for (*facts, problem, fix), (*wanted, words, command) in zip(reported, expected, strict=True):
        assert facts == wanted
        assert words in problem
        assert command in fix
    assert [words for words in said if words not in person.said] == []


@pytest.mark.ci
def test_a_line_that_loses_three_per_cent_is_found(tmp_path):
    out, real = tmp_path / "out", built(tmp_path, "bioloid")
    with led(real, "drop=0.03") as line, Person("bioloid", real, *line, out, "--only", "line") as person:
        assert person.follow() == FAILED_CHECK
    (lost,) = (finding["problem"] for finding in kept(out)["line"]["findings"] if finding["kind"] == "loss")
    share = float(re.search(r"\((\d+\.\d)%\), of \d+ of \d+ servos", lost)[1])
    assert 1 < share < 15  # packets may be lost in both directions, and the machine may be late


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A served pan_tilt: its rig, its port, and a function that moves its joints."""
    real = built(tmp_path_factory.mktemp("desk"), "pan_tilt")
    with led(real) as (port, tell):
        yield real, port, tell


@pytest.fixture
def desk(served):
    """The same with full torque, which a killed program may have reduced."""
    _, port, _ = served
    with SerialBus(port) as bus:
        for servo in Rig.load("pan_tilt").servos:
            bus.write(servo.id, Address.TORQUE_LIMIT, (1023).to_bytes(2, "little"))
    return served


@pytest.mark.ci
def test_steps_are_left_out_done_again_and_taken_up_by_a_later_run(tmp_path, desk):
    out = tmp_path / "out"
    with Person("pan_tilt", *desk, out, answers={"2 of 4": ""}) as person:
        person.follow(until="2 of 4: joints")
        person.follow(until="y does it, s leaves it out", press="sq")  # extra keys answer no question
        person.follow(until="3 of 4: endings")
        person.follow(until="y does it, s leaves it out", press="q")
        assert person.follow() == 130
        assert person.err == f"stopped: motors are off; {out} holds what was found so far\n"
    assert {name: step["state"] for name, step in kept(out).items()} == {"line": "done", "joints": "skipped"}
    first = kept(out)["line"]
    with Person("pan_tilt", *desk, out, "--only", "line,joints") as person:
        person.follow()
        assert "done on" in person.said
    assert kept(out)["line"] == first
    assert kept(out)["joints"]["state"] == "done"
    again = {"r does it again, any other key keeps it": "r"}
    with Person("pan_tilt", *desk, out, "--only", "line", answers=again) as person:
        person.follow()
        assert person.said.count("found 2 of 2 servos of the rig") == 2
    with Person("pan_tilt", *desk, out, "--only", "line", "--force") as person:
        person.follow()
    assert list(kept(out)) == ["line"]


def test_a_step_in_which_every_joint_was_left_out_has_judged_nothing(tmp_path, desk):
    left_out = {"hold every joint at 0°": "s", ": turn ": "s"}
    with Person("pan_tilt", *desk, tmp_path / "out", "--only", "joints", answers=left_out) as person:
        assert person.follow() == 0
        assert "nothing was tried, so nothing was judged" in person.said
    assert kept(tmp_path / "out")["joints"]["state"] == "skipped"


def test_nothing_is_sent_when_standard_input_is_closed(tmp_path, desk):
    real, port, tell = desk
    with SerialBus(port) as bus:
        bus.write(1, Address.TORQUE_ENABLE, b"\1")
    with Person("pan_tilt", real, port, tell, tmp_path / "out") as person:
        person.process.stdin.close()
        assert person.process.wait(30) == 130
        stderr = person.process.stderr.read()
        assert stderr == "stopped (no more keys can be read): no motor was moved; nothing was written\n"
    assert tell("register torque_enable") == [1, 0]
    assert not (tmp_path / "out").exists()


AGAIN = "ry"  # keys to repeat a step that lost its servos on a busy machine


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_servo_is_compared_leaves_every_motor_off(tmp_path, desk, number):
    *_, tell = desk
    with Person("pan_tilt", *desk, tmp_path / "out", "--only", "motion") as person:
        person.follow(until="Directions and zeros are known of 0 of 2 joints only!")
        person.follow(until="y does it, s leaves it out", press="y")
        until(lambda: all(tell("register torque_enable")) or person.press(AGAIN))
        person.process.send_signal(number)
        assert person.follow() == 128 + number
        assert person.err.startswith("stopped: motors are off; ")
        assert tell("register torque_enable") == [0, 0]
        assert tell("register torque_limit") == [1023, 1023]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_program_that_holds_the_motors_ends_with_its_parent(tmp_path, desk, number):
    *_, tell = desk
    with Person("pan_tilt", *desk, tmp_path / "out", "--only", "endings") as person:
        person.follow(until="y does it, s leaves it out", press="y")
        until(lambda: any(tell("register torque_enable")) or person.press(AGAIN))
        person.process.send_signal(number)
        person.process.wait(30)
        until(lambda: tell("register torque_enable") == [0, 0])
        time.sleep(0.3)
        assert tell("register torque_enable") == [0, 0]
