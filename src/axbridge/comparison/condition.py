"""A condition on a figure, as people write it: ``rmse>2``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection

from axbridge.errors import UsageError

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def parse_condition(text: str, metrics: Collection[str]) -> tuple[str, Callable[[float], bool]]:
    """``rmse>2`` as the metric's name, one of `metrics`, and whether a value fulfils it."""
    match = re.fullmatch(rf"\s*(\w+)\s*(>=|<=|>|<)\s*({_NUMBER})\s*", text)
    if match is None or match[1] not in metrics:
        raise UsageError(f"{text!r} is no condition", f"write METRIC>NUMBER; metrics: {', '.join(sorted(metrics))}")
    compared: Callable[[float, float], bool] = _OPERATORS[match[2]]
    limit = float(match[3])
    return match[1], lambda value: compared(value, limit)
