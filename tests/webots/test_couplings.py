"""Motors named base::member: commands, limits and getters."""

import math

import pytest

from axbridge import ControlWarning
from tests.support.ideal_world import INERTIA, H, positions

pytestmark = pytest.mark.slow


def test_positions_are_multiplied_for_every_motor_the_commanded_one_too(bench):
    robot = bench.open(
        {"name": "leg::a", "multiplier": 2.0},
        {"name": "leg::b", "multiplier": -0.5},
        {"name": "leg"},
        {"name": "arm::a"},
        {"name": "arm::b"},
    )
    robot["leg::a"].set_position(0.4)
    for _ in range(60):
        robot.step(32)
    assert robot["leg::a"].position == pytest.approx(0.8, abs=1e-4)
    assert robot["leg::b"].position == pytest.approx(-0.2, abs=1e-4)
    assert robot["leg"].position == pytest.approx(0.0, abs=1e-9)
    assert robot["arm::a"].position == pytest.approx(0.0, abs=1e-9)
    assert robot["leg::a"].target_position == pytest.approx(0.4)
    assert robot["leg::b"].target_position == pytest.approx(-0.2)


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
    assert robot["c::b"].acceleration == -1
    assert robot["c::b"].available_torque == 10
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


def test_a_motor_coupled_with_nothing_and_a_multiplier_of_zero_are_said(bench):
    with pytest.warns(ControlWarning, match=r"'lone::a' is coupled with nothing"):
        bench.open({"name": "lone::a"})
    with pytest.warns(ControlWarning, match="must not be 0; it becomes 1"):
        robot = bench.open({"multiplier": 0.0})
    assert robot["j0"].multiplier == 1
