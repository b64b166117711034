"""Recorded commands through a model: the pendulum's energy, its rest, and the real log."""

import math
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.comparison import compare, following
from axbridge.comparison.recorded_runs import arm_of, packed
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError, RigError
from axbridge.recording.import_logs import import_log
from axbridge.recording.recording import Recording, Track
from axbridge.servo.columns import Command, Param
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import FREE, JOINT_MODE, Regime, Runs

LOG = Path(__file__).parents[2] / "docs" / "real" / "xl330_pendulum" / "xl330_kp400_lift_and_drop.json"
TIME = np.arange(0, 2, 0.01)


@pytest.mark.parametrize(("rpy", "phase"), [("0 0 0", 0.0), ("0 -0.5 0", 0.5)])
def test_an_arm_that_does_not_hang_at_zero_has_a_phase(tmp_path, rpy, phase):
    rig = Rig.load("bench_arm")
    text = rig.urdf_path().read_text().replace('<origin xyz="0 0 0"/>', f'<origin xyz="0 0 0" rpy="{rpy}"/>')
    (tmp_path / "bench_arm.urdf").write_text(text)
    moved = rig.model_copy(update={"path": tmp_path / "bench_arm.toml"})
    arm = arm_of(moved, moved.servos[0])
    assert arm.inertia == pytest.approx(7.2e-4, rel=1e-3)
    assert math.remainder(arm.phase - phase, 2 * math.pi) == pytest.approx(0, abs=1e-6)


def test_a_rig_with_another_joint_has_no_single_arm(tmp_path):
    rig = Rig.load("bench_arm")
    mass = '<inertial><mass value="0.1"/><inertia ixx="1e-5" iyy="1e-5" izz="1e-5"/></inertial>'
    wrist = '<joint name="wrist" type="continuous"><parent link="arm"/><child link="hand"/></joint>'
    more = f'<link name="hand">{mass}</link>{wrist}</robot>'
    (tmp_path / "bench_arm.urdf").write_text(rig.urdf_path().read_text().replace("</robot>", more))
    moved = rig.model_copy(update={"path": tmp_path / "bench_arm.toml"})
    with pytest.raises(RigError, match="several moving parts"):
        arm_of(moved, moved.servos[0])


def runs(position, *, driven=Regime.OFF, goal=0.0, time=TIME):
    n = len(time)
    return Runs(
        start=np.array([0, n]), time=time, sent=time, goal=np.full(n, goal), driven=np.full(n, int(driven)),
        speed_limit=np.zeros(n), duty=np.full(n, JOINT_MODE), cap=np.ones(n), position=np.full(n, position),
        velocity=np.zeros(n), supply=np.full(1, 9.6), inertia=np.full(1, 7.2e-4), gravity=np.full(1, 0.081),
        phase=np.zeros(1), temperature=np.full(1, np.nan), passive=FREE[None], settings=np.zeros((1, len(Command))),
    )  # fmt: skip


def params(**values):
    rig = Rig.load("bench_arm")
    row = packed(rig.model_of(rig.servos[0]), rig)
    for name, value in values.items():
        row[Param[name]] = value
    return row[None]


def test_a_limp_arm_without_friction_swings_at_its_frequency():
    angle = rollouts(params(VISCOUS=0.0, COULOMB=0.0), runs(0.1), 1e-4)[0]
    np.testing.assert_allclose(angle, 0.1 * np.cos(math.sqrt(0.081 / 7.2e-4) * TIME), atol=0.004)


def test_the_papers_step_ends_where_the_paper_says():
    angle = np.degrees(rollouts(params(), runs(0.0, driven=Regime.ON, goal=math.pi / 2))[0])
    assert angle[-1] == pytest.approx(89.29, abs=0.1)
    assert np.interp(0.9 * angle[-1], angle, TIME) - np.interp(0.1 * angle[-1], angle, TIME) == pytest.approx(
        0.24, abs=0.02
    )


def test_latency_delays_the_command_and_nothing_else():
    step = runs(0.0, driven=Regime.ON)._replace(goal=np.where(TIME >= 0.5, 1.0, 0.0))
    prompt, late = rollouts(np.concatenate((params(), params(LATENCY=0.05))), step)
    np.testing.assert_allclose(late[5:], prompt[:-5], atol=0.02)


def test_a_warm_winding_has_more_resistance_and_a_lopsided_motor_more_torque_one_way():
    cold = runs(0.0, driven=Regime.ON, goal=1.0)._replace(temperature=np.full(1, 25.0))
    warm = cold._replace(temperature=np.full(1, 45.0))
    law = {"RESISTANCE_PER_KELVIN": 0.02, "AMBIENT": 25.0}
    np.testing.assert_allclose(rollouts(params(**law), warm), rollouts(params(RESISTANCE=8.0 * 1.4), cold), rtol=1e-9)
    lopsided = rollouts(params(ASYMMETRY=0.1), cold)  # a motor that pushes harder one way
    np.testing.assert_allclose(lopsided, rollouts(params(EFFICIENCY=1.1), cold), rtol=1e-9)


def test_the_papers_structure_on_a_real_log_is_a_few_degrees_off():
    log = import_log(LOG)
    simulated = simulate(log, Rig.load("xl330_pendulum"))
    assert simulated["servo"].position[0] == log["servo"].position[0]
    assert "closed form" in simulated.metadata["engine"]
    assert 1.0 < compare(log, simulated).pairs[0].plain.mae < 8.0


@pytest.mark.parametrize("name", ["bench_arm", "leg"])
def test_a_goal_does_not_act_before_it_was_sent(name):
    rig = Rig.load(name)
    joints = [servo.name for servo in rig.servos[:3]]
    still, steady = np.zeros(len(TIME)), np.full(len(TIME), 0.3)
    tracks = {
        joint: Track.of(
            joint, TIME, position=still, velocity=still, command=steady, torque_enabled=np.ones(len(TIME)),
            commanded=np.maximum(TIME + 0.005, 0.2),
        )
        for joint in joints
    }  # fmt: skip
    simulated = simulate(Recording(Path("late.mcap"), tracks), rig)[joints[0]]
    before = simulated.position[(simulated.time > 0.05) & (simulated.time < 0.19)]
    assert np.abs(np.degrees(before)).max() < 2.0
    assert math.degrees(simulated.position[-1]) > 14.0


def test_every_goal_acts_when_it_was_sent_and_samples_are_of_their_own_moments():
    """A loop that is late, and asks one servo after the other: once, goals went out in whole periods."""
    rig = Rig.load("leg")
    period, latency = rig.robot.basic_time_step_ms / 1000, 0.02
    asked = np.arange(0.0, 0.6, period)
    asked[12:] += 0.4 * period  # a late cycle: the loop goes on from there
    tracks, went_out = {}, asked[15] + 0.007
    for place, servo in enumerate(rig.servos):
        time = asked + 0.0003 * place
        tracks[servo.name] = Track.of(
            servo.name, time, position=np.zeros(len(time)), command=np.where(asked >= asked[15], 0.1, 0.0),
            torque_enabled=np.ones(len(time)), commanded=asked + 0.007,
        )  # fmt: skip
    found = simulate(Recording(Path("late.mcap"), tracks), rig, "ax12")
    for name, track in found.items():
        np.testing.assert_array_equal(track.time, tracks[name].time)
        begun = track.time[np.argmax(np.abs(track.load) > 0.3)]
        assert went_out + latency <= begun < went_out + latency + 1.3 * period, name


def test_a_joint_that_reads_as_beyond_its_stop_starts_on_it():
    rig = Rig.load("bioloid").overridden({"world": {"fixed_base": True, "ground": False}})
    low, _ = rig.stops_of(next(servo for servo in rig.servos if servo.name == "left_knee"))
    time = np.arange(0.0, 0.1, rig.robot.basic_time_step_ms / 1000)
    where = np.full(len(time), low - 0.01)
    limp = Track.of("left_knee", time, position=where, command=where, torque_enabled=np.zeros(len(time)))
    found = simulate(Recording(Path("limp.mcap"), {"left_knee": limp}), rig)["left_knee"]
    assert found.position[0] == pytest.approx(low, abs=0.005)


def turning(duty, position):
    """A recording in wheel mode that reads `position`."""
    n = len(TIME)
    track = Track.of(
        "shoulder", TIME, duty=np.full(n, duty), position=position, torque_enabled=np.ones(n), voltage=np.full(n, 9.6),
        velocity=np.gradient(position, TIME),
    )  # fmt: skip
    return Recording(Path("duty.mcap"), {"shoulder": track}, (), {}, {})


def test_an_arm_in_wheel_mode_goes_on_after_the_dead_zone_from_where_it_is_seen_again():
    rig = Rig.load("bench_arm")
    angle = rollouts(params(), runs(0.0, driven=Regime.ON)._replace(duty=np.full(len(TIME), 0.8)))[0]
    assert angle[-1] > math.radians(250)
    turn, end = 2 * math.pi, math.radians(150)
    within = (angle + math.pi) % turn - math.pi
    recording = turning(0.8, np.clip(within, -end, end))
    seen = np.abs(within) < math.radians(149)
    simulated = simulate(recording, rig)["shoulder"].position
    assert np.isnan(simulated[np.abs(within) > end]).all()
    assert np.isfinite(simulated[seen]).mean() > 0.97
    error = np.degrees(simulated - within)[seen]
    assert np.nanmax(np.abs(error)) < 2.0
    (pair,) = compare(recording, simulate(recording, rig)).pairs
    assert pair.plain.rmse < 1.0
    assert pair.plain.samples <= np.isfinite(simulated).sum()
    with pytest.raises(RecordingError, match="cannot see it"):  # never seen
        simulate(turning(0.5, np.full(len(TIME), end)), rig)


@pytest.mark.parametrize("judge", [following, lambda made: simulate(made, "bare_horn")])
def test_a_graph_without_goals_is_imported_again_with_them(judge):
    graph = Path(__file__).parents[2] / "docs" / "real" / "ax12a_steps" / "AX12A_NOLOAD_1.csv"
    with pytest.raises(RecordingError, match=r"holds no commands\nimport it again with `--goal COUNTS@auto --force`"):
        judge(import_log(graph, servo="horn"))
