"""Outcomes of the steps of `axbridge verify`: saved for the next run, judged by the promises of the docs, reported."""

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

from axbridge import __version__
from axbridge.bus.diagnose import grouped
from axbridge.bus.handshake import Finding
from axbridge.comparison.comparison import Comparison
from axbridge.comparison.page import Table, command_html, fewer, figure_html, table_html, write_page
from axbridge.comparison.tables import deviation_table, panels_of, response_tables
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.files import write_whole, writing
from axbridge.motion.gait import can_walk

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


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step: data for page and promises, lines of text, and the faults."""

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
    with writing(path):
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
    Promise("safety.md", "nothing snaps when torque comes on", "endings", "snap"),
    Promise("troubleshooting.md", "the adapter hands answers over at once", "line", "latency"),
    Promise("troubleshooting.md", "an adapter's echo is removed", "line", "echo"),
    Promise("troubleshooting.md", "no value is wrong", "line", "wrong"),
    Promise("first-servo.md", "the servos get what they need", "line", "voltage"),
    Promise("troubleshooting.md", "every servo answers reads and writes", "line", "status"),
    Promise("troubleshooting.md", "the control period is kept", "line", "late"),
)


_MARKS = {  # by verdict of a promise: CSS class, mark and word
    "seen": ("kept", "✓", "kept"), "not kept": ("broken", "✗", "not kept"),
    "cannot be judged here": ("open", "?", "cannot be judged here"), "not tried": ("untried", "–", "not tried"),
}  # fmt: skip


def judged(outcomes: Outcomes) -> list[tuple[Promise, str, str]]:
    """Return every promise with its verdict and the reason."""
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
    """Return the number of promises of each verdict as text."""
    verdicts = [verdict for _, verdict, _ in judged(outcomes)]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in _MARKS)


def verdict(rig: Rig, outcomes: Outcomes) -> tuple[str, str]:
    """Return the CSS class of the result, and the result in words with all open points."""
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
    """Write the page and the text; both can be sent to others, because words in `private` are replaced."""
    colour, words = verdict(rig, outcomes)
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
    cards = [_card(rig, name, title, outcomes) for name, title in STEPS.items()]
    registers = _facts(outcomes, "line").get("servos", {}).items()
    rows = tuple((subject, ", ".join(f"{name} {value}" for name, value in held.items())) for subject, held in registers)
    lines = [f"{words}. {head[0]}", *head[1:], *(line for text, _ in cards for line in text)]
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
    """Return a step as lines of text and as HTML: its outcome, promises, faults and repairs."""
    outcome = outcomes.get(name)
    state = "untried"
    if outcome is not None and outcome.state != "skipped":
        state = "open" if name == "joints" and _unknown(rig, outcomes) else "kept"
        state = "broken" if outcome.state == "failed" or outcome.findings else state
    shown = ["not done"] if outcome is None else [*([outcome.state] if outcome.state != "done" else []), *outcome.lines]
    if outcome is not None and outcome.state == "failed":
        shown.append(f"then axbridge verify --rig {rig.path} --only {name}")
    parts = [f"<h3>{escape(title)}</h3>", *(f"<p>{escape(line)}</p>" for line in shown)]
    lines = ["", title, *(f"  {line}" for line in shown)]
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
