"""Playing a move: gentle start, limits, pages with repeats and exits, and its end."""

import math

import numpy as np
import pytest

import axbridge
from axbridge import ControlWarning, Move, RobotStopped, UsageError
from axbridge.config.toml_tables import shipped
from axbridge.motion.files import load_move
from axbridge.motion.moves import Key, Page
from axbridge.motion.player import play
from axbridge.rotations import roll_pitch_yaw
from tests.support.page_set import WALK_READY, page, page_set, step
from tests.support.waiting import run

pytestmark = pytest.mark.slow


def key(pan, time, pause=0.0, **more):
    return Key(positions={"pan": pan, **more}, time=time, pause=pause)


def move(*keys, **page):
    return Move(pages={"1": Page(**{"keys": keys, **page})})


NOD = move(key(0.8, 0.5, tilt=0.2), key(-0.4, 0.6, 0.2, tilt=-0.2), key(0.0, 0.5, tilt=0.0))


@pytest.fixture
def robot():
    with axbridge.open("pan_tilt") as robot:
        yield robot


@pytest.fixture
def goals(robot):
    """The goals of the servos in each step."""
    rows = []
    robot.observe(lambda report, states: rows.append([servo.target_position for servo in robot.values()]))
    return rows


def speeds(goals):
    return np.abs(np.diff(np.array(goals), axis=0)) / 0.02  # rad/s


def peaks(goals, least):
    """Return how often pan had a peak of at least this height."""
    pan = np.array(goals)[:, 0]
    return np.count_nonzero((pan[1:-1] > least) & (pan[1:-1] >= pan[2:]) & (pan[1:-1] > pan[:-2]))


@pytest.mark.parametrize("law", ["linear", "minimum-jerk"])
def test_a_move_is_played_pose_by_pose(robot, goals, law):
    page = NOD.pages["1"].model_copy(update={"interpolation": law})
    played = play(robot, Move(pages={"1": page}))
    assert played.seconds == pytest.approx(1.3, abs=0.05)
    assert played.asked == pytest.approx(1.3)
    assert played.start_error < math.radians(2)
    assert (played.stopped, played.exit) == (False, None)
    assert robot.positions == pytest.approx([0.0, 0.0], abs=0.02)
    assert robot["pan"].torque_enabled
    for pose in ([0.8, 0.2], [-0.4, -0.2]):
        assert np.abs(np.array(goals) - pose).max(axis=1).min() < 0.01


def test_no_step_exceeds_the_speed_limits_and_a_note_names_the_joint(robot, goals):
    words = r"takes .* s instead of .* s: pan needs 18.8 rad/s, and has"
    with pytest.warns(ControlWarning, match=words) as warned:
        played = play(robot, move(key(1.0, 0.5), key(-1.0, 0.2, tilt=0.1), key(1.0, 2.0, tilt=0.0)))
    assert {warning.filename for warning in warned} == {__file__}
    assert speeds(goals).max() <= robot["pan"].max_velocity * (1 + 1e-6)
    assert played.asked == pytest.approx(2.2)
    assert played.seconds == pytest.approx(2.2 - 0.2 + 2 * 1.875 / robot["pan"].max_velocity, abs=0.05)
    goals.clear()
    play(robot, move(key(1.0, 0.5), key(-1.0, 0.2), key(1.0, 2.0), speed={"pan": 3.0}), note=lambda _: None)
    assert 2.9 < speeds(goals).max() <= 3.0 + 1e-6  # the limit of the move


def test_a_play_starts_from_the_present_pose_without_a_jump(robot, goals):
    robot.goto({"pan": -1.5}, 1.0)
    goals.clear()
    play(robot, move(key(1.5, 0.0), key(1.4, 0.5)))
    assert speeds(goals)[1:].max() <= 1.5 + 1e-6
    assert abs(goals[0][0] + 1.5) < 0.05


def test_a_loaded_joint_does_not_sink_when_a_move_begins():
    with axbridge.open("bench_arm", world={"gravity": [0, 0, -40.0]}) as robot:
        robot.goto({"shoulder": 1.2}, 1.0)
        hanging = robot["shoulder"].position
        assert hanging < 1.2 - 0.01  # rad: the joint yields to the load
        seen = []
        robot.observe(lambda *_: seen.append(robot["shoulder"].position))
        play(robot, Move(pages={"1": Page(keys=(Key(positions={"shoulder": 1.2}, time=1.0),))}))
        assert min(seen) > hanging - 0.006


def test_only_some_joints_move_and_the_others_hold(robot):
    robot.goto({"tilt": 0.5}, 0.5)
    assert play(robot, NOD, joints=["pan"], pace=1.25).seconds == pytest.approx(1.04, abs=0.05)
    assert robot["tilt"].position == pytest.approx(0.5, abs=0.02)
    assert robot["tilt"].torque_enabled


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (move(key(2.5, 1.0)), {}, r"page 1, pose 1: pan at 2.50 rad, 28.6° beyond its limits -2.00..2.00"),
        (move(key(30.0, 1.0)), {}, r"its limits -2.00..2.00 \(radians\? 30° is 0.5236\)"),
        (NOD, {"pace": math.nan}, "a pace of nan"),
        (NOD, {"pace": "fast"}, "a pace must be a number, not 'fast'"),
    ],
)
def test_impossible_moves_are_refused_before_any_motion(robot, made, options, message):
    with pytest.raises(UsageError, match=message):
        play(robot, made, **options)
    assert robot.time == 0
    assert not robot["pan"].torque_enabled


def test_a_pose_a_few_counts_beyond_a_limit_is_clipped_with_one_note(robot, goals):
    notes = []
    play(robot, move(key(2.04, 0.5), key(2.03, 0.5), key(0.0, 1.0, tilt=0.0)), note=notes.append)
    assert notes == ["page 1, pose 1: pan at 2.04 rad, 2.3° beyond its limits -2.00..2.00: it stops at the limit"]
    assert np.array(goals)[:, 0].max() == pytest.approx(2.0)


def test_slopes_and_torque_limits_of_a_page_are_restored_afterwards(robot):
    pages = {
        "1": Page(keys=(key(0.2, 0.2),), slope={"pan": 128}, torque={"pan": 0.5}, next="2"),
        "2": Page(keys=(key(0.0, 0.2),), slope={"pan": 16}),
    }
    seen = []
    robot.observe(lambda *_: seen.append((robot["pan"].read("cw_compliance_slope"), robot["pan"].available_torque)))
    play(robot, Move(pages=pages))
    assert list(dict.fromkeys(slope for slope, _ in seen)) == [128, 16]
    assert seen[0][1] == 0.5
    assert robot["pan"].read("ccw_compliance_slope") == 32
    assert robot["pan"].available_torque == robot["pan"].max_torque


ROUND = Move(
    pages={
        "1": Page(keys=(key(0.4, 0.3),), next="2", exit="9"),
        "2": Page(keys=(key(0.8, 0.3), key(0.4, 0.3)), repeat=2, next="1", exit="9"),
        "9": Page(keys=(key(-0.5, 0.5),), next="1"),
    }
)


def test_a_stop_plays_the_page_to_its_end_and_then_its_exit(robot, goals):
    stops = []

    def stop():
        if robot.time > 3.0:
            stops.append(len(goals))
        return bool(stops)

    played = play(robot, ROUND, stop=stop)
    assert (played.stopped, played.exit) == (True, "9")
    assert robot["pan"].position == pytest.approx(-0.5, abs=0.02)
    after = np.array(goals)[stops[0] :, 0]
    assert after.max() >= 0.4 - 1e-9  # the present round ended at its last pose
    assert robot.time < 3.0 + 0.6 + 0.5 + 0.6


def test_an_exit_page_leads_to_its_own_exit_page_and_each_is_played_once(robot, goals):
    """In ROBOTIS' walks a step's second half is the exit of its first: without it, the robot would end on one foot."""
    pages = {
        "1": Page(keys=(key(0.4, 0.3), key(0.0, 0.3)), next="1", exit="2"),
        "2": Page(keys=(key(0.8, 0.3), key(0.0, 0.3)), repeat=2, next="1", exit="3"),
        "3": Page(keys=(key(-0.5, 0.5),), next="1", exit="2"),
    }
    played = play(robot, Move(pages=pages), stop=lambda: robot.time > 2.0)
    assert (played.stopped, played.exit) == (True, "3")
    assert robot["pan"].position == pytest.approx(-0.5, abs=0.02)
    assert peaks(goals, 0.75) == 1


def test_a_loop_starts_again_until_a_stop_which_without_an_exit_acts_at_once(robot, goals):
    pages = {"1": NOD.pages["1"].model_copy(update={"next": "1"})}
    played = play(robot, Move(pages=pages), stop=lambda: robot.time > 6.0)
    assert peaks(goals, 0.79) >= 3
    assert (played.stopped, played.exit) == (True, None)
    assert robot.time == pytest.approx(6.02, abs=0.03)
    assert robot["pan"].torque_enabled


def test_the_reported_time_includes_delays_of_late_steps():
    with axbridge.open("pan_tilt", robot={"basic_time_step_ms": 1.0}) as robot:
        assert play(robot, NOD).seconds > 1.2 * 1.3  # the bus cycle is longer than the time step


def test_a_loop_of_pages_without_poses_ends_the_move(robot):
    pages = {"1": NOD.pages["1"].model_copy(update={"next": "2"}), "2": Page(next="3"), "3": Page(next="2")}
    assert not play(robot, Move(pages=pages)).stopped


@pytest.mark.parametrize("stop", [lambda _: True, lambda robot: robot.stop() and False])
def test_a_stopped_move_restores_torque_limits_without_a_jump(stop):
    with axbridge.open("bench_arm") as robot:
        weak = move(*(Key(positions={"shoulder": 1.4}, time=1.0),) * 2, torque={"shoulder": 0.08})
        try:
            play(robot, weak, stop=lambda: robot.time > 1.0 and stop(robot))
        except RobotStopped:
            robot.resume()
        servo = robot["shoulder"]
        assert servo.available_torque == servo.max_torque
        before = servo.position
        run(robot, 0.5)
        assert before < 0.5 > servo.position


@pytest.mark.parametrize(
    ("engine", "model"),
    [
        *(("bullet", "ax12"), ("mujoco", "lima2009")),
        *(pytest.param(*other, marks=pytest.mark.ci) for other in (("bullet", "lima2009"), ("mujoco", "ax12"))),
    ],
)
def test_robotis_walk_ready_stands_and_leans_as_it_does_on_the_real_robot(tmp_path, engine, model):
    """Before, the robot was released upright, 5 cm above the floor: on stiff servos it fell forwards."""
    counts = {f"id{number}": count for number, count in enumerate(WALK_READY, 1)}
    (tmp_path / "ready.mtn").write_bytes(page_set(page(step("0.0", "1.0", **counts), name="Walk Ready")))
    rig = axbridge.Rig.load("bioloid").with_engine(engine).with_model(model)
    loaded, _ = load_move(tmp_path / "ready.mtn", rig)
    with axbridge.open(rig) as robot:
        play(robot, loaded)
        heights = run(robot, 5.0, lambda: robot.simulation.base[0][2])
        _, turned = robot.simulation.base
    roll, pitch, _ = np.degrees(roll_pitch_yaw(turned))
    assert max(heights) - min(heights) < 2e-3  # m: the robot neither sinks nor falls
    assert abs(roll) < 0.5
    assert pitch == pytest.approx(10.0, abs=2.0)  # the servos yield: 11.1 to 11.6 by seed


def test_a_limp_simulated_bioloid_stands_while_only_its_arm_moves():
    raise_arm = Page(keys=(Key(positions={"left_shoulder_swing": 1.0}, time=0.5),))
    with axbridge.open("bioloid") as robot:
        play(robot, Move(pages={"1": raise_arm}))
        run(robot, 4.5)
        assert robot["left_shoulder_swing"].position == pytest.approx(1.0, abs=0.1)
    assert robot.simulation.base[0][2] > 0.26  # known after the end, too


@pytest.mark.parametrize(
    ("name", "lowest"),
    [("squat", 0.21), ("get_up_front", 0.05), pytest.param("get_up_back", 0.05, marks=pytest.mark.ci)],
)
def test_the_shipped_moves_end_on_standing_feet_without_warnings(name, lowest):
    rig = axbridge.Rig.load("bioloid").overridden({"world": {"engine": "mujoco", "self_collision": True}})
    heights = []
    with axbridge.open(rig) as robot:
        robot.observe(lambda _report, _states: heights.append(robot.simulation.base[0][2]))
        axbridge.play(robot, Move.load(shipped("examples") / f"{name}.json"))  # a warning is an error in tests
        run(robot, 0.5)
        (_, _, height), turned = robot.simulation.base
    assert min(heights) < lowest
    assert height > 0.25
    assert max(map(abs, roll_pitch_yaw(turned)[:2])) < 0.1
