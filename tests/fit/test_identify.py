import math
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from axbridge.cli import app
from axbridge.comparison.recorded_runs import packed, runs_of
from axbridge.config.rig import Rig
from axbridge.errors import AxBridgeError, RecordingError, UsageError
from axbridge.fit import identify
from axbridge.fit.html import estimate_table, trace_panels
from axbridge.fit.intervals import Uncertainty, _tolerable, constants_of, marginalise_constants, uncertainty
from axbridge.fit.least_squares import keep_unidentified, misfits, polish
from axbridge.fit.pipeline import _missed, beforehand, beside_models, hidden
from axbridge.fit.prediction import parts, predicted
from axbridge.fit.prepare import base_model, excitation, prepare, resting_noise
from axbridge.fit.result import Score, doubts, summary
from axbridge.fit.search import KEPT, SHARPENED, WAVE, Job, StartOutcome, best_of_both, climb, freed, losses, search
from axbridge.fit.unknowns import Space, space_of
from axbridge.recording.provenance import describe
from axbridge.recording.recording import Event, Recording, Track
from axbridge.servo.columns import Param
from axbridge.sim.rollout import rollouts
from axbridge.sim.runs import Regime

RIG = Rig.load("bench_arm")
COUNT = math.radians(300 / 1023)


def motion(row, *, step=math.pi / 2, fall=False, seed=0, period=0.01, speed_limit=0.0, noise=0.1):
    """Return a step, or a fall, simulated with the model `row`, with an AX-12's rounding and with noise (degrees)."""
    time = np.arange(0, 1.5, period)
    name = "fall" if fall else "step"
    driven = np.zeros(len(time)) if fall else np.ones(len(time))
    command = np.full(len(time), step) if fall else np.where(time >= 0.1, step, 0.0)
    clean = Track.of(
        "shoulder", time, command=command, position=np.full(len(time), step if fall else 0.0),
        torque_enabled=driven, voltage=np.full(len(time), 9.6), speed_limit=np.full(len(time), speed_limit),
    )  # fmt: skip
    facts = {"name": name, "kind": name, "servo": "shoulder", "target": step}
    events = (Event(0.0 if fall else 0.1, "segment", facts),)
    recording = Recording(Path(f"{name}{step:.1f}.mcap"), {"shoulder": clean}, events, {}, describe(backend="sim"))
    truth = rollouts(row[None], runs_of([recording], RIG), 5e-4)[0]
    noisy = truth + np.random.default_rng(seed).normal(0, math.radians(noise), len(time))
    return replace(recording, tracks={"shoulder": replace(clean, position=np.round(noisy / COUNT) * COUNT)})


def lima(**values):
    row = packed(base_model(RIG, "lima2009"), RIG)
    for name, value in values.items():
        row[Param[name]] = value
    return row


def test_signs_of_an_incomplete_fit_are_one_warning():
    sure = Uncertainty(*np.zeros((2, 1)), np.eye(1), np.zeros(1), (), (), ("motor.armature",))
    scores = [Score("a.mcap", 0.5, 0.6, False), Score("b.mcap", 0.5, 0.6, False), Score("c.mcap", 1.3, 1.5, True)]
    (note,) = _missed(sure, scores)
    assert note.startswith("motor.armature ended at an end of the range; c.mcap has the largest error (1.30°; median")
    assert "held-out recordings have larger errors than the rest (1.30°, 0.50°)" in note
    assert _missed(replace(sure, at_end=()), scores[:2]) == ()


def test_a_recording_that_the_model_does_not_follow_is_named():
    good, bad = Score("step.mcap", 0.1, 0.2, held_out=False), Score("fall.mcap", 6.4, 9.7, held_out=True)
    assert doubts([good]) == ()
    (doubt,) = doubts([good, bad])
    assert doubt.startswith("the model does not follow fall.mcap (RMSE 9.7°)")


def test_a_fit_says_when_no_parameter_changes_anything():
    held = motion(ax12_truth(), step=1.2, fall=True)
    # no torque acts: balanced load, torque off
    still = replace(held, metadata={**held.metadata, "load": {"inertia": 1e-3}})
    with pytest.raises(AxBridgeError, match="parameters change nothing"):
        polish(ax12_space(), runs_of([still], RIG), np.full(len(ax12_space()), 0.5))


def ax12_space():
    return space_of("ax12", None, ax12_truth())


def ax12_truth():
    row = packed(base_model(RIG, "ax12"), RIG)
    row[Param.NOISE] = math.radians(0.1)  # the loop's noise equals the recordings' noise
    row[[Param.SLOPE, Param.PUNCH, Param.ARMATURE, Param.COULOMB, Param.LATENCY]] = [0.2, 0.05, 0.003, 0.01, 0.03]
    return row


def ax12_data(row):
    steps = [motion(row, step=math.radians(angle), seed=k) for k, angle in enumerate((20, 60, 120))]
    return [*steps, motion(row, step=2.0, fall=True, seed=5)]


def test_a_disturbed_recording_does_not_change_the_fit():
    row = ax12_truth()
    space, data = ax12_space(), ax12_data(row)
    stalled = data[2]["shoulder"]
    late = np.where((stalled.time > 0.15) & (stalled.time < 0.25), stalled.position - 0.3, stalled.position)
    runs = runs_of([*data[:2], replace(data[2], tracks={"shoulder": replace(stalled, position=late)}), data[3]], RIG)
    result = space.sets(polish(space, runs, space.point(row), rounds=10)[None])[0]
    for column in (Param.EFFICIENCY, Param.SLOPE, Param.LATENCY):
        assert result[column] == pytest.approx(row[column], rel=0.1)


@pytest.mark.parametrize("size", [45, 80, 95])
def test_rounding_at_rest_does_not_narrow_the_intervals(size):
    """At rest, a rounding error of half a count, common to all samples, looks like a gain that is a fifth larger."""
    row = lima()
    space = space_of("lima2009", None, row).without(["friction.coulomb", "friction.viscous"])
    steps = [motion(row, step=math.radians(angle), noise=0.0, period=0.013) for angle in (size, -size)]
    runs = runs_of(steps, RIG)
    sure = uncertainty(space, runs, polish(space, runs, space.point(row)))
    truth = np.array([row[unknown.column] for unknown in space.unknowns])
    assert (sure.low <= truth).all()
    assert (truth <= sure.high).all()
    assert sure.high[0] < 2 * sure.low[0]


def test_noise_at_rest_is_estimated_without_rounding():
    row = lima()
    for noise in (0.0, 0.06, 0.1, 0.3):
        steps = [motion(row, step=math.radians(angle), seed=angle, noise=noise) for angle in (20, 33, 47, 60, 75, 90)]
        assert math.degrees(resting_noise(runs_of(steps, RIG))) == pytest.approx(noise, rel=0.25, abs=0.02)


def test_unknowns_that_are_not_identified_keep_the_models_value():
    row = ax12_truth()
    space = space_of("ax12", None, row)
    runs = runs_of([motion(row, step=math.radians(angle), seed=angle) for angle in (20, 50)], RIG)
    names = [unknown.name for unknown in space.unknowns]
    free = names.index("friction.viscous")
    off = space.point(row)
    off[free] -= 0.1  # another point with the same error
    left = keep_unidentified(space, runs, off, ("friction.viscous",))
    assert left[free] == space.point(row)[free]
    assert misfits(space, runs, left[None])[0] < 1.05 * misfits(space, runs, off[None])[0]
    # a value that the data contradict is not kept
    wrong = row.copy()
    wrong[Param.SLOPE] *= 3
    there = Space(space.unknowns, wrong)
    np.testing.assert_array_equal(keep_unidentified(there, runs, left, ("controller.slope",)), left)


def turn(row, duty, *, whole=False):
    """Return a wheel-mode recording of an arm within the sensor's range; in whole counts if `whole`."""
    recording = motion(row)
    time = recording["shoulder"].time
    clean = replace(recording["shoulder"], duty=np.full(len(time), duty), position=np.zeros(len(time)))
    position = rollouts(row[None], runs_of([replace(recording, tracks={"shoulder": clean})], RIG), 5e-4)[0]
    if whole:
        position = COUNT * np.round(position / COUNT)
    return replace(recording, path=Path("duty.mcap"), tracks={"shoulder": replace(clean, position=position)}, events=())


def test_wheel_mode_identifies_the_torque_constant():
    row = ax12_truth()
    base = row[Param.CONSTANT]
    row[Param.CONSTANT] *= 1.1
    data = [*ax12_data(row), turn(row, 0.2), turn(row, -0.3)]
    runs = runs_of(data, RIG)
    assert "motor.torque_constant" not in [unknown.name for unknown in ax12_space().unknowns]
    space = space_of("ax12", None, ax12_truth(), turning=True)
    before = space.sets(space.point(ax12_truth())[None])[0]
    assert before[Param.CONSTANT] == pytest.approx(base)
    result = space.sets(polish(space, runs, space.point(before), rounds=10)[None])[0]
    assert result[Param.CONSTANT] == pytest.approx(row[Param.CONSTANT], rel=0.02)


def test_points_that_fit_equally_well_are_within_the_intervals():
    """In wheel mode alone, less back-EMF with more viscous friction gives the same speed."""
    row = ax12_truth()
    row[[Param.RESISTANCE_PER_DUTY, Param.RESISTANCE, Param.DEAD_DUTY, Param.VISCOUS]] = 0.0, 8.0, 0.0, 0.008
    runs = runs_of([turn(row, duty, whole=True) for duty in (0.2, -0.3, 1.0)], RIG)
    space = space_of("ax12", None, row, turning=True)
    sure = uncertainty(space, runs, polish(space, runs, space.point(row)))
    other = row.copy()
    other[[Param.VISCOUS, Param.CONSTANT]] = 0.05, 0.73 * row[Param.CONSTANT]
    narrow = space_of("ax12", None, other, turning=True).without(["friction.viscous"])
    other = narrow.sets(polish(narrow, runs, narrow.point(other), rounds=12)[None])[0]
    true, result = (np.sum((rollouts(params[None], runs) - runs.position) ** 2) for params in (row, other))
    assert result < 1.02 * true
    for unknown, low, high in zip(space.unknowns, sure.low, sure.high, strict=True):
        assert low <= other[unknown.column] <= high, unknown.name


def test_the_effect_of_temperature_is_searched_if_recordings_differ_in_it():
    cold, warm = (space_of("pendulum-servo", None, ax12_truth(), warming=warming).unknowns for warming in (False, True))
    assert [unknown.name for unknown in warm if unknown not in cold] == ["motor.resistance_per_kelvin"]


def test_a_recording_without_motion_is_refused():
    for given in (still := motion(lima(), step=0.001), [still]):  # one recording needs no list
        with pytest.raises(RecordingError, match="hardly moves"):
            identify(given, RIG, "ax12")
        with pytest.raises(UsageError, match="no search in 0 generations"):
            identify(given, RIG, "ax12", generations=0)


def test_a_fit_of_a_standing_robot_warns_beforehand():
    robot = Rig.load("bioloid")
    (message,) = beforehand(robot, "left_knee")
    assert "armature and latency of a leg's servo roughly, and friction badly" in message
    assert "hung up by its body" in message
    assert beforehand(robot.overridden({"world": {"fixed_base": True, "ground": False}}), "left_knee") == ()
    assert beforehand(RIG, None) == ()


def test_without_numba_the_command_announces_its_duration(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("axbridge.cli.identify.COMPILED", False)
    command = "identify none.mcap --rig bench_arm --model lima2009 --out x.toml"
    assert app.run(command.split()) == app.MISUSE
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert 'takes hours instead of minutes; python -m pip install "axbridge[fast]"' in first
    assert "none.mcap" in second


def test_a_model_of_several_servos_is_scored_for_each_servo():
    time = np.arange(0, 1.6, 0.02)
    goals = {"pan": np.where(time % 1.0 < 0.5, 0.0, 0.4), "tilt": np.where(time % 1.5 < 0.7, 0.0, -0.3)}

    def motion_of(name, off=0.0, resting=None):
        tracks = {}
        for (servo, goal), late in zip(goals.items(), (0.06, 0.1), strict=True):
            moved = 0 * time if servo == resting else np.interp(time - late, time, goal) + math.radians(off)
            tracks[servo] = Track.of(servo, time, command=goal, position=moved)
        return Recording(Path(name), tracks, (), {}, describe(backend="imported"))

    fit = identify(
        [motion_of("one.mcap"), motion_of("rests.mcap", resting="tilt")], "pan_tilt", "ax12", servo=["pan", "tilt"],
        held_out=[motion_of("two.mcap")], again=[motion_of("again.mcap", off=0.4)], starts=1, generations=1, budget=0.01, richer=False,
        where=map,
    )  # fmt: skip
    names = ["one.mcap pan", "one.mcap tilt", "rests.mcap pan", "two.mcap pan", "two.mcap tilt"]
    assert [score.name for score in fit.scores] == names
    assert [score.floor for score in fit.scores[3:]] == [pytest.approx(0.4)] * 2
    assert all(score.lagging < 0.5 * score.perfect for score in fit.scores[3:])  # each servo has its own delay
    assert [panel.title.partition(":")[0] for panel in trace_panels(fit)] == names


RESISTANCE = [Param.RESISTANCE, Param.RESISTANCE_PER_DUTY]


def test_constants_of_a_fit_are_named():
    space, runs = ax12_space(), runs_of(ax12_data(ax12_truth())[:1], RIG)
    held = constants_of(space, runs)
    assert [constant.name for constant in held] == ["resistance", "torque constant", "dead duty", "lag", "supply"]
    carried = constants_of(space, runs._replace(load=np.zeros((len(runs.time), 4))))
    assert [constant.name for constant in carried[5:]] == ["inertia carried", "weight carried"]


@pytest.mark.ci
@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_intervals_include_errors_of_the_models_resistance(factor):
    truth = ax12_truth()
    truth[RESISTANCE] *= factor
    space, runs = ax12_space(), runs_of(ax12_data(truth), RIG)
    point = polish(space, runs, space.point(space.base), rounds=12)
    narrow = uncertainty(space, runs, point)
    wide, _ = marginalise_constants(narrow, space, runs, point, constants_of(space, runs))
    names = [unknown.name for unknown in space.unknowns]
    torque = names.index("motor.efficiency")
    assert not narrow.low[torque] <= truth[Param.EFFICIENCY] <= narrow.high[torque]
    assert wide.low[torque] <= truth[Param.EFFICIENCY] <= wide.high[torque]
    assert (wide.low <= narrow.low).all()
    assert (wide.high >= narrow.high).all()
    right = replace(space, base=truth)  # a model with the right resistance
    known = uncertainty(right, runs, polish(right, runs, point, rounds=12))
    assert wide.low[torque] <= (known.low[torque] + truth[Param.EFFICIENCY]) / 2
    assert wide.high[torque] >= (known.high[torque] + truth[Param.EFFICIENCY]) / 2
    # identified by the fall, in which a limp motor's resistance has no effect
    friction = names.index("friction.coulomb")
    assert wide.high[friction] - wide.low[friction] < 1.1 * (narrow.high[friction] - narrow.low[friction])


@pytest.mark.parametrize(
    ("name", "factor"),
    [("torque constant", 1.15), ("supply", 1.2), pytest.param("torque constant", 0.85, marks=pytest.mark.ci)],
)
def test_a_better_value_of_a_constant_is_reported(name, factor):
    truth, given = ax12_truth(), factor if name == "supply" else 1.0
    truth[Param.CONSTANT] *= factor / given
    space, runs = ax12_space(), runs_of(ax12_data(truth), RIG)
    runs = runs._replace(supply=runs.supply / given)
    point = polish(space, runs, space.point(space.base), rounds=12)
    _, result = marginalise_constants(uncertainty(space, runs, point), space, runs, point, constants_of(space, runs))
    (wanted,) = (item for item in result if item.constant.name == name)
    assert wanted.factor == pytest.approx(factor, abs=0.05)


def test_a_constants_full_change_counts_as_possible_if_it_reduces_the_error():
    """As for a servo with 30 % less resistance: with 30 % more, the efficiency would have to exceed 1."""
    assert _tolerable(np.array([-0.11, 0.0, 2.2])).min() == -1.0
    assert _tolerable(np.array([0.5, 0.0, 0.5])).max() < 0.4  # values that the data contradict are not included


def test_a_fall_identifies_friction_but_not_the_loop():
    fall = motion(ax12_truth(), step=1.2, fall=True)
    sampled, *lines = excitation(prepare([fall], RIG, "ax12"))
    line_of = {line.partition(":")[0]: line for line in lines}
    assert sampled.startswith("1 recording, 1 s, 100 Hz, gaps: 0, jumps: 0, clock even")
    assert "well identified" in line_of["friction.coulomb"]
    assert "not identified" in line_of["controller.slope"]
    assert "; record steps of several sizes (`axbridge record step --rig RIG`)" in line_of["controller.slope"]


def test_scores_include_simpler_models_and_the_repetition():
    small, middle, *_ = ax12_data(ax12_truth())
    first, again = (motion(ax12_truth(), step=math.radians(60), seed=seed) for seed in (8, 9))
    problem = prepare([middle], RIG, "ax12", held_out=[first], again=[again])
    scores = beside_models(problem, [Score(str(k), 0.1, 0.1, held_out=k == 1) for k in range(2)])
    assert math.isnan(scores[0].perfect)
    assert 0.0 < scores[1].floor < 0.3
    assert scores[1].floor < scores[1].lagging < scores[1].perfect
    with pytest.raises(UsageError, match="repeats no recording that is held out"):
        prepare([small], RIG, "ax12", held_out=[middle], again=[motion(ax12_truth(), step=-1.0)])


def test_hidden_data_have_the_noise_and_rounding_of_the_recordings():
    problem = prepare(ax12_data(ax12_truth()), RIG, "ax12")
    made, row = hidden(problem, seed=1)
    again, _ = hidden(problem, seed=1)
    _, other = hidden(problem, seed=2)
    count = row[Param.COUNT]
    np.testing.assert_array_equal(made.runs.position, again.runs.position)
    assert not np.array_equal(row, other)
    assert np.abs(made.runs.position / count - np.round(made.runs.position / count)).max() < 1e-9
    assert np.degrees(made.runs.errors(predicted(row[None], made.runs)[0])).std() < 0.3
    np.testing.assert_array_equal(made.runs.goal, problem.runs.goal)
    assert (np.abs(made.space.point(row) - made.space.point(problem.space.base)) < 4 * made.space.usual).all()


def test_each_parameter_is_listed_beside_the_hidden_one():
    fit = identify(ax12_data(ax12_truth()), RIG, "ax12", prove=True, starts=1, generations=2, budget=1.0, where=map)
    table = estimate_table(fit)
    assert table.header == ("parameter", "hidden", "value", "95 % from", "to", "unit", "")
    units = {row[0]: row[-2] for row in table.rows}
    assert (units["motor.armature"], units["motor.efficiency"]) == ("kg·m²", "")
    marks = {row[0]: row[-1] for row in table.rows}
    assert marks["motor.armature"] == "comes back"
    assert set(marks.values()) <= {"comes back", "missed", "these recordings do not identify it"}
    assert summary(fit)["parameters"]["motor.armature"]["hidden"] == fit.truth[Param.ARMATURE]


@pytest.mark.parametrize(
    ("options", "message"), [(["--prove", "--out", "x.toml"], "leave --out out"), ([], "add --out")]
)
def test_a_fit_of_hidden_data_writes_no_model(options, message, said):
    refused = said("identify", "r.mcap", "--rig", "bench_arm", "--model", "ax12", *options, code=2)
    assert message in refused


@pytest.fixture(scope="module")
def runs():
    return runs_of(ax12_data(ax12_truth()), RIG)


def only(*columns):
    """Return a space around the truth with these unknowns alone."""
    space = ax12_space()
    return Space(tuple(unknown for unknown in space.unknowns if unknown.column in columns), space.base)


def ahead(width):
    """Return a mapper that runs `width` jobs at once, like as many processes."""

    def mapper(function, jobs):
        left = iter(jobs)
        while several := list(islice(left, width)):
            yield from [function(job) for job in several]

    return mapper


@pytest.mark.parametrize("budget", [1e-6, 0.05])
def test_the_length_of_a_search_does_not_depend_on_the_machine(runs, budget):
    job = Job(only(Param.EFFICIENCY, Param.ARMATURE), runs.only([1]), seed=2, generations=3, loss="huber")
    result = [search(job, ahead(width), starts=6, budget=budget) for width in (2, 5)]
    few, many = ([(outcome.seed, outcome.loss, outcome.rollouts) for outcome in outcomes] for outcomes in result)
    assert few == many


def test_all_starts_run_and_the_best_are_continued(runs):
    reports = []
    job = Job(only(Param.EFFICIENCY, Param.LATENCY), runs.only([1]), seed=1, generations=3, loss="huber")
    result = search(job, map, starts=WAVE + 2, budget=1e6, report=lambda what, _: reports.append(what))
    assert [what for what in reports if ":" not in what] == [
        f"starts 1 to {WAVE} of {WAVE + 2}", f"starts {WAVE + 1} to {WAVE + 2} of {WAVE + 2}",
        f"searching on from the best {KEPT}", f"sharpening the best {SHARPENED}",
    ]  # fmt: skip
    assert [outcome.searched for outcome in result].count(True) == KEPT + SHARPENED
    assert [outcome.loss for outcome in result] == sorted(outcome.loss for outcome in result)


def test_a_local_search_from_random_points_ends_near_the_truth(runs):
    space = only(Param.EFFICIENCY, Param.ARMATURE, Param.LATENCY)
    ends = [climb(Job(space, runs, seed, 0, loss="huber", step=2e-3)) for seed in range(3)]
    truth = space.point(ax12_truth())
    assert min(np.abs(end.point - truth).max() for end in ends) < 0.05


def test_whole_recordings_decide_between_results_with_equal_errors_on_parts(runs):
    space = ax12_space()
    job = Job(space, runs, seed=0, generations=1, parts=parts(runs))
    true = space.point(ax12_truth())
    off = true.copy()
    off[[unknown.column for unknown in space.unknowns].index(Param.COULOMB)] += 0.25
    whole = losses(space, runs, np.array([true, off])).mean(axis=1)
    assert whole[0] < 0.8 * whole[1]
    ends = [StartOutcome(0.50, off, 1, 1), StartOutcome(0.51, true, 1, 2)]
    assert [end.seed for end in best_of_both(job, ends)] == [2, 1]
    assert [end.seed for end in best_of_both(job, [replace(ends[0], loss=0.001), ends[1]])] == [1, 2]


@pytest.mark.slow
def test_an_armature_of_0_is_found_although_its_logarithm_is_searched():
    truth = ax12_truth()
    truth[[Param.ARMATURE, Param.BACKLASH]] = 0.0  # with backlash the rotor moves by itself and needs an inertia
    space = only(Param.ARMATURE, Param.EFFICIENCY)
    space.base[Param.BACKLASH] = 0.0
    job = Job(space, runs_of(ax12_data(truth), RIG), 0, 40, loss="huber")
    result = search(job, map, starts=1, budget=1.0)
    before = job.space.sets(result[0].point[None])[0]
    space, ends = freed(job, result, map)
    after = space.sets(ends[0].point[None])[0]
    assert before[Param.ARMATURE] == pytest.approx(3e-4, rel=0.05)
    assert after[Param.ARMATURE] < 5e-5
    off, near = (abs(row[Param.EFFICIENCY] - truth[Param.EFFICIENCY]) for row in (before, after))
    assert near < off / 3


def test_a_joint_with_armature_is_not_searched_again(runs):
    job = Job(only(Param.ARMATURE, Param.EFFICIENCY), runs, 0, 20, loss="huber")
    result = search(job, map, starts=1, budget=1.0)
    space, ends = freed(job, result, map)
    assert space is job.space
    assert ends is result


def test_parts_cover_the_recordings_from_their_measured_start(runs):
    cut, short, both = (parts(runs, lengths=lengths) for lengths in ((1.0,), (0.4,), (0.4, 1.0)))
    assert cut.recordings == 2 * runs.recordings
    np.testing.assert_array_equal(cut.position, runs.position)
    assert np.ptp(cut.time[cut.start[0] : cut.start[1]]) == pytest.approx(0.75, abs=0.02)
    np.testing.assert_array_equal(both.position, np.concatenate((short.position, cut.position)))  # of each length
    error = np.degrees(np.abs(rollouts(ax12_truth()[None], cut)[0] - cut.position))
    assert cut.means(error).max() < 1.0  # noise and rounding of each start
    held = runs._replace(driven=np.where(runs.time < 0.3, Regime.HELD, runs.driven))
    assert parts(held).time.min() >= 0.3  # samples of a held arm are in no part
    assert parts(runs._replace(driven=np.full(len(runs.time), Regime.HELD))) is None


def test_parts_are_fitted_instead_of_the_recordings(runs):
    space, few = ax12_space(), runs.only([0, 1])
    cut, point = parts(few), np.full((1, len(space)), 0.4)
    job = Job(space, few, seed=0, generations=1, parts=cut)
    whole = replace(job, parts=None).cost(point, 1e-3)[0]
    assert whole == pytest.approx(losses(space, few, point).mean())
    by_length = np.average(losses(space, cut, point)[0], weights=cut.compared)
    assert job.cost(point, 1e-3)[0] == pytest.approx(by_length)
    assert job.cost(point, 1e-3)[0] != pytest.approx(whole, rel=1e-6)  # each part starts at the measured position


def test_a_slip_below_the_huber_limit_widens_the_intervals(runs):
    row, space = ax12_truth(), ax12_space()
    exact = parts(runs._replace(position=rollouts(row[None], runs)[0]))
    since = exact.time - np.repeat(exact.time[exact.start[:-1]], np.diff(exact.start))
    slipped = exact.position + np.radians(0.8) * (abs(since - 0.2) < 0.03)  # below `HUBER`, far above the other errors
    plain, wide = (
        uncertainty(space, data, space.point(row)).share for data in (exact, exact._replace(position=slipped))
    )
    assert (wide > 1.5 * plain).sum() > len(space) / 2
