"""What came of one step of `axbridge verify`, as plain data: it is kept in a file, so that a later run can go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from axbridge.bus.handshake import Finding
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.files import write_whole, writing

_FORM = 1


class Measured(NamedTuple):
    """What a step measured.

    Attributes:
        facts: Plain data, for the page and for the promises.
        lines: The same in words.
        findings: What is wrong, and what mends it.
    """

    facts: dict[str, Any]
    lines: list[str]
    findings: list[Finding]


@dataclass(frozen=True)
class StepOutcome:
    """One step, done or left out.

    Attributes:
        state: ``failed``: it came to no end, for the reason in `lines`.
        when: UTC, to the minute.
        rig: `digest_of` the rig then.
        facts, lines, findings: See `Measured`.
    """

    state: Literal["done", "skipped", "failed"]
    when: str
    rig: str
    facts: dict[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def digest_of(rig: Rig) -> str:
    """A hash of all that a rig says: it changes when the rig is calibrated."""
    table = rig.model_dump(mode="json", by_alias=True, exclude={"path"})
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


def save(path: Path, rig: Rig, outcomes: Mapping[str, StepOutcome]) -> None:
    """Keep what came of the steps so far, by name.

    Raises:
        RecordingError: it cannot be written; what was there stays.
    """
    steps = {name: asdict(outcome) for name, outcome in outcomes.items()}
    text = json.dumps({"form": _FORM, "rig": rig.name, "steps": steps}, indent=1, default=float)
    with writing(path):
        write_whole(path, text + "\n")


def load(path: Path, rig: Rig) -> dict[str, StepOutcome]:
    """What an earlier run kept; nothing where there is no file.

    Raises:
        UsageError: the file is of another rig, or is none of ours.
    """
    if not path.exists():
        return {}
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["form"] != _FORM:
            raise UsageError(
                f"{path} is of form {kept['form']}, and this axbridge goes on with form {_FORM}",
                "add --force to begin anew",
            )
        if kept["rig"] != rig.name:
            raise UsageError(
                f"{path} is of rig {kept['rig']}, not of {rig.name}", "name another folder with --out, or add --force"
            )
        return {
            name: StepOutcome(
                **{
                    **step,
                    "lines": tuple(step["lines"]),
                    "findings": tuple(Finding(**finding) for finding in step["findings"]),
                }
            )
            for name, step in kept["steps"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as failure:
        if isinstance(failure, UsageError):
            raise
        raise UsageError(
            f"{path} is not what `axbridge verify` wrote", "name another folder with --out, or add --force"
        ) from failure
