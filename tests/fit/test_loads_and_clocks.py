from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.errors import UsageError
from axbridge.fit.least_squares import misfits, polish
from axbridge.fit.pipeline import fit_model
from axbridge.fit.prediction import predicted
from axbridge.fit.prepare import base_model, inertia_of, loaded_with, prepare
from axbridge.fit.suspects import sampling
from axbridge.fit.unknowns import space_of
from axbridge.recording import import_wizard
from axbridge.recording.import_logs import import_log
from axbridge.recording.import_wizard import GivenGoal
from axbridge.servo.columns import Param
from tests.fit.test_identify import motion

pytestmark = pytest.mark.slow

STEPS = Path(__file__).parents[2] / "docs" / "real" / "ax12a_steps"
RIG = Rig.load("bare_horn")
BAR = "bar:0.088,0.37227,0.01915"
FREE = [f"AX12A_NOLOAD_{k}.csv" for k in (1, 2, 3)]
HELD = ("motor.efficiency", "friction.coulomb", "friction.viscous")
LOADED = [f"AX12A_LOAD2_{k}.csv" for k in (1, 2, 3)]


def recordings(names):
    return [import_log(STEPS / name, servo="horn", goal=GivenGoal(500)) for name in names]


def with_bar(runs):
    return loaded_with([f"{run.path.name}={BAR}" for run in runs], runs)[0]


def test_loads_are_parsed():
    assert inertia_of(BAR) == pytest.approx(1.019e-3, rel=1e-3)
    assert inertia_of("inertia:0.002") == 0.002
    for text in ("", "bar", "bar:1,2", "bar:1,2,x", "ball:1", "bar:-1,1,1", "inertia:nan"):
        with pytest.raises(UsageError, match="load"):
            inertia_of(text)


def test_each_recording_has_its_own_load():
    free, loaded = recordings([FREE[0], LOADED[0]])
    assert runs_of([free, *with_bar([loaded])], RIG).inertia == pytest.approx([2e-7, 1.019e-3], rel=1e-3)
    with pytest.raises(UsageError, match="no recording of this fit"):
        loaded_with([f"other.mcap={BAR}"], [free])
    with pytest.raises(UsageError, match="no load of a recording"):
        loaded_with([BAR], [free])


def test_unknown_command_times_are_estimated():
    row = packed(base_model(RIG, "ax12"), RIG)
    runs = runs_of(recordings(FREE[:2]), RIG)
    assert runs.unknown_command_times.tolist() == [1, 1]
    truth = predicted(row[None], runs)[0]
    moved = runs._replace(position=truth, sent=runs.sent + 0.017)
    np.testing.assert_allclose(predicted(row[None], moved)[0], truth, atol=0.01)


def test_recordings_with_known_command_times_are_unchanged():
    row = packed(base_model(RIG, "ax12"), RIG)
    first, other = recordings(FREE[:2])
    timed = replace(other, metadata={k: v for k, v in other.metadata.items() if k != "goal"})
    both, alone = runs_of([first, timed], RIG), runs_of([timed], RIG)
    assert both.unknown_command_times.tolist() == [1, 0]
    np.testing.assert_array_equal(predicted(row[None], both)[0][both.start[1] :], predicted(row[None], alone)[0])


@pytest.mark.parametrize(
    ("fitted", "left_out"),
    [pytest.param(FREE, LOADED, id="free"), pytest.param(LOADED, FREE, id="loaded", marks=pytest.mark.ci)],
)
def test_a_fit_to_one_load_predicts_another(fitted, left_out):
    groups = {names[0]: recordings(names) for names in (FREE, LOADED)}
    groups[LOADED[0]] = with_bar(groups[LOADED[0]])
    runs, unseen = runs_of(groups[fitted[0]], RIG), runs_of(groups[left_out[0]], RIG)
    base = packed(base_model(RIG, "ax12"), RIG)
    # efficiency is the scale of torques in N·m: a single load does not identify it
    space = space_of("ax12", "M1", base, unknown_command_times=True).without(HELD)
    points = []
    for share in (0.6, 1.25):  # start points away from the truth
        start = base.copy()
        start[[Param.ARMATURE, Param.LAG, Param.DEAD_DUTY]] *= share
        points.append(polish(space, runs, space.point(start), rounds=15))
    row = space.sets(points[int(np.argmin(misfits(space, runs, np.array(points))))][None])[0]
    error = np.degrees(predicted(row[None], unseen)[0] - unseen.position)
    assert np.sqrt(unseen.means(error**2)).max() < 0.56
    for a, b in zip(unseen.start[:-1], unseen.start[1:], strict=True):
        top, real = (
            np.degrees(path[a:b].max() - path[a:b][-1]) for path in (predicted(row[None], unseen)[0], unseen.position)
        )
        assert top == pytest.approx(real, abs=1.0)  # of 7°; the prior model was 5° off


@pytest.mark.ci
def test_steps_alone_keep_friction_and_torque_of_the_model():
    """More friction with more torque fits the steps of two loads slightly better: not enough for a sticking gear."""
    whole = (*recordings(FREE[:1]), *with_bar(recordings(LOADED[:1])))
    runs = [replace(run, tracks={"horn": run["horn"].between(1.2, 2.7)}) for run in whole]
    sticking = packed(base_model(RIG, "ax12"), RIG)
    sticking[[Param.EFFICIENCY, Param.COULOMB, Param.ARMATURE, Param.DEAD_DUTY]] = 0.93, 0.2, 0.0105, 0.045
    fit = fit_model(prepare(runs, RIG, "ax12", near=sticking), starts=1, generations=5, richer=False, where=map)
    assert {"motor.efficiency", "friction.coulomb"} <= {*fit.uncertainty.flat}
    values = {estimate.unknown.name: estimate.value for estimate in fit.estimates}
    assert values["friction.coulomb"] == pytest.approx(0.01, rel=0.1)
    assert values["motor.efficiency"] == pytest.approx(0.5944, rel=0.05)
    limp = motion(fit.row, fall=True, step=np.pi / 2, noise=0.0)["shoulder"]  # on bench_arm
    assert np.degrees(np.abs(limp.position)).min() < 5  # the arm falls


def test_missing_samples_of_a_coarse_clock_are_missing_replies():
    runs = recordings(FREE[:1])
    (warning,) = (line for line in sampling(runs) if "missing" in line)  # 205 of 234 polls, not of 293
    assert warning.startswith("samples are missing: AX12A_NOLOAD_1.csv 13 %")
    # errors of the time count while the joint turns
    assert runs_of(runs, RIG).spread.tolist() == [import_wizard.JITTER]
