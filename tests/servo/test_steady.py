import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from axbridge.config.model import ServoModel
from axbridge.config.profile import FirmwareProfile
from axbridge.servo.columns import Mode, Param, State, friction_of, motor_of, pack
from axbridge.servo.friction import TERMS, budget
from axbridge.servo.motor import driving, push, warmed
from axbridge.servo.position_laws import motor_duty
from axbridge.servo.steady import AT_REST, SteadyServo, goal_offset
from axbridge.sim.engines.pendulums import Pendulums
from tests.support.one_joint import command, factory, servo_bank

PROFILE = FirmwareProfile.load("ax-12a")
SUPPLY = 11.1  # V
BASE = ServoModel.load("ax12", PROFILE)
STEP = 1e-3  # s; any length gives the same: without inductance, the current has no delay


def of(low, high):
    return st.floats(low, high, allow_nan=False)


@st.composite
def models(draw):
    """Draw a servo: all friction laws, dead duty, asymmetry, a resistance that grows, current limits."""
    law = draw(st.sampled_from(sorted(TERMS)))
    sizes = {
        "coulomb": of(0, 0.3), "viscous": of(0, 0.1), "stribeck": of(0, 0.3), "stribeck_speed": of(0.05, 3),
        "stribeck_exponent": of(0.5, 2), "load": of(0, 0.35), "load_stribeck": of(0, 0.35), "load_external": of(0, 0.35),
        "load_external_stribeck": of(0, 0.35), "quadratic": of(0, 0.02),
    }  # fmt: skip
    motor = {
        "resistance": draw(of(1, 20)), "resistance_per_duty": draw(of(0, 8)), "torque_constant": draw(of(0.3, 3)),
        "gear_ratio": 1.0, "inductance": 0.0, "efficiency": draw(of(0.3, 1)), "asymmetry": draw(of(-0.15, 0.15)),
        "dead_duty": draw(of(0, 0.2)), "resistance_per_kelvin": draw(of(0, 0.02)),
        "max_current": draw(st.sampled_from([0.0, 0.9])), "current_limit": draw(st.sampled_from(["supply", "motor"])),
    }  # fmt: skip
    friction = {"law": law} | {term: draw(size) for term, size in sizes.items()}  # also unused terms
    changed = BASE.motor.model_copy(update=motor), BASE.friction.model_copy(update=friction)
    return BASE.model_copy(update=dict(zip(("motor", "friction"), changed, strict=True)))


def kernels(row, duty, volts, speed, temperature):
    """Return the simulation's torque before friction, N·m, and current, A."""
    resistance = warmed(row[Param.RESISTANCE], row[Param.RESISTANCE_PER_KELVIN], temperature - row[Param.AMBIENT])
    motor = motor_of(row, resistance)
    pushed = push(motor, motor_duty(duty, row[Param.DEAD_DUTY]) * volts, 0.0, speed, 0.0, volts, STEP)
    free = (motor_duty(duty, row[Param.DEAD_DUTY]) * volts - motor.constant * speed) / pushed.resistance
    return pushed.torque - pushed.damping * speed, free if math.isnan(pushed.held) else pushed.held


def dry(row, speed, drive, torque):
    return row[Param.OUTPUT] + budget(friction_of(row), speed, drive, -torque)


@given(models(), of(-1, 1), of(6, 14), of(-6, 6), of(10, 80))
@pytest.mark.slow
def test_the_torque_of_a_moving_servo_balances_the_kernels(model, duty, volts, speed, temperature):
    assume(abs(speed) > AT_REST)
    row = pack(model, 0.005)
    servo = SteadyServo.of(row).at(temperature)
    drive, current = kernels(row, duty, volts, speed, temperature)
    assert servo.drive(duty, volts, speed) == pytest.approx(drive, rel=1e-9, abs=1e-9)
    assert servo.current(duty, volts, speed) == pytest.approx(current, rel=1e-9, abs=1e-9)
    assert servo.power(duty, volts, speed) == pytest.approx(motor_duty(duty, row[Param.DEAD_DUTY]) * volts * current)
    torque = servo.torque(duty, volts, speed)
    lost = math.copysign(dry(row, speed, drive, torque), speed) + row[Param.VISCOUS] * speed
    assert torque == pytest.approx(drive - lost, abs=1e-9)
    back = servo.needed(torque, speed, math.copysign(1.0, speed))
    assert back == pytest.approx(drive, abs=1e-8)


@given(models(), of(-2, 2), of(6, 14), of(-6, 6))
@pytest.mark.slow
def test_the_duty_for_a_torque_gives_that_torque(model, torque, volts, speed):
    model = model.model_copy(update={"motor": model.motor.model_copy(update={"max_current": 0.0})})
    servo = SteadyServo.of(pack(model, 0.005))
    duty = servo.duty(torque, volts, speed)
    assume(abs(duty) < 1)
    if abs(speed) <= AT_REST:
        assume(torque * servo.needed(torque, speed, math.copysign(1.0, torque)) > 0)  # otherwise the load drives
    assume(abs(servo.motor_duty(duty)) > 1e-9)  # within the dead duty, all duties give the torque of a coasting motor
    assert servo.torque(duty, volts, speed) == pytest.approx(torque, abs=1e-6)


@given(models(), of(-2, 2), of(6, 14), of(-6, 6))
@pytest.mark.slow
def test_a_current_loop_sets_the_voltage_of_the_duty_for_a_torque(model, torque, volts, speed):
    model = model.model_copy(update={"motor": model.motor.model_copy(update={"max_current": 0.0})})
    row = pack(model, 0.005)
    servo = SteadyServo.of(row)
    duty, set_point = servo.duty(torque, volts, speed), servo.loop_current(torque, volts, speed)
    pushes = servo.motor_duty(duty) * servo.current(duty, volts, speed) > 1e-6
    if row[Param.SUPPLY_SIDE] and not pushes:
        assert set_point == pytest.approx(0.0, abs=1e-6)
    assume(pushes and abs(duty) < 1 and servo.motor.resistance_per_duty * abs(set_point) < 0.9 * volts)
    steady, feedback = driving(servo.motor, set_point, speed, volts)
    assert (steady - feedback * speed) / volts == pytest.approx(servo.motor_duty(duty), rel=1e-6, abs=1e-6)


@given(models(), of(0, 1), of(6, 14))
def test_at_rest_friction_raises_the_load_that_is_held_and_lowers_the_load_that_is_lifted(model, duty, volts):
    row = pack(model, 0.005)
    servo = SteadyServo.of(row)
    drive = servo.drive(duty, volts, 0.0)
    lifted, held = servo.torque(duty, volts, 0.0), servo.holding_torque(duty, volts)
    assert held == pytest.approx(drive + dry(row, 0.0, drive, held), abs=1e-9)
    assert lifted == pytest.approx(max(drive - dry(row, 0.0, drive, lifted), 0.0), abs=1e-9)


def test_the_smallest_duty_lifts_nothing():
    plain = BASE.motor.model_copy(update={"resistance": 2.0, "efficiency": 0.5, "dead_duty": 0.0})
    servo = SteadyServo.of(pack(BASE.model_copy(update={"motor": plain}), 0.005))
    assert servo.torque(5e-324, 6.0, 0.0) == 0.0
    assert servo.torque(-5e-324, 6.0, 0.0) == 0.0


@settings(max_examples=50)
@given(st.lists(models(), min_size=2, max_size=4), of(-1, 1), of(6, 14), of(-6, 6))
def test_many_servos_in_one_call_give_the_results_of_single_calls(several, duty, volts, speed):
    rows = np.array([pack(model, 0.005) for model in several])
    combined, single = SteadyServo.of(rows), [SteadyServo.of(row) for row in rows]
    duties, supply, speeds = (np.full(len(rows), value) for value in (duty, volts, speed))
    torque = combined.torque(duties, supply, speeds)
    assert torque == pytest.approx([servo.torque(duty, volts, speed) for servo in single], abs=1e-12)
    motor_duty = combined.motor_duty(combined.duty(torque, supply, speeds))  # the loop's duty jumps at 0, this does not
    each = [servo.motor_duty(servo.duty(float(t), volts, speed)) for servo, t in zip(single, torque, strict=True)]
    assert motor_duty == pytest.approx(each, abs=1e-12)
    assert combined.holding_torque(duties, supply) == pytest.approx(
        [servo.holding_torque(duty, volts) for servo in single], abs=1e-12
    )


@pytest.mark.parametrize("law", sorted(TERMS))
@pytest.mark.parametrize("sign", [1, -1])
def test_a_simulated_arm_falls_holds_or_rises_at_the_duties_of_the_steady_state(law, sign):
    """A level arm of 0.59 N·m falls with 3 % less than the duty that holds it, and rises with 3 % more than lifts it."""
    terms = {"stribeck": 0.05, "load": 0.1, "load_stribeck": 0.1, "load_external": 0.15, "quadratic": 0.002}
    changes = {"friction": {"law": law} | terms, "sensor": {"latency_ms": 0.0}}
    changes["motor"] = {"asymmetry": 0.1, "backlash": 0.0}  # with play, the arm would first fall through it
    model = ServoModel.load("ax12", PROFILE, changes)
    servo, load = SteadyServo.of(pack(model, PROFILE.units.position)), 0.5 * 9.80665 * 0.12
    lifting = servo.duty(load * sign, SUPPLY, 0.0) * sign
    low, high = 0.0, lifting
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if servo.holding_torque(middle * sign, SUPPLY) < load else (low, middle)
    assert model.motor.dead_duty < low < 0.95 * lifting
    for duty, moves in ((0.97 * low, -1), (1.03 * low, 0), (0.97 * lifting, 0), (1.03 * lifting, 1)):
        engine = Pendulums(["arm"], time_step=1e-3, mass=0.5, length=0.12, start=[math.pi / 2 * sign])
        bank = servo_bank(engine, model, profile=PROFILE, supply=SUPPLY)
        command(bank, MODE=Mode.WHEEL_DUTY, DUTY=duty * sign)
        bank.advance(0.2)
        moved = (float(bank.state[0, State.ANGLE]) - math.pi / 2 * sign) * sign
        assert (moved > 1e-3) - (moved < -1e-3) == moves, (duty, moved)


GRAVITY = 9.80665
PROFILES = {name: FirmwareProfile.load(name) for name in ("ax-12a", "mx-28")}
TICK = 4e-3  # s between two goals
COUNT, MASS, LENGTH = math.radians(300) / 1023, 0.5, 0.12  # 0.59 N·m with the arm level


def servo(profile, model, **changes):
    return ServoModel.load(model, PROFILES[profile], changes)


def swung(model, profile, goals, start):
    """Return the angles of a servo with a heavy arm, rad, after every `TICK` of goals, rad."""
    engine = Pendulums(["arm"], time_step=1e-3, mass=MASS, length=LENGTH, start=[start])
    bank = servo_bank(engine, model, profile=profile, supply=SUPPLY)
    command(bank, P_GAIN=32, **factory(PROFILES["ax-12a"]))
    angles = []
    for tick, goal in enumerate(goals):
        bank.set_goals([0], [(goal, 0.0)], tick * TICK)
        bank.advance((tick + 1.001) * TICK)
        angles.append(float(bank.state[0, State.ANGLE]))
    return np.array(angles)


@pytest.mark.parametrize(
    ("profile", "model", "changes", "within"),
    [
        ("ax-12a", "lima2009", {}, 0.3),
        ("ax-12a", "lima2009", {"motor": {"armature": 0.0092}}, 0.3),
        ("ax-12a", "lima2009", {"friction": {"coulomb": 0.1}}, 0.8),
        ("ax-12a", "ax12", {"sensor": {"latency_ms": 0.0}}, 0.6),
        ("mx-28", "mx28", {"sensor": {"latency_ms": 0.0}}, 0.3),
    ],
)
def test_a_loaded_servo_follows_a_motion_when_its_goals_have_the_offset(profile, model, changes, within):
    """A heavy arm moves from 20 to 100 degrees and back in 1.6 s; errors are root mean squares in degrees."""
    model, profile = servo(profile, model, **changes), PROFILES[profile]
    time = np.arange(1, 601) * TICK
    swing, rate = math.radians(40), 2 * math.pi / 1.6
    angle = math.radians(60) + swing * np.sin(rate * time)
    speed, acceleration = swing * rate * np.cos(rate * time), -swing * rate**2 * np.sin(rate * time)
    load = MASS * LENGTH**2 * acceleration + MASS * GRAVITY * LENGTH * np.sin(angle)
    goals = angle + goal_offset(model, profile, SUPPLY, speed, acceleration, load)
    later = time > 0.8  # the arm starts at rest
    errors = [np.degrees(swung(model, profile, sent, angle[0]) - angle)[later] for sent in (goals, angle)]
    with_offset, without = (np.sqrt(np.mean(error**2)) for error in errors)
    assert with_offset < within
    assert with_offset < 0.3 * without


def test_the_goal_offset_at_rest_is_that_of_the_position_law():
    """0.6 N·m at the horn of an `ax12` need 0.585 A, which is a duty of 0.23 with 3.3 + 4.7·0.23 ohm."""
    at_rest = np.zeros(2)
    offset = goal_offset(servo("ax-12a", "ax12"), PROFILES["ax-12a"], SUPPLY, at_rest, at_rest, np.array([0.6, -0.6]))
    current = 0.6 / (0.5944 * 0.006796 * 254)
    duty = current * 3.305 / (SUPPLY - 4.695 * current)
    punch = (32 / 1023 - 0.0775) / (1 - 0.0775)
    wanted = COUNT + 32 * COUNT * (duty - punch) / (1 - punch)
    assert offset == pytest.approx([wanted, -wanted], rel=1e-3)
    assert math.degrees(wanted) == pytest.approx(2.9, abs=0.2)
