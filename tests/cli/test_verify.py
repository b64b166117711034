"""`axbridge verify` on served robots with a scripted hand: right ones come through, wrong ones are found and named."""

import json
import os
import platform
import re
import shutil
import signal
import threading
import time

import pytest

from axbridge.bus.serial import SerialBus
from axbridge.cli.app import FAILED_CHECK, MISUSE, run
from axbridge.cli.verify_report import PROMISES
from axbridge.config.registers import Address
from axbridge.config.rig import Rig
from axbridge.recording.stored import open_recording
from tests.support.hand import led
from tests.support.robot_files import write_feetech_comb
from tests.support.warm import start

pytestmark = pytest.mark.slow

VERDICTS = "seen", "not kept", "cannot be judged here", "not tried"
TURNED = 0.35  # rad, that the hand turns each joint
LATE = {"rate", "late", "loss", "model", "behind"}  # kinds that a machine which stands still now and then causes


def built(tmp_path, name, *changes):
    """A robot as it really is: the rig with its text changed, and quick servos; and its servos by name."""
    folder = tmp_path / "built"
    shutil.copytree(Rig.load(name).path.parent, folder)
    rig = folder / f"{name}.toml"
    text = re.sub(r"(?m)^(id = \d+)$", r"\1\nregisters = { return_delay_time = 0 }", rig.read_text())
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    rig.write_text(text)
    return rig


def entry(text, name):
    """The part of a rig's file that is about a servo."""
    return next(part for part in text.split("[[servo]]") if f'name = "{name}"' in part)


def changed(tmp_path, name, servo, pattern, new):
    """The rig `name` with one servo's entry changed."""
    rig = built(tmp_path, name)
    text = rig.read_text()
    part = entry(text, servo)
    other, count = re.subn(pattern, new, part)
    assert count == 1
    rig.write_text(text.replace(part, other))
    return rig


class Person:
    """Somebody at the keys, with a hand on the robot.

    Args:
        rig: As the program has it.
        real: As the robot is built.
        port: Where it is served.
        tell: Tells the hand.
        folder: For what the program writes.
        options: Of the program.
        turned: Joints that are turned; all where none is named.
        answers: Keys by words of a line of the program; the usual ones go without saying.
    """

    def __init__(self, rig, real, port, tell, folder, *options, turned=(), answers=None):
        self.rows = {servo.name: row for row, servo in enumerate(Rig.load(real).servos)}
        self.tell, self.answers, self.turned, self.said, self.port = tell, answers or {}, turned, "", port
        self.tries = 3  # of steps that lost servos: a machine that stands still does that
        self.process = start("verify", "--rig", rig, "--port", port, "--quick", "--out", folder, *options)
        self.patience = threading.Timer(180, self.process.kill)  # a test that fails must not wait for ever
        self.patience.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.patience.cancel()
        self.process.kill()
        with self.process:  # closes its pipes
            pass

    def press(self, key):
        self.process.stdin.write(key)
        self.process.stdin.flush()

    def follow(self, until=None):
        """Do what the program says, until it says this, or to its end; the exit code then."""
        for line in self.process.stdout:
            self.said += line
            if until and until in line:
                return None
            self.answer(line)
        assert not until, self.said
        code = self.process.wait(30)
        self.err = self.process.stderr.read()
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
        if found := re.search(r" of \d+: turn (\w+) \(id", line):
            if self.turned and found[1] not in self.turned:
                return self.press("s")
            self.tell(f"{self.rows[found[1]]} {TURNED}")
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
    """What came of each step, as it is kept."""
    return json.loads((folder / "verify.json").read_text())["steps"]


def findings(folder):
    """What is wrong, by the machine's own fault left out: (servo's id, kind, problem)."""
    found = [one for step in kept(folder).values() for one in step["findings"]]
    return [(one["id"], one["kind"], one["problem"], one["fix"]) for one in found if one["kind"] not in LATE]


def torques(port, ids):
    with SerialBus(port) as bus:
        return [bus.read(id_, Address.TORQUE_ENABLE, 1).data[0] for id_ in ids]


# ---- robots that are what their rigs say


AX = {"torque_limit": 1023, "alarm_led": 36}
X = {"torque_limit": 1023, "goal_pwm": 885, "moving_threshold": 10}
RIGHT = {  # by robot: what its servos hold before and after, and a joint that is nudged
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
def test_a_right_robot_comes_through_and_page_and_text_say_what_was_seen(tmp_path, name):
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
    late = [one["kind"] for step in steps.values() for one in step["findings"]]
    assert code == (FAILED_CHECK if late else 0), person.said + person.err
    assert {step["state"] for step in steps.values()} == {"done"}, person.said
    assert list(steps) == ["line", "joints", "endings", "motion", *(["walk"] if walks else [])]
    assert [turn["by"] for turn in steps["joints"]["facts"]["turns"]].count("nudge") == bool(nudged)
    endings = steps["endings"]["facts"]["endings"]
    assert {ending["signal"] for ending in endings} == {"SIGTERM", "SIGKILL"}
    assert len(endings) == (2 if name == "bench_arm" else 4)
    text = (out / "verify.txt").read_text()
    for words in ("SIGTERM switches the motors off", "after SIGKILL the guard process", "no value is wrong"):
        assert re.search(rf"{words}.*; seen;", text), text
    for private in (port, str(tmp_path), platform.node(), os.environ.get("HOME", "/root") + "/"):
        assert private not in text
    assert "served on a pseudo-terminal" in text
    page = (out / "verify.html").read_text()
    assert sum(page.count(f"<b>{word}</b>") for word in ("kept", *VERDICTS[1:])) == len(PROMISES)
    for file, part in {"motion.mcap": "sine", "walk.mcap": "walk"}.items():
        if (out / file).exists():
            recording = open_recording(out / file)
            assert recording.complete
            assert part in [segment.name for segment in recording.segments]
    assert (out / "walk.mcap").exists() == walks


# ---- robots that are wrong on purpose


def test_a_servo_of_2_0_that_is_set_up_otherwise_is_found(tmp_path):
    quick = "return_delay_time = 0"
    other = f"{quick}, homing_offset = 300, max_position_limit = 3000, pwm_limit = 442, shutdown = 4"
    real, out = changed(tmp_path, "head_gripper", "gripper", quick, other), tmp_path / "out"
    with led(real) as (port, tell), Person("head_gripper", real, port, tell, out, "--only", "line") as person:
        assert person.follow() == FAILED_CHECK, person.said + person.err
    why = "its rig lacks registers = { homing_offset = 300 }, as `axbridge calibrate` would"
    assert [(kind, problem) for _, kind, problem, _ in findings(out)] == [
        ("homing_offset", "counts from elsewhere, by its homing_offset 300; " + why),
        ("torque", "gives at most 50% of its torque: pwm_limit is 442"),
        ("protection", "does not switch itself off when it is overloaded or hot"),
    ]  # fmt: skip
    assert "servo write 3 homing_offset 0 --port" in findings(out)[0][3]


def first_hour(tmp_path, real, steps, *, turned=(), answers=None):
    """What is found wrong with a robot that the rig `bioloid` does not describe."""
    out = tmp_path / "out"
    with (
        led(real) as (port, tell),
        Person("bioloid", real, port, tell, out, "--only", steps, turned=turned, answers=answers) as person,
    ):
        assert person.follow() == FAILED_CHECK, person.said + person.err
        shown = person.said.replace(port, "PORT")
    assert "failed" not in [step["state"] for step in kept(out).values()], shown
    return findings(out), shown


KNEES = "right_knee", "left_knee"


def test_mirrored_servos_are_found_by_hand_and_by_a_nudge_and_nothing_is_moved_then(tmp_path):
    ways = {servo.name: servo.direction for servo in Rig.load("bioloid").servos}
    real = changed(tmp_path, "bioloid", "left_knee", r"(?m)^direction = .+$", f"direction = {-ways['left_knee']}")
    part = entry(real.read_text(), "right_knee")
    other = part.replace(f"direction = {ways['right_knee']}", f"direction = {-ways['right_knee']}")
    real.write_text(real.read_text().replace(part, other))
    answers = {"turn right_knee": "w", "did it go": "o"}  # it goes where it should not, and somebody sees it
    found, shown = first_hour(tmp_path, real, "joints,walk", turned=KNEES, answers=answers)
    assert [(id_, kind) for id_, kind, *_ in found] == [(13, "direction"), (14, "direction")]
    for (_, _, problem, fix), name in zip(found, ("right_knee", "left_knee"), strict=True):
        assert problem == f"turns the other way: its direction should be {-ways[name]}"
        assert "axbridge calibrate --rig my_bioloid --joints right_knee,left_knee --port" in fix
    assert "! left_knee (id 14): turns the other way" in shown
    assert "left out: first repair what was found: joints" in shown


def test_swapped_ids_are_found_as_one_fault(tmp_path):
    real = changed(tmp_path, "bioloid", "left_knee", r"(?m)^id = 14$", "id = 77")
    text = real.read_text()
    text = text.replace(entry(text, "right_knee"), entry(text, "right_knee").replace("id = 13\n", "id = 14\n"))
    real.write_text(text.replace("id = 77\n", "id = 13\n"))
    found, _ = first_hour(tmp_path, real, "joints", turned=KNEES)
    ((id_, kind, problem, fix),) = found
    assert (id_, kind) == (13, "id")
    assert problem == "and left_knee (id 14) have each other's id: each moves the other's joint"
    assert "--joints right_knee,left_knee" in fix


def test_a_zero_that_is_off_by_thirty_counts_is_found(tmp_path):
    zero = next(servo for servo in Rig.load("bioloid").servos if servo.name == "left_hip_swing").zero
    part = entry(Rig.load("bioloid").path.read_text(), "left_hip_swing")
    pattern = rf"(?m)^zero = {zero}$" if "zero =" in part else r"(?m)^id = 12$"
    new = f"zero = {zero + 30}" if "zero =" in part else f"id = 12\nzero = {zero + 30}"
    real = changed(tmp_path, "bioloid", "left_hip_swing", pattern, new)
    found, _ = first_hour(tmp_path, real, "joints", turned=KNEES)
    ((id_, kind, problem, fix),) = found
    assert (id_, kind) == (12, "zero")
    assert "its zero is off by +30 counts" in problem
    assert "axbridge calibrate" in fix


def test_a_line_that_loses_three_per_cent_is_found(tmp_path):
    out, real = tmp_path / "out", built(tmp_path, "bioloid")
    with (
        led(real, "drop=0.03") as (port, tell),
        Person("bioloid", real, port, tell, out, "--only", "line") as person,
    ):
        assert person.follow() == FAILED_CHECK
    (lost,) = (one["problem"] for one in kept(out)["line"]["findings"] if one["kind"] == "loss")
    share = float(re.search(r"\((\d+\.\d)%\), of \d+ of \d+ servos", lost)[1])
    assert 1 < share < 15  # a packet may get lost on either way, and the machine may be late


def test_a_servo_with_little_torque_and_one_that_answers_late_are_found(tmp_path):
    quick = "return_delay_time = 0"
    real = changed(tmp_path, "bioloid", "left_knee", quick, f"{quick}, torque_limit = 200")
    text = real.read_text()
    part = entry(text, "right_elbow")
    real.write_text(text.replace(part, part.replace(quick, "return_delay_time = 250")))
    found, shown = first_hour(tmp_path, real, "line")
    assert {(id_, kind) for id_, kind, *_ in found} == {(14, "torque"), (5, "return_delay")}
    assert "! left_knee (id 14): gives at most 20% of its torque: torque_limit is 200" in shown
    assert "axbridge servo write 14 torque_limit 1023 --port PORT" in shown
    assert "! right_elbow (id 5): is set to wait 790 µs before each answer" in shown
    assert "axbridge servo write 5 return_delay_time 0 --port PORT" in shown


# ---- at the keys


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A served pan_tilt: the rig as it is built, its port, and what tells its hand."""
    real = built(tmp_path_factory.mktemp("desk"), "pan_tilt")
    with led(real) as (port, tell):
        yield real, port, tell


@pytest.fixture
def desk(served):
    """The same with all its torque: a program that was killed before may have left it little."""
    _, port, _ = served
    with SerialBus(port) as bus:
        for servo in Rig.load("pan_tilt").servos:
            bus.write(servo.id, Address.TORQUE_LIMIT, (1023).to_bytes(2, "little"))
    return served


def test_steps_are_left_out_done_again_and_taken_up_by_a_later_run(tmp_path, desk):
    out = tmp_path / "out"
    with Person("pan_tilt", *desk, out, answers={"2 of 4": ""}) as person:
        person.follow(until="2 of 4: joints")
        person.follow(until="y does it, s leaves it out")
        person.press("sq")  # one key too many is that for no question
        person.follow(until="3 of 4: endings")
        person.follow(until="y does it, s leaves it out")
        person.press("q")
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
        assert person.said.count("2 of 2 servos of the rig are there") == 2
    with Person("pan_tilt", *desk, out, "--only", "line", "--force") as person:
        person.follow()
    assert list(kept(out)) == ["line"]


def test_a_step_in_which_every_joint_was_left_out_has_judged_nothing(tmp_path, desk):
    left_out = {"hold every joint at 0°": "s", ": turn ": "s"}
    with Person("pan_tilt", *desk, tmp_path / "out", "--only", "joints", answers=left_out) as person:
        assert person.follow() == 0
        assert "nothing was tried, so nothing was judged" in person.said
        assert re.search(r"promises  0 seen, 0 not kept, 0 cannot be judged here, \d+ not tried", person.said)
    assert kept(tmp_path / "out")["joints"]["state"] == "skipped"


def test_without_a_yes_nothing_is_sent_and_nobody_at_the_keys_is_a_no(tmp_path, desk):
    real, port, tell = desk
    with SerialBus(port) as bus:
        bus.write(1, Address.TORQUE_ENABLE, b"\1")
    with Person("pan_tilt", real, port, tell, tmp_path / "out") as person:
        person.process.stdin.close()
        code = person.process.wait(30)
        assert (code, person.process.stderr.read()) == (
            130,
            "stopped (no more keys can be read): no motor was moved; nothing was written\n",
        )
    assert tell("register torque_enable") == [1, 0]
    assert not (tmp_path / "out").exists()


def until(condition, meanwhile=lambda: None):
    patience = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < patience
        meanwhile()
        time.sleep(0.01)


def again(person):
    """Keys for a step that lost its servos, because the machine stood still."""
    return lambda: person.press("ry")


ENDS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), ENDS, ids=["SIGINT", "SIGTERM"])
def test_a_signal_while_a_servo_is_compared_leaves_every_motor_off(tmp_path, desk, number, code):
    *_, tell = desk
    with Person("pan_tilt", *desk, tmp_path / "out", "--only", "motion") as person:
        person.follow(until="Directions and zeros are known of 0 of 2 joints only!")
        person.follow(until="y does it, s leaves it out")
        person.press("y")
        until(lambda: all(tell("register torque_enable")), again(person))
        person.process.send_signal(number)
        assert person.follow() == code
        assert person.err.startswith("stopped: motors are off; ")
        assert tell("register torque_enable") == [0, 0]
        assert tell("register torque_limit") == [1023, 1023]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_the_program_that_holds_the_motors_does_not_outlive_the_one_that_has_started_it(tmp_path, desk, number):
    *_, tell = desk
    with Person("pan_tilt", *desk, tmp_path / "out", "--only", "endings") as person:
        person.follow(until="y does it, s leaves it out")
        person.press("y")
        until(lambda: any(tell("register torque_enable")), again(person))
        person.process.send_signal(number)
        person.process.wait(30)
        until(lambda: tell("register torque_enable") == [0, 0])
        time.sleep(0.3)
        assert tell("register torque_enable") == [0, 0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rig", "bioloid", "--only", "line,kneel"], "there is no step 'kneel'"),
        (["--rig", "bench_arm", "--only", "walk"], "has no legs that walk"),
        (["--rig", "bench_arm", "--out", "TAKEN"], "is already there"),
        (["--rig", "bench_arm", "--out", "STRANGE"], "is not what `axbridge verify` wrote"),
        (["--rig", "bench_arm", "--out", "FILE"], "FILE"),
    ],
)
def test_what_cannot_be_done_is_refused_in_two_lines_before_anything_is_asked(tmp_path, options, said, capsys):
    for folder, file in (("TAKEN", "verify.txt"), ("STRANGE", "verify.json")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("mine")
    (tmp_path / "FILE").write_text("mine")
    options = [str(tmp_path / option) if option.isupper() else option for option in options]
    assert run(["verify", *options, "--port", "/dev/unheard_of"]) == MISUSE
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 2
    assert (tmp_path / "TAKEN" / "verify.txt").read_text() == "mine"
