"""Loads that differ from recording to recording: ``step.mcap=bar:0.088,0.37227,0.01915``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from axbridge.errors import UsageError
from axbridge.recording.recording import Recording

_FORMS = "write REC.mcap=bar:MASS,LENGTH,WIDTH in kg and m, or REC.mcap=inertia:J in kg·m²"


def inertia_of(text: str) -> float:
    """Inertia of a balanced load about its shaft, kg·m²: ``bar:MASS,LENGTH,WIDTH`` about its centre, or ``inertia:J``.

    Raises:
        UsageError: not of that form.
    """
    kind, _, rest = text.partition(":")
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError as failure:
        raise UsageError(f"{text!r} is no load", _FORMS) from failure
    if any(not 0 <= number < 1e3 for number in numbers):
        raise UsageError(f"{text!r} has a number that no load has", _FORMS)
    if kind == "bar" and len(numbers) == 3:
        mass, length, width = numbers
        return mass * (length**2 + width**2) / 12
    if kind == "inertia" and len(numbers) == 1:
        return numbers[0]
    raise UsageError(f"{text!r} is no load", _FORMS)


def loaded_with(items: Sequence[str], *groups: Sequence[Recording]) -> tuple[list[Recording], ...]:
    """The groups of recordings with the loads that `items` give them: by path, or by file name where only one has it.

    Raises:
        UsageError: no such recording, or an item that is none.
    """
    loads: dict[Path, float] = {}
    known = [recording.path for group in groups for recording in group]
    for item in items:
        name, equals, text = item.rpartition("=")
        if not equals:
            raise UsageError(f"{item!r} is no load of a recording", _FORMS)
        meant = [path for path in known if path.resolve() == Path(name).resolve()]
        meant = meant or [path for path in known if path.name == name]
        if len(meant) != 1:
            raise UsageError(
                f"{name} is {'no' if not meant else 'more than one'} recording of this fit",
                f"recordings: {', '.join(map(str, known))}",
            )
        loads[meant[0]] = inertia_of(text)
    return tuple(
        [
            replace(one, metadata={**one.metadata, "load": {"inertia": loads[one.path]}}) if one.path in loads else one
            for one in group
        ]
        for group in groups
    )
