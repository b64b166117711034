"""Energy, battery, supply sag, true positions and torques of a simulation, against independent calculations."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import axbridge
from axbridge.config.rig import Rig
from axbridge.motion.experiments import Options, conduct
from axbridge.recording.recorder import Recorder
from axbridge.recording.stored import open_recording
from axbridge.servo.columns import Command, Mode, Passive, State
from axbridge.virtual.assembly import build_bank
from tests.support.robot_files import write_comb
from tests.support.waiting import run

pytestmark = pytest.mark.slow

RA, LA, K, BV, FC = 8.0, 5e-3, 0.006810 * 254, 0.01278, 1.71e-5
INERTIA, WEIGHT = 7.2e-4, 0.081  # of bench_arm
SUPPLY = 9.6
COUNT = math.radians(300) / 1023
LOAD = 0.1263 * 9.81 * 0.0654  # N·m: the arm, held level


def paper_energy(goal, duration):
    """Integral of U·i, J, where positive, of the paper's servo lifting its arm from 0 to `goal`."""

    def rates(_, y):
        angle, speed, current, _ = y
        volts = min(max(30 * (goal - angle) + 1.2 * speed, -SUPPLY), SUPPLY)
        torque = K * current - BV * speed - FC * math.tanh(speed / 1e-4) - WEIGHT * math.sin(angle)
        return [speed, torque / INERTIA, (volts - K * speed - RA * current) / LA, max(0.0, volts * current)]

    return solve_ivp(rates, (0, duration), [0.0] * 4, "LSODA", rtol=1e-8, atol=1e-10, max_step=2e-4).y[3, -1]


@pytest.mark.parametrize("resistance", [0.0, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("duty", [1.0, 0.4])
def test_eighteen_stalled_servos_lower_the_voltage_by_ohms_law(tmp_path, resistance, duty):
    extra = f'[[bus]]\nname = "main"\nsupply_voltage = 11.1\nsupply_resistance = {resistance}'
    bank = build_bank(Rig.load(write_comb(tmp_path, 18, extra=extra)).with_model("lima2009"))
    row = np.zeros(len(Command))
    row[[Command.TORQUE, Command.TORQUE_LIMIT, Command.MODE, Command.DUTY]] = 1, 1, Mode.WHEEL_DUTY, duty
    for index in range(18):
        bank.set_command(index, row, 0.0)
    bank.advance(2.0)  # to their stops
    # each takes i = d·V/Ra in its winding, so d·i of the supply: V = V0 - R·18·d²·V/Ra
    volts = 11.1 / (1 + resistance * 18 * duty**2 / RA)
    before = bank.state.copy()
    assert before[:, State.VOLTAGE] == pytest.approx(volts, rel=1e-3)
    assert before[:, State.CURRENT] == pytest.approx(duty * volts / RA, rel=1e-3)
    bank.advance(3.0)
    drawn = bank.state[:, State.ENERGY] - before[:, State.ENERGY]
    assert drawn == pytest.approx((duty * volts) ** 2 / RA, rel=1e-3)  # J in 1 s
    bank.close()


@pytest.mark.parametrize("period", [5, 20, 64])
def test_the_battery_loses_what_the_motors_draw_however_long_the_steps_are(period):
    battery = {"battery": (100.0, 100.0, 0.0), "cpu_consumption": 2.0, "basic_time_step_ms": 20.0}
    with axbridge.open("bench_arm", robot=battery) as robot:
        robot["shoulder"].torque_on()
        robot["shoulder"].set_position(math.pi / 2)
        while robot.time < 0.999:
            robot.step(period)
        lost = 100.0 - robot.battery_energy - 2.0 * robot.time
        assert lost == pytest.approx(paper_energy(math.pi / 2, robot.time), rel=0.03)


def recorded(path, robot, **options):
    with Recorder(path, {}) as recorder:
        conduct("step", robot, "shoulder", recorder, Options(angles=(math.pi / 2,), duration=2.0), **options)
    return open_recording(path)


def test_a_recording_has_the_power_and_it_adds_up_to_the_energy(tmp_path):
    with axbridge.open("bench_arm") as robot:
        track = recorded(tmp_path / "step.mcap", robot, tick_ms=2)["shoulder"]
        drawn = robot.simulation.energy()
    assert track.power.min() >= 0
    assert 0.25 * SUPPLY**2 / RA < track.power.max() < SUPPLY**2 / RA  # as the arm starts, between two samples
    means = 0.5 * (track.power[:-1] + track.power[1:])
    assert means @ np.diff(track.time) == pytest.approx(drawn, rel=0.1)


def test_the_power_at_a_sample_is_that_of_the_duty_that_reaches_the_motor():
    """The bridge of `ax12` loses a part of the duty that its firmware commands and reports."""
    with axbridge.open(axbridge.Rig.load("bench_arm").with_model("ax12")) as robot:
        arm, bank = robot["shoulder"], robot.simulation.world.bank
        arm.set_position(math.pi / 2)
        robot.goto({"shoulder": math.pi / 2}, 0.5)
        run(robot, 0.5)
        drawn = robot.simulation.energy()
        robot.step(20)
        assert 0.05 < abs(arm.load) < 0.4
        assert arm.power == pytest.approx((robot.simulation.energy() - drawn) / 0.02, rel=0.15, abs=0.01)
        assert bank.state[0, State.CURRENT] != 0


@pytest.mark.parametrize("temperature", [33.0, 67.0])
def test_the_power_is_that_of_a_winding_as_warm_as_the_servo_says(temperature):
    """P = U·i with U = d·V and i = U / (R·(1 + k·(T - T0)) + r·d), for a shaft that stands."""
    with axbridge.open(axbridge.Rig.load("xl330_pendulum").with_model("xl330")) as robot:
        (servo,), bank = robot.values(), robot.simulation.world.bank
        motor = robot.rig.specs[servo.config.name].model.motor
        bank.passive[0, Passive.FRICTION] = 9.0  # it stands
        bank.state[0, State.TEMPERATURE] = temperature
        servo.set_duty(0.5)
        run(robot, 0.2)
        drawn = robot.simulation.energy()
        robot.step(20)
        assert (servo.velocity, servo.temperature) == (0.0, pytest.approx(temperature, abs=1))
        volts = servo.load * servo.voltage
        warm = motor.resistance * (1 + motor.resistance_per_kelvin * (servo.temperature - motor.ambient_temperature))
        power = volts**2 / (warm + motor.resistance_per_duty * servo.load)
        assert servo.power == pytest.approx(power, rel=1e-6)
        assert servo.power == pytest.approx((robot.simulation.energy() - drawn) / 0.02, rel=0.05)


@pytest.mark.parametrize("direction", [1, -1])
def test_a_simulated_step_has_the_true_position_and_torque_of_the_joint(tmp_path, direction):
    with axbridge.open(Rig.load("bench_arm").with_servos(lambda _: {"direction": direction})) as robot:
        recording = recorded(tmp_path / "step.mcap", robot)
    track, step = recording["shoulder"], next(s for s in recording.segments if s.data.get("target", 0) > 1)
    assert np.isfinite(track.true_torque).all()
    off = np.abs(track.true_position - track.position)
    assert off.max() < 1.01 * COUNT  # also while it moves: both are of the time of the sample
    assert np.abs(track.velocity).max() * 0.001 > COUNT / 2  # a millisecond off would be seen
    assert off.max() > 0.1 * COUNT  # and it is not the reading
    still = track.between(step.end - 0.3, step.end)
    assert still.true_torque == pytest.approx(LOAD * np.sin(still.true_position), rel=0.01)
    assert track.true_torque.max() > 1.5 * LOAD  # as the arm starts


def test_an_ideal_joint_reports_its_true_state(tmp_path):
    with axbridge.open(Rig.load("bench_arm").with_servos(lambda _: {"drive": "ideal", "id": None})) as robot:
        servo = robot["shoulder"]
        servo.set_position(math.pi / 2)
        run(robot, 3.0)
        assert servo.truth == (servo.position, servo.torque)
        assert servo.truth.torque == pytest.approx(LOAD, rel=0.05)


def test_a_sample_older_than_the_history_has_no_truth():
    with axbridge.open("bench_arm") as robot:
        assert math.isfinite(robot["shoulder"].truth.torque)
        robot.simulation.inject("drop=1")
        robot.step(20)
        assert "shoulder" in robot.last_step.errors
        robot.step(50)
        assert math.isnan(robot["shoulder"].truth.torque)
