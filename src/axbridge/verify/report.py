"""The page of a run, and the small text of it that can be sent: it says nothing of who has run it, or where."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path

from axbridge import __version__
from axbridge.bus.diagnose import grouped
from axbridge.comparison.comparison import Comparison
from axbridge.comparison.page import Table, table_html, write_page
from axbridge.comparison.plots import fewer, figure_html
from axbridge.comparison.tables import deviation_table, panels_of, response_tables
from axbridge.config.registers import NAMES
from axbridge.config.rig import Rig
from axbridge.verify.outcome import StepOutcome
from axbridge.verify.promises import counted, judged

_COMMENTS = """\
yours to fill in
  robot     (kit and type, what was changed):
  adapter   (its name):
  supply    (battery or bench, V, A):
  servos    (how old, how much used):
  else      (what was seen, heard, smelt):
"""


def anonymous(text: str, private: Mapping[str, str]) -> str:
    """The text without words that tell of a person or a place, the longest first."""
    for word in sorted(private, key=len, reverse=True):
        if len(word) > 1:
            text = text.replace(word, private[word])
    return text


def text_of(
    rig: Rig, titles: Mapping[str, str], outcomes: Mapping[str, StepOutcome], private: Mapping[str, str]
) -> str:
    """The small text.

    Args:
        rig: The robot.
        titles: Of the steps, by name, in order.
        outcomes: Of the steps, by name.
        private: What must not be in it, and what stands there instead.
    """
    lines = [
        "axbridge verify, form 1",
        f"axbridge   {__version__}, Python {platform.python_version()}, {platform.system()}",
        f"date       {datetime.now(timezone.utc):%Y-%m-%d}",
        f"robot      {_robot(rig)}",
        f"servos     {_kinds(rig, outcomes)}",
    ]
    if "line" in outcomes and any(line["adapter"] == "pty" for line in outcomes["line"].facts.get("lines", ())):
        lines.append("copper     none: these servos are served on a pseudo-terminal")
    lines += ["", "steps"]
    for name, title in titles.items():
        outcome = outcomes.get(name)
        lines.append(f"  {name:<9}{'not done' if outcome is None else outcome.state:<9} {title}")
        lines += [f"             {line}" for line in (outcome.lines if outcome is not None else ())]
    lines += ["", "found wrong"]
    rows = grouped(finding for outcome in outcomes.values() for finding in outcome.findings)
    lines += [f"  {who}: {problem}" for who, problem, _ in rows] or ["  nothing"]
    for page in dict.fromkeys(one.promise.page for one in judged(outcomes)):
        lines += ["", f"promises of docs/{page}"]
        lines += [
            f"  [{one.verdict}] {one.promise.words}: {one.why}" for one in judged(outcomes) if one.promise.page == page
        ]
    lines += ["", f"promises: {counted(judged(outcomes))}"]
    return anonymous("\n".join([*lines, "", _COMMENTS]), private)


def write_verify_page(
    path: Path,
    rig: Rig,
    titles: Mapping[str, str],
    outcomes: Mapping[str, StepOutcome],
    private: Mapping[str, str],
    motion: Comparison | None,
) -> None:
    """Write the page: steps, what was found and how to mend it, promises, and one servo beside its model.

    Raises:
        RecordingError: it cannot be written; what was there stays.
    """
    findings = [finding for outcome in outcomes.values() for finding in outcome.findings]
    to_mend = grouped(findings)
    found = f"{len(to_mend)} thing{'s' * (len(to_mend) != 1)} to mend" if to_mend else "nothing to mend"
    promises = judged(outcomes)
    parts = [
        f'<p class="headline">{escape(found)}. Promises: {counted(promises)}.</p>',
        f'<p class="lead">{escape(_robot(rig))}; {escape(_kinds(rig, outcomes))}; axbridge {__version__}</p>',
    ]
    if to_mend:
        parts.append(
            table_html(Table("To mend", ("who", "what is wrong", "what mends it"), tuple(to_mend)), words=True)
        )
    rows = tuple(
        (title, "not done" if name not in outcomes else outcomes[name].state,
         "; ".join(outcomes[name].lines) if name in outcomes else "")
        for name, title in titles.items()
    )  # fmt: skip
    parts.append(table_html(Table("Steps", ("step", "", "what was measured"), rows), words=True))
    if motion is not None:
        pair = motion.pairs[0]
        parts.append(f"<h2>{escape(pair.name)} beside its model</h2>")
        parts.append(figure_html(fewer(panels_of(motion, pair)), "motion"))
        parts += [table_html(table) for table in (deviation_table(motion), *response_tables(motion, pair))]
    if "walk" in outcomes and (behind := outcomes["walk"].facts.get("behind_deg")):
        table = Table("Steps in the air", ("joint", "behind its goal at most, °"),
                      tuple((name, f"{worst:.1f}") for name, worst in behind.items()))  # fmt: skip
        parts.append(table_html(table))
    if "servos" in outcomes and (servos := outcomes["servos"].facts.get("servos")):
        parts.append(table_html(_servo_table(servos)))
    if "joints" in outcomes and (off := outcomes["joints"].facts.get("off")):
        turns = {turn["joint"]: turn for turn in outcomes["joints"].facts["turns"]}
        parts.append(table_html(_joint_table(off, turns), words=True))
    for page in dict.fromkeys(one.promise.page for one in promises):
        shown = tuple((one.promise.words, one.verdict, one.why) for one in promises if one.promise.page == page)
        parts.append(
            table_html(Table(f"Promises of docs/{page}", ("promise", "on this robot", "by"), shown), words=True)
        )
    write_page(path, f"{rig.name}: the first hour on copper", [anonymous(part, private) for part in parts])


def _servo_table(servos: Mapping[str, Mapping[str, int]]) -> Table:
    shown = {
        "id": ("id",), "firmware": ("firmware_version",), "return delay": ("return_delay_time",),
        "status level": ("status_return_level",), "low limit": [names.low for names in NAMES.values()],
        "high limit": [names.high for names in NAMES.values()],
        "max torque": [names.most_torque for names in NAMES.values()],
        "torque limit": [names.torque for names in NAMES.values()],
        "0.1 V": [names.voltage for names in NAMES.values()], "°C": ("present_temperature",),
    }  # fmt: skip
    rows = tuple(
        (name, *(next((str(values[key]) for key in keys if key in values), "") for keys in shown.values()))
        for name, values in servos.items()
    )
    return Table("Servos", ("servo", *shown), rows)


def _joint_table(off: Mapping[str, float], turns: Mapping[str, Mapping[str, object]]) -> Table:
    rows = []
    for name, angle in off.items():
        turn = turns.get(name)
        way = "not tried" if turn is None else f"{turn['moved'] or 'another'} {'+' if turn['way'] == 1 else '-'}"
        rows.append((name, f"{math.degrees(angle):+.1f}", way, "" if turn is None else str(turn["by"])))
    return Table("Joints", ("joint", "off when straight, °", "what moved, and which way", "by"), tuple(rows))


def _robot(rig: Rig) -> str:
    """A rig of one's own may be called after a person."""
    if rig.comes_along:
        return f"rig {rig.name}, as it comes with axbridge"
    base = f", laid over {rig.bases[-1].stem}" if rig.bases else ""
    return f"a rig of the owner's{base}"


def _kinds(rig: Rig, outcomes: Mapping[str, StepOutcome]) -> str:
    """How many servos of which kind, and their firmware where it was read."""
    kinds: Sequence[str] = [rig.profile_of(servo).name for servo in rig.dynamixels]
    listed = ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
    servos = outcomes["servos"].facts.get("servos", {}) if "servos" in outcomes else {}
    firmware = sorted({servo["firmware_version"] for servo in servos.values()})
    return listed + (f", firmware {', '.join(map(str, firmware))}" if firmware else "")
