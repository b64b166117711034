"""A Bioloid walks: in the simulation ahead and upright, on the (virtual) bus as commanded."""

import json
import time
from dataclasses import asdict

import numpy as np
import pytest

import axbridge
from axbridge.cli import app
from axbridge.cli import walk as walk_verb  # noqa: F401 - registers it
from axbridge.config.rig import Rig
from axbridge.motion.gait import Gait
from axbridge.motion.walking import walk
from axbridge.recording.stored import open_recording
from axbridge.rotations import of_axis, product
from tests.support.warm import serving

pytestmark = pytest.mark.slow


OTHERS = ("ax12", "mujoco"), ("lima2009", "bullet"), ("ax12", "bullet")  # as the command walks, below
MORE = [pytest.param(*other, marks=pytest.mark.ci) for other in OTHERS]


@pytest.mark.parametrize(("model", "engine"), [("lima2009", "mujoco"), *MORE])
def test_a_bioloid_walks_ahead_without_falling(model, engine):
    with axbridge.open("bioloid", engine=engine, model=model) as robot:
        outcome = walk(robot, Gait(steps=8))
        assert robot.simulation.base[0][2] > 0.25  # m: on its feet
    assert not outcome.fell
    assert outcome.planned == pytest.approx(0.32)
    assert 0.26 < outcome.distance < 0.36
    assert abs(outcome.sideways) < 0.05
    assert outcome.tilt < np.radians(3.5)  # 3.7 to 7.4 before its servos were led
    assert outcome.speed == pytest.approx(outcome.distance / outcome.seconds)
    assert 2.0 < outcome.energy < 100.0


def test_a_robot_is_let_go_on_its_feet_and_what_its_motors_draw_is_metered():
    """Not 12 mm above the floor, from where it rocked; and no sum of samples, which said a tenth less."""
    seen = []
    with axbridge.open("bioloid", engine="mujoco") as robot:
        sim = robot.simulation
        outcome = walk(robot, Gait(steps=1), progress=lambda *at: seen.append((at, sim.base[0][2], sim.energy())))
    heights = [height for (part, _), height, _ in seen if part == "stand"]
    assert max(heights) - min(heights) < 3e-3
    begun, ended = (energy for at, _, energy in seen if at in {("walk", 0.0), ("end", 0.0)})
    assert outcome.energy == pytest.approx(ended - begun, abs=1e-9)


def test_a_joint_that_is_far_from_the_first_pose_is_not_flung_there():
    speeds = []
    with axbridge.open("bioloid") as robot:
        arm = robot["left_shoulder_swing"]
        arm.goto(2.6, 2.0)
        walk(robot, Gait(steps=1), progress=lambda part, _: part == "walk" or speeds.append(abs(arm.velocity)))
    assert max(speeds) < 4.0  # rad/s: as it sinks while its torque is low; it was 5.1


@pytest.mark.ci
def test_feedback_turns_a_robot_back_that_was_turned_on_its_way():
    """By 10 degrees, early on. Without feedback it went on so; with it, it came back to its line, and went on along it."""
    with axbridge.open("bioloid", engine="mujoco") as robot:
        pushed = []

        def pushing(part, share):
            if part == "walk" and share > 0.1 and not pushed:
                place, turned = robot.simulation.base
                robot.simulation.place_base((place, product(of_axis((0, 0, 1), np.radians(10)), turned)))
                pushed.append(share)

        outcome = walk(robot, Gait(steps=24, feedback=0.3), progress=pushing)
    assert not outcome.fell
    assert abs(outcome.turned) < np.radians(2)
    assert abs(outcome.sideways) < 0.02  # m, of 0.17 without


def test_a_fall_is_noticed_and_ends_the_walk():
    with axbridge.open("bioloid") as robot:
        outcome = walk(robot, Gait(steps=8, zmp_inward=0.04))  # the weight never gets over a foot
    assert outcome.fell
    assert outcome.seconds < Gait(steps=8).duration


def test_the_command_records_every_servo_and_the_way_of_the_base(tmp_path, capsys):
    path = tmp_path / "walk.mcap"
    assert app.run(["walk", "--rig", "bioloid", "--steps", "2", "--record", str(path), "--json"]) == app.DONE
    told = json.loads(capsys.readouterr().out)
    recording = open_recording(path)
    assert len(recording) == 18
    assert [segment.name for segment in recording.segments] == ["get up", "stand", "walk", "end"]
    track = recording["left_knee"]
    walking = recording.segments[2]
    samples = (track.time > walking.start) & (track.time < walking.end)
    assert abs(track.command - track.position)[samples].max() < 0.25  # rad: the joint follows
    cycles = recording.cycles
    under = (cycles["time"] > walking.start) & (cycles["time"] < walking.end)
    assert np.diff(cycles["base_x"][under][[0, -1]])[0] == pytest.approx(told["distance"], abs=0.002)
    apart = np.hypot(*(cycles[f"zmp_{axis}"] - cycles[f"planned_zmp_{axis}"] for axis in "xy"))[under]
    assert np.nanmedian(apart) < 0.02  # m, from where the gait wants the zero-moment point
    assert np.nanmin(cycles["zmp_margin"][under]) > -1e-3  # the floor's push cannot leave the soles
    assert 0.02 < np.nanmedian(cycles["zmp_margin"][under]) < 0.06
    for angle in ("roll", "pitch", "yaw"):  # the IMU of the rig is in the torso, and without noise
        assert np.nanmax(np.abs(cycles[f"imu_{angle}"] - cycles[f"base_{angle}"])[under]) < 0.03
    assert np.nanmedian(cycles["imu_acceleration_z"][under]) == pytest.approx(9.81, abs=0.3)
    assert recording.metadata["gait"] == asdict(Gait(steps=2))  # the options' defaults are the gait's


@pytest.mark.ci
def test_feedback_takes_a_quarter_of_the_tilt_or_more_with_a_noisy_imu_too():
    noisy = [{"name": "imu", "kind": "imu", "orientation_noise": 0.01, "rate_noise": 0.02}]
    rig = Rig.load("bioloid").with_model("lima2009").overridden({"world": {"engine": "mujoco"}, "sensor": noisy})
    tilts = []
    for share in (0.0, 0.3):
        tilts.append(0.0)
        for seed in (0, 1):  # of the noise
            with axbridge.open(rig, seed=seed) as robot:
                tilts[-1] += walk(robot, Gait(feedback=share)).tilt
    assert tilts[1] < 0.75 * tilts[0]


def test_feedback_without_an_imu_is_refused():
    rig = Rig.load("bioloid").model_copy(update={"sensors": ()})
    with axbridge.open(rig) as robot, pytest.raises(axbridge.UsageError, match="feedback needs an IMU"):
        walk(robot, Gait(feedback=0.5))
    with pytest.raises(axbridge.UsageError, match="a feedback of 1"):
        Gait(feedback=1.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--step-height", "12", "--period", "8"], "take shorter or lower steps"),
        (["--step-length", "30", "--period", "8"], "is out of reach"),
        (["--period", "0.4", "--step-height", "3"], "take a longer period"),
    ],
)
def test_what_the_legs_cannot_do_is_refused_before_anything_moves(options, said, capsys):
    assert app.run(["walk", "--rig", "bioloid", *options]) == app.MISUSE
    assert said in capsys.readouterr().err


@pytest.mark.ci
def test_a_walk_runs_on_the_bus_and_does_not_pretend_to_know_where_it_led(monkeypatch):
    monkeypatch.setattr("axbridge.motion.walking._WAIT_FOR_HANDS", 0.5)
    walked = []
    with serving("bioloid") as port, axbridge.open("bioloid", backend="real", port=port) as robot:
        gait = Gait(steps=1, period=0.8, step_height=0.005)
        outcome = walk(robot, gait, progress=lambda part, _: part != "walk" or walked.append(time.monotonic()))
        assert robot["left_knee"].torque_enabled
        assert robot.simulation is None
    assert (outcome.distance, outcome.speed, outcome.fell) == (None, None, None)
    assert outcome.seconds == pytest.approx(walked[-1] - walked[0], abs=0.2)  # with what its steps came late
    assert outcome.energy > 0
