"""Rows of a product of parameters, of which `make test` runs as many as any two values need to meet."""

from itertools import combinations

import pytest


def pairs(rows):
    """All these rows; those in which no two values meet for the first time are left to `make long`."""
    rows = list(rows)
    met = {row: set(combinations(enumerate(row), 2)) for row in rows}
    left, chosen = set().union(*met.values()), set()
    while left:
        row = max(rows, key=lambda row: len(met[row] & left))
        chosen.add(row)
        left -= met[row]
    return [row if row in chosen else pytest.param(*row, marks=pytest.mark.ci) for row in rows]
