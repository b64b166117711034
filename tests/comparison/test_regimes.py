"""Where two motions differ: the worst seconds, and each regime of the motion."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.comparison import compare
from axbridge.comparison.regimes import errors_by_regime, worst_seconds, worst_segments
from axbridge.comparison.tables import beside_table, errors_beside
from axbridge.recording.recording import Event, Recording, Track


def recording(off):
    """At rest, a goal at 2 s that is reached at 3 s, back from 4 s on at once, limp from 7 s on."""
    time = np.arange(0, 9, 0.01)
    position = np.interp(time, [2, 3, 4, 5, 7, 7.5], [0, 2, 2, 0, 0, -1])
    command = np.where((time >= 2) & (time < 4), 2.0, 0.0)
    load = np.where((time > 3) & (time < 4), 0.3, 0.0)
    track = Track.of("knee", time, position=position + np.radians(off(time)), command=command, load=load,
                     torque_enabled=np.where(time < 7, 1.0, 0.0))  # fmt: skip
    return Recording(Path("x.mcap"), {"knee": track})


def found(off):
    return compare(recording(lambda time: 0 * time), recording(off), same_clock=True)


def test_the_worst_seconds_come_first():
    first, second, *_ = worst_seconds(found(lambda time: np.select([time < 5, time < 6], [0.0, 3.0], 1.0)))
    assert (first.servo, first.start, first.rmse) == ("knee", 5.0, pytest.approx(3.0))
    assert second.rmse == pytest.approx(1.0)


def test_the_worst_segments_come_first_by_their_names_and_one_alone_is_no_list():
    still = recording(lambda time: 0 * time)
    other = recording(lambda time: np.where(time < 4, 1.0, 2.5))
    parts = [(0.0, "rest"), (4.0, "back"), (7.0, "fall")]
    events = tuple(Event(at, "segment", {"name": name}) for at, name in parts)
    worst = worst_segments(compare(replace(still, events=events), replace(other, events=events), same_clock=True))
    assert [(one.name, one.start, one.rmse) for one in worst[1:]] == [
        (worst[1].name, worst[1].start, pytest.approx(2.5)), ("rest", 0.0, pytest.approx(1.0)),
    ]  # fmt: skip
    assert {one.name for one in worst[:2]} == {"back", "fall"}
    assert worst_segments(compare(replace(still, events=events[:1]), replace(other, events=events[:1]))) == []


@pytest.mark.parametrize(
    ("regime", "begin", "end", "seconds"),
    [
        ("first 100 ms after a goal", 2.0, 2.1, 0.2),
        ("release", 7.0, 9.0, 2.0),
        ("hold under load", 3.1, 3.9, 0.98),
        ("top speed", 2.2, 2.8, 1.98),
        ("reversal", 3.97, 4.03, 0.1),
    ],
)
def test_an_error_is_told_of_the_regime_in_which_it_is(regime, begin, end, seconds):
    errors = {one.regime: one for one in errors_by_regime(found(lambda time: 2.0 * ((time >= begin) & (time < end))))}
    here = errors[regime]
    assert here.worst == pytest.approx(2.0)
    assert begin - 0.01 <= here.at < end
    assert here.seconds == pytest.approx(seconds, abs=0.03)
    assert here.rmse > 0.7


def test_a_model_stands_beside_a_perfect_servo_and_a_lag_while_it_is_driven():
    time = np.arange(0, 20, 0.02)
    goal = np.floor(time / 2) % 2 * 0.5
    late = np.interp(time - 0.1, time, goal)
    driven = np.where(time < 18, 1.0, 0.0)

    def side(position):
        track = Track.of("knee", time, position=position, command=goal, torque_enabled=driven)
        return Recording(Path("x.mcap"), {"knee": track})

    model = side(np.where(time < 18, late, late + 1.0) + np.radians(0.5))
    comparison = compare(side(late), model, labels=("real", "model"), same_clock=True)
    errors = perfect, lag, beside = errors_beside(comparison)["knee"]
    assert perfect.rmse == pytest.approx(np.degrees(0.5) * np.sqrt(0.1 / 2), rel=0.2)
    assert lag.rmse < 0.5
    assert (beside.mae, beside.rmse) == (pytest.approx(0.5), pytest.approx(0.5))
    table = beside_table({"knee": errors}, comparison)
    assert table.header == ("servo", "perfect servo", "delay and lag", "model")
    assert table.rows[0][-1] == "0.50 / 0.50"
