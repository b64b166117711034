"""`axbridge verify`: the first hour of a real robot, step by step, with a hand on the switch."""

from __future__ import annotations

import math
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from pydantic import TypeAdapter

from axbridge import __version__
from axbridge.bus.diagnose import grouped
from axbridge.bus.serial import SerialBus
from axbridge.cli import options as opt
from axbridge.cli import verify_steps as steps
from axbridge.cli.app import DONE, FAILED_CHECK, app, emit_json
from axbridge.cli.by_hand import AGAIN, BACK, KEYS, QUIT, SKIP, YES, Ended, ManualProcedure, ask, pressed
from axbridge.cli.doctor import report_findings
from axbridge.cli.exit import early_end, motors_after
from axbridge.cli.off import broadcast_off, buses_of
from axbridge.cli.progress import Show, progress
from axbridge.cli.verify_steps import StepOutcome, Task, compared, suited
from axbridge.comparison.comparison import Comparison
from axbridge.comparison.page import Table, command_html, fewer, figure_html, table_html, write_page
from axbridge.comparison.tables import deviation_table, panels_of, response_tables
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, RecordingError, UsageError, plural
from axbridge.files import check_new, write_whole, writing
from axbridge.motion.gait import can_walk
from axbridge.robot.calibration import JointTurn, judge_mounting, zero_pose
from axbridge.robot.open import open_robot

_OTHER_SENSE, _OTHER_JOINT = "o", "x"
_MOVING = ("motion", "walk")  # steps that would tear at a robot whose rig is wrong

KEPT, PAGE, TEXT = "verify.json", "verify.html", "verify.txt"
_COMMENTS = """
yours to fill in: robot (kit and type, what was changed), adapter, supply (battery or bench, V, A), servos (how old, how
much used), and what else was seen, heard or smelt:
"""
STEPS = {
    "line": "adapter, line and servos, as doctor sees them",
    "joints": "directions and zeros",
    "endings": "motors off when a program is ended",
    "motion": "one servo beside its model",
    "walk": "the robot in the air",
}
_MOVES = {
    "line": "Nothing moves. Each servo is read often.",
    "joints": "You move the limp joints by hand. Only where you press w, a servo moves: 5° at 20 % of its torque.",
    "endings": "First {first}, then all servos hold at 20 % of their torque, and go limp: hold the robot.",
    "motion": "At half torque {servo} goes to {step:.0f}° and swings by {swing:.0f}°; others hold: keep it upright.",
    "walk": "At half torque all joints go to the walk-ready pose, and the legs take {steps} steps: hold it in the air.",
}


@app.command()
def verify(
    rig: opt.RigOption,
    port: opt.PortOption = None,
    out: Annotated[Path | None, opt.shared("--out", "A folder; default: verify-RIG.", metavar="FOLDER")] = None,
    only: Annotated[str, typer.Option(help=f"Only these steps, separated by commas: {', '.join(STEPS)}.")] = "",
    engine: opt.EngineOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Read less and move less, to check again.")] = False,
    force: opt.ForceOption = False,
    json: opt.JsonOption = False,
) -> int:
    """Check step by step that a real robot matches its rig, and that axbridge keeps its promises on it.

    Each step says what will move and waits for your yes. Keep a hand on the switch of the supply. You can leave steps
    out and repeat them. A later run in the same folder continues where this one ended. At the end the motors are off,
    also after an error or Ctrl-C. The exit code is 1 if a step found a fault.
    """
    loaded = Rig.load(rig).with_engine(engine).overridden(steps.LIMP)
    wanted = opt.listed(only, list(STEPS), "step")
    queue = [name for name in STEPS if name in (wanted or STEPS)]
    folder = out or Path(f"verify-{loaded.name}")
    task = Task(loaded, rig, port, buses_of(port, rig, 0), folder, quick)
    kept = {} if force else load(folder / KEPT, loaded)
    if not kept:
        check_new(*(folder / file for file in (KEPT, PAGE, TEXT)), force=force)
    if "walk" in queue and not can_walk(loaded):
        queue.remove("walk")
        if "walk" in wanted:
            raise UsageError(f"rig {loaded.name} has no legs that walk", "leave the step walk out")
    for line in task.lines:
        SerialBus(line.port, line.baud).close()  # a dead port is named before the first question
    begun: list[str] = []

    def left(end: BaseException) -> str:
        why = "stopped" if isinstance(end, KeyboardInterrupt) or not end.args else f"stopped ({end})"
        files = f"{folder} holds what was found so far" if (folder / KEPT).exists() else "nothing was written"
        return f"{why}: {motors_after(loaded) if begun else 'no motor was moved'}; {files}"

    with (
        redirect_stdout(sys.stderr) if json else nullcontext(),
        early_end(left, Ended),
        pressed() as key,
        progress("") as show,
    ):
        run = _Run(task, kept, key, show)
        run.do(queue, begun)
        code = run.summed_up()
    if json:
        promises = [(promise.words, verdict, why) for promise, verdict, why in judged(kept)]
        done = {name: asdict(outcome) for name, outcome in kept.items()}
        emit_json("verify-1", {"rig": loaded.name, "folder": str(folder), "steps": done, "promises": promises})
    return code


@dataclass
class _Run:
    """Asks, does the steps, shows and keeps what came of them; `outcomes` are those of an earlier run to begin with."""

    task: Task
    outcomes: dict[str, StepOutcome]
    key: Callable[[], str]
    show: Show
    motion: Comparison | None = None

    def do(self, queue: list[str], begun: list[str]) -> None:
        """Do these steps; what is done goes into `begun`."""
        print(f"{self.task.rig.name}, servos: {len(self.task.rig.dynamixels)}, steps: {len(queue)}.")
        print("All motors go off now, and are off between the steps and at the end: hold the robot.")
        self._ask(f"keys: {YES} goes on, {QUIT} ends", YES)
        begun.append("motors off")
        for line in self.task.lines:
            with line.open() as bus:
                broadcast_off(bus, line.servos)
        for place, name in enumerate(queue):
            print(f"\n{place + 1} of {len(queue)}: {name}, {STEPS[name]}", flush=True)
            while self._again(name):
                pass

    def _again(self, name: str) -> bool:
        """Ask for a step, do it, show what came of it; whether it is to be done again."""
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
        task = self.task
        broken = [step for step, outcome in self.outcomes.items() if any(finding.fatal for finding in outcome.findings)]
        if name in _MOVING and broken:
            raise UsageError(f"first repair what was found: {', '.join(broken)}", "then do those steps again")
        swing, step = (abs(math.degrees(end)) for end in steps.ENDS)
        servo = suited(task.rig) if name == "motion" else ""
        first = task.lines[0].servos[0].name
        moves = _MOVES[name].format(first=first, servo=servo, swing=swing, step=step, steps=2 if task.quick else 10)
        known = len(self.outcomes["joints"].facts.get("turns", ())) if "joints" in self.outcomes else 0
        if name in _MOVING and known < len(task.rig.servos):
            return f"Directions and zeros are known of {known} of {plural(len(task.rig.servos), 'joint')} only! {moves}"
        return moves

    def _measured(self, name: str) -> StepOutcome:
        task, show, path = self.task, self.show, self.task.folder / f"{name}.mcap"
        if name in {"line", "joints"}:
            return steps.measure_line(task, show) if name == "line" else self._joints()
        with steps.torque_limits_kept(task.lines):
            if name == "endings":
                return steps.measure_endings(task, show)
            if name == "walk":
                return steps.with_what_is_left_on(task.lines, steps.measure_steps(task, path, show))
            steps.measure_motion(task, path, show)
        show("simulating")
        self.motion = steps.compared(path, task.rig, suited(task.rig))
        return steps.with_what_is_left_on(task.lines, steps.judge_motion(task.rig, self.motion, path))

    def _joints(self) -> StepOutcome:
        task, pose = self.task, zero_pose(self.task.rig)
        with open_robot(task.rig, "real", port=task.port) as robot:
            for servo in robot.values():
                servo.torque_off()
            guide: ManualProcedure[JointTurn] = ManualProcedure(task.rig, robot, self.key, self.show)
            how = "straight legs, level soles, arms hanging" if can_walk(task.rig) else "as its URDF draws it"
            bent = "".join(f", but {name} {math.degrees(angle):.0f}°" for name, angle in pose.items() if angle)
            what = f"  hold every joint at 0° ({how}){bent}; press a key ({SKIP} leaves the zeros out)"
            straight = {} if guide.ask(what) == SKIP else guide.angles()
            print(f"  {KEYS}", flush=True)
            names = [servo.name for servo in task.rig.servos]
            turns = list(guide.each(names, lambda name, count: _turned(guide, name, count)).values())
        off = {name: angle - pose[name] for name, angle in straight.items()}
        lines = [f"{len(turns)} of {plural(len(task.rig.servos), 'joint')} turned"] if off or turns else []
        if off:
            worst = max(off, key=lambda name: abs(off[name]))
            lines.insert(0, f"straight within {math.degrees(abs(off[worst])):.1f}°, {worst} farthest")
        facts = {"off": off, "turns": [asdict(turn) for turn in turns]}
        return StepOutcome(facts, lines, judge_mounting(task.rig, off, turns, task.lines[0].port))

    def _keep(self, name: str, outcome: StepOutcome) -> None:
        """Keep what came of a step, and write the page again."""
        task, folder = self.task, self.task.folder
        self.outcomes[name] = outcome
        save(folder / KEPT, task.rig, self.outcomes)
        motion, path = self.outcomes.get("motion"), folder / "motion.mcap"
        if motion is None or motion.state != "done":
            self.motion = None
        elif self.motion is None and path.is_file():  # of an earlier run
            self.motion = compared(path, task.rig, motion.facts["servo"])
        ports = {name for line in task.lines for name in (line.port, str(Path(line.port).resolve()))}
        paths = {str(task.rig.path): "RIG", str(task.rig.path.resolve()): "RIG", str(Path.home()): "~"}
        private = {**dict.fromkeys(ports, "PORT"), **paths, f"{folder}{os.sep}": f"FOLDER{os.sep}"}
        write_report(folder, task.rig, self.outcomes, private, self.motion)

    def summed_up(self) -> int:
        """Say where everything is; the exit code."""
        colour, words = verdict(self.task.rig, self.outcomes)
        print(f"\nmotors are off; {words}")
        print(f"promises  {counted(self.outcomes)}")
        print(f"page      {self.task.folder / PAGE}")
        print(f"to send   {self.task.folder / TEXT}: it says nothing of you; see docs/bioloid.md")
        return FAILED_CHECK if colour == "broken" else DONE

    def _ask(self, what: str, keys: str = "") -> str:
        self.show("waiting for a key")
        return ask(self.key, what, keys)


def _turned(guide: ManualProcedure[JointTurn], name: str, count: str) -> JointTurn | str:
    """What moved when one joint was turned; or the key that left it."""
    what = f"{count}: turn {name} (id {guide.robot[name].config.id})"
    which = (
        f"did it go {guide.sense(name)}? {YES}; {_OTHER_SENSE}: the other way; {_OTHER_JOINT}: another joint moved; "
    )
    while True:
        servo, angle, struck = guide.turned(what, name, name)
        if struck in {SKIP, BACK}:
            return struck
        if not struck:
            print(f"    {servo} moved, {'the right way' if angle > 0 else 'the other way'}", flush=True)
            return JointTurn(name, servo, 1 if angle > 0 else -1, "hand")
        while guide.nudge(name):
            keys = YES + _OTHER_SENSE + _OTHER_JOINT + AGAIN
            if (struck := guide.ask(f"    {which}{AGAIN}: show it again", keys=keys)) != AGAIN:
                moved = "" if struck == _OTHER_JOINT else name
                return JointTurn(name, moved, -1 if struck == _OTHER_SENSE else 1, "nudge")


def _report(outcome: StepOutcome) -> None:
    for line in outcome.lines:
        print(f"  {line}")
    report_findings(outcome.findings, "  ")


# ---- kept for the next run, judged by the promises of the docs, and shown as page and text


Outcomes = Mapping[str, StepOutcome]


@dataclass(frozen=True)
class _Kept:
    rig: str
    steps: dict[str, StepOutcome]


def save(path: Path, rig: Rig, outcomes: Outcomes) -> None:
    """Keep what came of the steps so far, by name."""
    with writing(path):
        write_whole(path, TypeAdapter(_Kept).dump_json(_Kept(rig.name, dict(outcomes)), indent=1, fallback=float))


def load(path: Path, rig: Rig) -> dict[str, StepOutcome]:
    """What an earlier run kept; nothing where there is no file."""
    if not path.exists():
        return {}
    hint = "name another folder with --out, or add --force"
    try:
        kept = TypeAdapter(_Kept).validate_json(path.read_bytes())
    except (ValueError, OSError) as failure:
        raise UsageError(f"{path} is not what `axbridge verify` wrote", hint) from failure
    if kept.rig != rig.name:
        raise UsageError(f"{path} is of rig {kept.rig}, not of {rig.name}", hint)
    return kept.steps


class Promise(NamedTuple):
    """What a page of the docs promises, the step that shows it, and the kind of finding that breaks it."""

    page: str
    words: str
    step: str
    broken: str


PROMISES = (
    Promise("safety.md", "a program's end switches the motors off", "motion", "powered"),
    Promise("safety.md", "SIGTERM switches the motors off", "endings", "SIGTERM"),
    Promise("safety.md", "after SIGKILL the guard process switches the motors off", "endings", "SIGKILL"),
    Promise("safety.md", "nothing snaps when torque comes on", "endings", "snap"),
    Promise("troubleshooting.md", "the adapter hands answers over at once", "line", "latency"),
    Promise("troubleshooting.md", "an adapter's echo is removed", "line", "echo"),
    Promise("troubleshooting.md", "no value is wrong", "line", "wrong"),
    Promise("first-servo.md", "the servos get what they need", "line", "voltage"),
    Promise("troubleshooting.md", "every servo answers reads and writes", "line", "status"),
    Promise("troubleshooting.md", "the control period is kept", "line", "late"),
)


_MARKS = {  # of a promise: class, mark and word
    "seen": ("kept", "✓", "kept"), "not kept": ("broken", "✗", "not kept"),
    "cannot be judged here": ("open", "?", "cannot be judged here"), "not tried": ("untried", "–", "not tried"),
}  # fmt: skip


def judged(outcomes: Outcomes) -> list[tuple[Promise, str, str]]:
    """Every promise, its verdict, and why."""
    verdicts = []
    for promise in PROMISES:
        outcome = outcomes.get(promise.step)
        verdict, why = "seen", f"step {promise.step}"
        if outcome is None or outcome.state != "done":
            verdict, why = "not tried", f"step {promise.step} was not done"
        elif promise.broken in outcome.facts.get("unjudged", {}):
            verdict, why = "cannot be judged here", outcome.facts["unjudged"][promise.broken]
        elif broken := [f"{bad.subject} {bad.problem}" for bad in outcome.findings if bad.kind == promise.broken]:
            verdict, why = "not kept", "; ".join(broken)
        verdicts.append((promise, verdict, why))
    return verdicts


def counted(outcomes: Outcomes) -> str:
    """How many promises there are of each verdict, in words."""
    verdicts = [verdict for _, verdict, _ in judged(outcomes)]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in _MARKS)


def verdict(rig: Rig, outcomes: Outcomes) -> tuple[str, str]:
    """The colour of the page's light, and whether the robot has passed, with what is wrong, unknown or not done."""
    states = {name: outcomes[name].state if name in outcomes else "not done" for name in STEPS}
    if not can_walk(rig):
        states.pop("walk", None)
    wrong = len(grouped(finding for outcome in outcomes.values() for finding in outcome.findings))
    open_ = [
        f"{', '.join(names)} {state}"
        for state in ("failed", "skipped", "not done")
        if (names := [name for name, own in states.items() if own == state])
    ]
    if states.get("joints") == "done" and (unknown := _unknown(rig, outcomes)):
        open_.append(f"{unknown} of {len(rig.servos)} directions unknown")
    colour, word = ("open", "not complete") if open_ else ("kept", "passed")
    if wrong or "failed" in states.values():
        colour, word = "broken", "NOT PASSED"
    return colour, f"{word}: {'; '.join([*([f'{wrong} to repair'] if wrong else []), *open_]) or 'nothing to repair'}"


def write_report(
    folder: Path, rig: Rig, outcomes: Outcomes, private: Mapping[str, str], motion: Comparison | None
) -> None:
    """Write the page, and the same as a text; both can be sent, because they say nothing of what is `private`."""
    colour, words = verdict(rig, outcomes)
    laid = f", laid over {rig.bases[-1].stem}" if rig.bases else ""
    robot = f"rig {rig.name}, as it comes with axbridge" if rig.comes_along else f"a rig of the owner's{laid}"
    kinds = Counter(rig.profile_of(servo).name for servo in rig.dynamixels)
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    head = [
        f"Promises: {counted(outcomes)}.",
        f"{robot}; {', '.join(f'{count} x {kind}' for kind, count in kinds.items())}",
        f"axbridge {__version__}, Python {platform.python_version()}, {platform.system()}; {today}",
    ]
    if any(line["adapter"] == "pty" for line in _facts(outcomes, "line").get("lines", ())):
        head.append("no real servos: these are served on a pseudo-terminal")
    cards = [_card(rig, name, title, outcomes) for name, title in STEPS.items()]
    registers = _facts(outcomes, "line").get("servos", {}).items()
    rows = tuple((subject, ", ".join(f"{name} {value}" for name, value in held.items())) for subject, held in registers)
    lines = [f"{words}. {head[0]}", *head[1:], *(line for said, _ in cards for line in said)]
    parts = [f'<p class="light {colour}">{escape(words)}</p>']
    parts.append(f'<p class="lead">{"<br>".join(map(escape, head))}</p>')
    parts.append(f'<div class="cards">{"".join(card for _, card in cards)}</div>')
    if rows:
        lines += ["", "Servos", *(f"  {subject}; {held}" for subject, held in rows)]
        parts.append(table_html(Table("Servos", ("servo", "registers"), rows), words=True))
    with writing(folder / TEXT):
        write_whole(folder / TEXT, _anonymous("\n".join([*lines, _COMMENTS]), private))
    if motion is not None:
        pair = motion.pairs[0]
        parts.append(f"<h2>{escape(pair.name)} beside its model</h2>")
        parts.append(figure_html(fewer(panels_of(motion, pair)), "motion"))
        parts += [table_html(table) for table in (deviation_table(motion), *response_tables(motion, pair))]
    write_page(folder / PAGE, f"{rig.name}: the first hour", [_anonymous(part, private) for part in parts])


def _unknown(rig: Rig, outcomes: Outcomes) -> int:
    return len(rig.servos) - len(_facts(outcomes, "joints").get("turns", ()))


def _card(rig: Rig, name: str, title: str, outcomes: Outcomes) -> tuple[list[str], str]:
    """A step as lines and as part of the page: what came of it, its promises, what is wrong, and what repairs that."""
    outcome = outcomes.get(name)
    state = "untried"
    if outcome is not None and outcome.state != "skipped":
        state = "open" if name == "joints" and _unknown(rig, outcomes) else "kept"
        state = "broken" if outcome.state == "failed" or outcome.findings else state
    said = ["not done"] if outcome is None else [*([outcome.state] if outcome.state != "done" else []), *outcome.lines]
    if outcome is not None and outcome.state == "failed":
        said.append(f"then axbridge verify --rig {rig.path} --only {name}")
    parts = [f"<h3>{escape(title)}</h3>", *(f"<p>{escape(line)}</p>" for line in said)]
    lines = ["", title, *(f"  {line}" for line in said)]
    for promise, verdict, why in judged(outcomes):
        if promise.step == name:
            colour, mark, word = _MARKS[verdict]
            reason = "" if verdict in {"seen", "not tried"} else f": {why}"
            parts.append(
                f'<p class="{colour}"><span class="mark">{mark}</span>{escape(promise.words)} '
                f"<small><b>{word}</b>{escape(reason)}</small></p>"
            )
            lines.append(f"  {promise.words}; {verdict}{reason}; docs/{promise.page}")
    for subject, problem, fix in grouped(outcome.findings if outcome else ()):
        parts.append(f'<p class="broken"><span class="mark">!</span>{escape(subject)}: {escape(problem)}</p>')
        parts.append(command_html(fix) if "axbridge " in fix else f"<p>{escape(fix)}</p>")
        lines += [f"  ! {subject}: {problem}", f"    {fix}"]
    return lines, f'<section class="card {state}">{"".join(parts)}</section>'


def _anonymous(text: str, private: Mapping[str, str]) -> str:
    for word in sorted(private, key=len, reverse=True):
        text = text.replace(word, private[word]) if len(word) > 1 else text
    return text


def _facts(outcomes: Outcomes, step: str) -> dict[str, Any]:
    return outcomes[step].facts if step in outcomes else {}
