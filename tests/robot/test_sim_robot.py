"""A robot on the simulator: the paper's figures, time, limits, and that torque comes on without a jump."""

import math

import pytest

import axbridge
from axbridge import ControlWarning, UnsupportedOperation, UsageError
from tests.support.waiting import run

NO_LOAD = 9.6 / (0.006810 * 254)  # rad/s at the paper's supply: U / (Ks N)
ONE_COUNT = 0.111 * 2 * math.pi / 60  # rad/s


@pytest.fixture
def robot():
    with axbridge.open("bench_arm") as made:
        yield made


@pytest.fixture
def arm(robot):
    return robot["shoulder"]


def step_to_quarter_turn(time_step_ms):
    """The paper's step: true angles (deg) by time, and the highest true speed (rad/s)."""
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


def test_the_step_ends_where_the_paper_says_takes_as_long_and_depends_on_no_physics_step():
    coarse, fast_coarse = step_to_quarter_turn(1000 / 240)
    fine, fast_fine = step_to_quarter_turn(1.0)
    final = list(coarse.values())[-1]
    assert final == pytest.approx(89.29, abs=0.3)  # one count is 0.293 degrees
    assert final == pytest.approx(list(fine.values())[-1], abs=0.1)
    rise = next(t for t, p in coarse.items() if p > 0.9 * 89.29) - next(t for t, p in coarse.items() if p > 0.1 * 89.29)
    assert rise == pytest.approx(0.24, abs=0.01)
    assert max(fast_coarse, fast_fine) <= NO_LOAD + ONE_COUNT


def test_time_is_counted_by_steps_and_samples_say_when_they_were_taken(robot):
    assert (robot.time, robot.mode, robot.backend, len(robot)) == (0.0, 0, "sim", 1)
    for _ in range(200):
        assert robot.step(20) == 0.0
    assert robot.time == pytest.approx(4.0, abs=1e-12)
    sampled = robot.last_step.sampled["shoulder"]
    assert robot.time <= sampled < robot.time + 0.001  # one READ later on the wire
    assert (robot.last_step.requested, robot.last_step.errors) == (20, {})


def test_torque_comes_on_where_the_arm_is_and_a_limp_one_falls_and_gets_no_goals():
    with axbridge.open("bench_arm", servo=[{"name": "a", "joint": "shoulder", "id": 1, "position": 0.4}]) as robot:
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
    with pytest.warns(ControlWarning, match=r"^servo 'shoulder' \(rad\): too big requested position: 3 > 2.6") as said:
        arm.set_position(3)
    assert [one.filename for one in said] == [__file__]
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
    with pytest.raises(axbridge.ProfileError, match="no such register"):
        arm.read("pnuch")


def test_the_same_seed_gives_the_same_bits():
    def trace():
        states = []
        with axbridge.open("bench_arm", seed=3) as robot:
            robot["shoulder"].set_position(1.0)
            for _ in range(30):
                robot.step(20)
                states.append(robot["shoulder"].state)
        return repr(states)

    assert trace() == trace()


def test_two_robots_in_one_process_do_not_disturb_each_other(robot, arm):
    with axbridge.open("bench_arm") as other:
        arm.set_position(1.0)
        for _ in range(25):
            robot.step(20)
            other.step(20)
        assert arm.position == pytest.approx(1.0, abs=0.03)
        assert other["shoulder"].position == pytest.approx(0.0, abs=0.01)


def test_a_wrong_backend_or_servo_is_named(robot):
    with pytest.raises(UsageError, match="no backend 'simm'"):
        axbridge.open("bench_arm", backend="simm")
    with pytest.raises(KeyError, match="it has: shoulder"):
        robot["knee"]
    assert "knee" not in robot


def test_every_command_to_a_closed_robot_is_an_error_that_names_it(robot, arm):
    arm.set_position(0.3)
    robot.step(20)
    position = arm.position
    robot.close()
    robot.close()
    assert robot.step(20) == -1
    commands = (
        lambda: arm.set_position(0.5),
        lambda: arm.set_velocity(1.0),
        lambda: arm.set_acceleration(1.0),
        lambda: arm.set_available_torque(0.5),
        lambda: arm.set_control_pid(1, 0, 0),
        lambda: arm.set_torque(0.1),
        lambda: arm.set_duty(0.1),
        lambda: arm.set_damping_constant(0.1),
        lambda: arm.goto(0.5, 1.0),
        lambda: arm.read("id"),
        lambda: arm.write("led", 1),
        arm.torque_on,
        arm.torque_off,
        arm.restore,
        arm.recover,
        robot.exchange,
        lambda: robot.set_positions([0.5]),
        lambda: robot.goto({"shoulder": 0.5}, 1.0),
    )
    for command in commands:
        with pytest.raises(UsageError, match="'bench_arm' is closed"):
            command()
    assert (arm.position, arm.target_position) == (position, 0.3)  # what was read last


@pytest.mark.parametrize("degrees", [90, -45, 180, 3600])  # the last two are beyond the limits in degrees, too
def test_degrees_are_asked_about_and_move_nothing(robot, arm, degrees):
    arm.set_position(0.3)
    for way in (arm.set_position, lambda goal: arm.goto(goal, 1.0), lambda goal: robot.set_positions([goal])):
        with pytest.raises(UsageError, match=rf"radians\? {degrees}° is {math.radians(degrees):.3f}: give math"):
            way(degrees)
        assert arm.target_position == 0.3


def test_an_array_with_degrees_in_it_gives_no_servo_a_goal():
    with axbridge.open("pan_tilt") as robot:
        with pytest.raises(UsageError, match="-60 rad is no angle of servo 'tilt', which goes from -1.200 to 1.200"):
            robot.set_positions([0.5, -60])
        assert not robot["pan"].torque_enabled


def test_a_program_that_wants_them_clipped_says_so(arm):
    with pytest.warns(ControlWarning, match=r"too big requested position: 90 > 2\.\d+ \(radians\? 90° is 1.571\)"):
        arm.set_position(90, clip=True)
    arm.set_position(95, clip=True)  # a loop hears of it once
    assert arm.target_position == arm.max_position


def test_an_observer_sees_the_report_and_all_states_of_each_step_until_it_leaves(robot, arm):
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


def test_an_error_of_an_observer_ends_the_step_it_happened_in(robot):
    def full(report, states):
        raise OSError("no space left")

    robot.observe(full)
    with pytest.raises(OSError, match="no space left"):
        robot.step(20)


def test_what_only_a_simulation_can_do_is_in_one_place(robot, arm):
    simulation = robot.simulation
    assert simulation.base is None
    assert simulation.truth("shoulder").position == pytest.approx(arm.position, abs=0.01)
    with pytest.raises(UnsupportedOperation, match="bolted down"):
        simulation.place_base(((0, 0, 0), (0, 0, 0, 1)))
    assert simulation.shadow() == {}


def test_a_step_without_goals_says_when_the_motor_was_switched_off_and_not_when_it_had_confirmed(robot, arm):
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
