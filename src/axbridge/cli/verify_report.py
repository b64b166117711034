"""Outcomes of the steps of `axbridge verify`: saved for the next run, and reported as a page and as text."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from axbridge import Rig, __version__
from axbridge.bus.diagnose import grouped
from axbridge.bus.handshake import Finding
from axbridge.comparison.comparison import Comparison
from axbridge.comparison.page import command_html, fewer, figure_html, write_page
from axbridge.comparison.tables import panels_of
from axbridge.errors import Remedy, UsageError
from axbridge.files import write_whole
from axbridge.motion.gait import can_walk

KEPT, PAGE, TEXT = "verify.json", "verify.html", "verify.txt"
STEPS = {  # by name: title, and what moves
    "line": ("adapter, line and servos, as doctor sees them", "Nothing moves. Each servo is read often."),
    "joints": (
        "directions and zeros",
        "You move the limp joints by hand. Only where you press w, a servo moves: 5° at 20 % of its torque.",
    ),
    "endings": (
        "motors off when a program is ended",
        "First {first}, then all servos hold at 20 % of their torque, and go limp: hold the robot.",
    ),
    "motion": (
        "one servo beside its model",
        "At half torque {servo} goes to {step:.0f}° and swings by {swing:.0f}°; others hold: keep it upright.",
    ),
    "walk": (
        "the robot in the air",
        "At half torque all joints go to the walk-ready pose, and the legs take {steps} steps: hold it in the air.",
    ),
}


class Promise(NamedTuple):
    """A promise of a page of the docs, the step that tests it, and the kind of finding that breaks it."""

    page: str
    words: str
    step: str
    broken: str


PROMISES = (
    Promise("safety.md", "a program's end switches the motors off", "motion", "powered"),
    Promise("safety.md", "SIGTERM switches the motors off", "endings", "SIGTERM"),
    Promise("safety.md", "after SIGKILL the guard process switches the motors off", "endings", "SIGKILL"),
    Promise("safety.md", "no joint jumps when torque comes on", "endings", "snap"),
    Promise("troubleshooting.md", "the adapter passes replies on without delay", "line", "latency"),
    Promise("troubleshooting.md", "an adapter's echo is removed", "line", "echo"),
    Promise("troubleshooting.md", "no value is wrong", "line", "wrong"),
    Promise("first-servo.md", "the supply voltage is within the servos' limits", "line", "voltage"),
    Promise("troubleshooting.md", "every servo replies to reads and writes", "line", "status"),
    Promise("troubleshooting.md", "the control period is kept", "line", "late"),
)
_SEEN, _NOT_KEPT, _UNJUDGED, _UNTRIED = VERDICTS = "seen", "not kept", "cannot be judged here", "not tried"
_COMMENTS = """
yours to fill in: robot (kit and type, what was changed), adapter, supply (battery or bench, V, A), servos (how old, how
much used), and what else was seen, heard or smelt:
"""
_MARKS = {"passed": "✓", "broken": "✗", "open": "?", "untried": "–"}  # by state of a step or a promise
_WORDS = {"passed": "passed", "broken": "not passed", "open": "not complete", "untried": "not tried"}


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step: data, lines of text, and the faults."""

    facts: dict[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    state: Literal["done", "skipped", "failed"] = "done"  # failed: not finished; `lines` has the reason
    when: str = field(default_factory=lambda: f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC")


Outcomes = Mapping[str, StepOutcome]


@dataclass(frozen=True)
class _Kept:
    rig: str
    steps: dict[str, StepOutcome]


def save(path: Path, rig: Rig, outcomes: Outcomes) -> None:
    """Save the outcomes of the steps so far, by name."""
    write_whole(path, TypeAdapter(_Kept).dump_json(_Kept(rig.name, dict(outcomes)), indent=1, fallback=float))


def load(path: Path, rig: Rig) -> dict[str, StepOutcome]:
    """Load the outcomes of an earlier run; empty without a file."""
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


def judged(outcomes: Outcomes) -> list[tuple[Promise, str, str]]:
    """Return every promise with its verdict, one of `VERDICTS`, and the reason."""
    verdicts = []
    for promise in PROMISES:
        outcome, (verdict, why) = outcomes.get(promise.step), (_SEEN, f"step {promise.step}")
        if outcome is None or outcome.state != "done":
            verdict, why = _UNTRIED, f"step {promise.step} was not done"
        elif promise.broken in outcome.facts.get("unjudged", {}):
            verdict, why = _UNJUDGED, outcome.facts["unjudged"][promise.broken]
        elif broken := [f"{bad.subject} {bad.problem}" for bad in outcome.findings if bad.kind == promise.broken]:
            verdict, why = _NOT_KEPT, "; ".join(broken)
        verdicts.append((promise, verdict, why))
    return verdicts


def counted(outcomes: Outcomes) -> str:
    """Return the number of promises of each verdict as text."""
    numbers = Counter(verdict for _, verdict, _ in judged(outcomes))
    return ", ".join(f"{numbers[verdict]} {verdict}" for verdict in VERDICTS)


def verdict(rig: Rig, outcomes: Outcomes) -> tuple[str, str]:
    """Return the state of the whole check, a key of `_MARKS`, and the result in words with all open points."""
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
    state, word = ("open", "not complete") if open_ else ("passed", "passed")
    if wrong or "failed" in states.values():
        state, word = "broken", "NOT PASSED"
    return state, f"{word}: {'; '.join([*([f'{wrong} to repair'] if wrong else []), *open_]) or 'nothing to repair'}"


def write_report(
    folder: Path, rig: Rig, outcomes: Outcomes, private: Mapping[str, str], motion: Comparison | None,
    port: str | None = None,
) -> None:  # fmt: skip
    """Write page and text; both can be sent to others, because words in `private` are replaced.

    The page shows the pair of servos of `motion`, if given. Commands name the given port.
    """
    state, words = verdict(rig, outcomes)
    laid = f", laid over {rig.bases[-1].stem}" if rig.bases else ""
    robot = f"rig {rig.name}, as it comes with axbridge" if rig.comes_along else f"a rig of the owner's{laid}"
    kinds = Counter(rig.specs[servo.name].profile.name for servo in rig.dynamixels)
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    head = [
        f"Promises: {counted(outcomes)}.",
        f"{robot}; {', '.join(f'{count} x {kind}' for kind, count in kinds.items())}",
        f"axbridge {__version__}, Python {platform.python_version()}, {platform.system()}; {today}",
    ]
    if any(line["adapter"] == "pty" for line in _facts(outcomes, "line").get("lines", ())):
        head.append("no real servos: these are served on a pseudo-terminal")
    cards = [_card(rig, name, outcomes, port) for name in STEPS if name != "walk" or can_walk(rig)]
    registers = _facts(outcomes, "line").get("servos", {}).items()
    held = [f"{subject}; {', '.join(f'{name} {value}' for name, value in row.items())}" for subject, row in registers]
    lines = [words, *head, *(line for text, _ in cards for line in text)]
    lines += ["", "Servos", *(f"  {line}" for line in held)] if held else []
    parts = [
        f'<p class="light {state}">{escape(words)}</p>',
        f'<p class="lead">{"<br>".join(map(escape, head))}</p>',
        f'<div class="cards">{"".join(card for _, card in cards)}</div>',
    ]
    if motion is not None:
        pair = motion.pairs[0]
        parts.append(f"<h2>{escape(pair.name)} beside its model</h2>")
        parts.append(figure_html(fewer(panels_of(motion, pair)), "motion"))
    if held:
        parts.append(f"<h2>Servos</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in held)}</ul>")
    write_whole(folder / TEXT, _anonymous("\n".join([*lines, _COMMENTS]), private))
    write_page(folder / PAGE, f"{rig.name}: the first hour", [_anonymous(part, private) for part in parts])


def _card(rig: Rig, name: str, outcomes: Outcomes, port: str | None) -> tuple[list[str], str]:
    """Return a step as lines of text and as HTML: its outcome, faults and repairs."""
    title, outcome = STEPS[name][0], outcomes.get(name, StepOutcome(lines=["not done"]))
    state = "open" if name == "joints" and _unknown(rig, outcomes) else "passed"
    state = "untried" if name not in outcomes or outcome.state == "skipped" else state
    state = "broken" if outcome.state == "failed" or outcome.findings else state
    again = Remedy("verify", rig=rig.path, only=name, port=port)
    shown = [*([outcome.state] if outcome.state != "done" else []), *outcome.lines]
    lines = ["", title, *(f"  {line}" for line in shown)]
    parts = [f'<h3><span class="mark">{_MARKS[state]}</span>{escape(title)} <small>{_WORDS[state]}</small></h3>']
    parts += [f"<p>{escape(line)}</p>" for line in shown]
    if outcome.state == "failed":
        lines.append(f"  then {again}")
        parts.append(command_html(again))
    for promise, verdict, why in judged(outcomes):
        if promise.step == name and verdict != _UNTRIED:
            colour = dict(zip(VERDICTS, _MARKS, strict=True))[verdict]
            said = verdict if verdict == _SEEN else f"{verdict}: {why}"
            lines.append(f"  {promise.words}; {said}; docs/{promise.page}")
            mark = f'<span class="mark">{_MARKS[colour]}</span>'
            parts.append(f'<p class="{colour}">{mark}{escape(promise.words)} <small>{escape(said)}</small></p>')
    for subject, problem, fix in grouped(outcome.findings):
        lines += [f"  ! {subject}: {problem}", f"    {fix}"]
        parts.append(f'<p class="broken"><span class="mark">!</span>{escape(subject)}: {escape(problem)}</p>')
        parts.append(command_html(fix) if "axbridge " in fix else f"<p>{escape(fix)}</p>")
    return lines, f'<section class="card {state}">{"".join(parts)}</section>'


def _unknown(rig: Rig, outcomes: Outcomes) -> int:
    return len(rig.servos) - len(_facts(outcomes, "joints").get("turns", ()))


def _anonymous(text: str, private: Mapping[str, str]) -> str:
    for word in sorted(private, key=len, reverse=True):
        text = text.replace(word, private[word]) if len(word) > 1 else text
    return text


def _facts(outcomes: Outcomes, step: str) -> dict[str, Any]:
    return outcomes[step].facts if step in outcomes else {}
