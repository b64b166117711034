import math
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.comparison import compare
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.config.toml_tables import merged
from axbridge.errors import RecordingError
from axbridge.fit.unknowns import FRICTION_LAWS, space_of
from axbridge.motion.experiments import Options, conduct
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording, Track
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot
from axbridge.servo.columns import Command, Param, Passive
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import FREE, JOINT_MODE, Regime, Runs


def recordings():
    """Return six recordings of steps and sines with all features of a recording; comments name them."""
    rng = np.random.default_rng(5)
    samples, facts, drives = [], [], []
    for number in range(6):
        n = 60 + 13 * number
        time = np.concatenate(([0.0], np.cumsum(rng.uniform(0.002, 0.012, n - 1))))
        goal = np.repeat(rng.uniform(-1.5, 1.5, n), 20)[:n] if number % 2 else 1.2 * np.sin(9 * time)
        driven, limit, duty, cap = np.full(n, int(Regime.ON)), np.zeros(n), np.full(n, JOINT_MODE), np.ones(n)
        limit[n // 2 :] = 1.5  # rad/s
        drive = FREE.copy()
        if number == 0:
            cap[20:30], cap[30:40] = 0.0, 0.5
        if number == 2:  # spring, damper, friction and stops
            drive[:] = 0.05, 0.002, 0.01, -0.8, 0.9
        if number == 3:  # held, then without torque
            driven[:15], driven[40:60] = Regime.HELD, Regime.OFF
        if number == 4:  # followed in the middle and at the end
            driven[30:40], driven[-3:] = Regime.FOLLOWED, Regime.FOLLOWED
        if number == 5:  # wheel mode
            duty[20:50], duty[50:70] = 0.4, -0.9
        samples.append(
            (time, time + rng.uniform(-1e-3, 1e-3), goal, driven, limit, duty, cap, 0.2 * np.cos(time), limit)
        )
        facts.append((9.6 + 0.3 * number, 7e-4 * (1 + number), 0.08 * (1 + 0.3 * number), 0.1 * number,
                      math.nan if number % 2 else 45.0))  # fmt: skip
        drives.append(drive)
    settings = np.zeros((6, len(Command)))
    settings[:, [Command.SLOPE_CW, Command.SLOPE_CCW, Command.P_GAIN]] = 0.2, 0.1, 400
    settings[:, [Command.MARGIN_CW, Command.MARGIN_CCW, Command.PUNCH]] = 0.005, 0.01, 0.03
    start = np.cumsum([0, *(len(part[0]) for part in samples)]).astype(np.int64)
    columns = [np.concatenate(parts) for parts in zip(*samples, strict=True)]
    return Runs(start, *columns, *(np.array(values) for values in zip(*facts, strict=True)), np.array(drives), settings)


def sets(model, law, count, **values):
    rig = Rig.load("bench_arm")
    base = packed(rig.specs[rig.servos[0].name].load_model("lima2009" if model == "lima2009" else "ax12"), rig)
    base[[Param.RESISTANCE_PER_DUTY, Param.RESISTANCE_PER_KELVIN, Param.OFFSET]] = 2.0, 0.004, 0.01
    if model == "pendulum-servo":
        base[[Param.LAW, Param.P_DUTY, Param.I_DUTY, Param.D_DUTY]] = 2, 4e-5, 1e-5, 1e-7
    for name, value in values.items():
        base[Param[name]] = value
    space = space_of(model, law, base)
    return space.sets(np.random.default_rng(1).uniform(0.1, 0.9, (count, len(space))))


@pytest.mark.parametrize("law", FRICTION_LAWS)
@pytest.mark.parametrize("model", ["lima2009", "ax12", "pendulum-servo"])
def test_a_current_limit_that_is_never_reached_changes_nothing(model, law):
    runs, params = recordings(), sets(model, law, 3, MAX_CURRENT=0.0)
    limited = params.copy()
    limited[:, Param.MAX_CURRENT] = 1e6
    assert np.abs(rollouts(params, runs) - rollouts(limited, runs)).max() < 1e-9


def test_followed_samples_are_the_measured_ones_and_held_samples_stay_at_the_start():
    runs = recordings()
    positions = rollouts(sets("ax12", "M1", 2), runs)
    followed = runs.driven == Regime.FOLLOWED
    assert followed.sum() == 13
    np.testing.assert_array_equal(positions[:, followed], np.tile(runs.position[followed], (2, 1)))
    begin = runs.start[3]
    assert (positions[:, begin : begin + 14] == runs.position[begin]).all()
    assert (positions[:, begin + 14 : begin + 40] != runs.position[begin]).any()


def test_a_joint_continues_its_motion_after_followed_samples():
    time = np.arange(0.0, 0.6, 0.002)
    n = len(time)
    runs = recordings().only([0])._replace(
        start=np.array([0, n]), time=time, sent=time, goal=0.5 * np.sin(8 * time), driven=np.full(n, int(Regime.ON)),
        speed_limit=np.zeros(n), duty=np.full(n, JOINT_MODE), cap=np.ones(n), position=np.zeros(n), velocity=np.zeros(n),
    )  # fmt: skip
    rig = Rig.load("bench_arm")
    params = packed(rig.specs[rig.servos[0].name].load_model("ax12"), rig)[None]  # its sensor has a lag of 11.3 ms
    whole = rollouts(params, runs)
    driven = np.where(time < 0.4, Regime.FOLLOWED, Regime.ON).astype(np.int64)
    after = rollouts(params, runs._replace(driven=driven, position=whole[0], velocity=np.gradient(whole[0], time)))
    play = params[0, Param.BACKLASH]  # the rotor's position within the play is not measured
    assert np.abs(after - whole).max() < math.radians(0.1) + play / 2


def test_an_unknown_position_law_is_an_error():
    with pytest.raises(ValueError, match="position law"):
        rollouts(sets("ax12", "M4", 3, LAW=7), recordings())


@pytest.mark.parametrize("count", [1, 2, 9, 17])
def test_a_set_on_a_recording_gives_the_same_result_alone_and_with_others(count):
    runs, params = recordings(), sets("pendulum-servo", "M4", 17)
    every = rollouts(params, runs)
    for chosen in ([0], [1, 4], [5, 3, 2]):
        part = runs.only(chosen)
        columns = np.concatenate([np.arange(runs.start[m], runs.start[m + 1]) for m in chosen])
        assert np.abs(rollouts(params[:count], part) - every[:count, columns]).max() < 1e-10


def test_a_motion_that_diverges_stays_marked_and_does_not_change_the_others():
    runs, params = recordings(), sets("lima2009", "M1", 4)
    params[2, Param.ARMATURE] = -8e-4  # a negative inertia, on the first arm
    positions, undisturbed = rollouts(params, runs), rollouts(params[[0, 1, 3]], runs)
    first = positions[2, : runs.start[1]]
    lost = np.flatnonzero(first == 1e3)
    assert len(lost)
    assert np.all(first[lost[0] :] == 1e3)
    assert np.abs(positions[[0, 1, 3]] - undisturbed).max() < 1e-10


def test_no_sets_or_no_samples_give_an_empty_result():
    runs = recordings()
    assert rollouts(sets("ax12", "M1", 1)[:0], runs).shape == (0, len(runs.time))
    assert rollouts(sets("ax12", "M1", 2), runs.only([])).shape == (2, 0)


def test_a_hard_stop_ends_a_swing():
    runs = recordings()
    runs = runs._replace(passive=np.where(np.arange(len(Passive)) == Passive.HIGH, 0.3, FREE) * np.ones((6, 1)))
    assert rollouts(sets("ax12", "M1", 2), runs).max() == pytest.approx(0.31)  # the sensor's offset is 0.01


# ---- comparison with the virtual servo, which has the same loop, motor and friction

STEP, FALL = Options(angles=(0.5, -1.2), duration=1.0), Options(angles=(math.radians(120),))
PLAYING = {"model": "lima2009", "params": {"motor": {"armature": 0.004, "backlash": math.radians(2)}}}


def recorded(folder, name, options, **servo):
    rig = Rig.load("bench_arm").with_servos(lambda _: {"model": "ax12", **servo})
    path = folder / "made.mcap"
    with open_robot(rig, "sim", seed=1) as robot, Recorder(path, describe(rig, backend="sim")) as recorder:
        conduct(name, robot, rig.servos[0].name, recorder, options)
    return open_recording(path), rig


@pytest.mark.parametrize(
    ("name", "options", "servo"),
    [
        pytest.param("step", STEP, {}, id="plain"),
        pytest.param("step", STEP, {"params": {"controller": {"slope": 0.35, "punch": 0.02}}}, id="identified law"),
        pytest.param("step", STEP, {"registers": {"cw_compliance_slope": 128}}, id="slopes that differ"),
        pytest.param("step", STEP, {"direction": -1}, id="turned round"),
        pytest.param(
            "stall", Options(angles=(1.2,), duties=(1.0,)), {"min_stop": -0.9, "max_stop": 0.7}, id="hard stop"
        ),
        pytest.param("step", STEP, {"model": "lima2009-strict"}, id="sampled and limited"),
        pytest.param("fall", FALL, PLAYING, id="play"),
        pytest.param(
            "fall", FALL, merged(PLAYING, {"params": {"friction": {"output": 0.03}}}), id="friction behind it"
        ),
        pytest.param("stall", Options(angles=(1.2,), duties=(0.05, 0.1, 0.2)), {}, id="torque limits"),
        pytest.param(
            "duty",
            Options(duties=(0.3,), duration=0.6),
            {"params": {"sensor": {"latency_ms": 40}}, "min_stop": 0, "max_stop": 0},
            id="first command on the way",
        ),
    ],
)
@pytest.mark.slow
def test_a_rollout_repeats_the_motion_of_the_virtual_servo(tmp_path, name, options, servo):
    recording, rig = recorded(tmp_path, name, options, **servo)
    assert np.ptp(recording["shoulder"].position) > 0.3
    (pair,) = compare(recording, simulate(recording, rig)).pairs
    sampled = servo.get("model") == "lima2009-strict"  # its loop of 10 ms has another phase
    assert pair.plain.rmse < (0.9 if sampled else 0.3 if name == "fall" else 0.5)


def test_simulating_a_recording_of_duty_control_of_a_robot_is_refused():
    time = np.arange(0, 1, 0.01)
    turned = Track.of("pan", time, position=0 * time, duty=0 * time + 0.3, torque_enabled=0 * time + 1)
    rig = Rig.load("pan_tilt")
    with pytest.raises(RecordingError, match=f"turns {rig.servos[0].name} by duty"):
        simulate(Recording(Path("turned.mcap"), {rig.servos[0].name: turned}), rig)


def test_a_full_speed_set_point_is_no_limit_unless_the_rig_has_one():
    """At full speed the register is 0 (no limit), but the recorded set-point is the no-load speed."""
    arm = Rig.load("bench_arm").with_model("ax12")
    full = arm.specs[arm.servos[0].name].profile.electrics.no_load_speed * 2 * np.pi / 60
    time = np.arange(0, 1.0, 0.02)
    recording = Recording(
        Path("a.mcap"),
        {"shoulder": Track.of("shoulder", time, command=1.5 * time, speed_limit=np.full(50, full), position=0 * time)},
        metadata=describe(backend="sim"),
    )
    assert (runs_of([recording], arm).speed_limit == 0).all()
    slower = arm.with_servos(lambda _: {"max_velocity": full})
    assert (runs_of([recording], slower).speed_limit == full).all()
