"""A robot on the simulator: the paper's figures, time, limits, whole poses, torque on without a jump, real-time pace."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import axbridge
from axbridge import ControlWarning, ProfileError, UnknownServo, UnsupportedOperation, UsageError, minimum_jerk
from axbridge.errors import RobotStopped
from axbridge.robot.backend import _PacedClock
from tests.support.waiting import run, until

NO_LOAD = 9.6 / (0.006810 * 254)  # rad/s at the paper's supply: U / (Ks N)
ONE_COUNT = 0.111 * 2 * math.pi / 60  # rad/s


@pytest.fixture
def robot():
    with axbridge.open("bench_arm") as made:
        yield made


@pytest.fixture
def arm(robot):
    return robot["shoulder"]


@pytest.fixture
def pair():
    with axbridge.open("pan_tilt") as made:
        yield made


def step_to_quarter_turn(time_step_ms):
    """Return the paper's step: true angles (deg) by time, and the highest true speed (rad/s)."""
    curve, fastest = {}, 0.0
    with axbridge.open("bench_arm", backend="sim", world={"time_step_ms": time_step_ms}) as robot:
        arm = robot["shoulder"]
        arm.set_position(0.0)
        run(robot, 0.2)
        arm.set_position(math.pi / 2)
        while robot.time < 1.2:
            robot.step(5)
            fastest = max(fastest, abs(arm.velocity))
            curve[arm.state.time - 0.2] = math.degrees(arm.position)
    return curve, fastest


def test_end_and_rise_time_of_a_step_are_the_papers_with_every_physics_step():
    coarse, fast_coarse = step_to_quarter_turn(1000 / 240)
    fine, fast_fine = step_to_quarter_turn(1.0)
    ends = [list(curve.values())[-1] for curve in (coarse, fine)]
    assert ends[0] == pytest.approx(89.29, abs=0.3)  # one count is 0.293 degrees
    assert ends[0] == pytest.approx(ends[1], abs=0.1)
    rise = next(t for t, p in coarse.items() if p > 0.9 * 89.29) - next(t for t, p in coarse.items() if p > 0.1 * 89.29)
    assert rise == pytest.approx(0.24, abs=0.01)
    assert max(fast_coarse, fast_fine) <= NO_LOAD + ONE_COUNT


def test_time_is_counted_by_steps_and_samples_say_when_they_were_taken(robot):
    assert (robot.time, robot.mode, robot.backend, len(robot)) == (0.0, 0, "sim", 1)
    with ThreadPoolExecutor(4) as threads:  # one step after the other, in whichever thread
        assert sum(threads.map(robot.step, [20] * 200)) == 0.0
    assert robot.time == pytest.approx(4.0, abs=1e-12)
    sampled = robot.last_step.sampled["shoulder"]
    assert robot.time <= sampled < robot.time + 0.001  # one READ later on the wire
    assert (robot.last_step.requested, robot.last_step.errors) == (20, {})


def test_torque_comes_on_where_the_arm_is_and_a_limp_one_falls_and_gets_no_goals():
    servo = {"name": "a", "joint": "shoulder", "id": 1, "position": 0.4, "model": "lima2009"}
    with axbridge.open("bench_arm", servo=[servo]) as robot:
        arm = robot["a"]
        assert arm.position == pytest.approx(0.4, abs=0.006)
        arm.torque_on()
        assert abs(arm.read("goal_position") - arm.read("present_position")) <= 3  # it was falling
        start = arm.position
        run(robot, 0.5)
        assert arm.position == pytest.approx(start, abs=0.02)  # the arm's weight against K_theta, no more
        arm.torque_off()
        run(robot, 1.0)
        assert abs(arm.position) < 0.1
        assert arm.read("torque_enable") == 0


def test_targets_are_clipped_with_a_warning_and_impossible_ones_refused(arm):
    words = r"^servo 'shoulder' \(rad\): too big requested position: 3 > 2.6"
    with pytest.warns(ControlWarning, match=words) as caught:
        arm.set_position(3)
    assert [warning.filename for warning in caught] == [__file__]
    assert arm.target_position == arm.max_position
    with pytest.warns(ControlWarning, match="NaN"):
        arm.set_position(math.nan)
    assert arm.target_position == arm.max_position
    with pytest.warns(ControlWarning):
        arm.set_velocity(-1)
    assert arm.velocity_limit == arm.max_velocity


def test_registers_are_read_and_written_by_name_within_their_range(arm):
    arm.write("punch", 100)
    assert (arm.read("punch"), arm.read("model_number")) == (100, 12)
    with pytest.raises(UsageError, match="punch = 5000 is outside 0..1023"):
        arm.write("punch", 5000)
    with pytest.raises(UsageError, match="read-only"):
        arm.write("present_position", 1)
    for count in (1.5, "7", None):
        with pytest.raises(UsageError, match="no whole number"):
            arm.write("goal_position", count)
    for register in ("pnuch", 36):
        with pytest.raises(ProfileError, match="no such register"):
            arm.read(register)
        with pytest.raises(ProfileError, match="no such register"):
            arm.write(register, 1)


@pytest.mark.parametrize("degrees", [90, -45, 180, 3600])  # the last two are beyond the limits in degrees, too
def test_a_goal_in_degrees_is_refused_with_its_value_in_radians(robot, arm, degrees):
    arm.set_position(0.3)
    for command in (arm.set_position, lambda goal: arm.goto(goal, 1.0), lambda goal: robot.set_positions([goal])):
        with pytest.raises(UsageError, match=rf"radians\? {degrees}° is {math.radians(degrees):.4g}: give math"):
            command(degrees)
        assert arm.target_position == 0.3


def test_the_option_clip_clips_a_goal_in_degrees(arm):
    with pytest.warns(ControlWarning, match=r"too big requested position: 90 > 2\.\d+ \(radians\? 90° is 1.571\)"):
        arm.set_position(90, clip=True)
    arm.set_position(95, clip=True)  # a loop gets one notice
    assert arm.target_position == arm.max_position


def test_an_observer_gets_report_and_states_of_each_step_and_its_error_is_raised(robot, arm):
    seen = []
    leave = robot.observe(lambda report, states: seen.append((report, states["shoulder"].time)))
    robot.step(20)
    robot.exchange()
    assert [report.requested for report, _ in seen] == [20, 0]
    assert seen[-1] == (robot.last_step, arm.state.time)
    leave()
    leave()
    robot.step(20)
    assert len(seen) == 2
    robot.observe(lambda *_: seen.remove(None))
    with pytest.raises(ValueError, match="not in list"):
        robot.step(20)
    for call in (robot.observe, robot.simulation.inject, lambda it: robot.observe(print, closed=it)):
        with pytest.raises(UsageError, match="is a function, not 3|as text, not 3"):
            call(3)


def test_the_simulation_object_has_truth_base_and_shadow(robot, arm):
    simulation = robot.simulation
    assert simulation.base is None
    assert simulation.truth("shoulder").position == pytest.approx(arm.position, abs=0.01)
    with pytest.raises(UnsupportedOperation, match="bolted down"):
        simulation.place_base(((0, 0, 0), (0, 0, 0, 1)))
    assert simulation.shadow() == {}


def test_a_step_without_goals_reports_the_time_at_which_the_motor_was_switched_off(robot, arm):
    world = robot.simulation.world
    arm.torque_on()
    robot.step(20)
    before = world.now()
    arm.torque_off()
    confirmed = world.now()
    robot.step(20)
    switched, now = robot.last_step.commanded, world.now()
    robot.step(20)  # nothing goes out: then it says when it began
    start = now - robot.last_step.commanded
    assert before < start + switched < confirmed - 0.0005  # the servo's return delay


@pytest.mark.parametrize("quantity", ["position", "time"])
def test_a_program_cannot_change_the_samples_from_which_paths_start(pair, quantity):
    pair.step(20)
    with pytest.raises(ValueError, match="read-only"):
        pair.table.column(quantity)[:] = 9.0
    with pytest.raises(UsageError, match=f"no column '{quantity}s'\nthere are time, "):
        pair.table.column(f"{quantity}s")
    pair.positions[:] = 9.0  # a copy
    assert pair["pan"].position == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("again", ["step", "goto"])
def test_an_observer_cannot_step(pair, again):
    calls = {"step": pair.step, "goto": lambda: pair.goto({"pan": 0.1}, 0.1)}
    leave = pair.observe(lambda *_: calls[again]())
    with pytest.raises(UsageError, match="an observer of a step cannot step"):
        pair.step()
    leave()
    assert pair.step() == 0


def test_a_pose_is_reached_together_and_smoothly(pair):
    seen = []
    pair.observe(lambda report, states: seen.append((pair["pan"].target_position, pair["tilt"].target_position)))
    assert pair.goto({"pan": 1.0, "tilt": -0.5}, 0.8)
    assert pair.time == pytest.approx(0.8, abs=0.1)
    assert pair.positions == pytest.approx([1.0, -0.5], abs=0.02)
    pan, tilt = np.array(seen)[:40].T
    assert tilt == pytest.approx(-0.5 * pan, abs=1e-9)  # both follow the same profile
    most = 5.78 * 1.0 / 0.8**2  # rad/s²: 10/sqrt(3) of the distance over time²
    assert np.abs(np.diff(pan, n=2)).max() / 0.02**2 < most


def test_two_threads_move_different_servos_and_a_later_goto_replaces_an_earlier_one(pair):
    goals = []
    pair.observe(lambda *_: goals.append(pair["pan"].goals.position))
    with ThreadPoolExecutor(2) as pool:
        others = pool.submit(pair["pan"].goto, 1.0, 10.0), pool.submit(pair["tilt"].goto, -0.5, 1.0)
        until(lambda: pair.time > 0.4)
        assert pair["pan"].goto(-1.0, 1.0)
    assert [future.result() for future in others] == [False, True]
    assert np.nanmax(np.abs(np.diff(goals))) < 0.1  # rad: no leap from one's goal to the other's


def test_a_goto_goes_on_in_its_own_time_in_the_steps_of_another_thread(pair):
    seen = []
    pair.observe(lambda *_: seen.append((pair.time, pair["pan"].target_position)))
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(pair["pan"].goto, 1.0, 1.0)
        until(lambda: pair.step() or pair["pan"].target_position > 0 or moving.done())
        while not moving.done():
            pair.step()
    assert moving.result()
    moved = [(when, goal) for when, goal in seen if goal > 0]
    path = [minimum_jerk.eased(when - moved[0][0] + 0.02) for when, _ in moved]
    assert [goal for _, goal in moved] == pytest.approx(path, abs=1e-6)


def test_a_goto_that_cannot_go_on_raises_in_its_own_thread_only(pair):
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(pair["pan"].goto, 1.0, 1000.0)
        until(lambda: pair["pan"].target_position > 0)
        pair.stop()
        while not moving.done():
            assert pair.step() >= 0
    with pytest.raises(RobotStopped):
        moving.result()


def test_a_trajectory_that_is_too_fast_for_the_servo_takes_longer_with_a_warning(pair):
    words = r"^servo 'pan': 0.1 s are too short for its speed: it takes 0.61 s"
    with pytest.warns(ControlWarning, match=words) as caught:
        assert pair.goto({"tilt": 0.1, "pan": 2.0}, 0.1)
    assert [warning.filename for warning in caught] == [__file__]
    assert pair.time >= 0.6


def test_a_trajectory_keeps_to_the_speed_that_the_program_has_set(pair):
    pan = pair["pan"]
    pan.set_velocity(1.0)
    with pytest.warns(ControlWarning, match=r"^servo 'pan': 0.5 s are too short for its speed: it takes 1.88 s"):
        assert pan.goto(1.0, 0.5)
    pan.set_velocity(0.0)
    with pytest.raises(UsageError, match="servo 'pan' cannot move: its speed is set to 0\ncall set_velocity"):
        pan.goto(0.0, 0.5)


def test_a_goal_beyond_the_limits_is_clipped_with_one_warning_at_the_callers_line(pair):
    for goto in (lambda: pair.goto({"tilt": 1.5}, 1.0), lambda: pair["tilt"].goto(1.5, 1.0)):
        with pytest.warns(ControlWarning) as caught:
            assert goto()
        assert not pair["pan"].torque_enabled
        assert str(caught[0].message) == "servo 'tilt' (rad): too big requested position: 1.5 > 1.2"
        assert [warning.filename for warning in caught] == [__file__]


WITHOUT_NAMES = r"has no names\nwrite robot.goto\(\{'pan': 0.3\}, 1.0\)"


@pytest.mark.parametrize(
    ("pose", "words"),
    [
        *((pose, WITHOUT_NAMES) for pose in ([0.3], "pan", None, np.zeros(1), 0.3)),
        ({"elbow": 0.0}, "no servo 'elbow'"),
        *(({"pan": goal}, "no position") for goal in (math.nan, math.inf)),
        ({"pan": 0.1, 0: 0.3}, "two positions of one servo"),
    ],
)
def test_an_impossible_pose_is_refused_before_a_motion(pair, pose, words):
    with pytest.raises(UsageError, match=words):
        pair.goto(pose, 1.0)
    assert not pair["pan"].torque_enabled


@pytest.mark.parametrize("which", ["elbow", 2, -3, None, slice(1), []])
def test_a_servo_that_is_not_there_is_named_with_those_that_are(pair, which):
    for use in (pair.__getitem__, pair.simulation.truth) if isinstance(which, str) else (pair.__getitem__,):
        with pytest.raises(UnknownServo, match="pan, tilt"):
            use(which)
    assert which not in pair
    assert pair[np.int64(1)] is pair[-1] is pair["tilt"]


def test_arrays_are_in_the_rigs_order_and_an_array_with_degrees_gives_no_goal(pair):
    with pytest.raises(UsageError, match="-60 rad is no angle of servo 'tilt', which goes from -1.200 to 1.200"):
        pair.set_positions([0.5, -60])
    assert not pair["pan"].torque_enabled
    pair.set_positions([0.3, -0.2])
    run(pair, 0.6)
    assert pair.positions == pytest.approx([0.3, -0.2], abs=0.02)
    assert pair.velocities.shape == pair.loads.shape == (2,)
    with pytest.raises(UsageError, match="give one a servo: pan, tilt"):
        pair.set_positions([0.0])


def test_the_repr_of_a_robot_and_a_servo_describes_them(pair):
    assert repr(pair) == "<Robot 'pan_tilt' on sim: 2 servos, 0.00 s after the start>"
    assert repr(pair["pan"]) == "<Servo 'pan' at 0.000 rad, limp>"
    assert repr(pair.simulation).endswith(", bolted down>")
    pair.close()
    assert repr(pair).endswith("closed>")


# ---- simulated time that keeps to the wall's falls behind where it cannot keep up, and comes back at once


class Wall:
    """A clock that advances only by sleeping and by simulating."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def sleep_until(self, due):
        self.time = max(self.time, due)


class World(Wall):
    """A simulation that takes `cost` s of wall time for each simulated second."""

    def __init__(self, wall, cost):
        super().__init__()
        self.wall, self.cost = wall, cost

    def sleep_until(self, due):
        passed = max(0.0, due - self.time)
        self.time += passed
        self.wall.time += passed * self.cost


def paced(cost):
    wall = Wall()
    world = World(wall, cost)
    return wall, world, _PacedClock(world, wall)


def steps(clock, count):
    start = clock.now()
    for step in range(1, count + 1):
        clock.now()
        clock.sleep_until(start + step * 0.02)
        clock.now()


@pytest.mark.parametrize("cost", [1.5, 2.5, 20])
def test_a_slow_simulation_runs_at_its_own_pace_with_a_message(cost, caplog):
    wall, world, clock = paced(cost)
    steps(clock, 200)
    first = wall.time
    steps(clock, 200)
    assert wall.time - first == pytest.approx(first, rel=0.05)  # no step is longer than the ones before
    assert world.time == pytest.approx(8.0, rel=0.5)
    assert clock.behind == pytest.approx(wall.time - world.time, abs=0.2)
    assert f"simulation runs at {1 / cost:.2g} × real time" in caplog.text


def test_a_fast_simulation_keeps_to_the_wall(caplog):
    wall, _world, clock = paced(0.1)
    steps(clock, 100)
    wall.time += 0.07  # the controller computes
    assert clock.now() == pytest.approx(wall.time, abs=0.01)
    assert clock.behind == 0
    assert not caplog.text


def test_a_paced_clock_does_not_catch_up_after_the_process_was_stopped(caplog):
    wall, world, clock = paced(0.1)
    steps(clock, 10)
    before, asleep = world.time, wall.time
    wall.time += 5.0
    assert clock.now() - before == pytest.approx(0.1)
    assert wall.time - asleep < 5.05
    assert clock.behind == pytest.approx(4.9, abs=0.01)
    assert "held up for 5.0 s" in caplog.text
    assert "real time" not in caplog.text


UNSENT = {
    "set_position": lambda robot: robot["shoulder"].set_position(0.1),
    "set_velocity": lambda robot: robot["shoulder"].set_velocity(1.0),
    "set_torque": lambda robot: robot["shoulder"].set_torque(0.0),
    "set_positions": lambda robot: robot.set_positions([0.1]),
}


@pytest.mark.parametrize("command", UNSENT)
@pytest.mark.filterwarnings("ignore:.*has no current sensor:axbridge.errors.ControlWarning")
def test_close_names_a_command_that_was_never_sent_if_the_program_waited(command, monkeypatch):
    with axbridge.open("bench_arm") as robot:
        UNSENT[command](robot)  # the last one of a loop: it ends at once
    monkeypatch.setattr("axbridge.robot.robot._WAITED", 0.01)
    robot = axbridge.open("bench_arm")
    UNSENT[command](robot)
    time.sleep(0.02)
    with pytest.warns(axbridge.ControlWarning, match="1 command never sent: call step"):
        robot.close()
    robot.close()
    with axbridge.open("bench_arm") as robot:
        UNSENT[command](robot)
        time.sleep(0.02)
        robot.step(20)
    with suppress(ZeroDivisionError), axbridge.open("bench_arm") as robot:
        UNSENT[command](robot)
        time.sleep(0.02)
        raise ZeroDivisionError
