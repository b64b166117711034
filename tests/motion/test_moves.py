"""Moves as data: what files say and refuse, and what the changes do to a move."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge import Move, MoveError, UsageError
from axbridge.config.rig import Rig
from axbridge.motion.files import load_move, motion_text, samples
from axbridge.motion.mirror import signs
from axbridge.motion.moves import Key, Page

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
moves = keys.map(lambda found: Move(pages={"1": Page(keys=tuple(found), name="é", slope={"head": 64})}))


def wave(**page):
    found = (
        Key(positions={"left_arm": 0.0, "head": 0.1}, time=1.0),
        Key(positions={"left_arm": 1.0, "head": 0.2}, time=0.5, pause=0.25),
        Key(positions={"left_arm": 0.5}, time=2.0),
    )
    return Move(pages={"1": Page(**{"keys": found, **page})})


def linked(**links):
    page = wave().pages["1"]
    pages = {name: page.model_copy(update={"next": links.get(name)}) for name in ("1", "2", "3")}
    return Move(pages=pages)


@settings(max_examples=60, deadline=None)
@given(moves)
def test_a_file_gives_back_the_move(move):
    assert Move.parse(move.text()) == move


def test_a_file_has_one_line_a_pose_and_only_what_is_said(tmp_path):
    wave().save(tmp_path / "wave.json")
    text = (tmp_path / "wave.json").read_text()
    assert '        {"positions": {"left_arm": 0.5}, "time": 2.0}\n' in text
    assert "repeat" not in text
    assert Move.load(tmp_path / "wave.json") == wave()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[1]", "holds no move"),
        ("{}", "pages: missing"),
        ('{"pages": {"1": {"keys": [{"time": 1}]}}}', "pages.1.keys.#1.positions: missing"),
        ('{"pages": {"1": {"keys": [{"positions": {"a": "x"}, "time": 1}]}}}', "pages.1.keys.#1.positions.a: "),
        ('{"pages": {"1": {"keys": [{"positions": {"a": NaN}, "time": 1}]}}}', "pages.1.keys.#1.positions.a: "),
        ('{"pages": {"1": {"keys": [{"positions": {"a": 1}, "time": -1}]}}}', "greater than or equal to 0"),
        ('{"pages": {"1": {"speeed": 1}}}', "pages.1.speeed: "),
        ('{"pages": {"1": {"next": "7"}}}', "pages.1.next: there is no page '7'"),
        ('{"pages": {"1": {}}, "start": "2"}', "start: there is no page '2'"),
        ('{"pages": {"1": {"slope": {"a": 255}}}}', "pages.1.slope.a: 255 is no slope"),
        ('{"pages": {"1": {"speed": {"a": 0}}}}', "pages.1.speed.a: 0.0 is no speed"),
        ('{"pages": {"1": {"keys": [{"positions": {"a": 1e308}, "time": 1}]}}}', "pages.1.keys.#1.positions.a: "),
        (
            f'{{"pages": {{"1": {{"keys": [{{"positions": {{"a": {"9" * 400}}}, "time": 1}}]}}}}}}',
            "pages.1.keys.#1.pos",
        ),
        (f'{{"pages": {{"1": {{"repeat": {"9" * 5000}}}}}}}', "has a number that is too large"),
        ('{"pages": {"1": {"name": "\\u001b[31m"}}}', "pages.1.name: has control characters"),
        ('{"pages": ' + "[" * 100_000, "is nested too deeply"),
        ('{"format": "other", "pages": {"1": {}}}', "format: "),
    ],
)
def test_a_mistake_is_named_with_its_key(text, said):
    with pytest.raises(MoveError) as caught:
        Move.parse(text, "wave.json")
    assert str(caught.value).startswith("wave.json: ")
    assert said in str(caught.value)
    assert caught.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MoveError, match=r"none\.json: No such file or directory\ncheck the name"):
        Move.load(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MoveError, match=r"bytes\.json: is no text: .*\nsave it as UTF-8"):
        Move.load(tmp_path / "bytes.json")


def test_a_move_of_days_has_no_end_of_rows_and_is_told_so():
    long = Move(pages={"1": Page(keys=tuple(Key(positions={"a": k}, time=5e5) for k in (0.0, 1.0)))})
    with pytest.raises(
        UsageError, match=r"a .motion file of 1e\+06 s would have more than 1000000 rows\nmake the move"
    ):
        motion_text(long)
    with pytest.raises(UsageError, match="50000001 poses, and 1000000 are the most"):
        long.blended(Move(pages={"1": Page(keys=(Key(positions={"a": 0.0}, time=1e6),))}), 0.5)
    again = wave(repeat=1_000_000)
    with pytest.raises(UsageError, match=r"more than 1000000 poses with its repeats\nwork on its pages"):
        assert again.single


def test_the_length_counts_rate_repeats_and_what_follows():
    assert wave().duration == pytest.approx(3.75)
    assert wave(rate=2.0, repeat=3).duration == pytest.approx(3.75 * 1.5)
    assert linked(**{"1": "2"}).duration == wave().scaled(2.0).duration == pytest.approx(7.5)
    with pytest.raises(UsageError, match="a factor of 0"):
        wave().scaled(0.0)
    assert linked(**{"1": "2", "2": "1"}).duration == math.inf


def test_pages_that_follow_are_one_page_when_they_agree():
    one = linked(**{"1": "3"}).single
    assert len(one.keys) == 6
    with pytest.raises(UsageError, match="goes on for ever: page '2' comes again"):
        _ = linked(**{"1": "2", "2": "2"}).single
    differ = linked(**{"1": "2"})
    other = differ.pages["2"].model_copy(update={"slope": {"head": 16}})
    with pytest.raises(UsageError, match="its pages differ in slope"):
        _ = differ.model_copy(update={"pages": {**differ.pages, "2": other}}).single


def test_backwards_the_ways_between_the_poses_take_as_long():
    back = wave().reversed().pages["1"].keys
    poses = [(key.positions["left_arm"], key.time, key.pause) for key in back]
    assert poses == [(0.5, 1.0, 0.0), (1.0, 2.0, 0.25), (0.0, 0.5, 0.0)]


def test_a_page_is_found_by_its_key_or_by_its_name():
    page = wave().pages["1"]
    named = Move(
        pages={"1": page, "2": page.model_copy(update={"name": "Bow  "}), "3": page.model_copy(update={"name": "1"})}
    )
    assert [named.find(which) for which in ("1", "Bow", "3")] == ["1", "2", "3"]  # blanks are in ROBOTIS' set
    with pytest.raises(UsageError, match="no page 'Kick'") as caught:
        named.find("Kick")
    assert caught.value.hint == "pages: 1, 2 Bow, 3 1"
    with pytest.raises(UsageError, match="2 pages are called 'Bow'"):
        Move(pages={"1": page, **dict.fromkeys(("2", "3"), named.pages["2"])}).find("Bow")


def test_only_some_joints_keep_their_times():
    head = wave(speed={"left_arm": 1.0, "head": 2.0}).only(["head"]).pages["1"]
    assert [(key.positions, key.time) for key in head.keys] == [({"head": 0.1}, 1.0), ({"head": 0.2}, 0.5)]
    assert head.speed == {"head": 2.0}
    keys = Key(positions={"a": 1.0}, time=1.0, pause=0.5), Key(positions={"b": 1.0}, time=2.0)
    late = Move(pages={"1": Page(keys=keys)})
    assert late.only(["b"]).pages["1"].keys == (Key(positions={"b": 1.0}, time=3.5),)
    with pytest.raises(UsageError, match="no joint tail"):
        wave().only(["tail"])


def test_one_after_the_other():
    both = wave(exit="1").then(linked(**{"1": "2"}))
    assert both.duration == pytest.approx(3.75 * 3)
    assert [both.pages[name].next for name in both.pages] == ["2", "3", None, None]
    assert both.pages["1"].exit == "1"
    with pytest.raises(UsageError, match="for ever"):
        linked(**{"1": "1"}).then(wave())


@settings(max_examples=60, deadline=None)
@given(moves, st.floats(0, 1))
def test_a_blend_with_itself_is_itself(move, share):
    found = move.blended(move, share).pages["1"]
    for key, kept in zip(move.pages["1"].keys, found.keys, strict=True):
        assert kept.positions == pytest.approx(key.positions, abs=1e-12)
        assert kept.time == pytest.approx(key.time)


def test_a_blend_of_moves_with_other_times_lies_between_them():
    slow = Move(pages={"1": Page(keys=(Key(positions={"a": 0.0}, time=0.0), Key(positions={"a": 1.0}, time=4.0)))})
    fast = Move(
        pages={
            "1": Page(
                interpolation="linear",
                keys=tuple(Key(positions={"a": place}, time=1.0) for place in (0.0, 2.0, 3.0)),
            )
        }
    )
    half = slow.blended(fast, 0.5)
    assert half.duration == pytest.approx(3.5, abs=0.03)
    assert half.pages["1"].keys[0].positions["a"] == pytest.approx(0.0)
    assert half.pages["1"].keys[-1].positions["a"] == pytest.approx(2.0)
    with pytest.raises(UsageError, match="different joints"):
        slow.blended(wave(), 0.5)
    with pytest.raises(UsageError, match="not between 0 and 1"):
        slow.blended(slow, 1.5)


def test_the_mirrored_bioloid_knows_its_other_side():
    assert signs(Rig.load("pan_tilt")) == {"pan": ("pan", -1.0), "tilt": ("tilt", 1.0)}  # it nods as before
    found = signs(Rig.load("bioloid"))
    assert found["left_knee"] == ("right_knee", 1.0)
    assert found["right_hip_lateral"] == ("left_hip_lateral", -1.0)
    assert found["left_hip_twist"] == ("right_hip_twist", -1.0)
    key = Key(positions={"left_knee": 0.7, "left_elbow": 0.3}, time=1.0)
    move = Move(pages={"1": Page(slope={"left_knee": 64}, keys=(key,))})
    mirrored = move.mirrored(found)
    assert mirrored.pages["1"].keys[0].positions == {"right_knee": 0.7, "right_elbow": -0.3}
    assert mirrored.pages["1"].slope == {"right_knee": 64}
    assert mirrored.mirrored(found) == move


def test_moves_that_come_with_axbridge_have_names_and_a_slip_is_asked_about():
    assert {"bow", "squat"} <= set(samples())
    assert all(load_move(f"sample:{name}")[0].pages for name in samples())
    with pytest.raises(UsageError, match="there is no move sample:bwo") as refused:
        load_move("sample:bwo")
    assert "did you mean 'bow'?" in refused.value.hint
