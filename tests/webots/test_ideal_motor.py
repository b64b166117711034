"""Webots' motors, their sensors and a battery on ideal joints, against arithmetic done by hand (h = 0.032 s)."""

import math
import statistics

import pytest

from axbridge import ControlWarning
from axbridge.webots import uninstall
from tests.support.ideal_world import INERTIA, Bench, H, positions

pytestmark = pytest.mark.slow

GRAVITY = 9.81


@pytest.fixture
def bench(tmp_path):
    """A `Bench` whose robots are closed after the test."""
    made = Bench(tmp_path)
    yield made
    for robot in made.opened:
        robot.close()
    uninstall()


def clip(value, most):
    return max(-most, min(most, value))


def row(steps, target=None, gains=(10.0, 0.0, 0.0), speed=10.0, faster=math.inf, torque=math.inf, damping=0.0, com=0.0):
    """Return the positions of a joint whose motor follows, within its torque, the speed of PID and limits."""
    inertia = INERTIA + com * com
    x = v = command = total = before = 0.0
    for _ in range(steps):
        if target is not None:
            error = target - x
            total += error * H
            wanted = gains[0] * error + gains[1] * total + gains[2] * (error - before) / H
            before = error
            command += clip(clip(wanted, speed) - command, faster * H)
        v = (inertia * v + H * GRAVITY * com * math.cos(x)) / (inertia + H * damping)  # axis +y: +x swings down
        v += clip(command - v, H * torque / inertia)
        x += H * v
        yield x


@pytest.mark.parametrize(
    ("servo", "target", "model", "beyond"),
    [
        pytest.param({"max_velocity": 2.0}, 1.0, {"speed": 2.0}, None, id="P, a share of the error each step"),
        pytest.param({"acceleration": 2.0}, 0.5, {"faster": 2.0}, 0.6, id="an acceleration limit delays braking"),
        pytest.param({"control_pid": [5.0, 2.0, 0.1]}, 0.2, {"gains": (5.0, 2.0, 0.1)}, None, id="the engine's PID"),
        pytest.param({"max_torque": 0.5}, 1.0, {"torque": 0.5}, 1.1, id="too weak to brake in time"),
        pytest.param({"max_torque": 1.0, "com": 0.2}, 0.0, {"torque": 1.0, "com": 0.2}, None, id="a load sinks"),
        pytest.param({"max_torque": 0.0, "com": 0.2}, None, {"torque": 0.0, "com": 0.2}, None, id="limp"),
        pytest.param(
            {"max_torque": 0.0, "com": 0.2, "damping_constant": 0.4}, None,
            {"torque": 0.0, "com": 0.2, "damping": 0.4}, 1.5, id="a damped fall",
        ),
        pytest.param(
            {"kind": "prismatic", "axis": "1 0 0", "max_velocity": 1.0, "max_torque": 100.0}, 0.05, {"speed": 1.0},
            None, id="a linear joint, in metres",
        ),
    ],
)  # fmt: skip
def test_a_motor_moves_as_its_controller_and_its_torque_limit_predict(bench, servo, target, model, beyond):
    robot = bench.open(servo, gravity=GRAVITY if "com" in servo else 0.0)
    assert robot["j0"].type == ("linear" if "kind" in servo else "rotational")
    if target is not None:
        robot["j0"].set_position(target)
    steps = 20 if "com" in servo and target is not None else 40
    expected = list(row(steps, target, **model))
    assert positions(robot, "j0", steps) == pytest.approx(expected, abs=1e-3 if "com" in servo else 1e-4)
    assert beyond is None or max(expected) > beyond


def test_new_gains_reset_the_integral_but_a_new_target_does_not(bench):
    robot = bench.open({"control_pid": [2.0, 5.0, 0.0]})
    servo = robot["j0"]
    servo.set_position(0.1)
    *_, x = path = list(row(10, 0.1, gains=(2.0, 5.0, 0.0)))
    total = sum(0.1 - place for place in (0.0, *path[:-1])) * H
    assert positions(robot, "j0", 10)[-1] == pytest.approx(x, abs=1e-4)
    servo.set_position(x)  # no error any more, but the integral goes on
    assert positions(robot, "j0", 1)[0] == pytest.approx(x + H * 5 * total, abs=1e-4)
    servo.set_control_pid(2.0, 5.0, 0.0)
    here = servo.position
    servo.set_position(here)
    assert positions(robot, "j0", 1)[0] == pytest.approx(here, abs=1e-6)


def test_a_long_step_runs_the_controller_every_basic_step(bench):
    robot = bench.open({"inertia": 0.01})  # light enough for 10 rad/s within a step
    robot["j0"].set_position(1.0)
    robot.step(96)
    assert robot["j0"].position == pytest.approx(1 - 0.68**3, abs=1e-5)


def test_torque_control_accelerates_without_end_until_a_position_is_set_and_is_clipped(bench):
    robot = bench.open({})
    servo = robot["j0"]
    servo.set_torque(0.2)  # 2 rad/s²: x = 2·h²·n(n+1)/2
    assert positions(robot, "j0", 4) == pytest.approx([2 * H * H * n * (n + 1) / 2 for n in (1, 2, 3, 4)], abs=1e-6)
    servo.set_velocity(1.0)  # stored, without effect
    servo.set_available_torque(0.3)
    with pytest.warns(UserWarning, match="requested torque 5 exceeds the available torque 0.3"):
        servo.set_torque(5)
    speed = servo.velocity
    robot.step(32)
    assert servo.velocity == pytest.approx(speed + 0.3 / INERTIA * H, abs=1e-6)
    servo.set_available_torque(10)
    here = servo.position
    servo.set_position(here)
    robot.step(32)
    assert servo.position == pytest.approx(here, abs=1e-6)


@pytest.mark.parametrize(("torque", "moves"), [(0.29, False), (0.31, True)])
def test_static_friction_is_a_threshold(bench, torque, moves):
    # the motor row holds speed 0 with at most 0.3 N·m; the rest accelerates
    robot = bench.open({"static_friction": 0.3})
    robot["j0"].set_torque(torque)
    x = positions(robot, "j0", 10)[-1]
    assert x == pytest.approx((torque - 0.3) / INERTIA * H * H * 55 if moves else 0.0, abs=1e-6)


def test_a_motor_holds_its_initial_position_and_reports_its_torque(bench):
    robot = bench.controlled({"com": 0.2, "position": 0.3}, gravity=GRAVITY)
    motor, sensor = robot.getDevice("j0"), robot.getDevice("j0_sensor")
    motor.enableTorqueFeedback(64)
    sensor.enable(32)
    assert math.isnan(motor.getTorqueFeedback())
    robot.step(32)
    assert math.isnan(motor.getTorqueFeedback())
    assert sum(robot.step(32) for _ in range(3)) == 0
    assert sensor.getValue() == pytest.approx(0.3, abs=1e-6)
    assert motor.getTorqueFeedback() == pytest.approx(-GRAVITY * 0.2 * math.cos(0.3), abs=1e-3)
    assert motor.getTorqueFeedbackSamplingPeriod() == 64


def test_torque_feedback_leaves_out_user_torque_and_springs(bench):
    robot = bench.open({"spring_constant": 2.0, "position": 0.5, "static_friction": 0.1})
    robot["j0"].set_torque(0.4)
    robot.step(32)
    assert abs(robot["j0"].torque) == pytest.approx(0.1, abs=1e-6)  # the friction alone


def test_torque_off_is_limp_and_on_begins_at_the_present_position(bench):
    robot = bench.open({})
    servo = robot["j0"]
    servo.set_position(1.0)
    positions(robot, "j0", 2)
    servo.torque_off()
    speed = servo.velocity
    positions(robot, "j0", 3)
    assert servo.velocity == pytest.approx(speed, abs=1e-6)  # nothing brakes it
    servo.torque_on()
    here = servo.position
    assert servo.target_position == pytest.approx(here)
    assert positions(robot, "j0", 10)[-1] == pytest.approx(here, abs=0.05)


@pytest.mark.parametrize(
    ("start", "stiffness", "damping", "torque"), [(0.5, 50.0, 1.0, 0.0), (0.5, 0.0, 5.0, 0.0), (0.0, 4.0, 1.0, 1.0)]
)
def test_a_spring_and_damper_settle_where_the_torque_is_held(bench, start, stiffness, damping, torque):
    """v' = (I·v + h(τ - K·x))/(I + h·B + h²·K)."""
    robot = bench.open({"spring_constant": stiffness, "damping_constant": damping, "position": start})
    robot["j0"].set_torque(torque)
    x, v, trace = start, 0.0, []
    for _ in range(100):
        v = (INERTIA * v + H * (torque - stiffness * x)) / (INERTIA + H * damping + H * H * stiffness)
        x += H * v
        trace.append(x)
    assert positions(robot, "j0", 100) == pytest.approx(trace, abs=1e-5)
    assert not torque or trace[-1] == pytest.approx(torque / stiffness, abs=1e-3)


def test_a_motor_works_against_its_spring_with_its_limit(bench):
    # at rest 2·x = 0.5 N·m: the motor cannot hold more than 0.25 rad
    robot = bench.open({"spring_constant": 2.0, "damping_constant": 0.5, "max_torque": 0.5})
    robot["j0"].set_position(1.0)
    assert positions(robot, "j0", 150)[-1] == pytest.approx(0.25, abs=1e-3)


@pytest.fixture
def turning(bench):
    """Return a servo that has turned endlessly for three steps."""

    def made(speed, **joint):
        robot = bench.open(joint)
        robot["j0"].set_position(math.inf)
        robot["j0"].set_velocity(speed)
        assert positions(robot, "j0", 3) == pytest.approx([speed * H * n for n in (1, 2, 3)], abs=1e-6)
        return robot, robot["j0"]

    return made


def test_infinite_position_is_velocity_control(turning):
    robot, servo = turning(-1.5)
    servo.set_acceleration(10.0)
    servo.set_velocity(0.0)  # 0.32 rad/s less a step: -1.18, -0.86, -0.54, -0.22, 0
    assert positions(robot, "j0", 6)[-1] == pytest.approx(-0.144 - H * (1.18 + 0.86 + 0.54 + 0.22), abs=1e-5)


def test_static_friction_stops_a_limp_joint_and_is_a_floor_of_the_motor_not_a_load(turning):
    robot, servo = turning(2.0, static_friction=0.5)
    servo.set_available_torque(0.0)  # 0.5/0.1·h = 0.16 rad/s less each step
    robot.step(32)
    assert servo.velocity == pytest.approx(1.84, abs=1e-6)
    positions(robot, "j0", 12)
    assert servo.velocity == pytest.approx(0.0, abs=1e-6)
    servo.set_available_torque(0.2)  # less than the friction: the row still has 0.5 N·m
    servo.set_velocity(-1.0)
    robot.step(32)
    assert servo.velocity == pytest.approx(-0.16, abs=1e-6)


def test_a_brake_adds_damping_while_it_is_on(turning):
    robot, servo = turning(3.0, damping_constant=0.1)
    servo.set_available_torque(0.0)
    for brake in (0.9, 0.0):
        servo.set_damping_constant(brake)
        before = servo.velocity
        robot.step(32)
        assert servo.velocity == pytest.approx(before * INERTIA / (INERTIA + H * (0.1 + brake)), abs=1e-6)


STOPS = {"min_stop": -0.2, "max_stop": 0.3}


@pytest.mark.parametrize("stops", [STOPS, {"limit": (-3, 3), **STOPS}, {"limit": (-0.2, 0.3)}])
def test_stops_of_the_rig_or_else_of_the_urdf_hold_against_any_torque(bench, stops):
    if "limit" in stops:
        limit = '<limit lower="{}" upper="{}" effort="9" velocity="9"/>'.format(*stops["limit"])
        stops = {**stops, "kind": "revolute", "limit": limit}
    robot = bench.open(stops)
    servo = robot["j0"]
    for command, value, end in ((servo.set_position, 2.0, 0.3), (servo.set_torque, -9.0, -0.2)):
        command(value)
        trace = positions(robot, "j0", 40)
        assert (min if end < 0 else max)(trace) == pytest.approx(end, abs=1e-6)
        assert trace[-1] == pytest.approx(end, abs=1e-6)
    assert servo.velocity == pytest.approx(0.0, abs=1e-6)
    servo.set_position(0.0)
    assert positions(robot, "j0", 40)[-1] == pytest.approx(0.0, abs=1e-4)


# ---- motors named base::member


def test_positions_are_multiplied_for_every_motor_the_commanded_one_too(bench):
    robot = bench.open(
        {"name": "leg::a", "multiplier": 2.0},
        {"name": "leg::b", "multiplier": -0.5},
        {"name": "leg"},
        {"name": "arm::a"},
        {"name": "arm::b"},
    )
    robot["leg::a"].set_position(0.4)
    assert positions(robot, "leg::a", 60)[-1] == pytest.approx(0.8, abs=1e-4)
    assert robot["leg::b"].position == pytest.approx(-0.2, abs=1e-4)
    assert [robot[name].position for name in ("leg", "arm::a", "arm::b")] == pytest.approx([0.0] * 3, abs=1e-9)
    assert [robot[name].target_position for name in ("leg::a", "leg::b")] == pytest.approx([0.4, -0.2])


def test_a_speed_set_before_the_endless_turn_is_relayed_with_its_sign(bench):
    robot = bench.open({"name": "w::l"}, {"name": "w::r", "multiplier": -0.5})
    assert robot["w::r"].velocity_limit == 5
    robot["w::r"].set_position(0.0)
    assert robot["w::r"].velocity_limit == 5  # no speed has been asked for yet
    robot["w::l"].set_velocity(1.5)  # in position control only its size counts
    robot["w::l"].set_position(math.inf)
    assert positions(robot, "w::r", 2) == pytest.approx([-0.024, -0.048], abs=1e-6)
    assert robot["w::l"].position == pytest.approx(0.096, abs=1e-6)
    assert robot["w::r"].target_position == math.inf  # which is not multiplied
    assert (robot["w::l"].velocity_limit, robot["w::r"].velocity_limit) == (1.5, -0.75)


def test_torque_is_relayed_and_its_clipping_is_silent(bench):
    robot = bench.open({"name": "d::l"}, {"name": "d::r", "multiplier": 3.0, "max_torque": 0.5})
    robot["d::l"].set_torque(0.2)
    robot.step(32)
    assert robot["d::l"].velocity == pytest.approx(0.2 / INERTIA * H, abs=1e-6)
    assert robot["d::r"].velocity == pytest.approx(0.5 / INERTIA * H, abs=1e-6)


def test_acceleration_available_torque_and_gains_stay_with_their_motor(bench):
    robot = bench.open({"name": "c::a"}, {"name": "c::b"})
    robot["c::a"].set_acceleration(1.0)
    robot["c::a"].set_available_torque(2.0)
    robot["c::a"].set_control_pid(1.0, 0.0, 0.0)
    robot["c::a"].set_position(0.1)
    robot.step(32)
    assert (robot["c::b"].acceleration, robot["c::b"].available_torque) == (-1, 10)
    assert robot["c::b"].position == pytest.approx(0.032, abs=1e-6)
    assert robot["c::a"].position == pytest.approx(0.032 * 0.032, abs=1e-6)  # 1 rad/s² for a step


def test_limits_become_those_of_the_first_motor_scaled(bench, caplog):
    # the seed's table: A (2), B (0.5), C (4), D (-4)
    robot = bench.open(
        {"name": "m::A", "multiplier": 2.0, "min_position": -1.0, "max_position": 2.0, "max_velocity": 10.0},
        {"name": "m::B", "multiplier": 0.5},
        {"name": "m::C", "multiplier": 4.0},
        {"name": "m::D", "multiplier": -4.0},
    )
    assert "limits of 'm::B' become -0.25..0.5, velocity 2.5" in caplog.text
    limits = {n[3:]: (s.min_position, s.max_position, s.max_velocity) for n, s in robot.items()}
    assert limits == {"A": (-1, 2, 10), "B": (-0.25, 0.5, 2.5), "C": (-2, 4, 20), "D": (-4, 2, 20)}
    with pytest.warns(ControlWarning, match="too big requested position: 6 > 2"):
        robot["m::A"].set_position(3.0)


def test_a_warning_names_a_motor_without_a_partner_and_a_multiplier_of_zero(bench):
    with pytest.warns(ControlWarning, match=r"'lone::a' is coupled with nothing"):
        bench.open({"name": "lone::a"})
    with pytest.warns(ControlWarning, match="must not be 0; it becomes 1"):
        robot = bench.open({"multiplier": 0.0})
    assert robot["j0"].multiplier == 1


# ---- position sensors


def endless(bench, speed, **joint):
    """A controller's robot that turns endlessly, and its position sensor, disabled."""
    robot = bench.controlled(joint)
    motor = robot.getDevice("j0")
    motor.setPosition(math.inf)
    motor.setVelocity(speed)
    return robot, motor.getPositionSensor()


def test_a_sensor_reads_nan_until_its_period_has_passed_and_then_holds(bench):
    robot, sensor = endless(bench, 1.0)
    sensor.enable(96)
    seen = []
    for _ in range(7):
        robot.step(32)
        seen.append(sensor.getValue())
    assert all(map(math.isnan, seen[:2]))
    assert seen[2:] == pytest.approx([0.096, 0.096, 0.096, 0.192, 0.192], abs=1e-6)
    sensor.disable()
    assert sensor.getSamplingPeriod() == 0


def test_a_sensor_that_is_enabled_again_keeps_its_value_and_begins_a_new_period(bench):
    robot, sensor = endless(bench, 1.0)
    seen = []
    for period in (32, 32, 64, 64, 32, 0, 32):  # after each step of 32 ms
        robot.step(32)
        sensor.enable(period)
        seen.append(sensor.getValue())
    assert math.isnan(seen[0])  # it was not enabled in this step
    assert seen[1:] == pytest.approx([0.064, 0.096, 0.096, 0.096, 0.192, 0.192], abs=1e-6)


@pytest.mark.parametrize(("period", "step", "reads"), [(64, 160, 0.128), (40, 96, 0.096)])
def test_samples_are_taken_inside_a_long_step_at_the_end_of_a_basic_one(bench, period, step, reads):
    """Due at 64 and 128 ms of 160; due at 40 and 80 ms, and taken at 64 and 96."""
    robot, sensor = endless(bench, 1.0)
    sensor.enable(period)
    robot.step(step)
    assert sensor.getValue() == pytest.approx(reads, abs=1e-6)
    assert robot.getTime() == step / 1000


@pytest.mark.parametrize(
    ("start", "reads", "in_webots"),
    [(0.26, 0.3, 0.3), (-0.26, -0.3, -0.2), (-0.31, -0.3, -0.2), (-0.24, -0.2, -0.1), (0.04, 0.0, 0.0)],
)
def test_resolution_rounds_to_the_nearest_multiple_and_in_webots_cuts_towards_zero(bench, start, reads, in_webots):
    robot = bench.controlled({"position": start, "resolution": 0.1})
    sensor = robot.getDevice("j0").getPositionSensor()
    sensor.enable(32)
    robot.step(32)
    assert robot._session.robot["j0"].position == pytest.approx(reads, abs=1e-9)
    assert sensor.getValue() == pytest.approx(in_webots, abs=1e-9)


def test_noise_is_gaussian_and_the_same_for_the_same_seed(bench):
    readings = [positions(bench.open({"noise": 0.05}), "j0", 300) for _ in range(2)]
    assert readings[0] == readings[1]
    assert statistics.fmean(readings[0]) == pytest.approx(0.0, abs=0.012)
    assert statistics.stdev(readings[0]) == pytest.approx(0.05, rel=0.15)


def test_soft_limits_clip_targets_with_the_messages_of_webots(bench):
    robot = bench.open({"min_position": -1.63, "max_position": 1.51})
    servo = robot["j0"]
    with pytest.warns(ControlWarning, match="too low requested position: -3 < -1.63"):
        servo.set_position(-3)
    assert positions(robot, "j0", 60)[-1] == pytest.approx(-1.63, abs=1e-4)
    servo.set_position(math.inf)  # infinity is never clipped
    servo.set_velocity(-2.0)
    assert positions(robot, "j0", 30)[-1] < -2
    kept = bench.open({"min_position": -0.5, "max_position": 0.5, "position": 0.8})  # Webots 1841
    assert (kept["j0"].max_position, kept["j0"].config.position) == (0.5, 0.5)


# ---- the battery: E -= (cpu + Σ|torque|·factor)·h; without a Charger nothing comes back


def test_the_motor_of_webots_own_battery_test_ends_where_it_does_in_webots(bench):
    """tests/api/worlds/battery.wbt and its controller: 3000 W of motor on 600 J, in steps of 32 ms."""
    servo = {
        "inertia": 4.9e-3, "damping_constant": 10.0, "consumption_factor": 100.0, "max_velocity": 20.0,
        "max_torque": 30.0,
    }  # fmt: skip
    robot = bench.controlled(servo, robot="battery = [600, 36000, 5]\ncpu_consumption = 5")
    motor, sensor = robot.getDevice("j0"), robot.getDevice("j0_sensor")
    sensor.enable(32)
    robot.batterySensorEnable(32)
    assert robot.batterySensorGetValue() == -1.0
    motor.setPosition(2 * math.pi)
    robot.step(32)
    assert robot.batterySensorGetValue() == pytest.approx(504, abs=1)
    assert sum(robot.step(32) for _ in range(10)) == 0
    assert sensor.getValue() == pytest.approx(0.5739, abs=0.001)
    assert robot.batterySensorGetValue() == pytest.approx(0, abs=0.001)


def test_when_it_is_empty_motors_go_limp_and_sensors_freeze(bench):
    # 5 W of computer and 19.62 W of motor empty 1.5 J within two steps of 0.788 J
    robot = bench.open({"com": 0.2}, gravity=GRAVITY, robot="battery = [1.5, 60, 400]\ncpu_consumption = 5")
    servo = robot["j0"]
    robot.step(32)
    assert robot.battery_energy == pytest.approx(1.5 - H * (5 + 10 * GRAVITY * 0.2), abs=0.02)  # 1 kg at 0.2 m
    robot.step(32)
    assert robot.battery_energy == 0
    assert [servo.position] * 10 == positions(robot, "j0", 10)  # the controller goes on
    assert robot.battery_energy == 0
    assert robot.simulation.world.ideal["j0"].position > 0.2  # it has fallen


def test_the_sensors_of_a_long_step_are_cut_within_it(bench):
    robot = bench.open({"com": 0.2}, gravity=GRAVITY, robot="battery = [1.5, 60, 0]\ncpu_consumption = 5")
    robot.step(320)
    assert robot.battery_energy == 0
    assert robot["j0"].state.time == pytest.approx(H, abs=1e-9)
    assert math.isfinite(positions(robot, "j0", 1)[0])
