"""Webots' motor on one joint, against arithmetic done by hand (h = 0.032 s): control, limits, friction, springs, stops."""

import math

import pytest

from tests.support.ideal_world import INERTIA, H, positions

pytestmark = pytest.mark.slow

GRAVITY = 9.81
PENDULUM = 0.14  # kg·m² about the axis: 1 kg at 0.2 m


def clip(value, most):
    return max(-most, min(most, value))


def row(steps, target=None, gains=(10.0, 0.0, 0.0), speed=10.0, faster=math.inf, torque=math.inf, damping=0.0, com=0.0):
    """Positions of a joint whose motor reaches, as far as its torque goes, the speed that PID and limits ask for."""
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
def test_a_motor_goes_where_its_control_and_its_torque_lead(bench, servo, target, model, beyond):
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
    *_, x = ways = list(row(10, 0.1, gains=(2.0, 5.0, 0.0)))
    total = sum(0.1 - place for place in (0.0, *ways[:-1])) * H
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


def test_a_motor_holds_its_initial_position_against_gravity_and_says_with_what(bench):
    robot = bench.controlled({"com": 0.2, "position": 0.3}, gravity=GRAVITY)
    motor, sensor = robot.getDevice("j0"), robot.getDevice("j0_sensor")
    motor.enableTorqueFeedback(64)
    sensor.enable(32)
    assert math.isnan(motor.getTorqueFeedback())
    robot.step(32)
    assert math.isnan(motor.getTorqueFeedback())
    for _ in range(3):
        robot.step(32)
    assert sensor.getValue() == pytest.approx(0.3, abs=1e-6)
    assert motor.getTorqueFeedback() == pytest.approx(-GRAVITY * 0.2 * math.cos(0.3), abs=1e-3)
    assert motor.getTorqueFeedbackSamplingPeriod() == 64


def test_torque_feedback_leaves_out_user_torque_and_springs(bench):
    robot = bench.open({"spring_constant": 2.0, "position": 0.5, "static_friction": 0.1})
    servo = robot["j0"]
    servo.set_torque(0.4)
    robot.step(32)
    assert abs(servo.torque) == pytest.approx(0.1, abs=1e-6)  # the friction alone


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
    ("start", "stiffness", "damping", "torque"),
    [(0.5, 50.0, 1.0, 0.0), (0.5, 0.0, 5.0, 0.0), (0.0, 4.0, 1.0, 1.0)],
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
    """A servo that turns endlessly since three steps."""

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
