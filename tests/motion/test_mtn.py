"""Moves of other programs: files keep their bytes, common format errors give warnings, other errors are refused."""

import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axbridge import Move, MoveError, RecordingError, UsageError
from axbridge.config.rig import Rig
from axbridge.motion import mtn
from axbridge.motion.files import load_move, motion_text, parse_motion, save_move
from axbridge.motion.moves import Key, Page, tracks
from axbridge.motion.mtn import MtnFile, MtnPage, MtnStep, in_sevens, joints_of, move_of, mtn_of, parse_mtn
from tests.support.page_set import EVERYTHING, page_set

BIOLOID = Rig.load("bioloid")
SERVOS = [
    {"name": "a", "joint": "a", "id": 1},
    {"name": "b", "joint": "b", "id": 2, "direction": -1},
    {"name": "c", "joint": "c", "id": 3, "zero": 300},
]
ARM = joints_of(Rig.model_validate({"name": "arm", "servo": SERVOS}))


def test_a_file_with_all_features_is_written_with_the_same_bytes(tmp_path):
    for version in ("1.00", "1.01"):
        data = page_set(*EVERYTHING, version=version)
        file = parse_mtn(data)
        assert file.warnings == ()
        assert (b"motor_type" in data) == (version == "1.01")
        assert file.data() == data
    (tmp_path / "a.mtn").write_bytes(data)
    mtn.save_mtn(mtn.load_mtn(tmp_path / "a.mtn"), tmp_path / "b.mtn")
    assert (tmp_path / "b.mtn").read_bytes() == data


def long_page(count, **more):
    steps = tuple(MtnStep((500 + n,) * 26, Decimal(0), Decimal(1)) for n in range(count))
    return MtnPage(steps=steps, **more)


def whole(*pages):
    return MtnFile(pages=(*pages, *(MtnPage(),) * (255 - len(pages))))


seconds = st.integers(0, 9999).map(lambda ms: Decimal(ms) / 1000)
steps = st.builds(MtnStep, st.tuples(*[st.integers(0, 1023)] * 26), seconds, seconds)
pages = st.builds(
    MtnPage,
    st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=8),
    st.tuples(*[st.integers(0, 7)] * 26),
    *(st.integers(0, 255), st.integers(0, 255), st.integers(1, 255)),
    st.integers(1, 500).map(lambda tenths: Decimal(tenths) / 10),
    st.integers(0, 255),
    st.lists(steps, max_size=7).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(pages, max_size=3))
@pytest.mark.slow
def test_each_valid_file_is_read_back_unchanged(parts):
    file = whole(*parts)
    again = parse_mtn(file.data())
    assert (again, again.warnings) == (file, ())


GOOD = page_set(*EVERYTHING)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOOD.removeprefix(b"\xef\xbb\xbf"), "no byte order mark"),
        (GOOD[:-2], "no checksum"),
        (GOOD[:-2] + b"??", "a wrong checksum"),
        (GOOD + b"\n", "a wrong checksum, or something behind it"),
        # an editor that treated the two bytes as text left this in a published file
        (GOOD[:-2] + b"  \n", "no checksum"),
        (GOOD[:-3], "no line end and no checksum behind its last page"),
        (GOOD.replace(b"\n", b"\r\n"), "Windows' line ends"),
        (GOOD.replace(b"version=1.01", b"version=1,01"), "version '1,01' is written 1.01"),
        (GOOD.replace(b"page_begin\n", b"\npage_begin\n", 1), "is empty"),
        (page_set(*EVERYTHING, fill=False), "5 pages, not 255"),
        (GOOD.replace(b"page_end\npage_begin", b"page_begin", 1), "page_begin within a page"),
        (GOOD.replace(b"0.504", b"0,504"), "a wrong checksum"),
        (GOOD.replace(b".", b","), "decimal commas: 1,5 is read as 1.5"),
        (GOOD.replace(b"motor_type=" + b"0 " * 25 + b"0\n", b""), "no line motor_type"),
    ],
)
def test_common_format_errors_give_a_warning_and_are_corrected_on_writing(data, message):
    file = parse_mtn(data)
    assert any(message in warning for warning in file.warnings), file.warnings
    assert file.data() == GOOD


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"type=motion", b"type=poetry", "is no RoboPlus motion"),
        (b"page_end", b"page_bend", "is no RoboPlus motion"),
        (b"version=1.01", b"version=2.00", "line 2: version '2.00' is not known"),
        (b"enable=0 1", b"enable=0 1 1", "line 3: 27 values, not 26"),
        (b"play_param=3 4 2 2.0 4", b"play_param=3 4 2 2.0", "line 14: play_param has 4 values"),
        (b"play_param=3 4 2 2.0 4", b"play_param=3 4 2 0 4", "line 14: 0 is no time"),
        (b"play_param=3 4 2 2.0 4", b"play_param=3 4 2 1E+999999999 4", "line 14: 1E+999999999 is no time or speed"),
        (b"step=512", b"step=1024", "line 9: 1024 is outside 0..1023"),
        (b"step=512", b"step=", "line 9: a step has 27 values"),
        (b"step=512", b"step=x", "line 9: invalid literal"),
        (b"step=512", b"step=5_12", "line 9: '5_12' is no number"),
        (b"0.104", b"soon", "line 15: 'soon' is no number"),
        (b"name=Stand", b"nome=Stand", "line 6: 'nome' is not known in a page"),
    ],
)
def test_invalid_lines_are_refused_with_their_number(old, new, message):
    with pytest.raises(MoveError) as caught:
        parse_mtn(GOOD.replace(old, new) if old == b"page_end" else GOOD.replace(old, new, 1), "a.mtn")
    assert message in str(caught.value)
    assert caught.value.hint


def test_invalid_pages_are_not_written():
    with pytest.raises(MoveError, match="page 1: 8 steps, and 7 are the most"):
        whole(long_page(8)).data()
    for wrong in (MtnPage(name="a\nb"), MtnPage(repeat=0), MtnPage(next=256)):
        with pytest.raises(MoveError, match="page 1: "):
            whole(wrong).data()


def poses(file, number, link):
    """Return the first positions of the steps from a page on, until the pages end or repeat."""
    positions, seen = [], []
    while number and number not in seen:
        seen.append(number)
        page = file.pages[number - 1]
        positions += [step.positions[0] for step in page.steps] * (page.repeat if link == "next" else 1)
        number = getattr(page, link)
    return positions


@pytest.mark.parametrize("count", [7, 8, 14, 15])
@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize(("after", "leave"), [(0, 0), (2, 3), (1, 3), (0, 1)])
def test_a_long_page_is_split_over_free_pages_and_keeps_its_end(count, repeat, after, leave):
    """ROBOTIS' own walks link their halves in this way: the exit page of an unfinished page is its next half."""
    long = long_page(count, name="Long", next=after, exit=leave, repeat=repeat, speed=Decimal("2.7"), inertia=5)
    file = whole(long, long_page(2), long_page(3))
    split, notes = in_sevens(file)
    assert parse_mtn(split.data()) == split
    assert split.pages[1:3] == file.pages[1:3]
    for link in ("next", "exit"):
        assert poses(split, 1, link) == poses(file, 1, link)
    used = [page for page in split.pages if page.steps]
    assert {(page.speed, page.inertia) for page in used[:1] + used[3:]} == {(Decimal("2.7"), 5)}
    assert [page.name for page in used if page.name] == ["Long"]
    assert bool(notes) == (count > 7)


def test_linked_and_named_pages_are_not_free_and_too_few_free_pages_are_refused():
    """Single pages that are cut out of a file still have the links to its other pages."""
    file = whole(long_page(8, next=2, exit=4), MtnPage(), MtnPage(name="Later"), MtnPage())
    split, notes = in_sevens(file)
    assert notes == ["page 1 has 8 steps, and 7 are the most: it continues on 5"]
    assert [(page.next, page.exit) for page in (split.pages[0], split.pages[4])] == [(5, 5), (2, 4)]
    assert split.pages[1:4] == file.pages[1:4]
    with pytest.raises(UsageError, match="page 1 has 15 steps, 100 times: too many for the free pages of 7"):
        in_sevens(whole(long_page(15, repeat=100)))


# ---- conversion to moves


def test_a_file_becomes_a_move_and_the_same_bytes_again(tmp_path):
    (tmp_path / "a.mtn").write_bytes(GOOD)
    move, notes = load_move(tmp_path / "a.mtn", BIOLOID)
    assert notes == []
    move.save(tmp_path / "a.json")
    assert save_move(Move.load(tmp_path / "a.json"), tmp_path / "b.mtn", BIOLOID) == []
    assert (tmp_path / "b.mtn").read_bytes() == GOOD


def test_counts_levels_and_links_are_converted():
    move, _ = move_of(parse_mtn(GOOD), joints_of(BIOLOID))
    assert list(move.pages) == ["1", "2", "3", "4", "5"]
    wave = move.pages["2"]
    values = wave.name, wave.next, wave.exit, wave.repeat, wave.rate, wave.inertia
    assert values == ("Wave: Größe", "3", "4", 2, 2.0, 4)
    count = 5.2359877 / 1023  # 300 degrees
    assert wave.keys[0].positions["left_shoulder_swing"] == pytest.approx((819 - 600) * count)  # direction = -1
    assert move.pages["1"].keys[0].positions["right_shoulder_swing"] == pytest.approx((500 - 205) * count)
    assert (wave.slope["left_shoulder_swing"], wave.slope["left_elbow"], wave.slope["left_knee"]) == (64, 1, 32)
    assert (wave.interpolation, wave.ramp) == ("ramps", 4 / 128)
    assert move.start == "1"


def test_ids_without_a_joint_are_left_out_with_a_note():
    move, notes = move_of(parse_mtn(page_set(*EVERYTHING, ids=[1, 2, 20])), ARM)
    assert move.joints == ("a", "b")
    assert notes == ["id 20 is on in the file and has no joint: left out"]
    with pytest.raises(UsageError, match="no servo of the file has a joint"):
        move_of(parse_mtn(page_set(*EVERYTHING, ids=[20])), ARM)
    with pytest.raises(UsageError, match="no page of the file has steps"):
        move_of(parse_mtn(page_set()), ARM)


def samples(*angles, period=0.02, **page):
    keys = tuple(Key(positions={"a": angle}, time=period if n else 0.0) for n, angle in enumerate(angles))
    return Move(pages={"1": Page(**{"keys": keys, "interpolation": "linear", **page})})


def posed(*joints):
    return Page(keys=(Key(positions=dict.fromkeys(joints, 0.0), time=1.0),))


def test_dense_samples_become_few_steps_within_a_count():
    file, notes = mtn_of(samples(*(0.8 * min(n, 400 - n) / 200 for n in range(401))), ARM)
    assert "401 samples became 4 steps" in notes[0]
    assert file.pages[0].steps[0].play == 1
    assert any("would be a jump" in note for note in notes)
    assert mtn_of(samples(0.1, 0.2, period=0.5), ARM)[1][0].endswith("become ramps")
    wavy = samples(*(0.5 * math.sin(math.tau * n / 80) * (n / 400) for n in range(401)))
    file, notes = mtn_of(wavy, ARM)
    used = [page for page in file.pages if page.steps]
    assert [page.next for page in used] == [*range(2, len(used) + 1), 0]
    assert all(len(page.steps) <= 7 for page in used)
    assert all(step.play % Decimal("0.008") == 0 for page in used for step in page.steps[1:])
    back = move_of(file, ARM)[0].single.model_copy(update={"interpolation": "linear"})
    path, original = tracks(back)["a"], tracks(wavy.pages["1"])["a"]
    lead = path.times[0]  # time to the first pose
    worst = max(abs(path.at(lead + n * 0.02) - original.at(n * 0.02)) for n in range(401))
    assert worst < 2.5 * 0.00512  # a count of thinning, half of rounding, and times on a grid


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (samples(0.0, 4.0), "a at 4.00 rad is beyond its servo"),
        (Move(pages={"1": posed("a", "b"), "2": posed("b")}), "page '2' does not say where a"),
        (samples(*(n % 2 for n in range(1800)), period=1.0, interpolation="ramps"), "1800 steps: too many"),
    ],
)
def test_moves_that_a_page_set_cannot_store_are_refused(move, message):
    with pytest.raises(UsageError, match=message):
        mtn_of(move, ARM)


def test_pages_get_numbers_and_joints_get_counts():
    key = Key(positions={"a": 0.1, "b": 0.1, "c": 0.0}, time=0.5)
    move = Move(start="hello", pages={"hello": Page(keys=(key,), next="2"), "2": Page(keys=(key,))})
    file, _ = mtn_of(move, ARM)
    assert file.pages[0].next == 2
    assert file.pages[0].steps[0].positions[1:4] == (532, 492, 300)
    assert file.enable[:5] == (0, 1, 1, 1, 0)
    file, _ = mtn_of(samples(0.0, 0.5, period=4e-4, interpolation="ramps"), ARM)
    assert file.pages[0].steps[1].play == Decimal("0.008")  # 0.000 would be a jump


def test_servos_with_the_same_id_on_two_buses_do_not_fit_a_page_set(tmp_path):
    servos = [{"name": name, "joint": name, "id": 1, "bus": name} for name in ("left", "right")]
    buses = [{"name": "left"}, {"name": "right", "port": "b"}]
    rig = Rig.model_validate({"name": "pair", "bus": buses, "servo": servos})
    move = Move(pages={"1": Page(keys=(Key(positions={"left": 0.1, "right": 0.2}, time=1.0),))})
    assert save_move(move, tmp_path / "a.json", rig) == []
    assert load_move(tmp_path / "a.json", rig) == (move, [])
    with pytest.raises(UsageError, match="left and right of rig pair have the same id 1"):
        save_move(move, tmp_path / "a.mtn", rig)


# ---- Webots

WAVE = ["#WEBOTS_MOTION,V1.0,Shoulder,Elbow", "00:00:000,Rest,0,1", "100,Up,1,*", "00:200,Down,0,2"]


def test_positions_change_linearly_between_a_motors_poses_and_are_constant_outside():
    page = parse_motion([*WAVE, "00:00:300,End,*,*"]).pages["1"]
    assert page.duration == pytest.approx(0.3)
    paths = tracks(page)
    for time, shoulder, elbow in ((0.05, 0.5, 1.25), (-1.0, 0.0, 1.0), (0.9, 0.0, 2.0)):
        assert (paths["Shoulder"].at(time), paths["Elbow"].at(time)) == pytest.approx((shoulder, elbow))
    late = tracks(parse_motion(["#WEBOTS_MOTION,V1.0,A,B", "00:01:000,P,*,3"]).pages["1"])
    assert {motor: path.at(0.0) for motor, path in late.items()} == {"B": 3}  # a motor without a pose does not move


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no Webots motion"),
        (["#WEBOTS_MOTION,V1.0,A"], "has no poses"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:000,P,1,2"], "line 2: 2 positions for 1 motor"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:000,P,x"], "line 2: could not convert"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:000,P,0_3"], "line 2: '0_3' is no number"),
        (["#WEBOTS_MOTION,V1.0,A,A", "00:00:000,P,1,2"], "line 1: a motor without a name, or one twice"),
        (["#WEBOTS_MOTION,V1.0,A,", "00:00:000,P,1,"], "line 1: a motor without a name"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:000,P,nan"], "line 2: positions must be between -10000 and 10000"),
        (["#WEBOTS_MOTION,V1.0,A", "99999999:00:000,P,1"], r"line 2: a motion of more than 1e\+06 s"),
        (["#WEBOTS_MOTION,V1.0,A", "9" * 5000 + ":00:000,P,1"], "line 2: "),
        (["#WEBOTS_MOTION,V1.0,A\x1b[31m", "00:00:000,P,1"], "has control characters"),
        (["#WEBOTS_MOTION,V1.0,A", "0.5,P,1"], "line 2: time '0.5' is not mm:ss:ms"),
        (["#WEBOTS_MOTION,V1.0,A", "00:00:100,P,1", "00:00:100,Q,1"], "line 3: time 00:00:100 is not later"),
    ],
)
def test_an_error_names_its_line(lines, message):
    with pytest.raises(RecordingError, match=message):
        parse_motion(lines, "wave.motion")


def test_a_webots_motion_becomes_a_move_and_the_same_motion_again(tmp_path):
    text = "#WEBOTS_MOTION,V1.0,a,b\n00:00:100,Up,0.5,*\n00:01:000,Down,-0.25,1\n01:01:020,End,*,0\n"
    (tmp_path / "a.motion").write_text(text, encoding="utf-8-sig")  # as Excel writes CSV
    move, _ = load_move(tmp_path / "a.motion")
    assert [key.time for key in move.pages["1"].keys] == pytest.approx([0.1, 0.9, 60.02])
    save_move(move, tmp_path / "b.motion")
    assert (tmp_path / "b.motion").read_text() == text
    assert motion_text(parse_motion(WAVE)).splitlines()[2] == "00:00:100,Up,1,1.5"  # the Elbow is moving


def test_a_motion_may_use_the_rigs_webots_aliases(tmp_path):
    rig = Rig.load("pan_tilt").overridden({"webots": {"aliases": {"NeckMotor": "pan", "NeckSensor": "pan_sensor"}}})
    (tmp_path / "a.motion").write_text("#WEBOTS_MOTION,V1.0,NeckMotor,tilt\n00:00:100,Up,0.5,0.1\n")
    move, _ = load_move(tmp_path / "a.motion", rig)
    assert move.joints == ("pan", "tilt")


def test_a_curved_trajectory_becomes_dense_rows_and_a_pause_two_rows():
    keys = (Key(positions={"a": 0.0}, time=0.0), Key(positions={"a": 1.0}, time=1.0, pause=0.5))
    move = Move(pages={"1": Page(keys=keys)})
    again = parse_motion(motion_text(move).splitlines())
    assert again.duration == pytest.approx(1.5)
    rows, path = tracks(again.pages["1"])["a"], tracks(move.pages["1"])["a"]
    assert rows.at(1.2) == 1.0
    assert max(abs(rows.at(ms / 1000) - path.at(ms / 1000)) for ms in range(1500)) < 0.001


def test_names_with_commas_do_not_fit_into_a_motion(tmp_path):
    move = Move(pages={"1": Page(keys=(Key(positions={"a,b": 0.0}, time=0.0),))})
    with pytest.raises(UsageError, match="does not fit"):
        save_move(move, tmp_path / "a.motion")
    assert not (tmp_path / "a.motion").exists()
