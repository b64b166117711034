"""What a servo's samples are like, found one sample at a time: range, rate, gaps and jumps, in constant memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

from pydantic import TypeAdapter

__all__ = ["JUMP", "LAST", "TOO_FAST", "ServoFacts", "Tally"]

_FINENESS = 8  # spacings are counted in classes of 2^(1/8), 9 %: fine enough for a median
_GAP_CLASSES = _FINENESS * math.log2(2.5)  # 2.5 times the usual spacing: longer than that is a gap
JUMP = math.radians(20)  # a smaller one may be noise
LAST = 1e15  # s: no clock reads more, and log times could not hold it
TOO_FAST = 40.0  # rad/s: several times what any servo of this kind turns


@dataclass(frozen=True)
class ServoFacts:
    """What a servo's samples are like.

    Attributes:
        samples: How many; those with the time of the one before count once.
        start: Time of the first, s; NaN without samples.
        end: Of the last, s.
        usual: Usual time from one sample to the next, s, to within 9 %; NaN with fewer than two.
        columns: Those with a value somewhere, in the order they appeared.
        lowest: Smallest position, rad; NaN when none is known.
        highest: Largest position, rad.
        gaps: Spacings longer than 2.5 times the usual one.
        longest_gap: Longest spacing, s; 0 with fewer than two samples.
        longest_gap_at: When it began, s.
        jumps: Times the position changed faster than any servo turns.
        first_jump_at: When the first of these was, s.
        backwards: Samples whose time was before that of the one before.
        backwards_from: Time before the first of these, s.
        backwards_to: Its own time, s.
    """

    samples: int = 0
    start: float = math.nan
    end: float = math.nan
    usual: float = math.nan
    columns: tuple[str, ...] = ()
    lowest: float = math.nan
    highest: float = math.nan
    gaps: int = 0
    longest_gap: float = 0.0
    longest_gap_at: float = math.nan
    jumps: int = 0
    first_jump_at: float = math.nan
    backwards: int = 0
    backwards_from: float = math.nan
    backwards_to: float = math.nan

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> ServoFacts:
        """From the JSON object of `vars`, where what is not a number is null.

        Raises:
            ValueError: it is none.
        """
        found: ServoFacts = _adapter().validate_python(
            {key: math.nan if value is None else value for key, value in document.items()}
        )
        if found.samples and not -LAST <= found.start <= found.end <= LAST:
            raise ValueError("samples without times")
        return found

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        return {key: value if key == "columns" or math.isfinite(value) else None for key, value in vars(self).items()}

    @property
    def rate(self) -> float:
        """Samples a second on average, Hz; 0 with fewer than two."""
        span = self.end - self.start
        return (self.samples - 1) / span if self.samples > 1 and span > 0 else 0.0


@cache
def _adapter() -> TypeAdapter[ServoFacts]:
    return TypeAdapter(ServoFacts)


class Tally:
    """Counts one servo's samples as they come."""

    def __init__(self) -> None:
        self._samples = self._jumps = self._backwards = 0
        self._columns: dict[str, None] = {}
        self._start = self._end = self._last = math.nan
        self._lowest, self._highest = math.inf, -math.inf
        self._position = self._position_at = math.nan
        self._spacings: Counter[int] = Counter()
        self._gap = (0.0, math.nan)
        self._backwards_at = (math.nan, math.nan)
        self._first_jump = math.nan

    def add(self, body: Mapping[str, float]) -> None:
        """Count a sample: ``time`` and the columns that are known."""
        time = body["time"]
        if time == self._last:
            return
        if self._samples == 0:
            self._start = self._end = time
        else:
            self._space(time)
        self._samples += 1
        self._start, self._end = min(self._start, time), max(self._end, time)
        self._last = time
        if not body.keys() <= self._columns.keys():
            self._columns |= dict.fromkeys(body)
        if "position" in body:
            self._place(time, body["position"], turning="duty" in body)

    def facts(self) -> ServoFacts:
        """What has been counted so far."""
        usual = self._usual()
        return ServoFacts(
            self._samples,
            self._start,
            self._end,
            math.nan if usual is None else 2 ** (usual / _FINENESS),
            tuple(key for key in self._columns if key != "time"),
            self._lowest if self._lowest <= self._highest else math.nan,
            self._highest if self._lowest <= self._highest else math.nan,
            sum(count for size, count in self._spacings.items() if usual is not None and size > usual + _GAP_CLASSES),
            *self._gap,
            self._jumps,
            self._first_jump,
            self._backwards,
            *self._backwards_at,
        )

    def _space(self, time: float) -> None:
        spacing = time - self._last
        if spacing < 0:
            self._backwards += 1
            if self._backwards == 1:
                self._backwards_at = self._last, time
        if not 0 < spacing < math.inf:
            return
        self._spacings[round(_FINENESS * math.log2(spacing))] += 1
        if spacing > self._gap[0]:
            self._gap = (spacing, self._last)

    def _place(self, time: float, position: float, *, turning: bool) -> None:
        self._lowest, self._highest = min(self._lowest, position), max(self._highest, position)
        moved = abs(position - self._position)
        if (
            moved > max(JUMP, TOO_FAST * abs(time - self._position_at)) and not turning
        ):  # a wheel's sensor jumps once a turn
            self._jumps += 1
            if self._jumps == 1:
                self._first_jump = time
        self._position, self._position_at = position, time

    def _usual(self) -> int | None:
        """Class of the median spacing."""
        ordered = sorted(self._spacings.items())
        total = sum(count for _, count in ordered)
        sums = accumulate(count for _, count in ordered)
        return next((size for (size, _), so_far in zip(ordered, sums, strict=True) if so_far * 2 >= total), None)
