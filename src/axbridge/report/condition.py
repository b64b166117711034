"""A condition on a figure, as people write it: ``rmse>2``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection

from axbridge.errors import UsageError

__all__ = ["parse_condition"]

_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def parse_condition(text: str, metrics: Collection[str]) -> tuple[str, Callable[[float], bool]]:
    """``rmse>2`` as the metric's name, one of `metrics`, and whether a value fulfils it.

    Raises:
        UsageError: not of that form.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*", text)
    if match is None or match[1] not in metrics or (limit := _number(match[3])) is None:
        raise UsageError(f"{text!r} is no condition", f"write METRIC>NUMBER; metrics: {', '.join(sorted(metrics))}")
    compared: Callable[[float, float], bool] = _OPERATORS[match[2]]
    return match[1], lambda value: compared(value, limit)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
