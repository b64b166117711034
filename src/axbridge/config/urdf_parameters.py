"""Numbers of a rig that its URDF names: ``${mass}`` there becomes the number."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import model_validator

from axbridge.config import toml_tables
from axbridge.errors import RigError
from axbridge.file_reading import printable, reading, regular

_PLACE = re.compile(r"\$\{([^{}]*)\}")
_LONGEST = 60  # characters of what stands in the braces that are shown
_OPTIONS = re.compile(r"(.+?):(\w+=[^,=:/\\]*(?:,\w+=[^,=:/\\]*)*)")  # and no drive letter of a path


class Parameter(toml_tables.TomlTable):
    """A number that the URDF names as ``${name}``; in a rig also just the number.

    Attributes:
        value: What it is, unless somebody says otherwise.
        unit: Its unit, for messages.
        min: Lowest that makes sense.
        max: Highest.
    """

    value: float
    unit: str = ""
    min: float | None = None
    max: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _take_number(cls, data: Any) -> Any:
        return data if isinstance(data, Mapping) else {"value": data}

    @model_validator(mode="after")
    def _check_range(self) -> Parameter:
        low = -math.inf if self.min is None else self.min
        high = math.inf if self.max is None else self.max
        if not low <= self.value <= high:
            why = f"{self.value:g} is outside {low:g}..{high:g} {self.unit}".rstrip()
            raise toml_tables.Misfit("value", why, "correct it")
        return self


def split_options(rig: str | Path) -> tuple[str | Path, dict[str, float]]:
    """A rig's name or path, and the parameters behind it: ``pendulum:mass=0.2,length=0.15``."""
    found = _OPTIONS.fullmatch(str(rig))
    if found is None:
        return rig, {}
    values = {}
    for option in found[2].split(","):
        name, _, value = option.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            raise RigError(found[1], f"parameters.{name}", f"{value!r} is no number", f"write {name}=0.1") from None
    return found[1], values


def filled(urdf: Path, parameters: Mapping[str, Parameter], rig: Path) -> str:
    """Text of a URDF with a rig's parameters in it."""
    known = f"parameters of the rig: {', '.join(parameters) or 'none'}; add others to [parameters]; no arithmetic"
    with reading(partial(RigError, urdf, ""), known):
        text = regular(urdf).read_text(encoding="utf-8-sig")
    named = _PLACE.findall(text)
    for name in named:
        if name not in parameters:
            raise RigError(urdf, "", f"${{{printable(name)[:_LONGEST]}}} names no parameter", known)
    for name in parameters:
        if name not in named:
            why = f"{urdf.name} has no ${{{name}}}"
            raise RigError(rig, f"parameters.{name}", why, "use it there, or leave it out")
    return _PLACE.sub(lambda found: repr(parameters[found[1]].value), text)
