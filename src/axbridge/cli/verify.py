"""`axbridge verify`: check a new real robot step by step, with the user's hand on the supply switch."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from axbridge import Recorder, Rig, Robot, open_recording, simulate, walk
from axbridge.bus.diagnose import diagnose
from axbridge.bus.handshake import ExpectedBus, Finding, name_of
from axbridge.bus.retries import CONFIRMED
from axbridge.bus.serial import SerialBus
from axbridge.cli.app import DONE, FAILED_CHECK
from axbridge.cli.by_hand import AGAIN, BACK, KEYS, QUIT, SKIP, YES, Ended, ManualProcedure, ask, pressed
from axbridge.cli.doctor import examined, in_words, report_findings
from axbridge.cli.exit import early_end, motors_after
from axbridge.cli.off import broadcast_off, buses_of, patiently_opened, powered, read_patiently
from axbridge.cli.options import Result, RigOption, check_known, fit_of, separated, verb
from axbridge.cli.progress import Show, progress
from axbridge.cli.verify_report import (
    KEPT,
    PAGE,
    STEPS,
    TEXT,
    StepOutcome,
    counted,
    judged,
    load,
    save,
    verdict,
    write_report,
)
from axbridge.comparison.comparison import Comparison, compare, following
from axbridge.errors import AxBridgeError, BusError, RecordingError, Remedy, UsageError, plural
from axbridge.files import check_new
from axbridge.motion.experiments import ExperimentRun, Progress, unseen
from axbridge.motion.gait import Gait, can_walk
from axbridge.recording.robot_recorder import RobotRecorder, recording_of
from axbridge.robot.calibration import TORQUE, JointTurn, judge_mounting, zero_pose
from axbridge.robot.open import open_robot
from axbridge.robot.twin.residuals import tolerance

_MOTION = "motion.mcap"
_OTHER_SENSE, _OTHER_JOINT = "o", "x"
_MOVING = ("motion", "walk")  # steps that could damage a robot whose rig is wrong
_HALF = 0.5  # share of a servo's torque in steps that move
LIMP = {"safety": {"on_exit": "limp"}}  # replaces the rig's on_exit: motors are off at every end
_LATE_SHARE = 0.1  # share of late steps above which the control period is too short
_START_TIMEOUT = 30.0  # s; time limit for the program that holds the motors to start
_END_TIMEOUT = 10.0  # s; time limit for it to end
_MOST_JUMP = 3.0  # degrees; largest motion when torque comes on at the present position
_SETTLING_TIME = 0.3  # s from torque on to the measurement
_HOLD_TIME = 20.0  # s; the program ends by itself after this time
_STEP, _SWING = math.radians(35), math.radians(20)
ENDS = -_SWING, _STEP  # range of the motion, rad
_APPROACH = 0.8  # s to the start position
_CYCLES = 2  # periods of the sine
_MOST_LAG = 12.0  # degrees; a joint with a larger error behind its goal did not follow


@verb("--rig bioloid --port /dev/ttyUSB0")
def verify(
    *,
    rig: RigOption,
    port: str | None = None,
    out: Annotated[Path | None, "A folder; default: verify-RIG.", "FOLDER"] = None,
    only: Annotated[str, f"Only these steps, separated by commas: {', '.join(STEPS)}."] = "",
    engine: str | None = None,
    quick: Annotated[bool, "Read less and move less, to check again."] = False,
    force: bool = False,
) -> Result:
    """Check step by step that a real robot matches its rig, and that its motors go off when a program ends.

    Each step says what will move and waits until you agree. Keep a hand on the supply's switch. You can leave steps
    out and repeat them. A later run in the same folder continues where this one ended. At the end the motors are off,
    also after an error or Ctrl-C. The exit code is 1 if a step found a fault.
    """
    loaded = Rig.load(rig).with_engine(engine).overridden(LIMP)
    wanted = separated(only)
    check_known("step", STEPS, *wanted)
    queue = [name for name in STEPS if name in (wanted or STEPS)]
    folder, lines = out or Path(f"verify-{loaded.name}"), buses_of(port, rig, 0)
    kept = {} if force else load(folder / KEPT, loaded)
    check_new(folder / KEPT, folder / TEXT, folder / PAGE, force=force or bool(kept))
    if "walk" in queue and not can_walk(loaded):
        queue.remove("walk")
        if "walk" in wanted:
            raise UsageError(f"rig {loaded.name} has no legs that walk", "leave the step walk out")
    for line in lines:
        SerialBus(line.port, line.baud).close()  # a port error must come before the first question
    moved: list[str] = []

    def left(end: BaseException) -> str:
        why = "stopped" if isinstance(end, KeyboardInterrupt) or not end.args else f"stopped ({end})"
        files = f"{folder} holds what was found so far" if (folder / KEPT).exists() else "nothing was written"
        return f"{why}: {motors_after(loaded) if moved else 'no motor was moved'}; {files}"

    with early_end(left, Ended), pressed() as key, progress("") as show:
        code = _Session(loaded, rig, port, lines, folder, quick, kept, key, show).run(queue, moved)
    steps = {name: asdict(outcome) for name, outcome in kept.items()}
    promises = [{"promise": promise.words, "verdict": verdict, "why": why} for promise, verdict, why in judged(kept)]
    return Result({"rig": loaded.name, "folder": str(folder), "steps": steps, "promises": promises}, code=code)


@dataclass
class _Session:
    """Runs the steps, and prints and saves their outcomes; `outcomes` starts with those of an earlier run."""

    rig: Rig  # with on_exit limp
    called: str  # the user's name for the rig
    port: str | None
    lines: list[ExpectedBus]
    folder: Path
    quick: bool
    outcomes: dict[str, StepOutcome]
    key: Callable[[], str]
    show: Show
    beside: Comparison | None = None  # the motion and its simulation, which takes seconds

    def run(self, queue: list[str], moved: list[str]) -> int:
        """Run these steps, and return the exit code; append to `moved` when the motors have been switched off."""
        print(f"{self.rig.name}, servos: {len(self.rig.dynamixels)}, steps: {len(queue)}.")
        print("All motors go off now, and are off between the steps and at the end: hold the robot.")
        self._ask(f"keys: {YES} goes on, {QUIT} ends", YES)
        moved.append("motors off")
        for line in self.lines:
            with line.open() as bus:
                broadcast_off(bus, line.servos)
        for place, name in enumerate(queue):
            print(f"\n{place + 1} of {len(queue)}: {name}, {STEPS[name][0]}", flush=True)
            while self._again(name):
                pass
        state, words = verdict(self.rig, self.outcomes)
        print(f"\nmotors are off; {words}")
        print(f"promises  {counted(self.outcomes)}")
        print(f"page      {self.folder / PAGE}")
        print(f"to send   {self.folder / TEXT}: it has no personal data; see docs/bioloid.md")
        return FAILED_CHECK if state == "broken" else DONE

    def _again(self, name: str) -> bool:
        """Ask for a step, run it and print its outcome; return whether the user wants to repeat it."""
        before = self.outcomes.get(name)
        if before is not None and before.state == "done":
            print(f"  done on {before.when}:")
            _report(before)
            if self._ask(f"  {AGAIN} does it again, any other key keeps it") != AGAIN:
                return False
        try:
            moves = self._moves(name)
        except UsageError as reason:
            return self._left_out(name, f"left out: {reason.message}")
        if self._ask(f"  {moves}\n  {YES} does it, {SKIP} leaves it out, {QUIT} ends", YES + SKIP) == SKIP:
            return before is None and self._left_out(name, "left out")
        try:
            outcome = self._measured(name)
            if not outcome.lines:
                return self._left_out(name, "nothing was tried, so nothing was judged")
        except RecordingError:
            raise
        except AxBridgeError as error:
            outcome = StepOutcome(lines=[*str(error).splitlines(), "it was not finished"], state="failed")
        self._keep(name, outcome)
        _report(outcome)
        if outcome.state == "done" and not outcome.findings:
            print("  nothing to repair", flush=True)
            return False
        return self._ask(f"  {AGAIN} does it again, any other key goes on") == AGAIN

    def _left_out(self, name: str, why: str) -> bool:
        self._keep(name, StepOutcome(lines=[why], state="skipped"))
        print(f"  {why}", flush=True)
        return False

    def _moves(self, name: str) -> str:
        broken = [step for step, outcome in self.outcomes.items() if any(finding.fatal for finding in outcome.findings)]
        if name in _MOVING and broken:
            raise UsageError(f"first repair what was found: {', '.join(broken)}", "then do those steps again")
        swing, step = (abs(math.degrees(end)) for end in ENDS)
        servo, first = suited(self.rig) if name == "motion" else "", self.lines[0].servos[0].name
        moves = STEPS[name][1].format(first=first, servo=servo, swing=swing, step=step, steps=self._steps)
        known = len(self.outcomes["joints"].facts.get("turns", ())) if "joints" in self.outcomes else 0
        if name in _MOVING and known < len(self.rig.servos):
            return f"Directions and zeros are known of {known} of {plural(len(self.rig.servos), 'joint')} only! {moves}"
        return moves

    def _measured(self, name: str) -> StepOutcome:
        steps = {
            "line": self._line, "joints": self._joints, "endings": self._endings,
            "motion": self._motion, "walk": self._walk,
        }  # fmt: skip
        outcome = steps[name]()
        if name not in _MOVING:
            return outcome
        left = _left_on(self.lines, powered(self.lines), "its program had ended")
        return replace(outcome, findings=[*outcome.findings, *left])

    def _keep(self, name: str, outcome: StepOutcome) -> None:
        """Save the outcome of a step, and write page and text again."""
        self.outcomes[name] = outcome
        save(self.folder / KEPT, self.rig, self.outcomes)
        ports = {name for line in self.lines for name in (line.port, str(Path(line.port).resolve()))}
        paths = {str(self.rig.path): "RIG", str(self.rig.path.resolve()): "RIG", str(Path.home()): "~"}
        private = {**dict.fromkeys(ports, "PORT"), **paths, f"{self.folder}{os.sep}": f"FOLDER{os.sep}"}
        motion, path = self.outcomes.get("motion"), self.folder / _MOTION
        if motion is None or motion.state != "done":
            self.beside = None
        elif self.beside is None and path.is_file():  # recorded by an earlier run
            self.show("simulating")
            try:
                self.beside = compared(path, self.rig, motion.facts["servo"])
            except RecordingError as damaged:
                print(f"  {damaged.message}, so the page shows no motion; do the step motion again", flush=True)
        write_report(self.folder, self.rig, self.outcomes, private, self.beside, self.port)

    def _ask(self, what: str, keys: str = "") -> str:
        self.show("waiting for a key")
        return ask(self.key, what, keys)

    @property
    def _steps(self) -> int:
        return 2 if self.quick else 10

    def _line(self) -> StepOutcome:
        """Examine each line as `axbridge doctor` does, and count late steps of the limp robot."""
        facts: dict[str, Any] = {"lines": [], "servos": {}, "unjudged": {}}
        lines: list[str] = []
        findings: list[Finding] = []
        for line in self.lines:
            with line.open() as bus:
                report = diagnose(bus, line.servos, 400 if self.quick else 2000, self.show)
                facts["servos"] |= examined(bus, line, self.rig, report)
            facts["lines"].append(report.facts)
            lines += in_words(report.facts)
            findings += report.findings
        if not any(line["echo"] for line in facts["lines"]):
            facts["unjudged"]["echo"] = "this adapter returns nothing"
        if not all("wrong" in line for line in facts["lines"]):
            facts["unjudged"]["wrong"] = "nothing was measured"
        lines.append(f"found {len(facts['servos'])} of {plural(len(self.rig.dynamixels), 'servo')} of the rig")
        if any(finding.fatal for finding in findings):
            facts["unjudged"]["late"] = "the robot cannot be opened"
            return StepOutcome(facts, lines, findings)
        self.show("stepping the limp robot")
        with self._limp() as robot:
            robot.step()
            end, late = robot.time + (1.0 if self.quick else 10.0), []
            while robot.time < end and robot.step() != -1:
                late.append(robot.last_step.late)
        period = self.rig.robot.basic_time_step_ms
        count = sum(lateness > 0 for lateness in late)
        lines.append(f"{len(late)} steps of {period:g} ms: {count} late, by {max(late, default=0.0):.1f} ms at most")
        return StepOutcome(facts, lines, [*findings, *judge_lateness(late, period)])

    @contextmanager
    def _limp(self) -> Iterator[Robot]:
        with open_robot(self.rig, "real", port=self.port) as robot:
            for servo in robot.values():
                servo.torque_off()
            yield robot

    def _joints(self) -> StepOutcome:
        rig, pose = self.rig, zero_pose(self.rig)
        with self._limp() as robot:
            guide: ManualProcedure[JointTurn] = ManualProcedure(rig, robot, self.key, self.show)
            how = "straight legs, level soles, arms hanging" if can_walk(rig) else "as its URDF draws it"
            bent = "".join(f", but {name} {math.degrees(angle):.0f}°" for name, angle in pose.items() if angle)
            what = f"  hold every joint at 0° ({how}){bent}; press a key ({SKIP} leaves the zeros out)"
            straight = {} if guide.ask(what) == SKIP else guide.angles()
            print(f"  {KEYS}", flush=True)
            names = [servo.name for servo in rig.servos]
            turns = list(guide.each(names, lambda name, count: _turned(guide, name, count)).values())
        off = {name: angle - pose[name] for name, angle in straight.items()}
        lines = [f"{len(turns)} of {plural(len(rig.servos), 'joint')} turned"] if off or turns else []
        if off:
            worst = max(off, key=lambda name: abs(off[name]))
            lines.insert(0, f"straight within {math.degrees(abs(off[worst])):.1f}°, {worst} farthest")
        facts = {"off": off, "turns": [asdict(turn) for turn in turns]}
        return StepOutcome(facts, lines, judge_mounting(rig, off, turns, self.lines[0].port))

    def _endings(self) -> StepOutcome:
        """End a program that holds one servo, then all, by each signal; then read every servo's torque."""
        names = [servo.name for line in self.lines for servo in line.servos]
        endings, lines, numbers = list[dict[str, Any]](), list[str](), [signal.SIGTERM, signal.SIGKILL]
        unjudged = {}
        if any(line.port.startswith("rfc2217://") for line in self.lines):
            unjudged[numbers.pop().name] = "no guard can inherit such a port"
        cases = [(held, number) for held in dict.fromkeys(((names[0],), tuple(names))) for number in numbers]
        for held, number in cases:
            what = held[0] if len(held) == 1 else plural(len(held), "servo")
            self.show(f"{what}, {number.name}")
            with torque_limits_kept(self.lines):
                ending = {"signal": number.name, "servos": len(held), **self._ended(held, number)}
            endings.append(ending)
            off = f"off, as all servos say {ending['seconds']:.2f} s later"
            state = ", ".join(ending["on"]) + " still on" if ending["on"] else off
            lines.append(f"{number.name} with {what} on: {state}")
            if ending["on"]:
                break
        return StepOutcome({"endings": endings, "unjudged": unjudged}, lines, judge_endings(endings, self.lines))

    def _ended(self, held: Sequence[str], number: signal.Signals) -> dict[str, Any]:
        """End a program that holds `held`; return the motion at torque on, the servos still on, and the time, s."""
        command = [sys.executable, "-m", "axbridge.cli.verify", self.called, self.port or "", ",".join(held)]
        pipe = subprocess.PIPE
        with (
            tempfile.TemporaryFile("w+", errors="replace") as words,
            subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=words, errors="replace") as child,
        ):
            try:
                assert child.stdout is not None
                ready = select.select([child.stdout], [], [], _START_TIMEOUT)[0]
                line = child.stdout.readline() if ready else ""
                if not line:
                    words.seek(0)
                    why = " ".join(words.read().split()) or "it printed nothing"
                    raise BusError(f"the program that holds the motors did not start: {why}", "try again")
                started = time.monotonic()
                child.send_signal(number)
                with suppress(subprocess.TimeoutExpired):  # `powered` then shows the servos with torque
                    child.wait(_END_TIMEOUT)
                on = powered(self.lines)
                return {"moved_deg": math.degrees(float(line)), "on": on, "seconds": time.monotonic() - started}
            finally:
                child.terminate()  # SIGTERM first, so that it switches the motors off
                try:
                    child.wait(_END_TIMEOUT)
                except subprocess.TimeoutExpired:
                    child.kill()

    @contextmanager
    def _recorded(self, path: Path, **about: Any) -> Iterator[tuple[Robot, Recorder]]:
        with (
            torque_limits_kept(self.lines),
            open_robot(self.rig, "real", port=self.port) as robot,
            recording_of(robot, path, self.rig, **about) as recorder,
        ):
            yield robot, recorder

    def _motion(self) -> StepOutcome:
        """Move one servo at half its torque while the others hold; judge it by its simulation."""
        path, servo = self.folder / _MOTION, suited(self.rig)
        with self._recorded(path, experiment="step, sine") as (robot, recorder):
            conduct(robot, servo, recorder, 1.2 if self.quick else 4.0, self.show)
        self.show("simulating")
        self.beside = compared(path, self.rig, servo)
        return judge_motion(self.rig, self.beside, path)

    def _walk(self) -> StepOutcome:
        """Let the robot take some steps in the air, and measure how far its joints are behind their goals."""
        gait, path = Gait(steps=self._steps), self.folder / "walk.mcap"
        with self._recorded(path, experiment="walk in the air", gait=asdict(gait)) as (robot, recorder):
            outcome = walk(robot, gait, recorder, hanging=True, progress=self.show)
        recording = open_recording(path)
        part = next(part for part in recording.segments if part.name == "walk")
        tracks = {name: track.between(part.start, part.end) for name, track in recording.items()}
        walked = replace(recording, tracks=tracks)
        weakest = min(float(np.nanmin(track.voltage)) for track in walked.values())
        # without the constant delay
        behind = {pair.name: (pair.aligned or pair.plain).worst for pair in following(walked).pairs}
        worst = max(behind, key=lambda name: behind[name])
        facts = {"steps": gait.steps, "seconds": outcome.seconds, "behind_deg": behind, "weakest_v": weakest}
        lag = f"{worst} was {behind[worst]:.1f}° behind its goal at most"
        line = f"{plural(gait.steps, 'step')} in {outcome.seconds:.1f} s; {lag}; {weakest:.1f} V at least"
        return StepOutcome(facts, [line], judge_steps(self.rig, behind, self.port))


def _report(outcome: StepOutcome) -> None:
    print(*(f"  {line}" for line in outcome.lines), sep="\n")
    report_findings(outcome.findings, "  ")


def _turned(guide: ManualProcedure[JointTurn], name: str, count: str) -> JointTurn | str:
    """Return the servo that moved when a joint was turned, or the key that left the joint."""
    what = f"{count}: turn {name} (id {guide.robot[name].config.id})"
    others = f"{_OTHER_SENSE}: the other way; {_OTHER_JOINT}: another joint moved; {AGAIN}: show it again"
    while True:
        servo, angle, struck = guide.turned(what, name, name)
        if struck in {SKIP, BACK}:
            return struck
        if not struck:
            print(f"    {servo} moved, {'the right way' if angle > 0 else 'the other way'}", flush=True)
            return JointTurn(name, servo, 1 if angle > 0 else -1, "hand")
        while guide.nudge(name):
            keys = YES + _OTHER_SENSE + _OTHER_JOINT + AGAIN
            question = f"    did it go {guide.sense(name)}? {YES}; {others}"
            if (struck := guide.ask(question, keys=keys)) != AGAIN:
                moved = "" if struck == _OTHER_JOINT else name
                return JointTurn(name, moved, -1 if struck == _OTHER_SENSE else 1, "nudge")


# ---- the motions, and what is judged of the measurements


def hold(rig: Rig, port: str, names: list[str]) -> None:
    """Hold these servos at their positions with little torque until standard input ends, 20 s at most.

    Standard input also ends when the parent process dies. Print the largest motion at torque on, rad.
    """
    with open_robot(rig.overridden(LIMP), "real", port=port or None) as robot:
        before = {name: robot[name].read("present_position") for name in names}
        for name in names:
            robot[name].set_available_torque(TORQUE * robot[name].max_torque)
            robot[name].torque_on()
        while robot.time < _SETTLING_TIME:
            robot.step()
        went = []
        for name, start in before.items():
            counts = driven(start, robot[name].read("present_position"), robot[name].read("goal_position"))
            went.append(counts * robot[name].dynamixel.profile.units.position)
        print(max(went), flush=True)
        while robot.time < _HOLD_TIME and not select.select([sys.stdin], [], [], 0)[0] and robot.step() != -1:
            pass


def driven(before: int, now: int, goal: int) -> int:
    """Return a servo's motion towards its goal at torque on, counts; motion the other way is due to its load."""
    moved, distance = now - before, goal - before
    return min(abs(moved), abs(distance)) if moved * distance > 0 else 0


def suited(rig: Rig) -> str:
    """Return the servo for the motion: of those whose limits allow it, the one that carries the fewest links."""
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


def conduct(robot: Robot, servo: str, recorder: Recorder, period: float, progress: Progress = unseen) -> None:
    """Run the motion: a step of half a period, then a sine; `period` in s."""
    for joint in robot.values():
        joint.set_available_torque(_HALF * joint.max_torque)
        joint.torque_on()  # its goal is the present position
    robot[servo].goto(0.0, _APPROACH)
    with RobotRecorder(robot, recorder) as log:
        run = ExperimentRun(robot, log, [servo], robot.basic_time_step, progress)
        command = run.servos[servo].set_position
        command(0.0)
        run.segment("rest", 0.3, kind="rest")
        command(_STEP)
        run.segment(f"step to {math.degrees(_STEP):.0f}°", period / 2, kind="step", start=0.0, target=_STEP)
        robot[servo].goto(0.0, _APPROACH)
        run.segment("sine", _CYCLES * period, lambda t: command(_SWING * math.sin(math.tau * t / period)), kind="sine")


def compared(path: Path, rig: Rig, servo: str) -> Comparison:
    """Compare a recording of the motion with its simulation, in which the base is fixed."""
    recording = open_recording(path)
    held = rig if rig.world is None else rig.overridden({"world": {"fixed_base": True, "ground": False}})
    alone = replace(recording, tracks={servo: recording[servo]})
    return compare(alone, simulate(recording, held), labels=("measured", "simulated"))


def judge_lateness(late: Sequence[float], period: float) -> list[Finding]:
    """Return a finding if the control period is too short for this line and computer; all in ms."""
    count = sum(lateness > 0 for lateness in late)
    problem = f"{count} of {len(late)} steps of {period:g} ms came late"
    fix = "close other programs, remove what makes the line slow, or give the rig a longer basic_time_step_ms"
    return [Finding("the computer", problem, fix, False, "late")] if count > _LATE_SHARE * len(late) else []


def judge_endings(endings: Iterable[Mapping[str, Any]], lines: Sequence[ExpectedBus]) -> list[Finding]:
    """Return findings for motors that stayed on, and for motors that jumped at torque on."""
    findings = []
    for ending in endings:
        findings += _left_on(lines, ending["on"], ending["signal"], ending["signal"])
        if ending["moved_deg"] > _MOST_JUMP:
            problem = f"moved by {ending['moved_deg']:.0f}° when torque came on"
            fix = "its goal was not where it stood: do this step again"
            findings.append(Finding(f"one of {ending['servos']}", problem, fix, False, "snap"))
    return findings


def _left_on(lines: Sequence[ExpectedBus], on: Sequence[str], after: str, kind: str = "powered") -> list[Finding]:
    problem = f"still had torque, or did not answer, after {after}"
    fix = "what answers is off now; until this is understood, keep a hand on the switch, and send what was found"
    servos = [servo for line in lines for servo in line.servos if servo.name in on]
    return [Finding(name_of(servo), problem, fix, True, kind, servo.id) for servo in servos]


def judge_motion(rig: Rig, comparison: Comparison, path: Path) -> StepOutcome:
    """Return the outcome: the RMS distance of a servo from its model, and a finding if it is too large."""
    (pair,) = comparison.pairs
    name, servo = pair.name, next(value for value in rig.servos if value.name == pair.name)
    model = rig.specs[name].model
    # degrees; only the parts in which the motor drives the joint
    rmse = {part.kind: part.deviation.rmse for part in pair.parts if part.kind in {"step", "sine"}}
    listed = ", ".join(f"{kind} {value:.2f}° RMS" for kind, value in rmse.items())
    allowed = math.degrees(tolerance(rig.specs[name], model).wrong)
    rms = math.sqrt(sum(value**2 for value in rmse.values()) / len(rmse))
    problem = f"is {rms:.1f}° RMS away from what its model {model.name} does; {allowed:.1f}° are allowed"
    fix = f"look what it carries, and what holds it; if nothing does, identify it: {fit_of(rig, name, path)}"
    findings = [] if rms <= allowed else [Finding(f"{name} (id {servo.id})", problem, fix, False, "model", servo.id)]
    facts = {"servo": name, "model": model.name, "rmse_deg": rmse}
    return StepOutcome(facts, [f"{name} beside its model {model.name}: {listed} apart"], findings)


def judge_steps(rig: Rig, behind: Mapping[str, float], port: str | None) -> list[Finding]:
    """Return a finding for each joint that was too far behind its goal, degrees."""
    fix = f"look what holds it, and at its supply; then {Remedy('verify', rig=rig.path, only='joints', port=port)}"
    problem = "was {:.0f}° behind its goal, though it carried nothing but itself"
    slow = [(f"{servo.name} (id {servo.id})", servo.id, behind.get(servo.name, 0.0)) for servo in rig.servos]
    return [Finding(name, problem.format(far), fix, False, "behind", id_) for name, id_, far in slow if far > _MOST_LAG]


@contextmanager
def torque_limits_kept(lines: Sequence[ExpectedBus]) -> Iterator[None]:
    """Restore every servo's torque limit after the block, because a killed program cannot restore it."""
    before: list[dict[int, bytes]] = []
    for line in lines:
        with patiently_opened(line) as bus:
            places = {servo.id: servo.protocol.torque_limit for servo in line.servos}
            before.append({id_: read_patiently(bus, id_, at, 2) for id_, at in places.items()})
    try:
        yield
    finally:
        for line, limits in zip(lines, before, strict=True):
            with suppress(BusError), patiently_opened(line) as bus:  # must not hide the error of the block
                for servo in line.servos:
                    for _ in range(CONFIRMED):
                        bus.sync_write(servo.protocol.torque_limit, {servo.id: limits[servo.id]})


if __name__ == "__main__":
    try:
        hold(Rig.load(sys.argv[1]), sys.argv[2], sys.argv[3].split(","))
    except AxBridgeError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
