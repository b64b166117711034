"""The steps of `axbridge verify`: each measures something on the robot, and says what is wrong by that."""

from __future__ import annotations

import math
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import numpy as np

from axbridge.bus.diagnose import diagnose
from axbridge.bus.handshake import ExpectedBus, Finding, name_of
from axbridge.bus.retries import CONFIRMED
from axbridge.cli.doctor import examined, in_words
from axbridge.cli.off import patiently_opened, powered, read_patiently
from axbridge.cli.progress import Show
from axbridge.comparison.comparison import Comparison, compare, following
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, BusError, UsageError, plural
from axbridge.motion.experiments import ExperimentRun, Progress, unseen
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot
from axbridge.robot.robot import Robot
from axbridge.robot.twin.residuals import tolerance

SHARE = 0.2  # of a servo's torque: it holds a joint that hands carry, and a finger stops it
_HALF = 0.5  # likewise, where it moves
LIMP = {"safety": {"on_exit": "limp"}}  # motors are off at every end, whatever the rig says itself
_OFTEN = 0.1  # share of the steps: more late ones are no hiccup
_STARTS = 30.0  # s in which the program that holds the motors has begun
_DIES = 10.0  # s in which it ends
_SNAPS = 3.0  # degrees: a motor that comes on where it is does not move so far
_SETTLES = 0.3  # s
_HOLDS = 20.0  # s at most: nobody has to end it
_STEP, _SWING = math.radians(35), math.radians(20)
ENDS = -_SWING, _STEP  # between them the servo moves, rad
_APPROACH = 0.8  # s
_CYCLES = 2  # of the sine
_BEHIND = 12.0  # degrees behind its goal at the worst moment: what lags less is no more than slow


@dataclass(frozen=True)
class StepOutcome:
    """What came of a step: plain data for page and promises, the same in words, and what is wrong."""

    facts: dict[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    state: Literal["done", "skipped", "failed"] = "done"  # failed: it was not finished, for the reason in its lines
    when: str = field(default_factory=lambda: f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC")


@dataclass(frozen=True)
class Task:
    """What is wanted: a rig that ends limp, and how the user calls it."""

    rig: Rig
    called: str
    port: str | None
    lines: list[ExpectedBus]
    folder: Path
    quick: bool


def measure_line(task: Task, show: Show) -> StepOutcome:
    """Examine each line as `axbridge doctor` does, then step the limp robot, to see whether its period is kept."""
    facts: dict[str, Any] = {"lines": [], "servos": {}, "unjudged": {}}
    lines: list[str] = []
    findings: list[Finding] = []
    for line in task.lines:
        with line.open() as bus:
            report = diagnose(bus, line.servos, 400 if task.quick else 2000, show)
            facts["servos"] |= examined(bus, line, task.rig, report)
        facts["lines"].append(report.facts)
        lines += in_words(report.facts)
        findings += report.findings
    if not any(line["echo"] for line in facts["lines"]):
        facts["unjudged"]["echo"] = "this adapter returns nothing"
    if not all("wrong" in line for line in facts["lines"]):
        facts["unjudged"]["wrong"] = "nothing was measured"
    lines.append(f"found {len(facts['servos'])} of {plural(len(task.rig.dynamixels), 'servo')} of the rig")
    if any(finding.fatal for finding in findings):
        facts["unjudged"]["late"] = "the robot cannot be opened"
    else:
        show("stepping the limp robot")
        with open_robot(task.rig, "real", port=task.port) as robot:
            for servo in robot.values():
                servo.torque_off()
            robot.step()
            end, late = robot.time + (1.0 if task.quick else 10.0), []
            while robot.time < end and robot.step() != -1:
                late.append(robot.last_step.late)
        period = task.rig.robot.basic_time_step_ms
        count = sum(lateness > 0 for lateness in late)
        lines.append(f"{len(late)} steps of {period:g} ms: {count} late, by {max(late, default=0.0):.1f} ms at most")
        findings += judge_lateness(late, period)
    return StepOutcome(facts, lines, findings)


def judge_lateness(late: Sequence[float], period: float) -> list[Finding]:
    """Whether the control period is too short for this line and this computer; all in ms."""
    count = sum(lateness > 0 for lateness in late)
    problem = f"{count} of {len(late)} steps of {period:g} ms came late"
    fix = "close other programs, remove what makes the line slow, or give the rig a longer basic_time_step_ms"
    return [Finding("the computer", problem, fix, False, "late")] if count > _OFTEN * len(late) else []


def measure_endings(task: Task, show: Show) -> StepOutcome:
    """Let a program hold one servo, then all, and end it each time by each signal; then ask every servo."""
    names = [servo.name for line in task.lines for servo in line.servos]
    facts: dict[str, Any] = {"endings": [], "unjudged": {}}
    numbers = [signal.SIGTERM, signal.SIGKILL]
    if any(line.port.startswith("rfc2217://") for line in task.lines):
        facts["unjudged"][numbers.pop().name] = "no guard can inherit such a port"
    lines = []
    cases = [(held, number) for held in dict.fromkeys(((names[0],), tuple(names))) for number in numbers]
    for held, number in cases:
        what = held[0] if len(held) == 1 else plural(len(held), "servo")
        show(f"{what}, {number.name}")
        ending = {"signal": number.name, "servos": len(held), **_ended(task, held, number)}
        facts["endings"].append(ending)
        off = f"off, as all servos say {ending['seconds']:.2f} s later"
        lines.append(f"{number.name} with {what} on: {', '.join(ending['on']) + ' still on' if ending['on'] else off}")
        if ending["on"]:
            break
    return StepOutcome(facts, lines, judge_endings(facts, task.lines))


def _ended(task: Task, held: Sequence[str], number: signal.Signals) -> dict[str, Any]:
    """What came of one ending: how far servos went when torque came on, and who had torque how long after."""
    command = [sys.executable, "-m", "axbridge.cli.verify_steps", task.called, task.port or "", ",".join(held)]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+", errors="replace") as said,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, errors="replace") as child,
    ):
        try:
            assert child.stdout is not None
            ready = select.select([child.stdout], [], [], _STARTS)[0]
            line = child.stdout.readline() if ready else ""
            if not line:
                said.seek(0)
                words = " ".join(said.read().split()) or "it says nothing"
                raise BusError(f"the program that should hold the motors did not get so far: {words}", "try again")
            started = time.monotonic()
            child.send_signal(number)
            with suppress(subprocess.TimeoutExpired):  # who has torque then is found
                child.wait(_DIES)
            on = powered(task.lines)
            return {"moved_deg": math.degrees(float(line)), "on": on, "seconds": time.monotonic() - started}
        finally:
            child.terminate()  # it is asked first, so that it switches motors off
            try:
                child.wait(_DIES)
            except subprocess.TimeoutExpired:
                child.kill()


def hold(rig: Rig, port: str, names: list[str]) -> None:
    """Switch these servos on where they are, at little torque, and hold until standard input ends.

    It ends when the program that has started this one is dead. How far one went to its goal is printed, rad.
    """
    with open_robot(rig.overridden(LIMP), "real", port=port or None) as robot:
        before = {name: robot[name].read("present_position") for name in names}
        for name in names:
            robot[name].set_available_torque(SHARE * robot[name].max_torque)
            robot[name].torque_on()
        while robot.time < _SETTLES:
            robot.step()
        went = []
        for name, start in before.items():
            counts = driven(start, robot[name].read("present_position"), robot[name].read("goal_position"))
            went.append(counts * robot[name].dynamixel.profile.units.position)
        print(max(went), flush=True)
        while robot.time < _HOLDS and not select.select([sys.stdin], [], [], 0)[0] and robot.step() != -1:
            pass


def driven(before: int, now: int, goal: int) -> int:
    """How far a servo went to its goal when torque came on, counts; its load may have moved it elsewhere."""
    gone, asked = now - before, goal - before
    return min(abs(gone), abs(asked)) if gone * asked > 0 else 0


def judge_endings(facts: Mapping[str, Any], lines: Sequence[ExpectedBus]) -> list[Finding]:
    """Motors that stayed on, and motors that jumped when they came on."""
    findings = []
    for ending in facts["endings"]:
        findings += _left_on(lines, ending["on"], ending["signal"], ending["signal"])
        if ending["moved_deg"] > _SNAPS:
            problem = f"moved by {ending['moved_deg']:.0f}° when torque came on"
            fix = "its goal was not where it stood: do this step again"
            findings.append(Finding(f"one of {ending['servos']}", problem, fix, False, "snap"))
    return findings


def _left_on(lines: Sequence[ExpectedBus], on: Sequence[str], after: str, kind: str = "powered") -> list[Finding]:
    problem = f"still had torque, or did not answer, after {after}"
    fix = "what answers is off now; until this is understood, keep a hand on the switch, and send what was found"
    servos = [servo for line in lines for servo in line.servos if servo.name in on]
    return [Finding(name_of(servo), problem, fix, True, kind, servo.id) for servo in servos]


def suited(rig: Rig) -> str:
    """The servo that such a motion does least harm to: of those that may go so far, the one that carries least."""
    low, high = ENDS
    able = [servo for servo in rig.servos if servo.soft_limits[0] <= low and high <= servo.soft_limits[1]]
    if not able:
        problem = f"no servo of rig {rig.name} goes from {math.degrees(low):.0f} to {math.degrees(high):.0f}°"
        raise UsageError(problem, "leave the step motion out")
    if rig.world is None:
        return able[0].name
    tree = rig.tree()
    carried = [1] * len(tree.links)
    for link in range(len(tree.links) - 1, 0, -1):  # children come after their parents
        carried[tree.parent[link]] += carried[link]
    behind = {name: carried[link] for name, link in tree.moved.items()}
    return min(able, key=lambda servo: behind.get(servo.joint, len(tree.links))).name


def measure_motion(task: Task, path: Path, show: Show) -> None:
    """Move one servo at half its torque, and record all at `path`; the others hold where they are."""
    about = describe(task.rig, experiment="step, sine")
    with open_robot(task.rig, "real", port=task.port) as robot, Recorder(path, about | robot.origin) as recorder, robot:
        conduct(robot, suited(task.rig), recorder, 1.2 if task.quick else 4.0, show)


def conduct(robot: Robot, servo: str, recorder: Recorder, period: float, progress: Progress = unseen) -> None:
    """The motion itself: a step of half a period, and a sine."""
    for joint in robot.values():
        joint.set_available_torque(_HALF * joint.max_torque)
        joint.torque_on()  # where it is
    robot[servo].goto(0.0, _APPROACH)
    with RobotRecorder(robot, recorder) as log:
        run = ExperimentRun(robot, log, [servo], robot.basic_time_step, progress)
        command = run.servos[servo].servo.set_position
        command(0.0)
        run.segment("rest", 0.3, kind="rest")
        command(_STEP)
        run.segment(f"step to {math.degrees(_STEP):.0f}°", period / 2, kind="step", start=0.0, target=_STEP)
        robot[servo].goto(0.0, _APPROACH)
        run.segment("sine", _CYCLES * period, lambda t: command(_SWING * math.sin(math.tau * t / period)), kind="sine")


def compared(path: Path, rig: Rig, servo: str) -> Comparison:
    """A recording of `measure_motion` beside the simulation of it: hands hold the robot upright, in the air."""
    recording = open_recording(path)
    held = rig if rig.world is None else rig.overridden({"world": {"fixed_base": True, "ground": False}})
    alone = replace(recording, tracks={servo: recording[servo]})
    return compare(alone, simulate(recording, held), labels=("measured", "simulated"))


def judge_motion(rig: Rig, comparison: Comparison, path: Path) -> StepOutcome:
    """Whether a servo does what its model says, as well as the model claims, by its RMS distance in each part."""
    (pair,) = comparison.pairs
    name, servo = pair.name, next(value for value in rig.servos if value.name == pair.name)
    model = rig.model_of(servo)
    # of the parts in which the motor says where the joint goes, degrees
    rmse = {part.kind: part.deviation.rmse for part in pair.parts if part.kind in {"step", "sine"}}
    listed = ", ".join(f"{kind} {value:.2f}° RMS" for kind, value in rmse.items())
    allowed = math.degrees(tolerance(rig, servo, model).wrong)
    rms = math.sqrt(sum(value**2 for value in rmse.values()) / len(rmse))
    problem = f"is {rms:.1f}° RMS away from what its model {model.name} does; {allowed:.1f}° are within its word"
    fix = (
        f"look what it carries, and what holds it; if nothing does, identify it: axbridge identify {path} "
        f"--rig {rig.path} --servo {name} --model ax12 --out {name}.toml"
    )
    findings = [] if rms <= allowed else [Finding(f"{name} (id {servo.id})", problem, fix, False, "model", servo.id)]
    facts = {"servo": name, "model": model.name, "rmse_deg": rmse}
    return StepOutcome(facts, [f"{name} beside its model {model.name}: {listed} apart"], findings)


def measure_steps(task: Task, path: Path, show: Show) -> StepOutcome:
    """Let the robot, held in the air, take some steps, and look how far its joints are behind their goals."""
    gait = Gait(steps=2 if task.quick else 10)
    about = describe(task.rig, experiment="walk in the air", gait=asdict(gait))
    with open_robot(task.rig, "real", port=task.port) as robot, Recorder(path, about | robot.origin) as recorder, robot:
        outcome = walk(robot, gait, recorder, hanging=True, progress=show)
    recording = open_recording(path)
    part = next(part for part in recording.segments if part.name == "walk")
    tracks = {name: track.between(part.start, part.end) for name, track in recording.items()}
    walked = replace(recording, tracks=tracks)
    weakest = min(float(np.nanmin(track.voltage)) for track in walked.values())
    behind = {pair.name: (pair.aligned or pair.plain).worst for pair in following(walked).pairs}  # lateness taken out
    worst = max(behind, key=lambda name: behind[name])
    facts = {"steps": gait.steps, "seconds": outcome.seconds, "behind_deg": behind, "weakest_v": weakest}
    lag = f"{worst} was {behind[worst]:.1f}° behind its goal at most"
    line = f"{plural(gait.steps, 'step')} in {outcome.seconds:.1f} s; {lag}; {weakest:.1f} V at least"
    return StepOutcome(facts, [line], judge_steps(task.rig, behind))


def judge_steps(rig: Rig, behind: Mapping[str, float]) -> list[Finding]:
    """Joints that did not follow, by how far each was behind its goal, degrees."""
    fix = f"look what holds it, and at its supply; then axbridge verify --rig {rig.path} --only joints"
    problem = "was {:.0f}° behind its goal, though it carried nothing but itself"
    slow = [(f"{servo.name} (id {servo.id})", servo.id, behind.get(servo.name, 0.0)) for servo in rig.servos]
    return [Finding(name, problem.format(far), fix, False, "behind", id_) for name, id_, far in slow if far > _BEHIND]


def with_what_is_left_on(lines: Sequence[ExpectedBus], outcome: StepOutcome) -> StepOutcome:
    """What a step found, and whether its motors are off now that it has ended."""
    left = _left_on(lines, powered(lines), "its program had ended")
    return replace(outcome, findings=[*outcome.findings, *left])


@contextmanager
def torque_limits_kept(lines: Sequence[ExpectedBus]) -> Iterator[None]:
    """Give every servo the torque limit back that it had before the block: a program that is killed cannot do that."""
    before: list[dict[int, bytes]] = []
    for line in lines:
        with patiently_opened(line) as bus:
            before.append(
                {servo.id: read_patiently(bus, servo.id, servo.protocol.torque_limit, 2) for servo in line.servos}
            )
    try:
        yield
    finally:
        for line, limits in zip(lines, before, strict=True):
            with suppress(BusError), patiently_opened(line) as bus:  # it must not hide what ended the block
                for servo in line.servos:
                    for _ in range(CONFIRMED):
                        bus.sync_write(servo.protocol.torque_limit, {servo.id: limits[servo.id]})


if __name__ == "__main__":
    try:
        hold(Rig.load(sys.argv[1]), sys.argv[2], sys.argv[3].split(","))
    except AxBridgeError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
