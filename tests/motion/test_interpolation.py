"""The way between key poses: through every knot, never beyond them, and as fast as it says."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge import UsageError
from axbridge.motion.moves import JointPath, Key, Move, Page
from axbridge.motion.planning import Bounds, check, plan, reachable

BETWEEN = ["linear", "minimum-jerk", "cubic"]  # never leave the range between two knots
LAWS = [*BETWEEN, "ramps"]
drawn = settings(max_examples=60, deadline=None)
ways = st.lists(st.tuples(st.floats(0.05, 2.0), st.floats(-2.0, 2.0)), min_size=2, max_size=7)


def track(law, found):
    times = np.cumsum([duration for duration, _ in found]).tolist()
    return JointPath(law, times, [position for _, position in found], 0.25)


@pytest.mark.parametrize("law", LAWS)
@drawn
@given(found=ways)
def test_every_knot_is_met_from_both_sides(law, found):
    way = track(law, found)
    for time, position in zip(way.times, way.positions, strict=True):
        assert way.at(time) == pytest.approx(position, abs=1e-9)
        assert way.at(time - 1e-9) == pytest.approx(position, abs=1e-6)
    assert (way.at(way.times[0] - 1), way.at(way.times[-1] + 1)) == (way.positions[0], way.positions[-1])


@pytest.mark.parametrize("law", BETWEEN)
@drawn
@given(found=ways)
def test_the_way_stays_between_its_ends(law, found):
    way = track(law, found)
    for (begin, start), (end, stop) in itertools.pairwise(zip(way.times, way.positions, strict=True)):
        inside = [way.at(time) for time in np.linspace(begin, end, 20)]
        assert min(start, stop) - 1e-9 <= min(inside)
        assert max(inside) <= max(start, stop) + 1e-9


@pytest.mark.parametrize("law", LAWS)
@drawn
@given(found=ways)
@pytest.mark.slow
def test_the_peak_speed_is_the_fastest_there_is(law, found):
    way = track(law, found)
    for (begin, end), peak in zip(itertools.pairwise(way.times), way.peak_speeds(), strict=True):
        fine = np.array([way.at(time) for time in np.linspace(begin, end, 401)])
        measured = np.abs(np.diff(fine)).max() / ((end - begin) / 400)
        assert measured <= peak * (1 + 1e-6) + 1e-6
        assert measured >= 0.97 * peak - 1e-6


def test_a_cubic_runs_through_a_knot_in_its_direction_and_rests_where_it_turns_and_minimum_jerk_rests_at_all():
    for law, through in (("cubic", 1.0), ("minimum-jerk", 0.0)):
        way = JointPath(law, [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 1.0])
        speed = [(way.at(t + 1e-5) - way.at(t - 1e-5)) / 2e-5 for t in (1.0, 2.0)]
        assert speed == pytest.approx([through, 0.0], abs=1e-3)


def test_ramps_go_as_robotis_published_player_goes():
    """Counts of `Action.cpp` of the ROBOTIS-OP's framework, every 8/128 s of the second, third and fourth of these steps.

    It works in whole numbers, so it is off its own way by some counts. In the third step it goes 46 counts too far.
    """
    steps = ((722, 85), (936, 34), (943, 40), (516, 51))  # counts, and 1/128 s
    theirs = (738, 787, 852, 919), (982, 989, 966, 949, 943), (922, 859, 754, 635, 556, 519)
    ends = list(itertools.accumulate((0, *(time for _, time in steps))))
    way = JointPath("ramps", [end / 128 for end in ends], [783, *(count for count, _ in steps)], 32 / 128)
    for begin, counts in zip(ends[1:], theirs, strict=False):
        mine = [way.at((begin + 8 * (number + 1)) / 128) for number in range(len(counts))]
        assert mine == pytest.approx(counts, abs=5.0)


def test_a_ramp_takes_its_time_and_a_joint_runs_on_through_a_knot_at_full_speed():
    way = JointPath("ramps", [0.0, 1.0, 3.0, 4.0], [0.0, 1.0, 2.0, 2.0], [0.2, 0.4, 0.4])
    speed = {t: (way.at(t + 1e-6) - way.at(t - 1e-6)) / 2e-6 for t in (0.1, 0.3, 1.0, 1.2, 2.0, 2.8, 3.5)}
    first = 1.0 / 0.9  # half of 0.2 s is lost at the start
    second = (1.0 - first * 0.2) / 1.6
    wanted = {0.1: first / 2, 0.3: first, 1.0: first, 1.2: (first + second) / 2, 2.0: second, 2.8: second / 2, 3.5: 0.0}
    assert speed == pytest.approx(wanted, abs=1e-6)
    assert JointPath("ramps", [0.0, 1.0], [0.0, 1.0]).at(0.25) == 0.25  # without a ramp it is a line


def move(*keys, **page):
    return Move(pages={"1": Page(**{"keys": keys, "interpolation": "linear", **page})})


def key(angle, time, pause=0.0):
    return Key(positions={"a": angle}, time=time, pause=pause)


FAST = {"a": Bounds(-2.0, 2.0, 100.0)}


@pytest.mark.parametrize("law", LAWS)
@drawn
@given(found=ways, top=st.floats(0.5, 8.0))
@pytest.mark.slow
def test_no_plan_is_faster_than_its_joints_and_none_is_shortened(law, found, top):
    bounds = {"a": Bounds(-2.0, 2.0, top)}
    made = plan(
        move(*(key(angle, time) for time, angle in found), interpolation=law), "1", {"a": 0.0}, bounds, ease=0.0
    )
    goals = np.array([made.at(time)["a"] for time in np.arange(0.0, made.duration + 0.01, 0.01)])
    assert np.abs(np.diff(goals)).max(initial=0.0) / 0.01 <= top * (1 + 1e-5)
    assert made.duration >= made.asked - 1e-9
    assert goals[-1] == pytest.approx(found[-1][1], abs=1e-9)
    if made.slowest is None:
        assert made.duration == pytest.approx(made.asked)


def test_pages_follow_with_their_rates_and_repeats_and_the_ends_are_known():
    pages = {
        "1": Page(keys=(key(0.5, 1.0),), interpolation="linear", next="2"),
        "2": Page(keys=(key(0.0, 1.0, 0.5), key(1.0, 0.5)), interpolation="linear", rate=2.0, repeat=2, next="1"),
    }
    made = plan(Move(pages=pages), "1", {"a": 0.0}, FAST)
    assert [(end.page, pytest.approx(end.time)) for end in made.rounds] == [("1", 1.0), ("2", 2.0), ("2", 3.0)]
    assert made.loop == "1"
    assert made.page_at(1.5).page == "2"


def test_a_joint_that_a_pose_does_not_name_goes_on_to_the_next_that_does():
    pages = {
        "1": Page(
            interpolation="linear",
            keys=(Key(positions={"a": 0.0, "b": 0.0}, time=1.0), key(1.0, 1.0), Key(positions={"b": 1.0}, time=1.0)),
        )
    }
    made = plan(Move(pages=pages), "1", {"a": 0.0, "b": 0.0}, FAST | {"b": FAST["a"]})
    assert made.at(2.0) == pytest.approx({"a": 1.0, "b": 0.5})


def test_a_pose_out_of_limits_is_refused_with_the_worst_joint_named_and_the_others_listed():
    far = (Key(positions={"a": -2.1, "b": 2.2}, time=1.0), Key(positions={"a": 2.5, "b": 0.0}, time=1.0))
    said = r"page 1, pose 2: a at 2.50 rad, 28.6° beyond its limits -2.00..2.00; too far are also b"
    with pytest.raises(UsageError, match=said):
        check(move(*far), ["1"], FAST | {"b": FAST["a"]})


def test_a_count_out_of_limits_is_forgiven_and_played_at_the_limit():
    nearly = move(key(2.005, 1.0))
    assert check(nearly, ["1"], FAST) == []
    assert plan(nearly, "1", {"a": 0.0}, FAST).at(1.0) == {"a": 2.0}


def test_pages_that_cannot_come_up_are_not_looked_at():
    pages = {"1": Page(keys=(key(0.0, 1.0),), exit="3"), "2": Page(keys=(key(9.0, 1.0),)), "3": Page()}
    assert reachable(Move(pages=pages), "1") == ["1", "3"]
    check(Move(pages=pages), ["1", "3"], FAST)
    with pytest.raises(UsageError, match="no poses"):
        check(Move(pages=pages), ["3"], FAST)
