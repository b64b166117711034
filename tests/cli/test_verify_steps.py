"""Measurements and findings of `axbridge verify`: each fault is reported with its servo and repair command."""

import getpass
import itertools
import platform
import re
import time
from pathlib import Path

import numpy as np
import pytest

from axbridge.bus.handshake import Expected, ExpectedBus, Finding
from axbridge.bus.protocols.packet import BROADCAST
from axbridge.bus.serial import SerialBus
from axbridge.cli import off
from axbridge.cli import verify as steps
from axbridge.cli import verify_report as report
from axbridge.cli.off import broadcast_off, powered
from axbridge.cli.verify_report import PAGE, PROMISES, STEPS, TEXT, StepOutcome, judged, verdict, write_report
from axbridge.config.profile import FirmwareProfile
from axbridge.config.registers import Address, Instruction
from axbridge.config.rig import Rig
from axbridge.config.rig_edit import copy_rig
from axbridge.errors import UsageError
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.robot.calibration import JointTurn, judge_mounting
from axbridge.robot.open import open_robot
from tests.support.pty_line import PtyLine
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
BIOLOID = Rig.load("bioloid")
AX = FirmwareProfile.load("ax-12a")
KNEE = Expected("left_knee", 14, AX)
ENDING = {"signal": "SIGKILL", "servos": 1, "moved_deg": 0.3, "seconds": 0.2, "on": []}


def turned(joint, moved=None, way=1):
    return JointTurn(joint, joint if moved is None else moved, way, "hand")


def test_one_command_repairs_all_that_is_wrong_with_a_rig_of_ones_own(tmp_path):
    own = BIOLOID.model_copy(update={"path": tmp_path / "mine.toml"})
    turns = [
        turned("left_knee", way=-1), turned("right_knee", way=-1), turned("left_hip_swing", "right_hip_swing"),
        turned("left_ankle_swing", ""),
    ]  # fmt: skip
    findings = judge_mounting(own, {"left_elbow": 0.2}, turns, "/dev/ttyUSB0")
    problems = {finding.subject.partition(" (")[0]: (finding.kind, finding.problem) for finding in findings}
    assert list(problems) == ["left_knee", "right_knee", "left_hip_swing", "left_ankle_swing", "left_elbow"]
    other = next(servo.id for servo in BIOLOID.servos if servo.name == "right_hip_swing")
    assert problems["left_hip_swing"] == ("id", f"is moved by servo {other}, which the rig gives to right_hip_swing")
    assert problems["left_ankle_swing"] == ("id", "moves another joint than the rig says: its id is another servo's")
    (fix,) = {finding.fix for finding in findings}
    assert fix.startswith(f"axbridge calibrate --rig {own.path} --joints left_elbow,right_hip_swing,left_hip_swing,")
    assert fix.endswith(" --port /dev/ttyUSB0")


# it sank, with its goal where it was and above; it is on its way to an old goal, and there
@pytest.mark.parametrize(
    ("now", "goal", "far"), [(1978, 2048, 0), (1978, 2100, 0), (2200, 2300, 152), (2310, 2300, 252)]
)
def test_only_what_a_servo_goes_towards_its_goal_is_a_jump(now, goal, far):
    assert steps.driven(2048, now, goal) == far


def test_a_control_period_that_is_not_kept_and_a_joint_that_does_not_follow_in_the_air_are_named():
    assert steps.judge_lateness([0.0] * 45 + [1.0] * 5, 20.0) == []
    (late,) = steps.judge_lateness([0.0] * 44 + [1.0] * 6, 20.0)
    assert late.problem == "6 of 50 steps of 20 ms came late"
    behind = {servo.name: 5.0 for servo in BIOLOID.servos}
    assert steps.judge_steps(BIOLOID, behind, "COM3") == []
    (finding,) = steps.judge_steps(BIOLOID, behind | {"left_knee": 25.0}, "COM3")
    assert finding.subject == "left_knee (id 14)"
    assert finding.fix.endswith("bioloid.toml --only joints --port COM3")


@pytest.fixture
def line(monkeypatch):
    monkeypatch.setattr(off, "_FREE", 0.1)
    with PtyLine((1, 2)) as line:
        yield line


def expected(line):
    return ExpectedBus(line.port, 1_000_000, tuple(Expected(f"joint{id_}", id_, AX) for id_ in line.tables))


def until_it_has_heard_the_broadcast(line):
    until(lambda: line.received and line.received[-1][0] == BROADCAST)
    line.received.clear()
    time.sleep(0.05)  # and has executed it


@pytest.mark.slow
def test_motors_with_torque_or_without_replies_are_listed_and_switched_off(line):
    gone, lines = ExpectedBus("/nowhere", 1_000_000, (KNEE,)), [expected(line)]
    assert powered(lines) == []
    until_it_has_heard_the_broadcast(line)
    line.tables[2][24] = 1
    assert powered(lines) == ["joint2"]
    until_it_has_heard_the_broadcast(line)
    assert line.tables[2][24] == 0
    line.tables[1][24] = 1
    line.deaf = {1}
    assert powered([gone, *lines]) == ["left_knee", "joint1"]
    until_it_has_heard_the_broadcast(line)
    assert line.tables[1][24] == 1
    line.deaf = set()
    with lines[0].open() as bus:
        broadcast_off(bus)
    until_it_has_heard_the_broadcast(line)
    assert line.tables[1][24] == 0


@pytest.mark.slow
def test_torque_limits_are_restored_after_an_error_on_a_line_that_loses_every_second_answer(line):
    other = PtyLine((3,))  # lost at the end
    line.tables[1][34:36] = (700).to_bytes(2, "little")
    fates = itertools.cycle(["drop", "ok"])
    line.mishap = lambda packet: next(fates) if packet.code == Instruction.READ else "ok"

    def end():
        with SerialBus(line.port) as bus:
            bus.sync_write(Address.TORQUE_LIMIT, {1: b"\1\0", 2: b"\2\0"})
        other.close()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), steps.torque_limits_kept([expected(other), expected(line)]):
        end()
    assert powered([expected(line)]) == []
    line.mishap = lambda _: "ok"
    with SerialBus(line.port) as bus:
        assert [int.from_bytes(bus.read(id_, 34, 2).data, "little") for id_ in (1, 2)] == [700, 1023]


def test_verify_leaves_the_motors_of_a_rig_that_parks_off():
    table = {"name": "one", "servo": [{"name": "a", "joint": "a", "id": 1}],
             "safety": {"on_exit": "park", "park": {"a": 0.1}, "stale_command_ms": 200}}  # fmt: skip
    safety = Rig.model_validate(table).overridden(steps.LIMP).safety
    assert (safety.on_exit, safety.stale_command_ms) == ("limp", 200)


def moved(rig, real, path):
    """Return the outcome of verify's motion with the servo of `real` and the model of `rig`, base fixed."""
    servo = steps.suited(rig)
    held = real.overridden({"world": {"fixed_base": True, "ground": False}})
    with open_robot(held, "sim", seed=3) as robot, Recorder(path, describe(held)) as recorder:
        steps.conduct(robot, servo, recorder, 1.2)
    return steps.judge_motion(rig, steps.compared(path, rig, servo), path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bench_arm", pytest.param("bioloid", marks=pytest.mark.ci)])
def test_a_servo_equal_to_its_model_is_well_within_tolerance(name, tmp_path):
    rig = Rig.load(name)
    outcome = moved(rig, rig, tmp_path / "motion.mcap")
    assert outcome.findings == []
    assert set(outcome.facts["rmse_deg"]) == {"step", "sine"}
    assert max(outcome.facts["rmse_deg"].values()) < 0.5


def test_a_servo_with_a_weak_motor_is_not_its_model(tmp_path):
    rig = Rig.load("bench_arm")
    weak = {"motor": {"torque_constant": 0.3 * rig.specs[rig.servos[0].name].model.motor.torque_constant}}
    real = rig.model_copy(update={"servos": (rig.servos[0].model_copy(update={"params": weak}),)})
    (finding,) = moved(rig, real, tmp_path / "motion.mcap").findings
    assert finding.kind == "model"
    assert "RMS away from what its model lima2009 does; 2.5° are allowed" in finding.problem
    assert f"axbridge identify {tmp_path / 'motion.mcap'} --rig" in finding.fix


def test_the_motion_is_simulated_once_for_all_pages_of_a_run(tmp_path, monkeypatch):
    simulated, drawn = [], []
    monkeypatch.setattr(steps, "compared", lambda *given: simulated.append(given[-1]) or "both")
    monkeypatch.setattr(steps, "write_report", lambda *given: drawn.append(given[4]))
    (tmp_path / "motion.mcap").touch()
    session = steps._Session(BIOLOID, "bioloid", None, [], tmp_path, True, {}, input, lambda _: None)
    motion = StepOutcome({"servo": "left_knee"})
    for name, outcome in (("motion", motion), ("walk", StepOutcome()), ("motion", StepOutcome(state="failed"))):
        session._keep(name, outcome)
    assert (simulated, drawn) == (["left_knee"], ["both", "both", None])


def test_a_damaged_recording_of_an_earlier_run_leaves_its_picture_out_of_the_page(tmp_path, capsys):
    (tmp_path / "motion.mcap").write_bytes(b"MCAP")
    kept = {"motion": StepOutcome({"servo": "left_knee"})}
    session = steps._Session(BIOLOID, "bioloid", None, [], tmp_path, True, kept, input, lambda _: None)
    session._keep("line", StepOutcome())
    assert "motion.mcap: " in (said := capsys.readouterr().out)
    assert "so the page shows no motion; do the step motion again" in said
    assert "beside its model</h2>" not in (tmp_path / "verify.html").read_text()


def test_a_motor_that_stays_on_and_a_jump_break_promises_and_what_cannot_be_judged_is_neither_seen_nor_broken():
    lines = [ExpectedBus("P", 1_000_000, (KNEE,))]
    assert steps.judge_endings([ENDING], lines) == []
    (on,) = steps.judge_endings([ENDING | {"on": ["left_knee"]}], lines)
    assert on.fatal
    outcomes = {
        "endings": StepOutcome(findings=(on, *steps.judge_endings([ENDING | {"moved_deg": 9.0}], lines))),
        "line": StepOutcome({"unjudged": {"echo": "this adapter returns nothing"}}),
    }
    verdicts = {promise.broken: (verdict, why) for promise, verdict, why in judged(outcomes)}
    assert verdicts["SIGKILL"][0] == "not kept"
    assert "left_knee (id 14) still had torque, or did not answer, after SIGKILL" in verdicts["SIGKILL"][1]
    assert verdicts["snap"] == ("not kept", "one of 1 moved by 9° when torque came on")
    assert verdicts["SIGTERM"] == ("seen", "step endings")
    assert verdicts["echo"] == ("cannot be judged here", "this adapter returns nothing")
    assert verdicts["powered"][0] == "not tried"
    assert all((ROOT / "docs" / promise.page).exists() and promise.step in STEPS for promise in PROMISES)
    assert report.counted(outcomes) == "6 seen, 2 not kept, 1 cannot be judged here, 1 not tried"


def test_a_step_that_failed_or_was_not_done_is_not_passed(tmp_path):
    why = ("servo 1 did not answer", "check power and wiring", "it was not finished")
    outcomes = {
        "line": StepOutcome(),
        "joints": StepOutcome(lines=("left out",), state="skipped"),
        "endings": StepOutcome(lines=why, state="failed"),
    }
    write_report(tmp_path, Rig.load("bioloid"), outcomes, {}, None)
    text = (tmp_path / TEXT).read_text(encoding="utf-8")
    assert text.startswith("NOT PASSED: endings failed; joints skipped; motion, walk not done\n")
    card = "\n  ".join(("motors off when a program is ended", "failed", *why, "then axbridge verify --rig "))
    assert re.search(re.escape(card) + ".*bioloid.toml --only endings\n", text)
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert '<p class="light broken">NOT PASSED: endings failed;' in page
    marks = re.findall(r'<section class="card (\w+)">.*?<small>(.*?)</small>', page)
    untried = ("untried", "not tried")
    assert marks == [("passed", "passed"), untried, ("broken", "not passed"), untried, untried]
    assert re.search(r"<code>axbridge verify --rig \S*bioloid.toml --only endings</code> <button data-copy>", page)


def test_only_a_robot_whose_steps_are_all_done_has_passed():
    bioloid, head = BIOLOID, Rig.load("pan_tilt")

    def joints(turned, *findings):
        return {"joints": StepOutcome({"turns": [{}] * turned}, findings=findings)}

    done = {name: StepOutcome() for name in STEPS} | joints(18)
    assert verdict(bioloid, done) == ("passed", "passed: nothing to repair")
    assert verdict(bioloid, done | joints(17)) == ("open", "not complete: 1 of 18 directions unknown")
    del done["walk"]
    assert verdict(bioloid, done) == ("open", "not complete: walk not done")
    assert verdict(head, done | joints(2)) == ("passed", "passed: nothing to repair")  # a rig without legs
    finding = Finding("pan (id 1)", "turns the other way", "axbridge calibrate", True, "direction", 1)
    assert verdict(head, done | joints(2, finding)) == ("broken", "NOT PASSED: 1 to repair")


def test_text_and_page_name_neither_person_nor_computer_nor_adapter(tmp_path):
    rig = Rig.load(copy_rig(Rig.load("pan_tilt"), tmp_path / "anns_head")[0])
    port = "/dev/serial/by-id/usb-FTDI_USB__-__Serial_A4012345-if00-port0"
    findings = (
        Finding(port, "81 Hz", f"axbridge doctor --port {port}", False, "rate"),
        Finding("pan (id 1)", "turns the other way", f"axbridge calibrate --rig {rig.path}", True, "direction", 1),
    )
    outcomes = {"line": StepOutcome(lines=(f"{port}: gone", str(rig.path)), findings=findings, state="failed")}
    private = {port: "PORT", str(rig.path): "RIG", str(tmp_path): "FOLDER", str(Path.home()): "~"}
    write_report(tmp_path, rig, outcomes, private, None)
    page, text = ((tmp_path / file).read_text(encoding="utf-8") for file in (PAGE, TEXT))
    for said in (text, page.partition("<body>")[2].partition("</h1>")[2]):
        private = ("A4012345", str(tmp_path), "anns_head", f"{Path.home()}/", platform.node(), f"{getpass.getuser()}@")
        assert not [word for word in private if word in said]
        assert "PORT: 81 Hz" in said
    assert "a rig of the owner's" in text


def test_outcomes_are_saved_and_loaded_again(tmp_path):
    rig = Rig.load("bench_arm")
    finding = Finding("shoulder (id 1)", "lost 3 of 9 answers", "check its cable", False, "loss", 1)
    outcomes = {"line": StepOutcome({"volts": np.float64(12.0)}, ["told"], [finding], "failed", "2026-01-02 03:04 UTC")}
    report.save(tmp_path / "verify.json", rig, outcomes)
    assert report.load(tmp_path / "verify.json", rig) == outcomes
    assert report.load(tmp_path / "nothing.json", rig) == {}
    with pytest.raises(UsageError, match="is of rig bench_arm, not of bioloid"):
        report.load(tmp_path / "verify.json", Rig.load("bioloid"))
