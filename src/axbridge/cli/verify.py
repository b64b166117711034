"""`axbridge verify`: the first hour of a real robot, step by step, with a hand on the switch."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from axbridge.cli.app import DONE, FAILED_CHECK, app
from axbridge.cli.buses import buses_of
from axbridge.cli.exit import early_end, motors_after
from axbridge.cli.keys import END, Ended, pressed
from axbridge.cli.options import EngineOption, ForceOption, PortOption, RigOption, separated, shared
from axbridge.cli.progress import Show, progress
from axbridge.errors import AxBridgeError, RecordingError, UsageError

if TYPE_CHECKING:
    from axbridge.bus.handshake import ExpectedBus
    from axbridge.comparison.comparison import Comparison
    from axbridge.config.rig import Rig
    from axbridge.robot.robot import Robot
    from axbridge.verify.mounting import JointTurn
    from axbridge.verify.outcome import Measured, StepOutcome

_YES, _SKIP, _AGAIN, _BACK, _QUIT = "y", "s", "r", "b", "q"
_NUDGE, _OTHER_WAY, _OTHER_JOINT = "n", "o", "x"
_PAUSE = 0.02  # s between two looks for a key
_MOVING = ("motion", "walk")  # steps that would tear at a robot whose rig is wrong
_MOTION, _WALK = "motion.mcap", "walk.mcap"
_FILES = {"kept": "verify.json", "page": "verify.html", "text": "verify.txt"}


class _StepTexts(NamedTuple):
    title: str
    moves: str


_STEPS = {
    "line": _StepTexts("adapter and line", "Nothing moves. Each servo is read often."),
    "servos": _StepTexts("every servo against the rig", "Nothing moves. Each servo's registers are read."),
    "joints": _StepTexts(
        "directions and zeros",
        "You move the limp joints by hand. Only where you press n, a servo moves: 5° at 20 % of its torque.",
    ),
    "cycle": _StepTexts("rate and lateness", "Nothing moves: the limp robot is read in its own period."),
    "eeprom": _StepTexts(
        "EEPROM",
        "Nothing moves. {register} of the first servo is written {writes} times: nothing depends on it meanwhile.",
    ),
    "endings": _StepTexts(
        "motors off when a program is ended",
        "First {first}, then all servos hold where they are, at 20 % of their torque, and go limp: hold the robot.",
    ),
    "motion": _StepTexts(
        "one servo beside its model",
        "All servos hold where they are, at half their torque. {servo} goes to 0°, steps to {step:.0f}°, falls limp, "
        "and swings by {swing:.0f}° to both sides: hold the robot upright, and keep away from that joint.",
    ),
    "walk": _StepTexts(
        "the robot in the air",
        "All joints go slowly to the walk-ready pose, then the legs take {steps} steps, at half their torque: hold the "
        "robot by its torso, with both feet in the air.",
    ),
}


@dataclass(frozen=True)
class _Size:
    """How much is done.

    Attributes:
        reads: Of the measurement of the loss.
        seconds: Of the limp robot's steps.
        period: Of the slow sine, s.
        steps: In the air.
    """

    reads: int = 2000
    seconds: float = 10.0
    period: float = 4.0
    steps: int = 10


_QUICK = _Size(400, 1.0, 1.2, 2)


@app.command()
def verify(
    *,
    rig: RigOption,
    port: PortOption = None,
    out: Annotated[
        Path | None, shared("--out", "A folder for all of it; default: verify-RIG.", metavar="FOLDER")
    ] = None,
    only: Annotated[
        str, typer.Option("--only", help=f"Only these steps, separated by commas: {', '.join(_STEPS)}.")
    ] = "",
    joints: Annotated[str, shared("--joints", "They are turned by hand.")] = "",
    servo: Annotated[str | None, shared("--servo", "It is compared with its model; default: the least loaded.")] = None,
    engine: EngineOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer reads, shorter motions: for a second look.")] = False,
    force: ForceOption = False,
) -> int:
    """See step by step whether a robot is what its rig says, and whether axbridge keeps its promises on it.

    Each step says what will move, and waits for your yes. Keep a hand on the switch of the supply. You can leave steps
    out and do them again; a later run in the same folder goes on where this one ended. The motors are off at the end,
    however it ends. Exit code 1 if something is to be mended.
    """
    from axbridge.config.rig import Rig
    from axbridge.files import check_new
    from axbridge.motion.gait import can_walk
    from axbridge.verify.first_drive import calm
    from axbridge.verify.outcome import load

    loaded = calm(Rig.load(rig).with_engine(engine))
    lines = buses_of(port, rig, 0)
    wanted = _listed(only, list(_STEPS), "step")
    names = [one.name for one in loaded.servos]
    turned = _listed(joints, names, "servo") or names
    if servo is not None:
        from axbridge.verify.motions import suited

        suited(loaded, *_listed(servo, names, "servo"))
    folder = out or Path(f"verify-{loaded.name}")
    kept = {} if force else load(folder / _FILES["kept"], loaded)
    if not kept:
        check_new(*(folder / file for file in _FILES.values()), force=force)
    queue = [name for name in _STEPS if name in (wanted or _STEPS)]
    if "walk" in queue and not can_walk(loaded):
        queue.remove("walk")
        if "walk" in wanted:
            raise UsageError(f"rig {loaded.name} has no legs that walk", "leave the step walk out")
    begun: list[str] = []
    with (
        early_end(lambda end: _what_is_left(loaded, folder, begun, end), Ended),
        pressed() as key,
        progress("") as show,
    ):
        size = _QUICK if quick else _Size()
        task = _Task(loaded, rig, port, lines, folder, turned, servo, size)
        return _Hour(task, kept, key, show).run(queue, begun)


@dataclass(frozen=True)
class _Task:
    """What the user wants.

    Attributes:
        rig: The robot, calm.
        called: As the user calls it.
        port: As the user gave it.
        lines: The rig's buses.
        folder: For what is written.
        joints: Servos whose joints are turned by hand.
        servo: To compare with its model; None = the one that is suited best.
        size: How much is done.
    """

    rig: Rig
    called: str
    port: str | None
    lines: list[ExpectedBus]
    folder: Path
    joints: list[str]
    servo: str | None
    size: _Size


class _Hour:
    """One run: asks, lets the steps be done, shows and keeps what came of them.

    Args:
        task: What is wanted.
        kept: What came of steps of an earlier run.
        key: The next key, or "".
        show: Says what is under way.
    """

    def __init__(self, task: _Task, kept: dict[str, StepOutcome], key: Callable[[], str], show: Show) -> None:
        from axbridge.verify.outcome import digest_of

        self._task, self._outcomes, self._key, self._show = task, kept, key, show
        self._rig, self._lines, self._folder = task.rig, task.lines, task.folder
        self._servo = task.servo
        self._digest = digest_of(task.rig)
        self._motion: Comparison | None = None

    def run(self, queue: list[str], begun: list[str]) -> int:
        """Do these steps; the exit code. What is done goes into `begun`."""
        from axbridge.verify.first_drive import silence

        count = sum(len(line.servos) for line in self._lines)
        print(f"{self._rig.name}, {count} servo{'s' * (count > 1)}, in {len(queue)} steps.")
        print("All motors go off now, and are off between the steps and at the end: hold the robot.")
        self._asked(f"keys: {_YES} goes on, {_QUIT} ends", _YES)
        begun.append("motors off")
        silence(self._lines)
        for place, name in enumerate(queue):
            print(f"\n{place + 1} of {len(queue)}: {name}, {_STEPS[name].title}", flush=True)
            while self._do(name):
                pass
        return self._end()

    def _do(self, name: str) -> bool:
        """Ask for a step, do it, show what came of it; whether it is to be done again."""
        before = self._outcomes.get(name)
        if before is not None and before.state == "done":
            since = "" if before.rig == self._digest else ", before the rig was changed"
            print(f"  done on {before.when}{since}:")
            _tell(before)
            if self._asked(f"  {_AGAIN} does it again, any other key keeps it") != _AGAIN:
                return False
        try:
            moves = self._moves(name)
        except UsageError as reason:
            self._keep(name, "skipped", words=[reason.message])
            print(f"  left out: {reason.message}")
            return False
        if self._asked(f"  {moves}\n  {_YES} does it, {_SKIP} leaves it out, {_QUIT} ends", _YES + _SKIP) == _SKIP:
            if before is None:
                self._keep(name, "skipped")
            return False
        try:
            found = self._found(name)
            if not found.lines:
                self._keep(name, "skipped", words=["nothing was tried, so nothing was judged"])
                print("  nothing was tried, so nothing was judged", flush=True)
                return False
            self._keep(name, "done", found)
        except RecordingError:
            raise
        except AxBridgeError as error:
            self._keep(name, "failed", words=str(error).splitlines())
        outcome = self._outcomes[name]
        _tell(outcome)
        if outcome.state == "done" and not outcome.findings:
            print("  nothing to mend", flush=True)
            return False
        return self._asked(f"  {_AGAIN} does it again, any other key goes on") == _AGAIN

    def _moves(self, name: str) -> str:
        """What will move.

        Raises:
            UsageError: the step cannot be done on this robot.
        """
        unmended = [step for step, one in self._outcomes.items() if any(finding.fatal for finding in one.findings)]
        if name in _MOVING and unmended:
            raise UsageError(f"first mend what was found: {', '.join(unmended)}", "then do those steps again")
        said: dict[str, object] = {"first": self._lines[0].servos[0].name, "steps": self._task.size.steps}
        if name == "eeprom":
            from axbridge.verify.deafness import REGISTERS, WRITES

            said |= {"writes": WRITES, "register": REGISTERS[self._lines[0].servos[0].profile.protocol]}
        if name == "motion":
            from axbridge.verify.motions import ENDS, suited

            self._servo = self._servo or suited(self._rig)
            swing, step = (abs(math.degrees(end)) for end in ENDS)
            said |= {"servo": self._servo, "swing": swing, "step": step}
        moves = _STEPS[name].moves.format_map(said)
        known = len(self._outcomes["joints"].facts.get("turns", ())) if "joints" in self._outcomes else 0
        if name in _MOVING and known < len(self._rig.servos):
            return f"Directions and zeros are known of {known} of {len(self._rig.servos)} joints only! {moves}"
        return moves

    def _found(self, name: str) -> Measured:
        """Do a step.

        Raises:
            AxBridgeError: it came to no end.
        """
        rig, lines, port, size = self._rig, self._lines, self._task.port, self._task.size
        if name == "line":
            from axbridge.verify.line import look_at_lines

            return look_at_lines(lines, size.reads, self._show)
        if name == "servos":
            from axbridge.verify.levels import look_at_servos

            return look_at_servos(rig, lines)
        if name == "joints":
            return self._look_at_joints()
        if name == "cycle":
            from axbridge.verify.cycle import look_at_cycle

            return look_at_cycle(rig, lines, port, size.seconds, self._show)
        if name == "eeprom":
            from axbridge.verify.deafness import look_at_deafness

            return look_at_deafness(lines[0])
        from axbridge.verify.endings import look_at_endings, looked_at_the_end
        from axbridge.verify.first_drive import torque_limits_kept

        with torque_limits_kept(lines):
            if name == "endings":
                return look_at_endings(self._task.called, lines, port, self._show)
            if name == "walk":
                from axbridge.verify.hanging import look_at_steps

                found = look_at_steps(rig, port, size.steps, self._folder / _WALK, self._show)
                return looked_at_the_end(lines, found)
            from axbridge.verify.motions import compared, look_at_motion, record_motion

            assert self._servo is not None  # `_moves` has seen to it
            record_motion(rig, port, self._servo, self._folder / _MOTION, size.period, self._show)
        self._show("simulating")
        self._motion = compared(self._folder / _MOTION, rig, self._servo)
        return looked_at_the_end(lines, look_at_motion(rig, self._motion, self._folder / _MOTION))

    def _look_at_joints(self) -> Measured:
        """Have the joints led by hand."""
        from axbridge.robot.open import open_robot
        from axbridge.verify.mounting import judge_mounting, zero_pose
        from axbridge.verify.outcome import Measured

        with open_robot(self._rig, "real", port=self._task.port) as robot:
            for servo in robot.values():
                servo.torque_off()
            hand = _ByHand(self._rig, robot, self._key, self._show)
            pose = zero_pose(self._rig)
            straight = hand.straight(pose)
            off = {} if straight is None else {name: straight[name] - pose[name] for name in straight}
            turns = hand.turns(self._task.joints)
        findings = judge_mounting(self._rig, off, turns, self._lines[0].port)
        lines = []
        if off:
            worst = max(off, key=lambda name: abs(off[name]))
            lines.append(f"straight within {math.degrees(abs(off[worst])):.1f}°, {worst} farthest")
        if off or turns:
            lines.append(f"{len(turns)} of {len(self._rig.servos)} joints turned")
        return Measured({"off": off, "turns": [asdict(turn) for turn in turns]}, lines, findings)

    def _keep(
        self, name: str, state: Literal["done", "skipped", "failed"], found: Measured | None = None,
        words: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Keep what came of a step, and write page and text anew."""
        from axbridge.files import write_whole, writing
        from axbridge.verify.outcome import Measured, StepOutcome, save
        from axbridge.verify.report import text_of, write_verify_page

        when = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
        facts, lines, findings = found or Measured({}, list(words), [])
        self._outcomes[name] = StepOutcome(state, when, self._digest, facts, tuple(lines), tuple(findings))
        save(self._folder / _FILES["kept"], self._rig, self._outcomes)
        titles = {key: step.title for key, step in _STEPS.items()}
        facts_of = self._rig, titles, self._outcomes, self._private()
        text = self._folder / _FILES["text"]
        with writing(text):
            write_whole(text, text_of(*facts_of))
        write_verify_page(self._folder / _FILES["page"], *facts_of, self._compared())

    def _compared(self) -> Comparison | None:
        """One servo beside its model, where that was done; also in an earlier run."""
        outcome = self._outcomes.get("motion")
        if outcome is None or outcome.state != "done":
            return None
        from axbridge.verify.motions import compared

        if self._motion is None and (path := self._folder / _MOTION).is_file():
            self._motion = compared(path, self._rig, outcome.facts["servo"])
        return self._motion

    def _private(self) -> dict[str, str]:
        """What is in no file that may be sent."""
        ports = {name for line in self._lines for name in (line.port, str(Path(line.port).resolve()))}
        paths = {str(self._rig.path): "RIG", str(self._rig.path.resolve()): "RIG", str(Path.home()): "~"}
        return {**dict.fromkeys(ports, "PORT"), **paths, f"{self._folder}{os.sep}": f"FOLDER{os.sep}"}

    def _end(self) -> int:
        """Say where everything is; the exit code."""
        wrong = [name for name, one in self._outcomes.items() if one.findings or one.state == "failed"]
        from axbridge.verify.promises import counted, judged

        print(f"\nmotors are off; {'to mend: see ' + ', '.join(wrong) if wrong else 'nothing to mend'}")
        print(f"promises  {counted(judged(self._outcomes))}")
        print(f"page      {self._folder / _FILES['page']}")
        print(f"to send   {self._folder / _FILES['text']}: says nothing of you; see docs/verify.md")
        return FAILED_CHECK if wrong else DONE

    def _asked(self, what: str, keys: str = "") -> str:
        self._show("waiting for a key")
        return _asked(self._key, what, keys, lambda: time.sleep(_PAUSE))


class _ByHand:
    """Asks a hand to lead the joints of a limp robot."""

    def __init__(self, rig: Rig, robot: Robot, key: Callable[[], str], show: Show) -> None:
        from axbridge.config.rig_check import positive_ways
        from axbridge.robot.event_log import Watch

        self._rig, self._robot, self._key, self._show = rig, robot, key, show
        self._ways = positive_ways(rig)
        self._watch = Watch(robot)

    def straight(self, pose: Mapping[str, float]) -> dict[str, float] | None:
        """What the servos report while every joint is held in a pose, rad; None where that is left out."""
        from axbridge.motion.gait import can_walk

        how = "straight legs, level soles, arms hanging" if can_walk(self._rig) else "as its URDF draws it"
        bent = ", ".join(f"{name} {math.degrees(angle):.0f}°" for name, angle in pose.items() if angle)
        but = f", but {bent}" if bent else ""
        what = f"  hold every joint at 0° ({how}){but}; press a key ({_SKIP} leaves the zeros out)"
        return None if self._asked(what) == _SKIP else self._angles()

    def turns(self, names: list[str]) -> list[JointTurn]:
        """What moved, joint by joint."""
        print(
            f"  keys: {_NUDGE} nudges the servo, {_SKIP} leaves a joint out, {_BACK} goes back, any other goes on",
            flush=True,
        )
        found: dict[str, JointTurn] = {}
        place = 0
        while place < len(names):
            answer = self._turn(names[place], f"{place + 1} of {len(names)}")
            if answer == _BACK:
                place = max(place - 1, 0)
                found.pop(names[place], None)
                continue
            if not isinstance(answer, str):
                found[names[place]] = answer
                print(f"    {_moved(answer)}", flush=True)
            place += 1
        return list(found.values())

    def _turn(self, name: str, count: str) -> JointTurn | str:
        """What moved when one joint was turned; or the key that left it."""
        from axbridge.robot.calibration import moved_most
        from axbridge.verify.mounting import JointTurn

        way = self._ways.get(self._robot[name].config.joint, "the way that shall count as positive")
        what = f"  {count}: turn {name} (id {self._robot[name].config.id}) {way}, by 20° or more; press a key"
        before = self._angles()
        while True:
            key = self._asked(what, "", before)
            if key in {_SKIP, _BACK}:
                return key
            if key == _NUDGE:
                if (nudged := self._nudged(name, way)) is not None:
                    return nudged
                before = self._angles()
                continue
            try:
                moved, turned = moved_most(before, self._angles())
            except UsageError as failure:
                print(f"    again: {failure.message}\n    {failure.hint}", flush=True)
                continue
            return JointTurn(name, moved, 1 if turned > 0 else -1, "hand")

    def _nudged(self, name: str, way: str) -> JointTurn | None:
        """Let the servo move, and ask which way it went; None: it did not."""
        from axbridge.robot.identify_joint import VISIBLE, nudge
        from axbridge.verify.mounting import JointTurn

        while True:
            try:
                far = nudge(self._robot, name, self._watch.look)
            except UsageError as refused:
                print(f"    not moved: {refused.message}\n    {refused.hint}", flush=True)
                return None
            if far < VISIBLE:
                print(
                    "    it moved too little to be seen: something holds it. Turn it by hand, or press n again",
                    flush=True,
                )
                return None
            what = (
                f"    did it go {way}? {_YES}; {_OTHER_WAY}: the other way; {_OTHER_JOINT}: another joint moved; "
                f"{_AGAIN}: show it again"
            )
            key = self._asked(what, _YES + _OTHER_WAY + _OTHER_JOINT + _AGAIN)
            if key != _AGAIN:
                return JointTurn(name, "" if key == _OTHER_JOINT else name, -1 if key == _OTHER_WAY else 1, "nudge")

    def _asked(self, what: str, keys: str = "", before: Mapping[str, float] | None = None) -> str:
        """The key that was asked for, while the robot goes on.

        Raises:
            Ended: as `_asked`; or the robot was closed.
            BusError: a servo got lost.
        """

        def go_on() -> None:
            if self._robot.step() == -1:
                raise Ended
            self._watch.look()
            if before is not None:
                now = self._angles()
                most = max(now, key=lambda name: abs(now[name] - before[name]))
                self._show(f"{most} {math.degrees(now[most] - before[most]):+.1f}°")

        self._show("waiting for a key")
        struck = _asked(self._key, what, keys, go_on)
        go_on()  # so that the angles are those after the key
        return struck

    def _angles(self) -> dict[str, float]:
        return {name: servo.position for name, servo in self._robot.items()}


def _moved(turn: JointTurn) -> str:
    if turn.moved != turn.joint:
        return f"{turn.moved or 'another joint'} moved"
    return f"{turn.joint} moved, {'the right way' if turn.way == 1 else 'the other way'}"


def _asked(key: Callable[[], str], what: str, keys: str, meanwhile: Callable[[], None]) -> str:
    """Ask, and wait for a key: one of `keys`, or any where that is empty.

    Raises:
        Ended: the user wants to end, or there is nobody to press a key.
    """
    while key() not in {"", END}:  # struck too often: no motor moves because of that
        pass
    print(what, flush=True)
    while True:
        struck = key().lower()
        if struck == END:
            raise Ended("nobody is at the keys")
        if struck == _QUIT:
            raise Ended
        if struck and struck in (keys or struck):
            return struck
        if not struck:
            meanwhile()


def _tell(outcome: StepOutcome) -> None:
    """What was measured and found, and what mends it."""
    from axbridge.bus.diagnose import grouped

    for line in outcome.lines:
        print(f"  {line}")
    if outcome.state == "failed":
        print("  it came to no end")
    for who, problem, fix in grouped(outcome.findings):
        print(f"  ! {who} {problem}\n    {fix}", flush=True)


def _listed(text: str, known: list[str], what: str) -> list[str]:
    """Names that were given, separated by commas.

    Raises:
        UsageError: one of them is not known.
    """
    names = separated(text)
    for name in names:
        if name not in known:
            raise UsageError(f"there is no {what} {name!r}", f"there are: {', '.join(known)}")
    return names


def _what_is_left(rig: Rig, folder: Path, begun: Sequence[str], end: BaseException) -> str:
    """What became of motors and files at an early end.

    Args:
        rig: The robot, calm.
        folder: Of the files.
        begun: Not empty when the motors were switched off.
        end: What ended it.
    """
    motors = motors_after(rig) if begun else "no motor was moved"
    kept = folder / _FILES["kept"]
    files = f"{folder} holds what was found so far" if kept.exists() else "nothing was written"
    why = "stopped" if isinstance(end, KeyboardInterrupt) or not end.args else f"stopped ({end})"
    return f"{why}: {motors}; {files}"
