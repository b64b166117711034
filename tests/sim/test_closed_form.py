"""What a recording of the virtual servo shows, the closed form shows, too: one loop, one motor, one friction."""

from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.comparison import compare
from axbridge.comparison.recorded_runs import runs_of
from axbridge.comparison.simulate import simulate
from axbridge.config.rig import Rig
from axbridge.errors import RecordingError
from axbridge.motion.experiments import Options, conduct
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.recording.recording import Recording, Track
from axbridge.recording.stored import open_recording
from axbridge.robot.open import open_robot

STEP = Options(angles=(0.5, -1.2), duration=1.0)


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
        pytest.param("step", Options(angles=(0.5, -1.2), duration=1.0, slope=128), {}, id="slope written"),
        pytest.param("step", STEP, {"registers": {"cw_compliance_slope": 128}}, id="slopes that differ"),
        pytest.param("step", STEP, {"direction": -1}, id="turned round"),
        pytest.param("step", STEP, {"min_stop": -0.9, "max_stop": 0.7}, id="hard stop"),
        pytest.param("step", STEP, {"model": "lima2009-strict"}, id="sampled and limited"),
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
def test_the_closed_form_does_what_the_virtual_servo_did(tmp_path, name, options, servo):
    recording, rig = recorded(tmp_path, name, options, **servo)
    assert np.ptp(recording["shoulder"].position) > 0.3
    (pair,) = compare(recording, simulate(recording, rig)).pairs
    assert pair.plain.rmse < (0.9 if servo.get("model") else 0.5)  # a loop of 10 ms is not in step with the recording


def test_a_robot_does_not_pretend_to_repeat_a_motion_by_duty():
    time = np.arange(0, 1, 0.01)
    turned = Track.of("pan", time, position=0 * time, duty=0 * time + 0.3, torque_enabled=0 * time + 1)
    rig = Rig.load("pan_tilt")
    with pytest.raises(RecordingError, match=f"turns {rig.servos[0].name} by duty"):
        simulate(Recording(Path("turned.mcap"), {rig.servos[0].name: turned}), rig)


def test_a_full_speed_set_point_is_no_limit_unless_the_rig_has_one():
    """At full speed the register says 0, no limit, while the set-point that is recorded is the speed without load."""
    arm = Rig.load("bench_arm").with_model("ax12")
    full = arm.profile_of(arm.servos[0]).electrics.no_load_speed * 2 * np.pi / 60
    time = np.arange(0, 1.0, 0.02)
    recording = Recording(
        Path("a.mcap"),
        {"shoulder": Track.of("shoulder", time, command=1.5 * time, speed_limit=np.full(50, full), position=0 * time)},
        metadata=describe(backend="sim"),
    )
    assert (runs_of([recording], arm).speed_limit == 0).all()
    slower = arm.with_servos(lambda _: {"max_velocity": full})
    assert (runs_of([recording], slower).speed_limit == full).all()
