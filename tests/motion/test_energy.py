"""Moves of least energy need less than minimum jerk, keep poses and limits, and also save energy in the simulator."""

import numpy as np
import pytest

import axbridge
from axbridge import Move, RigError, UsageError
from axbridge.config.rig import Rig
from axbridge.motion.energy import least_energy
from axbridge.motion.moves import Key, Page, tracks
from tests.support.waiting import run

ARM, LEG, BIOLOID = (Rig.load(name) for name in ("bench_arm", "leg", "bioloid"))


def move(*keys, **page):
    return Move(pages={"1": Page(**{"keys": tuple(Key(**key) for key in keys), **page})})


def swing(*angles, time=1.0, **page):
    return move(*({"positions": {"shoulder": angle}, "time": time} for angle in angles), **page)


def legs(**joints):
    return {f"{side}_{joint}": angle for joint, angle in joints.items() for side in ("left", "right")}


STAND = legs(hip_swing=0.632, knee=1.277, ankle_swing=0.645)
BENT = {"hip_swing": 0.982, "knee": 1.977, "ankle_swing": 0.995}


def samples(result, joint):
    page = result.move.single
    trajectory = tracks(page)[joint]
    times = np.arange(page.keys[0].time, page.duration + 1e-9, 0.005)
    return times, np.array([trajectory.at(time) for time in times])


def drawn(rig, played):
    """Return the simulated motors' energy from the first pose to 0.5 s after the last, J; and the final positions."""
    page = played.single
    trajectories = tracks(page)
    with axbridge.open(rig) as robot:
        robot.goto(page.keys[0].positions, 0.8)
        run(robot, 0.5)
        before, now = robot.simulation.energy(), page.keys[0].time
        while now < page.duration + 0.5 - 1e-9:
            now += 0.02
            for joint, trajectory in trajectories.items():
                robot[joint].set_position(trajectory.at(now))
            robot.step()
        return robot.simulation.energy() - before, {joint: robot[joint].position for joint in trajectories}


def test_a_move_needs_less_energy_than_minimum_jerk_in_the_same_time_also_in_the_simulator():
    smooth = swing(0.0, 1.5)
    result = least_energy(ARM, smooth)
    assert result.saved > 0.05
    assert (result.seconds, result.move.single.duration) == pytest.approx((1.0, 2.0))
    start, *_, end = (key.positions["shoulder"] for key in result.move.single.keys)
    assert (start, end) == (0.0, pytest.approx(1.5, abs=1e-4))
    (usual, end), (spared, other) = drawn(ARM, smooth), drawn(ARM, result.move)
    assert spared < 0.95 * usual
    assert other["shoulder"] == pytest.approx(end["shoulder"], abs=0.01)
    held = 0.5 * 0.02  # J in the half second after the move, about
    assert spared == pytest.approx(result.joules + held, rel=0.15)


def test_speed_limits_and_supply_voltage_are_kept():
    free, slow = least_energy(ARM, swing(0.0, 1.5)), least_energy(ARM, swing(0.0, 1.5, speed={"shoulder": 1.75}))
    for result, within in ((free, False), (slow, True)):
        times, angles = samples(result, "shoulder")
        assert (np.abs(np.diff(angles) / np.diff(times)).max() <= 1.75) == within
    assert slow.joules > free.joules
    quick = least_energy(ARM, swing(0.0, 1.5, time=0.35))  # minimum jerk would need 8 rad/s, 15 V
    assert np.abs(np.diff(samples(quick, "shoulder")[1]) / 0.005).max() < 7.0


def test_a_motion_that_needs_more_than_the_supply_voltage_is_refused():
    words = r"shoulder would be .* V after .* s, and may be -9.6 to 9.6 V\ngive the poses more time$"
    with pytest.raises(UsageError, match=words):
        least_energy(ARM, swing(0.0, 1.5, time=0.15))


def test_intermediate_poses_are_reached_in_time_and_pauses_are_rests():
    here, there = {"hip_swing": 0.6, "knee": 1.3}, {"hip_swing": 1.2, "knee": 2.0}
    result = least_energy(
        LEG,
        move(
            {"positions": here, "time": 1.0},
            {"positions": {"knee": 1.5}, "time": 0.5},
            {"positions": there, "time": 0.5, "pause": 0.4, "name": "bent"},
            {"positions": here, "time": 0.6},
        ),
    )
    times, knee = samples(result, "knee")
    assert knee[np.searchsorted(times, 1.5)] == pytest.approx(1.5, abs=0.01)
    assert abs(knee[np.searchsorted(times, 1.51)] - knee[np.searchsorted(times, 1.49)]) > 0.001  # no rest
    assert np.ptp(knee[(times > 2.0) & (times < 2.4)]) == 0.0
    assert result.seconds == pytest.approx(2.0)
    assert [key.name for key in result.move.single.keys if key.name] == ["bent"]


def soft(rig):
    """Return the rig with the servo model of an AX-12."""
    return rig.with_model("ax12").with_engine("mujoco")


@pytest.mark.ci
def test_getting_up_on_soft_servos_needs_less_energy_in_the_simulator_with_symmetrical_legs():
    pytest.importorskip("mujoco")
    deep = legs(hip_swing=1.082, knee=2.177, ankle_swing=1.095)
    smooth = move({"positions": deep, "time": 1.0}, {"positions": STAND, "time": 1.0})
    result = least_energy(soft(BIOLOID), smooth)
    assert result.saved > 0.06  # the second best minimum saves 0.056
    for key in result.move.single.keys:
        assert key.positions["left_knee"] == key.positions["right_knee"]
    (usual, _), (spared, _) = (drawn(soft(BIOLOID), move) for move in (smooth, result.move))
    assert spared < 0.97 * usual


def test_longer_control_periods_need_more_energy():
    pytest.importorskip("mujoco")
    smooth = swing(0.0, 1.5)
    often = soft(ARM)
    seldom = often.model_copy(update={"robot": often.robot.model_copy(update={"basic_time_step_ms": 40.0})})
    predicted = [least_energy(rig, smooth).minimum_jerk for rig in (often, seldom)]
    assert predicted[1] > 1.2 * predicted[0]
    held = 0.5 * 0.03  # J in the half second after the move, about
    assert drawn(often, smooth)[0] == pytest.approx(predicted[0] + held, rel=0.12)


@pytest.mark.parametrize(
    ("pose", "message"),
    [
        (legs(hip_swing=2.0), "pose 2 cannot be held: zero-moment point ahead"),
        ({f"left_{joint}": angle for joint, angle in BENT.items()}, "pose 2 cannot be held: a foot's place"),
    ],
)
def test_poses_in_which_a_standing_robot_falls_or_lifts_a_foot_are_refused(pose, message):
    start = {joint: STAND[joint] for joint in pose}
    with pytest.raises(UsageError, match=message):
        least_energy(BIOLOID, move({"positions": start, "time": 1.0}, {"positions": pose, "time": 1.0}))


BARE = BIOLOID.model_copy(update={"servos": tuple(s.model_copy(update={"position": 0.0}) for s in BIOLOID.servos)})
LIFTED = legs(knee=0.5) | {"right_knee": 1.0}


@pytest.mark.parametrize(
    ("rig", "poses", "message"),
    [
        (ARM, [{"shoulder": 0.0}], "fewer than two poses"),
        (ARM, [{"shoulder": 0.0}, {"shoulder": 4.0}], "beyond its limits"),
        (ARM, [{"shoulder": 0.0}] * 50, "through 49 poses without a rest"),
        (ARM, [{"tail": 0.0}, {"tail": 1.0}], "no servo tail"),
        (BARE, [LIFTED, LIFTED], "1 link with a box"),
    ],
)
def test_invalid_moves_and_rigs_are_refused(rig, poses, message):
    with pytest.raises((UsageError, RigError), match=message):
        least_energy(rig, move(*({"positions": pose, "time": 1.0} for pose in poses)))


def test_poses_close_together_are_reached_in_time():
    poses = ((0.0, 1.0), (0.9, 0.8), (1.0, 0.04), (1.12, 0.04), (1.5, 0.4))
    result = least_energy(ARM, move(*({"positions": {"shoulder": angle}, "time": time} for angle, time in poses)))
    times, angles = samples(result, "shoulder")
    for angle, time in ((0.9, 1.8), (1.0, 1.84), (1.12, 1.88), (1.5, 2.28)):
        assert angles[np.abs(times - time).argmin()] == pytest.approx(angle, abs=0.01)
