"""The verbs of moves: play, teach, move; in simulation, and on a served bus with scripted motions or Ctrl-C."""

import json
import math
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from axbridge import Move
from axbridge.cli import app
from axbridge.motion.moves import Key, Page
from axbridge.recording.stored import open_recording
from tests.support.hand import HIGH, LEFT, UP, Typist, led
from tests.support.page_set import EVERYTHING, page_set
from tests.support.waiting import until
from tests.support.warm import start

pytestmark = pytest.mark.slow

REAL = "--backend", "real", "--port"
COUNT = math.radians(300 / 1023)


def nod(**page):
    keys = (Key(positions={"pan": 0.5, "tilt": 0.2}, time=0.4), Key(positions={"pan": 0.0, "tilt": 0.0}, time=0.4))
    return Move(pages={"1": Page(**{"keys": keys, **page})})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "nod.json"
    nod().save(path)
    return path


def test_play_records_goals_and_samples_and_prints_json(file, tmp_path, said):
    out = tmp_path / "nod.mcap"
    assert said("play", file, "--rig", "pan_tilt", "--pace", "0.5", "--record", out).startswith("played: 0.8")
    recording = open_recording(out)
    assert recording.complete
    assert [segment.name for segment in recording.segments] == ["play nod.json"]
    track = recording["pan"]
    assert track.command.max() == pytest.approx(0.5)
    assert track.position.max() == pytest.approx(0.5, abs=0.02)
    assert recording.metadata["pace"] == 0.5
    played = json.loads(said("play", file, "--rig", "pan_tilt", "--json"))
    assert (played["format"], played["stopped"], played["recording"]) == ("axbridge-play-1", False, None)
    assert played["seconds"] == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize(("exit_page", "ends"), [(None, "stopped: "), ("2", "stopped, by page 2: ")])
def test_ctrl_c_plays_the_exit_page_and_leaves_the_motors_off(tmp_path, exit_page, ends):
    path = tmp_path / "nod.json"
    pages = {"1": nod(speed={"pan": 2.0}).pages["1"].model_copy(update={"next": "1", "exit": exit_page})}
    pages["2"] = Page(keys=(Key(positions={"pan": -0.4, "tilt": 0.0}, time=0.4),))
    Move(pages=pages).save(path)
    with led("pan_tilt") as (port, tell), start("play", path, "pan_tilt", *REAL, port) as player:
        until(lambda: tell("register goal_position")[0] > 600)  # to the first key
        until(lambda: tell("register goal_position")[0] < 560)  # and on its way to the second
        player.send_signal(signal.SIGINT)
        out, err = player.communicate(timeout=30)
        assert tell("register torque_enable") == [0, 0]
    assert player.returncode == app.DONE, err
    assert out.startswith(ends)
    assert "note: the move never ends, because page '1' comes again: Ctrl-C ends it\n" in err


@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)], ids=["two Ctrl-C", "SIGTERM"])
def test_a_second_ctrl_c_or_sigterm_does_not_wait_and_says_that_nothing_was_recorded(tmp_path, numbers):
    path = tmp_path / "slow.json"
    keys = tuple(Key(positions={"pan": 0.2 * n}, time=0.0) for n in (0, 1))
    Move(pages={"1": Page(keys=keys, speed={"pan": 0.02}, exit="1")}).save(path)
    with led("pan_tilt") as (port, tell), start("play", path, "pan_tilt", *REAL, port) as player:
        assert player.stderr.readline().startswith("note: takes")
        until(lambda: tell("register goal_position")[0] > 512)
        for number in numbers:
            assert player.poll() is None
            player.send_signal(number)
            time.sleep(0.5)
        _, err = player.communicate(timeout=30)
        assert (player.returncode, err) == (128 + number, "stopped: motors are off; nothing was recorded\n")


def begin_teaching(port, *options):
    teacher = Typist("teach", "--port", port, *options)
    for _ in range(2):
        teacher.process.stderr.readline()
    teacher.press(" ")
    assert "recording" in teacher.process.stderr.readline()
    return teacher


@pytest.mark.ci
def test_an_arm_of_x_servos_that_carries_itself_is_taught_and_repeats_it(tmp_path, said):
    path, record, taught = tmp_path / "taught.json", tmp_path / "played.mcap", {"shoulder_pan": 0, "elbow_flex": 2}
    with led("koch", "none", "own") as (port, tell):
        tell("all 0")
        with begin_teaching(port, "--rig", "koch", "--joints", ",".join(taught), "--out", path) as teacher:
            for angle in np.linspace(0.0, 0.6, 41):
                for row in taught.values():
                    tell(f"{row} {angle}")
                tell("seen")
            teacher.press("  ")
            code, out, err = teacher.end()
        assert code == 0, err
        assert f"wrote {path}: " in out
        assert tell("register torque_enable") == [0] * 6
        last = Move.load(path).pages["1"].keys[-1].positions
        assert last == pytest.approx(dict.fromkeys(taught, 0.6), abs=0.02)
        tell("all 0")
        said("play", path, "koch", "--record", record, *REAL, port)
        assert tell("register torque_enable") == [0] * 6
    played = open_recording(record)
    assert played["shoulder_pan"].position[-1] == pytest.approx(0.6, abs=0.05)
    assert played["elbow_flex"].position[-1] == pytest.approx(0.6, abs=0.25)  # its loop has no integral
    assert np.ptp(played["elbow_flex"].position) > 0.4


def test_convert_keeps_a_page_set_and_makes_its_checksum_right_and_info_lists_its_pages(tmp_path, said):
    good, bad, made = page_set(*EVERYTHING), tmp_path / "a.mtn", tmp_path / "b.mtn"
    bad.write_bytes(good[:-2])
    assert "note: no checksum" in said("move", "convert", bad, made)
    assert made.read_bytes() == good
    pages = said("move", "info", made, "--rig", "bioloid")
    assert "page 2 'Wave: Größe': 2 poses, 0.556 s x 2, next 3, exit 4\n" in pages
    assert json.loads(said("move", "info", made, "--rig", "bioloid", "--json"))["pages"]["2"]["exit"] == "4"


def test_optimise_writes_a_move_that_takes_less_and_can_be_played(tmp_path, said):
    path, out = tmp_path / "swing.json", tmp_path / "less.json"
    Move(pages={"1": Page(keys=tuple(Key(positions={"shoulder": at}, time=1.0) for at in (0.0, 1.5)))}).save(path)
    optimise = ("move", "optimise", path)
    document = json.loads(said(*optimise, out, "--rig", "bench_arm", "--json"))
    assert document["energy"] < 0.95 * document["minimum_jerk"]
    assert document["seconds"] == 1.0
    assert "takes" not in said("play", out, "--rig", "bench_arm")  # no joint has to be spared
    assert "--force" in said(*optimise, out, "--rig", "bench_arm", code=app.MISUSE)
    assert "is no .json file" in said(*optimise, "less.mtn", "--rig", "bench_arm", code=app.MISUSE)
    assert said(*optimise, out, "--rig", "bench_arm", "--force").splitlines()[-1] == f"wrote {out}"


# ---- tests with a served bus come last, because it uses 5 % of a core while it runs


@pytest.fixture
def hand():
    with led("pan_tilt") as (port, tell):
        yield port, tell


def lead(tell):
    """Move the limp joints, and wait until the motion has ended."""
    start = tell("register present_position")[0]

    def turned():
        return abs(tell("register present_position")[0] - start) * COUNT

    tell()
    until(lambda: turned() > (HIGH + LEFT) / 2)
    until(lambda: abs(turned() - LEFT) < 2 * COUNT)
    tell("seen")


@pytest.mark.parametrize("kind", ["json", pytest.param("mtn", marks=pytest.mark.ci)])
def test_a_hand_teaches_between_two_keys_and_the_arm_repeats_it(hand, tmp_path, said, kind):
    port, tell = hand
    path = tmp_path / f"taught.{kind}"
    as_json = kind == "mtn"
    words = ("--rig", "pan_tilt", "--joints", "pan", "--out", path, *["--json"] * as_json)
    with begin_teaching(port, *words) as teacher:
        lead(tell)
        teacher.press("  ")
        code, out, err = teacher.end()
    assert code == 0, err
    if as_json:
        document = json.loads(out)
        assert (document["format"], document["out"], document["clipped"]) == ("axbridge-teach-1", str(path), {})
        assert document["poses"] > 1
    else:
        assert f"wrote {path}: " in out
        assert "smoothed  by " in out
    assert tell("register torque_enable") == [0, 0]
    played = said("play", path, "pan_tilt", *REAL, port)
    assert float(played.split("start")[1].split("°")[0]) < 2.0


def test_a_taught_motion_that_its_kind_of_file_cannot_hold_is_kept_as_json(tmp_path):
    shutil.copytree(Path(__file__).parents[2] / "hil_rigs" / "pan_tilt", tmp_path / "pan_tilt")
    rig = tmp_path / "pan_tilt" / "pan_tilt.toml"
    rig.write_text(re.sub(r"(?m)^id = 1$", "id = 30", rig.read_text()))  # a .mtn file has ids up to 25
    (tmp_path / "taught.json").write_text("an earlier move")
    with led(rig) as (port, tell):
        with begin_teaching(port, "--rig", rig, "--joints", "pan", "--out", tmp_path / "taught.mtn") as teacher:
            lead(tell)
            teacher.press("  ")
            code, _, err = teacher.end()
        assert tell("register torque_enable") == [0, 0]
    assert code == 2
    assert f"the move is whole in {tmp_path / 'taught-2.json'}" in err
    assert Move.load(tmp_path / "taught-2.json").joints == ("pan",)
    assert (tmp_path / "taught.json").read_text() == "an earlier move"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_teach_saves_the_motion_so_far(hand, tmp_path, number):
    port, tell = hand
    path = tmp_path / "cut.json"
    with begin_teaching(port, "--rig", "pan_tilt", "--joints", "pan", "--out", path) as teacher:
        start = time.monotonic()
        lead(tell)
        teacher.process.send_signal(number)
        code, out, err = teacher.end()
        took = time.monotonic() - start
    assert code == 128 + number, err
    assert err == f"stopped: motors are off; {path} is whole\n"
    assert f"wrote {path}: " in out
    assert UP < Move.load(path).duration < took
    assert tell("register torque_enable") == [0, 0]


def heard(teacher, words):
    line = next((line for line in teacher.stderr if words in line), "")
    assert line, f"it ended without {words!r}"


@contextmanager
def teaching_on_a_terminal(port, *options):
    """Teach with the keys of a terminal to the end; yield the program, and what strikes keys."""
    controller, terminal = pty.openpty()
    with start("teach", "--rig", "pan_tilt", "--port", port, *options, stdin=terminal) as teacher:
        yield teacher, partial(os.write, controller)
        assert teacher.wait(30) == 0, teacher.stderr.read()
    os.close(controller)
    os.close(terminal)


@pytest.mark.parametrize(("struck", "poses"), [(b"\np", 2), (b"\x1b[A", 1)], ids=["two", "arrow"])
def test_on_a_terminal_each_key_takes_a_pose_and_one_more_lets_go(hand, tmp_path, struck, poses):
    path = tmp_path / "poses.json"
    with teaching_on_a_terminal(hand[0], "--keyframes", "--out", path) as (teacher, strike):
        heard(teacher, "q ends")
        strike(struck)
        heard(teacher, "pose 1")
        strike(b"q")
        heard(teacher, "press a key")
        assert teacher.poll() is None
        strike(b" ")
    keys = Move.load(path).pages["1"].keys
    assert [key.time for key in keys] == [1.0] * poses
    assert set(keys[0].positions) == {"pan", "tilt"}


@pytest.mark.parametrize("struck", [b"\x1b[A", "ü".encode(), b"  "], ids=["arrow", "umlaut", "twice"])
def test_on_a_terminal_no_byte_of_the_key_that_ends_lets_the_arm_go(hand, tmp_path, struck):
    port, tell = hand
    with teaching_on_a_terminal(port, "--out", tmp_path / "taught.json") as (teacher, strike):
        heard(teacher, "press a key")
        strike(struck.strip() or b" ")
        heard(teacher, "recording")
        lead(tell)
        strike(struck)
        heard(teacher, "press a key")
        with pytest.raises(subprocess.TimeoutExpired):
            teacher.wait(0.3)
        assert tell("register torque_enable") == [1, 1]
        strike(b"\x1bOP")
    assert tell("register torque_enable") == [0, 0]


def test_keyframes_end_with_the_poses_so_far_when_a_servo_is_lost(hand, tmp_path):
    port, tell = hand
    path = tmp_path / "poses.json"
    with Typist("teach", "--rig", "pan_tilt", "--port", port, "--keyframes", "--out", path) as teacher:
        heard(teacher.process, "q ends")
        teacher.press(" ")
        heard(teacher.process, "pose 1")
        tell("dead:2")
        heard(teacher.process, "servo 'tilt': missing")
        code, out, _ = teacher.end()
        tell("none")
    assert code == app.HARDWARE
    assert f"wrote {path}: 1 pose, " in out
    assert len(Move.load(path).pages["1"].keys) == 1
