"""Numbers of a rig that its URDF names: ``${2 * mass}`` there becomes what it is worth."""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import model_validator

from axbridge.config import toml_tables
from axbridge.errors import RigError
from axbridge.reading import printable, reading, regular

__all__ = ["Parameter", "fill", "filled", "split_options"]


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (ValueError, OverflowError):
        return math.nan


_PLACE = re.compile(r"\$\{([^{}]*)\}")
_OPTIONS = re.compile(r"(.+?):(\w+=[^,=:/\\]*(?:,\w+=[^,=:/\\]*)*)")  # and no drive letter of a path
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: _power,
}


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
    """A rig's name or path, and the parameters behind it: ``pendulum:mass=0.2,length=0.15``.

    Raises:
        RigError: a value is no number.
    """
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
    """Text of a URDF with a rig's parameters in it.

    Raises:
        RigError: it cannot be read, names what is no parameter, or leaves one out.
    """
    known = f"parameters of the rig: {', '.join(parameters) or 'none'}; add others to [parameters]"
    with reading(partial(RigError, urdf, ""), known):
        text = regular(urdf).read_text(encoding="utf-8-sig")
        try:
            used = _names_in(text)
            result = fill(text, {name: one.value for name, one in parameters.items()})
        except ValueError as failure:
            raise RigError(urdf, "", printable(failure), known) from None
    for name in parameters:
        if name not in used:
            raise RigError(
                rig, f"parameters.{name}", f"{urdf.name} has no ${{{name}}}", "use it there, or leave it out"
            )
    return result


def fill(text: str, values: Mapping[str, float]) -> str:
    """`text` with every ``${…}`` worked out: numbers, names of `values`, ``+ - * / **`` and parentheses.

    Raises:
        ValueError: an unknown name, anything else in the braces, or a result that is no finite number.
    """
    return _PLACE.sub(lambda found: repr(_value(found[1], values)), text)


def _names_in(text: str) -> set[str]:
    trees = (_parsed(found[1]) for found in _PLACE.finditer(text))
    return {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _value(expression: str, values: Mapping[str, float]) -> float:
    try:
        result = _evaluated(_parsed(expression), values, expression)
    except ZeroDivisionError:
        result = math.nan
    if not math.isfinite(result):
        raise ValueError(f"${{{expression}}} is no finite number")
    return result


def _parsed(expression: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's parser, about what is no arithmetic anyway
            return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise ValueError(f"${{{expression}}} is no arithmetic") from None


def _evaluated(node: ast.expr, values: Mapping[str, float], expression: str) -> float:
    if isinstance(node, ast.Name):
        if node.id not in values:
            raise ValueError(f"${{{expression}}}: there is no {node.id!r}")
        return values[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand, values, expression)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        sides = (_evaluated(side, values, expression) for side in (node.left, node.right))
        return _BINARY[type(node.op)](*sides)
    raise ValueError(f"${{{expression}}} is no arithmetic")
