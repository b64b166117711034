"""Moves as data: files and their errors, changed moves, and trajectories between poses."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge import Move, MoveError, UsageError
from axbridge.config.rig import Rig
from axbridge.motion.files import load_move, motion_text, samples
from axbridge.motion.mirror import signs
from axbridge.motion.moves import JointPath, Key, Page, tracks
from axbridge.motion.planning import Bounds, check, plan, reachable

drawn = settings(max_examples=60, deadline=None)
angles = st.floats(-2.6, 2.6)
keys = st.lists(
    st.builds(
        Key,
        positions=st.fixed_dictionaries({"left_arm": angles, "head": angles}),
        time=st.floats(0.01, 3.0),
        pause=st.sampled_from([0.0, 0.3]),
        name=st.text(st.characters(exclude_categories=["C"]), max_size=5),
    ),
    min_size=1,
    max_size=6,
)
moves = keys.map(lambda pose_keys: Move(pages={"1": Page(keys=tuple(pose_keys), name="é", slope={"head": 64})}))


def wave(**page):
    pose_keys = (
        Key(positions={"left_arm": 0.0, "head": 0.1}, time=1.0),
        Key(positions={"left_arm": 1.0, "head": 0.2}, time=0.5, pause=0.25),
        Key(positions={"left_arm": 0.5}, time=2.0),
    )
    return Move(pages={"1": Page(**{"keys": pose_keys, **page})})


def joint_move(*keys, **page):
    return Move(pages={"1": Page(**{"keys": keys, "interpolation": "linear", **page})})


def joint_key(angle, time, pause=0.0):
    return Key(positions={"a": angle}, time=time, pause=pause)


def linked(**links):
    page = wave().pages["1"]
    pages = {name: page.model_copy(update={"next": links.get(name)}) for name in ("1", "2", "3")}
    return Move(pages=pages)


@drawn
@given(moves)
def test_a_saved_move_is_loaded_unchanged(move):
    assert Move.parse(move.text()) == move


def test_a_file_has_one_line_per_pose_and_no_defaults(tmp_path):
    wave().save(tmp_path / "wave.json")
    text = (tmp_path / "wave.json").read_text()
    assert '        {"positions": {"left_arm": 0.5}, "time": 2.0}\n' in text
    assert "repeat" not in text
    assert Move.load(tmp_path / "wave.json") == wave()


KEYS = '{"pages": {"1": {"keys": [%s]}}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[1]", "holds no move"),
        ("{}", "pages: missing"),
        ('{"pages": {"1": {"keys": [{"time": 1}]}}}', "pages.1.keys.#1.positions: missing"),
        ('{"pages": {"1": {"keys": [{"positions": {"a": "x"}, "time": 1}]}}}', "pages.1.keys.#1.positions.a: "),
        ('{"pages": {"1": {"keys": [{"positions": {"a": NaN}, "time": 1}]}}}', "pages.1.keys.#1.positions.a: "),
        ('{"pages": {"1": {"keys": [{"positions": {"a": 1}, "time": -1}]}}}', "must be at least 0, not -1"),
        ('{"pages": {"1": {"speeed": 1}}}', "pages.1.speeed: "),
        ('{"pages": {"1": {"next": "7"}}}', "pages.1.next: there is no page '7'"),
        ('{"pages": {"1": {}}, "start": "2"}', "start: there is no page '2'"),
        ('{"pages": {"1": {"slope": {"a": 255}}}}', "pages.1.slope.a: must be at most 254, not 255"),
        ('{"pages": {"1": {"speed": {"a": 0}}}}', "pages.1.speed.a: must be at least 1e-06, not 0"),
        ('{"pages": {"1": {"keys": [{"positions": {"a": 1e308}, "time": 1}]}}}', "pages.1.keys.#1.positions.a: "),
        (KEYS % f'{{"positions": {{"a": {"9" * 400}}}, "time": 1}}', "pages.1.keys.#1.pos"),
        (f'{{"pages": {{"1": {{"repeat": {"9" * 5000}}}}}}}', "has a number that is too large"),
        ('{"pages": {"1": {"name": "\\u001b[31m"}}}', "pages.1.name: has control characters"),
        ('{"pages": ' + "[" * 100_000, "is nested too deeply"),
        ('{"format": "other", "pages": {"1": {}}}', "format: "),
    ],
)
def test_an_error_names_its_key(text, message):
    with pytest.raises(MoveError) as caught:
        Move.parse(text, "wave.json")
    assert str(caught.value).startswith("wave.json: ")
    assert message in str(caught.value)
    assert caught.value.hint


def differing():
    """Return two linked pages with different slopes."""
    move = linked(**{"1": "2"})
    other = move.pages["2"].model_copy(update={"slope": {"head": 16}})
    return move.model_copy(update={"pages": {**move.pages, "2": other}})


LONG = joint_move(joint_key(0.0, 5e5), joint_key(1.0, 5e5), interpolation="minimum-jerk")
SLOW = joint_move(joint_key(0.0, 0.0), joint_key(1.0, 4.0), interpolation="minimum-jerk")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: motion_text(LONG), r"of 1e\+06 s would have more than 1000000 rows\nmake the"),
        (lambda: LONG.blended(joint_move(joint_key(0.0, 1e6)), 0.5), "50000001 poses, and 1000000 are the most"),
        (lambda: wave(repeat=1_000_000).single, r"more than 1000000 poses with its repeats\nwork on its pages"),
        (lambda: wave().scaled(0.0), "a factor of 0"),
        (lambda: wave().scaled("x"), "a factor must be a number, not 'x'"),
        (lambda: linked(**{"1": "2", "2": "2"}).single, "the move never ends: page '2' comes again"),
        (lambda: differing().single, "its pages differ in slope"),
        (lambda: linked(**{"1": "1"}).then(wave()), "never ends"),
        (lambda: SLOW.blended(wave(), 0.5), "different joints"),
        (lambda: SLOW.blended(SLOW, 1.5), "not between 0 and 1"),
        (lambda: SLOW.blended(SLOW, None), "a share must be a number"),
        (lambda: load_move("sample:bwo"), r"there is no move sample:bwo\n.*did you mean 'bow'\?"),
    ],
)
def test_impossible_changes_of_a_move_are_refused(change, words):
    with pytest.raises(UsageError, match=words):
        change()


def test_duration_includes_rate_repeats_and_next_pages():
    assert wave().duration == pytest.approx(3.75)
    assert wave(rate=2.0, repeat=3).duration == pytest.approx(3.75 * 1.5)
    assert linked(**{"1": "2"}).duration == wave().scaled(2.0).duration == pytest.approx(7.5)
    assert linked(**{"1": "2", "2": "1"}).duration == math.inf


def test_linked_pages_with_equal_settings_become_one_page():
    assert len(linked(**{"1": "3"}).single.keys) == 6


def test_a_reversed_move_keeps_the_times_between_poses():
    back = wave().reversed().pages["1"].keys
    poses = [(key.positions["left_arm"], key.time, key.pause) for key in back]
    assert poses == [(0.5, 1.0, 0.0), (1.0, 2.0, 0.25), (0.0, 0.5, 0.0)]


def test_a_page_is_found_by_its_key_or_by_its_name():
    page = wave().pages["1"]
    second, third = (page.model_copy(update={"name": name}) for name in ("Bow  ", "1"))
    named = Move(pages={"1": page, "2": second, "3": third})
    assert [named.find(which) for which in ("1", "Bow", "3")] == ["1", "2", "3"]  # ROBOTIS' files have padded names
    with pytest.raises(UsageError, match="no page 'Kick'") as caught:
        named.find("Kick")
    assert caught.value.hint == "pages: 1, 2 Bow, 3 1"
    with pytest.raises(UsageError, match="2 pages are called 'Bow'"):
        Move(pages={"1": page, **dict.fromkeys(("2", "3"), named.pages["2"])}).find("Bow")


def test_a_move_restricted_to_some_joints_keeps_its_times():
    head = wave(speed={"left_arm": 1.0, "head": 2.0}).only(["head"]).pages["1"]
    assert [(key.positions, key.time) for key in head.keys] == [({"head": 0.1}, 1.0), ({"head": 0.2}, 0.5)]
    assert head.speed == {"head": 2.0}
    keys = Key(positions={"a": 1.0}, time=1.0, pause=0.5), Key(positions={"b": 1.0}, time=2.0)
    late = Move(pages={"1": Page(keys=keys)})
    assert late.only(["b"]).pages["1"].keys == (Key(positions={"b": 1.0}, time=3.5),)
    assert late.only(["a"]).pages["1"].keys == (Key(positions={"a": 1.0}, time=1.0, pause=2.5),)


def test_then_appends_a_move():
    both = wave(exit="1").then(linked(**{"1": "2"}))
    assert both.duration == pytest.approx(3.75 * 3)
    assert [both.pages[name].next for name in both.pages] == ["2", "3", None, None]
    assert both.pages["1"].exit == "1"


def test_a_blend_of_moves_with_different_times_is_between_them():
    half = SLOW.blended(joint_move(*(joint_key(place, 1.0) for place in (0.0, 2.0, 3.0))), 0.5)
    assert half.duration == pytest.approx(3.5, abs=0.03)
    start, *_, end = (key.positions["a"] for key in half.pages["1"].keys)
    assert (start, end) == pytest.approx((0.0, 2.0))
    straight = joint_move(joint_key(0.0, 0.0), joint_key(1.0, 4.0), interpolation="linear")
    assert tracks(SLOW.blended(straight, 1.0).single)["a"].at(1.0) == pytest.approx(0.25)


def test_mirrored_joints_of_the_bioloid_are_found():
    assert signs(Rig.load("pan_tilt")) == {"pan": ("pan", -1.0), "tilt": ("tilt", 1.0)}  # tilt keeps its sign
    partners = signs(Rig.load("bioloid"))
    assert partners["left_knee"] == ("right_knee", 1.0)
    assert partners["right_hip_lateral"] == ("left_hip_lateral", -1.0)
    assert partners["left_hip_twist"] == ("right_hip_twist", -1.0)
    key = Key(positions={"left_knee": 0.7, "left_elbow": 0.3}, time=1.0)
    move = Move(pages={"1": Page(slope={"left_knee": 64}, keys=(key,))})
    mirrored = move.mirrored(partners)
    assert mirrored.pages["1"].keys[0].positions == {"right_knee": 0.7, "right_elbow": -0.3}
    assert mirrored.pages["1"].slope == {"right_knee": 64}
    assert mirrored.mirrored(partners) == move


def test_shipped_moves_have_names():
    assert {"bow", "squat"} <= set(samples())
    assert all(load_move(f"sample:{name}")[0].pages for name in samples())


# ---- trajectories between key poses: through all knots, within their range, with correct peak speeds

LAWS = ["linear", "minimum-jerk", "cubic", "ramps"]
knot_lists = st.lists(st.tuples(st.floats(0.05, 2.0), st.floats(-2.0, 2.0)), min_size=2, max_size=7)


def track(law, knots):
    times = np.cumsum([duration for duration, _ in knots]).tolist()
    return JointPath(law, times, [position for _, position in knots], 0.25)


@pytest.mark.parametrize("law", LAWS)
@drawn
@given(knots=knot_lists)
def test_a_trajectory_is_continuous_and_without_ramps_stays_between_its_knots(law, knots):
    path = track(law, knots)
    for (begin, start), (end, stop) in itertools.pairwise(zip(path.times, path.positions, strict=True)):
        assert path.at(begin) == pytest.approx(start, abs=1e-9)
        assert path.at(begin - 1e-9) == pytest.approx(start, abs=1e-6)
        inside = [path.at(time) for time in np.linspace(begin, end, 20)]
        assert law == "ramps" or min(start, stop) - 1e-9 <= min(inside) <= max(inside) <= max(start, stop) + 1e-9
    assert path.at(path.times[-1] - 1e-9) == pytest.approx(path.positions[-1], abs=1e-6)
    assert (path.at(path.times[0] - 1), path.at(path.times[-1] + 1)) == (path.positions[0], path.positions[-1])


@pytest.mark.parametrize("law", LAWS)
@drawn
@given(knots=knot_lists)
@pytest.mark.slow
def test_peak_speed_is_the_highest_speed_of_the_trajectory(law, knots):
    path = track(law, knots)
    for (begin, end), peak in zip(itertools.pairwise(path.times), path.peak_speeds(), strict=True):
        fine = np.array([path.at(time) for time in np.linspace(begin, end, 401)])
        measured = np.abs(np.diff(fine)).max() / ((end - begin) / 400)
        assert measured <= peak * (1 + 1e-6) + 1e-6
        assert measured >= 0.97 * peak - 1e-6


def test_cubic_rests_only_at_reversals_and_minimum_jerk_at_all_knots():
    for law, through in (("cubic", 1.0), ("minimum-jerk", 0.0)):
        path = JointPath(law, [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 1.0])
        speed = [(path.at(t + 1e-5) - path.at(t - 1e-5)) / 2e-5 for t in (1.0, 2.0)]
        assert speed == pytest.approx([through, 0.0], abs=1e-3)


def test_ramps_equal_those_of_robotis_published_player():
    """Counts of `Action.cpp` of the ROBOTIS-OP's framework, every 8/128 s of the second, third and fourth of these steps.

    It uses integers, so it deviates from its trajectory by some counts. In the third step it overshoots by 46 counts.
    """
    steps = ((722, 85), (936, 34), (943, 40), (516, 51))  # counts, and 1/128 s
    published = (738, 787, 852, 919), (982, 989, 966, 949, 943), (922, 859, 754, 635, 556, 519)
    ends = list(itertools.accumulate((0, *(time for _, time in steps))))
    path = JointPath("ramps", [end / 128 for end in ends], [783, *(count for count, _ in steps)], 32 / 128)
    for begin, counts in zip(ends[1:], published, strict=False):
        positions = [path.at((begin + 8 * (number + 1)) / 128) for number in range(len(counts))]
        assert positions == pytest.approx(counts, abs=5.0)


def test_ramps_take_their_time_and_knots_are_passed_at_full_speed():
    path = JointPath("ramps", [0.0, 1.0, 3.0, 4.0], [0.0, 1.0, 2.0, 2.0], [0.2, 0.4, 0.4])
    speed = {t: (path.at(t + 1e-6) - path.at(t - 1e-6)) / 2e-6 for t in (0.1, 0.3, 1.0, 1.2, 2.0, 2.8, 3.5)}
    first = 1.0 / 0.9  # the ramp of 0.2 s costs half of its time
    second = (1.0 - first * 0.2) / 1.6
    expected = [first / 2, first, first, (first + second) / 2, second, second / 2, 0.0]
    assert list(speed.values()) == pytest.approx(expected, abs=1e-6)
    assert JointPath("ramps", [0.0, 1.0], [0.0, 1.0]).at(0.25) == 0.25  # without a ramp: a straight line


FAST = {"a": Bounds(-2.0, 2.0, 100.0)}


@pytest.mark.parametrize("law", LAWS)
@drawn
@given(knots=knot_lists, top=st.floats(0.5, 8.0))
@pytest.mark.slow
def test_a_plan_keeps_speed_limits_and_is_never_shortened(law, knots, top):
    bounds = {"a": Bounds(-2.0, 2.0, top)}
    move = joint_move(*(joint_key(angle, time) for time, angle in knots), interpolation=law)
    made = plan(move, "1", {"a": 0.0}, bounds, ease=0.0)
    goals = np.array([made.at(time)["a"] for time in np.arange(0.0, made.duration + 0.01, 0.01)])
    assert np.abs(np.diff(goals)).max(initial=0.0) / 0.01 <= top * (1 + 1e-5)
    assert made.duration >= made.asked - 1e-9
    assert goals[-1] == pytest.approx(knots[-1][1], abs=1e-9)
    if made.slowest is None:
        assert made.duration == pytest.approx(made.asked)


def test_a_plan_has_rates_repeats_and_ends_of_its_pages():
    first, second = (joint_key(0.5, 1.0),), (joint_key(0.0, 1.0, 0.5), joint_key(1.0, 0.5))
    pages = {"1": Page(keys=first, next="2"), "2": Page(keys=second, rate=2.0, repeat=2, next="1")}
    made = plan(Move(pages=pages), "1", {"a": 0.0}, FAST)
    assert [(end.page, pytest.approx(end.time)) for end in made.rounds] == [("1", 1.0), ("2", 2.0), ("2", 3.0)]
    assert made.loop == "1"
    assert made.page_at(1.5).page == "2"


def test_a_joint_absent_from_a_pose_moves_on_to_its_next_pose():
    first, last = Key(positions={"a": 0.0, "b": 0.0}, time=1.0), Key(positions={"b": 1.0}, time=1.0)
    made = plan(joint_move(first, joint_key(1.0, 1.0), last), "1", {"a": 0.0, "b": 0.0}, FAST | {"b": FAST["a"]})
    assert made.at(2.0) == pytest.approx({"a": 1.0, "b": 0.5})


@pytest.mark.parametrize("law", LAWS)
def test_a_pause_too_short_for_a_float_is_none(law):
    made, short = (
        plan(joint_move(joint_key(1.0, 1.0, pause), joint_key(0.0, 1.0), interpolation=law), "1", {"a": 0.0}, FAST)
        for pause in (0.0, 1e-17)
    )
    assert short.at(1.25) == made.at(1.25)


def test_poses_beyond_limits_are_refused_with_the_worst_joint_first():
    far = (Key(positions={"a": -2.1, "b": 2.2}, time=1.0), Key(positions={"a": 2.5, "b": 0.0}, time=1.0))
    message = r"page 1, pose 2: a at 2.50 rad, 28.6° beyond its limits -2.00..2.00; too far are also b"
    with pytest.raises(UsageError, match=message):
        check(joint_move(*far), ["1"], FAST | {"b": FAST["a"]})


def test_a_pose_one_count_beyond_a_limit_is_clipped():
    nearly = joint_move(joint_key(2.005, 1.0))
    assert check(nearly, ["1"], FAST) == []
    assert plan(nearly, "1", {"a": 0.0}, FAST).at(1.0) == {"a": 2.0}


def test_unreachable_pages_are_not_checked():
    pages = {"1": Page(keys=(joint_key(0.0, 1.0),), exit="3"), "2": Page(keys=(joint_key(9.0, 1.0),)), "3": Page()}
    assert reachable(Move(pages=pages), "1") == ["1", "3"]
    check(Move(pages=pages), ["1", "3"], FAST)
    with pytest.raises(UsageError, match="no poses"):
        check(Move(pages=pages), ["3"], FAST)
