"""A robot recorded by an observer: goals, limits, what changed on the bus, and time that really passed."""

import math

import numpy as np
import pytest

import axbridge
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.motion.experiments import Options, conduct
from axbridge.recording.recorder import Recorder
from axbridge.recording.robot_recorder import RobotRecorder
from axbridge.recording.stored import open_recording


def recorded(path, rig, act, **options):
    with axbridge.open(rig) as robot, Recorder(path, {"backend": "sim"}) as recorder:
        with RobotRecorder(robot, recorder, **options) as log:
            act(robot, log)
        robot.step(20)  # nobody looks any more
    return open_recording(path)


def test_every_kind_of_command_has_its_columns_from_the_sample_on_at_which_it_acts(tmp_path):
    def act(robot, log):
        servo = robot["shoulder"]
        for command in (
            lambda: None,
            lambda: servo.set_position(0.5),
            lambda: (servo.set_velocity(1.0), servo.set_available_torque(0.5 * servo.max_torque)),
            lambda: (servo.set_velocity(9e9), servo.set_available_torque(9e9)),
            lambda: servo.set_velocity(0.0),
            lambda: servo.set_torque(0.1),
            servo.torque_off,
        ):
            command()
            for _ in range(5):
                robot.step(20)

    with pytest.warns(axbridge.ControlWarning):
        found = recorded(tmp_path / "a.mcap", "bench_arm", act)
    track = found["shoulder"]
    assert len(track) == 36
    parts = np.arange(36) // 5
    still = parts == 4

    def column(name):
        return [float(getattr(track, name)[5 * part]) for part in range(7)]

    most = float(track.speed_limit[15])
    np.testing.assert_array_equal(column("torque_enabled"), [0, 1, 1, 1, 1, 1, 0])
    np.testing.assert_allclose(column("command")[:4], [math.nan, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(column("speed_limit")[:4], [math.nan, math.nan, 1.0, most])
    np.testing.assert_allclose(column("torque_limit")[:4], [math.nan, math.nan, 0.5, 1.0])
    assert most > 5  # lifted, and recorded as lifted
    assert set(track.command[still]) == {track.position[20]}  # speed 0 holds it where it was
    assert np.isnan(track.command[25:30]).all()  # torque control


def test_what_changes_on_the_bus_is_an_event(tmp_path):
    def act(robot, log):
        robot["shoulder"].set_position(0.3)
        robot.simulation.inject("dead:1@0.2s")
        for _ in range(40):
            robot.step(20)

    found = recorded(tmp_path / "a.mcap", "bench_arm", act)
    (missing,) = found.events
    assert (missing.name, missing.data["servo"]) == ("missing", "shoulder")
    assert 0.2 < missing.time < 0.4
    assert "1" in missing.data["error"]
    assert found.cycles["errors"].max() == 1


def test_late_steps_do_not_shorten_a_recording(tmp_path):
    def act(robot, log):
        for _ in range(20):
            robot.simulation.world.sleep_until(robot.simulation.world.now() + 0.03)  # the program is too slow
            robot.step(20)
        assert log.late == log.steps == 20
        assert log.time == pytest.approx(robot.time + log.slipped)

    found = recorded(tmp_path / "a.mcap", "bench_arm", act)
    assert np.diff(found["shoulder"].time)[1:] == pytest.approx(0.03, abs=2e-3)
    assert found.cycles["late_ms"] == pytest.approx(10.0, abs=2.0)


def test_time_that_is_paused_is_not_recorded(tmp_path):
    def act(robot, log):
        for paused in (False, True, False):
            log.paused = paused
            for _ in range(5):
                robot.step(20)

    found = recorded(tmp_path / "a.mcap", "bench_arm", act, servos=["shoulder"], cycle=lambda: {"base_x": 1.5})
    assert np.diff(found["shoulder"].time).max() == pytest.approx(0.12, abs=1e-3)
    assert len(found["shoulder"]) == 11
    assert set(found.cycles["base_x"]) == {1.5}


@pytest.mark.parametrize("direction", [1, -1])
def test_a_duty_turns_the_joint_the_way_its_sign_says_and_is_simulated_so(tmp_path, direction):
    """The experiment wrote the register itself: on a servo mounted the other way round, +30 % turned backwards."""
    rig = Rig.load("pendulum")
    turned = [servo.model_copy(update={"direction": direction}) for servo in rig.servos]
    rig = rig.model_copy(update={"servos": tuple(turned)})
    path = tmp_path / "a.mcap"
    with axbridge.open(rig) as robot, Recorder(path, {"backend": "sim"}) as recorder:
        name = next(iter(robot))
        conduct("duty", robot, name, recorder, Options(duties=(0.3,), duration=0.3))
        assert (robot[name].read("cw_angle_limit"), robot[name].read("ccw_angle_limit")) == (0, 1023)
        assert not robot[name].torque_enabled
    track = open_recording(path)[name]
    assert 0 < track.position[15] < 2.0
    assert track.torque[:15].max() > 0.1  # the motor was on; a recording said 0 while the register was written by hand
    assert track.power[:15].max() > 0.1
    again = simulate(open_recording(path), rig)[name]
    assert np.nanmax(np.abs(again.position - track.position)) < 0.1
