"""One servo's step, fall and slow sine beside its model, in simulated time: a right one agrees, another one does not."""

import pytest

from axbridge.config.rig import Rig
from axbridge.recording.provenance import describe
from axbridge.recording.recorder import Recorder
from axbridge.robot.open import open_robot
from axbridge.verify.motions import compared, conduct, look_at_motion, suited

PERIOD = 1.2  # s


def moved(rig, real, path):
    """What is found when the servo of `real` does what verify lets that of `rig` do, held in the air."""
    servo = suited(rig)
    held = real.overridden({"world": {"fixed_base": True, "ground": False}})
    with open_robot(held, "sim", seed=3) as robot, Recorder(path, describe(held)) as recorder:
        conduct(robot, servo, recorder, PERIOD)
    return look_at_motion(rig, compared(path, rig, servo), path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bench_arm", pytest.param("bioloid", marks=pytest.mark.ci)])
def test_a_servo_that_is_its_model_is_far_within_its_word(name, tmp_path):
    rig = Rig.load(name)
    found = moved(rig, rig, tmp_path / "motion.mcap")
    assert found.findings == []
    assert set(found.facts["rmse_deg"]) == {"step", "fall", "sine"}
    assert max(found.facts["rmse_deg"].values()) < 0.5


def test_a_servo_with_a_weak_motor_is_not_its_model(tmp_path):
    rig = Rig.load("bench_arm")
    weak = {"motor": {"torque_constant": 0.3 * rig.model_of(rig.servos[0]).motor.torque_constant}}
    real = rig.model_copy(update={"servos": (rig.servos[0].model_copy(update={"params": weak}),)})
    (found,) = moved(rig, real, tmp_path / "motion.mcap").findings
    assert found.kind == "model"
