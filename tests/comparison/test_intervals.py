"""Recorded times of goals and samples, cut into spans."""

import numpy as np
import pytest

from axbridge.comparison.simulate import spans
from axbridge.recording.recording import Track


def track(name, time, commanded):
    return Track.of(name, np.array(time), commanded=np.array(commanded), command=np.zeros(len(time)))


def test_a_span_goes_from_goals_to_goals_and_the_first_begins_with_the_first_sample():
    found = spans([track("a", [0.0, 0.02], [0.006, 0.027])], 0.005, 0.018)
    assert [(span.begin, span.end, span.goals) for span in found] == [
        (0.0, 0.006, True), (0.006, 0.027, True), (0.027, pytest.approx(0.036), True),
    ]  # fmt: skip


def test_goals_of_two_buses_go_out_at_once_when_the_last_has_gone_out():
    found = spans([track("a", [0.0, 0.02], [0.006, 0.026]), track("b", [0.0, 0.02], [0.0065, 0.0262])], 0.005, 0.018)
    assert [span.begin for span in found] == [0.0, 0.0065, 0.0262]


def test_where_no_goals_go_out_for_long_no_sample_is_further_back_than_a_simulation_remembers():
    time = np.arange(0.0, 0.5, 0.01)
    found = spans([track("a", time, np.zeros(50))], 0.005, 0.018)
    assert [span.goals for span in found] == [True] + [False] * (len(found) - 1)
    for span in found:
        within = time[(time >= span.begin) & (time < span.end)]
        assert not len(within) or span.end - within[0] <= 0.018 + 1e-9
    assert [span.begin for span in found[1:]] == [span.end for span in found[:-1]]
    assert found[-1].end > time[-1]
